/* SPDX-License-Identifier: Apache-2.0
 *
 * filecopy.c - whole files: copied to the disk, not only to memory, and folders whose
 * names are.
 */
#include "base/file.h"
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define FILECOPY_BUF (256u << 10)

int filecopy_sync_dir(const char *dir, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

	/* Some network file systems refuse fsync() of a folder: their servers do it. */
	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL && errno != EBADF))
		r = err_errno(e, -errno, "cannot write the folder %s to disk", dir);
	if (fd >= 0)
		close(fd);
	return r;
}

static int filecopy_bytes(int in, int out, char *buf)
{
	ssize_t n;
	int r = 0;

	while (r == 0) {
		n = read(in, buf, FILECOPY_BUF);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = file_write_all(out, buf, (size_t)n);
	}
	return r;
}

int filecopy_file(const char *from, const char *to, struct err *e)
{
	char *buf = malloc(FILECOPY_BUF);
	int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out = -1, r = 0;

	if (!buf)
		r = err_set(e, -ENOMEM, "%s: no memory to copy it", from);
	else if (in < 0)
		r = err_errno(e, -errno, "cannot read %s", from);
	if (r == 0) {
		out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
		r = out < 0 ? -errno : filecopy_bytes(in, out, buf);
		if (r == 0 && fsync(out) < 0)
			r = -errno;
		/* A network file system may tell of a full disk only here. */
		if (out >= 0 && close(out) < 0 && r == 0)
			r = -errno;
		if (r < 0) {
			err_errno(e, r, "cannot copy %s to %s", from, to);
			if (out >= 0)
				unlink(to);
		}
	}
	if (in >= 0)
		close(in);
	free(buf);
	return r;
}

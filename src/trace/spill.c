/* SPDX-License-Identifier: Apache-2.0
 *
 * spill.c - opened at the first write, without a name from the start where the file
 * system can do that.
 */
#include "trace/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

void spill_init(struct spill *s, const char *folder)
{
	*s = (struct spill){.fd = -1, .folder = folder};
}

void spill_done(struct spill *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

const char *spill_folder(const struct spill *s)
{
	const char *folder = s->folder ? s->folder : getenv("TMPDIR");

	return folder && *folder ? folder : "/var/tmp";
}

static int open_file(struct spill *s)
{
	const char *folder = spill_folder(s);
	char path[4096];

	s->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (s->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	if (snprintf(path, sizeof(path), "%s/lapse-trace-XXXXXX", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	s->fd = mkostemp(path, O_CLOEXEC);
	if (s->fd < 0)
		return -errno;
	unlink(path);
	return 0;
}

int spill_write(struct spill *s, const void *data, size_t len, uint64_t *ret_offset)
{
	int rc = s->fd < 0 ? open_file(s) : 0;

	if (!rc)
		rc = file_write_all(s->fd, data, len);
	s->error = rc;
	if (rc)
		return rc;
	*ret_offset = s->size;
	s->size += len;
	return 0;
}

int spill_read(const struct spill *s, void *data, size_t len, uint64_t offset)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = pread(s->fd, (char *)data + got, len - got, (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		got += (size_t)n;
	}
	return 0;
}

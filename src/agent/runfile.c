/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/runfile.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int runfile_read(int runs, const char *name, struct buf *out)
{
	/* The name may be changed after a look at it; what is open may not. */
	int fd = openat(runs, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err;
	char path[32];
	struct stat st;

	if (fd < 0)
		return errno == ELOOP || errno == ENXIO ? -EPERM : -errno;
	if (fstat(fd, &st) < 0)
		err = -errno;
	else if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0))
		err = -EPERM;
	else {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		err = file_read(AT_FDCWD, path, out);
	}
	close(fd);
	return err;
}

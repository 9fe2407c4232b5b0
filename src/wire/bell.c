/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/bell.h"

#include <fcntl.h>
#include <sys/mman.h>

struct wire_bell *bell_map(int dirfd)
{
	int fd = openat(dirfd, "bell", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	void *p = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (posix_fallocate(fd, 0, WIRE_PAGE) == 0)
		p = mmap(NULL, WIRE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

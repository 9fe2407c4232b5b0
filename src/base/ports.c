/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ports.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PORTS_LISTEN 0x0a /* TCP_LISTEN, as /proc/net/tcp writes it */

/* Inode of the socket that listens on the port; 0: none. */
static unsigned long ports_socket(const char *path, int port)
{
	unsigned long inode = 0, found = 0;
	unsigned local, state;
	char line[512];
	FILE *f = fopen(path, "re");

	while (f && !found && fgets(line, sizeof(line), f))
		if (sscanf(line,
			   " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
			   &local, &state, &inode) == 3 &&
		    (int)local == port && state == PORTS_LISTEN)
			found = inode;
	if (f)
		fclose(f);
	return found;
}

/* Does a process have that socket open? */
static bool ports_holds(const char *pid, unsigned long inode)
{
	char path[300], want[64], link[64];
	struct dirent *e;
	bool found = false;
	ssize_t n;
	DIR *dir;

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = '\0';
		found = strcmp(link, want) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* "python3, process 123", or "" if nobody can be seen to hold it. */
static void ports_holder(unsigned long inode, char *out, size_t cap)
{
	char path[300], comm[64] = "";
	struct dirent *e;
	DIR *dir = opendir("/proc");
	FILE *f;

	snprintf(out, cap, "%s", "");
	while (dir && !out[0] && (e = readdir(dir))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !ports_holds(e->d_name, inode))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (f && fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		if (f)
			fclose(f);
		snprintf(out, cap, "%s, process %.20s", comm, e->d_name);
	}
	if (dir)
		closedir(dir);
}

bool ports_listener(int port, char *out, size_t cap)
{
	unsigned long inode = ports_socket("/proc/net/tcp", port);

	if (!inode)
		inode = ports_socket("/proc/net/tcp6", port);
	if (!inode)
		return false;
	ports_holder(inode, out, cap);
	if (!out[0])
		snprintf(out, cap, "another user's process");
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sweep.h"

#include "base/text.h"
#include "wire/rendezvous.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static DIR *sweep_open(int rings)
{
	int fd = openat(rings, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

/* "PID-START-..." names the process; a file with another name is not ours. */
static bool sweep_is_dead(const char *name)
{
	unsigned long long start;
	long pid;

	return sscanf(name, "%ld-%llu-", &pid, &start) == 2 && pid > 0 && start > 0 &&
	       rendezvous_start_time(pid) != start;
}

bool sweep_has_ring(int rings, const char *ctl)
{
	DIR *d = sweep_open(rings);
	size_t n = strlen(ctl);
	struct dirent *e;
	bool found = !d;

	while (!found && (e = readdir(d)))
		found = strncmp(e->d_name, ctl, n) == 0 && e->d_name[n] == '.';
	if (d)
		closedir(d);
	return found;
}

/* Is the control page of an evidence file, PID-START-AUX.fault, still there? */
static bool sweep_has_page(int rings, const char *fault)
{
	char ctl[256];

	snprintf(ctl, sizeof(ctl), "%.*s.ctl", (int)(strlen(fault) - strlen(".fault")), fault);
	return faccessat(rings, ctl, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool sweep_is_litter(int rings, const char *name)
{
	struct stat st;

	if (fstatat(rings, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    time(NULL) - st.st_mtime < SWEEP_AGE_S)
		return false;
	if (name[0] == '.')
		return text_ends(name, ".tmp") && sweep_is_dead(name + 1);
	/* Evidence goes with its run; this is of a process whose ring is gone. */
	if (text_ends(name, ".fault"))
		return sweep_is_dead(name) && !sweep_has_page(rings, name);
	return text_ends(name, ".ctl") && sweep_is_dead(name) &&
	       !rendezvous_is_locked(rings, name) && !sweep_has_ring(rings, name);
}

unsigned sweep_rings(int rings)
{
	DIR *d = sweep_open(rings);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		if (sweep_is_litter(rings, e->d_name) && unlinkat(rings, e->d_name, 0) == 0)
			n++;
	if (d)
		closedir(d);
	return n;
}

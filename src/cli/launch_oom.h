/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_oom.h - was the command killed for memory? Watches the counter of its
 * control group and the kernel's log while it runs (docs/launcher.md, Outcome).
 */
#ifndef CLI_LAUNCH_OOM_H
#define CLI_LAUNCH_OOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/linux/cgroup.h"

/* How long before the end a kill still explains it: a large process takes its
 * time to die. */
#define LAUNCH_OOM_NEAR_NS 30000000000LL

struct launch_oom {
	pid_t child;
	int kmsg; /* for poll(); -1: may not be read, or its pids are not ours */

	bool has_group;
	struct cgroup_memory group;
	uint64_t first, last; /* counter when first seen in this group, and now */
	int64_t rise_ns;      /* CLOCK_BOOTTIME of its last rise; 0 never */
	char file[512];       /* the counter's */

	int64_t child_ns, descendant_ns; /* when the log said so; 0 never */
	char line[512];                  /* what it said, the child's before others' */
};

void launch_oom_init(struct launch_oom *o, pid_t child);
void launch_oom_done(struct launch_oom *o);

/* Look at the counter, also in the group that the command has moved to. */
void launch_oom_tick(struct launch_oom *o);

/* Read new lines of the log. To be called when poll() says so. */
void launch_oom_read_log(struct launch_oom *o);

/* After the end: true if wait status `status` is to be called out-of-memory.
 * What is known goes into evidence (cap bytes) in either case, "" nothing. */
bool launch_oom_judge(struct launch_oom *o, int status, char *evidence, size_t cap);

/* The same where nobody knows the status: true and evidence if the kernel's log names the
 * command itself. */
bool launch_oom_says_child(struct launch_oom *o, char *evidence, size_t cap);

#endif

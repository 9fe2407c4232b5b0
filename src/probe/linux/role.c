/* SPDX-License-Identifier: Apache-2.0
 *
 * Roles by name, descent and command line.
 */
#include "probe/linux/role.h"

#include <string.h>

#define ROLE_TORCH "pt_data_" /* pt_data_worker: set_thread_name() of PyTorch 2.6 and newer */

bool role_is_python(const struct probe_proc *p)
{
	return strncmp(p->name, "python", 6) == 0;
}

bool role_is_worker(const struct probe_proc *p, const struct probe_proc *parent,
		    const char *parent_role)
{
	if (strncmp(p->name, ROLE_TORCH, sizeof(ROLE_TORCH) - 1) == 0)
		return true;
	/* Where stack and arguments lie is drawn anew by exec() and kept by fork(). */
	if (!parent || !p->stack || p->stack != parent->stack || p->args != parent->args)
		return false;
	return strcmp(parent_role, "trainer") == 0 || strcmp(parent_role, "worker") == 0 ||
	       role_is_python(parent) || role_is_python(p);
}

bool role_is_spawned(const char *cmdline, size_t len)
{
	static const char *const marks[] = {"--multiprocessing-fork",
					    "from multiprocessing.spawn import"};
	size_t i;

	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (memmem(cmdline, len, marks[i], strlen(marks[i])))
			return true;
	return false;
}

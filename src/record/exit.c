/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the process: its status, and where a fault handler may leave what
 * it knows.
 */
#include "record/record_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lapse_exit_status(int status)
{
	struct rec_set *set = __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE);

	/* Also after lapse_close(), but never for a parent. */
	if (!set || !set->alive)
		return;
	__atomic_store_n(&set->ctl->exit_status, status, __ATOMIC_RELAXED);
	__atomic_store_n(&set->ctl->has_exit, 1, __ATOMIC_RELEASE);
}

#if defined(__GLIBC__)
static void exit_hook(int status, void *arg)
{
	(void)arg;
	lapse_exit_status(status);
	lapse_close();
}
#endif

int rec_at_exit(void)
{
#if defined(__GLIBC__)
	return on_exit(exit_hook, NULL) == 0 ? 0 : -1;
#else
	return atexit(lapse_close) == 0 ? 0 : -1;
#endif
}

const char *lapse_run_id(void)
{
	return rec.run;
}

const char *lapse_store_dir(void)
{
	return rec.opt.store_dir;
}

int lapse_evidence_path(char *out, size_t cap)
{
	struct wire_ctl *ctl = rec_ctl();
	char dir[RENDEZVOUS_PATH_MAX];
	const char *name, *dot;
	int n;

	if (!ctl)
		return -ENOTCONN;
	if (rendezvous_path(dir) < 0)
		return -ENAMETOOLONG;
	name = rec.set->ring.ring->ctl;
	dot = strrchr(name, '.');
	n = snprintf(out, cap, "%s/rings/%.*s.fault", dir, (int)(dot ? dot - name : 0), name);
	return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/headroom.h"

#include "base/log.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#define HEADROOM_LARGE (512 << 10) /* bytes of memory that are not of the heap */
#define HEADROOM_SPARE (8 << 20)   /* of a heap that nobody trims */

static struct rlimit headroom_before;
static bool headroom_is_taken;

void headroom_take(void)
{
	struct rlimit most;

	if (headroom_is_taken || getrlimit(RLIMIT_NOFILE, &headroom_before) < 0 ||
	    headroom_before.rlim_cur == headroom_before.rlim_max)
		return;
	most = (struct rlimit){headroom_before.rlim_max, headroom_before.rlim_max};
	headroom_is_taken = setrlimit(RLIMIT_NOFILE, &most) == 0;
	if (!headroom_is_taken)
		log_warn("the limit of open files cannot be raised: %s", strerror(errno));
}

void headroom_give_back(void)
{
	if (headroom_is_taken)
		setrlimit(RLIMIT_NOFILE, &headroom_before);
}

/* All threads share one heap, and large buffers are returned when they are freed. The
 * others stay for the next commit: to get pages anew costs as much as to fill them. The
 * store trims the heap when it has folded. */
void headroom_bound_memory(void)
{
#ifdef __GLIBC__
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, HEADROOM_LARGE);
	mallopt(M_TRIM_THRESHOLD, HEADROOM_SPARE);
#endif
}

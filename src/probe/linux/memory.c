/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and swap of the machine, as /proc/meminfo tells them.
 */
#include "probe/groups.h"

#include <stdlib.h>

#include "base/mem.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/onefile.h"
#include "wire/sink.h"

/* Rows that are a line of the file come first: a row is the slot of its line then. */
enum {
	MEMORY_TOTAL,
	MEMORY_FREE,
	MEMORY_AVAILABLE,
	MEMORY_BUFFERS,
	MEMORY_CACHED,
	MEMORY_SWAP_TOTAL,
	MEMORY_DIRTY,
	MEMORY_WRITEBACK,
	MEMORY_ANONYMOUS,
	MEMORY_SHARED,
	MEMORY_UNRECLAIMABLE,
	MEMORY_ANONYMOUS_HUGE,
	MEMORY_LINES, /* rows end that are a line */
	MEMORY_USED = MEMORY_LINES,
	MEMORY_SWAP_USED,
	MEMORY_HUGE_TOTAL,
	MEMORY_HUGE_USED,
	MEMORY_METRICS,
	/* lines that are no row */
	MEMORY_SWAP_FREE = MEMORY_LINES,
	MEMORY_HUGE_PAGES,
	MEMORY_HUGE_FREE,
	MEMORY_HUGE_SIZE,
	MEMORY_SLOTS
};

/* clang-format off */
#define MEMORY_ROW(line) "/proc/meminfo" line, SINK_GAUGE, PROBE_COST_LOW, NULL
static const struct probe_metric memory_metrics[MEMORY_METRICS] = {
	[MEMORY_TOTAL] = {"memory/total", "By", "memory of the machine that the kernel manages",
		MEMORY_ROW(" MemTotal")},
	[MEMORY_FREE] = {"memory/free", "By",
		"memory that nothing uses; caches make it small on a healthy machine: see "
		"memory/available", MEMORY_ROW(" MemFree")},
	[MEMORY_AVAILABLE] = {"memory/available", "By",
		"memory of the machine that programs can still get without swapping, as the kernel "
		"estimates it", MEMORY_ROW(" MemAvailable")},
	[MEMORY_BUFFERS] = {"memory/buffers", "By",
		"cache of block devices and of file systems' own data", MEMORY_ROW(" Buffers")},
	[MEMORY_CACHED] = {"memory/cached", "By",
		"page cache: contents of files, and memory/shared, which cannot be dropped",
		MEMORY_ROW(" Cached")},
	[MEMORY_SWAP_TOTAL] = {"swap/total", "By", "swap space; 0 without any",
		MEMORY_ROW(" SwapTotal")},
	[MEMORY_DIRTY] = {"memory/dirty", "By", "page cache that waits to be written",
		MEMORY_ROW(" Dirty")},
	[MEMORY_WRITEBACK] = {"memory/writeback", "By", "page cache that is being written",
		MEMORY_ROW(" Writeback")},
	[MEMORY_ANONYMOUS] = {"memory/anonymous", "By",
		"programs' own memory: heaps, stacks, without shared memory and swapped pages",
		MEMORY_ROW(" AnonPages")},
	[MEMORY_SHARED] = {"memory/shared", "By",
		"shared memory and files of tmpfs, /dev/shm among them", MEMORY_ROW(" Shmem")},
	[MEMORY_UNRECLAIMABLE] = {"memory/slab/unreclaimable", "By",
		"the kernel's objects that it cannot drop", MEMORY_ROW(" SUnreclaim")},
	[MEMORY_ANONYMOUS_HUGE] = {"memory/anonymous/huge", "By",
		"of memory/anonymous: in transparent huge pages", MEMORY_ROW(" AnonHugePages")},
	[MEMORY_USED] = {"memory/used", "By",
		"memory/total less memory/available, of the whole machine also in a container",
		MEMORY_ROW("")},
	[MEMORY_SWAP_USED] = {"swap/used", "By", "swap space taken",
		MEMORY_ROW(" SwapTotal, SwapFree")},
	[MEMORY_HUGE_TOTAL] = {"memory/hugepages/total", "By",
		"memory set aside as huge pages of the default size: no use to other programs",
		MEMORY_ROW(" HugePages_Total, Hugepagesize")},
	[MEMORY_HUGE_USED] = {"memory/hugepages/used", "By",
		"of memory/hugepages/total: taken by programs",
		MEMORY_ROW(" HugePages_Total, HugePages_Free")},
};

static const struct hosttext_key memory_keys[] = {
	HOSTTEXT_KEY("MemTotal", MEMORY_TOTAL),
	HOSTTEXT_KEY("MemFree", MEMORY_FREE),
	HOSTTEXT_KEY("MemAvailable", MEMORY_AVAILABLE),
	HOSTTEXT_KEY("Buffers", MEMORY_BUFFERS),
	HOSTTEXT_KEY("Cached", MEMORY_CACHED),
	HOSTTEXT_KEY("SwapTotal", MEMORY_SWAP_TOTAL),
	HOSTTEXT_KEY("SwapFree", MEMORY_SWAP_FREE),
	HOSTTEXT_KEY("Dirty", MEMORY_DIRTY),
	HOSTTEXT_KEY("Writeback", MEMORY_WRITEBACK),
	HOSTTEXT_KEY("AnonPages", MEMORY_ANONYMOUS),
	HOSTTEXT_KEY("Shmem", MEMORY_SHARED),
	HOSTTEXT_KEY("SUnreclaim", MEMORY_UNRECLAIMABLE),
	HOSTTEXT_KEY("AnonHugePages", MEMORY_ANONYMOUS_HUGE),
	HOSTTEXT_KEY("HugePages_Total", MEMORY_HUGE_PAGES),
	HOSTTEXT_KEY("HugePages_Free", MEMORY_HUGE_FREE),
	HOSTTEXT_KEY("Hugepagesize", MEMORY_HUGE_SIZE),
};
/* clang-format on */

/* What is in line `whole` and not in line `rest`. */
static void memory_rest(struct onefile *o, struct probe_set *s, int row, const uint64_t *v,
			uint32_t found, int whole, int rest, uint64_t scale, const char *why)
{
	if ((found >> whole & 1) && (found >> rest & 1) && v[rest] <= v[whole])
		probe_put(s, o->points[row], (double)(v[whole] - v[rest]) * (double)scale);
	else
		probe_absent(s, o->points[row], why);
}

static void memory_huge(struct onefile *o, struct probe_set *s, const uint64_t *v, uint32_t found)
{
	static const char none[] = "no huge pages are set aside (vm.nr_hugepages)";
	uint64_t size = v[MEMORY_HUGE_SIZE];

	if (!v[MEMORY_HUGE_PAGES] || !size) {
		probe_absent(s, o->points[MEMORY_HUGE_TOTAL], none);
		probe_absent(s, o->points[MEMORY_HUGE_USED], none);
		return;
	}
	probe_put(s, o->points[MEMORY_HUGE_TOTAL], (double)v[MEMORY_HUGE_PAGES] * (double)size);
	memory_rest(o, s, MEMORY_HUGE_USED, v, found, MEMORY_HUGE_PAGES, MEMORY_HUGE_FREE, size,
		    "/proc/meminfo has no HugePages_Free");
}

static void memory_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct onefile *o = state;
	uint64_t v[MEMORY_SLOTS];
	uint32_t found;
	int i;

	(void)now;
	if (!onefile_read(o, s))
		return;
	found = hosttext_pairs(o->buf.text, o->buf.text + o->buf.len, memory_keys,
			       ARRAY_LEN(memory_keys), v, MEMORY_SLOTS);
	for (i = 0; i < MEMORY_LINES; i++) {
		if (found >> i & 1)
			probe_put(s, o->points[i], (double)v[i]);
		else
			probe_absent(
				s, o->points[i],
				i == MEMORY_AVAILABLE
					? "/proc/meminfo has no MemAvailable (Linux before 3.14)"
					: "/proc/meminfo has no such line");
	}
	memory_rest(o, s, MEMORY_USED, v, found, MEMORY_TOTAL, MEMORY_AVAILABLE, 1,
		    "needs MemTotal and a MemAvailable that is not above it");
	memory_rest(o, s, MEMORY_SWAP_USED, v, found, MEMORY_SWAP_TOTAL, MEMORY_SWAP_FREE, 1,
		    "needs SwapTotal and a SwapFree that is not above it");
	memory_huge(o, s, v, found);
}

static int memory_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		       struct err *e)
{
	static const struct onefile memory = {
		.rows = memory_metrics,
		.n = MEMORY_METRICS,
		.max = 65536,
		.unreadable = "/proc/meminfo cannot be read",
	};

	return onefile_new(&memory, env, s, "/proc/meminfo", ret_state, e);
}

const struct probe_group probe_memory = {
	.name = "memory",
	.metrics = memory_metrics,
	.n_metrics = MEMORY_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.open = memory_open,
	.read = memory_read,
	.close = onefile_free,
};

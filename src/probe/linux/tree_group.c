/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processes of a run use together, as a group of metrics. It reads the tree
 * for the group process too, which comes after it.
 */
#include "probe/groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/linux/tree.h"
#include "wire/sink.h"

enum {
	TREE_SUMS = PROBE_TREE_METRICS, /* rows of counters follow those of tree.h */
	TREE_READ = TREE_SUMS,
	TREE_WRITTEN,
	TREE_READ_ALL,
	TREE_WRITTEN_ALL,
	TREE_MAJOR,
	TREE_ROWS
};

/* clang-format off */
static const struct probe_metric tree_rows[] = {
	[PROBE_TREE_CPU] = {"tree/cpu", "1",
		"CPUs that the run's processes used on average since the last reading; processes "
		"that ended, and children reaped unseen, count when that is noticed",
		"CPU clock of each process, else /proc/PID/stat ticks", SINK_GAUGE, PROBE_COST_EACH, NULL},
	[PROBE_TREE_RSS] = {"tree/rss", "By",
		"memory in use by the run's processes: the private resident pages of each, and "
		"the largest set of file and shared pages once; pages still shared since a fork "
		"count in each process",
		"/proc/PID/statm: sum of (resident - shared), plus largest shared",
		SINK_GAUGE, PROBE_COST_EACH, NULL},
	[PROBE_TREE_PROCESSES] = {"tree/processes", "1", "processes of the run, without zombies",
		"/proc/PID/stat", SINK_GAUGE, PROBE_COST_EACH, NULL},
	[PROBE_TREE_THREADS] = {"tree/threads", "1", "threads of these processes",
		"/proc/PID/stat field 20", SINK_GAUGE, PROBE_COST_EACH, NULL},
	[TREE_READ] = {"tree/read", "By",
		"bytes that the run's processes had fetched from storage; told once all have been read",
		"/proc/PID/io read_bytes", SINK_COUNTER, PROBE_COST_RARE, NULL},
	[TREE_WRITTEN] = {"tree/written", "By",
		"bytes that the run's processes caused to be written to storage, when they made the "
		"pages dirty",
		"/proc/PID/io write_bytes", SINK_COUNTER, PROBE_COST_RARE, NULL},
	[TREE_READ_ALL] = {"tree/read/all", "By",
		"bytes that the run's processes read from files, pipes and sockets, from the page cache "
		"or not: what data loading moves",
		"/proc/PID/io rchar", SINK_COUNTER, PROBE_COST_RARE, NULL},
	[TREE_WRITTEN_ALL] = {"tree/written/all", "By",
		"bytes that the run's processes wrote to files, pipes and sockets",
		"/proc/PID/io wchar", SINK_COUNTER, PROBE_COST_RARE, NULL},
	[TREE_MAJOR] = {"tree/faults/major", "1",
		"page faults of the run's processes that waited for storage; of processes that ended "
		"unseen not",
		"/proc/PID/stat field 12", SINK_COUNTER, PROBE_COST_RARE, NULL},
};
/* clang-format on */

static const enum probe_detail_index tree_counters[TREE_ROWS - TREE_SUMS] = {
	[TREE_READ - TREE_SUMS] = PROBE_DETAIL_READ,
	[TREE_WRITTEN - TREE_SUMS] = PROBE_DETAIL_WRITTEN,
	[TREE_READ_ALL - TREE_SUMS] = PROBE_DETAIL_READ_ALL,
	[TREE_WRITTEN_ALL - TREE_SUMS] = PROBE_DETAIL_WRITTEN_ALL,
	[TREE_MAJOR - TREE_SUMS] = PROBE_DETAIL_MAJOR,
};

struct tree_group {
	struct probe_tree *tree;
	uint32_t points[TREE_ROWS];
	uint64_t was[TREE_ROWS]; /* sums that were put */
	bool turned;             /* once */
	unsigned untracked;      /* as told */
};

static int tree_group_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			   struct err *e)
{
	struct tree_group *g;
	int i;

	if (!env->tree)
		return err_set(e, -ENODEV, "no process of the run is known");
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->tree = env->tree;
	for (i = 0; i < TREE_ROWS; i++) {
		g->points[i] = probe_point(s, &tree_rows[i], "");
		probe_absent(s, g->points[i], "not all processes have been read yet");
	}
	*ret_state = g;
	return 0;
}

static void tree_group_sums(struct tree_group *g, struct probe_set *s)
{
	const struct probe_tree *t = g->tree;
	int i;

	for (i = TREE_SUMS; i < TREE_ROWS; i++) {
		enum probe_detail_index k = tree_counters[i - TREE_SUMS];
		uint64_t added = t->added[k] - g->was[i];

		g->was[i] = t->added[k];
		if (t->lacked >> k & 1)
			probe_absent(s, g->points[i],
				     "the io file of a process cannot be read: it belongs to "
				     "another user or has privileges, or the kernel has no "
				     "accounting of I/O");
		else if (!g->turned)
			probe_absent(s, g->points[i], "needs a second reading");
		else
			probe_put(s, g->points[i], (double)added);
	}
	g->turned = true;
}

static void tree_group_untracked(struct tree_group *g, struct probe_set *s, unsigned untracked)
{
	char text[160];

	if (untracked && !g->untracked) {
		snprintf(text, sizeof(text),
			 "the run has more than %d processes: at least %u are not followed, and "
			 "the figures of its tree are lower bounds",
			 PROBE_TREE_MAX, untracked);
		probe_event(s, 2, "processes-untracked", text, "");
	}
	g->untracked = untracked;
}

static void tree_group_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct tree_group *g = state;
	struct probe_tree_values v;
	int i;

	if (probe_tree_read_at(g->tree, (uint64_t)now->mono_ns, &v) < 0)
		return;
	for (i = 0; i < PROBE_TREE_METRICS; i++) {
		if (v.valid >> i & 1)
			probe_put(s, g->points[i], v.value[i]);
		else
			probe_absent(s, g->points[i], v.why[i]);
	}
	tree_group_untracked(g, s, v.untracked);
	if (probe_tree_turn(g->tree))
		tree_group_sums(g, s);
}

const struct probe_group probe_tree_group = {
	.name = "tree",
	.metrics = tree_rows,
	.n_metrics = TREE_ROWS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.of_run = true,
	.open = tree_group_open,
	.read = tree_group_read,
	.close = free,
};

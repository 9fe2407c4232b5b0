/* SPDX-License-Identifier: Apache-2.0
 *
 * critical.h - the critical path through one stretch of a trace: the longest chain of calls,
 * launches and device work that depend on each other, and what bounds it.
 *
 * Definition: HTA 0.6.1, analyzers/critical_path_analysis.py with common/call_stack.py and
 * networkx's dag_longest_path, order of equal choices included. docs/trace-numbers.md,
 * "Critical path", tells the graph edge by edge and what the exact rule does otherwise:
 * every launch is linked by correlation (all vendors, Triton, graphs), negative weights are
 * 0, no link is cut at 1.5 ms, and waits that the trace does not show (no cuda_sync rows) are
 * taken from the blocking calls and from what ended on other streams.
 *
 * Memory: about 100 bytes an event of the stretch; time O(n log n).
 */
#ifndef ANALYSE_CRITICAL_H
#define ANALYSE_CRITICAL_H

#include "base/err.h"
#include "trace/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum critical_bound {
	CRITICAL_NONE, /* dependencies: no time */
	CRITICAL_CPU,
	CRITICAL_DATA_LOADING,
	CRITICAL_COMPUTE,
	CRITICAL_COMMUNICATION,
	CRITICAL_KERNEL_GAP, /* between two pieces of work on one stream */
	CRITICAL_LAUNCH_DELAY,
	CRITICAL_BOUNDS
};
/* HTA's names: "", "cpu_bound", "data_loading", "gpu_compute_bound", ... */
extern const char *const critical_bound_names[CRITICAL_BOUNDS];

enum critical_edge {
	CRITICAL_OPERATOR,
	CRITICAL_DEPENDENCY,
	CRITICAL_LAUNCH,
	CRITICAL_KERNEL_KERNEL,
	CRITICAL_SYNC
};
/* HTA's names: "critical_path_operator", ... */
extern const char *const critical_edge_names[];

struct critical_link {
	uint32_t from, to; /* rows in view->rows */
	bool from_start, to_start;
	uint32_t row; /* whose time it is; UINT32_MAX nobody's */
	uint8_t type, bound;
	int64_t ns; /* as the times say; below 0 counts as 0 in the path (hta: from -1 us on) */
};

struct critical_share {
	uint64_t links;
	int64_t ns;
};

struct critical_hot {
	uint32_t name; /* text id */
	uint8_t bound;
	uint64_t links;
	int64_t ns;
};

struct critical_result {
	bool ok;          /* false: why says what is wrong with the graph; no path */
	const char *why;  /* static; "" */
	int64_t from, to; /* the window, ns */
	uint64_t nodes, linked_nodes, links, path_nodes;
	int64_t ns; /* length of the path */
	struct critical_share share[CRITICAL_BOUNDS];
	struct critical_link *path; /* in order */
	size_t n_path;
	struct critical_hot *hot; /* names on the path, longest first */
	size_t n_hot;
	uint64_t sync_rows; /* cuda_sync rows of the view: 0 means that waits were not recorded */
	uint64_t inferred;  /* waits that the exact rule took from blocking calls, and from work
			       of another stream that ended in the gap before, instead */
	uint64_t cut;       /* work that nothing in the window led to (hta: also after 1.5 ms) */
};

struct critical_options {
	const char *annotation; /* text that the annotation's name contains; "" the whole trace */
	uint32_t first, last;   /* which of them, in the order of the file */
	/* Texts in the names of rows that are data loading; HTA has none by default, the exact
	 * rule takes PyTorch's names when there are none here. */
	const char *const *data_loading;
	size_t n_data_loading;
};

/* 0; -ENOENT: no such annotation (e says what there is); -ENOMEM. */
int critical_new(struct view *v, const struct critical_options *o, struct critical_result **ret,
		 struct err *e);
void critical_free(struct critical_result *c); /* NULL is accepted */

#endif

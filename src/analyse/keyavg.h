/* SPDX-License-Identifier: Apache-2.0
 *
 * keyavg.h - operators and kernels by name, as torch.profiler's key_averages() has them: calls,
 * total and self time on the host and on the device, FLOPs, memory. docs/trace-numbers.md,
 * "Operators and kernels".
 *
 * All equal to key_averages() but for two things: the GPU's copies of annotations (how long the
 * work of "forward" took on the GPU) are not counted as work of the device unless asked for; and
 * kernels whose launch has no external id go to the operator around the launch, not to nobody.
 * Allocation failure aborts.
 */
#ifndef ANALYSE_KEYAVG_H
#define ANALYSE_KEYAVG_H

#include "analyse/tbrows.h"

enum keyavg_group {
	KEYAVG_NAME = 0,
	KEYAVG_SHAPE = 1, /* "Input Dims" */
	KEYAVG_STACK = 2  /* the innermost stack_depth Python calls around, or "Call stack" */
};

struct keyavg_options {
	unsigned group;       /* enum keyavg_group, ored */
	unsigned stack_depth; /* 0: 5 */
	bool gpu_annotations; /* tell the GPU's copies of annotations too, as work of the device */
	/* Launches without operator are nested, and memory is counted, on their own thread; else,
	 * as in key_averages(), they are on the thread of the steps and memory is everyone's. */
	bool by_thread;
	/* Only rows that begin in [from, to) ns; 0, 0: all. Parents of rows stay parents. */
	int64_t from, to;
};

struct keyavg_row {
	const char *name;   /* "ProfilerStep*" for all steps */
	uint32_t dims;      /* text; 0 where not grouped by */
	const char *stack;  /* frames parted by '\n', innermost first; NULL where not grouped by */
	bool on_device;     /* kernel, memcpy, memset; else a row of the host */
	bool is_annotation; /* record_function() and its copy on the GPU */
	bool is_operator;   /* cpu_op */
	uint64_t calls;
	int64_t host, self_host, device, self_device; /* ns */
	double flops;
	int64_t cpu_memory, self_cpu_memory, device_memory, self_device_memory; /* bytes */
};

struct keyavg {
	struct keyavg_row *rows;
	size_t n;
	int64_t self_host, self_device; /* sums over rows, without annotations' copies */
	double flops;
	bool has_memory, has_shapes, has_stacks; /* something of it is recorded */
	uint64_t lost_kernels;                   /* GPU rows that no operator has */
	char *stacks;                            /* owned: what rows[].stack point into */
};

int keyavg_new(const struct tbrows *b, const struct keyavg_options *o, struct keyavg **ret);
void keyavg_free(struct keyavg *k); /* NULL is accepted */

/* The same of a trace whose rows are not in memory at once: of windows of it
 * (tbrows_new_window()), one after the other, that are all of the trace together, at whose borders
 * no event of the host runs. Not by stack, and without from and to. */
struct keyavg_parts;
struct keyavg_parts *keyavg_parts_new(const struct keyavg_options *o);
/* 0; -ENOTUNIQ: an id comes back in another window, sums would not be those of the whole. */
int keyavg_parts_add(struct keyavg_parts *p, const struct tbrows *window);
/* Takes the sums out of it. */
void keyavg_parts_end(struct keyavg_parts *p, struct keyavg **ret);
void keyavg_parts_free(struct keyavg_parts *p); /* NULL is accepted */

/* Sort, largest first, by a key of key_averages().table(sort_by=...), old and new names:
 * cpu_time_total, self_cpu_time_total, cuda_time_total, device_time_total, ..., count, flops.
 * -EINVAL: no such key (docs: keyavg_keys). */
int keyavg_sort(struct keyavg *k, const char *key);

/* The keys, ended by NULL. */
extern const char *const keyavg_keys[];

#endif

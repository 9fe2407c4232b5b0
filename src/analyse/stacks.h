/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.h - where time goes, by stack: the host's own time by thread, Python frames and
 * operators, or the devices' time by the stack that launched the work. As a tree, and as
 * folded text, a speedscope file or one SVG picture that needs nothing else.
 *
 * Definitions: docs/trace-numbers.md, "Stacks".
 */
#ifndef ANALYSE_STACKS_H
#define ANALYSE_STACKS_H

#include "base/buf.h"
#include "trace/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stacks_of {
	STACKS_HOST,  /* ns of the host: a call without what it calls */
	STACKS_DEVICE /* ns of device work: its length, below the stack of its launch */
};

enum stacks_kind {
	STACKS_ROOT,
	STACKS_THREAD,
	STACKS_PYTHON,
	STACKS_ANNOTATION,
	STACKS_OPERATOR,
	STACKS_RUNTIME, /* calls of runtime and driver */
	STACKS_COMPUTE,
	STACKS_COMMUNICATION,
	STACKS_MEMORY,
	STACKS_OTHER,
	STACKS_KINDS
};
extern const char *const stacks_kind_names[STACKS_KINDS];

struct stacks_node {
	uint32_t frame;      /* in frames */
	int32_t parent;      /* -1 of node 0, the root */
	int32_t child, next; /* first child, next sibling; -1 */
	uint64_t count;      /* calls, or pieces of work, that were exactly here */
	int64_t self, total; /* ns */
	uint8_t kind;
};

struct stacks_frame {
	const char *text; /* len bytes, not ended; of the trace or of the result */
	uint32_t len;
};

struct stacks_result {
	enum stacks_of of;
	struct stacks_node *nodes; /* a parent stands before its children */
	size_t n;
	struct stacks_frame *frames;
	size_t n_frames;
	int64_t from, to;    /* times of the rows, ns */
	uint64_t rows;       /* that were counted */
	uint64_t unlaunched; /* STACKS_DEVICE: work whose launch is not in the trace */
	uint64_t cut;        /* STACKS_HOST: calls that ran past their caller's end */
	bool has_python;     /* Python frames were recorded */
	char *own;           /* bytes of frames' texts that are not the trace's */
};

struct stacks_options {
	enum stacks_of of;
	bool no_python;  /* leave Python frames out */
	bool no_threads; /* all threads together */
	bool shorten;    /* names of kernels without template arguments (shortname.h) */
};

/* A tree of an exact view. 0 or -ENOMEM. The trace must outlive it. */
int stacks_new(struct view *v, const struct stacks_options *o, struct stacks_result **ret);
void stacks_free(struct stacks_result *s); /* NULL is accepted */

/* Each appends to out, whose error says if it did not fit (buf.h). */

/* "a;b;c ns" a line; ';' and line ends in names become ':' and ' '. */
void stacks_folded(const struct stacks_result *s, struct buf *out);
/* speedscope's file format, one "sampled" profile in ns. */
void stacks_speedscope(const struct stacks_result *s, const char *title, struct buf *out);

struct stacks_svg {
	const char *title, *subtitle; /* subtitle may be NULL */
	double least; /* part of the whole below which a frame is not drawn; 0: 0.0005 */
};
/* Returns how many nodes were too narrow to draw. */
size_t stacks_draw(const struct stacks_result *s, const struct stacks_svg *o, struct buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * viewrig.h - a trace from JSON text written in a test, and a view of it.
 */
#ifndef VIEWRIG_H
#define VIEWRIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "trace/trace.h"
#include "trace/view.h"

struct rig {
	struct trace *trace;
	struct view *v;
};

/* events: what stands between the brackets of traceEvents. */
static inline struct rig rig_view(const char *events, const struct view_options *o)
{
	static char text[65536];
	struct trace_options read = {0};
	struct err e = {0};
	struct rig r;
	int len;

	len = snprintf(text, sizeof(text), "{\"traceEvents\": [%s]}", events);
	assert_in_range(len, 1, sizeof(text) - 1);
	if (trace_read_bytes(text, (size_t)len, &read, &r.trace, &e))
		fail_msg("%s", e.text);
	assert_int_equal(view_new(&r.trace, 1, o, &r.v), 0);
	return r;
}

static inline void rig_done(struct rig *r)
{
	view_free(r->v, 1);
	trace_free(r->trace);
}

/* Events in short. */
#define EVENT(cat, name, ts, dur, args)                                                            \
	"{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" ts   \
	",\"dur\":" dur ",\"args\":{" args "}}"
#define HOST(cat, name, ts, dur) EVENT(cat, name, ts, dur, "")
#define CALL(name, ts, dur, corr) EVENT("cuda_runtime", name, ts, dur, "\"correlation\":" corr)
#define WORK(cat, name, ts, dur, stream, corr)                                                     \
	"{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":0,\"tid\":" stream        \
	",\"ts\":" ts ",\"dur\":" dur ",\"args\":{\"stream\":" stream ",\"correlation\":" corr     \
	"}}"
#define STEP(n, ts, dur) HOST("user_annotation", "ProfilerStep#" n, ts, dur)

/* The first row of a name; fails if there is none. */
static inline const struct view_row *rig_row(const struct rig *r, const char *name)
{
	size_t i;

	for (i = 0; i < r->v->n; i++)
		if (!strcmp(trace_text(r->trace, r->v->rows[i].name, NULL), name))
			return &r->v->rows[i];
	fail_msg("no row is named %s", name);
	return NULL;
}

static inline size_t rig_count(const struct rig *r, const char *name)
{
	size_t i, n = 0;

	for (i = 0; i < r->v->n; i++)
		n += !strcmp(trace_text(r->trace, r->v->rows[i].name, NULL), name);
	return n;
}

#endif

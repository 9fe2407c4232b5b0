/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c - shifts for each trace so that numbers of different ranks never meet, then each
 * trace's events one after the other.
 */
#include "trace/merge.h"

#include <errno.h>
#include <stdio.h>

/* The largest ids of a trace: what the next one must lie beyond. Ids that are no small
 * numbers (hashes) are kept apart by luck only, and not counted. */
#define ID_MAX (1ll << 48)

static int64_t larger(int64_t a, int64_t b)
{
	return b < ID_MAX && b > a ? b : a;
}

static void next_shift(struct trace *t, struct write_shift *s)
{
	int64_t correlation = 0, external = 0, python = 0;
	uint64_t rows = trace_rows(t);

	for (uint64_t at = 0; at < rows; at += TRACE_BLOCK_ROWS) {
		uint32_t k = (uint32_t)(at / TRACE_BLOCK_ROWS), n = trace_block_rows(t, k);
		const struct trace_block *b = trace_block(t, k);

		for (uint32_t i = 0; i < n; i++) {
			correlation = larger(correlation, b->correlation[i]);
			external = larger(external, b->external[i]);
			if (b->cat[i] == TRACE_CAT_PYTHON_FUNCTION && b->args[i])
				python = larger(python, trace_args(t, b->args[i])->python_id);
		}
	}
	s->correlation += correlation + 1;
	s->external += external + 1;
	s->python += python + 1;
	s->pid += MERGE_PID_STEP;
}

static void add(struct convert_result *sum, const struct convert_result *one)
{
	sum->rows += one->rows;
	sum->left_out += one->left_out;
	sum->memories += one->memories;
	sum->flows += one->flows;
	sum->others += one->others;
	sum->not_held += one->not_held;
}

static int put_one(struct trace *const t[], size_t i, const struct merge_options *o,
		   struct write_shift *s, struct write_sink *sink, bool *has_event,
		   struct merge_result *result, struct err *e)
{
	const struct trace_meta *m = trace_meta(t[i]), *first = trace_meta(t[0]);
	struct convert_options cut = o->cut;
	struct convert_result one;
	char label[40];
	int rc;

	snprintf(label, sizeof(label), "rank %lld",
		 (long long)(m->rank != TRACE_NONE ? m->rank : (int64_t)i));
	s->label = label;
	s->flow = (int64_t)i << 32;
	s->ts = (o->offsets ? o->offsets[i] : 0);
	if ((m->base_ns != 0) == (first->base_ns != 0))
		s->ts = (int64_t)((uint64_t)s->ts + (uint64_t)m->base_ns -
				  (uint64_t)first->base_ns);
	else
		result->is_one_clock = false;
	if (cut.from || cut.to) {
		cut.from = (int64_t)((uint64_t)cut.from - (uint64_t)s->ts);
		cut.to = (int64_t)((uint64_t)cut.to - (uint64_t)s->ts);
	}
	rc = convert_events(t[i], &cut, s, sink, has_event, &one, e);
	s->label = NULL;
	if (rc)
		return rc;
	add(&result->sum, &one);
	next_shift(t[i], s);
	return 0;
}

int merge_traces(struct trace *const t[], size_t n, const struct merge_options *o, const char *path,
		 struct merge_result *ret, struct err *e)
{
	struct merge_result result = {.is_one_clock = true};
	struct write_shift s = {0};
	struct write_sink *sink;
	bool has_event = false;
	struct buf head;
	int rc;

	if (!n || n > MERGE_TRACES_MAX)
		return err_set(e, -EINVAL, "merge takes 1 to %u traces, not %zu", MERGE_TRACES_MAX,
			       n);
	rc = write_open(path, &sink, e);
	if (rc)
		return rc;
	buf_init(&head, 64u << 20);
	buf_puts(&head, "{\n");
	write_head(t[0], &head);
	buf_puts(&head, "\"traceEvents\":[\n");
	write_put(sink, head.data, head.len);
	rc = head.error;
	buf_done(&head);
	for (size_t i = 0; i < n && !rc; i++)
		rc = put_one(t, i, o, &s, sink, &has_event, &result, e);
	if (rc) {
		write_abort(sink);
		return err_set(e, rc, "%s cannot be written", path);
	}
	write_put(sink, "\n]}\n", 4);
	rc = write_close(sink, &result.sum.bytes, e);
	if (!rc)
		*ret = result;
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * convert.c - the rows of a window out of the model into a file: a pass that notes the
 * launches, then one that writes.
 */
#include "trace/convert.h"

#include "trace/others.h"
#include "trace/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH (256u << 10)

struct launch {
	int64_t correlation, ts;
	uint16_t track;
	bool is_in, is_drawn;
};

struct job {
	struct trace *t;
	const struct write_shift *s;
	struct write_sink *sink;
	struct buf out;
	bool *has_event;
	struct convert_result *ret;
	int64_t from, to;
	bool is_cut, draws;
	struct launch *launches; /* by correlation */
	size_t n, cap;
};

static bool is_launch(const struct trace_block *b, uint32_t i)
{
	switch (b->cat[i]) {
	case TRACE_CAT_CUDA_RUNTIME:
	case TRACE_CAT_CUDA_DRIVER:
	case TRACE_CAT_MTIA_RUNTIME:
	case TRACE_CAT_XPU_RUNTIME:
	case TRACE_CAT_XPU_DRIVER:
	case TRACE_CAT_PRIVATEUSE1_RUNTIME:
	case TRACE_CAT_PRIVATEUSE1_DRIVER:
		return b->correlation[i] != TRACE_NONE;
	default:
		return false;
	}
}

static bool is_work(const struct trace_block *b, uint32_t i)
{
	switch (b->cat[i]) {
	case TRACE_CAT_KERNEL:
	case TRACE_CAT_GPU_MEMCPY:
	case TRACE_CAT_GPU_MEMSET:
	case TRACE_CAT_CUDA_SYNC:
	case TRACE_CAT_MTIA_CCP_EVENTS:
		return b->correlation[i] != TRACE_NONE;
	default:
		return false;
	}
}

static int by_correlation(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	return (x->ts > y->ts) - (x->ts < y->ts);
}

static int add_launch(struct job *j, const struct trace_block *b, uint32_t i)
{
	if (j->n == j->cap) {
		size_t cap = j->cap ? j->cap * 2 : 4096;
		struct launch *l = realloc(j->launches, cap * sizeof(*l));

		if (!l)
			return -ENOMEM;
		j->launches = l;
		j->cap = cap;
	}
	j->launches[j->n++] = (struct launch){
		.correlation = b->correlation[i],
		.ts = b->ts[i],
		.track = b->track[i],
		.is_in = b->ts[i] >= j->from && b->ts[i] < j->to,
	};
	return 0;
}

static int find_launches(struct job *j)
{
	uint64_t rows = trace_rows(j->t);

	for (uint64_t at = 0; at < rows; at += TRACE_BLOCK_ROWS) {
		uint32_t k = (uint32_t)(at / TRACE_BLOCK_ROWS), n = trace_block_rows(j->t, k);
		const struct trace_block *b = trace_block(j->t, k);

		for (uint32_t i = 0; i < n; i++)
			if (is_launch(b, i) && add_launch(j, b, i))
				return -ENOMEM;
	}
	if (j->n)
		qsort(j->launches, j->n, sizeof(*j->launches), by_correlation);
	return 0;
}

static struct launch *launch_of(struct job *j, int64_t correlation)
{
	struct launch key = {.correlation = correlation, .ts = INT64_MIN};
	size_t lo = 0, hi = j->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_correlation(&j->launches[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < j->n && j->launches[lo].correlation == correlation ? &j->launches[lo] : NULL;
}

static void comma(struct job *j)
{
	if (*j->has_event)
		buf_puts(&j->out, ",\n");
	*j->has_event = true;
}

static void draw(struct job *j, const struct trace_block *b, uint32_t i, struct launch *l)
{
	if (!l->is_drawn) {
		comma(j);
		write_flow(j->t, 's', l->track, l->ts, l->correlation, j->s, &j->out);
		l->is_drawn = true;
	}
	comma(j);
	write_flow(j->t, 'f', b->track[i], b->ts[i], l->correlation, j->s, &j->out);
	j->ret->flows++;
}

static int flush(struct job *j, size_t least)
{
	int error = j->out.error;

	if (j->out.len < least && !error)
		return 0;
	write_put(j->sink, j->out.data, j->out.len);
	buf_reset(&j->out);
	return error;
}

/* Row i begins before ns: does it end after? Durations of a broken file are as long as may be. */
static bool reaches(const struct trace_block *b, uint32_t i, int64_t ns)
{
	return b->dur[i] > 0 && (uint64_t)b->dur[i] > (uint64_t)ns - (uint64_t)b->ts[i];
}

static void put_row(struct job *j, const struct trace_block *b, uint32_t i)
{
	struct launch *l = is_work(b, i) ? launch_of(j, b->correlation[i]) : NULL;
	bool overlaps = b->ts[i] < j->to && (b->ts[i] >= j->from || reaches(b, i, j->from));

	if (j->is_cut && !(l ? l->is_in : overlaps)) {
		j->ret->left_out++;
		return;
	}
	comma(j);
	write_row(j->t, b, i, j->s, &j->out);
	j->ret->rows++;
	if (l && j->draws)
		draw(j, b, i, l);
}

static int put_rows(struct job *j)
{
	uint64_t rows = trace_rows(j->t);

	for (uint64_t at = 0; at < rows; at += TRACE_BLOCK_ROWS) {
		uint32_t k = (uint32_t)(at / TRACE_BLOCK_ROWS), n = trace_block_rows(j->t, k);
		const struct trace_block *b = trace_block(j->t, k);

		for (uint32_t i = 0; i < n; i++) {
			int rc;

			put_row(j, b, i);
			rc = flush(j, FLUSH);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static int put_memories(struct job *j)
{
	uint64_t n = trace_memories(j->t);

	for (uint64_t i = 0; i < n; i++) {
		const struct trace_memory *m = trace_memory_at(j->t, i);
		int rc;

		if (!m)
			return -EIO;
		if (j->is_cut && (m->ts < j->from || m->ts >= j->to))
			continue;
		comma(j);
		write_memory(j->t, m, j->s, &j->out);
		j->ret->memories++;
		rc = flush(j, FLUSH);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- the window -------------------------------------------------------------------------- */

struct marks {
	int64_t from, to, first, last;
	uint64_t n, met;
};

static void mark(struct marks *m, const struct convert_options *o, int64_t step, int64_t ts,
		 int64_t end)
{
	m->first = m->n && m->first < step ? m->first : step;
	m->last = m->n && m->last > step ? m->last : step;
	m->n++;
	if (step < o->step_from || step >= o->step_to)
		return;
	m->from = m->met && m->from < ts ? m->from : ts;
	m->to = m->met && m->to > end ? m->to : end;
	m->met++;
}

static int find_steps(struct trace *t, const struct convert_options *o, int64_t *from, int64_t *to,
		      struct err *e)
{
	uint64_t rows = trace_rows(t);
	struct marks m = {0};

	for (uint64_t at = 0; at < rows; at += TRACE_BLOCK_ROWS) {
		uint32_t k = (uint32_t)(at / TRACE_BLOCK_ROWS), n = trace_block_rows(t, k);
		const struct trace_block *b = trace_block(t, k);

		for (uint32_t i = 0; i < n; i++) {
			int32_t step;

			if (b->cat[i] != TRACE_CAT_USER_ANNOTATION && b->cat[i] != TRACE_CAT_CPU_OP)
				continue;
			step = view_step_number(trace_text(t, b->name[i], NULL));
			if (step >= 0)
				mark(&m, o, step, b->ts[i], b->ts[i] + b->dur[i]);
		}
	}
	if (!m.n)
		return err_set(e, -ENOENT, "%s has no ProfilerStep marks: cut it by time",
			       trace_path(t));
	if (!m.met)
		return err_set(e, -ENOENT, "%s has none of these steps: it has %lld to %lld",
			       trace_path(t), (long long)m.first, (long long)m.last);
	*from = m.from;
	*to = m.to;
	return 0;
}

static int find_window(struct job *j, const struct convert_options *o, struct err *e)
{
	j->from = o->from;
	j->to = o->to;
	if (o->step_from || o->step_to) {
		int rc = find_steps(j->t, o, &j->from, &j->to, e);

		if (rc)
			return rc;
	}
	j->is_cut = j->from || j->to;
	j->ret->from = j->from;
	j->ret->to = j->to;
	if (!j->is_cut) {
		j->from = INT64_MIN;
		j->to = INT64_MAX;
	}
	return 0;
}

uint64_t convert_not_held(const struct trace *t)
{
	/* Complete events, pairs, metadata: all held. Of instants only [memory]. */
	static const char held[] = "XBEM";
	uint64_t n = 0;

	for (int c = 1; c < 127; c++)
		if (!strchr(held, c))
			n += trace_phase_count(t, (char)c);
	return n - trace_memories(t);
}

/* What the model does not hold, from the file. */
static int put_others(struct job *j, struct err *e)
{
	const struct others_options o = {
		.from = j->from,
		.to = j->to,
		.is_cut = j->is_cut,
		.without_flows = !j->draws,
		.without_launches = true,
	};
	uint64_t all = convert_not_held(j->t);
	struct others_result r;
	int rc;

	if (!all)
		return 0;
	rc = others_write(trace_path(j->t), &o, j->s, j->sink, j->has_event, &r, e);
	if (rc == -ESPIPE)
		rc = 0;
	j->ret->others = r.written;
	j->ret->not_held = r.lost + (all > r.seen ? all - r.seen : 0);
	return rc;
}

int convert_events(struct trace *t, const struct convert_options *o, const struct write_shift *s,
		   struct write_sink *sink, bool *has_event, struct convert_result *ret,
		   struct err *e)
{
	struct job j = {.t = t, .s = s, .sink = sink, .has_event = has_event, .ret = ret};
	int rc;

	*ret = (struct convert_result){0};
	j.draws = !o->without_flows;
	buf_init(&j.out, 4ull * TRACE_TEXT_MAX + FLUSH);
	rc = find_window(&j, o, e);
	if (rc) {
		buf_done(&j.out);
		return rc;
	}
	write_tracks(t, s, has_event, &j.out);
	rc = find_launches(&j);
	if (!rc)
		rc = put_rows(&j);
	if (!rc)
		rc = put_memories(&j);
	if (!rc)
		rc = flush(&j, 0);
	if (!rc)
		rc = put_others(&j, e);
	free(j.launches);
	buf_done(&j.out);
	return rc ? err_errno(e, rc, "%s cannot be converted", trace_path(t)) : 0;
}

int convert_trace(struct trace *t, const struct convert_options *o, const char *path,
		  struct convert_result *ret, struct err *e)
{
	static const struct write_shift none = {0};
	struct convert_result result;
	struct write_sink *sink;
	bool has_event = false;
	struct buf head;
	int rc;

	rc = write_open(path, &sink, e);
	if (rc)
		return rc;
	buf_init(&head, 64u << 20);
	buf_puts(&head, "{\n");
	write_head(t, &head);
	buf_puts(&head, "\"traceEvents\":[\n");
	write_put(sink, head.data, head.len);
	rc = head.error;
	buf_done(&head);
	if (!rc)
		rc = convert_events(t, o, &none, sink, &has_event, &result, e);
	if (rc) {
		write_abort(sink);
		return err_set(e, rc, "%s cannot be written", path);
	}
	write_put(sink, "\n]}\n", 4);
	rc = write_close(sink, &result.bytes, e);
	if (!rc)
		*ret = result;
	return rc;
}

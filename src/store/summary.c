/* SPDX-License-Identifier: Apache-2.0
 *
 * summary.c - nodes of a summary tree: made of points, joined, as bytes.
 */
#include "store/summary.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static void summary_begin(struct summary *s, size_t n, uint32_t segment)
{
	*s = (struct summary){.n = n,
			      .min = NAN,
			      .max = NAN,
			      .first = NAN,
			      .last = NAN,
			      .min_at = -1,
			      .max_at = -1,
			      .time_min = INT64_MAX,
			      .time_max = INT64_MIN,
			      .step_min = SINK_STEP_NONE,
			      .step_max = SINK_STEP_NONE,
			      .segment_min = segment,
			      .segment_max = segment};
}

static inline void summary_steps(struct summary *s, int64_t min, int64_t max)
{
	if (min == SINK_STEP_NONE)
		return;
	if (s->step_min == SINK_STEP_NONE || min < s->step_min)
		s->step_min = min;
	if (s->step_max == SINK_STEP_NONE || max > s->step_max)
		s->step_max = max;
}

static inline void summary_times(struct summary *s, int64_t min, int64_t max)
{
	if (min < s->time_min)
		s->time_min = min;
	if (max > s->time_max)
		s->time_max = max;
}

/* A smallest and a greatest value at a place; NaN: there is none. */
static inline void summary_extremes(struct summary *s, double min, int64_t min_at, double max,
				    int64_t max_at)
{
	if (!isnan(min) && (s->min_at < 0 || min < s->min)) {
		s->min = min;
		s->min_at = min_at;
	}
	if (!isnan(max) && (s->max_at < 0 || max > s->max)) {
		s->max = max;
		s->max_at = max_at;
	}
}

void summary_points(struct summary *s, const struct points_view *v, uint32_t segment)
{
	size_t i, without = 0;

	summary_begin(s, v->n, segment);
	for (i = 0; i < v->n; i++) {
		summary_times(s, v->time[i], v->time[i]);
		summary_steps(s, v->step[i], v->step[i]);
		without += v->step[i] == SINK_STEP_NONE;
	}
	s->mixed = without && without < v->n;
	for (i = 0; i < v->n; i++) {
		double x = v->value[i];

		if (isnan(x)) {
			s->nan++;
			continue;
		}
		s->sum += x;
		summary_extremes(s, x, (int64_t)i, x, (int64_t)i);
	}
	s->observed = v->n - s->nan;
	s->first = v->value[0];
	s->last = v->value[v->n - 1];
}

void summary_hists(struct summary *s, const struct hists *h, size_t from, size_t n,
		   uint32_t segment)
{
	size_t i, without = 0;

	summary_begin(s, n, segment);
	for (i = 0; i < n; i++) {
		const struct hists_row *r = &h->rows[from + i];

		summary_times(s, r->time, r->time);
		summary_steps(s, r->step, r->step);
		without += r->step == SINK_STEP_NONE;
		s->nan += r->nan;
		s->observed += r->count;
		s->sum += r->sum;
		summary_extremes(s, r->min, (int64_t)i, r->max, (int64_t)i);
	}
	s->mixed = without && without < n;
}

void summary_join(struct summary *s, const struct summary *next)
{
	if (s->n == 0) {
		*s = *next;
		return;
	}
	s->mixed |= next->mixed |
		    ((s->step_min == SINK_STEP_NONE) != (next->step_min == SINK_STEP_NONE));
	summary_times(s, next->time_min, next->time_max);
	summary_steps(s, next->step_min, next->step_max);
	summary_extremes(s, next->min, next->min_at + (int64_t)s->n, next->max,
			 next->max_at + (int64_t)s->n);
	s->n += next->n;
	s->nan += next->nan;
	s->observed += next->observed;
	s->sum += next->sum;
	s->last = next->last;
	if (next->segment_min < s->segment_min)
		s->segment_min = next->segment_min;
	if (next->segment_max > s->segment_max)
		s->segment_max = next->segment_max;
}

/* ---- pages --------------------------------------------------------------------- */

/* A field as a column; some are written as differences to another. */
struct summary_field {
	size_t offset;
	size_t less; /* offset of what is subtracted; the field's own: nothing */
	enum {
		SUMMARY_U64,
		SUMMARY_U32,
		SUMMARY_DOUBLE
	} type;
};
#define FIELD(name, type)                                                                          \
	{                                                                                          \
		offsetof(struct summary, name), offsetof(struct summary, name), type               \
	}
#define FIELD_LESS(name, base)                                                                     \
	{                                                                                          \
		offsetof(struct summary, name), offsetof(struct summary, base), SUMMARY_U64        \
	}

static const struct summary_field summary_fields[] = {
	FIELD(n, SUMMARY_U64),           FIELD(nan, SUMMARY_U64),
	FIELD_LESS(observed, n),         FIELD(sum, SUMMARY_DOUBLE),
	FIELD(min, SUMMARY_DOUBLE),      FIELD(max, SUMMARY_DOUBLE),
	FIELD(min_at, SUMMARY_U64),      FIELD(max_at, SUMMARY_U64),
	FIELD(first, SUMMARY_DOUBLE),    FIELD(last, SUMMARY_DOUBLE),
	FIELD(time_min, SUMMARY_U64),    FIELD_LESS(time_max, time_min),
	FIELD(step_min, SUMMARY_U64),    FIELD_LESS(step_max, step_min),
	FIELD(segment_min, SUMMARY_U32), FIELD(segment_max, SUMMARY_U32),
	FIELD(mixed, SUMMARY_U32),
};
#define SUMMARY_FIELDS (sizeof(summary_fields) / sizeof(summary_fields[0]))

union summary_column {
	uint64_t u[SUMMARY_PAGE];
	int64_t i[SUMMARY_PAGE];
	double d[SUMMARY_PAGE];
};

/* One field of all nodes as 64-bit numbers, doubles as their bits. */
static void summary_gather(const struct summary_field *f, const struct summary *nodes, size_t n,
			   uint64_t *out)
{
	const char *p = (const char *)nodes;
	uint64_t less;
	uint32_t small;
	size_t i;

	for (i = 0; i < n; i++, p += sizeof(*nodes)) {
		if (f->type == SUMMARY_U32) {
			memcpy(&small, p + f->offset, 4);
			out[i] = small;
			continue;
		}
		memcpy(&out[i], p + f->offset, 8);
		memcpy(&less, p + f->less, 8);
		if (f->less != f->offset)
			out[i] -= less;
	}
}

/* false: a number that the field cannot have. */
static bool summary_scatter(const struct summary_field *f, const uint64_t *in, size_t n,
			    struct summary *nodes)
{
	char *p = (char *)nodes;
	uint64_t v, less;
	uint32_t small;
	size_t i;

	for (i = 0; i < n; i++, p += sizeof(*nodes)) {
		if (f->type == SUMMARY_U32) {
			if (in[i] >= SEGMENTS_MAX)
				return false;
			small = (uint32_t)in[i];
			memcpy(p + f->offset, &small, 4);
			continue;
		}
		v = in[i];
		memcpy(&less, p + f->less, 8);
		if (f->less != f->offset)
			v += less;
		memcpy(p + f->offset, &v, 8);
	}
	return true;
}

/* The same number in all nodes: no column, the number. */
static bool summary_put_constant(struct buf *b, const struct summary_field *f, const int64_t *v,
				 size_t n)
{
	size_t i;

	if (f->type == SUMMARY_DOUBLE)
		return false;
	for (i = 1; i < n; i++)
		if (v[i] != v[0])
			return false;
	buf_uvarint(b, 0);
	buf_svarint(b, v[0]);
	return true;
}

int summary_encode(struct column_codec *c, struct buf *b, const struct summary *nodes, size_t n)
{
	union summary_column column;
	struct buf one;
	size_t i;
	int r = 0;

	buf_init(&one, COLUMN_BYTES_MAX);
	for (i = 0; r == 0 && i < SUMMARY_FIELDS; i++) {
		const struct summary_field *f = &summary_fields[i];

		summary_gather(f, nodes, n, column.u);
		if (summary_put_constant(b, f, column.i, n))
			continue;
		buf_reset(&one);
		r = f->type == SUMMARY_DOUBLE ? column_put_values(c, &one, column.d, n)
					      : column_put_ints(c, &one, column.i, n);
		buf_uvarint(b, one.len);
		if (r == 0)
			buf_append(b, one.data, one.len);
	}
	buf_done(&one);
	return r < 0 ? r : b->error;
}

/* The next field's numbers. NULL or what is wrong. */
static const char *summary_get_column(struct column_codec *c, struct cur *cur, bool is_double,
				      size_t n, union summary_column *ret)
{
	uint64_t bytes = cur_uvarint(cur);
	const unsigned char *data;
	size_t i;

	if (bytes == 0 && !is_double) {
		ret->i[0] = cur_svarint(cur);
		for (i = 1; i < n; i++)
			ret->i[i] = ret->i[0];
		return cur->error ? "a number is cut short" : NULL;
	}
	data = bytes > COLUMN_BYTES_MAX ? NULL : cur_bytes(cur, (size_t)bytes);
	if (!data)
		return "a column is cut short";
	return is_double ? column_get_values(c, data, (size_t)bytes, n, ret->d)
			 : column_get_ints(c, data, (size_t)bytes, n, ret->i);
}

static bool summary_is_sane(const struct summary *s)
{
	return s->n > 0 && s->n <= INT64_MAX && s->min_at >= -1 && s->min_at < (int64_t)s->n &&
	       s->max_at >= -1 && s->max_at < (int64_t)s->n && s->time_min <= s->time_max &&
	       (s->step_min == SINK_STEP_NONE) == (s->step_max == SINK_STEP_NONE) &&
	       s->step_min <= s->step_max && s->segment_min <= s->segment_max && s->mixed <= 1;
}

const char *summary_decode(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			   struct summary *nodes)
{
	struct cur cur = {.p = p, .end = p + len};
	union summary_column column;
	const char *why;
	size_t i;

	if (n == 0 || n > SUMMARY_PAGE)
		return "impossible number of nodes";
	memset(nodes, 0, n * sizeof(*nodes));
	for (i = 0; i < SUMMARY_FIELDS; i++) {
		const struct summary_field *f = &summary_fields[i];

		why = summary_get_column(c, &cur, f->type == SUMMARY_DOUBLE, n, &column);
		if (why)
			return why;
		if (!summary_scatter(f, column.u, n, nodes))
			return "a small number is out of range";
	}
	for (i = 0; i < n; i++)
		if (!summary_is_sane(&nodes[i]))
			return "a node contradicts itself";
	return cur.p == cur.end ? NULL : "bytes behind the end";
}

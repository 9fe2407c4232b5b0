/* SPDX-License-Identifier: Apache-2.0
 *
 * points.c - points as columns: times, steps and threads as strides or varint
 * differences, values as raw doubles. A block that has the same times, steps or
 * threads as the block before says only that.
 */
#include "store/codec.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How a column of integers is written; two bits each in a block's shape. */
enum points_mode {
	POINTS_SAME = 0,   /* as in the block before */
	POINTS_STRIDE = 1, /* svarint first - base, svarint difference */
	POINTS_DELTA = 2,  /* uvarint bytes; svarint first - base, svarint differences */
	POINTS_NONE = 3    /* steps only: no point has one */
};

#define POINTS_VARINT_MAX 10u

void points_init(struct points *p)
{
	*p = (struct points){0};
}

void points_done(struct points *p)
{
	free(p->time);
	points_init(p);
}

int points_reserve(struct points *p, size_t n)
{
	size_t cap = p->cap ? p->cap : 64, k = p->n;
	int64_t *m;

	if (n <= p->cap)
		return 0;
	while (cap < n)
		cap += cap < CHUNK_POINTS_MAX ? cap : cap / 2; /* BUILD_POINTS fit exactly */
	m = malloc(cap * (3 * sizeof(int64_t) + sizeof(double)));
	if (!m)
		return -ENOMEM;
	if (k) {
		memcpy(m, p->time, k * sizeof(*m));
		memcpy(m + cap, p->step, k * sizeof(*m));
		memcpy(m + 2 * cap, p->thread, k * sizeof(*m));
		memcpy(m + 3 * cap, p->value, k * sizeof(double));
	}
	free(p->time);
	p->time = m;
	p->step = m + cap;
	p->thread = m + 2 * cap;
	p->value = (double *)(m + 3 * cap);
	p->cap = cap;
	return 0;
}

int points_append(struct points *p, const struct points *from, size_t at, size_t n)
{
	if (points_reserve(p, p->n + n) < 0)
		return -ENOMEM;
	memcpy(p->time + p->n, from->time + at, n * sizeof(*p->time));
	memcpy(p->step + p->n, from->step + at, n * sizeof(*p->step));
	memcpy(p->thread + p->n, from->thread + at, n * sizeof(*p->thread));
	memcpy(p->value + p->n, from->value + at, n * sizeof(*p->value));
	p->n += n;
	return 0;
}

struct points_view points_slice(const struct points *p, size_t from, size_t n)
{
	if (!p->time) /* there have never been any */
		return (struct points_view){0};
	return (struct points_view){n, p->time + from, p->step + from, p->thread + from,
				    p->value + from};
}

/* Differences wrap modulo 2^64, so that no pair of numbers overflows. */
static inline int64_t points_sub(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t points_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline unsigned char *points_put(unsigned char *p, int64_t v)
{
	uint64_t u = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);

	while (u >= 0x80) {
		*p++ = (unsigned char)(u | 0x80);
		u >>= 7;
	}
	*p++ = (unsigned char)u;
	return p;
}

static void points_put_delta(struct buf *b, const int64_t *v, size_t n, int64_t base)
{
	unsigned char *start = buf_reserve(b, (n + 1) * POINTS_VARINT_MAX), *p, *from;
	size_t i, len;

	if (!start)
		return;
	from = p = start + POINTS_VARINT_MAX;
	for (i = 0; i < n; i++) {
		p = points_put(p, points_sub(v[i], base));
		base = v[i];
	}
	len = (size_t)(p - from);
	buf_uvarint(b, len);
	memmove(b->data + b->len, from, len);
	b->len += len;
}

static unsigned points_put_column(struct buf *b, const int64_t *v, size_t n, const int64_t *prev,
				  int64_t base, bool may_be_none)
{
	int64_t d = n > 1 ? points_sub(v[1], v[0]) : 0;
	size_t i;

	if (prev && memcmp(prev, v, n * sizeof(*v)) == 0)
		return POINTS_SAME;
	for (i = 2; i < n; i++)
		if (points_sub(v[i], v[i - 1]) != d)
			break;
	if (i < n) {
		points_put_delta(b, v, n, base);
		return POINTS_DELTA;
	}
	if (may_be_none && d == 0 && v[0] == SINK_STEP_NONE)
		return POINTS_NONE;
	buf_svarint(b, points_sub(v[0], base));
	buf_svarint(b, d);
	return POINTS_STRIDE;
}

static void points_put_values(struct buf *b, const double *v, size_t n)
{
	uint64_t bits;
	size_t i;
	char *to = buf_reserve(b, n * 8);

	if (!to)
		return;
	for (i = 0; i < n; i++) {
		memcpy(&bits, &v[i], 8);
		bits = htole64(bits);
		memcpy(to + 8 * i, &bits, 8);
	}
	b->len += n * 8;
}

void points_encode(struct buf *b, const struct points_view *v, const struct points_view *prev,
		   const struct points_base *base)
{
	size_t at = b->len;
	unsigned shape;
	bool constant;

	if (prev && prev->n != v->n)
		prev = NULL;
	buf_putc(b, 0);
	shape = points_put_column(b, v->time, v->n, prev ? prev->time : NULL, base->time, false);
	shape |= points_put_column(b, v->step, v->n, prev ? prev->step : NULL, base->step, true)
		 << 2;
	shape |= points_put_column(b, v->thread, v->n, prev ? prev->thread : NULL, 0, false) << 4;
	constant = v->n > 1 && memcmp(v->value, v->value + 1, (v->n - 1) * sizeof(double)) == 0;
	shape |= (unsigned)constant << 6;
	points_put_values(b, v->value, constant ? 1 : v->n);
	if (!b->error)
		b->data[at] = (char)shape;
}

static const char *points_parse_column(struct cur *c, unsigned mode, size_t n, bool has_last,
				       bool may_be_none, struct points_column *col)
{
	uint64_t len;

	if (mode == POINTS_SAME)
		return has_last ? NULL : "a column refers to a block that does not match";
	if (mode == POINTS_NONE && !may_be_none)
		return "a column of times or threads is empty";
	col->mode = mode;
	col->p = c->p;
	if (mode == POINTS_STRIDE) {
		cur_svarint(c);
		cur_svarint(c);
	} else if (mode == POINTS_DELTA) {
		len = cur_uvarint(c);
		if (len < n || len > n * POINTS_VARINT_MAX)
			return "a column has an impossible length";
		col->p = cur_bytes(c, (size_t)len);
	}
	col->end = c->p;
	return c->error ? "a column is cut short" : NULL;
}

const char *points_parse(struct cur *c, size_t n, struct points_block *b)
{
	const unsigned char *shape = cur_bytes(c, 1);
	bool has_last = b->n == n && n > 0;
	const char *why;

	if (!shape || n == 0 || *shape & 0x80)
		return "a block has an unknown shape";
	why = points_parse_column(c, *shape & 3, n, has_last, false, &b->time);
	if (!why)
		why = points_parse_column(c, *shape >> 2 & 3, n, has_last, true, &b->step);
	if (!why)
		why = points_parse_column(c, *shape >> 4 & 3, n, has_last, false, &b->thread);
	if (why)
		return why;
	b->n = n;
	b->constant = *shape >> 6 & 1;
	b->value = cur_bytes(c, b->constant ? 8 : n * 8);
	return b->value ? NULL : "values are cut short";
}

/* One svarint; NULL if it does not end before `end`. */
static inline const unsigned char *points_get(const unsigned char *p, const unsigned char *end,
					      int64_t *ret)
{
	uint64_t u = 0;
	unsigned shift = 0;

	do {
		if (p == end || shift > 63)
			return NULL;
		u |= (uint64_t)(*p & 0x7f) << shift;
		shift += 7;
	} while (*p++ & 0x80);
	*ret = (int64_t)((u >> 1) ^ (0 - (u & 1)));
	return p;
}

static const char *points_start_column(struct points_stream *s, unsigned i, int64_t base)
{
	struct points_column *c = &s->column[i];
	int64_t d = 0, stride = 0;

	if (c->mode == POINTS_STRIDE) {
		c->p = points_get(c->p, c->end, &d);
		if (c->p)
			c->p = points_get(c->p, c->end, &stride);
		if (!c->p)
			return "a column is cut short";
	}
	s->at[i] = c->mode == POINTS_NONE ? SINK_STEP_NONE : points_add(base, d);
	s->stride[i] = stride;
	return NULL;
}

const char *points_start(const struct points_block *b, const struct points_base *base,
			 struct points_stream *s)
{
	const int64_t bases[] = {base->time, base->step, 0};
	const char *why = NULL;
	unsigned i;

	*s = (struct points_stream){.left = b->n,
				    .column = {b->time, b->step, b->thread},
				    .value = b->value,
				    .constant = b->constant};
	for (i = 0; !why && i < 3; i++)
		why = points_start_column(s, i, bases[i]);
	return why;
}

static const char *points_take_column(struct points_stream *s, unsigned k, size_t n, int64_t *out)
{
	struct points_column *c = &s->column[k];
	int64_t at = s->at[k], d = s->stride[k];
	const unsigned char *p = c->p;
	size_t i;

	if (c->mode == POINTS_DELTA) {
		for (i = 0; i < n; i++) {
			p = points_get(p, c->end, &d);
			if (!p)
				return "a column is cut short";
			out[i] = at = points_add(at, d);
		}
		if (n == s->left && p != c->end)
			return "a column is longer than its block";
		c->p = p;
	} else {
		for (i = 0; i < n; i++) {
			out[i] = at;
			at = points_add(at, d);
		}
	}
	s->at[k] = at;
	return NULL;
}

const char *points_take(struct points_stream *s, size_t n, struct points *out)
{
	size_t i, at = out->n;
	const char *why;
	uint64_t bits;

	if (points_reserve(out, at + n) < 0)
		return BLOB_NO_MEMORY;
	why = points_take_column(s, 0, n, out->time + at);
	if (!why)
		why = points_take_column(s, 1, n, out->step + at);
	if (!why)
		why = points_take_column(s, 2, n, out->thread + at);
	if (why)
		return why;
	for (i = 0; i < n; i++) {
		memcpy(&bits, s->value + (s->constant ? 0 : 8 * i), 8);
		bits = le64toh(bits);
		memcpy(&out->value[at + i], &bits, 8);
	}
	if (!s->constant)
		s->value += 8 * n;
	s->left -= n;
	out->n = at + n;
	return NULL;
}

const char *points_decode(const struct points_block *b, const struct points_base *base,
			  struct points *out)
{
	struct points_stream s;
	const char *why = points_start(b, base, &s);

	return why ? why : points_take(&s, s.left, out);
}

const char *points_get_body(const unsigned char *p, size_t len, size_t n, struct points *out)
{
	struct cur c = {.p = p, .end = p + len};
	struct points_block block = {0};
	struct points_base base;
	const char *why;

	base.time = cur_svarint(&c);
	base.step = cur_svarint(&c);
	if (c.error || n == 0 || n > CHUNK_POINTS_MAX)
		return "impossible number of points";
	why = points_parse(&c, n, &block);
	if (!why && c.p != c.end)
		why = "bytes behind the end";
	return why ? why : points_decode(&block, &base, out);
}

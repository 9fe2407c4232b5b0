/* SPDX-License-Identifier: Apache-2.0
 *
 * moments.c - several axes of the same steps as one row: times of a loop, each told
 * by what it differs from another one. The row needs nothing outside it.
 */
#include "store/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How a shift is written. */
static const int moments_shift[] = {0, -1, 1};

struct moments_column {
	struct moments_source source;
	size_t at, len; /* in bytes */
	int64_t *time;  /* NULL: not decoded yet */
};

struct moments {
	size_t n;
	struct moments_column columns[MOMENTS_MAX];
	unsigned char *bytes;
};

void moments_free(struct moments *m)
{
	size_t i;

	if (!m)
		return;
	for (i = 0; i < m->n; i++)
		free(m->columns[i].time);
	free(m->bytes);
	free(m);
}

size_t moments_count(const struct axis *a)
{
	return a->moments ? a->moments->n : 0;
}

/* The times of n rows plus or minus those of their source, wrapping. */
static void moments_add(const int64_t *v, const int64_t *from, int shift, size_t n, bool minus,
			int64_t *ret)
{
	uint64_t sign = minus ? UINT64_MAX : 1;
	size_t i, row;

	for (i = 0; i < n; i++) {
		row = i;
		if (shift < 0 && i > 0)
			row--;
		if (shift > 0 && i + 1 < n)
			row++;
		ret[i] = (int64_t)((uint64_t)v[i] + sign * (uint64_t)from[row]);
	}
}

/* ---- bytes ------------------------------------------------------------------------ */

static void moments_put_shared(struct buf *b, const struct moments_bytes *x)
{
	buf_uvarint(b, x->len);
	buf_append(b, x->p, x->len);
}

/* Column i behind the others in `to`; scratch has room for all rows. */
static int moments_put_column(struct column_codec *c, struct buf *to, const struct moments_in *in,
			      size_t i, int64_t *scratch)
{
	const struct moments_source *from = &in->from[i];

	if (from->from) {
		moments_add(in->times[i], in->times[from->from - 1], from->shift, in->rows, true,
			    scratch);
		return column_put_ints(c, to, scratch, in->rows);
	}
	if (!in->own[i].p)
		return column_put_ints(c, to, in->times[i], in->rows);
	buf_append(to, in->own[i].p, in->own[i].len);
	return to->error;
}

int moments_encode(struct column_codec *c, struct buf *b, const struct moments_in *in)
{
	int64_t *scratch = malloc(in->rows * sizeof(*scratch));
	size_t i, at = 0;
	struct buf all;
	int r = 0;

	if (!scratch)
		return -ENOMEM;
	/* A column takes twice its bytes until it is made. */
	buf_init(&all, (MOMENTS_MAX + 2) * (size_t)COLUMN_BYTES_MAX);
	moments_put_shared(b, &in->steps);
	moments_put_shared(b, &in->threads);
	buf_putc(b, (char)in->n);
	for (i = 0; r == 0 && i < in->n; i++) {
		const struct moments_source *from = &in->from[i];

		r = moments_put_column(c, &all, in, i, scratch);
		buf_putc(b, (char)from->from);
		buf_putc(b, from->shift == 0 ? 0 : from->shift < 0 ? 1 : 2);
		buf_uvarint(b, all.len - at);
		at = all.len;
	}
	if (r == 0)
		buf_append(b, all.data, all.len);
	buf_done(&all);
	free(scratch);
	return r < 0 ? r : b->error;
}

/* Steps or threads. */
static const char *moments_get_shared(struct column_codec *c, struct cur *cur, size_t n,
				      int64_t *ret)
{
	uint64_t len = cur_uvarint(cur);
	const unsigned char *p = len <= COLUMN_BYTES_MAX ? cur_bytes(cur, (size_t)len) : NULL;

	return p ? column_get_ints(c, p, (size_t)len, n, ret) : "steps or threads are cut short";
}

/* What each column is told by and where its bytes will be. */
static const char *moments_get_heads(struct cur *cur, struct moments *m)
{
	const unsigned char *count = cur_bytes(cur, 1), *head;
	uint64_t len;
	size_t at = 0;

	if (!count || *count == 0 || *count > MOMENTS_MAX)
		return "an impossible number of columns of times";
	for (; m->n < *count; m->n++) {
		struct moments_column *x = &m->columns[m->n];

		head = cur_bytes(cur, 2);
		len = cur_uvarint(cur);
		if (cur->error || len > COLUMN_BYTES_MAX)
			return "a column of times is cut short";
		if (head[0] > m->n || head[1] > 2 || (head[1] && !head[0]))
			return "a column of times has an impossible source";
		x->source = (struct moments_source){head[0], moments_shift[head[1]]};
		x->at = at;
		x->len = (size_t)len;
		at += x->len;
	}
	return at == (size_t)(cur->end - cur->p) ? NULL : "columns of times are cut short";
}

const char *moments_decode(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			   struct axis *ret)
{
	struct cur cur = {.p = p, .end = p + len};
	struct moments *m;
	const char *why;

	ret->n = 0;
	if (n == 0 || n > CHUNK_POINTS_MAX)
		return "impossible number of rows";
	if (axis_reserve(ret, n) < 0)
		return BLOB_NO_MEMORY;
	why = moments_get_shared(c, &cur, n, ret->step);
	if (!why)
		why = moments_get_shared(c, &cur, n, ret->thread);
	if (why)
		return why;
	m = calloc(1, sizeof(*m));
	if (!m)
		return BLOB_NO_MEMORY;
	why = moments_get_heads(&cur, m);
	if (!why) {
		len = (size_t)(cur.end - cur.p);
		m->bytes = malloc(len + 1);
		if (m->bytes)
			memcpy(m->bytes, cur.p, len);
		else
			why = BLOB_NO_MEMORY;
	}
	if (why) {
		moments_free(m);
		return why;
	}
	ret->moments = m;
	ret->n = n;
	ret->sorted = false;
	return NULL;
}

/* ---- columns of times --------------------------------------------------------------- */

/* A column whose source is decoded. */
static const char *moments_get_column(struct column_codec *c, struct moments *m, size_t i, size_t n)
{
	struct moments_column *x = &m->columns[i];
	int64_t *v = malloc(2 * n * sizeof(*v)), *time;
	const char *why;

	if (!v)
		return BLOB_NO_MEMORY;
	why = column_get_ints(c, m->bytes + x->at, x->len, n, v);
	if (!why && x->source.from)
		moments_add(v, m->columns[x->source.from - 1].time, x->source.shift, n, false, v);
	time = why ? NULL : realloc(v, n * sizeof(*v));
	if (!time)
		free(v);
	x->time = time;
	return why ? why : time ? NULL : BLOB_NO_MEMORY;
}

const char *moments_time(struct column_codec *c, struct axis *a, uint64_t i, const int64_t **ret)
{
	struct moments *m = a->moments;
	size_t chain[MOMENTS_MAX], n = 0, at = (size_t)i;
	const char *why = NULL;

	if (i >= m->n)
		return "a column of times that is not there";
	while (!m->columns[at].time) {
		chain[n++] = at;
		if (!m->columns[at].source.from)
			break;
		at = m->columns[at].source.from - 1;
	}
	while (!why && n)
		why = moments_get_column(c, m, chain[--n], a->n);
	if (!why)
		*ret = m->columns[i].time;
	return why;
}

/* ---- values --------------------------------------------------------------------------- */

/* What a body of format 9 begins with: the axis that it means, and the times of ends
 * (NULL: values follow, from *p on). */
static const char *moments_open(struct column_codec *c, const unsigned char **p, size_t *len,
				struct axis *a, struct axis *view, const int64_t **ends)
{
	struct cur cur = {.p = *p, .end = *p + *len};
	uint64_t column = cur_uvarint(&cur), end = cur_uvarint(&cur);
	const int64_t *times;
	const char *why;

	*ends = NULL;
	if (cur.error || (end && cur.p != cur.end))
		return "impossible values";
	why = moments_time(c, a, column, &times);
	if (!why && end)
		why = moments_time(c, a, end - 1, ends);
	if (why)
		return why;
	*view = *a;
	view->time = (int64_t *)times;
	*p = cur.p;
	*len = (size_t)(cur.end - cur.p);
	return NULL;
}

static void moments_durations(const struct axis *view, const int64_t *ends, double *ret)
{
	size_t i;

	for (i = 0; i < view->n; i++)
		ret[i] = (double)(int64_t)((uint64_t)ends[i] - (uint64_t)view->time[i]);
}

const char *moments_view(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			 struct axis *a, struct points *out, struct points_view *ret)
{
	struct axis view;
	const int64_t *ends;
	const char *why = moments_open(c, &p, &len, a, &view, &ends);

	out->n = 0;
	if (why)
		return why;
	if (!ends)
		return values_view(c, p, len, n, &view, out, ret);
	if (n != a->n)
		return "fewer durations than rows";
	if (points_reserve(out, n) < 0)
		return BLOB_NO_MEMORY;
	moments_durations(&view, ends, out->value);
	*ret = (struct points_view){n, view.time, a->step, a->thread, out->value};
	return NULL;
}

const char *moments_points(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			   struct axis *a, struct points *out)
{
	struct axis view;
	const int64_t *ends;
	const char *why = moments_open(c, &p, &len, a, &view, &ends);

	if (why)
		return why;
	if (!ends)
		return values_points(c, p, len, n, &view, out);
	if (n != a->n)
		return "fewer durations than rows";
	if (points_reserve(out, out->n + n) < 0)
		return BLOB_NO_MEMORY;
	memcpy(out->time + out->n, view.time, n * sizeof(*view.time));
	memcpy(out->step + out->n, a->step, n * sizeof(*a->step));
	memcpy(out->thread + out->n, a->thread, n * sizeof(*a->thread));
	moments_durations(&view, ends, out->value + out->n);
	out->n += n;
	return NULL;
}

bool moments_has_values(const unsigned char **p, size_t *len)
{
	struct cur cur = {.p = *p, .end = *p + *len};

	cur_uvarint(&cur);
	if (cur_uvarint(&cur) || cur.error)
		return false;
	*p = cur.p;
	*len = (size_t)(cur.end - cur.p);
	return true;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * axis.c - times, steps and threads that series share, and a series' values on
 * such an axis, with the rows that it has.
 */
#include "store/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AXIS_COLUMN sizeof(int64_t)

enum values_kind {
	VALUES_ALL = 0, /* all rows of the axis */
	VALUES_SOME = 1 /* presence, then values */
};

void axis_init(struct axis *a)
{
	*a = (struct axis){0};
}

void axis_done(struct axis *a)
{
	free(a->time);
	moments_free(a->moments);
	axis_init(a);
}

int axis_reserve(struct axis *a, size_t n)
{
	int64_t *m;

	moments_free(a->moments);
	a->moments = NULL;
	a->n = 0;
	if (n <= a->cap)
		return 0;
	m = malloc(4 * n * AXIS_COLUMN);
	if (!m)
		return -ENOMEM;
	free(a->time);
	a->time = m;
	a->step = m + n;
	a->thread = m + 2 * n;
	a->runs = m + 3 * n;
	a->cap = n;
	return 0;
}

static void axis_look(struct axis *a)
{
	size_t i;

	for (i = 1; i < a->n && a->time[i] >= a->time[i - 1]; i++)
		;
	a->sorted = i >= a->n;
}

int axis_set(struct axis *a, const struct points_view *v)
{
	if (axis_reserve(a, v->n) < 0)
		return -ENOMEM;
	memcpy(a->time, v->time, v->n * AXIS_COLUMN);
	memcpy(a->step, v->step, v->n * AXIS_COLUMN);
	memcpy(a->thread, v->thread, v->n * AXIS_COLUMN);
	a->n = v->n;
	axis_look(a);
	return 0;
}

int axis_encode(struct column_codec *c, struct buf *b, const struct axis *a)
{
	const int64_t *const columns[] = {a->time, a->step, a->thread};
	struct buf all;
	size_t i, at = 0;
	int r = 0;

	/* A column takes twice its bytes until it is made. */
	buf_init(&all, 5 * COLUMN_BYTES_MAX);
	for (i = 0; r == 0 && i < 3; i++) {
		r = column_put_ints(c, &all, columns[i], a->n);
		if (i < 2)
			buf_uvarint(b, all.len - at);
		at = all.len;
	}
	if (r == 0)
		buf_append(b, all.data, all.len);
	buf_done(&all);
	return r < 0 ? r : b->error;
}

const char *axis_decode(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			struct axis *ret)
{
	struct cur cur = {.p = p, .end = p + len};
	uint64_t times, steps;
	const char *why;
	size_t left;

	ret->n = 0;
	if (n == 0 || n > CHUNK_POINTS_MAX)
		return "impossible number of rows";
	times = cur_uvarint(&cur);
	steps = cur_uvarint(&cur);
	left = (size_t)(cur.end - cur.p);
	if (cur.error || times > left || steps > left - times)
		return "an axis is cut short";
	if (axis_reserve(ret, n) < 0)
		return BLOB_NO_MEMORY;
	why = column_get_ints(c, cur.p, times, n, ret->time);
	if (!why)
		why = column_get_ints(c, cur.p + times, steps, n, ret->step);
	if (!why)
		why = column_get_ints(c, cur.p + times + steps, left - times - steps, n,
				      ret->thread);
	if (why)
		return why;
	ret->n = n;
	axis_look(ret);
	return NULL;
}

/* ---- which rows ---------------------------------------------------------------- */

static bool axis_is_same(const struct axis *a, const struct points_view *v)
{
	return a->time[0] == v->time[0] && memcmp(a->time, v->time, a->n * AXIS_COLUMN) == 0 &&
	       memcmp(a->step, v->step, a->n * AXIS_COLUMN) == 0 &&
	       memcmp(a->thread, v->thread, a->n * AXIS_COLUMN) == 0;
}

/* First row of a sorted axis that is not before `time`. */
static size_t axis_find(const struct axis *a, int64_t time)
{
	size_t low = 0, high = a->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->time[middle] < time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Walk axis and points together; points that were found, *at rows passed. */
static size_t axis_walk(const struct axis *a, const struct points_view *v, struct presence *ret,
			size_t *at)
{
	size_t i = 0, row = axis_find(a, v->time[0]), run = row;
	bool here = row == 0;

	if (!here)
		ret->runs[ret->n++] = 0;
	for (; i < v->n && row < a->n; row++) {
		bool is_it = a->time[row] == v->time[i] && a->step[row] == v->step[i] &&
			     a->thread[row] == v->thread[i];

		if (!is_it && a->time[row] > v->time[i])
			return 0;
		if (is_it != here) {
			ret->runs[ret->n++] = (int64_t)run;
			here = is_it;
			run = 0;
		}
		run++;
		i += is_it;
	}
	if (row < a->n)
		ret->runs[ret->n++] = (int64_t)run;
	*at = row;
	return i;
}

size_t axis_match(const struct axis *a, const struct points_view *v, struct presence *ret)
{
	bool full = a->n == CHUNK_POINTS_MAX;
	size_t n, row = 0;

	ret->n = 0;
	if ((v->n == a->n || (full && v->n > a->n)) && axis_is_same(a, v))
		return a->n;
	if (!a->sorted || v->n * 2 < a->n || v->time[0] < a->time[0] ||
	    v->time[0] > a->time[a->n - 1])
		return 0;
	n = axis_walk(a, v, ret, &row);
	if (n * 2 < a->n || (n < v->n && !full))
		return 0;
	return n;
}

/* ---- values --------------------------------------------------------------------- */

int values_encode(struct column_codec *c, struct buf *b, const struct presence *rows,
		  const double *v, size_t n)
{
	struct buf runs;
	int r = 0;

	buf_putc(b, rows->n ? VALUES_SOME : VALUES_ALL);
	if (rows->n) {
		buf_init(&runs, COLUMN_BYTES_MAX);
		r = column_put_ints(c, &runs, rows->runs, rows->n);
		buf_uvarint(b, rows->n);
		buf_uvarint(b, runs.len);
		if (r == 0)
			buf_append(b, runs.data, runs.len);
		buf_done(&runs);
	}
	return r < 0 ? r : column_put_values(c, b, v, n);
}

static void values_copy(struct points *out, size_t at, const struct axis *a, size_t row, size_t n)
{
	memcpy(out->time + at, a->time + row, n * AXIS_COLUMN);
	memcpy(out->step + at, a->step + row, n * AXIS_COLUMN);
	memcpy(out->thread + at, a->thread + row, n * AXIS_COLUMN);
}

/* The rows that are there, by a->runs; out has room for n. */
static const char *values_rows(const struct axis *a, size_t n_runs, size_t n, struct points *out)
{
	size_t i, row = 0, found = 0, len;

	for (i = 0; i <= n_runs; i++) {
		if (i < n_runs && (a->runs[i] < 0 || (uint64_t)a->runs[i] > a->n - row))
			return "runs of rows exceed the axis";
		len = i < n_runs ? (size_t)a->runs[i] : a->n - row;
		if (i % 2 == 0) {
			if (len > n - found)
				return "more rows than points";
			values_copy(out, out->n + found, a, row, len);
			found += len;
		}
		row += len;
	}
	return found == n ? NULL : "fewer rows than points";
}

const char *values_points(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			  struct axis *a, struct points *out)
{
	struct cur cur = {.p = p, .end = p + len};
	const unsigned char *kind = cur_bytes(&cur, 1), *runs;
	uint64_t n_runs, bytes;
	const char *why;

	if (!kind || *kind > VALUES_SOME || n == 0 || n > a->n)
		return "impossible values";
	if (points_reserve(out, out->n + n) < 0)
		return BLOB_NO_MEMORY;
	if (*kind == VALUES_ALL) {
		if (n != a->n)
			return "fewer values than rows";
		values_copy(out, out->n, a, 0, n);
	} else {
		n_runs = cur_uvarint(&cur);
		bytes = cur_uvarint(&cur);
		if (n_runs == 0 || n_runs > a->n || bytes > COLUMN_BYTES_MAX)
			return "impossible runs of rows";
		runs = cur_bytes(&cur, (size_t)bytes);
		if (!runs)
			return "runs of rows are cut short";
		why = column_get_ints(c, runs, (size_t)bytes, (size_t)n_runs, a->runs);
		if (!why)
			why = values_rows(a, (size_t)n_runs, n, out);
		if (why)
			return why;
	}
	why = column_get_values(c, cur.p, (size_t)(cur.end - cur.p), n, out->value + out->n);
	if (!why)
		out->n += n;
	return why;
}

const char *values_view(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			struct axis *a, struct points *out, struct points_view *ret)
{
	const char *why;

	out->n = 0;
	if (len == 0 || *p != VALUES_ALL || n == 0 || n != a->n) {
		why = values_points(c, p, len, n, a, out);
		*ret = points_slice(out, 0, out->n);
		return why;
	}
	if (points_reserve(out, n) < 0)
		return BLOB_NO_MEMORY;
	*ret = (struct points_view){n, a->time, a->step, a->thread, out->value};
	return column_get_values(c, p + 1, len - 1, n, out->value);
}

const char *values_only(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			double *ret)
{
	struct cur cur = {.p = p, .end = p + len};
	const unsigned char *kind = cur_bytes(&cur, 1);
	uint64_t bytes;

	if (!kind || *kind > VALUES_SOME)
		return "impossible values";
	if (*kind == VALUES_SOME) {
		cur_uvarint(&cur);
		bytes = cur_uvarint(&cur);
		if (bytes > COLUMN_BYTES_MAX || !cur_bytes(&cur, (size_t)bytes))
			return "runs of rows are cut short";
	}
	return column_get_values(c, cur.p, (size_t)(cur.end - cur.p), n, ret);
}

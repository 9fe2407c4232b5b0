/* SPDX-License-Identifier: Apache-2.0
 *
 * merged.c - the body of a merged tail row: a directory of axes and series, then
 * their bytes. Whoever wants one series passes over the others.
 */
#include "store/codec.h"

#include <errno.h>
#include <stdlib.h>

static void merged_put_entries(struct buf *b, const struct merged_entry *x, size_t n, bool is_hist)
{
	uint32_t series = 0;
	size_t i;

	buf_uvarint(b, n);
	for (i = 0; i < n; i++) {
		buf_uvarint(b, x[i].series - series);
		if (!is_hist)
			buf_uvarint(b, x[i].axis);
		buf_uvarint(b, x[i].n);
		buf_uvarint(b, x[i].len);
		series = x[i].series;
	}
}

int merged_encode(struct buf *b, uint64_t first, const struct merged_axis *axes, size_t n_axes,
		  const struct merged_entry *entries, size_t n_entries)
{
	size_t i, n_points;

	for (n_points = 0; n_points < n_entries && !entries[n_points].is_hist; n_points++)
		;
	buf_uvarint(b, first);
	buf_uvarint(b, n_axes);
	for (i = 0; i < n_axes; i++) {
		buf_uvarint(b, axes[i].n);
		buf_uvarint(b, axes[i].len);
	}
	merged_put_entries(b, entries, n_points, false);
	merged_put_entries(b, entries + n_points, n_entries - n_points, true);
	for (i = 0; i < n_axes; i++)
		buf_append(b, axes[i].p, axes[i].len);
	for (i = 0; i < n_entries; i++)
		buf_append(b, entries[i].p, entries[i].len);
	return b->error;
}

static int merged_bad(const struct merged *m, const char *what)
{
	return blob_bad(m->id, m->e, 0, what);
}

/* The list of axes; their bytes together. */
static int merged_list_axes(struct merged *m, uint64_t *bytes)
{
	uint64_t n = cur_uvarint(&m->dir), rows, len, i;
	uint64_t room = (uint64_t)(m->dir.end - m->dir.p);

	if (m->dir.error || n > MERGED_AXES_MAX || n > room / 2)
		return merged_bad(m, "impossible number of axes");
	m->axes = calloc(n + 1, sizeof(*m->axes));
	if (!m->axes)
		return err_set(m->e, -ENOMEM, "%s: no memory for the axes of a row", m->id->path);
	for (i = 0; i < n; i++) {
		rows = cur_uvarint(&m->dir);
		len = cur_uvarint(&m->dir);
		if (m->dir.error || rows == 0 || rows > CHUNK_POINTS_MAX || len > room - *bytes)
			return merged_bad(m, "an axis is impossible");
		m->axes[i].n = (uint32_t)rows;
		m->axes[i].len = (size_t)len;
		*bytes += len;
	}
	m->n_axes = (size_t)n;
	return 0;
}

/* The next line of the directory; its bytes come from m->data. */
static int merged_line(struct merged *m, struct merged_entry *ret)
{
	uint64_t step = cur_uvarint(&m->dir);
	uint64_t axis = m->is_hist ? 0 : cur_uvarint(&m->dir);
	uint64_t n = cur_uvarint(&m->dir), len = cur_uvarint(&m->dir);
	uint64_t max = m->is_hist ? CHUNK_HISTS_MAX : CHUNK_POINTS_MAX;

	if (m->dir.error || step > UINT32_MAX - m->series || m->series + step == 0)
		return merged_bad(m, "series are out of order");
	if (!m->is_hist && axis >= m->n_axes)
		return merged_bad(m, "a series names an axis that is not there");
	if (!m->is_hist && m->axes[axis].n < max)
		max = m->axes[axis].n;
	if (n == 0 || n > max || len > BLOB_BODY_MAX)
		return merged_bad(m, "impossible number of points or bytes");
	m->series += (uint32_t)step;
	*ret = (struct merged_entry){m->series,  (uint32_t)axis, (uint32_t)n,
				     m->is_hist, m->data,        (size_t)len};
	return 0;
}

/* Pass over a list of entries: is it possible? */
static int merged_check(struct merged *m, bool is_hist, uint64_t *left, uint64_t *bytes)
{
	struct merged_entry x = {0};
	uint64_t i, room = (uint64_t)(m->dir.end - m->dir.p);
	int r = 0;

	*left = cur_uvarint(&m->dir);
	if (m->dir.error || *left > MERGED_ENTRIES_MAX || *left > room / 3 || *bytes > room)
		return merged_bad(m, "impossible number of series");
	m->is_hist = is_hist;
	m->series = 0;
	for (i = 0; r == 0 && i < *left; i++) {
		r = merged_line(m, &x);
		if (r == 0 && x.len > room - *bytes)
			r = merged_bad(m, "more bytes than there are");
		if (r == 0) {
			*bytes += x.len;
			m->points += x.n;
		}
	}
	return r;
}

static int merged_open(struct merged *m, const struct blob *b)
{
	uint64_t bytes = 0, hists = 0;
	struct cur lists;
	size_t i;
	int r;

	m->first = cur_uvarint(&m->dir);
	r = merged_list_axes(m, &bytes);
	lists = m->dir;
	if (r == 0)
		r = merged_check(m, false, &m->left, &bytes);
	if (r == 0)
		r = merged_check(m, true, &hists, &bytes);
	if (r < 0)
		return r;
	if (m->points != b->count || bytes != (uint64_t)(m->dir.end - m->dir.p))
		return merged_bad(m, "points or bytes differ from what is stated");
	m->data = m->dir.p;
	for (i = 0; i < m->n_axes; i++) {
		m->axes[i].p = m->data;
		m->data += m->axes[i].len;
	}
	m->left_hists = hists;
	m->dir = lists;
	m->is_hist = false;
	m->series = 0;
	cur_uvarint(&m->dir); /* the number of series */
	return 0;
}

int merged_begin(struct merged *m, const struct blob_id *id, const struct blob *b, struct err *e)
{
	int r;

	*m = (struct merged){.id = id, .e = e};
	m->dir = (struct cur){.p = b->body, .end = b->body + b->len};
	if (b->format != BLOB_MERGED)
		return merged_bad(m, "not a merged row");
	r = merged_open(m, b);
	if (r < 0)
		merged_done(m);
	return r;
}

void merged_done(struct merged *m)
{
	free(m->axes);
	m->axes = NULL;
}

int merged_next(struct merged *m, struct merged_entry *ret)
{
	int r;

	if (!m->is_hist && m->left == 0) {
		m->is_hist = true;
		m->series = 0;
		cur_uvarint(&m->dir); /* the number of histogram series, checked before */
		m->left = m->left_hists;
	}
	if (m->left == 0)
		return 0;
	r = merged_line(m, ret);
	if (r < 0)
		return r;
	m->data += ret->len;
	m->left--;
	return 1;
}

int merged_axis(const struct merged *m, size_t i, struct column_codec *c, struct axis *ret)
{
	const struct merged_axis *a = &m->axes[i];
	const char *why = axis_decode(c, a->p, a->len, a->n, ret);

	return why ? merged_bad(m, why) : 0;
}

int merged_points(const struct merged *m, const struct merged_entry *x, struct column_codec *c,
		  struct axis *axis, struct points *out)
{
	const char *why = values_points(c, x->p, x->len, x->n, axis, out);

	return why ? merged_bad(m, why) : 0;
}

int merged_hists(const struct merged *m, const struct merged_entry *x, struct hists *out)
{
	const char *why = hists_get_body(x->p, x->len, x->n, out);

	return why ? merged_bad(m, why) : 0;
}

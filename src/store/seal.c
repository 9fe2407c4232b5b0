/* SPDX-License-Identifier: Apache-2.0
 *
 * seal.c - entries that a fold has built become chunks: bytes into packs, axes
 * and rows into their tables, summaries into the tree. An entry in which a
 * segment begins is cut there.
 */
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEAL_AXES 2u

struct seal_axis {
	struct axis axis; /* axes[index] of the build, if it has rows */
	uint32_t index;
};

struct seal {
	struct store *s;
	struct build *b;
	struct err *e;
	int64_t *meta;
	struct sumtree_db db;
	struct sumtree tree;
	struct buf pack, body;
	struct chunk chunk; /* the next one; its segment is that before it */
	enum sink_kind kind;
	struct seal_axis axes[SEAL_AXES]; /* decoded, by turns */
	size_t next_axis;
	struct points points;
	struct hists hists;
};

/* ---- packs and axes ----------------------------------------------------------------- */

static int seal_write(struct seal *x, enum store_sql which, int64_t id, const void *data,
		      size_t len, const char *what)
{
	sqlite3_stmt *st = x->s->sql[which];

	sqlite3_bind_int64(st, 1, id);
	sqlite3_bind_blob64(st, 2, data, len, SQLITE_STATIC);
	x->s->stats.chunk_bytes += len;
	return db_run(st, what, x->e);
}

static int seal_close_pack(struct seal *x)
{
	int r;

	if (x->pack.len == 0)
		return 0;
	r = seal_write(x, SQL_PACK, ++x->meta[META_PACK], x->pack.data, x->pack.len,
		       "writing a pack");
	buf_reset(&x->pack);
	return r;
}

/* x->body as the next chunk's data, behind the others of its pack. */
static int seal_pack(struct seal *x, enum blob_format format)
{
	const struct blob_id id = {x->s->path, "chunk", x->chunk.series, x->chunk.ordinal};
	const struct buf *blob = &x->s->codec.out;
	int r = blob_seal(&x->s->codec, &id, format, x->chunk.n, &x->body);

	if (r == 0 && x->pack.len && x->pack.len + blob->len > CHUNKROW_PACK)
		r = seal_close_pack(x);
	if (r < 0)
		return err_errno(x->e, r, "%s: encoding a chunk of series %u", x->s->path,
				 x->chunk.series);
	x->chunk.pack = x->meta[META_PACK] + 1;
	x->chunk.at = (uint32_t)x->pack.len;
	x->chunk.len = (uint32_t)blob->len;
	buf_append(&x->pack, blob->data, blob->len);
	return x->pack.error ? err_errno(x->e, x->pack.error, "%s: a chunk of series %u",
					 x->s->path, x->chunk.series)
			     : 0;
}

static int seal_write_axis(struct seal *x, enum blob_format format, const struct buf *body,
			   size_t n)
{
	const struct blob_id id = {x->s->path, "axis", (uint64_t)x->meta[META_AXIS] + 1, 0};
	int r = blob_seal(&x->s->codec, &id, format, (uint32_t)n, body);

	if (r < 0)
		return err_errno(x->e, r, "%s: encoding an axis", x->s->path);
	x->meta[META_AXIS]++;
	return seal_write(x, SQL_AXIS, x->meta[META_AXIS], x->s->codec.out.data,
			  x->s->codec.out.len, "writing an axis");
}

/* The row of an entry's axis, or of the group that this is in, written when first needed. */
static int seal_shared_axis(struct seal *x, const struct build_entry *entry)
{
	struct build_axis *a = &x->b->axes[entry->axis];
	struct build_group *g = a->group ? &x->b->groups[a->group - 1] : NULL;
	const char *from = g ? x->b->group_bytes.data + g->at : x->b->axis_bytes.data + a->at;
	int64_t *id = g ? &g->id : &a->id;
	int r = 0;

	if (!*id) {
		buf_reset(&x->body);
		buf_append(&x->body, from, g ? g->len : a->len);
		r = seal_write_axis(x, g ? BLOB_MOMENTS : BLOB_AXIS, &x->body, a->n);
		*id = x->meta[META_AXIS];
	}
	x->chunk.axis = *id;
	return r;
}

/* The values of all of an entry into x->body. */
static enum blob_format seal_values(struct seal *x, const struct build_entry *entry)
{
	const struct build_axis *a = &x->b->axes[entry->axis];

	buf_reset(&x->body);
	if (a->group) {
		buf_uvarint(&x->body, a->column);
		buf_uvarint(&x->body, entry->end);
	}
	if (!entry->end)
		buf_append(&x->body, x->b->bytes.data + entry->at, entry->len);
	return a->group ? BLOB_AT_MOMENTS : BLOB_VALUES;
}

/* ---- chunks --------------------------------------------------------------------------- */

static int seal_row(struct seal *x, const struct summary *leaves, size_t n)
{
	sqlite3_stmt *st = x->s->sql[SQL_CHUNK];
	int r;

	chunkrow_bind(st, &x->chunk);
	r = db_run(st, "writing a chunk's row", x->e);
	if (r == 0)
		r = sumtree_add(&x->tree, leaves, n, x->e);
	x->chunk.ordinal++;
	x->chunk.start += x->chunk.n;
	return r;
}

static int seal_points(struct seal *x, size_t from, size_t n)
{
	struct summary leaves[CHUNK_POINTS_MAX / SUMMARY_LEAF];
	size_t i, k = 0;

	for (i = 0; i < n; i += SUMMARY_LEAF) {
		struct points_view v = points_slice(&x->points, from + i,
						    n - i < SUMMARY_LEAF ? n - i : SUMMARY_LEAF);

		summary_points(&leaves[k++], &v, x->chunk.segment.no);
	}
	return seal_row(x, leaves, k);
}

/* Points [from, from + n) of x->points, which is all of the entry or a part. */
static int seal_piece(struct seal *x, const struct build_entry *entry, size_t from, size_t n)
{
	struct points_view v = points_slice(&x->points, from, n);
	enum blob_format format = BLOB_VALUES;
	struct axis own;
	int r;

	x->chunk.n = (uint32_t)n;
	if (n == entry->n) {
		r = seal_shared_axis(x, entry);
		format = seal_values(x, entry);
	} else {
		axis_init(&own);
		buf_reset(&x->body);
		r = axis_set(&own, &v);
		if (r == 0)
			r = axis_encode(x->b->columns, &x->body, &own);
		if (r == 0)
			r = seal_write_axis(x, BLOB_AXIS, &x->body, n);
		x->chunk.axis = x->meta[META_AXIS];
		buf_reset(&x->body);
		x->b->presence.n = 0;
		if (r == 0)
			r = values_encode(x->b->columns, &x->body, &x->b->presence, v.value, n);
		axis_done(&own);
	}
	if (r < 0)
		return err_errno(x->e, r, "%s: encoding a chunk of series %u", x->s->path,
				 x->chunk.series);
	r = seal_pack(x, format);
	return r < 0 ? r : seal_points(x, from, n);
}

/* The axis of an entry: the build still has it, or it is decoded. NULL or what is wrong. */
static const char *seal_axis(struct seal *x, uint32_t index, struct axis **ret)
{
	struct merged_axis a = build_axis_at(x->b, index);
	struct seal_axis *to;
	size_t i;

	for (i = 0; i < x->b->n_slots; i++) {
		*ret = &x->b->slots[i].axis;
		if (x->b->slots[i].index == index)
			return NULL;
	}
	for (i = 0; i < SEAL_AXES; i++) {
		*ret = &x->axes[i].axis;
		if (x->axes[i].axis.n && x->axes[i].index == index)
			return NULL;
	}
	to = &x->axes[x->next_axis++ % SEAL_AXES];
	to->index = index;
	*ret = &to->axis;
	return axis_decode(x->b->columns, a.p, a.len, a.n, &to->axis);
}

static int seal_decode(struct seal *x, const struct build_entry *entry)
{
	struct axis *axis;
	const char *why = seal_axis(x, entry->axis, &axis);

	x->points.n = 0;
	if (!why)
		why = values_points(x->b->columns,
				    (const unsigned char *)x->b->bytes.data + entry->at, entry->len,
				    entry->n, axis, &x->points);
	/* It has just been written: there was no memory, or it was damaged since. */
	return why ? err_set(x->e, -ENOMEM, "%s: reading back series %u: %s", x->s->path,
			     entry->series, why)
		   : 0;
}

static int seal_entry(struct seal *x, const struct build_entry *entry)
{
	struct segment next = x->chunk.segment;
	const struct points *p = &x->points;
	size_t i, from = 0;
	int r = seal_decode(x, entry);

	for (i = 0; r == 0 && i < p->n; i++) {
		int64_t time = p->time[i];

		if (x->kind == SINK_SPAN)
			time = segment_span_end(time, p->value[i]);
		if (segment_next(&next, time, p->step[i]) && i > from) {
			r = seal_piece(x, entry, from, i - from);
			from = i;
		}
		x->chunk.segment = next;
	}
	return r < 0 ? r : seal_piece(x, entry, from, p->n - from);
}

/* ---- histograms ---------------------------------------------------------------------- */

static int seal_hists_piece(struct seal *x, size_t from, size_t n)
{
	struct summary leaves[CHUNK_HISTS_MAX / SUMMARY_LEAF_HISTS];
	size_t i, k = 0;
	int r;

	x->chunk.n = (uint32_t)n;
	x->chunk.axis = 0;
	buf_reset(&x->body);
	hists_put_body(&x->body, &x->hists, from, n);
	r = seal_pack(x, BLOB_HISTS);
	for (i = 0; i < n; i += SUMMARY_LEAF_HISTS)
		summary_hists(&leaves[k++], &x->hists, from + i,
			      n - i < SUMMARY_LEAF_HISTS ? n - i : SUMMARY_LEAF_HISTS,
			      x->chunk.segment.no);
	return r < 0 ? r : seal_row(x, leaves, k);
}

static int seal_hists_entry(struct seal *x, const struct build_entry *entry)
{
	struct segment next = x->chunk.segment;
	const struct hists *h = &x->hists;
	size_t i, from = 0;
	const char *why;
	int r = 0;

	hists_reset(&x->hists);
	why = hists_get_body((const unsigned char *)x->b->bytes.data + entry->at, entry->len,
			     entry->n, &x->hists);
	if (why)
		return err_set(x->e, -ENOMEM, "%s: reading back series %u: %s", x->s->path,
			       entry->series, why);
	for (i = 0; r == 0 && i < h->n; i++) {
		if (segment_next(&next, h->rows[i].time, h->rows[i].step) && i > from) {
			r = seal_hists_piece(x, from, i - from);
			from = i;
		}
		x->chunk.segment = next;
	}
	return r < 0 ? r : seal_hists_piece(x, from, h->n - from);
}

/* ---- a series ---------------------------------------------------------------------------- */

/* Where the series stands: behind its last chunk. */
static int seal_load(struct seal *x, uint32_t series)
{
	sqlite3_stmt *st = x->s->sql[SQL_CHUNK_LAST];
	struct chunk *c = &x->chunk;
	int rc, r = 0;

	*c = (struct chunk){.series = series, .segment = {.step = SINK_STEP_NONE}};
	sqlite3_bind_int64(st, 1, series);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		r = chunkrow_read(st, x->s->path, x->e, c);
		c->ordinal++;
		c->start += c->n;
	} else if (rc != SQLITE_DONE) {
		r = db_fail(x->s->db, rc, "reading table chunk", x->e);
	}
	sqlite3_reset(st);
	x->kind = x->s->catalog.series[series - 1].kind;
	return r < 0 ? r
		     : sumtree_open(&x->tree, series, x->kind == SINK_HISTOGRAM, c->ordinal, x->e);
}

/* The n sealed entries of one series. */
static int seal_series(struct seal *x, const struct build_entry *entries, size_t n)
{
	size_t i;
	int r = seal_load(x, entries->series);

	for (i = 0; r == 0 && i < n; i++)
		r = entries[i].is_hist ? seal_hists_entry(x, &entries[i])
				       : seal_entry(x, &entries[i]);
	return r < 0 ? r : sumtree_close(&x->tree, x->e);
}

int seal_entries(struct store *s, struct build *b, int64_t meta[META_N], struct err *e)
{
	struct seal x = {.s = s, .b = b, .e = e, .meta = meta};
	size_t i, n;
	int r = group_axes(&s->catalog, b);

	if (r < 0)
		return err_errno(e, r, "%s: encoding axes", s->path);
	x.db = (struct sumtree_db){s->path, &s->codec, &s->columns, s->sql[SQL_SUMMARY_GET],
				   s->sql[SQL_SUMMARY_SET]};
	sumtree_init(&x.tree, &x.db);
	buf_init(&x.pack, CHUNKROW_PACK_MAX);
	buf_init(&x.body, CHUNKROW_PACK_MAX);
	for (i = 0; r == 0 && i < b->n_entries; i += n) {
		for (n = 0; i + n < b->n_entries && b->entries[i + n].sealed &&
			    b->entries[i + n].series == b->entries[i].series;
		     n++)
			;
		if (n)
			r = seal_series(&x, &b->entries[i], n);
		else
			n = 1;
	}
	if (r == 0)
		r = seal_close_pack(&x);
	group_forget(b);
	sumtree_done(&x.tree);
	for (i = 0; i < SEAL_AXES; i++)
		axis_done(&x.axes[i].axis);
	points_done(&x.points);
	hists_done(&x.hists);
	buf_done(&x.pack);
	buf_done(&x.body);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * foldrow.c - the merged row that a fold writes of what it did not seal, and what
 * the writer keeps in mind of it.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <stdlib.h>

int fold_note_merged(struct store *s, const struct blob_id *id, const struct blob *b, struct err *e,
		     struct store_merged *ret)
{
	struct store_merged note = {.seq = id->a, .points = b->count, .bytes = b->len};
	struct merged_entry x;
	struct merged m;
	int r = merged_begin(&m, id, b, e);

	if (r < 0)
		return r;
	note.n_series = s->catalog.n_series;
	note.series = xcalloc(note.n_series / 8 + 1, 1);
	while (r == 0 && (r = merged_next(&m, &x)) > 0) {
		r = 0;
		if (x.series > note.n_series)
			r = blob_bad(id, e, 0, "a series that is not defined");
		else
			note.series[(x.series - 1) / 8] |= (uint8_t)(1 << (x.series - 1) % 8);
	}
	merged_done(&m);
	if (r < 0)
		free(note.series);
	else
		*ret = note;
	return r;
}

/* The entries that are kept, and their axes numbered anew. */
static size_t fold_kept(const struct build *b, struct merged_entry *entries,
			struct merged_axis *axes, size_t *n_axes, uint32_t *count)
{
	uint32_t *number = xcalloc(b->n_axes + 1, sizeof(*number));
	size_t i, n = 0;

	for (i = 0; i < b->n_entries; i++) {
		const struct build_entry *x = &b->entries[i];

		if (x->sealed)
			continue;
		if (!x->is_hist && !number[x->axis]) {
			axes[*n_axes] = build_axis_at(b, x->axis);
			number[x->axis] = (uint32_t)++ * n_axes;
		}
		entries[n++] = (struct merged_entry){
			x->series,  x->is_hist ? 0 : number[x->axis] - 1,         x->n,
			x->is_hist, (const unsigned char *)b->bytes.data + x->at, x->len};
		*count += x->n;
	}
	free(number);
	return n;
}

/* s->codec holds the row, sealed. */
static int fold_put_merged(struct store *s, const struct blob_id *id, uint32_t count, struct err *e,
			   struct store_merged *ret)
{
	const struct buf *out = &s->codec.out;
	const struct blob blob = {BLOB_MERGED, count,
				  (const unsigned char *)out->data + BLOB_HEADER,
				  out->len - BLOB_HEADER};
	sqlite3_stmt *st = s->sql[SQL_TAIL];
	int r;

	sqlite3_bind_int64(st, 1, (int64_t)id->a);
	sqlite3_bind_blob64(st, 2, out->data, out->len, SQLITE_STATIC);
	r = db_run(st, "writing a merged row", e);
	return r < 0 ? r : fold_note_merged(s, id, &blob, e, ret);
}

int fold_write_merged(struct store *s, struct build *b, uint64_t seq, uint64_t first, struct err *e,
		      struct store_merged *ret)
{
	const struct blob_id id = {s->path, "tail", seq, 0};
	struct merged_entry *entries = xcalloc(b->n_entries, sizeof(*entries));
	struct merged_axis *axes = xcalloc(b->n_axes, sizeof(*axes));
	size_t n_axes = 0, n;
	uint32_t count = 0;
	int r = 0;

	n = fold_kept(b, entries, axes, &n_axes, &count);
	if (n) {
		r = merged_encode(blob_begin(&s->codec), first, axes, n_axes, entries, n);
		buf_done(&b->bytes);
		if (r == 0)
			r = blob_end(&s->codec, &id, BLOB_MERGED, count);
		r = r < 0 ? err_errno(e, r, "%s: encoding a merged row", s->path)
			  : fold_put_merged(s, &id, count, e, ret);
	}
	free(entries);
	free(axes);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * sumtree.c - the summary tree of a series in the table summary: chunks are added
 * at its end, of each level only the last page is read and written.
 */
#include "store/sumtree.h"

#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The last page of a level. */
struct sumtree_level {
	uint64_t total; /* nodes of the level; of leaves and quarters: chunks */
	size_t n;       /* nodes in the page */
	bool dirty;
	struct summary nodes[SUMMARY_PAGE];
};

int sumtree_read(const struct sumtree_db *db, sqlite3_stmt *st, int at, int64_t id, struct err *e,
		 struct summary *nodes, size_t *ret_n)
{
	const struct blob_id which = {db->path, "summary", (uint64_t)id, 0};
	struct blob blob;
	const char *why;
	int r;

	r = blob_open(db->codec, &which, sqlite3_column_blob(st, at),
		      (size_t)sqlite3_column_bytes(st, at), e, &blob);
	if (r < 0)
		return r;
	if (blob.format != BLOB_SUMMARY)
		return blob_bad(&which, e, 0, "not a page of a summary");
	why = summary_decode(db->columns, blob.body, blob.len, blob.count, nodes);
	if (why)
		return blob_bad(&which, e, BLOB_HEADER, why);
	*ret_n = blob.count;
	return 0;
}

int sumtree_get(const struct sumtree_db *db, int64_t id, struct err *e, struct summary *nodes,
		size_t *ret_n)
{
	const struct blob_id which = {db->path, "summary", (uint64_t)id, 0};
	int rc, r;

	sqlite3_bind_int64(db->get, 1, id);
	rc = sqlite3_step(db->get);
	if (rc == SQLITE_ROW)
		r = sumtree_read(db, db->get, 0, id, e, nodes, ret_n);
	else if (rc == SQLITE_DONE)
		r = blob_bad(&which, e, 0, "a page is missing");
	else
		r = db_fail(sqlite3_db_handle(db->get), rc, "reading table summary", e);
	sqlite3_reset(db->get);
	return r;
}

static bool sumtree_is_part(unsigned level)
{
	return level == 0 || level == SUMMARY_QUARTER;
}

size_t sumtree_part(unsigned level, bool is_hist)
{
	size_t leaf = is_hist ? SUMMARY_LEAF_HISTS : SUMMARY_LEAF;

	return level == SUMMARY_QUARTER ? leaf * SUMMARY_QUARTER_LEAVES : leaf;
}

size_t sumtree_part_chunks(unsigned level)
{
	return level == SUMMARY_QUARTER ? SUMMARY_QUARTER_CHUNKS : SUMMARY_LEAF_CHUNKS;
}

size_t sumtree_parts(unsigned level, bool is_hist, uint64_t n)
{
	size_t part = sumtree_part(level, is_hist);

	return (size_t)((n + part - 1) / part);
}

int sumtree_get_parts(const struct sumtree_db *db, uint32_t series, unsigned level, bool is_hist,
		      uint64_t page, const struct summary *chunks, size_t n_chunks, struct err *e,
		      struct summary *nodes, size_t *ret_n)
{
	int64_t id = summary_id(series, level, page);
	size_t i, want = 0;
	int r;

	for (i = 0; i < n_chunks; i++)
		want += sumtree_parts(level, is_hist, chunks[i].n);
	if (want == n_chunks) { /* a page that would say the same is not there */
		memcpy(nodes, chunks, n_chunks * sizeof(*nodes));
		*ret_n = n_chunks;
		return 0;
	}
	r = sumtree_get(db, id, e, nodes, ret_n);
	if (r == 0 && *ret_n != want)
		r = err_set(e, -EUCLEAN,
			    "%s: table summary, id %lld: %zu nodes instead of %zu, of these chunks",
			    db->path, (long long)id, *ret_n, want);
	return r;
}

void sumtree_init(struct sumtree *t, const struct sumtree_db *db)
{
	*t = (struct sumtree){.db = db};
	buf_init(&t->body, BLOB_BODY_MAX);
}

void sumtree_done(struct sumtree *t)
{
	size_t i;

	for (i = 0; i <= SUMMARY_QUARTER; i++)
		free(t->level[i]);
	buf_done(&t->body);
}

static struct sumtree_level *sumtree_level(struct sumtree *t, unsigned k, struct err *e)
{
	if (!t->level[k])
		t->level[k] = malloc(sizeof(*t->level[k]));
	if (!t->level[k])
		err_set(e, -ENOMEM, "%s: no memory for a summary", t->db->path);
	return t->level[k];
}

static uint64_t sumtree_page_of(unsigned k, uint64_t total)
{
	return (total - 1) / (sumtree_is_part(k) ? sumtree_part_chunks(k) : SUMMARY_PAGE);
}

static struct sumtree_level *sumtree_begin(struct sumtree *t, unsigned k, uint64_t total,
					   struct err *e)
{
	struct sumtree_level *l = sumtree_level(t, k, e);

	if (!l)
		return NULL;
	l->total = total;
	l->n = 0;
	l->dirty = false;
	return l;
}

/* The last page of a level k > 0 of `total` nodes. Also if it is full: the last
 * node may still grow. */
static int sumtree_load(struct sumtree *t, unsigned k, uint64_t total, struct err *e)
{
	struct sumtree_level *l = sumtree_begin(t, k, total, e);
	size_t want = total % SUMMARY_PAGE ? total % SUMMARY_PAGE : SUMMARY_PAGE;
	int64_t id;
	int r;

	if (!l)
		return -ENOMEM;
	if (total == 0)
		return 0;
	id = summary_id(t->series, k, sumtree_page_of(k, total));
	r = sumtree_get(t->db, id, e, l->nodes, &l->n);
	if (r == 0 && l->n != want)
		r = err_set(e, -EUCLEAN, "%s: table summary, id %lld: %zu nodes instead of %zu",
			    t->db->path, (long long)id, l->n, want);
	return r;
}

/* The last page of leaves or quarters, unless what comes next begins a new one. */
static int sumtree_load_parts(struct sumtree *t, unsigned k, uint64_t chunks, struct err *e)
{
	struct sumtree_level *l = sumtree_begin(t, k, chunks, e);
	size_t in_page = chunks % sumtree_part_chunks(k);

	if (!l)
		return -ENOMEM;
	if (in_page == 0)
		return 0;
	return sumtree_get_parts(t->db, t->series, k, t->is_hist, sumtree_page_of(k, chunks),
				 t->level[1]->nodes + t->level[1]->n - in_page, in_page, e,
				 l->nodes, &l->n);
}

int sumtree_open(struct sumtree *t, uint32_t series, bool is_hist, uint32_t chunks, struct err *e)
{
	uint64_t n = chunks;
	unsigned k;
	int r;

	t->series = series;
	t->is_hist = is_hist;
	t->levels = 2;
	r = sumtree_load(t, 1, n, e);
	if (r == 0)
		r = sumtree_load_parts(t, 0, n, e);
	if (r == 0)
		r = sumtree_load_parts(t, SUMMARY_QUARTER, n, e);
	for (k = 2; r == 0 && n > SUMMARY_FAN && k < SUMMARY_LEVELS; k++) {
		n = (n + SUMMARY_FAN - 1) / SUMMARY_FAN;
		r = sumtree_load(t, k, n, e);
		t->levels = k + 1;
	}
	return r;
}

static int sumtree_write(struct sumtree *t, unsigned k, struct err *e)
{
	struct sumtree_level *l = t->level[k];
	int64_t id = summary_id(t->series, k, sumtree_page_of(k, l->total));
	const struct blob_id which = {t->db->path, "summary", (uint64_t)id, 0};
	struct blob_codec *codec = t->db->codec;
	int r;

	l->dirty = false;
	/* As many as chunks: they are the nodes above. */
	if (sumtree_is_part(k) &&
	    l->n == l->total - sumtree_page_of(k, l->total) * sumtree_part_chunks(k))
		return 0;
	buf_reset(&t->body);
	t->db->columns->plain = k != 0; /* charts read these again and again */
	r = summary_encode(t->db->columns, &t->body, l->nodes, l->n);
	t->db->columns->plain = false;
	if (r == 0)
		r = blob_seal(codec, &which, BLOB_SUMMARY, (uint32_t)l->n, &t->body);
	if (r < 0)
		return err_errno(e, r, "%s: encoding a summary of series %u", t->db->path,
				 t->series);
	sqlite3_bind_int64(t->db->set, 1, id);
	sqlite3_bind_blob64(t->db->set, 2, codec->out.data, codec->out.len, SQLITE_STATIC);
	return db_run(t->db->set, "writing a summary", e);
}

/* Begin the next page if this one is full. */
static int sumtree_room(struct sumtree *t, unsigned k, struct err *e)
{
	struct sumtree_level *l = t->level[k];
	bool full = sumtree_is_part(k) ? l->total && l->total % sumtree_part_chunks(k) == 0
				       : l->n == SUMMARY_PAGE;
	int r = 0;

	if (full && l->dirty)
		r = sumtree_write(t, k, e);
	if (full)
		l->n = 0;
	return r;
}

/* The last node of level k, of those of the level below. */
static int sumtree_raise(struct sumtree *t, unsigned k, struct err *e)
{
	const struct sumtree_level *below = t->level[k - 1];
	struct sumtree_level *l = t->level[k];
	uint64_t at = (below->total - 1) / SUMMARY_FAN; /* the node's place in its level */
	uint64_t first = at * SUMMARY_FAN % SUMMARY_PAGE, i;
	struct summary s = {0};
	int r = 0;

	for (i = first; i < below->n && i < first + SUMMARY_FAN; i++)
		summary_join(&s, &below->nodes[i]);
	if (at == l->total) {
		r = sumtree_room(t, k, e);
		l->total++;
		l->n++;
	}
	l->nodes[l->n - 1] = s;
	l->dirty = true;
	return r;
}

/* Level k comes to be: its first node sums up the first of the level below. */
static int sumtree_grow(struct sumtree *t, unsigned k, struct err *e)
{
	struct sumtree_level *l = sumtree_level(t, k, e);
	size_t i;

	if (!l)
		return -ENOMEM;
	*l = (struct sumtree_level){.total = 1, .n = 1};
	for (i = 0; i < SUMMARY_FAN; i++)
		summary_join(&l->nodes[0], &t->level[k - 1]->nodes[i]);
	t->levels = k + 1;
	return 0;
}

/* A chunk's n leaves, `each` of them joined to a node of level k. */
static int sumtree_add_parts(struct sumtree *t, unsigned k, size_t each,
			     const struct summary *leaves, size_t n, struct err *e)
{
	struct sumtree_level *l = t->level[k];
	size_t i;
	int r = sumtree_room(t, k, e);

	if (r == 0 && l->n + (n + each - 1) / each > SUMMARY_PAGE)
		r = err_set(e, -EUCLEAN, "%s: table summary: too many leaves of series %u",
			    t->db->path, t->series);
	for (i = 0; r == 0 && i < n; i++) {
		if (i % each == 0)
			l->nodes[l->n++].n = 0;
		summary_join(&l->nodes[l->n - 1], &leaves[i]);
	}
	l->total++;
	l->dirty = true;
	return r;
}

int sumtree_add(struct sumtree *t, const struct summary *leaves, size_t n, struct err *e)
{
	struct sumtree_level *l;
	struct summary whole = {0};
	unsigned k;
	size_t i;
	int r = sumtree_add_parts(t, 0, 1, leaves, n, e);

	if (r == 0)
		r = sumtree_add_parts(t, SUMMARY_QUARTER, SUMMARY_QUARTER_LEAVES, leaves, n, e);
	if (r < 0)
		return r;
	for (i = 0; i < n; i++)
		summary_join(&whole, &leaves[i]);
	r = sumtree_room(t, 1, e);
	l = t->level[1];
	l->nodes[l->n++] = whole;
	l->total++;
	l->dirty = true;
	for (k = 2; r == 0 && k < SUMMARY_LEVELS && t->level[k - 1]->total > SUMMARY_FAN; k++) {
		if (k >= t->levels)
			r = sumtree_grow(t, k, e);
		if (r == 0)
			r = sumtree_raise(t, k, e);
	}
	return r;
}

int sumtree_close(struct sumtree *t, struct err *e)
{
	unsigned k;
	int r = 0;

	for (k = 0; r == 0 && k < t->levels; k++)
		if (t->level[k]->dirty)
			r = sumtree_write(t, k, e);
	if (r == 0 && t->level[SUMMARY_QUARTER]->dirty)
		r = sumtree_write(t, SUMMARY_QUARTER, e);
	return r;
}

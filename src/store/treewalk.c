/* SPDX-License-Identifier: Apache-2.0
 *
 * treewalk.c - reading a summary tree from its top down. Whoever opens nodes in
 * order reads each page once: of each level the last page is kept.
 */
#include "base/mem.h"
#include "store/query_priv.h"

#include <errno.h>
#include <stdlib.h>

void treewalk_init(struct treewalk *t, struct store_reader *r, const struct hosts_one *h,
		   sqlite3_stmt *get, struct err *e)
{
	*t = (struct treewalk){.e = e};
	t->db = (struct sumtree_db){
		.path = h->path, .codec = &r->codec, .columns = &r->columns, .get = get};
}

void treewalk_begin(struct treewalk *t, uint32_t series, bool is_hist, uint64_t chunks)
{
	uint64_t n = chunks;
	size_t i;

	t->series = series;
	t->is_hist = is_hist;
	t->total[TREEWALK_CHUNK] = n;
	for (t->top = TREEWALK_CHUNK; n > SUMMARY_FAN && t->top + 1 < TREEWALK_LEVELS;) {
		n = (n + SUMMARY_FAN - 1) / SUMMARY_FAN;
		t->total[++t->top] = n;
	}
	for (i = 0; i < TREEWALK_LEVELS; i++)
		if (t->pages[i])
			t->pages[i]->n = 0;
}

void treewalk_done(struct treewalk *t)
{
	size_t i;

	for (i = 0; i < TREEWALK_LEVELS; i++)
		free(t->pages[i]);
}

void treewalk_push(struct treewalk_list *l, const struct treewalk_node *node)
{
	l->v = xgrow(l->v, l->n, &l->cap, sizeof(*l->v));
	l->v[l->n++] = *node;
}

static int treewalk_bad(const struct treewalk *t, unsigned level, uint64_t index, const char *what)
{
	return err_set(t->e, -EUCLEAN, "%s: table summary, series %u, level %u, node %llu: %s",
		       t->db.path, t->series, level, (unsigned long long)index, what);
}

/* The level as the table counts them. */
static unsigned treewalk_stored(unsigned level)
{
	return level == TREEWALK_QUARTER ? SUMMARY_QUARTER : level ? level - 1 : 0;
}

/* A page of a level of chunks or above. */
static int treewalk_page(struct treewalk *t, unsigned level, uint64_t page,
			 struct treewalk_page **ret)
{
	struct treewalk_page *p = t->pages[level];
	uint64_t want = t->total[level] - page * SUMMARY_PAGE;
	int r;

	if (!p)
		p = t->pages[level] = xcalloc(1, sizeof(*p));
	*ret = p;
	if (p->n && p->page == page)
		return 0;
	p->n = 0;
	r = sumtree_get(&t->db, summary_id(t->series, treewalk_stored(level), page), t->e, p->nodes,
			&p->n);
	p->page = page;
	if (r == 0 && p->n != (want < SUMMARY_PAGE ? want : SUMMARY_PAGE))
		r = treewalk_bad(t, level, page * SUMMARY_PAGE, "a page is too long or too short");
	if (r < 0)
		p->n = 0;
	return r;
}

/* The page of leaves or quarters that has those of chunk `index`. */
static int treewalk_parts_page(struct treewalk *t, unsigned level, uint64_t index,
			       struct treewalk_page **ret)
{
	unsigned stored = treewalk_stored(level);
	uint64_t each = sumtree_part_chunks(stored), page = index / each, first = page * each;
	uint64_t n = t->total[TREEWALK_CHUNK] - first;
	struct treewalk_page *p = t->pages[level], *chunks;
	int r = treewalk_page(t, TREEWALK_CHUNK, first / SUMMARY_PAGE, &chunks);

	if (!p)
		p = t->pages[level] = xcalloc(1, sizeof(*p));
	*ret = p;
	if (r < 0 || (p->n && p->page == page))
		return r;
	p->n = 0;
	p->page = page;
	return sumtree_get_parts(&t->db, t->series, stored, t->is_hist, page,
				 &chunks->nodes[first % SUMMARY_PAGE], n < each ? n : each, t->e,
				 p->nodes, &p->n);
}

/* The leaves of a quarter, the quarters of a chunk. */
static int treewalk_parts(struct treewalk *t, unsigned level, const struct treewalk_node *node,
			  struct treewalk_list *out)
{
	struct treewalk_node child = {.index = node->index, .start = node->start, .at = node->at};
	unsigned stored = treewalk_stored(level);
	uint64_t i = node->index - node->index % sumtree_part_chunks(stored);
	const struct treewalk_page *chunks;
	struct treewalk_page *p;
	size_t at, n, k;
	int r = treewalk_parts_page(t, level, node->index, &p);

	if (r < 0)
		return r;
	chunks = t->pages[TREEWALK_CHUNK];
	at = node->at / sumtree_part(stored, t->is_hist);
	for (; i < node->index; i++)
		at += sumtree_parts(stored, t->is_hist, chunks->nodes[i % SUMMARY_PAGE].n);
	n = sumtree_parts(stored, t->is_hist, node->s.n);
	for (k = at; k < at + n && k < p->n; k++) {
		child.s = p->nodes[k];
		treewalk_push(out, &child);
		child.start += child.s.n;
		child.at += (uint32_t)child.s.n;
	}
	return child.at - node->at == node->s.n
		       ? 0
		       : treewalk_bad(t, level + 1, node->index, "its parts differ");
}

int treewalk_top(struct treewalk *t, struct treewalk_list *out)
{
	struct treewalk_node child = {0};
	struct treewalk_page *p;
	int r = treewalk_page(t, t->top, 0, &p);

	for (; r == 0 && child.index < t->total[t->top]; child.index++) {
		child.s = p->nodes[child.index];
		treewalk_push(out, &child);
		child.start += child.s.n;
	}
	return r;
}

int treewalk_children(struct treewalk *t, unsigned level, const struct treewalk_node *node,
		      struct treewalk_list *out)
{
	struct treewalk_node child = {.index = node->index * SUMMARY_FAN, .start = node->start};
	struct treewalk_page *p;
	uint64_t end;
	int r;

	if (level <= TREEWALK_CHUNK)
		return treewalk_parts(t, level - 1, node, out);
	r = treewalk_page(t, level - 1, child.index / SUMMARY_PAGE, &p);
	end = child.index + SUMMARY_FAN;
	if (end > t->total[level - 1])
		end = t->total[level - 1];
	for (; r == 0 && child.index < end; child.index++) {
		child.s = p->nodes[child.index % SUMMARY_PAGE];
		treewalk_push(out, &child);
		child.start += child.s.n;
	}
	if (r == 0 && child.start != node->start + node->s.n)
		r = treewalk_bad(t, level, node->index, "its children differ");
	return r;
}

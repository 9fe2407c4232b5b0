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
	t->total[1] = n;
	for (t->top = 1; n > SUMMARY_FAN && t->top + 1 < SUMMARY_LEVELS;) {
		n = (n + SUMMARY_FAN - 1) / SUMMARY_FAN;
		t->total[++t->top] = n;
	}
	for (i = 0; i < SUMMARY_LEVELS; i++)
		if (t->pages[i])
			t->pages[i]->n = 0;
}

void treewalk_done(struct treewalk *t)
{
	size_t i;

	for (i = 0; i < SUMMARY_LEVELS; i++)
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

/* A page of a level above 0. */
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
	r = sumtree_get(&t->db, summary_id(t->series, level, page), t->e, p->nodes, &p->n);
	p->page = page;
	if (r == 0 && p->n != (want < SUMMARY_PAGE ? want : SUMMARY_PAGE))
		r = treewalk_bad(t, level, page * SUMMARY_PAGE, "a page is too long or too short");
	if (r < 0)
		p->n = 0;
	return r;
}

/* The leaves of the chunks that share a page with chunk `index`. */
static int treewalk_leaves(struct treewalk *t, uint64_t index, struct treewalk_page **ret)
{
	uint64_t page = index / SUMMARY_LEAF_CHUNKS, first = page * SUMMARY_LEAF_CHUNKS;
	uint64_t n = t->total[1] - first;
	struct treewalk_page *p = t->pages[0], *chunks;
	int r = treewalk_page(t, 1, first / SUMMARY_PAGE, &chunks);

	if (!p)
		p = t->pages[0] = xcalloc(1, sizeof(*p));
	*ret = p;
	if (r < 0 || (p->n && p->page == page))
		return r;
	p->n = 0;
	p->page = page;
	return sumtree_get_leaves(
		&t->db, t->series, t->is_hist, page, &chunks->nodes[first % SUMMARY_PAGE],
		n < SUMMARY_LEAF_CHUNKS ? n : SUMMARY_LEAF_CHUNKS, t->e, p->nodes, &p->n);
}

static int treewalk_chunk(struct treewalk *t, const struct treewalk_node *node,
			  struct treewalk_list *out)
{
	uint64_t first = node->index / SUMMARY_LEAF_CHUNKS * SUMMARY_LEAF_CHUNKS, i;
	struct treewalk_node child = {.index = node->index, .start = node->start};
	struct treewalk_page *p, *chunks = NULL;
	size_t at = 0, n, k;
	int r = treewalk_leaves(t, node->index, &p);

	if (r < 0)
		return r;
	chunks = t->pages[1];
	for (i = first; i < node->index; i++)
		at += sumtree_leaves(t->is_hist, chunks->nodes[i % SUMMARY_PAGE].n);
	n = sumtree_leaves(t->is_hist, node->s.n);
	for (k = at; k < at + n && k < p->n; k++) {
		child.s = p->nodes[k];
		treewalk_push(out, &child);
		child.start += child.s.n;
		child.at += (uint32_t)child.s.n;
	}
	return child.at == node->s.n ? 0 : treewalk_bad(t, 1, node->index, "its leaves differ");
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

	if (level == 1)
		return treewalk_chunk(t, node, out);
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

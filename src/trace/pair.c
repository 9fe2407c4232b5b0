/* SPDX-License-Identifier: Apache-2.0
 *
 * pair.c - "B" and "E" events made into rows: an E ends the B that began last on its track.
 */
#include <errno.h>
#include <stdlib.h>

#include "trace/reading.h"

struct pair_open {
	struct block_row row;
	uint64_t offset;
	uint32_t below; /* index + 1 of the one under it on its track */
};

struct pair_list {
	struct pair_open *open;
	uint32_t n, cap;
	uint32_t free; /* index + 1 */
	uint32_t *top; /* index + 1 by track */
};

static int init(struct reader *r)
{
	struct pair_list *l = calloc(1, sizeof(*l));

	if (l)
		l->top = calloc(UINT16_MAX + 1, sizeof(*l->top));
	if (!l || !l->top) {
		free(l);
		return -ENOMEM;
	}
	r->pairs = l;
	return 0;
}

static int push(struct pair_list *l, const struct block_row *row, uint64_t offset)
{
	uint32_t at = l->free;

	if (at) {
		l->free = l->open[at - 1].below;
	} else {
		if (l->n == l->cap) {
			uint32_t cap = l->cap * 2 + 64;
			struct pair_open *o = realloc(l->open, cap * sizeof(*o));

			if (!o)
				return -ENOMEM;
			l->open = o;
			l->cap = cap;
		}
		at = ++l->n;
	}
	l->open[at - 1] = (struct pair_open){*row, offset, l->top[row->track]};
	l->top[row->track] = at;
	return 0;
}

int pair_event(struct reader *r, struct block_row *row, bool *ret_found)
{
	struct pair_list *l;
	struct pair_open *o;
	uint32_t at;
	int rc = r->pairs ? 0 : init(r);

	*ret_found = false;
	if (rc)
		return rc;
	l = r->pairs;
	if (r->e.phase == 'B')
		return push(l, row, r->offset);
	at = l->top[row->track];
	if (!at) {
		notes_add(r->t, NOTES_UNPAIRED, r->offset, "an E that ends no B");
		return 0;
	}
	o = &l->open[at - 1];
	l->top[row->track] = o->below;
	o->below = l->free;
	l->free = at;
	if (__builtin_sub_overflow(row->ts, o->row.ts, &o->row.dur))
		o->row.dur = INT64_MAX;
	o->row.flags |= TRACE_PAIRED | TRACE_HAS_DUR | (row->flags & TRACE_BROKEN);
	if (o->row.dur < 0)
		o->row.flags |= TRACE_NEGATIVE_DUR;
	if (!o->row.args)
		o->row.args = row->args;
	*row = o->row;
	*ret_found = true;
	return 0;
}

void pair_close(struct reader *r)
{
	struct pair_list *l = r->pairs;

	if (!l)
		return;
	for (uint32_t i = 0; i <= UINT16_MAX; i++) {
		for (uint32_t at = l->top[i]; at; at = l->open[at - 1].below)
			notes_add(r->t, NOTES_UNPAIRED, l->open[at - 1].offset,
				  "a B that no E ends");
	}
	free(l->open);
	free(l->top);
	free(l);
	r->pairs = NULL;
}

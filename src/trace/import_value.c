/* SPDX-License-Identifier: Apache-2.0
 *
 * import_value.c - the tree of plain data: growing arrays of values and of cells.
 */
#include "trace/import_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void import_tree_done(struct import_tree *t)
{
	free(t->values);
	free(t->cells);
	*t = (struct import_tree){.root = IMPORT_NULL};
}

static int grow(void *items, size_t n, size_t *cap, size_t size)
{
	void **at = items, *p;
	size_t want = *cap ? *cap * 2 : 1024;

	if (n < *cap)
		return 0;
	if (n >= IMPORT_VALUES_MAX)
		return -E2BIG;
	p = realloc(*at, want * size);
	if (!p)
		return -ENOMEM;
	*at = p;
	*cap = want;
	return 0;
}

int import_add(struct import_tree *t, const struct import_value *v, import_ref *ret)
{
	int rc = grow(&t->values, t->n, &t->cap, sizeof(*t->values));

	if (rc)
		return rc;
	t->values[t->n] = *v;
	if (v->type >= IMPORT_LIST) {
		t->values[t->n].items.first = t->values[t->n].items.last = IMPORT_NULL;
		t->values[t->n].items.n = 0;
	}
	*ret = (import_ref)t->n++;
	return 0;
}

int import_push(struct import_tree *t, import_ref list, import_ref item)
{
	struct import_value *v;
	uint32_t at;
	int rc = grow(&t->cells, t->n_cells, &t->cap_cells, sizeof(*t->cells));

	if (rc)
		return rc;
	at = (uint32_t)t->n_cells++;
	t->cells[at] = (struct import_cell){item, IMPORT_NULL};
	v = &t->values[list];
	if (v->items.last == IMPORT_NULL)
		v->items.first = at;
	else
		t->cells[v->items.last].next = at;
	v->items.last = at;
	v->items.n++;
	return 0;
}

static const struct import_value *look(const struct import_tree *t, import_ref v)
{
	static const struct import_value none = {.type = IMPORT_NONE};

	return v < t->n ? &t->values[v] : &none;
}

enum import_type import_type(const struct import_tree *t, import_ref v)
{
	return look(t, v)->type;
}

int64_t import_int(const struct import_tree *t, import_ref v, int64_t none)
{
	const struct import_value *x = look(t, v);

	return x->type == IMPORT_INT || x->type == IMPORT_BOOL ? x->i : none;
}

double import_float(const struct import_tree *t, import_ref v, double none)
{
	const struct import_value *x = look(t, v);

	if (x->type == IMPORT_FLOAT)
		return x->f;
	return x->type == IMPORT_INT ? (double)x->i : none;
}

const char *import_text(const struct import_tree *t, import_ref v, size_t *ret_len)
{
	const struct import_value *x = look(t, v);

	if (x->type != IMPORT_TEXT && x->type != IMPORT_CLASS)
		return NULL;
	*ret_len = x->text.len;
	return x->text.p;
}

bool import_is(const struct import_tree *t, import_ref v, const char *text)
{
	size_t len;
	const char *p = import_text(t, v, &len);

	return p && len == strlen(text) && !memcmp(p, text, len);
}

uint32_t import_first(const struct import_tree *t, import_ref v)
{
	const struct import_value *x = look(t, v);

	return x->type == IMPORT_LIST || x->type == IMPORT_DICT || x->type == IMPORT_OBJECT
		       ? x->items.first
		       : IMPORT_NULL;
}

uint32_t import_next(const struct import_tree *t, uint32_t cell)
{
	return cell < t->n_cells ? t->cells[cell].next : IMPORT_NULL;
}

import_ref import_item(const struct import_tree *t, uint32_t cell)
{
	return cell < t->n_cells ? t->cells[cell].value : IMPORT_NULL;
}

import_ref import_at(const struct import_tree *t, import_ref list, uint32_t i)
{
	uint32_t c = import_first(t, list);

	while (i-- && c != IMPORT_NULL)
		c = import_next(t, c);
	return import_item(t, c);
}

uint32_t import_count(const struct import_tree *t, import_ref v)
{
	return import_first(t, v) == IMPORT_NULL ? 0 : look(t, v)->items.n;
}

import_ref import_get(const struct import_tree *t, import_ref dict, const char *key)
{
	import_ref found = IMPORT_NULL;

	if (import_type(t, dict) != IMPORT_DICT && import_type(t, dict) != IMPORT_OBJECT)
		return found;
	for (uint32_t c = import_first(t, dict); c != IMPORT_NULL; c = import_next(t, c)) {
		bool is_it = import_is(t, import_item(t, c), key);

		c = import_next(t, c);
		if (c == IMPORT_NULL)
			break;
		if (is_it)
			found = import_item(t, c);
	}
	return found;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * import_nsys_count.c - a table of names by kind and text.
 */
#include "trace/import_nsys_count.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(enum import_nsys_kind kind, const char *p, size_t len)
{
	uint64_t h = 14695981039346656037ull + kind;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)p[i]) * 1099511628211ull;
	return h ^ h >> 29;
}

static int grow(struct import_nsys *r, struct import_nsys_index *x)
{
	size_t cap = r->cap ? r->cap * 2 : 512, n = cap * 2;
	struct import_nsys_name *names = realloc(r->names, cap * sizeof(*names));
	uint32_t *slots;

	if (!names)
		return -ENOMEM;
	r->names = names;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++) {
		size_t at = hash_of(names[i].kind, names[i].name, names[i].len) & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(x->slots);
	x->slots = slots;
	x->n = n;
	r->cap = cap;
	return 0;
}

static int add(struct import_nsys *r, enum import_nsys_kind kind, const char *name, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, len);
	copy[len] = '\0';
	r->names[r->n++] = (struct import_nsys_name){kind, copy, (uint32_t)len, 0, 0};
	return 0;
}

int import_nsys_count(struct import_nsys *r, struct import_nsys_index *x,
		      enum import_nsys_kind kind, const char *name, size_t len, int64_t ns)
{
	struct import_nsys_name *n;
	size_t at;

	/* One "(others)" of each kind is always left room for. */
	if (r->n >= IMPORT_NSYS_NAMES_MAX - IMPORT_NSYS_KINDS) {
		name = "(others)";
		len = strlen(name);
	}
	if (r->n == r->cap && grow(r, x))
		return -ENOMEM;
	for (at = hash_of(kind, name, len) & (x->n - 1); x->slots[at]; at = (at + 1) & (x->n - 1)) {
		n = &r->names[x->slots[at] - 1];
		if (n->kind == kind && n->len == len && !memcmp(n->name, name, len))
			break;
	}
	if (!x->slots[at]) {
		if (add(r, kind, name, len))
			return -ENOMEM;
		x->slots[at] = (uint32_t)r->n;
	}
	n = &r->names[x->slots[at] - 1];
	n->count++;
	if (__builtin_add_overflow(n->ns, ns, &n->ns))
		n->ns = INT64_MAX;
	return 0;
}

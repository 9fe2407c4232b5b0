/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/linux/slots.h"

#include <stdlib.h>
#include <string.h>

void slots_init(struct slots *l, size_t size, size_t max)
{
	*l = (struct slots){.size = size, .max = max};
}

void *slots_at(const struct slots *l, size_t i)
{
	return l->items + i * l->size;
}

void slots_done(struct slots *l, void (*close)(void *item))
{
	size_t i;

	for (i = 0; i < l->len; i++) {
		if (close)
			close(slots_at(l, i));
		free(((struct slot *)slots_at(l, i))->name);
	}
	free(l->items);
	slots_init(l, l->size, l->max);
}

void slots_begin(struct slots *l)
{
	size_t i;

	for (i = 0; i < l->len; i++)
		((struct slot *)slots_at(l, i))->seen = false;
	l->next = 0;
}

static bool slots_is(const struct slot *s, const char *name, size_t len)
{
	return strncmp(s->name, name, len) == 0 && s->name[len] == '\0';
}

static struct slot *slots_add(struct slots *l, const char *name, size_t len)
{
	size_t cap = l->cap ? l->cap * 2 : 8;
	struct slot *s;
	char *more;

	if (l->len >= l->max)
		return NULL;
	if (l->len == l->cap) {
		more = realloc(l->items, cap * l->size);
		if (!more)
			return NULL;
		l->items = more;
		l->cap = cap;
	}
	s = slots_at(l, l->len);
	memset(s, 0, l->size);
	s->name = malloc(len + 1);
	if (!s->name)
		return NULL;
	memcpy(s->name, name, len);
	s->name[len] = '\0';
	l->len++;
	return s;
}

void *slots_get(struct slots *l, const char *name, size_t len, bool *ret_new)
{
	struct slot *s = NULL;
	size_t i, at;

	*ret_new = false;
	for (i = 0; i < l->len && !s; i++) {
		at = (l->next + i) % l->len;
		if (slots_is(slots_at(l, at), name, len)) {
			s = slots_at(l, at);
			l->next = at + 1;
		}
	}
	if (!s) {
		s = slots_add(l, name, len);
		if (!s)
			return NULL;
		*ret_new = true;
		l->next = 0;
	}
	s->seen = true;
	return s;
}

void slots_end(struct slots *l, void (*gone)(void *arg, void *item), void *arg)
{
	size_t i, kept = 0;

	for (i = 0; i < l->len; i++) {
		struct slot *s = slots_at(l, i);

		if (s->seen) {
			if (kept != i)
				memcpy(slots_at(l, kept), s, l->size);
			kept++;
			continue;
		}
		if (gone)
			gone(arg, s);
		free(s->name);
	}
	l->len = kept;
}

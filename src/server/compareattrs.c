/* SPDX-License-Identifier: Apache-2.0
 *
 * compareattrs.c - see comparedata.h: attributes of several runs beside each other, and which of
 * them differ.
 */
#include "server/comparedata.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct comparedata_take {
	struct comparedata_attrs *attrs;
	struct map places;
	size_t run;
};

static int comparedata_attr(void *arg, unsigned host, uint32_t process, const char *key,
			    const char *value)
{
	struct comparedata_take *t = arg;
	struct comparedata_attr *a;
	uint64_t at;

	(void)host;
	(void)process;
	if (strncmp(key, "alert.", 6) == 0)
		return 0; /* what the agent keeps there for itself */
	if (!map_get(&t->places, key, strlen(key), &at)) {
		t->attrs->list =
			xgrow(t->attrs->list, t->attrs->n, &t->attrs->cap, sizeof(*t->attrs->list));
		at = t->attrs->n++;
		t->attrs->list[at] = (struct comparedata_attr){.key = xstrdup(key)};
		map_put(&t->places, key, strlen(key), at);
	}
	a = &t->attrs->list[at];
	if (!a->values[t->run])
		a->values[t->run] = xstrdup(value);
	return 0;
}

static int comparedata_by_key(const void *a, const void *b)
{
	return strcmp(((const struct comparedata_attr *)a)->key,
		      ((const struct comparedata_attr *)b)->key);
}

void comparedata_attrs(const struct comparedata *d, struct comparedata_attrs *ret)
{
	struct comparedata_take t = {.attrs = ret};
	struct err e = {0};

	*ret = (struct comparedata_attrs){0};
	map_init(&t.places);
	/* A file that cannot be read has none; the runs' own routes tell of it. */
	for (t.run = 0; t.run < d->n; t.run++)
		store_reader_attrs(d->runs[t.run].run->v.reader, comparedata_attr, &t, &e);
	map_done(&t.places);
	if (ret->n > 0)
		qsort(ret->list, ret->n, sizeof(*ret->list), comparedata_by_key);
}

void comparedata_attrs_done(struct comparedata_attrs *a, size_t n_runs)
{
	size_t i, k;

	for (i = 0; i < a->n; i++) {
		free(a->list[i].key);
		for (k = 0; k < n_runs; k++)
			free(a->list[i].values[k]);
	}
	free(a->list);
	*a = (struct comparedata_attrs){0};
}

bool comparedata_differs(char *const *values, size_t n)
{
	size_t i;

	for (i = 1; i < n; i++)
		if (!values[0] != !values[i] || (values[0] && strcmp(values[0], values[i]) != 0))
			return true;
	return false;
}

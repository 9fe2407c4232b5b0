/* SPDX-License-Identifier: Apache-2.0
 *
 * promlive.c - see promlive.h.
 */
#include "export/promlive.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/now.h"
#include "export/prometheus_priv.h"

#define PROMLIVE_BATCH 262144u /* points between two looks at the clock */

struct promlive {
	struct store_cursor *cursor;
	struct prometheus *known;
	struct prometheus_list about; /* as of the last time it was read */
	bool is_behind;
};

struct promlive *promlive_new(void)
{
	struct promlive *p = xcalloc(1, sizeof(*p));

	p->cursor = store_cursor_new();
	p->known = prometheus_new(NULL);
	return p;
}

void promlive_free(struct promlive *p)
{
	if (!p)
		return;
	store_cursor_free(p->cursor);
	prometheus_list_done(&p->about);
	prometheus_free(p->known);
	free(p);
}

int promlive_read(struct promlive *p, struct store_reader *r, const struct store_run *run,
		  int64_t deadline_ns, struct err *e)
{
	int more, err;

	prometheus_start(p->known, run);
	do {
		more = store_reader_newer(r, p->cursor, &prometheus_newer, p->known, PROMLIVE_BATCH,
					  e);
	} while (more > 0 && now_read(CLOCK_MONOTONIC) < deadline_ns);
	if (more < 0)
		return more;
	p->is_behind = more > 0;
	prometheus_list_done(&p->about);
	prometheus_list_behind(&p->about, p->known, p->is_behind);
	err = prometheus_list_run(&p->about, p->known, r, run, e);
	return err ? err : more;
}

/* Is the entry of the type that its metric had first? *ret_first: it is its first. */
static bool promlive_fits(struct map *types, const struct prometheus_entry *e, bool is_open,
			  bool *ret_first)
{
	size_t len = is_open ? prometheus_open_family(e) : strlen(e->name);
	const char *type = prometheus_type(e->kind, true);
	uint64_t known = (uintptr_t)type;

	*ret_first = !map_get(types, e->name, len, &known);
	if (*ret_first)
		map_put(types, e->name, len, known);
	return strcmp((const char *)(uintptr_t)known, type) == 0;
}

void promlive_write(struct promlive *const *runs, size_t n, bool is_open, struct buf *out)
{
	struct prometheus_list all = {0};
	struct map types;
	size_t i;
	bool is_first;

	map_init(&types);
	for (i = 0; i < n; i++) {
		prometheus_list_series(&all, runs[i]->known, false);
		prometheus_list_join(&all, &runs[i]->about);
	}
	prometheus_list_sort(&all);
	for (i = 0; i < all.n; i++) {
		if (!promlive_fits(&types, all.entries[i], is_open, &is_first))
			continue;
		if (is_open)
			prometheus_open_lines(out, all.entries[i], is_first);
		else
			prometheus_lines(out, all.entries[i], is_first);
	}
	if (is_open)
		buf_puts(out, "# EOF\n");
	prometheus_list_done(&all);
	map_done(&types);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * collect.h - from the text of a target to points: which samples are kept, what they
 * are called here, what counters have gained since the last text.
 */
#ifndef PROBE_SCRAPE_COLLECT_H
#define PROBE_SCRAPE_COLLECT_H

#include "base/map.h"
#include "probe/probe.h"
#include "probe/scrape/exposition.h"
#include "probe/scrape/target.h"

#define COLLECT_SERIES_MAX 10000 /* of a target that are kept */
#define COLLECT_NAME_MAX 200     /* bytes of a name */

/* Rows made of what is exposed, shared by targets; of their own memory. */
struct collect_rows {
	struct map index; /* kind and name -> number */
	struct probe_metric **rows;
	size_t n, cap;
};
void collect_rows_init(struct collect_rows *r);
void collect_rows_done(struct collect_rows *r); /* after the set is read no more */

struct collect;

/* t and rows stay the caller's. */
struct collect *collect_new(const struct scrape_target *t, struct collect_rows *rows);
void collect_free(struct collect *c);

struct collect_result {
	struct exposition_summary text;
	uint64_t left_out;                 /* samples that were wanted and not kept */
	char why[EXPOSITION_WHY_MAX + 64]; /* the first of them; "" none */
};

/* Put all values of a text into s; what was there before and is no longer becomes absent. */
void collect_read(struct collect *c, struct probe_set *s, const char *text, size_t len,
		  bool openmetrics, struct collect_result *out);

/* The target does not answer: nothing is known. why lives as long as s. */
void collect_absent(struct collect *c, struct probe_set *s, const char *why);

#endif

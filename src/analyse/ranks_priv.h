/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks_priv.h - a rank's summary as the parts of the module share it.
 */
#ifndef ANALYSE_RANKS_PRIV_H
#define ANALYSE_RANKS_PRIV_H

#include "analyse/ranks.h"
#include "base/map.h"

struct ranks_host {
	uint32_t name;
	int64_t ns;
};

struct ranks_part {                          /* a step of a rank */
	struct ranks_step s;                 /* wait and late: 0 */
	struct ranks_host host[RANKS_NAMES]; /* own time, largest first; ns 0: none */
};

struct ranks_collective {
	int64_t ts, end; /* since 1970, ns, by the rank's own clock */
	int64_t step;
	uint32_t group, name, order; /* which of the step's */
};

struct ranks_one {
	int64_t rank;
	bool is_guessed;
	struct ranks_part *parts;
	size_t n_parts;
	struct ranks_collective *coll; /* by (group, name, step, order) */
	size_t n_coll;
};

struct ranks_set {
	struct ranks_one *ranks; /* by rank */
	size_t n, cap;
	char **texts;
	size_t n_texts, cap_texts;
	struct map ids; /* of texts */
};

/* The number of a text. 0 or -ENOMEM. */
int ranks_text(struct ranks_set *s, const char *text, size_t len, uint32_t *ret);
/* Takes one over on success. */
int ranks_insert(struct ranks_set *s, struct ranks_one *one, struct err *e);
void ranks_one_done(struct ranks_one *one);

/* One collective over its ranks. */
struct ranks_instance {
	size_t first, n; /* in ranks_match.items */
};
struct ranks_item {
	const struct ranks_collective *c;
	uint32_t rank;  /* place in set->ranks */
	double ts, end; /* ns since origin, by the reference's clock once aligned */
};
struct ranks_match {
	const struct ranks_set *s;
	struct ranks_item *items; /* by kind, step, order, rank */
	size_t n_items;
	struct ranks_instance *instances;
	size_t n;
	uint64_t unmatched;
	int64_t origin;
};

int ranks_match_new(const struct ranks_set *s, struct ranks_match *m);
void ranks_match_done(struct ranks_match *m);
/* Fill clock of every rank of r and correct m's times. */
int ranks_align(struct ranks_match *m, struct ranks_result *r);
/* wait, late, kinds, stragglers. */
int ranks_compare(const struct ranks_match *m, struct ranks_result *r);

#endif

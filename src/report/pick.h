/* SPDX-License-Identifier: Apache-2.0
 *
 * pick.h - choosing among runs: fields and metrics by name, conditions on them, and
 * an order.
 */
#ifndef REPORT_PICK_H
#define REPORT_PICK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fmt.h"
#include "base/json.h"
#include "store/index.h"

/* Of a metric whose name says it: 1 more is better ("accuracy"), -1 less is
 * ("loss"); 0 not known. The last word of the name that says it counts. */
int pick_direction(const char *metric);

enum pick_which {
	PICK_LAST, /* of a counter the sum */
	PICK_BEST, /* by pick_direction() */
	PICK_MIN,
	PICK_MAX
};

/* A field of a run, or NAME[:last|best|min|max] of a metric. */
struct pick_key {
	const void *field; /* NULL: a metric */
	char *name;        /* owned */
	enum pick_which which;
};
void pick_key_set(struct pick_key *k, const char *text);
void pick_key_done(struct pick_key *k);

/* What a run has there. */
struct pick_value {
	bool has;
	const char *text; /* NULL: a number */
	double number;
	char room[FMT_MAX];
	const struct index_metric *metric; /* NULL: a field */
};
void pick_get(struct index *x, size_t i, const struct pick_key *k, struct pick_value *ret);

/* One condition, KEY OP VALUE: "project=ocr", "tag=good*", "duration>1h", "loss<0.5". */
enum pick_op {
	PICK_EQ,
	PICK_NE,
	PICK_LT,
	PICK_LE,
	PICK_GT,
	PICK_GE
};
struct pick_term {
	struct pick_key key;
	enum pick_op op;
	char *text; /* pattern; owned */
	double number;
};
/* 0, or -EINVAL and why. */
int pick_term_parse(struct pick_term *t, const char *text, char why[256]);
void pick_term_done(struct pick_term *t);
bool pick_is(struct index *x, size_t i, const struct pick_term *t);

/* Put n numbers of runs in order: text ascending, numbers descending, metrics the best
 * first; what has no value last. Equal ones stay as they were. */
void pick_sort(struct index *x, size_t *runs, size_t n, const struct pick_key *k, bool reverse);

/* Where a row stands by a key: for what is sorted that is not an index's numbers. It is the
 * first member of what is sorted. The text is the value's, which must last. */
struct pick_place {
	size_t at; /* where it was */
	bool has;
	const char *text;
	double number;
	int sign; /* 1: ascending, -1 descending; what has no value is last either way */
};
void pick_place_set(struct pick_place *p, const struct pick_value *v, size_t at, int sign);
int pick_place_compare(const void *a, const void *b);

/* The gauge that is the loss by its name, the first of pick_losses that the run has; NULL. */
#define PICK_LOSSES 3
extern const char *const pick_losses[PICK_LOSSES];
const struct index_metric *pick_loss(struct index *x, size_t i);

/* A metric of a run as an object under its name; null if the run does not have it. */
void pick_json(struct json *j, struct index *x, size_t i, const char *name);

#endif

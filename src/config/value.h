/* SPDX-License-Identifier: Apache-2.0
 *
 * value.h - one value of a setting, read by the type of its row from a text
 * (a variable, a default) or from a node of a file.
 */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "config/doc.h"
#include "config/keys.h"

#include <stdbool.h>
#include <stdint.h>

#define VALUE_WHY_MAX 320

struct value {
	bool given;          /* is there one? */
	char *text;          /* TEXT; WORDS and CHOICES with commas between; owned */
	int64_t number;      /* INT, DURATION (ns), BYTES */
	double real;         /* NUMBER */
	bool flag;           /* BOOL */
	uint32_t node;       /* FREE: the mapping */
	struct value *items; /* ITEMS: n times the values of the row's items, in their order */
	size_t n, n_values;  /* items; values of all of them */
};

/* Read a text. *ret, whose old text is freed, is written only on success; else
 * -EINVAL and why[] says `"x" is not ...`. */
int value_of_text(const struct config_key *k, const char *text, struct value *ret,
		  char why[VALUE_WHY_MAX]);

/* Read a node, which is not null. Text in quotes is no number and no flag. */
int value_of_node(const struct config_key *k, const struct doc *d, uint32_t node, struct value *ret,
		  char why[VALUE_WHY_MAX]);

/* Are they the same? For keys of one type that is not FREE. */
bool value_equals(const struct config_key *k, const struct value *a, const struct value *b);

void value_done(struct value *v);

#endif

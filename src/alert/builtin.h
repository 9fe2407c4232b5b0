/* SPDX-License-Identifier: Apache-2.0
 *
 * builtin.h - the checks that every run has: const tables. docs/alerts.md says why each
 * limit is what it is.
 */
#ifndef ALERT_BUILTIN_H
#define ALERT_BUILTIN_H

#include "alert/rule.h"

#include <stddef.h>

#define BUILTIN_ROWS_MAX 64

extern const struct rule builtin_rules[];
extern const size_t builtin_n_rules;

/* One a name, in the order of the documents. */
extern const struct rule_about builtin_about[];
extern const size_t builtin_n_about;

/* NULL: there is none of that name. */
const struct rule_about *builtin_find(const char *name);

/* The first row of a rule: its limit is the one that can be set. */
const struct rule *builtin_first(const char *name);

/* Set the limit of a rule's rows: the first row's becomes `limit`, clear keeps its
 * proportion; further rows stay. */
void builtin_set_limit(struct rule *row, double limit);

#endif

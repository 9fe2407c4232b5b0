/* SPDX-License-Identifier: Apache-2.0
 *
 * stepjudge.h - what recorded steps are bound by: their parts, the machine's figures over the
 * same time, and the ranks beside each other, as facts for analyse/stepbound.h.
 */
#ifndef SERVER_STEPJUDGE_H
#define SERVER_STEPJUDGE_H

#include "analyse/stepbound.h"
#include "server/stepread.h"

#define STEPJUDGE_EVIDENCE_MAX 64u

struct stepjudge_evidence {
	const char *id, *text;
	const struct store_series *series; /* of the view */
	double value;                      /* mean, or the highest */
	const char *unit;
};

struct stepjudge {
	struct stepjudge_evidence list[STEPJUDGE_EVIDENCE_MAX];
	size_t n;
	struct stepbound bound;
};

/* 0, or -errno and *e. */
int stepjudge(const struct runview *v, const struct stepread *steps, struct stepjudge *ret,
	      struct err *e);

#endif

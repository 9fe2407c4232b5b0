/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.c - see overlap.h.
 */
#include "analyse/overlap.h"

#include "analyse/numeric.h"
#include "analyse/spans.h"

int overlap_of(const struct view *v, struct overlap *ret)
{
	struct spans sets[2] = {{0}};
	struct spans_rows rows = {0};
	double times[8], comm = 0;
	size_t i;
	int rc = spans_rows_new(v, &rows);

	if (!rc)
		rc = spans_merge(v, &rows, 1u << VIEW_COMMUNICATION, &sets[0]);
	if (!rc)
		rc = spans_merge(v, &rows, 1u << VIEW_COMPUTATION, &sets[1]);
	if (!rc)
		rc = spans_sweep(sets, 2, false, times);
	if (!rc) {
		for (i = 0; i < sets[0].n; i++)
			comm += sets[0].list[i].end - sets[0].list[i].ts;
		ret->communication = spans_ns(v, comm);
		ret->computation = spans_ns(v, sets[1].total);
		ret->both = spans_ns(v, times[3]);
		ret->pct = numeric_round(100 * (times[3] / comm), 2);
	}
	spans_done(&sets[0]);
	spans_done(&sets[1]);
	spans_rows_done(&rows);
	return rc;
}

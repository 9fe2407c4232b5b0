/* SPDX-License-Identifier: Apache-2.0
 *
 * The slope is the median of those between all pairs of points (Theil and Sen), which
 * one large allocation does not move; it counts if also the lower quarter rises.
 */
#include "probe/linux/oom.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int oom_compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double oom_slope(const struct oom *o)
{
	double slopes[OOM_POINTS * (OOM_POINTS - 1) / 2];
	unsigned i, k;
	size_t n = 0;

	if (o->n < OOM_POINTS_MIN)
		return 0;
	for (i = 0; i < o->n; i++)
		for (k = 0; k < i; k++)
			slopes[n++] = (o->points[i].used - o->points[k].used) /
				      ((double)(o->points[i].ns - o->points[k].ns) / 1e9);
	qsort(slopes, n, sizeof(slopes[0]), oom_compare);
	return slopes[n / 4] > 0 ? slopes[n / 2] : 0;
}

double oom_risk(const struct oom *o)
{
	if (!(o->limit > 0))
		return -1;
	return o->used < o->limit ? o->used / o->limit : 1;
}

double oom_time(const struct oom *o)
{
	double left = o->limit - o->used, s;

	if (!(o->slope > 0) || !(o->limit > 0))
		return -1;
	s = left > 0 ? left / o->slope : 0;
	return s < OOM_TIME_MAX ? s : OOM_TIME_MAX;
}

/* Once an episode: it is over when there is clearly no danger. */
static bool oom_warns(struct oom *o)
{
	double risk = oom_risk(o), s = oom_time(o);

	if (risk < OOM_CALM_RISK || s < 0 || s > OOM_CALM_TIME_S)
		o->warned = false;
	if (s < 0 || s >= OOM_WARN_TIME_S || risk <= OOM_WARN_RISK) {
		o->low = 0;
		return false;
	}
	if (++o->low < 2 || o->warned)
		return false;
	o->warned = true;
	return true;
}

bool oom_add(struct oom *o, int64_t mono_ns, double used, double limit)
{
	if (limit != o->limit || (o->n && mono_ns <= o->points[o->n - 1].ns))
		o->n = 0;
	o->used = used;
	o->limit = limit;
	if (o->n && mono_ns - o->points[o->n - 1].ns < OOM_STEP_NS - OOM_STEP_NS / 8)
		return false;
	if (o->n == OOM_POINTS) {
		memmove(o->points, o->points + 1, (OOM_POINTS - 1) * sizeof(o->points[0]));
		o->n--;
	}
	o->points[o->n++] = (struct oom_point){mono_ns, used};
	o->slope = oom_slope(o);
	return oom_warns(o);
}

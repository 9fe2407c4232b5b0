/* SPDX-License-Identifier: Apache-2.0
 *
 * oom.h - how near memory that nothing can take back is to a limit, and when it will be
 * there if it goes on as in the last minute. Figures in, figures out: reads no files.
 */
#ifndef PROBE_LINUX_OOM_H
#define PROBE_LINUX_OOM_H

#include <stdbool.h>
#include <stdint.h>

#define OOM_POINTS 31
#define OOM_STEP_NS 2000000000 /* between points: they cover 60 s */
#define OOM_POINTS_MIN 11      /* 20 s, before which nothing is forecast */
#define OOM_TIME_MAX 86400.0   /* a later end is told as this */
#define OOM_WARN_TIME_S 120.0  /* a forecast below is told ... */
#define OOM_WARN_RISK 0.8      /* ... at a risk above, when it stands so twice running */
#define OOM_CALM_TIME_S 240.0  /* and is over above, or ... */
#define OOM_CALM_RISK 0.7      /* ... below */

struct oom_point {
	int64_t ns;
	double used;
};

/* One limit. Zero-initialise it. */
struct oom {
	struct oom_point points[OOM_POINTS]; /* the oldest first */
	unsigned n;
	double used, limit; /* as of the last oom_add(); limit 0: none yet */
	double slope;       /* bytes a second; 0: it does not rise, or not steadily */
	unsigned low;       /* forecasts below the threshold, running */
	bool warned;
};

/* used: bytes that cannot be reclaimed; mono_ns: CLOCK_MONOTONIC. Another limit than
 * before begins anew. True when this began an episode that is to be told. */
bool oom_add(struct oom *o, int64_t mono_ns, double used, double limit);

/* Share of the limit, 0 to 1; < 0: no limit known. */
double oom_risk(const struct oom *o);

/* Seconds until the limit; < 0: it does not rise steadily. */
double oom_time(const struct oom *o);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.h - is a metric of one run different from that of another: medians of their steady
 * parts, an interval for the difference, and a verdict. Points of a run depend on their
 * neighbours, so resamples are made of blocks of neighbours.
 *
 * Sources: H. R. Künsch, Annals of Statistics 17 (1989) 1217-1241 (blocks); D. N. Politis and J. P.
 * Romano, in Exploring the Limits of Bootstrap (1992) 263-270 (circular ones); their length by D.
 * N. Politis and H. White, Econometric Reviews 23 (2004) 53-70, corrected by A. Patton, D. N.
 * Politis and H. White, 28 (2009) 372-375; percentile intervals by B. Efron, Annals of Statistics 7
 * (1979).
 */
#ifndef ANALYSE_COMPARE_H
#define ANALYSE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMPARE_POINTS_MAX 8192u /* of a sample; of more every k-th is taken */
#define COMPARE_POINTS_MIN 20u   /* fewer: no verdict */
#define COMPARE_RESAMPLES 1000u
#define COMPARE_WIDE 0.05 /* an interval with 0 in it is no "same" if it goes further */

/* Every k-th of n values, in place, so that at most `most` are left: how many. */
size_t compare_thin(double *x, size_t n, size_t most);

struct compare_summary {
	size_t n;
	double median, mean, p5, p95, min, max, last; /* NaN for n of 0 */
};
/* Of values in their order (none NaN); quantiles are linear between neighbours. 0 or -ENOMEM. */
int compare_describe(const double *x, size_t n, struct compare_summary *ret);

/* Length of a block for circular blocks, 1 to ceil(min(3 sqrt(n), n / 3)); not rounded. Is it a
 * trend: does the correlation not end within ceil(sqrt(n)) + 5 neighbours? */
double compare_block(const double *x, size_t n, bool *ret_is_trend);

struct compare_options {
	double confidence; /* 0.95 */
	double tolerance;  /* relative difference that counts: 0.01 */
	int direction;     /* 1: more is better, -1: less is, 0: not known */
	size_t block;      /* 0: chosen for each sample */
	size_t resamples;  /* 0: COMPARE_RESAMPLES */
	uint64_t seed;
};

enum compare_verdict {
	COMPARE_NOT_ENOUGH,
	COMPARE_SAME,
	COMPARE_BETTER,
	COMPARE_WORSE,
	COMPARE_DIFFERS /* and which is better is not known */
};
const char *compare_verdict_name(enum compare_verdict v);

/* What stands behind a verdict that is not that of the interval, in short. */
enum compare_reason {
	COMPARE_BY_INTERVAL,
	COMPARE_FEW_POINTS,
	COMPARE_LEVEL_CHANGES,
	COMPARE_WIDE_INTERVAL,
	COMPARE_APART /* the level changes, yet the samples do not overlap */
};
const char *compare_reason_name(enum compare_reason r); /* NULL for BY_INTERVAL */

struct compare_result {
	double median[2];
	double difference, low, high; /* b - a; low and high NaN without enough points */
	double relative, relative_low, relative_high; /* over |median of a|; NaN if that is 0 */
	size_t block[2];
	enum compare_verdict verdict;
	enum compare_reason reason;
	bool is_in[2]; /* the reason holds for this sample: it is short, its level changes */
	const char *why;
};

/* A sample that is a trend has no level: no verdict, unless the 5th to 95th percentiles of the two
 * do not overlap; low and high are then the least and the greatest distance of these ranges.
 * With a correlation of 0.7 between neighbours, intervals of 400 points that are called 95 % have
 * the truth in 86 of 100 cases (tests/unit/analyse/test_compare.c), without blocks in 61.
 *
 * b against a: values in their order, none NaN, at most COMPARE_POINTS_MAX each. The same input
 * gives the same result. 0, -EINVAL, -ENOMEM. */
int compare_medians(const double *a, size_t n_a, const double *b, size_t n_b,
		    const struct compare_options *o, struct compare_result *ret);

#endif

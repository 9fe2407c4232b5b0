/* SPDX-License-Identifier: Apache-2.0
 *
 * rule.h - a rule: what it looks at, when that is wrong, for how long it must be, and the
 * sentence that says so; and the state in which a rule is for one series. Pure: nothing
 * here knows runs, sinks or clocks.
 */
#ifndef ALERT_RULE_H
#define ALERT_RULE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define RULE_NAME_MAX 24 /* bytes of a name, NUL included */
#define RULE_TEXT_MAX 1024

enum rule_test {
	RULE_ABOVE,    /* bad from limit on, good below clear */
	RULE_BELOW,    /* bad below limit, good from clear on */
	RULE_MULTIPLE, /* bad from limit times the running median on, good below clear times it */
	RULE_SURGE,    /* bad if it is above what is usual by limit times its scatter (surge.h) */
	RULE_RAISED,   /* never bad: if it more than doubles it is a new beginning for SURGE of its
			  process, and of those that have no such series */
	RULE_FORECAST, /* bad if a robust line reaches limit within horizon_ns */
	RULE_NOT_FINITE, /* bad if NaN or infinite; `hold` in a row after `skip` finite ones, or
			    `cold` in a row without these (0: never) */
};

enum rule_what {
	RULE_OF_SERIES,
	RULE_OF_QUIET,  /* seconds since a step ended; the limit is at least `limit` */
	RULE_OF_PACE,   /* share of the last minute's steps that took over twice the usual */
	RULE_OF_LOSSES, /* records that were lost */
	RULE_OF_OUTCOME /* how the run ended */
};

enum rule_from {
	RULE_FROM_ANY,
	RULE_FROM_PROGRAM, /* gauges that the training program recorded */
	RULE_FROM_MACHINE  /* what lapse has read itself */
};

enum rule_gate {
	RULE_TRAINING = 1,  /* steps go on */
	RULE_SETTLED = 2,   /* the first steps are over, or the run is ten minutes old */
	RULE_NOT_ASIDE = 4, /* no evaluation, checkpoint or the like is open */
	RULE_IN_USE = 8,    /* the run uses it: the series was above 0 during steps */
	RULE_STEPLESS = 16  /* the program has recorded no step so far */
};

/* One row of a table. Several rows of one name are one rule for people. */
struct rule {
	const char *name;  /* never renamed */
	const char *names; /* patterns of names, blanks between, '!' before one excludes; any
			      case; only in series without labels if it ends in "{}" */
	enum rule_what what;
	enum rule_from from;
	const char *of;     /* the value is a share of this series' (same process, labels) */
	bool rest;          /* 1 less it */
	const char *unless; /* not looked at where there is a series of that name */
	enum rule_test test;
	double limit, clear;
	double least; /* FORECAST: and the level is at least this */
	unsigned hold, cold, skip;
	int64_t hold_ns;             /* bad for so long, all the time */
	unsigned clear_n;            /* over after so many good values in a row ... */
	int64_t clear_ns;            /* ... and so long */
	int64_t smooth_ns;           /* time constant of an exponential mean; 0: the value itself */
	int64_t horizon_ns, span_ns; /* FORECAST: how far ahead, from how far back */
	unsigned gates;              /* enum rule_gate; while one is shut nothing is bad */
	unsigned most;               /* alerts at a time; more are not told */
	int severity;                /* 2 warning, 3 error */
	int64_t cooldown_ns;         /* after one is over */
	const char *unit;            /* of value and limit: "1" a share, "x" a multiple */
	/* What happened: {series} {value} {limit} {for} {left} {usual} are filled in. */
	const char *text;
};

/* What a name is for people: one a rule. */
struct rule_about {
	const char *name, *title;
	const char *looks_at, *test; /* {limit}: the first row's limit in force */
	const char *advice;          /* what to do */
	const char *missing;         /* why it cannot look if none of its series are there */
};

/* ---- the state of a row for one series -------------------------------------------- */

/* When a program's process ends what fires FROM_PROGRAM for its series is over: nothing comes
 * that could end it, and the next process must not wait for that. Not so OF_QUIET: it lasts until
 * a step of any process ends; nor OF_OUTCOME, which comes last. */

enum rule_at {
	RULE_OK,
	RULE_PENDING,
	RULE_FIRING
};

enum rule_verdict {
	RULE_GOOD,
	RULE_BETWEEN, /* neither: hysteresis */
	RULE_BAD
};

enum rule_news {
	RULE_NOTHING,
	RULE_FIRED,
	RULE_RESOLVED
};

/* Zero-initialise it. */
struct rule_state {
	enum rule_at at;
	unsigned n;       /* bad values in a row while pending, good ones while firing */
	int64_t since_ns; /* bad since */
	int64_t good_ns;  /* good since, while firing */
	int64_t last_ns;  /* of the last value */
	int64_t cool_ns;  /* no alert before */
};

/* A value at a time. Times go forward: an older one than the last is left out (the agent
 * reads again after a commit that failed). */
enum rule_news rule_step(const struct rule *r, struct rule_state *s, int64_t time_ns,
			 enum rule_verdict v);

/* ABOVE, BELOW, MULTIPLE (of `usual`). */
enum rule_verdict rule_judge(const struct rule *r, double value, double usual);

/* Do the patterns of `names` choose a series? labels: "" none. */
bool rule_matches(const char *names, const char *name, const char *labels);

/* ---- sentences ------------------------------------------------------------------------ */

struct rule_says {
	const char *series;
	double value, limit, usual;
	const char *unit;
	double for_s, left_s;
};

/* Append the text with what is between braces filled in. */
void rule_text(const char *text, const struct rule_says *w, struct buf *out);

/* A value with its unit: "92 °C", "12.3 %", "1.50 GiB". Appended. */
void rule_value(double v, const char *unit, struct buf *out);

#endif

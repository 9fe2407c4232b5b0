/* SPDX-License-Identifier: Apache-2.0
 *
 * exposition.h - reads Prometheus text 0.0.4 and OpenMetrics 1.0 as they come from an
 * exporter. Nothing is allocated or copied; a line that is wrong is counted and left
 * out, the others are read.
 */
#ifndef PROBE_SCRAPE_EXPOSITION_H
#define PROBE_SCRAPE_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPOSITION_LABELS_MAX 32 /* labels of a sample; one with more is a wrong line */
#define EXPOSITION_WHY_MAX 160

/* A piece of the text. */
struct exposition_str {
	const char *p;
	size_t len;
};

/* What # TYPE says. */
enum exposition_type {
	EXPOSITION_UNTYPED, /* also "unknown" */
	EXPOSITION_GAUGE,
	EXPOSITION_COUNTER,
	EXPOSITION_HISTOGRAM,
	EXPOSITION_GAUGE_HISTOGRAM,
	EXPOSITION_SUMMARY,
	EXPOSITION_INFO,
	EXPOSITION_STATE_SET
};

/* What a sample is within its family. */
enum exposition_role {
	EXPOSITION_VALUE,    /* of a gauge, counter, info, state set or without a type */
	EXPOSITION_SUM,      /* ..._sum, ..._gsum */
	EXPOSITION_COUNT,    /* ..._count, ..._gcount */
	EXPOSITION_BUCKET,   /* ..._bucket */
	EXPOSITION_QUANTILE, /* of a summary */
	EXPOSITION_CREATED   /* ..._created: when it began, no figure */
};

struct exposition_sample {
	struct exposition_str series; /* name and labels as they stand: the same text, the same
					 series */
	struct exposition_str name;
	struct exposition_str labels; /* between the braces, sound; for exposition_label() */
	struct exposition_str help;   /* as it stands, with escapes; empty none */
	struct exposition_str unit;   /* of # UNIT; empty none */
	enum exposition_type type;
	enum exposition_role role;
	double value; /* NaN, +Inf and -Inf are values */
};

struct exposition_summary {
	uint64_t samples;             /* told */
	uint64_t wrong;               /* lines left out */
	char why[EXPOSITION_WHY_MAX]; /* the first of them: "line 3: ..." */
};

/* Read all of a text, calling take for each sample in its order. openmetrics: as the
 * Content-Type says; then "# EOF" must end it. Times of samples and exemplars are read
 * over. A last line without its line end is a wrong one: it may have been cut short. */
void exposition_read(const char *text, size_t len, bool openmetrics,
		     void (*take)(void *arg, const struct exposition_sample *s), void *arg,
		     struct exposition_summary *out);

/* The next label of sound labels: false at the end. *key and *value (with its escapes) are
 * pieces of the text; *rest is advanced and begins as s->labels. */
bool exposition_label(struct exposition_str *rest, struct exposition_str *key,
		      struct exposition_str *value);

/* Undo the escapes \\ \" \n of a label's value or a help text into out (cap bytes, NUL
 * included); what does not fit is cut. Other escapes stay as they are. Returns the
 * length that it has in full. */
size_t exposition_unescape(struct exposition_str s, char *out, size_t cap);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * prometheus_priv.h - what the files of the Prometheus format share: one entry a
 * metric and set of labels, and how they become text. Nobody else includes it
 * but tests.
 */
#ifndef EXPORT_PROMETHEUS_PRIV_H
#define EXPORT_PROMETHEUS_PRIV_H

#include "base/buf.h"
#include "base/map.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROMETHEUS_ENTRIES_MAX (1u << 20)
#define PROMETHEUS_LE_MAX 48u

/* Upper limits of buckets; what lies above the last is in +Inf only. */
struct prometheus_scale {
	size_t n, zero; /* [0, zero) are negative and stand only if something was */
	double le[PROMETHEUS_LE_MAX];
};
/* Durations in seconds: 1, 2.5, 5 in each decade from 100 us to 1000 s. */
const struct prometheus_scale *prometheus_durations(void);
/* Any values: 0 and powers of 4 from 4^-10 to 4^10, of both signs. */
const struct prometheus_scale *prometheus_values(void);

/* What an entry is; the type of a metric follows from it. */
enum prometheus_kind {
	PROMETHEUS_GAUGE = 1,
	PROMETHEUS_COUNTER = 2,
	PROMETHEUS_SPAN = 3, /* a histogram of durations */
	PROMETHEUS_HIST = 4
};

struct prometheus_entry {
	char *name, *labels, *help; /* owned; labels: k="v",k="v" escaped */
	enum prometheus_kind kind;
	bool machine;  /* of probes: an old value is worth nothing */
	bool negative; /* values below zero were observed */
	double scale;  /* from the series' unit to the base unit */
	int64_t time_ns;
	double value;           /* counters: the sum; histograms: the sum of observations */
	uint64_t count, *below; /* histograms; below[i]: in bucket i alone */
};

/* Name of the metric of a series; *ret_scale: see struct prometheus_entry. */
char *prometheus_name(const struct store_series *s, double *ret_scale);
/* A label's value, escaped. */
void prometheus_label(struct buf *b, const char *value);
/* An entry as lines; without HELP and TYPE unless first of its metric. */
void prometheus_lines(struct buf *b, const struct prometheus_entry *e, bool first);
void prometheus_head(struct buf *b, const char *name, const char *type, const char *help);
void prometheus_number(struct buf *b, double v);
/* Add a value, or a histogram point, to the buckets of an entry. */
void prometheus_observe(struct prometheus_entry *e, double v);
void prometheus_observe_hist(struct prometheus_entry *e, const struct sink_hist *h);

#endif

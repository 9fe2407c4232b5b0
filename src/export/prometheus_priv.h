/* SPDX-License-Identifier: Apache-2.0
 *
 * prometheus_priv.h - what the files of the Prometheus format share: one entry a
 * metric and set of labels, and how they become text. Nobody else includes it
 * but tests.
 */
#ifndef EXPORT_PROMETHEUS_PRIV_H
#define EXPORT_PROMETHEUS_PRIV_H

#include "base/buf.h"
#include "base/err.h"
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
	PROMETHEUS_HIST = 4,
	PROMETHEUS_INFO = 5 /* labels are what it says; its value is 1 */
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

/* ---- prometheus.c: what is known of a run ------------------------------------------- */

struct prometheus;
struct exporter;

/* Entries of a run; x NULL: it counts for no exporter. */
struct prometheus *prometheus_new(struct exporter *x);
void prometheus_free(struct prometheus *p);
/* Before a walk. */
void prometheus_start(struct prometheus *p, const struct store_run *run);
/* What the walk calls; arg is the struct prometheus. */
extern const struct store_newer prometheus_newer;

/* Entries to be written: borrowed ones, and made ones that it owns. */
struct prometheus_list {
	const struct prometheus_entry **entries;
	size_t n, cap;
	struct prometheus_entry **made;
	size_t n_made, cap_made;
};
void prometheus_list_done(struct prometheus_list *l);
/* By name and labels. */
void prometheus_list_sort(struct prometheus_list *l);
/* Add the series; of probes only those that are not old. */
void prometheus_list_series(struct prometheus_list *l, const struct prometheus *p, bool ended);
/* Add all of another list, which goes on owning what it made. */
void prometheus_list_join(struct prometheus_list *l, const struct prometheus_list *from);
/* Add whether the run has been read to its end. */
void prometheus_list_behind(struct prometheus_list *l, const struct prometheus *p, bool is);
/* Add figures of the run itself. 0 or -errno. */
int prometheus_list_run(struct prometheus_list *l, const struct prometheus *p,
			struct store_reader *r, const struct store_run *run, struct err *e);

/* Name of the metric of a series; *ret_scale: see struct prometheus_entry. */
char *prometheus_name(const struct store_series *s, double *ret_scale);
/* A label's value, escaped. */
void prometheus_label(struct buf *b, const char *value);
/* An entry as lines; without HELP and TYPE unless first of its metric. The second is
 * OpenMetrics 1.0. */
void prometheus_lines(struct buf *b, const struct prometheus_entry *e, bool first);
void prometheus_open_lines(struct buf *b, const struct prometheus_entry *e, bool first);
/* Length of the name of the metric that an entry belongs to in OpenMetrics: without the
 * ending that its type gives to samples. */
size_t prometheus_open_family(const struct prometheus_entry *e);
/* The type as both formats call it. */
const char *prometheus_type(enum prometheus_kind kind, bool is_open);
void prometheus_head(struct buf *b, const char *name, const char *type, const char *help);
void prometheus_number(struct buf *b, double v);
/* Add a value, or a histogram point, to the buckets of an entry. */
void prometheus_observe(struct prometheus_entry *e, double v);
void prometheus_observe_hist(struct prometheus_entry *e, const struct sink_hist *h);

#endif

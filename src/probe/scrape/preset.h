/* SPDX-License-Identifier: Apache-2.0
 *
 * preset.h - what well-known exporters tell, and what of it becomes which figure: by a
 * table of rows in base units, by another beginning of the name, or as scrape/NAME.
 */
#ifndef PROBE_SCRAPE_PRESET_H
#define PROBE_SCRAPE_PRESET_H

#include "probe/probe.h"

/* One metric under a name and unit of ours. */
struct preset_row {
	const char *from; /* as it is exposed */
	struct probe_metric metric;
	double scale;
	const char *labels; /* OURS=THEIRS,OURS=THEIRS: those kept; @node: the target's number */
};

struct scrape_preset {
	const char *name;        /* "dcgm"; "" without a preset */
	const char *port;        /* where it listens as a rule; "" unknown */
	const char *from, *to;   /* other names: from at the front becomes to */
	const char *const *keep; /* patterns, ended by NULL; NULL: all */
	const char *const *drop; /* patterns, ended by NULL; NULL: none */
	const char *const *drop_labels;
	const struct preset_row *rows; /* ended by from NULL; NULL: none */
};

/* By name; NULL: there is none. "" is the one of targets without a preset. */
const struct scrape_preset *preset_find(const char *name);

/* The i-th that has a name, or NULL. */
const struct scrape_preset *preset_at(size_t i);

/* The row of an exposed name (len bytes), or NULL. */
const struct preset_row *preset_row_of(const struct scrape_preset *p, const char *name, size_t len);

/* The unit that the end of a name in base units says ("..._seconds_total": "s"); "" none. */
const char *preset_unit(const char *name, size_t len);

#endif

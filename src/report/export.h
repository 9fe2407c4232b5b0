/* SPDX-License-Identifier: Apache-2.0
 *
 * export.h - formats of `lapse export`: one file a format, an ops table over
 * one walk of the store. docs/cli.md is the contract of what they write.
 */
#ifndef REPORT_EXPORT_H
#define REPORT_EXPORT_H

#include "base/buf.h"
#include "report/events.h"
#include "report/runview.h"

enum export_what {
	EXPORT_SAMPLES = 1,
	EXPORT_SPANS = 2,
	EXPORT_HISTOGRAMS = 4,
	EXPORT_EVENTS = 8
};

/* Each appends whole lines to out for what it is given. */
struct export_ops {
	const char *name;  /* as in --to */
	unsigned what;     /* what is exported unless --what says otherwise */
	bool events_alone; /* events have other columns: they go alone */
	void (*begin)(struct buf *out, const struct runview *v, unsigned what);
	/* Each series before its points; index counts all series of the run. NULL:
	 * not wanted. */
	void (*series)(struct buf *out, const struct store_series *s, size_t index);
	void (*point)(struct buf *out, const struct runview *v, const struct store_series *s,
		      size_t index, const struct store_point *p);
	void (*event)(struct buf *out, const struct runview *v, const struct store_event *e);
};

extern const struct export_ops export_csv, export_json;

/* Append text as a field of CSV, in quotes where it needs them. Bytes that are not
 * UTF-8 and control characters would break readers and terminals: they become
 * U+FFFD. Line ends and tabs are text. */
void export_csv_text(struct buf *out, const char *text);

#endif

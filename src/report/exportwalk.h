/* SPDX-License-Identifier: Apache-2.0
 *
 * exportwalk.h - one walk over a run for `lapse export` and the server's export: what is
 * wanted, formatted item by item.
 */
#ifndef REPORT_EXPORTWALK_H
#define REPORT_EXPORTWALK_H

#include "base/buf.h"
#include "base/err.h"
#include "report/export.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set the first part, the rest zero. */
struct exportwalk {
	const struct export_ops *ops;
	unsigned what; /* enum export_what */
	const struct runview *v;
	struct store_range range;
	bool (*wants)(void *arg, const struct store_series *s); /* NULL: all */
	/* Take lines of one item. Not 0: the walk ends with it. */
	int (*put)(void *arg, const char *data, size_t len);
	/* Something cannot be read; the rest goes on if it returns 0. */
	int (*unread)(void *arg, const char *what, const struct err *e);
	void *arg;
	uint64_t rows; /* points and events so far */
	/* Private. */
	struct buf line;
	const struct store_series *series;
	size_t index;
	int ended; /* what put() returned */
};

/* The formats of this name, or NULL. */
const struct export_ops *exportwalk_format(const char *name);

/* The bit of a word of --what ("samples", ...), len bytes; 0: none. */
unsigned exportwalk_what(const char *word, size_t len);

/* Is this series among what is exported? */
bool exportwalk_wants(const struct exportwalk *x, const struct store_series *s);

/* All of it. 0; what put() or unread() returned; -EFBIG: an item is larger than 64 MiB. */
int exportwalk_run(struct exportwalk *x, struct err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * compat.h - a run as the tables of the documents that lapse is compatible with: their
 * names, their units, a row a step or a reading (docs/http.md, "The documents' aliases").
 */
#ifndef SERVER_COMPAT_H
#define SERVER_COMPAT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "report/runview.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMPAT_COLUMNS_MAX 256u
#define COMPAT_ROWS_MAX 10000u

struct compat_row {
	int64_t time_ns, step; /* step: SINK_STEP_NONE if it has none */
	bool is_val;           /* of a validation */
	double *values;        /* of each column; owned */
	bool *has;
};

/* A table; rows are in order of time. */
struct compat_table {
	bool is_training; /* with step and phase */
	char *names[COMPAT_COLUMNS_MAX];
	size_t n_columns;
	struct compat_row *rows;
	size_t n, cap;
};
void compat_table_done(struct compat_table *t);

/* The column of this name, made if it is new; COMPAT_COLUMNS_MAX: there are too many. */
size_t compat_column(struct compat_table *t, const char *name);
/* A new row without values. It lives until the next one is added. */
struct compat_row *compat_add(struct compat_table *t, int64_t time_ns, int64_t step, bool is_val);
void compat_set(struct compat_row *row, size_t column, double v);

/* Call fn for the last `limit` points of a series, in the order in which they arrived. 0 or
 * -errno and *e. */
int compat_last(const struct runview *v, const struct store_series *s, size_t limit,
		void (*fn)(void *arg, const struct store_point *p), void *arg, struct err *e);

/* The last `limit` steps, or readings, of a run. t is zero. 0 or -errno and *e. */
int compat_training(const struct runview *v, size_t limit, struct compat_table *t, struct err *e);
int compat_system(const struct runview *v, size_t limit, struct compat_table *t, struct err *e);

/* ---- out ------------------------------------------------------------------------------ */

/* Items of an array. */
void compat_json_rows(struct json *j, const struct compat_table *t);
/* {"COLUMN": {"count", "mean", "min", "max", "latest"}, ...} */
void compat_json_figures(struct json *j, const struct compat_table *t);
/* Lines with a head; type NULL: else a first column with it. */
void compat_csv_head(struct buf *out, const struct compat_table *t, const char *type);
void compat_csv_rows(struct buf *out, const struct compat_table *t, const char *type);

#endif

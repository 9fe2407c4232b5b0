/* SPDX-License-Identifier: Apache-2.0
 *
 * compat.c - tables of the documents' names, and how they are written.
 */
#include "server/compat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/export.h"

#define COMPAT_LATE_NS 60000000000LL

void compat_table_done(struct compat_table *t)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		free(t->rows[i].values);
		free(t->rows[i].has);
	}
	for (i = 0; i < t->n_columns; i++)
		free(t->names[i]);
	free(t->rows);
	*t = (struct compat_table){0};
}

size_t compat_column(struct compat_table *t, const char *name)
{
	size_t i;

	for (i = 0; i < t->n_columns; i++)
		if (strcmp(t->names[i], name) == 0)
			return i;
	if (i < COMPAT_COLUMNS_MAX)
		t->names[t->n_columns++] = xstrdup(name);
	return i;
}

struct compat_row *compat_add(struct compat_table *t, int64_t time_ns, int64_t step, bool is_val)
{
	struct compat_row *row;

	t->rows = xgrow(t->rows, t->n, &t->cap, sizeof(*t->rows));
	row = &t->rows[t->n++];
	*row = (struct compat_row){.time_ns = time_ns,
				   .step = step,
				   .is_val = is_val,
				   .values = xcalloc(COMPAT_COLUMNS_MAX, sizeof(*row->values)),
				   .has = xcalloc(COMPAT_COLUMNS_MAX, sizeof(*row->has))};
	return row;
}

void compat_set(struct compat_row *row, size_t column, double v)
{
	if (column >= COMPAT_COLUMNS_MAX)
		return;
	row->values[column] = v;
	row->has[column] = true;
}

/* The last points of a series so far, in order of arrival. */
struct compat_tail {
	struct store_point *v;
	size_t n, cap, limit;
};

static int compat_tail_block(void *arg, const struct store_block *b)
{
	struct compat_tail *t = arg;
	size_t i, gone;

	for (i = 0; i < b->n; i++) {
		if (t->n >= 2 * t->limit) {
			gone = t->n - t->limit;
			memmove(t->v, t->v + gone, t->limit * sizeof(*t->v));
			t->n = t->limit;
		}
		t->v = xgrow(t->v, t->n, &t->cap, sizeof(*t->v));
		t->v[t->n++] = (struct store_point){.time_ns = b->time_ns[i],
						    .step = b->step[i],
						    .value = b->value[i],
						    .segment = b->segment};
	}
	return 0;
}

/* When the first of the last points was: what is before it need not be read. Asking for
 * each of them would read its chunk again and again. */
static int compat_last_since(const struct runview *v, const struct store_series *s, size_t limit,
			     struct store_range *ret, struct err *e)
{
	const struct store_place place = {{s->host, s->id}, s->count - limit};
	struct store_point first;
	int err;

	*ret = (struct store_range){.all_segments = true};
	if (s->count <= limit)
		return 0;
	err = store_reader_at(v->reader, &place, 1, e, &first);
	if (err || first.time_ns == INT64_MIN)
		return err;
	ret->by_time = true;
	/* Points may come late: more are read than are kept. */
	ret->time_min = first.time_ns < INT64_MIN + COMPAT_LATE_NS ? INT64_MIN
								   : first.time_ns - COMPAT_LATE_NS;
	ret->time_max = INT64_MAX;
	return 0;
}

int compat_last(const struct runview *v, const struct store_series *s, size_t limit,
		void (*fn)(void *arg, const struct store_point *p), void *arg, struct err *e)
{
	struct compat_tail t = {.limit = limit};
	struct store_range range;
	size_t i;
	int err = compat_last_since(v, s, limit, &range, e);

	if (!err)
		err = store_reader_blocks(v->reader, s->host, s->id, &range, compat_tail_block, &t,
					  e);
	for (i = t.n > limit ? t.n - limit : 0; i < t.n && !err; i++)
		fn(arg, &t.v[i]);
	free(t.v);
	return err;
}

static double compat_seconds(int64_t ns)
{
	return (double)(ns / 1000) / 1e6;
}

void compat_json_rows(struct json *j, const struct compat_table *t)
{
	size_t i, k;

	for (i = 0; i < t->n; i++) {
		const struct compat_row *row = &t->rows[i];

		json_object(j);
		json_kdouble(j, "timestamp", compat_seconds(row->time_ns));
		if (t->is_training) {
			runview_json_step(j, "step", row->step);
			json_kstr(j, "phase", row->is_val ? "val" : "train");
		}
		for (k = 0; k < t->n_columns; k++)
			runview_json_number(j, t->names[k], row->values[k], row->has[k]);
		json_object_end(j);
	}
}

static void compat_json_figure(struct json *j, const struct compat_table *t, size_t column)
{
	double sum = 0, min = NAN, max = NAN, latest = NAN;
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < t->n; i++) {
		const struct compat_row *row = &t->rows[i];

		/* Figures of a validation are not those of training. */
		if (!row->has[column] || row->is_val)
			continue;
		latest = row->values[column];
		if (isnan(latest))
			continue;
		n++;
		sum += latest;
		min = fmin(min, latest);
		max = fmax(max, latest);
	}
	json_key(j, t->names[column]);
	json_object(j);
	json_kuint(j, "count", n);
	runview_json_number(j, "mean", sum / (double)n, n > 0);
	runview_json_number(j, "min", min, n > 0);
	runview_json_number(j, "max", max, n > 0);
	runview_json_number(j, "latest", latest, n > 0);
	json_object_end(j);
}

void compat_json_figures(struct json *j, const struct compat_table *t)
{
	size_t i, k;
	bool any;

	json_object(j);
	for (k = 0; k < t->n_columns; k++) {
		any = false;
		for (i = 0; i < t->n && !any; i++)
			any = t->rows[i].has[k] && !t->rows[i].is_val;
		if (any)
			compat_json_figure(j, t, k);
	}
	json_object_end(j);
}

void compat_csv_head(struct buf *out, const struct compat_table *t, const char *type)
{
	size_t k;

	buf_printf(out, "%stimestamp%s", type ? "type," : "", t->is_training ? ",step,phase" : "");
	for (k = 0; k < t->n_columns; k++) {
		buf_putc(out, ',');
		export_csv_text(out, t->names[k]);
	}
	buf_putc(out, '\n');
}

void compat_csv_rows(struct buf *out, const struct compat_table *t, const char *type)
{
	size_t i, k;

	for (i = 0; i < t->n; i++) {
		const struct compat_row *row = &t->rows[i];

		if (type)
			buf_printf(out, "%s,", type);
		json_put_double(out, compat_seconds(row->time_ns));
		if (t->is_training) {
			buf_putc(out, ',');
			if (row->step != SINK_STEP_NONE)
				buf_printf(out, "%lld", (long long)row->step);
			buf_puts(out, row->is_val ? ",val" : ",train");
		}
		for (k = 0; k < t->n_columns; k++) {
			buf_putc(out, ',');
			if (row->has[k])
				json_put_double(out, row->values[k]);
		}
		buf_putc(out, '\n');
	}
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * compat_training.c - the last steps of a training as a table: of the process that
 * recorded a loss (else anything), of its series the last points each, joined by steps.
 */
#include "server/compat.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

/* A column and the series it may come from, the first one first. */
struct compat_alias {
	const char *name;
	bool is_span; /* durations, as seconds */
	const char *series[6];
};

static const struct compat_alias compat_figures[] = {
	{"epoch", false, {"epoch", "train/epoch", "epoch/number"}},
	{"loss", false, {"loss", "train/loss", "train_loss", "training/loss", "loss/train"}},
	{"accuracy", false, {"accuracy", "train/accuracy", "acc", "train/acc", "train_accuracy"}},
	{"learning_rate", false, {"learning_rate", "lr", "train/lr", "train/learning_rate"}},
	{"momentum", false, {"momentum"}},
	{"grad_norm", false, {"grad_norm", "grad/norm", "train/grad_norm", "gradient_norm"}},
	{"grad_norm_clipped", false, {"grad_norm_clipped"}},
	{"param_norm", false, {"param_norm", "param/norm"}},
	{"batch_time", false, {"batch_time"}},
	{"data_load_time", false, {"data_load_time"}},
	{"forward_pass_time", false, {"forward_pass_time"}},
	{"backward_pass_time", false, {"backward_pass_time"}},
	{"optimization_time", false, {"optimization_time"}},
	/* Spans, where the program did not log the figure itself. */
	{"batch_time", true, {"step"}},
	{"data_load_time", true, {"data", "dataloader", "data/wait"}},
	{"forward_pass_time", true, {"forward"}},
	{"backward_pass_time", true, {"backward"}},
	{"optimization_time", true, {"optimizer"}},
};

/* What names of validation begin with. */
static const char *const compat_val[] = {"val/", "valid/", "validation/", "eval/", "test/"};

struct compat_join {
	const struct runview *v;
	const struct store_series *of; /* whose process it is */
	size_t limit;
	struct compat_table *t;
	struct map rows; /* by step (or time) and phase: number of the row */
	/* The series whose points come now. */
	size_t column;
	bool is_val, is_span;
};

static const char *compat_val_name(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(compat_val); i++)
		if (strncmp(name, compat_val[i], strlen(compat_val[i])) == 0)
			return name + strlen(compat_val[i]);
	return NULL;
}

static bool compat_is_recorded(const struct store_series *s)
{
	return strcmp(s->source, "record") == 0 && s->labels[0] == '\0' && s->count > s->lost;
}

static const struct compat_alias *compat_find(const char *name, bool is_span)
{
	size_t i, k;

	for (i = 0; i < ARRAY_LEN(compat_figures); i++)
		for (k = 0; compat_figures[i].series[k]; k++)
			if (compat_figures[i].is_span == is_span &&
			    strcmp(compat_figures[i].series[k], name) == 0)
				return &compat_figures[i];
	return NULL;
}

/* The series whose process is told of: of the losses, else of all that a program recorded,
 * the one that stands for all. */
static const struct store_series *compat_process(const struct runview *v)
{
	const struct store_series *best = NULL;
	bool best_loss = false, loss;
	size_t i;

	for (i = 0; i < v->n_series; i++) {
		const struct store_series *s = &v->series[i];
		const struct compat_alias *a = compat_find(s->name, false);

		if (!compat_is_recorded(s) || s->kind == SINK_HISTOGRAM)
			continue;
		loss = a && strcmp(a->name, "loss") == 0;
		if (best &&
		    (best_loss > loss || (best_loss == loss && !store_series_is_before(s, best))))
			continue;
		best = s;
		best_loss = loss;
	}
	return best;
}

/* The number of a row, or where it will be: then it is not there. */
static bool compat_row_of(struct compat_join *x, int64_t step, int64_t time_ns, bool is_val,
			  uint64_t *ret)
{
	const int64_t key[] = {step, step == SINK_STEP_NONE ? time_ns : 0, is_val};

	if (map_get(&x->rows, key, sizeof(key), ret))
		return true;
	*ret = x->t->n;
	map_put(&x->rows, key, sizeof(key), *ret);
	return false;
}

static void compat_put_point(void *arg, const struct store_point *p)
{
	struct compat_join *x = arg;
	struct compat_row *row;
	uint64_t i;

	if (!compat_row_of(x, p->step, p->time_ns, x->is_val, &i))
		compat_add(x->t, p->time_ns, p->step, x->is_val);
	row = &x->t->rows[i];
	if (p->time_ns > row->time_ns)
		row->time_ns = p->time_ns;
	compat_set(row, x->column, x->is_span ? p->value / 1e9 : p->value);
}

/* The column of a series; false: it has none. */
static bool compat_choose(struct compat_join *x, const struct store_series *s)
{
	const struct compat_alias *a;
	const char *name = s->name, *val;

	if (!compat_is_recorded(s) || s->host != x->of->host || s->process != x->of->process ||
	    (s->kind != SINK_GAUGE && s->kind != SINK_SPAN))
		return false;
	val = s->kind == SINK_GAUGE ? compat_val_name(name) : NULL;
	a = compat_find(val ? val : name, s->kind == SINK_SPAN);
	if (!a && s->kind == SINK_SPAN)
		return false;
	x->column = compat_column(x->t, a ? a->name : val ? val : name);
	x->is_val = val != NULL;
	x->is_span = s->kind == SINK_SPAN;
	return x->column < COMPAT_COLUMNS_MAX;
}

static int compat_compare(const void *a, const void *b)
{
	const struct compat_row *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->is_val != y->is_val)
		return x->is_val ? 1 : -1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* In order, the last `limit` of them; without those that have no step if others do. */
static void compat_cut(struct compat_table *t, size_t limit)
{
	size_t i, gone = 0;

	if (t->n == 0)
		return;
	qsort(t->rows, t->n, sizeof(*t->rows), compat_compare);
	if (t->n > limit)
		gone = t->n - limit;
	while (t->rows[gone].step == SINK_STEP_NONE && t->rows[t->n - 1].step != SINK_STEP_NONE)
		gone++;
	for (i = 0; i < gone; i++) {
		free(t->rows[i].values);
		free(t->rows[i].has);
	}
	t->n -= gone;
	memmove(t->rows, t->rows + gone, t->n * sizeof(*t->rows));
}

/* Series whose steps have nothing in common must not need memory for all of them: what is
 * not among the last rows now will not be later. */
static void compat_tidy(struct compat_join *x)
{
	struct compat_table *t = x->t;
	size_t n, i;
	uint64_t at;

	if (t->n <= 2 * x->limit)
		return;
	compat_cut(t, x->limit);
	map_done(&x->rows);
	map_init(&x->rows);
	n = t->n;
	for (i = 0; i < n; i++) {
		t->n = i;
		compat_row_of(x, t->rows[i].step, t->rows[i].time_ns, t->rows[i].is_val, &at);
	}
	t->n = n;
}

int compat_training(const struct runview *v, size_t limit, struct compat_table *t, struct err *e)
{
	struct compat_join x = {.v = v, .of = compat_process(v), .limit = limit, .t = t};
	size_t i;
	bool spans;
	int err = 0;

	t->is_training = true;
	for (i = 0; i < ARRAY_LEN(compat_figures); i++)
		compat_column(t, compat_figures[i].name);
	if (!x.of)
		return 0;
	map_init(&x.rows);
	/* Spans first: a figure that the program logged itself stands over them. */
	for (i = 0; i < 2 * v->n_series && !err; i++) {
		const struct store_series *s = &v->series[i % v->n_series];

		spans = i < v->n_series;
		if ((s->kind == SINK_SPAN) != spans || !compat_choose(&x, s))
			continue;
		err = compat_last(v, s, limit, compat_put_point, &x, e);
		compat_tidy(&x);
	}
	map_done(&x.rows);
	compat_cut(t, limit);
	return err;
}

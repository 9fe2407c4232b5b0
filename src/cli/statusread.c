/* SPDX-License-Identifier: Apache-2.0
 *
 * Series are looked for again and again, ever less often; of those found only the totals
 * are read, which cost the same however many points there are.
 */
#include "cli/statusread.h"

#include "base/mem.h"
#include "base/number.h"
#include "report/runview.h"
#include "wire/clock.h"

#include <math.h>
#include <string.h>

#define STATUSREAD_LOOK_FIRST 1 /* readings between two searches: 1, 2, 4, ... */
#define STATUSREAD_LOOK_MAX 8
#define STATUSREAD_REFS_MAX 256 /* GPUs, or ranks whose samples are added up */

enum statusread_what {
	READ_STEP,
	READ_LOSS,
	READ_SAMPLES,
	READ_TOKENS,
	READ_GPU_BUSY,
	READ_GPU_USED,
	READ_GPU_TOTAL,
	READ_CPU,
	READ_RSS,
	READ_LIMIT,
	READ_TOTAL,
	READ_USED,
	READ_WHATS
};

static const struct statusread_row {
	const char *name;
	enum statusread_what what;
	enum sink_kind kind;
	bool recorded; /* by the program, else by lapse */
	bool lowest;   /* only one, that stands for all; else all */
} statusread_rows[] = {
	{"step", READ_STEP, SINK_SPAN, true, true},
	{"loss", READ_LOSS, SINK_GAUGE, true, true},
	{"train/loss", READ_LOSS, SINK_GAUGE, true, true},
	{"train_loss", READ_LOSS, SINK_GAUGE, true, true},
	{"lapse/step/samples", READ_SAMPLES, SINK_COUNTER, true, false},
	{"lapse/step/tokens", READ_TOKENS, SINK_COUNTER, true, false},
	{"gpu/busy", READ_GPU_BUSY, SINK_GAUGE, false, false},
	{"gpu/memory/used", READ_GPU_USED, SINK_GAUGE, false, false},
	{"gpu/memory/total", READ_GPU_TOTAL, SINK_GAUGE, false, false},
	{"cpu/busy", READ_CPU, SINK_GAUGE, false, false},
	{"tree/rss", READ_RSS, SINK_GAUGE, false, false},
	{"memory/limit", READ_LIMIT, SINK_GAUGE, false, false},
	{"memory/total", READ_TOTAL, SINK_GAUGE, false, false},
	{"memory/used", READ_USED, SINK_GAUGE, false, false},
};

struct statusread_ref {
	const struct statusread_row *row;
	struct store_ref ref;
	struct store_standing standing;
	char labels[64];
};

struct statusread {
	char dir[4096];
	int64_t start_ns, total;
	bool total_given;
	struct store_reader *reader; /* NULL: not open */
	struct statusread_ref *refs;
	size_t n, cap;
	unsigned wait, pause; /* readings until the next search; between two */
	struct statusline_speed speed;
};

struct statusread *statusread_new(const char *dir, int64_t start_ns, int64_t total)
{
	struct statusread *r = xcalloc(1, sizeof(*r));

	snprintf(r->dir, sizeof(r->dir), "%s", dir);
	r->start_ns = start_ns;
	r->total = total;
	r->total_given = total > 0;
	r->pause = STATUSREAD_LOOK_FIRST;
	return r;
}

static void statusread_close(struct statusread *r)
{
	if (r->reader)
		store_reader_close(r->reader);
	r->reader = NULL;
	r->n = 0;
}

/* ---- the series -------------------------------------------------------------------- */

static const struct statusread_row *statusread_row_of(const struct store_series *s)
{
	bool lapse = strcmp(s->role, "host") == 0 || strcmp(s->role, "command") == 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(statusread_rows); i++) {
		const struct statusread_row *row = &statusread_rows[i];

		if (s->kind == row->kind && strcmp(s->name, row->name) == 0 &&
		    (row->recorded != lapse))
			return row;
	}
	return NULL;
}

/* Of several losses the first in the table is shown, then the one that stands for all. */
static bool statusread_is_better(const struct statusread_ref *a, const struct statusread_ref *b)
{
	if (a->row != b->row)
		return a->row < b->row;
	return store_standing_is_before(a->standing, b->standing);
}

static int statusread_series(void *arg, const struct store_series *s)
{
	const struct statusread_row *row = statusread_row_of(s);
	struct statusread *r = arg;
	struct statusread_ref one;
	size_t i;

	if (!row || r->n >= STATUSREAD_REFS_MAX || strstr(s->labels, "mig="))
		return 0;
	one = (struct statusread_ref){
		.row = row, .ref = {s->host, s->id}, .standing = store_standing(s)};
	snprintf(one.labels, sizeof(one.labels), "%s", s->labels);
	for (i = 0; i < r->n && row->lowest; i++) {
		if (r->refs[i].row->what != row->what)
			continue;
		if (statusread_is_better(&one, &r->refs[i]))
			r->refs[i] = one;
		return 0;
	}
	r->refs = xgrow(r->refs, r->n, &r->cap, sizeof(*r->refs));
	r->refs[r->n++] = one;
	return 0;
}

static int statusread_attr(void *arg, unsigned host, uint32_t process, const char *key,
			   const char *value)
{
	static const char *const keys[] = {"total_steps", "max_steps", "num_training_steps",
					   "simulate.steps"};
	struct statusread *r = arg;
	int64_t v;
	size_t i;

	(void)host;
	(void)process;
	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(key, keys[i]) == 0 && number_int(value, &v) == 0 && v > 0)
			r->total = v;
	return 0;
}

/* Anew, with the files of hosts that have come since. */
static void statusread_look(struct statusread *r)
{
	struct err e = {0};

	statusread_close(r);
	if (store_reader_open(r->dir, &e, &r->reader) != 0) {
		r->reader = NULL;
		return;
	}
	if (store_reader_series(r->reader, statusread_series, r, &e) != 0 ||
	    (!r->total_given && store_reader_attrs(r->reader, statusread_attr, r, &e) != 0))
		statusread_close(r);
}

/* ---- values ---------------------------------------------------------------------------- */

static int statusread_process(void *arg, const struct store_process *p)
{
	struct statusline *out = arg;

	out->lost += p->dropped + p->overwritten;
	return 0;
}

/* Memory of the fullest GPU. */
static void statusread_gpu_memory(const struct statusread *r, const double *last,
				  struct statusline *out)
{
	double share, most = -1;
	size_t i, k;

	for (i = 0; i < r->n; i++) {
		if (r->refs[i].row->what != READ_GPU_USED || isnan(last[i]))
			continue;
		for (k = 0; k < r->n; k++)
			if (r->refs[k].row->what == READ_GPU_TOTAL &&
			    r->refs[k].ref.host == r->refs[i].ref.host &&
			    strcmp(r->refs[k].labels, r->refs[i].labels) == 0)
				break;
		share = k < r->n && last[k] > 0 ? last[i] / last[k] : 0;
		if (share <= most)
			continue;
		most = share;
		out->gpu_used = last[i];
		out->gpu_total = k < r->n ? last[k] : NAN;
	}
}

struct statusread_sums {
	double last[STATUSREAD_REFS_MAX];
	double busy, used, machine;
	struct statusline_mark mark;
	int64_t first_step;
	bool stepped;
};

static void statusread_take(const struct statusread_ref *ref, const struct store_bucket *b,
			    struct statusread_sums *sums, struct statusline *out)
{
	switch (ref->row->what) {
	case READ_STEP:
		sums->stepped = true;
		sums->mark.steps = b->count;
		sums->mark.end_ns = b->time_max + (isnan(b->last) ? 0 : (int64_t)b->last);
		sums->first_step = b->step_min;
		out->step = b->step_max;
		break;
	case READ_LOSS:
		out->loss = b->last;
		break;
	case READ_SAMPLES:
		number_add(&sums->mark.samples, b->sum);
		break;
	case READ_TOKENS:
		number_add(&sums->mark.tokens, b->sum);
		break;
	case READ_GPU_BUSY:
		out->gpus++;
		number_add(&sums->busy, b->last);
		break;
	case READ_CPU:
		out->cpu_busy = b->last;
		break;
	case READ_RSS:
		number_add(&out->rss, b->last);
		break;
	case READ_LIMIT:
		out->limit = b->last;
		break;
	case READ_TOTAL:
		sums->machine = b->last;
		break;
	case READ_USED:
		sums->used = b->last;
		break;
	default:
		break;
	}
}

static int statusread_values(struct statusread *r, struct statusline *out)
{
	struct statusread_sums sums = {
		.busy = NAN, .used = NAN, .machine = NAN, .mark = {.samples = NAN, .tokens = NAN}};
	struct err e = {0};
	size_t i;
	int err;

	for (i = 0; i < r->n; i++) {
		struct store_bucket b;

		sums.last[i] = NAN;
		err = store_reader_total(r->reader, &r->refs[i].ref, false, &e, &b);
		if (err)
			return err;
		if (b.count == 0)
			continue;
		sums.last[i] = b.last;
		statusread_take(&r->refs[i], &b, &sums, out);
	}
	out->gpu_busy = out->gpus ? sums.busy / out->gpus : NAN;
	statusread_gpu_memory(r, sums.last, out);
	if (isnan(out->limit))
		out->limit = sums.machine;
	if (isnan(out->rss)) {
		out->rss = sums.used;
		out->limit = sums.machine;
	}
	if (sums.stepped && out->step != SINK_STEP_NONE)
		statusline_add(&r->speed, &sums.mark, sums.first_step, clock_ns(CLOCK_REALTIME),
			       out);
	return store_reader_processes(r->reader, statusread_process, out, &e);
}

void statusread_next(struct statusread *r, struct statusline *out)
{
	statusline_init(out);
	if (!r->reader || r->wait == 0) {
		statusread_look(r);
		r->wait = r->pause;
		r->pause = r->pause < STATUSREAD_LOOK_MAX ? r->pause * 2 : STATUSREAD_LOOK_MAX;
	}
	r->wait--;
	out->total = r->total;
	if (r->reader && statusread_values(r, out) != 0)
		statusread_close(r);
	out->elapsed_s = (double)(clock_ns(CLOCK_REALTIME) - r->start_ns) / 1e9;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * view.c - see view.h.
 */
#include "report/runview.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"

static int view_add_process(void *arg, const struct store_process *p)
{
	struct runview *v = arg;
	struct store_process *copy;

	v->processes = xrealloc(v->processes, v->n_processes + 1, sizeof(*v->processes));
	copy = &v->processes[v->n_processes++];
	*copy = *p;
	copy->host_name = term_clean(p->host_name);
	copy->role = term_clean(p->role);
	copy->program = term_clean(p->program);
	return 0;
}

static int view_add_series(void *arg, const struct store_series *s)
{
	struct runview *v = arg;
	struct store_series *copy;

	if ((v->n_series & (v->n_series - 1)) == 0)
		v->series =
			xrealloc(v->series, v->n_series ? v->n_series * 2 : 1, sizeof(*v->series));
	copy = &v->series[v->n_series++];
	*copy = *s;
	copy->host_name = xstrdup(s->host_name);
	copy->role = xstrdup(s->role);
	copy->name = xstrdup(s->name);
	copy->labels = xstrdup(s->labels);
	copy->unit = xstrdup(s->unit);
	copy->help = xstrdup(s->help);
	copy->source = xstrdup(s->source);
	return 0;
}

static int view_read(struct runview *v, struct err *e)
{
	int err = store_reader_run(v->reader, &v->run, e);

	if (!err)
		err = store_reader_processes(v->reader, view_add_process, v, e);
	if (!err)
		err = store_reader_series(v->reader, view_add_series, v, e);
	return err;
}

int runview_open_dir(struct runview *v, const char *dir, struct err *e)
{
	int err;

	*v = (struct runview){0};
	snprintf(v->dir, sizeof(v->dir), "%s", dir);
	err = store_reader_open(dir, e, &v->reader);
	if (!err)
		err = view_read(v, e);
	if (err)
		runview_close(v);
	return err;
}

static void view_warn(const char *command, const char *text)
{
	const char *end;
	char *line, *clean;

	for (; *text; text = *end ? end + 1 : end) {
		end = strchrnul(text, '\n');
		line = xstrndup(text, (size_t)(end - text));
		clean = term_clean(line);
		if (clean[0] != '\0')
			fprintf(stderr, "lapse %s: warning: %s\n", command, clean);
		free(clean);
		free(line);
	}
}

static void view_note_lost(const struct runview *v, const char *command)
{
	char text[FMT_MAX];
	uint64_t points = 0;
	size_t i, n = 0;

	for (i = 0; i < v->n_series; i++) {
		points += v->series[i].lost;
		n += v->series[i].lost > 0;
	}
	if (n)
		fprintf(stderr,
			"lapse %s: note: the oldest points of %zu series (%s) were dropped to save "
			"room; what needs single points is of the others\n",
			command, n, fmt_count(text, (double)points));
}

int runview_open(struct runview *v, const char *command, const char *root, const char *what)
{
	char base[4096], dir[4096];
	struct err e = {0};
	int err = store_root(root, base, sizeof(base));

	if (err)
		err_errno(&e, err, "folder of runs %s", root ? root : "");
	else
		err = store_find(base, what, dir, sizeof(dir), &e);
	if (!err)
		err = runview_open_dir(v, dir, &e);
	if (err)
		fprintf(stderr, "lapse %s: %s\n", command, e.text);
	else
		view_warn(command, store_reader_warning(v->reader));
	if (!err)
		view_note_lost(v, command);
	return err;
}

static void view_forget(struct runview *v)
{
	size_t i;

	for (i = 0; i < v->n_processes; i++) {
		free((char *)v->processes[i].host_name);
		free((char *)v->processes[i].role);
		free((char *)v->processes[i].program);
	}
	for (i = 0; i < v->n_series; i++) {
		free((char *)v->series[i].host_name);
		free((char *)v->series[i].role);
		free((char *)v->series[i].name);
		free((char *)v->series[i].labels);
		free((char *)v->series[i].unit);
		free((char *)v->series[i].help);
		free((char *)v->series[i].source);
	}
	free(v->processes);
	free(v->series);
	v->processes = NULL;
	v->series = NULL;
	v->n_processes = v->n_series = 0;
}

int runview_refresh(struct runview *v, struct err *e)
{
	view_forget(v);
	return view_read(v, e);
}

void runview_close(struct runview *v)
{
	view_forget(v);
	if (v->reader)
		store_reader_close(v->reader);
	*v = (struct runview){0};
}

const struct store_process *runview_process(const struct runview *v, unsigned host, uint32_t id)
{
	static const struct store_process unknown = {
		.host_name = "", .role = "", .program = "", .rank = -1, .local_rank = -1};
	size_t i;

	for (i = 0; i < v->n_processes; i++)
		if (v->processes[i].host == host && v->processes[i].id == id)
			return &v->processes[i];
	return &unknown;
}

char *runview_process_text(char *out, size_t cap, const struct runview *v, unsigned host,
			   uint32_t id)
{
	const struct store_process *p = runview_process(v, host, id);

	if (p->rank >= 0)
		snprintf(out, cap, "%s %lld", p->role, (long long)p->rank);
	else
		snprintf(out, cap, "%s", p->role);
	return out;
}

bool runview_is_several(const struct runview *v)
{
	size_t i, n = 0;

	for (i = 0; i < v->n_processes; i++)
		n += strcmp(v->processes[i].role, "host") != 0;
	return n > 1;
}

/* Points by their numbers: when they arrived, at which steps. */
static int view_stat_places(const struct runview *v, const struct store_ref *ref,
			    const struct store_bucket *b, struct runview_stat *st, struct err *e)
{
	/* One that is not there (no value is a number) is not stored. */
	const struct store_place places[] = {
		{*ref, b->first_at}, {*ref, b->last_at}, {*ref, b->min_at}, {*ref, b->max_at}};
	struct store_point p[ARRAY_LEN(places)];
	int err = store_reader_at(v->reader, places, ARRAY_LEN(places), e, p);

	if (err)
		return err;
	st->first_ns = p[0].time_ns == INT64_MIN ? b->time_min : p[0].time_ns;
	st->last_ns = p[1].time_ns == INT64_MIN ? b->time_max : p[1].time_ns;
	st->last = p[1].time_ns == INT64_MIN ? b->last : p[1].value;
	st->last_step = p[1].step;
	st->segments = p[1].segment;
	st->min_step = p[2].step;
	st->max_step = p[3].step;
	return 0;
}

int runview_stat(const struct runview *v, const struct store_series *s,
		 const struct store_range *range, struct runview_stat *ret, struct err *e)
{
	const struct store_ref ref = {s->host, s->id};
	struct store_query ask = {.points = 1, .no_raw = true};
	struct store_bucket b = {.min = NAN, .max = NAN};
	struct store_result got;
	struct runview_stat st = {.last = NAN,
				  .last_step = SINK_STEP_NONE,
				  .min_step = SINK_STEP_NONE,
				  .max_step = SINK_STEP_NONE};
	int err;

	if (range)
		ask.range = *range;
	err = store_reader_query(v->reader, &ask, &ref, 1, e, NULL, &got);
	if (err)
		return err;
	if (got.n)
		b = got.buckets[0];
	store_results_free(&got, 1);
	st.count = s->kind == SINK_HISTOGRAM ? b.nan + b.observed : b.count;
	st.nan = b.nan;
	st.sum = b.sum;
	st.min = b.min;
	st.max = b.max;
	if (b.count)
		err = view_stat_places(v, &ref, &b, &st, e);
	if (!err)
		*ret = st;
	return err;
}

int runview_process_order(const struct store_process *x, const struct store_process *y)
{
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

bool runview_match(const char *pattern, const char *name)
{
	return !pattern || fnmatch(pattern, name, 0) == 0;
}

const char *runview_signal(char out[FMT_MAX], int signal)
{
	const char *name = sigabbrev_np(signal);

	if (name)
		snprintf(out, FMT_MAX, "SIG%s", name);
	else
		snprintf(out, FMT_MAX, "signal %d", signal);
	return out;
}

const char *runview_outcome(char out[FMT_MAX], const struct store_run *run)
{
	char name[FMT_MAX];

	switch (run->outcome) {
	case RUN_RUNNING:
		return "running";
	case RUN_EXITED:
		if (run->code < 0)
			return "exited";
		snprintf(out, FMT_MAX, "exited %d", run->code);
		return out;
	case RUN_DETACHED:
		return "detached";
	case RUN_SIGNALED:
		snprintf(out, FMT_MAX, "killed %s", runview_signal(name, run->signal));
		return out;
	case RUN_OOM:
		return "out of memory";
	case RUN_HUNG:
		return "hung";
	default:
		return "lost";
	}
}

enum term_style runview_outcome_style(const struct store_run *run)
{
	if (run->outcome == RUN_RUNNING)
		return TERM_YELLOW;
	if (run->outcome == RUN_DETACHED || (run->outcome == RUN_EXITED && run->code < 0))
		return TERM_PLAIN;
	return run->outcome == RUN_EXITED && run->code == 0 ? TERM_GREEN : TERM_RED;
}

double runview_duration_s(const struct store_run *run)
{
	int64_t end = run->end_ns;

	if (end == 0 && run->outcome == RUN_RUNNING)
		end = now_read(CLOCK_REALTIME);
	if (run->start_ns == 0 || end < run->start_ns)
		return NAN;
	return (double)(end - run->start_ns) / 1e9;
}

bool runview_has_usage(const struct store_run *run)
{
	return run->outcome != RUN_RUNNING && run->outcome != RUN_LOST && !isnan(run->user_s) &&
	       !isnan(run->system_s);
}

const char *runview_value(char out[FMT_MAX], double v, const char *unit)
{
	if (isnan(v))
		snprintf(out, FMT_MAX, "NaN");
	else if (strcmp(unit, "By") == 0)
		fmt_bytes(out, v);
	else if (strcmp(unit, "s") == 0)
		fmt_seconds(out, v);
	else if (strcmp(unit, "ns") == 0)
		fmt_seconds(out, v / 1e9);
	else
		snprintf(out, FMT_MAX, "%.5g", v);
	return out;
}

const char *runview_unit(const struct store_series *s)
{
	return s->kind == SINK_SPAN ? "ns" : s->unit;
}

const char *runview_kind(enum sink_kind kind)
{
	static const char *const names[] = {[SINK_GAUGE] = "gauge",
					    [SINK_COUNTER] = "counter",
					    [SINK_HISTOGRAM] = "histogram",
					    [SINK_SPAN] = "span"};

	return kind >= SINK_GAUGE && kind <= SINK_SPAN ? names[kind] : "unknown";
}

const char *runview_step(char out[FMT_MAX], int64_t step)
{
	if (step == SINK_STEP_NONE)
		return "-";
	snprintf(out, FMT_MAX, "%lld", (long long)step);
	return out;
}

int runview_flush(void)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	if (errno != EPIPE)
		fprintf(stderr, "lapse: cannot write to standard output: %s\n",
			strerror(errno ? errno : EIO));
	return 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/statusline.h"

#include "base/fmt.h"
#include "base/mem.h"
#include "wire/sink.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STATUSLINE_FIELDS 10
#define STATUSLINE_QUIET_NS 5000000000LL /* no step for so long, and for */
#define STATUSLINE_QUIET_STEPS 3         /* so many usual ones, is remarkable */

void statusline_init(struct statusline *s)
{
	*s = (struct statusline){.elapsed_s = NAN,
				 .step = SINK_STEP_NONE,
				 .loss = NAN,
				 .steps_s = NAN,
				 .samples_s = NAN,
				 .tokens_s = NAN,
				 .eta_s = NAN,
				 .quiet_s = NAN,
				 .gpu_busy = NAN,
				 .gpu_used = NAN,
				 .gpu_total = NAN,
				 .cpu_busy = NAN,
				 .rss = NAN,
				 .limit = NAN};
}

/* ---- text --------------------------------------------------------------------------- */

struct statusline_field {
	char text[96];
	int rank; /* the highest goes first when there is no room */
};

struct statusline_fields {
	struct statusline_field all[STATUSLINE_FIELDS];
	size_t n;
};

static char *statusline_new(struct statusline_fields *f, int rank)
{
	f->all[f->n].rank = rank;
	return f->all[f->n++].text;
}

#define FIELD sizeof(((struct statusline_field *)0)->text)

static void statusline_elapsed(struct statusline_fields *f, const struct statusline *s)
{
	long t = isnan(s->elapsed_s) || s->elapsed_s < 0 ? 0 : (long)s->elapsed_s;

	snprintf(statusline_new(f, 8), FIELD, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
}

static void statusline_progress(struct statusline_fields *f, const struct statusline *s)
{
	char text[FMT_MAX];

	if (s->step == SINK_STEP_NONE)
		return;
	if (s->total > 0)
		snprintf(statusline_new(f, 0), FIELD, "step %lld/%lld", (long long)s->step,
			 (long long)s->total);
	else
		snprintf(statusline_new(f, 0), FIELD, "step %lld", (long long)s->step);
	if (!isnan(s->loss))
		snprintf(statusline_new(f, 1), FIELD, "loss %.4g", s->loss);
	if (!isnan(s->quiet_s))
		snprintf(statusline_new(f, 2), FIELD, "last step %s ago",
			 fmt_seconds(text, s->quiet_s));
	else if (!isnan(s->steps_s))
		snprintf(statusline_new(f, 2), FIELD, "%.3g steps/s", s->steps_s);
	if (!isnan(s->tokens_s) && isnan(s->quiet_s))
		snprintf(statusline_new(f, 7), FIELD, "%s tokens/s", fmt_count(text, s->tokens_s));
	else if (!isnan(s->samples_s) && isnan(s->quiet_s))
		snprintf(statusline_new(f, 7), FIELD, "%s samples/s",
			 fmt_count(text, s->samples_s));
	if (!isnan(s->eta_s))
		snprintf(statusline_new(f, 3), FIELD, "ETA %s", fmt_seconds(text, s->eta_s));
}

/* "61.2/80.0 GiB": both in the unit of the larger. */
static void statusline_bytes(char *to, size_t cap, double used, double of)
{
	char a[FMT_MAX], b[FMT_MAX];

	fmt_bytes(a, used);
	if (isnan(of)) {
		snprintf(to, cap, "%s", a);
		return;
	}
	fmt_bytes(b, of);
	if (strchr(a, ' ') && strchr(b, ' ') && strcmp(strchr(a, ' '), strchr(b, ' ')) == 0)
		*strchr(a, ' ') = '\0';
	snprintf(to, cap, "%s/%s", a, b);
}

static void statusline_machine(struct statusline_fields *f, const struct statusline *s)
{
	char many[16] = "", bytes[2 * FMT_MAX + 2] = "", *to;

	if (s->gpus > 1)
		snprintf(many, sizeof(many), "%u ", s->gpus);
	if (!isnan(s->gpu_used))
		statusline_bytes(bytes, sizeof(bytes), s->gpu_used, s->gpu_total);
	if (!isnan(s->gpu_busy)) {
		to = statusline_new(f, 4);
		snprintf(to, FIELD, "%sGPU %.0f %%%s%.60s", many, s->gpu_busy * 100,
			 bytes[0] ? " " : "", bytes);
	} else if (!isnan(s->cpu_busy)) {
		snprintf(statusline_new(f, 5), FIELD, "CPU %.0f %%", s->cpu_busy * 100);
	}
	if (!isnan(s->rss)) {
		statusline_bytes(bytes, sizeof(bytes), s->rss, s->limit);
		snprintf(statusline_new(f, 6), FIELD, "mem %.80s", bytes);
	}
	if (s->lost > 0)
		snprintf(statusline_new(f, -1), FIELD, "%llu records lost",
			 (unsigned long long)s->lost);
}

/* Two spaces between fields. */
static size_t statusline_width(const struct statusline_fields *f)
{
	size_t i, n = 0;

	for (i = 0; i < f->n; i++)
		n += strlen(f->all[i].text) + (i ? 2 : 0);
	return n;
}

static void statusline_drop(struct statusline_fields *f)
{
	size_t i, worst = 0;

	for (i = 1; i < f->n; i++)
		if (f->all[i].rank > f->all[worst].rank)
			worst = i;
	f->n--;
	memmove(&f->all[worst], &f->all[worst + 1], (f->n - worst) * sizeof(f->all[0]));
}

const char *statusline_text(char out[STATUSLINE_MAX], const struct statusline *s, size_t columns)
{
	struct statusline_fields f = {0};
	size_t i, at = 0;

	if (columns > STATUSLINE_MAX - 1)
		columns = STATUSLINE_MAX - 1;
	statusline_elapsed(&f, s);
	statusline_progress(&f, s);
	statusline_machine(&f, s);
	if (f.n == 1)
		snprintf(statusline_new(&f, 0), FIELD, "waiting for data");
	while (f.n > 1 && statusline_width(&f) > columns)
		statusline_drop(&f);
	out[0] = '\0';
	for (i = 0; i < f.n && at < columns; i++)
		at += (size_t)snprintf(out + at, columns + 1 - at, "%s%s", i ? "  " : "",
				       f.all[i].text);
	return out;
}

/* ---- speed --------------------------------------------------------------------------- */

static void statusline_keep(struct statusline_speed *v, const struct statusline_mark *m)
{
	struct statusline_mark *last = v->n ? &v->marks[v->n - 1] : NULL;

	if (last && (m->steps < last->steps || m->end_ns < last->end_ns)) {
		v->n = 0;
		last = NULL;
	}
	if (last && m->steps == last->steps) {
		*last = *m;
		return;
	}
	if (v->n == STATUSLINE_MARKS)
		memmove(v->marks, v->marks + 1, --v->n * sizeof(v->marks[0]));
	v->marks[v->n++] = *m;
}

/* The mark to compare with: the oldest of the window, at least the one before. */
static const struct statusline_mark *statusline_base(const struct statusline_speed *v,
						     const struct statusline_mark *m)
{
	size_t i;

	if (v->n < 2)
		return NULL;
	for (i = 0; i < v->n - 2; i++)
		if (m->end_ns - v->marks[i].end_ns <= STATUSLINE_WINDOW_NS)
			break;
	return &v->marks[i];
}

void statusline_add(struct statusline_speed *v, const struct statusline_mark *m, int64_t first_step,
		    int64_t now_ns, struct statusline *s)
{
	const struct statusline_mark *base;
	double begun_at = first_step > 1 ? (double)first_step : 0;
	double done = (double)s->step - (double)first_step + 1, t;
	int64_t usual;

	statusline_keep(v, m);
	base = statusline_base(v, m);
	t = base ? (double)(m->end_ns - base->end_ns) / 1e9 : 0;
	if (!(t > 0))
		return;
	s->steps_s = (double)(m->steps - base->steps) / t;
	s->samples_s = (m->samples - base->samples) / t;
	s->tokens_s = (m->tokens - base->tokens) / t;
	usual = (int64_t)(STATUSLINE_QUIET_STEPS * 1e9 / s->steps_s);
	if (usual < STATUSLINE_QUIET_NS)
		usual = STATUSLINE_QUIET_NS;
	if (now_ns - m->end_ns > usual)
		s->quiet_s = (double)(now_ns - m->end_ns) / 1e9;
	/* Steps are numbered from 0, from 1, or from where a checkpoint stopped. */
	if (s->total > 0 && isnan(s->quiet_s))
		s->eta_s = fmax(0, (double)s->total - begun_at - done) / s->steps_s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/runner.h"

#include "base/mem.h"
#include "wire/clock.h"
#include "wire/sink.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNNER_SECOND 1000000000
#define RUNNER_PERIOD_MIN_NS 50000000
#define RUNNER_TELL_NS 10000000000 /* between figures of the own cost */
#define RUNNER_STOP_S 2            /* how long the end waits for a reading */
#define RUNNER_PLACES 3

enum {
	RUNNER_TIME,
	RUNNER_CPU
};

/* clang-format off */
static const struct probe_metric runner_metrics[] = {
	[RUNNER_TIME] = {"lapse/agent/probe/time", "s",
		"time that a reading of a group of metrics took, mean since the last value",
		"CLOCK_MONOTONIC", SINK_GAUGE, PROBE_COST_LOW, "group"},
	[RUNNER_CPU] = {"lapse/agent/probe/cpu", "s",
		"CPU time that a reading of a group of metrics took, mean since the last value",
		"CLOCK_THREAD_CPUTIME_ID", SINK_GAUGE, PROBE_COST_LOW, "group"},
};
/* clang-format on */
const struct probe_group runner_own = {
	.name = "probes",
	.metrics = runner_metrics,
	.n_metrics = ARRAY_LEN(runner_metrics),
	.period_ns = RUNNER_TELL_NS,
};

struct runner_slot {
	const struct probe_group *group;
	void *state;
	bool open, off, idle;
	struct err why;
	int64_t period_ns, due_ns; /* due_ns: CLOCK_MONOTONIC */
	unsigned slow;             /* period doubled so often */
	/* Since the last telling, and of the last readings. */
	uint64_t readings, sum_n;
	int64_t sum_wall, sum_cpu;
	double wall_s, cpu_s;
	uint32_t points[2];
};

struct runner_place {
	struct runner *r;
	enum probe_place place;
	struct probe_set *set;
	pthread_t thread;
	bool has_thread, stopped, stuck_told;
	bool left;          /* runner_free() did not wait for it: it frees what it used */
	int64_t reading_ns; /* CLOCK_MONOTONIC when the reading that is going on began; 0 */
	const char *reading;
	pthread_cond_t wake;
};

struct runner {
	pthread_mutex_t lock; /* of slots' figures and periods, places' reading */
	struct probe_env env;
	struct runner_pace pace;
	struct runner_slot *slots;
	size_t n;
	struct runner_place places[RUNNER_PLACES];
	int64_t told_ns;
	bool stop;
	unsigned left; /* threads that still use r after runner_free() */
};

/* ---- pace ----------------------------------------------------------------------- */

static int64_t runner_period(const struct runner *r, const struct runner_slot *s)
{
	int64_t said = r->pace.of ? r->pace.of(r->pace.arg, s->group->name) : 0;
	double scale = (double)r->pace.period_ns / RUNNER_SECOND;
	int64_t period;
	unsigned i;

	if (said < 0)
		return -1;
	period = said ? said : (int64_t)((double)s->group->period_ns * scale);
	for (i = 0; i < s->slow && period < RUNNER_PERIOD_MAX_NS; i++)
		period *= 2;
	return period < RUNNER_PERIOD_MIN_NS ? RUNNER_PERIOD_MIN_NS : period;
}

static void runner_paced(struct runner *r, struct runner_slot *s)
{
	s->period_ns = runner_period(r, s);
	s->off = s->idle || s->period_ns < 0;
}

/* Readings fall on multiples of the period, so that groups meet and share a time. */
static int64_t runner_next(const struct runner_slot *s, int64_t mono_ns)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	/* A reading that took longer than its period is not made up for. */
	if (now > mono_ns)
		mono_ns = now;
	return (mono_ns / s->period_ns + 1) * s->period_ns;
}

/* The cost that counts is CPU, and for drivers the time that they hold their lock. */
static void runner_weigh(struct runner *r, struct runner_slot *s, struct probe_set *set,
			 int64_t wall, int64_t cpu)
{
	int64_t cost = s->group->place == PROBE_GPU ? wall : cpu;
	char text[200];

	if (s->readings < 3 || (double)cost <= RUNNER_SHARE_MAX * (double)s->period_ns ||
	    s->period_ns >= RUNNER_PERIOD_MAX_NS)
		return;
	if ((s->cpu_s > s->wall_s ? s->cpu_s : s->wall_s) * 1e9 <
	    RUNNER_SHARE_MAX * (double)s->period_ns)
		return;
	s->slow++;
	runner_paced(r, s);
	snprintf(text, sizeof(text),
		 "reading the metrics of %s took %.1f ms: they are read each %.3g s from now on",
		 s->group->name, (double)cost / 1e6, (double)s->period_ns / 1e9);
	probe_event(set, 2, "probe-slowed", text, "");
}

/* ---- reading ---------------------------------------------------------------------- */

static void runner_read(struct runner *r, struct runner_place *p, struct runner_slot *s,
			const struct probe_now *now)
{
	int64_t wall, cpu;

	pthread_mutex_lock(&r->lock);
	p->reading_ns = now->mono_ns;
	p->reading = s->group->name;
	pthread_mutex_unlock(&r->lock);
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	s->group->read(s->state, p->set, now);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	pthread_mutex_lock(&r->lock);
	p->reading_ns = 0;
	p->stuck_told = false;
	s->readings++;
	s->sum_n++;
	s->sum_wall += wall;
	s->sum_cpu += cpu;
	s->wall_s += ((double)wall / 1e9 - s->wall_s) / (s->readings < 8 ? (double)s->readings : 8);
	s->cpu_s += ((double)cpu / 1e9 - s->cpu_s) / (s->readings < 8 ? (double)s->readings : 8);
	runner_weigh(r, s, p->set, wall, cpu);
	s->due_ns = runner_next(s, now->mono_ns);
	pthread_mutex_unlock(&r->lock);
}

/* Is it to be read here and now? *next comes down to when it is due. */
static bool runner_is_due(struct runner *r, const struct runner_place *p,
			  const struct runner_slot *s, int64_t mono_ns, int64_t *next)
{
	bool due = false;

	pthread_mutex_lock(&r->lock);
	if (s->open && !s->off && s->group->place == p->place) {
		due = s->due_ns <= mono_ns;
		if (s->due_ns < *next)
			*next = s->due_ns;
	}
	pthread_mutex_unlock(&r->lock);
	return due;
}

/* Read what is due in a place; when to come again. */
static int64_t runner_round(struct runner *r, struct runner_place *p, const struct probe_now *now)
{
	int64_t next = now->mono_ns + RUNNER_PERIOD_MAX_NS;
	int64_t ignored = INT64_MAX;
	bool begun = false;
	size_t i;

	for (i = 0; i < r->n; i++) {
		if (!runner_is_due(r, p, &r->slots[i], now->mono_ns, &ignored))
			continue;
		if (!begun)
			probe_set_begin(p->set, now);
		begun = true;
		runner_read(r, p, &r->slots[i], now);
	}
	if (begun)
		probe_set_end(p->set);
	for (i = 0; i < r->n; i++)
		runner_is_due(r, p, &r->slots[i], now->mono_ns, &next);
	return next;
}

static void runner_place_free(struct runner_place *p)
{
	struct runner *r = p->r;
	size_t i;

	for (i = 0; i < r->n; i++)
		if (r->slots[i].open && r->slots[i].group->place == p->place)
			r->slots[i].group->close(r->slots[i].state);
	probe_set_free(p->set);
	p->set = NULL;
}

static void runner_open(struct runner *r, struct runner_place *p)
{
	size_t i;
	int err;

	for (i = 0; i < r->n; i++) {
		struct runner_slot *s = &r->slots[i];
		void *state = NULL;
		struct err why = {0};

		if (s->group->place != p->place || s->off)
			continue;
		err = s->group->open(&r->env, p->set, &state, &why);
		if (err)
			err_errno(&why, err, "cannot be read");
		pthread_mutex_lock(&r->lock);
		s->state = state;
		s->open = !err;
		s->why = why;
		pthread_mutex_unlock(&r->lock);
	}
}

static void runner_destroy(struct runner *r)
{
	int i;

	for (i = 0; i < RUNNER_PLACES; i++)
		if (r->places[i].r)
			pthread_cond_destroy(&r->places[i].wake);
	pthread_mutex_destroy(&r->lock);
	free(r->slots);
	free(r);
}

/* The last of those that are left destroys it. */
static void runner_drop(struct runner *r)
{
	bool last;

	pthread_mutex_lock(&r->lock);
	last = --r->left == 0;
	pthread_mutex_unlock(&r->lock);
	if (last)
		runner_destroy(r);
}

/* The end of a thread that runner_free() has given up: it was hanging in a reading. */
static void runner_come_back(struct runner *r, struct runner_place *p)
{
	runner_place_free(p);
	runner_drop(r);
}

static void *runner_thread(void *arg)
{
	struct runner_place *p = arg;
	struct runner *r = p->r;
	struct probe_now now;
	struct timespec t;
	int64_t next;
	bool left;

	runner_open(r, p);
	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		pthread_mutex_unlock(&r->lock);
		now = (struct probe_now){clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_BOOTTIME)};
		next = runner_round(r, p, &now);
		t = (struct timespec){next / RUNNER_SECOND, next % RUNNER_SECOND};
		pthread_mutex_lock(&r->lock);
		if (!r->stop)
			pthread_cond_timedwait(&p->wake, &r->lock, &t);
	}
	left = p->left;
	p->stopped = true;
	pthread_mutex_unlock(&r->lock);
	if (left)
		runner_come_back(r, p);
	return NULL;
}

/* ---- own cost ------------------------------------------------------------------------ */

static void runner_tell(struct runner_slot *s, struct probe_set *set)
{
	char labels[PROBE_LABELS_MAX] = "";
	int k;

	if (!s->sum_n)
		return;
	if (!s->points[0] && !s->points[1]) {
		probe_label(labels, sizeof(labels), "group", s->group->name);
		for (k = 0; k < 2; k++)
			s->points[k] = probe_point(set, &runner_metrics[k], labels);
	}
	probe_put(set, s->points[RUNNER_TIME], (double)s->sum_wall / 1e9 / (double)s->sum_n);
	probe_put(set, s->points[RUNNER_CPU], (double)s->sum_cpu / 1e9 / (double)s->sum_n);
	s->sum_n = 0;
	s->sum_wall = s->sum_cpu = 0;
}

static void runner_tell_all(struct runner *r, const struct probe_now *now)
{
	struct probe_set *set = r->places[PROBE_INLINE].set;
	size_t i;

	if (now->mono_ns - r->told_ns < RUNNER_TELL_NS)
		return;
	r->told_ns = now->mono_ns;
	probe_set_begin(set, now);
	pthread_mutex_lock(&r->lock);
	for (i = 0; i < r->n; i++)
		runner_tell(&r->slots[i], set);
	pthread_mutex_unlock(&r->lock);
	probe_set_end(set);
}

static void runner_watch(struct runner *r, struct runner_place *p, const struct probe_now *now)
{
	char text[200];

	pthread_mutex_lock(&r->lock);
	if (p->reading_ns && !p->stuck_told && now->mono_ns - p->reading_ns > RUNNER_STUCK_NS) {
		p->stuck_told = true;
		snprintf(text, sizeof(text),
			 "reading the metrics of %s has not come back for %d s: a driver or file "
			 "system hangs; figures of its thread are missing until it does",
			 p->reading, (int)((now->mono_ns - p->reading_ns) / RUNNER_SECOND));
		probe_event(r->places[PROBE_INLINE].set, 3, "probe-stuck", text, "");
	}
	pthread_mutex_unlock(&r->lock);
}

/* ---- interface ------------------------------------------------------------------------- */

static int runner_start(struct runner *r, struct runner_place *p, enum probe_place place)
{
	pthread_condattr_t attr;
	bool wanted = false;
	size_t i;
	int err;

	p->r = r;
	p->place = place;
	p->set = probe_set_new();
	if (!p->set)
		return -ENOMEM;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->wake, &attr);
	pthread_condattr_destroy(&attr);
	for (i = 0; i < r->n; i++)
		wanted |= r->slots[i].group->place == place && !r->slots[i].off;
	if (place == PROBE_INLINE)
		runner_open(r, p);
	else if (wanted) {
		err = pthread_create(&p->thread, NULL, runner_thread, p);
		if (err)
			return -err;
		p->has_thread = true;
	}
	return 0;
}

static void runner_add(struct runner *r, const struct probe_group *g)
{
	const char *idle = g->idle ? g->idle(&r->env) : NULL;
	struct runner_slot *s = &r->slots[r->n];

	/* Its rows stand with another one. */
	if (idle && !g->n_metrics)
		return;
	s->group = g;
	s->idle = idle;
	runner_paced(r, s);
	if (s->off)
		err_set(&s->why, -ENODEV, "%s", idle ? idle : "switched off");
	r->n++;
}

int runner_new(const struct probe_env *env, const struct runner_pace *pace, struct runner **ret)
{
	struct runner *r = calloc(1, sizeof(*r));
	size_t i, n = 0;
	int err = 0;

	for (i = 0; probe_groups[i]; i++)
		n++;
	if (r)
		r->slots = calloc(n + 1, sizeof(*r->slots));
	if (!r || !r->slots) {
		free(r);
		return -ENOMEM;
	}
	pthread_mutex_init(&r->lock, NULL);
	r->env = *env;
	r->pace = *pace;
	if (r->pace.period_ns <= 0)
		r->pace.period_ns = RUNNER_SECOND;
	for (i = 0; i < n; i++)
		if (probe_groups[i]->of_run == (env->pid != 0))
			runner_add(r, probe_groups[i]);
	for (i = 0; i < RUNNER_PLACES && !err; i++)
		err = runner_start(r, &r->places[i], (enum probe_place)i);
	if (err)
		runner_free(r);
	else
		*ret = r;
	return err;
}

/* Wait for a thread for a moment. */
static bool runner_join(struct runner_place *p)
{
	struct timespec t;

	if (!p->has_thread)
		return true;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += RUNNER_STOP_S;
	if (pthread_timedjoin_np(p->thread, NULL, &t) != 0)
		return false;
	p->has_thread = false;
	return true;
}

bool runner_stop(struct runner *r)
{
	bool all = true;
	int i;

	pthread_mutex_lock(&r->lock);
	r->stop = true;
	for (i = 0; i < RUNNER_PLACES; i++)
		if (r->places[i].set)
			pthread_cond_signal(&r->places[i].wake);
	pthread_mutex_unlock(&r->lock);
	for (i = 0; i < RUNNER_PLACES; i++)
		if (r->places[i].set)
			all &= runner_join(&r->places[i]);
	return all;
}

void runner_points(struct runner *r, void (*fn)(void *arg, const struct probe_view *v), void *arg)
{
	struct probe_view v;
	uint32_t k;
	int i;

	for (i = 0; i < RUNNER_PLACES; i++) {
		if (!r->places[i].set || r->places[i].has_thread)
			continue;
		for (k = 0; k < probe_points(r->places[i].set); k++) {
			probe_point_at(r->places[i].set, k, &v);
			fn(arg, &v);
		}
	}
}

/* Of a thread that was not joined: false, it has just ended; true, it frees its place. */
static bool runner_leave(struct runner *r, struct runner_place *p)
{
	bool over;

	pthread_mutex_lock(&r->lock);
	over = p->stopped;
	if (!over) {
		p->left = true;
		r->left++;
		pthread_detach(p->thread);
	}
	pthread_mutex_unlock(&r->lock);
	if (over)
		pthread_join(p->thread, NULL);
	return !over;
}

void runner_free(struct runner *r)
{
	int i;

	if (!r)
		return;
	runner_stop(r);
	pthread_mutex_lock(&r->lock);
	r->left = 1; /* ourselves */
	pthread_mutex_unlock(&r->lock);
	for (i = 0; i < RUNNER_PLACES; i++) {
		struct runner_place *p = &r->places[i];

		if (p->set && (!p->has_thread || !runner_leave(r, p)))
			runner_place_free(p);
	}
	runner_drop(r);
}

void runner_set_period(struct runner *r, int64_t period_ns)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	size_t i;

	pthread_mutex_lock(&r->lock);
	if (period_ns > 0 && period_ns != r->pace.period_ns) {
		r->pace.period_ns = period_ns;
		for (i = 0; i < r->n; i++) {
			runner_paced(r, &r->slots[i]);
			if (!r->slots[i].off)
				r->slots[i].due_ns = runner_next(&r->slots[i], now);
		}
		for (i = 0; i < RUNNER_PLACES; i++)
			pthread_cond_signal(&r->places[i].wake);
	}
	pthread_mutex_unlock(&r->lock);
}

int64_t runner_tick(struct runner *r, const struct probe_now *now)
{
	int64_t next = runner_round(r, &r->places[PROBE_INLINE], now);

	runner_watch(r, &r->places[PROBE_SLOW], now);
	runner_watch(r, &r->places[PROBE_GPU], now);
	if (r->env.pid == 0)
		runner_tell_all(r, now);
	return next;
}

struct runner_taking {
	const struct probe_taker *t;
	uint32_t base;
};

static void runner_value(void *arg, uint32_t point, const struct probe_metric *m,
			 const char *labels, int64_t boot_ns, double value)
{
	const struct runner_taking *k = arg;

	k->t->value(k->t->arg, k->base + point, m, labels, boot_ns, value);
}

static void runner_event(void *arg, int64_t boot_ns, int severity, const char *kind,
			 const char *text, const char *attrs)
{
	const struct runner_taking *k = arg;

	if (k->t->event)
		k->t->event(k->t->arg, boot_ns, severity, kind, text, attrs);
}

static void runner_fact(void *arg, const char *key, const char *value)
{
	const struct runner_taking *k = arg;

	if (k->t->fact)
		k->t->fact(k->t->arg, key, value);
}

void runner_take(struct runner *r, const struct probe_taker *t)
{
	struct runner_taking k = {t, 0};
	struct probe_taker one = {t->value ? runner_value : NULL, runner_event, runner_fact, &k};
	int i;

	for (i = 0; i < RUNNER_PLACES; i++) {
		k.base = (uint32_t)i * PROBE_POINTS_MAX;
		probe_set_take(r->places[i].set, &one);
	}
}

void runner_each(struct runner *r, void (*fn)(void *arg, const struct runner_group *g), void *arg)
{
	struct runner_group g;
	size_t i;

	for (i = 0; i < r->n; i++) {
		const struct runner_slot *s = &r->slots[i];

		pthread_mutex_lock(&r->lock);
		g = (struct runner_group){s->group,    s->open,   s->open ? NULL : s->why.text,
					  s->cpu_s,    s->wall_s, s->readings,
					  s->period_ns};
		pthread_mutex_unlock(&r->lock);
		fn(arg, &g);
	}
}

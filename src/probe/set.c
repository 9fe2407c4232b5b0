/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

#include "base/map.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SET_READY_MAX (4 * PROBE_POINTS_MAX) /* values waiting to be taken */
#define SET_FACTS_MAX 4096
#define SET_TEXT_MAX 1024 /* bytes of a text of an event or fact, NUL included */

struct set_point {
	const struct probe_metric *metric;
	char *labels;
	double value;
	const char *why;
	bool known, has_raw;
	uint64_t raw;
};

struct set_value {
	uint32_t point;
	int64_t boot_ns;
	double value;
};

struct set_note {
	int64_t boot_ns;
	int severity; /* -1: a fact, kind its key */
	char *kind, *text, *attrs;
};

struct set_values {
	struct set_value *v;
	size_t len, cap;
};

struct probe_set {
	pthread_mutex_t lock; /* of points, ready, notes; the writer also reads without */
	struct set_point **points;
	size_t len, cap;
	struct map index; /* metric and labels -> point */
	struct map facts; /* key -> hash of the value told */
	struct probe_now now;
	struct set_values batch; /* of this reading, the writer's */
	uint64_t batch_lost;
	struct set_values ready, taking;
	uint64_t lost; /* values that nobody took */
	struct set_note notes[PROBE_EVENTS_MAX];
	size_t n_notes;
	uint64_t lost_notes;
	bool full_told;
};

struct probe_set *probe_set_new(void)
{
	struct probe_set *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	map_init(&s->index);
	map_init(&s->facts);
	return s;
}

static void set_note_done(struct set_note *n)
{
	free(n->kind);
	free(n->text);
	free(n->attrs);
}

void probe_set_free(struct probe_set *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < s->len; i++) {
		free(s->points[i]->labels);
		free(s->points[i]);
	}
	for (i = 0; i < s->n_notes; i++)
		set_note_done(&s->notes[i]);
	free(s->points);
	free(s->batch.v);
	free(s->ready.v);
	free(s->taking.v);
	map_done(&s->index);
	map_done(&s->facts);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- points ------------------------------------------------------------------- */

static size_t set_key(char *key, const struct probe_metric *m, const char *labels)
{
	size_t n = strlen(labels);

	memcpy(key, &m, sizeof(m));
	memcpy(key + sizeof(m), labels, n);
	return sizeof(m) + n;
}

static struct set_point *set_make(struct probe_set *s, const struct probe_metric *m,
				  const char *labels)
{
	struct set_point **more, *p;
	size_t cap = s->cap ? s->cap * 2 : 64;

	if (s->len == s->cap) {
		pthread_mutex_lock(&s->lock);
		more = realloc(s->points, cap * sizeof(*more));
		if (more) {
			s->points = more;
			s->cap = cap;
		}
		pthread_mutex_unlock(&s->lock);
		if (!more)
			return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (p)
		p->labels = strdup(labels);
	if (!p || !p->labels) {
		free(p);
		return NULL;
	}
	p->metric = m;
	return p;
}

uint32_t probe_point(struct probe_set *s, const struct probe_metric *m, const char *labels)
{
	char key[sizeof(m) + PROBE_LABELS_MAX];
	struct set_point *p;
	uint64_t at;
	size_t n;

	if (strlen(labels) >= PROBE_LABELS_MAX)
		return PROBE_NONE;
	n = set_key(key, m, labels);
	if (map_get(&s->index, key, n, &at))
		return (uint32_t)at;
	p = s->len < PROBE_POINTS_MAX ? set_make(s, m, labels) : NULL;
	if (!p) {
		if (!s->full_told)
			probe_event(s, 2, "probe-full",
				    "there are more instances to read than are kept: the rest is "
				    "left out",
				    "");
		s->full_told = true;
		return PROBE_NONE;
	}
	pthread_mutex_lock(&s->lock);
	s->points[s->len++] = p;
	pthread_mutex_unlock(&s->lock);
	map_put(&s->index, key, n, s->len - 1);
	return (uint32_t)(s->len - 1);
}

int probe_label(char *labels, size_t cap, const char *key, const char *value)
{
	size_t at = strlen(labels), n = at;
	int k = snprintf(labels + n, cap - n, "%s%s=\"", n ? "," : "", key);

	if (k < 0 || (size_t)k >= cap - n)
		goto full;
	n += (size_t)k;
	for (; *value; value++) {
		bool escape = *value == '"' || *value == '\\' || *value == '\n';

		if (n + 4 > cap)
			goto full;
		if (escape)
			labels[n++] = '\\';
		labels[n++] = *value == '\n' ? 'n' : *value;
	}
	if (n + 2 > cap)
		goto full;
	labels[n++] = '"';
	labels[n] = '\0';
	return 0;
full:
	labels[at] = '\0';
	return -ENAMETOOLONG;
}

/* ---- putting ------------------------------------------------------------------ */

static bool values_add(struct set_values *a, const struct set_value *v, size_t n)
{
	size_t cap = a->cap ? a->cap : 64;
	struct set_value *more;

	while (cap < a->len + n)
		cap *= 2;
	if (cap > a->cap) {
		more = realloc(a->v, cap * sizeof(*more));
		if (!more)
			return false;
		a->v = more;
		a->cap = cap;
	}
	memcpy(a->v + a->len, v, n * sizeof(*v));
	a->len += n;
	return true;
}

void probe_put(struct probe_set *s, uint32_t point, double value)
{
	struct set_value v = {point, s->now.boot_ns, value};
	struct set_point *p;

	if (point >= s->len)
		return;
	p = s->points[point];
	p->value = value;
	p->known = true;
	p->why = NULL;
	if (!values_add(&s->batch, &v, 1))
		s->batch_lost++;
}

void probe_absent(struct probe_set *s, uint32_t point, const char *why)
{
	if (point >= s->len)
		return;
	s->points[point]->known = false;
	s->points[point]->why = why;
}

/* Forward distance of a counter of so many bits; false: it began anew. */
static bool set_step(uint64_t was, uint64_t raw, unsigned bits, uint64_t *ret)
{
	uint64_t range;

	*ret = raw - was;
	if (raw >= was)
		return true;
	if (bits == 0 || bits >= 64)
		return false;
	range = UINT64_C(1) << bits;
	*ret = (raw + range - was) & (range - 1);
	return was < range && *ret < range / 4;
}

void probe_count(struct probe_set *s, uint32_t point, uint64_t raw, unsigned bits, double scale)
{
	struct set_point *p;
	uint64_t step;

	if (point >= s->len)
		return;
	p = s->points[point];
	if (!p->has_raw)
		probe_absent(s, point, "needs a second reading");
	else if (!set_step(p->raw, raw, bits, &step))
		probe_absent(s, point, "the counter began anew");
	else
		probe_put(s, point, (double)step * scale);
	p->raw = raw;
	p->has_raw = true;
}

static char *set_copy(const char *text)
{
	size_t n = text ? strnlen(text, SET_TEXT_MAX - 1) : 0;
	char *copy = malloc(n + 1);

	if (copy) {
		memcpy(copy, text ? text : "", n);
		copy[n] = '\0';
	}
	return copy;
}

static void set_note(struct probe_set *s, int severity, const char *kind, const char *text,
		     const char *attrs)
{
	struct set_note n = {s->now.boot_ns, severity, set_copy(kind), set_copy(text),
			     set_copy(attrs)};

	if (!n.kind || !n.text || !n.attrs) {
		set_note_done(&n);
		return;
	}
	pthread_mutex_lock(&s->lock);
	if (s->n_notes == PROBE_EVENTS_MAX) {
		set_note_done(&s->notes[0]);
		memmove(s->notes, s->notes + 1, (PROBE_EVENTS_MAX - 1) * sizeof(n));
		s->n_notes--;
		s->lost_notes++;
	}
	s->notes[s->n_notes++] = n;
	pthread_mutex_unlock(&s->lock);
}

void probe_event(struct probe_set *s, int severity, const char *kind, const char *text,
		 const char *attrs)
{
	set_note(s, severity, kind, text, attrs);
}

void probe_fact(struct probe_set *s, const char *key, const char *value)
{
	uint64_t hash = map_hash(value, strlen(value)), was;

	if (map_get(&s->facts, key, strlen(key), &was) && was == hash)
		return;
	if (s->facts.len >= SET_FACTS_MAX)
		return;
	map_put(&s->facts, key, strlen(key), hash);
	set_note(s, -1, key, value, "");
}

void probe_set_begin(struct probe_set *s, const struct probe_now *now)
{
	pthread_mutex_lock(&s->lock);
	s->now = *now;
	pthread_mutex_unlock(&s->lock);
}

void probe_set_end(struct probe_set *s)
{
	size_t n = s->batch.len;

	pthread_mutex_lock(&s->lock);
	if (n && (s->ready.len + n > SET_READY_MAX || !values_add(&s->ready, s->batch.v, n)))
		s->lost += n;
	s->lost += s->batch_lost;
	pthread_mutex_unlock(&s->lock);
	s->batch.len = s->batch_lost = 0;
}

/* ---- taking ------------------------------------------------------------------- */

static void set_take_notes(const struct probe_taker *t, struct set_note *notes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (notes[i].severity < 0 && t->fact)
			t->fact(t->arg, notes[i].kind, notes[i].text);
		else if (notes[i].severity >= 0 && t->event)
			t->event(t->arg, notes[i].boot_ns, notes[i].severity, notes[i].kind,
				 notes[i].text, notes[i].attrs);
		set_note_done(&notes[i]);
	}
}

static void set_take_lost(const struct probe_taker *t, int64_t boot_ns, uint64_t values,
			  uint64_t notes)
{
	char text[160];

	if ((!values && !notes) || !t->event)
		return;
	snprintf(text, sizeof(text), "%llu figures and %llu events were read and not kept",
		 (unsigned long long)values, (unsigned long long)notes);
	t->event(t->arg, boot_ns, 2, "probe-lost", text, "");
}

void probe_set_take(struct probe_set *s, const struct probe_taker *t)
{
	struct set_note notes[PROBE_EVENTS_MAX];
	uint64_t lost, lost_notes;
	struct set_values swap;
	struct set_value *v;
	int64_t boot_ns;
	size_t i, n;

	pthread_mutex_lock(&s->lock);
	swap = s->taking;
	s->taking = s->ready;
	s->ready = swap;
	s->ready.len = 0;
	n = s->n_notes;
	memcpy(notes, s->notes, n * sizeof(notes[0]));
	s->n_notes = 0;
	lost = s->lost;
	lost_notes = s->lost_notes;
	s->lost = s->lost_notes = 0;
	boot_ns = s->now.boot_ns;
	pthread_mutex_unlock(&s->lock);
	for (i = 0; t->value && i < s->taking.len; i++) {
		struct set_point *p;

		v = &s->taking.v[i];
		pthread_mutex_lock(&s->lock);
		p = s->points[v->point];
		pthread_mutex_unlock(&s->lock);
		t->value(t->arg, v->point, p->metric, p->labels, v->boot_ns, v->value);
	}
	set_take_notes(t, notes, n);
	set_take_lost(t, boot_ns, lost, lost_notes);
}

/* ---- looking ------------------------------------------------------------------ */

size_t probe_points(const struct probe_set *s)
{
	return s->len;
}

void probe_point_at(const struct probe_set *s, uint32_t point, struct probe_view *out)
{
	const struct set_point *p = s->points[point];

	*out = (struct probe_view){p->metric, p->labels, p->known, p->value, p->why};
}

int probe_value(const struct probe_set *s, const char *name, const char *labels, double *ret)
{
	size_t i;

	for (i = 0; i < s->len; i++) {
		const struct set_point *p = s->points[i];

		if (strcmp(p->metric->name, name) != 0 || strcmp(p->labels, labels) != 0)
			continue;
		if (!p->known)
			return -ENODATA;
		*ret = p->value;
		return 0;
	}
	return -ENOENT;
}

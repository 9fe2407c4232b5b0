/* SPDX-License-Identifier: Apache-2.0
 *
 * sequences.c - for each chosen operator the work below it in order of time; equal
 * sequences are counted together.
 */
#include "analyse/sequences.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/nest.h"
#include "analyse/room.h"

struct found {
	uint32_t row, name;
	size_t first, n; /* in the pool */
	int64_t kernel_ns;
};

struct search {
	struct view *v;
	const struct sequences_options *o;
	bool is_hta;
	struct nest *t;
	int32_t *depth;   /* row -> depth; -1 */
	uint32_t *node;   /* row -> node; UINT32_MAX */
	uint8_t *matches; /* text id -> 1 contains the name, 2 does not */
	uint32_t *pool;   /* rows of work, later their names */
	size_t n_pool, cap_pool;
	struct found *found;
	size_t n_found, cap_found;
	struct sequences_result *s;
};

static bool matches(struct search *w, uint32_t name)
{
	uint8_t *m = &w->matches[name];

	if (!*m)
		*m = strstr(trace_text(w->v->trace, name, NULL), w->o->name) ? 1 : 2;
	return *m == 1;
}

/* ---- depths of the hta rules ----------------------------------------------------------- */

struct threads {
	bool *is_device, *is_main, *is_backward; /* by track */
};

static bool of_thread(void *arg, uint32_t row, const struct view_row *r)
{
	const struct threads *th = arg;

	(void)row;
	return r->stream == TRACE_NONE && !th->is_device[r->track];
}

/* A track whose rows are all work of streams is no thread; what a thread is shows in its
 * names. */
static void classify(const struct view *v, struct threads *th)
{
	uint32_t n = trace_tracks(v->trace);

	for (uint32_t i = 0; i < n; i++)
		th->is_device[i] = true;
	for (size_t i = 0; i < v->n; i++) {
		const struct view_row *r = &v->rows[i];
		const char *name = trace_text(v->trace, r->name, NULL);

		if (r->stream <= 0)
			th->is_device[r->track] = false;
		if (!strncmp(name, "ProfilerStep#", 13))
			th->is_main[r->track] = true;
		if (strstr(name, "autograd::"))
			th->is_backward[r->track] = true;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct trace_track *t = trace_track(v->trace, (uint16_t)i);

		if (!t->pid || !t->tid)
			th->is_device[i] = true;
		th->is_main[i] &= !th->is_device[i];
		th->is_backward[i] &= !th->is_device[i] && !th->is_main[i];
	}
}

static const struct nest_thread *only(const struct nest *t, const bool *is)
{
	const struct nest_thread *found = NULL;

	for (size_t i = 0; i < t->n_threads; i++) {
		if (!is[t->threads[i].track])
			continue;
		if (found)
			return NULL;
		found = &t->threads[i];
	}
	return found;
}

/* The calls at the top of the backward thread belong to the annotation of the main thread
 * in which they lie: the later annotation takes them. */
static void hang_below(struct search *w, const struct nest_thread *main,
		       const struct nest_thread *back, uint32_t annotation)
{
	const struct view_row *rows = w->v->rows;
	const struct view_row *a = &rows[w->t->row[annotation]];

	(void)main;
	for (uint32_t k = back->first; k < back->end; k = w->t->end[k]) {
		const struct view_row *r = &rows[w->t->row[k]];

		if (r->ts < a->ts || r->end > a->end || w->t->parent[k] >= 0)
			continue;
		for (uint32_t i = k; i < w->t->end[k]; i++)
			w->depth[w->t->row[i]] = w->t->depth[i] + w->t->depth[annotation] + 1;
	}
}

static void join_backward(struct search *w, const struct threads *th)
{
	static const char *const words[] = {"## backward ##", "ProfilerStep#"};
	const struct nest_thread *main = only(w->t, th->is_main);
	const struct nest_thread *back = only(w->t, th->is_backward);
	bool any = false;

	if (!main || !back)
		return;
	for (int i = 0; i < 2 && !any; i++) {
		for (uint32_t k = main->first; k < main->end; k++) {
			const char *name =
				trace_text(w->v->trace, w->v->rows[w->t->row[k]].name, NULL);

			if (strncmp(name, words[i], strlen(words[i])) != 0)
				continue;
			any = true;
			hang_below(w, main, back, k);
		}
	}
}

static int build(struct search *w)
{
	size_t n = (size_t)trace_tracks(w->v->trace) + 1;
	struct threads th = {calloc(n, sizeof(bool)), calloc(n, sizeof(bool)),
			     calloc(n, sizeof(bool))};
	struct nest_options o = {.order = NEST_HTA_GRAPH, .want = of_thread, .arg = &th};
	int r = th.is_device && th.is_main && th.is_backward ? 0 : -ENOMEM;

	if (r == 0 && w->is_hta)
		classify(w->v, &th);
	if (!w->is_hta)
		o = (struct nest_options){.order = NEST_EXACT};
	if (r == 0)
		r = nest_new(w->v, &o, &w->t);
	for (uint32_t k = 0; r == 0 && k < w->t->n; k++) {
		w->node[w->t->row[k]] = k;
		w->depth[w->t->row[k]] = w->t->depth[k];
	}
	if (r == 0 && w->is_hta)
		join_backward(w, &th);
	free(th.is_device);
	free(th.is_main);
	free(th.is_backward);
	return r;
}

/* ---- the work below a call ------------------------------------------------------------- */

static bool is_below(const struct search *w, const struct view_row *work, uint32_t call)
{
	return w->is_hta ? work->stream > 0 && work->pair == call : work->is_gpu;
}

static int add_work(struct search *w, uint32_t call)
{
	const struct view_row *c = &w->v->rows[call];
	struct view_link all;

	if (c->correlation == TRACE_NONE)
		return 0;
	all = view_linked(w->v, c->correlation);
	for (size_t i = 0; i < all.n; i++) {
		const struct view_row *r = &w->v->rows[all.rows[i]];

		if (!is_below(w, r, call) || (!w->is_hta && r->pair != call))
			continue;
		if (room_for(&w->pool, w->n_pool, &w->cap_pool, sizeof(*w->pool)) < 0)
			return -ENOMEM;
		w->pool[w->n_pool++] = all.rows[i];
	}
	return 0;
}

static int by_start(const void *pa, const void *pb, void *arg)
{
	const struct view *v = arg;
	const struct view_row *a = &v->rows[*(const uint32_t *)pa];
	const struct view_row *b = &v->rows[*(const uint32_t *)pb];

	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static int look_at(struct search *w, uint32_t k)
{
	struct found f = {.row = w->t->row[k], .first = w->n_pool};
	uint32_t least = w->o->least ? w->o->least : 3;
	int r = 0;

	f.name = w->v->rows[f.row].name;
	w->s->operators++;
	for (uint32_t i = k; i < w->t->end[k] && r == 0; i++)
		r = add_work(w, w->t->row[i]);
	if (r < 0)
		return r;
	f.n = w->n_pool - f.first;
	if (f.n < least) {
		w->s->short_ones++;
		w->n_pool = f.first;
		return 0;
	}
	qsort_r(&w->pool[f.first], f.n, sizeof(*w->pool), by_start, w->v);
	for (size_t i = f.first; i < w->n_pool; i++) {
		const struct view_row *work = &w->v->rows[w->pool[i]];

		f.kernel_ns += work->end - work->ts;
		w->pool[i] = work->name;
	}
	if (room_for(&w->found, w->n_found, &w->cap_found, sizeof(*w->found)) < 0)
		return -ENOMEM;
	w->found[w->n_found++] = f;
	return 0;
}

/* hta: all matching rows count for the least depth, those of devices too (one below its
 * launch; -1 without one). */
static int32_t least_depth(struct search *w)
{
	int32_t least = INT32_MAX;

	for (uint32_t i = 0; i < w->v->n; i++) {
		const struct view_row *r = &w->v->rows[i];
		int32_t depth = w->depth[i];

		if (!matches(w, r->name))
			continue;
		if (r->stream > 0 && r->pair != VIEW_NO_ROW && w->node[r->pair] != UINT32_MAX)
			depth = w->depth[r->pair] + 1;
		least = depth < least ? depth : least;
	}
	return least;
}

static int look(struct search *w)
{
	int32_t least = w->is_hta ? least_depth(w) : 0;
	uint32_t k = 0;
	int r = 0;

	while (k < w->t->n && r == 0) {
		uint32_t row = w->t->row[k];
		bool is_it =
			matches(w, w->v->rows[row].name) && (!w->is_hta || w->depth[row] == least);

		if (is_it)
			r = look_at(w, k);
		k = is_it ? w->t->end[k] : k + 1;
	}
	return r;
}

/* ---- counting ------------------------------------------------------------------------------ */

static int compare(const struct search *w, const struct found *a, const struct found *b)
{
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	return memcmp(&w->pool[a->first], &w->pool[b->first], a->n * sizeof(*w->pool));
}

static int by_pattern(const void *pa, const void *pb, void *arg)
{
	const struct found *a = pa, *b = pb;
	int r = compare(arg, a, b);

	return r ? r : a->row < b->row ? -1 : a->row > b->row;
}

struct named {
	struct sequence s;
	char *text;
};

static int by_count(const void *pa, const void *pb)
{
	const struct named *a = pa, *b = pb;

	if (a->s.count != b->s.count)
		return a->s.count > b->s.count ? -1 : 1;
	return strcmp(a->text, b->text);
}

static int sort_result(struct search *w)
{
	struct named *all = calloc(w->s->n + 1, sizeof(*all));
	int r = all ? 0 : -ENOMEM;

	for (size_t i = 0; i < w->s->n && r == 0; i++) {
		all[i].s = w->s->items[i];
		all[i].text = sequences_text(w->v, &all[i].s);
		if (!all[i].text)
			r = -ENOMEM;
	}
	if (r == 0)
		qsort(all, w->s->n, sizeof(*all), by_count);
	for (size_t i = 0; all && i < w->s->n; i++) {
		if (r == 0)
			w->s->items[i] = all[i].s;
		free(all[i].text);
	}
	free(all);
	return r;
}

static int count(struct search *w)
{
	struct sequences_result *s = w->s;
	struct sequence *last = NULL;

	s->items = calloc(w->n_found + 1, sizeof(*s->items));
	if (!s->items)
		return -ENOMEM;
	if (w->n_found)
		qsort_r(w->found, w->n_found, sizeof(*w->found), by_pattern, w);
	for (size_t i = 0; i < w->n_found; i++) {
		const struct found *f = &w->found[i];
		const struct view_row *row = &w->v->rows[f->row];

		if (!i || compare(w, f, f - 1)) {
			last = &s->items[s->n];
			last->kernels = malloc((f->n + 1) * sizeof(*last->kernels));
			if (!last->kernels)
				return -ENOMEM;
			s->n++;
			memcpy(last->kernels, &w->pool[f->first], f->n * sizeof(*last->kernels));
			last->n = f->n;
			last->name = f->name;
			last->example = f->row;
		}
		last->count++;
		last->kernel_ns += f->kernel_ns;
		last->operator_ns += row->end - row->ts;
	}
	return sort_result(w);
}

char *sequences_text(const struct view *v, const struct sequence *s)
{
	size_t len, at = 0;
	char *text;

	trace_text(v->trace, s->name, &len);
	for (size_t i = 0; i < s->n; i++) {
		size_t one;

		trace_text(v->trace, s->kernels[i], &one);
		len += one + 1;
	}
	text = malloc(len + 1);
	for (size_t i = 0; text && i <= s->n; i++) {
		const char *name = trace_text(v->trace, i ? s->kernels[i - 1] : s->name, &len);

		if (i)
			text[at++] = '|';
		memcpy(text + at, name, len);
		at += len;
		text[at] = '\0';
	}
	return text;
}

int sequences_new(struct view *v, const struct sequences_options *o, struct sequences_result **ret)
{
	struct search w = {.v = v, .o = o, .is_hta = v->rule != VIEW_EXACT};
	int r = -ENOMEM;

	if (!o->name || !o->name[0])
		return -EINVAL;
	w.s = calloc(1, sizeof(*w.s));
	w.depth = malloc((v->n + 1) * sizeof(*w.depth));
	w.node = malloc((v->n + 1) * sizeof(*w.node));
	w.matches = calloc((size_t)trace_texts(v->trace) + 1, 1);
	if (w.s && w.depth && w.node && w.matches) {
		memset(w.depth, 0xff, (v->n + 1) * sizeof(*w.depth));
		memset(w.node, 0xff, (v->n + 1) * sizeof(*w.node));
		r = build(&w);
	}
	if (r == 0)
		r = look(&w);
	if (r == 0)
		r = count(&w);
	nest_free(w.t);
	free(w.depth);
	free(w.node);
	free(w.matches);
	free(w.pool);
	free(w.found);
	if (r < 0) {
		sequences_free(w.s);
		return r;
	}
	*ret = w.s;
	return 0;
}

void sequences_free(struct sequences_result *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free(s->items[i].kernels);
	free(s->items);
	free(s);
}

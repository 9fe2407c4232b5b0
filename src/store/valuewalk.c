/* SPDX-License-Identifier: Apache-2.0
 *
 * valuewalk.c - the values of a series alone, in any order, by several threads. Their
 * chunks are found through the summary tree; of a chunk that is in the range whole only
 * its values are decoded, if its smallest and greatest are not enough.
 */
#include "base/mem.h"
#include "store/query_priv.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#define VALUEWALK_THREADS 4u /* each with a connection; the caller is one of them */
#define VALUEWALK_SHARE 64u  /* chunks that pay for a thread */
#define VALUEWALK_BATCH 8u   /* chunks that a thread takes: neighbours share pages */

/* A chunk, and what its node says. */
struct valuewalk_chunk {
	uint32_t ordinal, n, segment;
	bool is_whole;    /* in the range */
	uint64_t numbers; /* values that are not NaN, if it is whole */
	double min, max;
};

struct store_values {
	struct store_reader *r;
	struct store_query ask;
	struct queryone x; /* as of the opening: which steps attempts have */
	struct valuewalk_chunk *chunks;
	size_t n, cap;
	double *tail, *sample;
	size_t n_tail, n_sample, cap_sample;
	uint64_t count, max;
};

/* ---- what there is -------------------------------------------------------------------- */

static void valuewalk_add(struct store_values *v, const struct treewalk_node *node,
			  enum queryone_how how)
{
	const struct summary *s = &node->s;

	v->chunks = xgrow(v->chunks, v->n, &v->cap, sizeof(*v->chunks));
	v->chunks[v->n++] = (struct valuewalk_chunk){.ordinal = (uint32_t)node->index,
						     .n = (uint32_t)s->n,
						     .segment = s->segment_min,
						     .is_whole = how == QUERYONE_ALL,
						     .numbers = s->n - s->nan,
						     .min = s->min,
						     .max = s->max};
	v->count += s->n;
}

/* The first and last value of each quarter of a chunk. */
static int valuewalk_sample(struct store_values *v, const struct treewalk_node *node,
			    struct treewalk_list *quarters)
{
	size_t i;
	int r;

	quarters->n = 0;
	r = treewalk_children(&v->x.host->tree, TREEWALK_CHUNK, node, quarters);
	for (i = 0; r == 0 && i < quarters->n; i++) {
		v->sample = xgrow(v->sample, v->n_sample, &v->cap_sample, sizeof(*v->sample));
		v->sample[v->n_sample++] = quarters->v[i].s.first;
		v->sample = xgrow(v->sample, v->n_sample, &v->cap_sample, sizeof(*v->sample));
		v->sample[v->n_sample++] = quarters->v[i].s.last;
	}
	return r;
}

/* Nodes of a level that are in the range, to their children or, of chunks, to v. */
static int valuewalk_level(struct store_values *v, unsigned level, const struct treewalk_list *in,
			   struct treewalk_list *out)
{
	enum queryone_how how;
	size_t i;
	int r = 0;

	out->n = 0;
	for (i = 0; r == 0 && i < in->n && v->count <= v->max; i++) {
		const struct treewalk_node *node = &in->v[i];

		how = queryone_match(&v->x, &node->s);
		if (how == QUERYONE_NONE || node->start + node->s.n <= v->x.kept)
			continue;
		if (level > TREEWALK_CHUNK)
			r = treewalk_children(&v->x.host->tree, level, node, out);
		else
			valuewalk_add(v, node, how);
		if (level == TREEWALK_CHUNK && how == QUERYONE_ALL)
			r = valuewalk_sample(v, node, out);
	}
	return r;
}

static int valuewalk_descend(struct store_values *v)
{
	struct treewalk *t = &v->x.host->tree;
	struct treewalk_list now = {0}, next = {0}, swap;
	unsigned level = t->top;
	int r = 0;

	if (v->x.chunks == 0)
		return 0;
	r = treewalk_top(t, &now);
	for (; r == 0 && level >= TREEWALK_CHUNK; level--) {
		r = valuewalk_level(v, level, &now, &next);
		swap = now;
		now = next;
		next = swap;
	}
	free(now.v);
	free(next.v);
	return r;
}

static void valuewalk_tail(struct store_values *v)
{
	struct queryone *x = &v->x;
	struct points_view tail = points_slice(&x->tail, 0, x->tail.n);
	struct segment at = x->segment;
	struct piece_point p;
	size_t i;

	v->tail = xcalloc(tail.n, sizeof(*v->tail));
	for (i = 0; i < tail.n; i++) {
		p = querypoint_point(x, &tail, NULL, i, 0, 0);
		segment_next(&at, x->kind == SINK_SPAN ? segment_span_end(p.time, p.value) : p.time,
			     p.step);
		p.segment = at.no;
		if (querypoint_sees(x, &p))
			v->tail[v->n_tail++] = tail.value[i];
	}
	v->count += v->n_tail;
}

/* In a transaction. */
static int valuewalk_load(struct store_values *v, struct hosts_one *h)
{
	struct queryone *x = &v->x;
	size_t i;
	int r = hosts_sync_tail(v->r, h, x->e);

	for (i = 0; r == 0 && i < h->n_tail; i++)
		r = hosts_points(v->r, h, &h->tail[i], x->ref.series, false, x->e, &x->tail, NULL);
	if (r == 0)
		r = queryone_begin(x);
	if (r == 0 && x->is_hist)
		r = err_set(x->e, -EINVAL, "%s: series %u has histograms, no values", h->path,
			    x->ref.series);
	if (r == 0)
		r = valuewalk_descend(v);
	if (r == 0)
		valuewalk_tail(v);
	if (r == 0 && v->count > v->max)
		r = err_set(x->e, -EFBIG, "%s: series %u has more than %llu values", h->path,
			    x->ref.series, (unsigned long long)v->max);
	return r;
}

int store_values_open(struct store_reader *r, const struct store_ref *ref,
		      const struct store_range *range, uint64_t max, struct err *e,
		      struct store_values **ret)
{
	struct store_values *v;
	struct query_host host;
	int code;

	if (ref->host >= r->n_hosts)
		return err_set(e, -EINVAL, "host %u of %zu: no such file in the run", ref->host,
			       r->n_hosts);
	v = xcalloc(1, sizeof(*v));
	v->r = r;
	v->max = max;
	v->ask = (struct store_query){.range = range ? *range : (struct store_range){0},
				      .axis = STORE_BY_TIME};
	v->x = (struct queryone){
		.r = r, .ask = &v->ask, .points = 1, .e = e, .host = &host, .ref = *ref};
	code = query_open(&host, r, &r->hosts[ref->host], e);
	if (code == 0)
		code = query_begin(&host, e);
	if (code == 0)
		code = valuewalk_load(v, host.h);
	query_close(&host);
	v->x.host = NULL;
	points_done(&v->x.tail);
	if (code == 0)
		*ret = v;
	else
		store_values_close(v);
	return code;
}

void store_values_close(struct store_values *v)
{
	if (!v)
		return;
	queryone_done(&v->x);
	free(v->chunks);
	free(v->tail);
	free(v->sample);
	free(v);
}

uint64_t store_values_count(const struct store_values *v)
{
	return v->count;
}

double *store_values_sample(struct store_values *v, size_t *ret_n)
{
	*ret_n = v->n_sample;
	return v->sample;
}

/* ---- a pass ------------------------------------------------------------------------------ */

struct valuewalk_pass {
	const struct store_values *v;
	const struct store_values_to *to;
	const struct crew_file *file;
	const struct valuewalk_chunk **chunks; /* that must be read */
	size_t n;
	atomic_size_t next;
	atomic_bool stop, gone;
	pthread_mutex_t lock;
	int code; /* why it was stopped, first of all threads */
	struct err e;
};

/* A thread. */
struct valuewalk_hand {
	struct valuewalk_pass *pass;
	struct query_host host;
	struct queryone x;
	struct err e;
	double values[CHUNK_POINTS_MAX];
};

/* Of a chunk those that are in the range. */
static int valuewalk_some(struct valuewalk_hand *w, const struct valuewalk_chunk *c,
			  const struct chunk *row, size_t *ret_n)
{
	struct query_host *h = &w->host;
	struct piece_point p;
	size_t i, n = 0;
	int r = chunkdata_view(&h->data, row, &w->e, &h->points, &h->view);

	for (i = 0; r == 0 && i < h->view.n; i++) {
		p = querypoint_point(&w->x, &h->view, NULL, i, 0, c->segment);
		if (querypoint_sees(&w->x, &p))
			w->values[n++] = h->view.value[i];
	}
	*ret_n = n;
	return r;
}

static int valuewalk_chunk(struct valuewalk_hand *w, const struct valuewalk_chunk *c)
{
	const struct store_values_to *to = w->pass->to;
	struct chunk row;
	size_t n = c->n;
	int r = query_breathe(&w->host, &w->e);

	if (r == 0)
		r = queryone_chunk(&w->x, QUERY_CHUNK, c->ordinal, &row);
	if (r == 0) { /* so what others find is of no use */
		atomic_store(&w->pass->gone, true);
		atomic_store(&w->pass->stop, true);
	}
	if (r <= 0)
		return r;
	if (row.n != c->n)
		return err_set(&w->e, -EUCLEAN, "%s: series %u: chunk %u and its summary differ",
			       w->host.h->path, row.series, row.ordinal);
	r = c->is_whole ? chunkdata_values(&w->host.data, &row, &w->e, &w->host.points, w->values)
			: valuewalk_some(w, c, &row, &n);
	if (r == 0 && n)
		to->take(to->arg, w->values, n, c->min, c->max);
	return r;
}

/* Chunks, as long as there are some. */
static int valuewalk_work(struct valuewalk_hand *w)
{
	struct valuewalk_pass *p = w->pass;
	size_t i, end;
	int r = 0;

	while (r == 0 && !atomic_load(&p->stop)) {
		i = atomic_fetch_add(&p->next, VALUEWALK_BATCH);
		if (i >= p->n)
			break;
		end = i + VALUEWALK_BATCH < p->n ? i + VALUEWALK_BATCH : p->n;
		for (; r == 0 && i < end; i++)
			r = valuewalk_chunk(w, p->chunks[i]);
	}
	return r;
}

static void valuewalk_fail(struct valuewalk_pass *p, int code, const struct err *e)
{
	pthread_mutex_lock(&p->lock);
	if (p->code == 0) {
		p->code = code;
		p->e = *e;
	}
	atomic_store(&p->stop, true);
	pthread_mutex_unlock(&p->lock);
}

/* With r's decoders, from h. What a helper cannot begin is left to the others. */
static void valuewalk_hand(struct valuewalk_pass *p, struct store_reader *r, struct hosts_one *h,
			   bool helps)
{
	struct valuewalk_hand *w = xcalloc(1, sizeof(*w));
	int code;

	w->pass = p;
	code = query_open(&w->host, r, h, &w->e);
	w->x = (struct queryone){.r = r,
				 .ask = &p->v->ask,
				 .e = &w->e,
				 .host = &w->host,
				 .ref = p->v->x.ref,
				 .kind = p->v->x.kind,
				 .cover = p->v->x.cover};
	if (code < 0 && helps)
		code = 0;
	else if (code == 0)
		code = valuewalk_work(w);
	if (code < 0)
		valuewalk_fail(p, code, &w->e);
	query_close(&w->host);
	free(w);
}

static void *valuewalk_main(void *arg)
{
	struct valuewalk_pass *p = arg;
	struct store_reader r = {0};
	struct hosts_one h = {.path = p->file->path};
	struct err e = {0};

	blob_codec_init(&r.codec);
	column_codec_init(&r.columns);
	if (crew_connect(p->file, &e, &h.db) == 0) /* else the others do without */
		valuewalk_hand(p, &r, &h, true);
	axis_cache_done(&h.axes);
	sqlite3_close_v2(h.db);
	blob_codec_done(&r.codec);
	column_codec_done(&r.columns);
	return NULL;
}

static size_t valuewalk_helpers(const struct valuewalk_pass *p)
{
	size_t want = p->n / VALUEWALK_SHARE, cores = 1;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		cores = (size_t)CPU_COUNT(&set);
	want = want < cores ? want : cores;
	want = want < VALUEWALK_THREADS ? want : VALUEWALK_THREADS;
	return want && p->file->path ? want - 1 : 0;
}

static void valuewalk_run(struct valuewalk_pass *p)
{
	size_t i, n = 0, want = valuewalk_helpers(p);
	pthread_t threads[VALUEWALK_THREADS];
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (n < want && pthread_create(&threads[n], NULL, valuewalk_main, p) == 0)
		n++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	valuewalk_hand(p, p->v->r, &p->v->r->hosts[p->v->x.ref.host], false);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

int store_values_pass(struct store_values *v, const struct store_values_to *to, struct err *e)
{
	struct crew_file file;
	struct valuewalk_pass p = {.v = v, .to = to, .file = &file};
	size_t i;

	p.chunks = xcalloc(v->n, sizeof(*p.chunks));
	for (i = 0; i < v->n; i++) {
		const struct valuewalk_chunk *c = &v->chunks[i];

		if (!c->is_whole || (c->numbers && !to->skip(to->arg, c->min, c->max, c->numbers)))
			p.chunks[p.n++] = c;
	}
	crew_file_init(&file, &v->r->hosts[v->x.ref.host]);
	pthread_mutex_init(&p.lock, NULL);
	if (v->n_tail)
		to->take(to->arg, v->tail, v->n_tail, -INFINITY, INFINITY);
	if (p.n)
		valuewalk_run(&p);
	pthread_mutex_destroy(&p.lock);
	crew_file_done(&file);
	free(p.chunks);
	if (p.code < 0)
		return err_set(e, p.code, "%s", p.e.text);
	return atomic_load(&p.gone);
}

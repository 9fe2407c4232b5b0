/* SPDX-License-Identifier: Apache-2.0
 *
 * commit.c - the sink: collects what the agent pushes and turns it into one
 * tail row, rows of events and attributes, and definitions, in one transaction.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMIT_TRIM (64u << 10) /* arrays above this many items are given back */

static struct store *commit_store(struct sink *sink)
{
	return (struct store *)sink;
}

void commit_init(struct commit *c)
{
	*c = (struct commit){0};
	hists_init(&c->hists);
	points_init(&c->sorted);
	map_init(&c->by_lane);
	buf_init(&c->body, BLOB_BODY_MAX);
}

static void commit_free_texts(struct commit *c)
{
	size_t i;

	for (i = 0; i < c->n_texts; i++) {
		free(c->texts[i].kind);
		free(c->texts[i].text);
		free(c->texts[i].attrs);
		free(c->texts[i].key);
	}
	c->n_texts = c->text_bytes = 0;
}

void commit_done(struct commit *c)
{
	commit_free_texts(c);
	hists_done(&c->hists);
	points_done(&c->sorted);
	map_done(&c->by_lane);
	buf_done(&c->body);
	free(c->samples);
	free(c->texts);
	free(c->lanes);
	free(c->moved);
	free(c->series);
	free(c->lengths);
	free(c->order);
	free(c->positions);
	commit_init(c);
}

/* Forget all but definitions; give back what a burst needed. */
static void commit_forget(struct commit *c)
{
	size_t i;

	if (c->cap_samples > COMMIT_TRIM && c->n_samples < c->cap_samples / 8) {
		free(c->samples);
		c->samples = NULL;
		c->cap_samples = 0;
		points_done(&c->sorted);
		buf_done(&c->body);
	}
	c->n_samples = 0;
	c->sorted.n = 0;
	hists_reset(&c->hists);
	commit_free_texts(c);
	for (i = 0; i < c->n_moved; i++)
		c->lanes[c->moved[i]].has_next = false;
	c->n_moved = 0;
}

static int commit_process(struct sink *sink, const struct sink_process *p, uint32_t *ret_id)
{
	return catalog_process(commit_store(sink), p, ret_id);
}

static int commit_series(struct sink *sink, const struct sink_series *d, uint32_t *ret_id)
{
	return catalog_series(commit_store(sink), d, ret_id);
}

static int commit_full(struct store *s, const char *what, unsigned long max)
{
	return err_set(&s->err, -ENOBUFS,
		       "%s: more than %lu %s since the last commit: commit first", s->path, max,
		       what);
}

static int commit_check_samples(struct store *s, const struct sink_sample *v, size_t n)
{
	const struct catalog *d = &s->catalog;
	size_t i;

	for (i = 0; i < n; i++)
		if (v[i].series - 1 >= d->n_series ||
		    d->series[v[i].series - 1].kind == SINK_HISTOGRAM)
			return err_set(
				&s->err, -EINVAL,
				"%s: a sample for series %u, which is unknown or a histogram",
				s->path, v[i].series);
	return 0;
}

static int commit_samples(struct sink *sink, const struct sink_sample *v, size_t n)
{
	struct store *s = commit_store(sink);
	struct commit *c = &s->commit;
	size_t cap = c->cap_samples ? c->cap_samples : 1024;
	int r;

	err_clear(&s->err);
	if (n > TAIL_SAMPLES_MAX - c->n_samples)
		return commit_full(s, "samples", TAIL_SAMPLES_MAX);
	r = commit_check_samples(s, v, n);
	if (r < 0 || n == 0)
		return r;
	while (cap < c->n_samples + n)
		cap *= 2;
	if (cap > c->cap_samples)
		c->samples = xrealloc(c->samples, cap, sizeof(*c->samples));
	c->cap_samples = cap;
	memcpy(c->samples + c->n_samples, v, n * sizeof(*v));
	c->n_samples += n;
	return 0;
}

static int commit_hist(struct sink *sink, const struct sink_hist *h)
{
	struct store *s = commit_store(sink);
	struct commit *c = &s->commit;
	const struct hists_row row = {.series = h->series,
				      .n_bins = (uint32_t)h->n_bins,
				      .time = h->time_ns,
				      .step = h->step,
				      .count = h->count,
				      .nan = h->nan,
				      .sum = h->sum,
				      .min = h->min,
				      .max = h->max};
	size_t i;
	int r;

	err_clear(&s->err);
	if (h->series - 1 >= s->catalog.n_series ||
	    s->catalog.series[h->series - 1].kind != SINK_HISTOGRAM)
		return err_set(&s->err, -EINVAL, "%s: series %u is unknown or not a histogram",
			       s->path, h->series);
	for (i = 1; i < h->n_bins; i++)
		if (h->bins[i].key <= h->bins[i - 1].key)
			return err_set(&s->err, -EINVAL, "%s: series %u: bins are not ascending",
				       s->path, h->series);
	if (c->hists.n >= TAIL_HISTS_MAX)
		return commit_full(s, "histogram points", TAIL_HISTS_MAX);
	if (h->n_bins > TAIL_BINS_MAX - c->hists.n_bins)
		return commit_full(s, "histogram bins", TAIL_BINS_MAX);
	r = hists_add(&c->hists, &row, h->bins);
	return r < 0 ? err_set(&s->err, r, "%s: no memory for a histogram", s->path) : 0;
}

static char *commit_copy(struct commit *c, const char *text)
{
	if (!text)
		text = "";
	c->text_bytes += strlen(text);
	return xstrdup(text);
}

static int commit_text(struct store *s, const struct commit_text *t)
{
	struct commit *c = &s->commit;
	struct commit_text *to;

	if (t->process > s->catalog.n_processes)
		return err_set(&s->err, -EINVAL, "%s: process %u is unknown", s->path, t->process);
	if (c->n_texts >= COMMIT_TEXTS_MAX)
		return commit_full(s, "events and attributes", COMMIT_TEXTS_MAX);
	if (c->text_bytes >= COMMIT_TEXT_BYTES_MAX)
		return commit_full(s, "bytes of events", COMMIT_TEXT_BYTES_MAX);
	c->texts = xgrow(c->texts, c->n_texts, &c->cap_texts, sizeof(*c->texts));
	to = &c->texts[c->n_texts++];
	*to = *t;
	to->key = t->key ? commit_copy(c, t->key) : NULL;
	to->kind = commit_copy(c, t->kind);
	to->text = commit_copy(c, t->text);
	to->attrs = commit_copy(c, t->attrs);
	return 0;
}

static int commit_push_event(struct sink *sink, const struct sink_event *e)
{
	struct store *s = commit_store(sink);
	const struct commit_text t = {.process = e->process,
				      .time_ns = e->time_ns,
				      .step = e->step,
				      .severity = e->severity,
				      .kind = (char *)e->kind,
				      .text = (char *)e->text,
				      .attrs = (char *)e->attrs};

	err_clear(&s->err);
	return commit_text(s, &t);
}

static int commit_attr(struct sink *sink, uint32_t process, const char *key, const char *value)
{
	struct store *s = commit_store(sink);
	const struct commit_text t = {
		.process = process, .key = (char *)key, .text = (char *)value};

	err_clear(&s->err);
	return commit_text(s, &t);
}

int commit_event(struct store *s, uint32_t process, int severity, const char *kind,
		 const char *text)
{
	const struct commit_text t = {.process = process,
				      .time_ns = store_utc_ns(),
				      .step = SINK_STEP_NONE,
				      .severity = severity,
				      .kind = (char *)kind,
				      .text = (char *)text};

	return commit_text(s, &t);
}

struct commit_key {
	uint8_t ring[16];
	uint32_t lane;
};

static struct commit_key commit_lane_key(const uint8_t ring[16], uint32_t lane)
{
	struct commit_key k = {.lane = lane};

	memcpy(k.ring, ring, sizeof(k.ring));
	return k;
}

static int commit_find_lane(struct store *s, const struct sink_position *p, struct err *e,
			    uint64_t *ret)
{
	const struct commit_key k = commit_lane_key(p->ring, p->lane);
	struct commit *c = &s->commit;

	if (map_get(&c->by_lane, &k, sizeof(k), ret))
		return 0;
	if (c->n_lanes >= COMMIT_LANES_MAX)
		return err_set(e, -ENOSPC, "%s: more than %u lanes", s->path, COMMIT_LANES_MAX);
	*ret = c->n_lanes++;
	c->lanes = xgrow(c->lanes, *ret, &c->cap_lanes, sizeof(*c->lanes));
	c->lanes[*ret] = (struct commit_lane){0};
	map_put(&c->by_lane, &k, sizeof(k), *ret);
	return 0;
}

int commit_load_lane(struct store *s, const struct sink_position *p, bool folded, struct err *e)
{
	uint64_t i;
	int r = commit_find_lane(s, p, e, &i);

	if (r < 0)
		return r;
	s->commit.lanes[i].committed = *p;
	s->commit.lanes[i].has_committed = true;
	s->commit.lanes[i].unfolded = !folded;
	return 0;
}

static int commit_position(struct sink *sink, const struct sink_position *p)
{
	struct store *s = commit_store(sink);
	struct commit *c = &s->commit;
	uint64_t i;
	int r;

	err_clear(&s->err);
	if (c->n_moved >= TAIL_POSITIONS_MAX)
		return commit_full(s, "lane positions", TAIL_POSITIONS_MAX);
	r = commit_find_lane(s, p, &s->err, &i);
	if (r < 0)
		return r;
	if (!c->lanes[i].has_next) {
		c->moved = xgrow(c->moved, c->n_moved, &c->cap_moved, sizeof(*c->moved));
		c->moved[c->n_moved++] = (uint32_t)i;
	}
	c->lanes[i].has_next = true;
	c->lanes[i].next = *p;
	return 0;
}

static int commit_resume(struct sink *sink, const uint8_t ring[16], uint32_t lane,
			 struct sink_position *ret)
{
	const struct commit_key k = commit_lane_key(ring, lane);
	struct commit *c = &commit_store(sink)->commit;
	uint64_t i;

	if (!map_get(&c->by_lane, &k, sizeof(k), &i) || !c->lanes[i].has_committed)
		return -ENOENT;
	*ret = c->lanes[i].committed;
	return 0;
}

static void commit_rollback(struct sink *sink)
{
	commit_forget(&commit_store(sink)->commit);
}

/* ---- writing a commit ----------------------------------------------------- */

static void *commit_room(void *items, size_t *cap, size_t n, size_t size)
{
	if (n <= *cap)
		return items;
	*cap = n + n / 2;
	return xrealloc(items, *cap, size);
}

static int commit_order_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Which series have samples, ascending, and how many: a counting sort whose
 * counters lie in the table of series, zero between commits. */
static size_t commit_count(struct commit *c, struct catalog *d)
{
	size_t i, n = 0;

	for (i = 0; i < c->n_samples; i++) {
		uint32_t id = c->samples[i].series;

		if (d->series[id - 1].count++ == 0) {
			c->series = xgrow(c->series, n, &c->cap_series, sizeof(*c->series));
			c->series[n++] = id;
		}
	}
	if (n > d->n_series / 8) {
		for (i = 0, n = 0; i < d->n_series; i++)
			if (d->series[i].count)
				c->series[n++] = (uint32_t)i + 1;
	} else if (n) {
		qsort(c->series, n, sizeof(*c->series), commit_order_u32);
	}
	return n;
}

static int commit_sort(struct commit *c, struct catalog *d, size_t *ret_blocks)
{
	size_t i, n, at = 0;
	struct points *p = &c->sorted;

	if (points_reserve(p, c->n_samples) < 0)
		return -ENOMEM;
	n = commit_count(c, d);
	c->lengths = commit_room(c->lengths, &c->cap_lengths, n, sizeof(*c->lengths));
	for (i = 0; i < n; i++) {
		struct catalog_series *one = &d->series[c->series[i] - 1];

		c->lengths[i] = one->count;
		one->count = (uint32_t)at;
		at += c->lengths[i];
	}
	for (i = 0; i < c->n_samples; i++) {
		const struct sink_sample *v = &c->samples[i];

		at = d->series[v->series - 1].count++;
		p->time[at] = v->time_ns;
		p->step[at] = v->step;
		p->thread[at] = v->thread;
		p->value[at] = v->value;
	}
	p->n = c->n_samples;
	for (i = 0; i < n; i++)
		d->series[c->series[i] - 1].count = 0;
	*ret_blocks = n;
	return 0;
}

static int commit_order_hists(const void *a, const void *b, void *rows)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t sx = ((struct hists_row *)rows)[x].series;
	uint32_t sy = ((struct hists_row *)rows)[y].series;

	return sx != sy ? (sx > sy) - (sx < sy) : (x > y) - (x < y);
}

/* The body of the tail row into c->body. */
static int commit_encode(struct commit *c, size_t n_series)
{
	struct tail_in in = {.n_positions = c->n_moved,
			     .points = &c->sorted,
			     .n_blocks = n_series,
			     .hists = &c->hists};
	size_t i;

	c->order = commit_room(c->order, &c->cap_order, c->hists.n, sizeof(*c->order));
	for (i = 0; i < c->hists.n; i++)
		c->order[i] = (uint32_t)i;
	if (c->hists.n)
		qsort_r(c->order, c->hists.n, sizeof(*c->order), commit_order_hists, c->hists.rows);
	c->positions =
		commit_room(c->positions, &c->cap_positions, c->n_moved, sizeof(*c->positions));
	for (i = 0; i < c->n_moved; i++)
		c->positions[i] = c->lanes[c->moved[i]].next;
	in.positions = c->positions;
	in.series = c->series;
	in.lengths = c->lengths;
	in.hist_order = c->order;
	return tail_encode(&c->body, &in);
}

static int commit_write_texts(struct store *s, uint64_t seq)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < s->commit.n_texts; i++) {
		const struct commit_text *t = &s->commit.texts[i];
		sqlite3_stmt *st = s->sql[t->key ? SQL_ATTR : SQL_EVENT];

		sqlite3_bind_int64(st, 1, (int64_t)seq);
		sqlite3_bind_int64(st, 2, t->process);
		if (t->key) {
			sqlite3_bind_text(st, 3, t->key, -1, SQLITE_STATIC);
			sqlite3_bind_text(st, 4, t->text, -1, SQLITE_STATIC);
		} else {
			sqlite3_bind_int64(st, 3, t->time_ns);
			if (t->step != SINK_STEP_NONE)
				sqlite3_bind_int64(st, 4, t->step);
			sqlite3_bind_int(st, 5, t->severity);
			sqlite3_bind_text(st, 6, t->kind, -1, SQLITE_STATIC);
			sqlite3_bind_text(st, 7, t->text, -1, SQLITE_STATIC);
			sqlite3_bind_text(st, 8, t->attrs, -1, SQLITE_STATIC);
		}
		r = db_run(st, t->key ? "writing an attribute" : "writing an event", &s->err);
	}
	return r;
}

/* direct: what is folded at once; NULL: s->codec holds the row. */
static int commit_write(struct store *s, uint64_t seq, const struct gather_memory *direct)
{
	sqlite3_stmt *st = s->sql[SQL_TAIL];
	const struct buf *blob = &s->codec.out;
	int r = db_run(s->sql[SQL_BEGIN], "beginning a commit", &s->err);

	if (r == 0)
		r = catalog_write(s, seq);
	if (r == 0)
		r = commit_write_texts(s, seq);
	if (r < 0)
		return r;
	if (direct)
		return fold_commit(s, seq, direct, &s->err);
	sqlite3_bind_int64(st, 1, (int64_t)seq);
	sqlite3_bind_blob64(st, 2, blob->data, blob->len, SQLITE_STATIC);
	r = db_run(st, "writing a commit", &s->err);
	return r < 0 ? r : db_run(s->sql[SQL_COMMIT], "committing", &s->err);
}

static void commit_succeeded(struct store *s, uint64_t seq, bool direct)
{
	struct commit *c = &s->commit;
	size_t i;

	s->seq = seq;
	if (!direct) {
		if (s->tail_rows++ == 0)
			s->tail_since = store_mono_ns();
		s->tail_body += c->body.len;
		s->stats.tail_bytes += s->codec.out.len;
	}
	s->stats.commits++;
	s->stats.samples += c->n_samples;
	for (i = 0; i < c->hists.n; i++)
		s->stats.samples += c->hists.rows[i].count + c->hists.rows[i].nan;
	for (i = 0; i < c->n_moved; i++) {
		c->lanes[c->moved[i]].committed = c->lanes[c->moved[i]].next;
		c->lanes[c->moved[i]].has_committed = true;
		c->lanes[c->moved[i]].unfolded = !direct;
	}
	catalog_written(s);
}

static bool commit_is_empty(const struct store *s)
{
	const struct commit *c = &s->commit;

	return !c->n_samples && !c->hists.n && !c->n_texts && !c->n_moved && !s->catalog.dirty &&
	       !s->catalog.n_pending;
}

/* Sort, and seal the row of the tail unless the samples go into chunks directly. */
static int commit_prepare(struct store *s, size_t *ret_series, bool *ret_direct)
{
	const struct blob_id id = {s->path, "tail", s->seq + 1, 0};
	struct commit *c = &s->commit;
	int r = commit_sort(c, &s->catalog, ret_series);

	if (r < 0)
		return r;
	*ret_direct = c->hists.n == 0 && fold_takes_commit(s, c->n_samples, *ret_series);
	if (*ret_direct)
		return 0;
	r = commit_encode(c, *ret_series);
	if (r < 0)
		return r;
	return blob_seal(&s->codec, &id, BLOB_TAIL, (uint32_t)(c->n_samples + c->hists.n),
			 &c->body);
}

static int commit_commit(struct sink *sink)
{
	struct store *s = commit_store(sink);
	struct commit *c = &s->commit;
	struct gather_memory memory;
	size_t n_series = 0;
	bool direct = false;
	int r;

	err_clear(&s->err);
	if (commit_is_empty(s))
		return 0;
	if (s->corrupt) {
		commit_forget(c);
		return err_set(&s->err, -EUCLEAN, "%s is corrupt; close and open it again",
			       s->path);
	}
	r = commit_prepare(s, &n_series, &direct);
	memory = (struct gather_memory){&c->sorted, c->series, c->lengths, n_series};
	if (r < 0)
		err_errno(&s->err, r, "%s: encoding a commit of %zu samples", s->path,
			  c->n_samples);
	else
		r = store_abort(s, commit_write(s, s->seq + 1, direct ? &memory : NULL));
	if (r == 0)
		commit_succeeded(s, s->seq + 1, direct);
	commit_forget(c);
	return r;
}

const struct sink_ops commit_ops = {
	.process = commit_process,
	.series = commit_series,
	.samples = commit_samples,
	.hist = commit_hist,
	.event = commit_push_event,
	.attr = commit_attr,
	.position = commit_position,
	.resume = commit_resume,
	.commit = commit_commit,
	.rollback = commit_rollback,
};

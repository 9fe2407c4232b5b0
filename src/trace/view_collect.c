/* SPDX-License-Identifier: Apache-2.0
 *
 * view_collect.c - from the blocks of a trace to the rows of a rule: which rows, their
 * times, and which of them are the device's.
 */
#include "trace/view_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"

#define AHEAD 16                 /* rows whose places are fetched before they are written */
#define RESERVED_ROWS (1u << 24) /* 1 GiB of addresses */
#define TS_MOST (1ll << 61)
#define DUR_MOST (1ll << 53)

static bool is_device_cat(uint8_t cat)
{
	return cat == TRACE_CAT_KERNEL || cat == TRACE_CAT_GPU_MEMCPY ||
	       cat == TRACE_CAT_GPU_MEMSET || cat == TRACE_CAT_MTIA_CCP_EVENTS ||
	       cat == TRACE_CAT_HPU_OP;
}

/* exact: of host rows with a correlation only calls that may give the device work are of
 * use; hta counts others too where it joins. */
static bool may_launch(const char *name)
{
	static const char *const words[] = {"Launch", "Memcpy",   "Memset", "Enqueue",
					    "Append", "Prefetch", "Copy",   "runFunction"};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

static int know_names(struct view_work *w)
{
	uint32_t i, n = trace_texts(w->v->trace);
	const char *text;

	w->names = calloc((size_t)n + 1, sizeof(*w->names));
	if (!w->names)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		text = trace_text(w->v->trace, i, NULL);
		w->names[i].step = view_step_number(text);
		w->names[i].class = UINT8_MAX;
		w->names[i].may_launch = may_launch(text);
		w->names[i].is_sync = !strcmp(text, "Event Sync") || !strcmp(text, "Context Sync");
	}
	return 0;
}

/* XLA's streams: process "/device:GPU:0", thread "Stream #14(Compute)"; on TPUs "XLA Ops".
 * Their other threads (steps, modules, scopes) are sums of these. */
static void know_track(struct view_work *w, uint32_t id)
{
	const struct trace_track *t = trace_track(w->v->trace, (uint16_t)id);
	const char *process = trace_text(w->v->trace, t->process_name, NULL);
	const char *thread = trace_text(w->v->trace, t->name, NULL);
	struct view_track *ret = &w->tracks[id];
	const char *number = strchr(thread, '#');

	ret->stream = t->tid >= 0 && t->tid <= INT32_MAX ? (int32_t)t->tid : TRACE_NONE;
	if (strncmp(process, "/device:", 8) != 0)
		return;
	if (!strncmp(thread, "Stream #", 8) && number) {
		ret->is_device = true;
		ret->stream = (int32_t)strtol(number + 1, NULL, 10);
	}
	if (!strcmp(thread, "XLA Ops"))
		ret->is_device = true;
}

static int know_tracks(struct view_work *w)
{
	uint32_t i, n = trace_tracks(w->v->trace);

	w->tracks = calloc((size_t)n + 1, sizeof(*w->tracks));
	if (!w->tracks)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		know_track(w, i);
	return 0;
}

/* ts up and end down to whole us, in doubles as HTA has them. */
static struct view_span round_times(int64_t ts, int64_t dur)
{
	double from = view_us(ts), to = from + view_us(dur);

	return (struct view_span){(int64_t)ceil(from) * 1000, (int64_t)floor(to) * 1000};
}

/* Differences of such times, and of many durations the sum, fit 64 bits: 73 years around the
 * epoch, 104 days. */
static bool is_sane(int64_t ts, int64_t dur)
{
	return ts > -TS_MOST && ts < TS_MOST && dur > -DUR_MOST && dur < DUR_MOST;
}

static bool is_wanted(enum view_rule rule, uint8_t flags, uint8_t cat)
{
	if (!(flags & TRACE_HAS_DUR) || cat == TRACE_CAT_TRACE)
		return false;
	if (rule == VIEW_EXACT)
		return !(flags & TRACE_BROKEN);
	return flags & TRACE_HAS_CAT && !(flags & TRACE_PAIRED);
}

static uint8_t class_of(struct view_work *w, uint32_t name, uint8_t cat)
{
	struct view *v = w->v;
	struct view_name *known = &w->names[name];

	/* The category takes part for exact, but for kernels it does not change the class. */
	if (v->rule == VIEW_EXACT && cat != TRACE_CAT_KERNEL)
		return (uint8_t)view_class_of(trace_text(v->trace, name, NULL), cat, v->rule);
	if (known->class == UINT8_MAX)
		known->class =
			(uint8_t)view_class_of(trace_text(v->trace, name, NULL), cat, v->rule);
	return known->class;
}

static bool is_device(const struct view_work *w, const struct trace_block *b, uint32_t i)
{
	if (w->v->rule != VIEW_EXACT)
		return b->stream[i] != TRACE_NONE;
	return is_device_cat(b->cat[i]) || w->tracks[b->track[i]].is_device;
}

static void fill(struct view_work *w, const struct trace_block *b, uint32_t i, struct view_row *r)
{
	r->correlation = b->correlation[i];
	r->index = b->index[i];
	r->name = b->name[i];
	r->args = b->args[i];
	r->stream = b->stream[i];
	r->step = -1;
	r->partner = VIEW_NO_ROW;
	r->pair = VIEW_NO_ROW;
	r->track = b->track[i];
	r->cat = b->cat[i];
	r->is_gpu = is_device(w, b, i);
	if (w->v->rule == VIEW_EXACT && (!r->is_gpu || r->stream == TRACE_NONE))
		r->stream = r->is_gpu ? w->tracks[r->track].stream : TRACE_NONE;
	r->class = r->is_gpu ? class_of(w, r->name, r->cat) : VIEW_OTHER;
}

static bool is_left_out(const struct view_work *w, const struct trace_block *b, uint32_t i)
{
	const struct view_name *name = &w->names[b->name[i]];

	if (!w->o->devices_only || b->cat[i] == TRACE_CAT_USER_ANNOTATION ||
	    b->cat[i] == TRACE_CAT_GPU_USER_ANNOTATION || name->step >= 0 || is_device(w, b, i))
		return false;
	if (w->v->rule == VIEW_EXACT)
		return b->correlation[i] == TRACE_NONE || !name->may_launch;
	return b->correlation[i] == TRACE_NONE && b->index[i] && !name->is_sync;
}

/* Of a window of time other rows are not even collected; steps are, which rows in it are in. */
static bool is_outside(const struct view_work *w, const struct trace_block *b, uint32_t i)
{
	const struct view_options *o = w->o;

	return w->v->rule == VIEW_EXACT && (o->from || o->to) &&
	       (b->ts[i] < o->from || b->ts[i] >= o->to) && w->names[b->name[i]].step < 0;
}

/* A place among the rows of a name that says which step: few. */
static int mark(struct view_work *w, size_t place)
{
	size_t want = w->cap_marks ? 2 * w->cap_marks : 256;
	uint32_t *marks;

	if (w->n_marks == w->cap_marks) {
		marks = realloc(w->marks, want * sizeof(*marks));
		if (!marks)
			return -ENOMEM;
		w->marks = marks;
		w->cap_marks = want;
	}
	w->marks[w->n_marks++] = (uint32_t)place;
	return 0;
}

static bool is_kept(struct view_work *w, const struct trace_block *b, uint32_t i)
{
	return is_wanted(w->v->rule, b->flags[i], b->cat[i]) && is_sane(b->ts[i], b->dur[i]) &&
	       !is_left_out(w, b, i) && !is_outside(w, b, i);
}

/* The row counts for the view's span, also when it is left out. */
static void measure(struct view_work *w, const struct trace_block *b, uint32_t i,
		    struct view_span at)
{
	struct view *v = w->v;

	v->first = at.ts < v->first ? at.ts : v->first;
	v->last = at.end > v->last ? at.end : v->last;
	v->last_ts = at.ts > v->last_ts ? at.ts : v->last_ts;
	w->names[b->name[i]].used = true;
}

/* ---- hta: as in the file ------------------------------------------------------------- */

static bool more(void *items, size_t want, size_t size)
{
	void **at = items, *p = realloc(*at, want * size);

	if (p)
		*at = p;
	return p;
}

/* There are no more than the trace has, and what is not touched takes no memory. */
static int grow(struct view_work *w)
{
	struct view *v = w->v;
	uint64_t rows = trace_rows(v->trace);
	size_t want = w->cap ? w->cap + w->cap / 2 : rows < RESERVED_ROWS ? rows : RESERVED_ROWS;

	if (v->n < w->cap)
		return 0;
	if (v->n >= VIEW_ROWS_MAX)
		return -EOVERFLOW;
	if (!more(&v->rows, want, sizeof(*v->rows)) || !more(&w->ts, want, sizeof(*w->ts)) ||
	    !more(&w->numbers, want, sizeof(*w->numbers)) || !more(&w->on_device, want, 1))
		return -ENOMEM;
	w->cap = want;
	return 0;
}

static bool is_on_device(const struct view_work *w, const struct view_row *r)
{
	return (r->stream >= 0 && r->correlation >= 0) || w->names[r->name].is_sync;
}

static int take(struct view_work *w, const struct trace_block *b, uint32_t i, uint32_t row)
{
	struct view *v = w->v;
	struct view_span at = {b->ts[i], b->ts[i] + b->dur[i]};
	struct view_row *r;
	int rc = 0;

	if (v->rounded)
		at = round_times(b->ts[i], b->dur[i]);
	measure(w, b, i, at);
	if (is_left_out(w, b, i))
		return 0;
	if (w->names[b->name[i]].step >= 0)
		rc = mark(w, v->n);
	if (!rc)
		rc = grow(w);
	if (rc)
		return rc;
	r = &v->rows[v->n];
	r->ts = at.ts;
	r->end = at.end;
	r->row = row;
	fill(w, b, i, r);
	w->ts[v->n] = r->ts;
	w->numbers[v->n] = r->correlation;
	w->on_device[v->n++] = is_on_device(w, r);
	return 0;
}

static int take_block(struct view_work *w, const struct trace_block *b, uint32_t n, uint32_t row)
{
	int rc = 0;

	for (uint32_t i = 0; i < n && !rc; i++, row++) {
		if (!is_wanted(w->v->rule, b->flags[i], b->cat[i]) || !is_sane(b->ts[i], b->dur[i]))
			w->v->left_out += !!(b->flags[i] & TRACE_HAS_DUR);
		else
			rc = take(w, b, i, row);
	}
	return rc;
}

/* ---- exact: twice over the blocks, so that a row is written once, to its place ------- */

struct order {
	int64_t *ts; /* of the rows that are kept, in file order */
	size_t n, cap;
	bool in_rows; /* ts lies where the rows will: then memory is touched once */
	uint32_t *to; /* their places; NULL: as they come */
	uint32_t last;
	bool has_ties; /* places in traceEvents do not rise: equal times are looked at */
};

static int room_for_times(struct order *o, size_t more)
{
	size_t want = o->n + more > o->cap + o->cap / 2 ? o->n + more : o->cap + o->cap / 2;
	int64_t *ts;

	if (o->n + more <= o->cap)
		return 0;
	if (o->n + more > VIEW_ROWS_MAX)
		return -EOVERFLOW;
	ts = bigmem_alloc(want * sizeof(*ts));
	if (!ts)
		return -ENOMEM;
	if (o->n)
		memcpy(ts, o->ts, o->n * sizeof(*ts));
	free(o->ts);
	o->ts = ts;
	o->cap = want;
	return 0;
}

/* When nearly all rows are wanted it is known how many there are at most. */
static int room_for_rows(struct view_work *w, struct order *o)
{
	uint64_t rows = trace_rows(w->v->trace);

	if (view_has_window(w->o) || w->o->devices_only || rows >= VIEW_ROWS_MAX)
		return 0;
	w->v->rows = bigmem_alloc((rows + 1) * sizeof(*w->v->rows));
	if (!w->v->rows)
		return -ENOMEM;
	o->ts = (int64_t *)(void *)w->v->rows;
	o->cap = rows + 1;
	o->in_rows = true;
	return 0;
}

/* The rows to be, now that their number is known. */
static int make_rows(struct view *v, struct order *o)
{
	struct view_row *rows;

	if (o->in_rows && o->n > o->cap / 8 * 7)
		return 0;
	rows = o->in_rows ? realloc(v->rows, (o->n + 1) * sizeof(*rows))
			  : bigmem_alloc((o->n + 1) * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	v->rows = rows;
	return 0;
}

static int look(struct view_work *w, struct order *o, const struct trace_block *b, uint32_t n)
{
	int rc = room_for_times(o, n);

	for (uint32_t i = 0; i < n && !rc; i++) {
		if (!is_wanted(VIEW_EXACT, b->flags[i], b->cat[i]) ||
		    !is_sane(b->ts[i], b->dur[i])) {
			w->v->left_out += !!(b->flags[i] & TRACE_HAS_DUR);
			continue;
		}
		measure(w, b, i, (struct view_span){b->ts[i], b->ts[i] + b->dur[i]});
		if (is_left_out(w, b, i) || is_outside(w, b, i))
			continue;
		o->has_ties |= b->index[i] < o->last;
		o->last = b->index[i];
		if (w->names[b->name[i]].step >= 0)
			rc = mark(w, o->n);
		o->ts[o->n++] = b->ts[i];
	}
	return rc;
}

static void put(struct view_work *w, struct order *o, const struct trace_block *b, uint32_t n,
		uint32_t row)
{
	struct view *v = w->v;
	struct view_row *r;

	for (uint32_t i = 0; i < n; i++, row++) {
		if (!is_kept(w, b, i))
			continue;
		if (o->to && v->n + AHEAD < o->n)
			__builtin_prefetch(&v->rows[o->to[v->n + AHEAD]], 1);
		r = &v->rows[o->to ? o->to[v->n] : v->n];
		v->n++;
		r->ts = b->ts[i];
		r->end = b->ts[i] + b->dur[i];
		r->row = row;
		fill(w, b, i, r);
	}
}

static int by_index(const void *a, const void *b)
{
	const struct view_row *x = a, *y = b;

	return (x->index > y->index) - (x->index < y->index);
}

/* Rows of one time by their place in traceEvents, where the file's rows are not (pairs). */
static int order_ties(struct view_work *w)
{
	struct view *v = w->v;
	size_t i, j;
	bool ordered;
	int rc = 0;

	for (i = 0; i < v->n; i = j) {
		ordered = true;
		for (j = i + 1; j < v->n && v->rows[j].ts == v->rows[i].ts; j++)
			ordered = ordered && v->rows[j].index >= v->rows[j - 1].index;
		if (!ordered)
			qsort(v->rows + i, j - i, sizeof(*v->rows), by_index);
	}
	w->n_marks = 0; /* some have moved */
	for (i = 0; i < v->n && !rc; i++)
		if (w->names[v->rows[i].name].step >= 0)
			rc = mark(w, i);
	return rc;
}

static int put_all(struct view_work *w, struct order *o)
{
	struct view *v = w->v;
	uint64_t rows = trace_rows(v->trace);
	const struct trace_block *b;
	uint32_t k;
	int rc = make_rows(v, o);

	if (rc)
		return rc;
	for (k = 0; (uint64_t)k * TRACE_BLOCK_ROWS < rows; k++) {
		b = trace_block(v->trace, k);
		if (!b)
			return -EIO;
		put(w, o, b, trace_block_rows(v->trace, k), k * TRACE_BLOCK_ROWS);
	}
	for (size_t i = 0; i < w->n_marks && o->to; i++)
		w->marks[i] = o->to[w->marks[i]];
	return o->has_ties ? order_ties(w) : 0;
}

/* All blocks; o NULL: in file order. */
static int walk(struct view_work *w, struct order *o)
{
	struct trace *t = w->v->trace;
	uint64_t rows = trace_rows(t);
	const struct trace_block *b;
	uint32_t k, n;
	int rc = 0;

	for (k = 0; !rc && (uint64_t)k * TRACE_BLOCK_ROWS < rows; k++) {
		b = trace_block(t, k);
		n = trace_block_rows(t, k);
		if (!b)
			rc = -EIO;
		else
			rc = o ? look(w, o, b, n) : take_block(w, b, n, k * TRACE_BLOCK_ROWS);
	}
	return rc;
}

static int collect_exact(struct view_work *w)
{
	struct order o = {0};
	int rc = room_for_rows(w, &o);

	if (!rc)
		rc = walk(w, &o);
	if (!rc)
		rc = view_order_with(o.ts, o.in_rows ? o.ts + o.n : NULL, o.n, true, &o.to);
	if (!o.in_rows)
		free(o.ts);
	if (!rc)
		rc = put_all(w, &o);
	free(o.to);
	return rc;
}

int view_collect(struct view_work *w)
{
	struct view *v = w->v;
	int rc = know_names(w);

	if (!rc)
		rc = know_tracks(w);
	if (rc)
		return rc;
	/* HTA rounds if pandas made the column of ts one of doubles: one fraction is enough. */
	v->rounded = v->rule == VIEW_HTA && trace_has_fractions(v->trace);
	v->first = INT64_MAX;
	v->last = v->last_ts = INT64_MIN;
	rc = v->rule == VIEW_EXACT ? collect_exact(w) : walk(w, NULL);
	if (v->last_ts == INT64_MIN)
		v->first = v->last = v->last_ts = 0;
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_timeline.c - `lapse trace timeline`: a trace as rows of bars in the compact form that the
 * dashboard draws (docs/http.md, "timeline").
 */
#include "cli/trace_subs.h"

#include "analyse/timerows.h"
#include "base/bigmem.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "cli/outfile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMELINE_MAX (1u << 30)
#define TIMELINE_EVENTS 200000
#define TIMELINE_HELD (12u << 20) /* events at once; of more the longest */
#define TIMELINE_LANES 65535u
#define TIMELINE_HEAD 24u
#define TIMELINE_CLASSES 512u /* of lengths: eight to a doubling */

static const char *timeline_file;
static int64_t timeline_begin = -1, timeline_end = -1, timeline_events = TIMELINE_EVENTS;

const struct opt *trace_timeline_options(void)
{
	static const struct opt rows[] = {
		{.name = "output",
		 .letter = 'o',
		 .type = OPT_STR,
		 .value = "FILE",
		 .to = &timeline_file,
		 .help = "write into FILE instead of standard output"},
		{.name = "begin",
		 .type = OPT_DURATION,
		 .value = "TIME",
		 .to = &timeline_begin,
		 .help = "only from TIME after the trace's begin on"},
		{.name = "end",
		 .type = OPT_DURATION,
		 .value = "TIME",
		 .to = &timeline_end,
		 .help = "only up to TIME after the trace's begin"},
		TRACECMD_STEPS,
		{.name = "events",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &timeline_events,
		 .lo = 1000,
		 .hi = 10000000,
		 .help = "at most N bars: short neighbours become one (default: 200000)"},
		{.name = "memory",
		 .type = OPT_BYTES,
		 .value = "SIZE",
		 .to = &tracecmd_opt.memory,
		 .lo = 1 << 20,
		 .hi = INT64_MAX,
		 .help = "memory for the events of the file (default: 1G)"},
		{.name = "quiet",
		 .letter = 'q',
		 .type = OPT_FLAG,
		 .to = &tracecmd_opt.quiet,
		 .help = "no progress, and nothing on stderr about what is wrong inside the file"},
		{0},
	};

	return rows;
}

/* ---- what an event is ---------------------------------------------------------------------------
 */

enum timeline_category {
	TIMELINE_OTHER,
	TIMELINE_OPERATOR,
	TIMELINE_ANNOTATION,
	TIMELINE_KERNEL,
	TIMELINE_COMMUNICATION,
	TIMELINE_COPY,
	TIMELINE_SET,
	TIMELINE_RUNTIME,
	TIMELINE_PYTHON,
	TIMELINE_WAIT,
	TIMELINE_OVERHEAD,
	TIMELINE_CATEGORIES
};

static const char *const timeline_names[TIMELINE_CATEGORIES] = {
	"other", "operator", "annotation", "kernel", "communication", "copy",
	"set",   "runtime",  "python",     "wait",   "overhead",
};

static const uint8_t timeline_cats[TRACE_CATS] = {
	[TRACE_CAT_CPU_OP] = TIMELINE_OPERATOR,
	[TRACE_CAT_HPU_OP] = TIMELINE_OPERATOR,
	[TRACE_CAT_USER_ANNOTATION] = TIMELINE_ANNOTATION,
	[TRACE_CAT_GPU_USER_ANNOTATION] = TIMELINE_ANNOTATION,
	[TRACE_CAT_KERNEL] = TIMELINE_KERNEL,
	[TRACE_CAT_MTIA_CCP_EVENTS] = TIMELINE_KERNEL,
	[TRACE_CAT_GPU_MEMCPY] = TIMELINE_COPY,
	[TRACE_CAT_GPU_MEMSET] = TIMELINE_SET,
	[TRACE_CAT_CUDA_RUNTIME] = TIMELINE_RUNTIME,
	[TRACE_CAT_CUDA_DRIVER] = TIMELINE_RUNTIME,
	[TRACE_CAT_MTIA_RUNTIME] = TIMELINE_RUNTIME,
	[TRACE_CAT_XPU_RUNTIME] = TIMELINE_RUNTIME,
	[TRACE_CAT_XPU_DRIVER] = TIMELINE_RUNTIME,
	[TRACE_CAT_PRIVATEUSE1_RUNTIME] = TIMELINE_RUNTIME,
	[TRACE_CAT_PRIVATEUSE1_DRIVER] = TIMELINE_RUNTIME,
	[TRACE_CAT_PYTHON_FUNCTION] = TIMELINE_PYTHON,
	[TRACE_CAT_CUDA_SYNC] = TIMELINE_WAIT,
	[TRACE_CAT_CUDA_EVENT] = TIMELINE_WAIT,
	[TRACE_CAT_OVERHEAD] = TIMELINE_OVERHEAD,
	[TRACE_CAT_COLLECTIVE_COMM] = TIMELINE_COMMUNICATION,
};

/* What of a track shares rows. */
enum timeline_kind {
	TIMELINE_HOST,
	TIMELINE_DEVICE,
	TIMELINE_MARK, /* annotations and waits as the device saw them: they overlap its work */
	TIMELINE_KINDS
};

static const char *const timeline_kinds[TIMELINE_KINDS] = {"host", "device", "mark"};

static enum timeline_kind timeline_kind_of(const struct trace_block *b, uint32_t i)
{
	switch (b->cat[i]) {
	case TRACE_CAT_KERNEL:
	case TRACE_CAT_GPU_MEMCPY:
	case TRACE_CAT_GPU_MEMSET:
	case TRACE_CAT_MTIA_CCP_EVENTS:
		return TIMELINE_DEVICE;
	case TRACE_CAT_GPU_USER_ANNOTATION:
	case TRACE_CAT_CUDA_SYNC:
	case TRACE_CAT_CUDA_EVENT:
		return TIMELINE_MARK;
	default:
		return TIMELINE_HOST;
	}
}

/* ---- collecting
 * ------------------------------------------------------------------------------------ */

struct timeline_lane {
	uint16_t track;
	enum timeline_kind kind;
	unsigned depths;
	uint64_t events;
	uint16_t place; /* among those shown */
};

struct timeline_step {
	int64_t number, ts, end;
};

struct timeline {
	struct trace *t;
	int64_t first, last; /* of all events */
	int64_t from, to;    /* that is looked at */
	int64_t shortest;    /* shorter events are left out: there are too many */
	uint64_t in_range, left_out;
	uint64_t classes[TIMELINE_CLASSES]; /* of the lengths of those in the range */
	struct timerows_bar *bars;
	size_t n, cap;
	int64_t merged_ns;
	struct timeline_lane *lanes;
	size_t n_lanes, cap_lanes;
	uint16_t *lane_of; /* by 3 * track + kind; UINT16_MAX: none */
	struct timeline_step *steps;
	size_t n_steps, cap_steps;
};

static bool timeline_is_event(const struct trace_block *b, uint32_t i)
{
	return (b->flags[i] & TRACE_HAS_DUR) && !(b->flags[i] & TRACE_BROKEN) && b->dur[i] >= 0 &&
	       b->dur[i] < INT64_MAX / 4 && b->ts[i] < INT64_MAX / 4 && b->ts[i] > INT64_MIN / 4 &&
	       b->cat[i] != TRACE_CAT_TRACE;
}

static unsigned timeline_class(int64_t dur)
{
	unsigned high;

	if (dur < 8)
		return (unsigned)dur;
	high = 63 - (unsigned)__builtin_clzll((unsigned long long)dur);
	return high * 8 + (unsigned)((dur >> (high - 3)) & 7);
}

/* fn of each event; 0 or -EIO. */
static int timeline_each(struct timeline *l,
			 void (*fn)(struct timeline *l, const struct trace_block *b, uint32_t i))
{
	uint64_t rows = trace_rows(l->t);
	const struct trace_block *b;
	uint32_t k, i, n;

	for (k = 0; (uint64_t)k * TRACE_BLOCK_ROWS < rows; k++) {
		b = trace_block(l->t, k);
		if (!b)
			return -EIO;
		n = trace_block_rows(l->t, k);
		for (i = 0; i < n; i++)
			if (timeline_is_event(b, i))
				fn(l, b, i);
	}
	return 0;
}

static void timeline_look(struct timeline *l, const struct trace_block *b, uint32_t i)
{
	int64_t number = -1;

	l->first = b->ts[i] < l->first ? b->ts[i] : l->first;
	l->last = b->ts[i] + b->dur[i] > l->last ? b->ts[i] + b->dur[i] : l->last;
	if (b->cat[i] == TRACE_CAT_USER_ANNOTATION)
		number = view_step_number(trace_text(l->t, b->name[i], NULL));
	if (number < 0)
		return;
	l->steps = xgrow(l->steps, l->n_steps, &l->cap_steps, sizeof(*l->steps));
	l->steps[l->n_steps++] = (struct timeline_step){number, b->ts[i], b->ts[i] + b->dur[i]};
}

static bool timeline_is_in(const struct timeline *l, const struct trace_block *b, uint32_t i)
{
	return b->ts[i] <= l->to && b->ts[i] + b->dur[i] >= l->from;
}

static void timeline_count(struct timeline *l, const struct trace_block *b, uint32_t i)
{
	if (!timeline_is_in(l, b, i))
		return;
	l->in_range++;
	l->classes[timeline_class(b->dur[i])]++;
}

static uint16_t timeline_lane(struct timeline *l, uint16_t track, enum timeline_kind kind)
{
	uint16_t *at = &l->lane_of[(size_t)track * TIMELINE_KINDS + kind];

	if (*at == UINT16_MAX && l->n_lanes < TIMELINE_LANES) {
		l->lanes = xgrow(l->lanes, l->n_lanes, &l->cap_lanes, sizeof(*l->lanes));
		l->lanes[l->n_lanes] = (struct timeline_lane){.track = track, .kind = kind};
		*at = (uint16_t)l->n_lanes++;
	}
	return *at;
}

static void timeline_take(struct timeline *l, const struct trace_block *b, uint32_t i)
{
	uint8_t category = b->cat[i] < TRACE_CATS ? timeline_cats[b->cat[i]] : TIMELINE_OTHER;
	uint16_t lane;

	if (!timeline_is_in(l, b, i))
		return;
	lane = b->dur[i] < l->shortest || l->n == l->cap
		       ? UINT16_MAX
		       : timeline_lane(l, b->track[i], timeline_kind_of(b, i));
	if (lane == UINT16_MAX) {
		l->left_out++;
		return;
	}
	if (category == TIMELINE_KERNEL &&
	    view_class_of(trace_text(l->t, b->name[i], NULL), (enum trace_cat)b->cat[i],
			  VIEW_EXACT) == VIEW_COMMUNICATION)
		category = TIMELINE_COMMUNICATION;
	l->lanes[lane].events++;
	l->bars[l->n++] = (struct timerows_bar){.ts = b->ts[i],
						.dur = b->dur[i],
						.name = b->name[i],
						.count = 1,
						.lane = lane,
						.category = category};
}

static int timeline_by_ts(const void *a, const void *b)
{
	const struct timeline_step *x = a, *y = b;

	return (x->ts > y->ts) - (x->ts < y->ts);
}

/* What part: by steps, or by times. */
static int timeline_range(struct timeline *l)
{
	int64_t from, to;
	size_t i;

	if (l->n_steps > 0)
		qsort(l->steps, l->n_steps, sizeof(*l->steps), timeline_by_ts);
	if (tracecmd_steps("trace timeline", &from, &to))
		return 2;
	l->from = timeline_begin >= 0 ? l->first + timeline_begin : l->first;
	l->to = timeline_end >= 0 ? l->first + timeline_end : l->last;
	if (from == 0 && to == 0)
		return 0;
	l->from = INT64_MAX;
	l->to = INT64_MIN;
	for (i = 0; i < l->n_steps; i++) {
		if (l->steps[i].number < from || l->steps[i].number >= to)
			continue;
		l->from = l->steps[i].ts < l->from ? l->steps[i].ts : l->from;
		l->to = l->steps[i].end > l->to ? l->steps[i].end : l->to;
	}
	return 0;
}

/* Of more than can be held the longest. */
static void timeline_limit(struct timeline *l)
{
	uint64_t n = 0;
	int64_t d;
	unsigned k;

	for (k = TIMELINE_CLASSES; k-- > 0;) {
		n += l->classes[k];
		if (n <= TIMELINE_HELD)
			continue;
		for (d = k < 8 ? (int64_t)k + 1 : (int64_t)((k & 7) + 9) << (k / 8 - 3);
		     timeline_class(d) <= k; d++)
			;
		l->shortest = d;
		return;
	}
}

static int timeline_lane_order(const void *a, const void *b, void *arg)
{
	const struct timeline *l = arg;
	const struct timeline_lane *x = &l->lanes[*(const uint16_t *)a],
				   *y = &l->lanes[*(const uint16_t *)b];
	const struct trace_track *p = trace_track(l->t, x->track), *q;
	bool x_host = x->kind == TIMELINE_HOST, y_host = y->kind == TIMELINE_HOST;

	q = trace_track(l->t, y->track);
	if (x_host != y_host)
		return x_host ? -1 : 1;
	if (p->pid != q->pid)
		return p->pid < q->pid ? -1 : 1;
	if (p->sort_index != q->sort_index)
		return p->sort_index < q->sort_index ? -1 : 1;
	if (p->tid != q->tid)
		return p->tid < q->tid ? -1 : 1;
	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	return (int)y->kind - (int)x->kind; /* marks above the work */
}

/* Lanes in the order in which they are shown. */
static void timeline_arrange(struct timeline *l)
{
	uint16_t *order = xcalloc(l->n_lanes + 1, sizeof(*order));
	struct timeline_lane *sorted = xcalloc(l->n_lanes + 1, sizeof(*sorted));
	size_t i;

	for (i = 0; i < l->n_lanes; i++)
		order[i] = (uint16_t)i;
	if (l->n_lanes > 0)
		qsort_r(order, l->n_lanes, sizeof(*order), timeline_lane_order, l);
	for (i = 0; i < l->n_lanes; i++) {
		l->lanes[order[i]].place = (uint16_t)i;
		sorted[i] = l->lanes[order[i]];
	}
	for (i = 0; i < l->n; i++)
		l->bars[i].lane = l->lanes[l->bars[i].lane].place;
	free(l->lanes);
	free(order);
	l->lanes = sorted;
}

static int timeline_collect(struct timeline *l)
{
	size_t tracks = trace_tracks(l->t), i;
	int err;

	l->first = INT64_MAX;
	l->last = INT64_MIN;
	err = timeline_each(l, timeline_look);
	if (err)
		return err;
	if (l->first > l->last)
		l->first = l->last = 0;
	if (timeline_range(l))
		return 2;
	err = timeline_each(l, timeline_count);
	if (err)
		return err;
	timeline_limit(l);
	l->cap = l->in_range < TIMELINE_HELD ? l->in_range : TIMELINE_HELD;
	l->bars = bigmem_alloc((l->cap + 1) * sizeof(*l->bars));
	l->lane_of = xcalloc(tracks * TIMELINE_KINDS + 1, sizeof(*l->lane_of));
	if (!l->bars)
		return -ENOMEM;
	for (i = 0; i < tracks * TIMELINE_KINDS; i++)
		l->lane_of[i] = UINT16_MAX;
	err = timeline_each(l, timeline_take);
	if (err)
		return err;
	timeline_arrange(l);
	i = l->n;
	l->n = timerows_nest(l->bars, l->n);
	l->left_out += i - l->n;
	for (i = 0; i < l->n; i++)
		if (l->bars[i].depth >= l->lanes[l->bars[i].lane].depths)
			l->lanes[l->bars[i].lane].depths = l->bars[i].depth + 1u;
	l->n = timerows_merge(l->bars, l->n, (size_t)timeline_events, &l->merged_ns);
	return 0;
}

/* ---- writing
 * ---------------------------------------------------------------------------------------- */

static double timeline_ms(const struct timeline *l, int64_t ns)
{
	return (double)(ns - l->first) / 1e6;
}

static void timeline_pad(struct buf *b, char with)
{
	while (b->len % 8 && !b->error)
		buf_putc(b, with);
}

static void timeline_lane_json(struct json *j, const struct timeline *l, size_t i)
{
	const struct trace_track *t = trace_track(l->t, l->lanes[i].track);
	const char *process = trace_text(l->t, t->process_name, NULL);
	const char *labels = trace_text(l->t, t->process_labels, NULL);
	const char *thread = trace_text(l->t, t->name, NULL);
	char *text;

	json_object(j);
	if (*labels && strcmp(labels, "CPU") != 0)
		text = xstrdup(labels);
	else
		text = xasprintf("%s%s%s", process, *process ? " " : "",
				 trace_text(l->t, t->pid_text, NULL));
	json_kstr(j, "process", text);
	free(text);
	if (*thread)
		text = xstrdup(thread);
	else
		text = xasprintf("thread %s", trace_text(l->t, t->tid_text, NULL));
	json_kstr(j, "thread", text);
	free(text);
	json_kstr(j, "kind", timeline_kinds[l->lanes[i].kind]);
	json_kuint(j, "depths", l->lanes[i].depths);
	json_kuint(j, "events", l->lanes[i].events);
	json_object_end(j);
}

static void timeline_notes(struct json *j, const struct timeline *l)
{
	const struct trace_note *notes;
	size_t n, i;
	char *text;

	notes = trace_notes(l->t, &n);
	json_key(j, "notes");
	json_array(j);
	if (l->shortest > 0) {
		text = xasprintf("More than %u events in this part: those below %" PRId64
				 " ns are left out.",
				 TIMELINE_HELD, l->shortest);
		json_str(j, text);
		free(text);
	}
	for (i = 0; i < n && i < 20; i++) {
		text = xasprintf("%s (%" PRIu64 ")", trace_note_rows[notes[i].kind].meaning,
				 notes[i].count);
		json_str(j, text);
		free(text);
	}
	json_array_end(j);
}

static void timeline_head(const struct timeline *l, struct buf *b)
{
	const struct trace_meta *meta = trace_meta(l->t);
	char base[32];
	struct json j;
	size_t i;

	json_init(&j, b);
	json_object(&j);
	json_kstr(&j, "file", tracecmd_name(trace_path(l->t)));
	json_key(&j, "rank");
	if (meta->rank == TRACE_NONE)
		json_null(&j);
	else
		json_int(&j, meta->rank);
	snprintf(base, sizeof(base), "%" PRId64, meta->base_ns + l->first);
	json_kstr(&j, "base_ns", meta->base_ns ? base : NULL);
	json_kdouble(&j, "first_ms", 0);
	json_kdouble(&j, "last_ms", timeline_ms(l, l->last));
	json_kdouble(&j, "from_ms", l->from > l->to ? 0 : timeline_ms(l, l->from));
	json_kdouble(&j, "to_ms", l->from > l->to ? 0 : timeline_ms(l, l->to));
	json_kuint(&j, "events", l->in_range);
	json_kuint(&j, "bars", l->n);
	json_kdouble(&j, "merged_ms", (double)l->merged_ns / 1e6);
	json_kuint(&j, "left_out", l->left_out);
	json_key(&j, "categories");
	json_array(&j);
	for (i = 0; i < TIMELINE_CATEGORIES; i++)
		json_str(&j, timeline_names[i]);
	json_array_end(&j);
	json_key(&j, "lanes");
	json_array(&j);
	for (i = 0; i < l->n_lanes; i++)
		timeline_lane_json(&j, l, i);
	json_array_end(&j);
	json_key(&j, "steps");
	json_array(&j);
	for (i = 0; i < l->n_steps; i++) {
		json_array(&j);
		json_int(&j, l->steps[i].number);
		json_double(&j, timeline_ms(l, l->steps[i].ts));
		json_double(&j, timeline_ms(l, l->steps[i].end));
		json_array_end(&j);
	}
	json_array_end(&j);
	timeline_notes(&j, l);
	json_object_end(&j);
	timeline_pad(b, ' ');
}

static void timeline_u32(struct buf *b, uint32_t v)
{
	uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};

	buf_append(b, bytes, 4);
}

/* Names in the order of their first bar; the bars' names become places among them. */
static uint32_t timeline_texts(struct timeline *l, struct buf *offsets, struct buf *texts)
{
	uint32_t *place = xcalloc((size_t)trace_texts(l->t) + 1, sizeof(*place)), n = 0;
	const char *text;
	size_t i, len;

	for (i = 0; i < l->n; i++) {
		uint32_t *at = &place[l->bars[i].name < trace_texts(l->t) ? l->bars[i].name : 0];

		if (!*at) {
			text = trace_text(l->t, l->bars[i].name, &len);
			timeline_u32(offsets, (uint32_t)texts->len);
			buf_append(texts, text, len);
			*at = ++n;
		}
		l->bars[i].name = *at - 1;
	}
	timeline_u32(offsets, (uint32_t)texts->len);
	free(place);
	return n;
}

static uint32_t timeline_rows(const struct timeline *l, struct buf *b)
{
	size_t i, k;
	uint32_t n = 0;

	for (i = 0; i < l->n; i = k) {
		for (k = i; k < l->n && l->bars[k].lane == l->bars[i].lane &&
			    l->bars[k].depth == l->bars[i].depth;)
			k++;
		timeline_u32(b, l->bars[i].lane);
		timeline_u32(b, l->bars[i].depth);
		timeline_u32(b, (uint32_t)i);
		timeline_u32(b, (uint32_t)(k - i));
		n++;
	}
	return n;
}

static void timeline_columns(const struct timeline *l, struct buf *b)
{
	uint64_t bits;
	uint32_t word;
	double ms;
	float dur;
	size_t i;

	for (i = 0; i < l->n; i++) {
		ms = timeline_ms(l, l->bars[i].ts);
		memcpy(&bits, &ms, 8);
		timeline_u32(b, (uint32_t)bits);
		timeline_u32(b, (uint32_t)(bits >> 32));
	}
	for (i = 0; i < l->n; i++) {
		dur = (float)((double)l->bars[i].dur / 1e6);
		memcpy(&word, &dur, 4);
		timeline_u32(b, word);
	}
	timeline_pad(b, 0);
	for (i = 0; i < l->n; i++)
		timeline_u32(b, l->bars[i].name);
	timeline_pad(b, 0);
	for (i = 0; i < l->n; i++)
		timeline_u32(b, l->bars[i].count);
	timeline_pad(b, 0);
	for (i = 0; i < l->n; i++)
		buf_putc(b, (char)l->bars[i].category);
	timeline_pad(b, 0);
}

static void timeline_write(struct timeline *l, struct buf *out)
{
	struct buf head, rows, offsets, texts;
	uint32_t n_names, n_rows;

	buf_init(&head, TIMELINE_MAX);
	buf_init(&rows, TIMELINE_MAX);
	buf_init(&offsets, TIMELINE_MAX);
	buf_init(&texts, TIMELINE_MAX);
	timeline_head(l, &head);
	n_names = timeline_texts(l, &offsets, &texts);
	n_rows = timeline_rows(l, &rows);
	buf_append(out, "LTL1", 4);
	timeline_u32(out, (uint32_t)head.len);
	timeline_u32(out, (uint32_t)l->n);
	timeline_u32(out, n_rows);
	timeline_u32(out, n_names);
	timeline_u32(out, (uint32_t)texts.len);
	buf_append(out, head.data, head.len);
	buf_append(out, buf_str(&rows), rows.len);
	timeline_columns(l, out);
	buf_append(out, buf_str(&offsets), offsets.len);
	timeline_pad(out, 0);
	buf_append(out, buf_str(&texts), texts.len);
	if (!out->error && (head.error || rows.error || offsets.error || texts.error))
		out->error = -EFBIG;
	buf_done(&head);
	buf_done(&rows);
	buf_done(&offsets);
	buf_done(&texts);
}

static void timeline_done(struct timeline *l)
{
	free(l->bars);
	free(l->lanes);
	free(l->lane_of);
	free(l->steps);
}

static int timeline_out(struct timeline *l, struct err *e)
{
	struct outfile f = {0};
	struct buf out;
	int err;

	buf_init(&out, TIMELINE_MAX);
	timeline_write(l, &out);
	tracecmd_signals_default();
	err = out.error ? err_set(e, out.error, "the timeline would be larger than 1 GiB") : 0;
	if (!err)
		err = outfile_open(&f, timeline_file, e);
	if (!err) {
		err = outfile_write(&f, out.data, out.len, e);
		if (outfile_close(&f, !err, e))
			err = e->code;
	}
	buf_done(&out);
	return err;
}

int trace_timeline(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {
		.command = "trace timeline", .least = 1, .most = 1};
	struct timeline l = {0};
	struct tracecmd_set s;
	struct err e = {0};
	int status, err;

	if (!timeline_file && isatty(STDOUT_FILENO)) {
		fputs("lapse trace timeline: --output FILE says where to: it is no text\n", stderr);
		return 2;
	}
	if (tracecmd_opt.steps && (timeline_begin >= 0 || timeline_end >= 0)) {
		fputs("lapse trace timeline: --steps does not go with --begin and --end\n", stderr);
		return 2;
	}
	status = tracecmd_load(&wish, argc, argv, &s);
	if (!status) {
		l.t = s.trace[0];
		err = timeline_collect(&l);
		if (!err)
			err = timeline_out(&l, &e);
		if (err == 2)
			status = 2;
		else if (err)
			status = tracecmd_fail(&s, err, &e);
		timeline_done(&l);
	}
	tracecmd_done(&s);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot path: values and frames. Each call finds the thread's lane, closes it
 * against handlers, fills slots, and commits with one store.
 */
#include "record/record_priv.h"

#include <string.h>

__thread struct ring_writer *rec_writer;

static_assert(sizeof(struct lapse_value) == sizeof(struct wire_value), "a frame is a copy");
static_assert(offsetof(struct lapse_value, metric) == offsetof(struct wire_value, id), "same");

/* The first 8 bytes of a record in one store. */
static inline void rec_head(struct wire_rec *r, uint8_t type, uint8_t flags, uint32_t slots,
			    uint32_t id)
{
	uint64_t word;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	word = type | (uint64_t)flags << 8 | (uint64_t)slots << 16 | (uint64_t)id << 32;
#else
	word = (uint64_t)type << 56 | (uint64_t)flags << 48 | (uint64_t)slots << 32 | id;
#endif
	memcpy(r, &word, sizeof(word));
}

/* Take n slots of the thread's lane; NULL: dropped and counted. */
static inline struct wire_rec *rec_begin(struct ring_writer **w, uint32_t n, uint64_t *hold)
{
	struct wire_rec *r = NULL;

	if (REC_LIKELY(*w != NULL))
		r = ring_begin(*w, n, hold);
	/* A handler may use up the room between the two calls: try again. */
	while (REC_UNLIKELY(!r)) {
		*w = rec_make_room(n);
		if (!*w)
			return NULL;
		r = ring_begin(*w, n, hold);
	}
	return r;
}

static inline __attribute__((always_inline)) void rec_now(uint8_t type, uint32_t id, double value)
{
	struct ring_writer *w = rec_writer;
	struct wire_rec *r;
	uint64_t hold;

	if (REC_UNLIKELY(id == 0))
		return;
	r = rec_begin(&w, 1, &hold);
	if (REC_UNLIKELY(!r))
		return;
	rec_head(r, type, 0, 1, id);
	r->time = rec_ticks();
	r->value = value;
	r->step = __atomic_load_n(&w->ctl->step, __ATOMIC_RELAXED);
	ring_commit(w, 1, 1, hold);
}

static void rec_stamp(const struct ring_writer *w, struct wire_rec *r, int64_t step,
		      int64_t time_ns)
{
	r->time = time_ns == LAPSE_NOW ? rec_ticks() : (uint64_t)time_ns;
	r->step = step == LAPSE_STEP_CURRENT ? __atomic_load_n(&w->ctl->step, __ATOMIC_RELAXED)
					     : step;
}

static uint8_t rec_flags(int64_t time_ns)
{
	return time_ns == LAPSE_NOW ? 0 : WIRE_F_UTC;
}

static void rec_at(uint8_t type, uint32_t id, double value, int64_t step, int64_t time_ns)
{
	struct ring_writer *w = rec_writer;
	struct wire_rec *r;
	uint64_t hold;

	if (id == 0)
		return;
	r = rec_begin(&w, 1, &hold);
	if (!r)
		return;
	rec_head(r, type, rec_flags(time_ns), 1, id);
	r->value = value;
	rec_stamp(w, r, step, time_ns);
	ring_commit(w, 1, 1, hold);
}

void lapse_set(struct lapse_metric m, double value)
{
	rec_now(WIRE_SET, m.id, value);
}

void lapse_add(struct lapse_metric m, double delta)
{
	rec_now(WIRE_ADD, m.id, delta);
}

void lapse_observe(struct lapse_metric m, double value)
{
	rec_now(WIRE_OBSERVE, m.id, value);
}

void lapse_set_at(struct lapse_metric m, double value, int64_t step, int64_t time_ns)
{
	rec_at(WIRE_SET, m.id, value, step, time_ns);
}

void lapse_add_at(struct lapse_metric m, double delta, int64_t step, int64_t time_ns)
{
	rec_at(WIRE_ADD, m.id, delta, step, time_ns);
}

void lapse_observe_at(struct lapse_metric m, double value, int64_t step, int64_t time_ns)
{
	rec_at(WIRE_OBSERVE, m.id, value, step, time_ns);
}

static void rec_frame(const struct lapse_value *v, size_t n, int64_t step, int64_t time_ns,
		      uint8_t flags)
{
	uint32_t slots = 1 + (uint32_t)((n * sizeof(*v) + WIRE_SLOT - 1) / WIRE_SLOT);
	struct ring_writer *w = rec_writer;
	struct wire_rec *r;
	uint64_t hold;

	r = rec_begin(&w, slots, &hold);
	if (REC_UNLIKELY(!r))
		return;
	rec_head(r, WIRE_FRAME, flags, slots, (uint32_t)n);
	r->time = (uint64_t)time_ns;
	r->end = 0;
	r->step = step == LAPSE_STEP_CURRENT ? __atomic_load_n(&w->ctl->step, __ATOMIC_RELAXED)
					     : step;
	memcpy(r + 1, v, n * sizeof(*v));
	ring_commit(w, slots, 1, hold);
}

void lapse_log_at(const struct lapse_value *v, size_t n, int64_t step, int64_t time_ns)
{
	uint8_t flags = rec_flags(time_ns);

	/* All frames of one call share one time. */
	if (time_ns == LAPSE_NOW)
		time_ns = (int64_t)rec_ticks();
	while (n > LAPSE_FRAME_MAX) {
		rec_frame(v, LAPSE_FRAME_MAX, step, time_ns, flags);
		v += LAPSE_FRAME_MAX;
		n -= LAPSE_FRAME_MAX;
	}
	if (n > 0)
		rec_frame(v, n, step, time_ns, flags);
}

void lapse_log(const struct lapse_value *v, size_t n)
{
	lapse_log_at(v, n, LAPSE_STEP_CURRENT, LAPSE_NOW);
}

/* ---- spans, steps, epochs ---------------------------------------------- */

/* lapse_span.slot: the thread in 22 bits, which is all that Linux gives to a
 * tid, and the depth at which the span began in 10; deeper ones share the last. */
#define REC_DEPTH_BITS 10
#define REC_DEPTH_LAST ((1u << REC_DEPTH_BITS) - 1)

/* Take a place among the open spans. A handler may open and close spans between
 * any two lines, so the place is taken before it is filled. Who looks from
 * outside skips empty ones. Returns the place. */
static inline uint32_t rec_push(struct wire_lane *lane, uint64_t start, int64_t step, uint32_t name)
{
	uint32_t depth = lane->depth, at = depth;

	/* Spans that overlap leave empty places below the last one. */
	if (REC_UNLIKELY(depth == WIRE_SPANS_OPEN))
		for (at = 0; at < WIRE_SPANS_OPEN && lane->open[at].start != 0; at++)
			;
	if (REC_LIKELY(at < WIRE_SPANS_OPEN))
		__atomic_store_n(&lane->open[at].start, at < depth ? start : 0, __ATOMIC_RELAXED);
	atomic_signal_fence(memory_order_seq_cst);
	if (REC_LIKELY(at >= depth))
		__atomic_store_n(&lane->depth, at + 1, __ATOMIC_RELEASE);
	atomic_signal_fence(memory_order_seq_cst);
	if (REC_LIKELY(at < WIRE_SPANS_OPEN)) {
		lane->open[at].step = step;
		lane->open[at].name = name;
		__atomic_store_n(&lane->open[at].start, start, __ATOMIC_RELEASE);
	}
	return at < REC_DEPTH_LAST ? at : REC_DEPTH_LAST;
}

struct lapse_span lapse_span_begin(struct lapse_name name)
{
	struct ring_writer *w = rec_writer;
	struct lapse_span s = {0, 0, 0};
	int64_t step;

	if (REC_UNLIKELY(name.id == 0))
		return s;
	s.id = name.id;
	/* In a child of fork() the writer reads as zeros. */
	if (REC_UNLIKELY(!w || !w->lane)) {
		w = rec_make_room(1);
		if (!w)
			return s;
	}
	s.start = rec_ticks();
	step = __atomic_load_n(&w->ctl->step, __ATOMIC_RELAXED);
	s.slot = w->tid << REC_DEPTH_BITS | rec_push(w->lane, s.start, step, name.id);
	return s;
}

/* The span is no longer open. Below ones that are, its place stays, empty. Of
 * those too deep to be seen, the later ones go too. */
static void rec_pop(struct wire_lane *lane, const struct lapse_span *s)
{
	uint32_t depth = lane->depth, at = s->slot & REC_DEPTH_LAST;

	if (at == REC_DEPTH_LAST && depth > at)
		at = depth - 1;
	if (at >= depth)
		return;
	if (REC_LIKELY(at < WIRE_SPANS_OPEN)) {
		if (lane->open[at].start != s->start || lane->open[at].name != s->id)
			return;
		__atomic_store_n(&lane->open[at].start, 0, __ATOMIC_RELAXED);
		if (at + 1 < depth)
			return;
	}
	while (at > 0 && at <= WIRE_SPANS_OPEN && lane->open[at - 1].start == 0)
		at--;
	__atomic_store_n(&lane->depth, at, __ATOMIC_RELEASE);
}

/* Its thread is this one: end it there. Returns the record's flags. */
static inline uint8_t rec_span_closes(const struct ring_writer *w, const struct lapse_span *s)
{
	if (REC_UNLIKELY(s->slot >> REC_DEPTH_BITS != w->tid))
		return WIRE_F_OTHER;
	rec_pop(w->lane, s);
	return 0;
}

void lapse_span_end(struct lapse_span s)
{
	struct ring_writer *w = rec_writer;
	struct wire_rec *r;
	uint64_t hold;

	if (REC_UNLIKELY(s.start == 0))
		return;
	r = rec_begin(&w, 1, &hold);
	if (REC_UNLIKELY(!r)) {
		/* Dropped, but no longer open. */
		if (rec_writer && rec_writer->lane)
			rec_span_closes(rec_writer, &s);
		return;
	}
	rec_head(r, WIRE_SPAN, rec_span_closes(w, &s), 1, s.id);
	r->time = s.start;
	r->end = rec_ticks();
	r->step = __atomic_load_n(&w->ctl->step, __ATOMIC_RELAXED);
	ring_commit(w, 1, 1, hold);
}

void lapse_span_at(struct lapse_name name, int64_t start_ns, int64_t end_ns, int64_t step)
{
	struct ring_writer *w = rec_writer;
	struct wire_rec *r;
	uint64_t hold;

	if (name.id == 0 || end_ns < start_ns)
		return;
	r = rec_begin(&w, 1, &hold);
	if (!r)
		return;
	rec_head(r, WIRE_SPAN, WIRE_F_UTC, 1, name.id);
	rec_stamp(w, r, step, start_ns);
	r->end = (uint64_t)end_ns;
	ring_commit(w, 1, 1, hold);
}

void lapse_step_begin(int64_t step)
{
	struct wire_ctl *ctl = rec_ctl();
	uint64_t now;

	if (!ctl)
		return;
	if (step == LAPSE_STEP_NEXT)
		step = ctl->step == WIRE_STEP_NONE ? 0 : ctl->step + 1;
	now = rec_ticks();
	__atomic_store_n(&ctl->step, step, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->step_start, now, __ATOMIC_RELAXED);
	if (now - rec.anchor_ticks > rec.ticks_per_s)
		rec_anchor(__atomic_load_n(&rec.set, __ATOMIC_RELAXED));
}

int64_t lapse_step_now(void)
{
	const struct wire_ctl *ctl = rec_ctl();

	return ctl ? __atomic_load_n(&ctl->step, __ATOMIC_RELAXED) : LAPSE_STEP_NONE;
}

void lapse_step_end(double samples, double tokens)
{
	struct wire_ctl *ctl = rec_ctl();
	struct ring_writer *w = rec_writer;
	double payload[4] = {samples, tokens, 0, 0};
	struct wire_rec *r;
	uint64_t hold;

	if (!ctl || ctl->step_start == 0)
		return;
	r = rec_begin(&w, 2, &hold);
	if (r) {
		rec_head(r, WIRE_STEP, 0, 2, 0);
		r->time = ctl->step_start;
		r->end = rec_ticks();
		r->step = ctl->step;
		memcpy(r + 1, payload, sizeof(payload));
		ring_commit(w, 2, 1, hold);
		__atomic_store_n(&ctl->steps_done, ctl->steps_done + 1, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&ctl->step_start, 0, __ATOMIC_RELAXED);
}

static void rec_epoch(struct wire_ctl *ctl, uint64_t end)
{
	struct ring_writer *w = rec_writer;
	struct wire_rec *r;
	uint64_t hold;

	r = rec_begin(&w, 1, &hold);
	if (!r)
		return;
	rec_head(r, WIRE_EPOCH, 0, 1, (uint32_t)ctl->epoch);
	r->time = ctl->epoch_start;
	r->end = end;
	r->step = ctl->step;
	ring_commit(w, 1, 1, hold);
}

void lapse_epoch_begin(int64_t epoch)
{
	struct wire_ctl *ctl = rec_ctl();

	if (!ctl)
		return;
	lapse_epoch_end();
	__atomic_store_n(&ctl->epoch, epoch, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->epoch_start, rec_ticks(), __ATOMIC_RELAXED);
	rec_epoch(ctl, 0);
}

void lapse_epoch_end(void)
{
	struct wire_ctl *ctl = rec_ctl();

	if (!ctl || ctl->epoch_start == 0)
		return;
	rec_epoch(ctl, rec_ticks());
	__atomic_store_n(&ctl->epoch_start, 0, __ATOMIC_RELAXED);
}

void lapse_heartbeat(void)
{
	struct wire_ctl *ctl = rec_ctl();

	if (ctl)
		__atomic_store_n(&ctl->heartbeat, rec_ticks(), __ATOMIC_RELAXED);
}

/* ---- texts --------------------------------------------------------------- */

static uint32_t rec_len(const char *s, uint32_t max, uint8_t *flags)
{
	size_t n = rec_cut(s, max);

	if (s && s[n])
		*flags |= WIRE_F_CUT;
	return (uint32_t)n;
}

static void rec_text(uint8_t type, uint8_t flags, uint32_t id, const char *const *s,
		     const struct wire_text *text)
{
	size_t bytes = sizeof(*text) + text->len[0] + text->len[1] + text->len[2];
	uint32_t slots = 1 + (uint32_t)((bytes + WIRE_SLOT - 1) / WIRE_SLOT), i;
	struct ring_writer *w = rec_writer;
	struct wire_rec *r;
	uint64_t hold;
	char *to;

	r = rec_begin(&w, slots, &hold);
	if (!r)
		return;
	rec_head(r, type, flags, slots, id);
	rec_stamp(w, r, LAPSE_STEP_CURRENT, LAPSE_NOW);
	r->end = 0;
	memcpy(r + 1, text, sizeof(*text));
	to = (char *)(r + 1) + sizeof(*text);
	for (i = 0; i < 3; i++) {
		if (text->len[i])
			memcpy(to, s[i], text->len[i]);
		to += text->len[i];
	}
	ring_commit(w, slots, 1, hold);
}

void lapse_event(enum lapse_severity severity, const char *kind, const char *text,
		 const char *attrs)
{
	const char *const s[3] = {kind, text, attrs};
	struct wire_text t = {{0, 0, 0}, 0};
	uint8_t flags = 0, cut = 0;

	t.len[0] = rec_len(kind, LAPSE_NAME_MAX, &flags);
	t.len[1] = rec_len(text, LAPSE_TEXT_MAX, &flags);
	/* Half a JSON object is worth nothing. */
	t.len[2] = rec_len(attrs, LAPSE_TEXT_MAX / 2, &cut);
	if (cut)
		t.len[2] = 0;
	rec_text(WIRE_EVENT, flags | cut, (uint32_t)severity, s, &t);
}

void lapse_attr(const char *key, const char *value)
{
	const char *const s[3] = {key, value, NULL};
	struct wire_text t = {{0, 0, 0}, 0};
	uint8_t flags = 0;

	t.len[0] = rec_len(key, LAPSE_NAME_MAX, &flags);
	t.len[1] = rec_len(value, LAPSE_TEXT_MAX, &flags);
	if (t.len[0] > 0)
		rec_text(WIRE_ATTR, flags, 0, s, &t);
}

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

struct lapse_span lapse_span_begin(struct lapse_name name)
{
	struct ring_writer *w = rec_writer;
	struct lapse_span s = {0, 0, 0};
	struct wire_open_span *open;
	struct wire_lane *lane;
	uint32_t depth;

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
	lane = w->lane;
	depth = lane->depth;
	s.slot = depth;
	if (REC_LIKELY(depth < WIRE_SPANS_OPEN)) {
		open = &lane->open[depth];
		open->start = s.start;
		open->step = __atomic_load_n(&w->ctl->step, __ATOMIC_RELAXED);
		open->name = name.id;
	}
	__atomic_store_n(&lane->depth, depth + 1, __ATOMIC_RELEASE);
	return s;
}

/* Take the span off the stack of open ones if it is ours; everything opened
 * after it goes too. Returns whether it was there. */
static inline bool rec_pop(struct wire_lane *lane, const struct lapse_span *s)
{
	uint32_t depth = lane->depth;

	if (REC_LIKELY(s->slot < WIRE_SPANS_OPEN)) {
		if (s->slot >= depth || lane->open[s->slot].start != s->start ||
		    lane->open[s->slot].name != s->id)
			return false;
	} else if (s->slot >= depth) {
		return false;
	}
	__atomic_store_n(&lane->depth, s->slot, __ATOMIC_RELEASE);
	return true;
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
			rec_pop(rec_writer->lane, &s);
		return;
	}
	rec_head(r, WIRE_SPAN, rec_pop(w->lane, &s) ? 0 : WIRE_F_OTHER, 1, s.id);
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
		rec_anchor(ctl);
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
	}
	__atomic_store_n(&ctl->step_start, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->steps_done, ctl->steps_done + 1, __ATOMIC_RELAXED);
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

/* Length of s cut to max bytes, not inside a UTF-8 character. */
static uint32_t rec_len(const char *s, uint32_t max, uint8_t *flags)
{
	size_t n = s ? strnlen(s, (size_t)max + 1) : 0;

	if (n <= max)
		return (uint32_t)n;
	*flags |= WIRE_F_CUT;
	for (n = max; n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
		;
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

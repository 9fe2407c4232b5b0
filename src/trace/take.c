/* SPDX-License-Identifier: Apache-2.0
 *
 * take.c - an event that was read goes into the trace: as a row, a memory event, a name of
 * a track, or a count.
 */
#include <errno.h>
#include <stdlib.h>

#include "trace/reading.h"

/* Beyond these a file is broken, and its sums would not fit 64 bits. */
#define LASTS_MAX (2 * 86400 * 1000000000LL) /* ns: an event; two days */
#define MEMORY_MAX (1LL << 50)               /* bytes: an allocation, all that is allocated */

typedef const unsigned char *place;

/* Is this where the event is? */
static bool is_there(const struct reader *r, const struct event_track *x)
{
	return x->pid_len == r->pid_len && x->tid_len == r->tid_len && x->is_set &&
	       lex_equal(x->pid, r->pid, r->pid_len) && lex_equal(x->tid, r->tid, r->tid_len);
}

static void find_track(struct reader *r)
{
	struct event_track *x;
	uint32_t pid, tid;

	for (unsigned i = 0; i < 8; i++) {
		x = &r->recent[(r->recent_hit + i) % 8];
		if (is_there(r, x)) {
			r->recent_hit = (unsigned)(x - r->recent);
			r->e.track = x->track;
			return;
		}
	}
	pid = words_text(r, r->pid, r->pid_len, false);
	tid = words_text(r, r->tid, r->tid_len, false);
	if (r->rc)
		return;
	r->rc = tracks_put(r->t, pid, tid, &r->e.track, r->offset);
	if (r->rc || r->pid_len > READING_TRACK_TEXT || r->tid_len > READING_TRACK_TEXT)
		return;
	x = &r->recent[r->recent_at++ % 8];
	x->is_set = true;
	x->track = r->e.track;
	x->pid_len = (uint8_t)r->pid_len;
	x->tid_len = (uint8_t)r->tid_len;
	memcpy(x->pid, r->pid, r->pid_len);
	memcpy(x->tid, r->tid, r->tid_len);
}

static uint8_t cat_of(struct reader *r, uint32_t text)
{
	unsigned i;

	if (r->n_cats && r->cat_ids[r->last_cat] == text)
		return r->cat_kinds[r->last_cat];
	for (i = 0; i < r->n_cats; i++) {
		if (r->cat_ids[i] == text) {
			r->last_cat = i;
			return r->cat_kinds[i];
		}
	}
	i = r->n_cats < 64 ? r->n_cats++ : 63;
	r->cat_ids[i] = text;
	r->cat_kinds[i] = (uint8_t)cats_of(trace_text(r->t, text, NULL));
	r->last_cat = i;
	return r->cat_kinds[i];
}

static int64_t memory_size(struct reader *r, int64_t bytes, int64_t missing)
{
	if (bytes <= MEMORY_MAX && bytes >= -MEMORY_MAX)
		return bytes;
	notes_add(r->t, NOTES_BAD_NUMBER, r->offset, "%lld bytes of memory", (long long)bytes);
	return missing;
}

static int take_memory(struct reader *r)
{
	const struct event *e = &r->e;
	struct trace_memory m;
	int rc;

	find_track(r);
	if (r->o->only_links)
		return r->rc;
	m = (struct trace_memory){
		.ts = e->ts,
		.bytes = memory_size(r, e->bytes, 0),
		.address = (uint64_t)e->address,
		.allocated = memory_size(r, e->allocated, TRACE_NONE),
		.reserved = memory_size(r, e->reserved, TRACE_NONE),
		.device_type = (int32_t)e->device_type,
		.device = (int32_t)e->device,
		.track = e->track,
	};
	rc = memories_add(&r->t->memories, &m);
	/* A file of nothing else has no blocks at whose ends the budget is looked at. */
	if (!rc && r->t->memories.n % TRACE_BLOCK_ROWS == 0)
		rc = finish_budget(r);
	return rc ? rc : r->rc;
}

static int take_metadata(struct reader *r)
{
	struct trace_track where = {
		.pid_text = words_text(r, r->pid, r->pid_len, false),
		.tid_text = words_text(r, r->tid, r->tid_len, false),
	};

	return r->rc ? r->rc : tracks_metadata(r->t, &r->e, &where);
}

/* Times evenly taken from all rows so far: when there are too many, every other goes. */
static void sample(struct reader *r, int64_t ts)
{
	if (r->until_sample--)
		return;
	if (r->n_samples == READING_SAMPLES) {
		for (unsigned i = 0; i < READING_SAMPLES / 2; i++)
			r->samples[i] = r->samples[2 * i];
		r->n_samples /= 2;
		r->stride *= 2;
	}
	r->samples[r->n_samples++] = ts;
	r->until_sample = r->stride - 1;
}

static int append(struct reader *r, struct block_row *row)
{
	int rc;

	if (!(row->flags & TRACE_BROKEN) && (row->dur > LASTS_MAX || row->dur < -LASTS_MAX)) {
		notes_add(r->t, NOTES_FAR_TIME, r->offset, "dur is %lld ns", (long long)row->dur);
		row->flags |= TRACE_BROKEN;
	}
	rc = block_append(&r->t->blocks, row);
	if (!row->ts && !row->dur) {
		r->has_zero = true;
	} else if (!(row->flags & TRACE_BROKEN)) {
		r->least = row->ts < r->least ? row->ts : r->least;
		r->most = row->ts > r->most ? row->ts : r->most;
		sample(r, row->ts);
	}
	if (rc == -E2BIG) {
		notes_add(r->t, NOTES_ROWS_FULL, r->offset, "one row too many");
		return 0;
	}
	if (!rc) {
		r->t->cats[row->cat]++;
		r->t->broken += (row->flags & TRACE_BROKEN) != 0;
		r->t->has_fractions |= (row->flags & TRACE_TS_FRACTION) != 0;
		if (r->t->blocks.rows % TRACE_BLOCK_ROWS == 0)
			rc = finish_budget(r);
	}
	return rc;
}

static void set_row(struct reader *r, struct block_row *row)
{
	const struct event *e = &r->e;

	*row = (struct block_row){
		.ts = e->ts,
		.dur = e->dur,
		.correlation = e->correlation,
		.external = e->external,
		.index = (uint32_t)r->index,
		.name = e->name,
		.stream = e->stream,
		.track = e->track,
		.flags = e->flags,
	};
	if (e->flags & TRACE_HAS_CAT)
		row->cat = cat_of(r, e->cat_text);
	if (!e->has_ts) {
		notes_add(r->t, NOTES_NO_TIME, r->offset, "no ts, or none that is a number");
		row->flags |= TRACE_BROKEN;
	}
	if (e->dur < 0) {
		notes_add(r->t, NOTES_NEGATIVE_DUR, r->offset, "dur is %lld ns", (long long)e->dur);
		row->flags |= TRACE_NEGATIVE_DUR;
	}
	if (!e->pack.n_shared && !e->pack.n_own)
		return;
	r->rc = argset_put(&r->t->args, &e->pack, &row->args);
	if (r->rc == -E2BIG) {
		notes_add(r->t, NOTES_MEMORY_FULL, r->offset, "more than 8 GiB of arguments");
		r->rc = 0;
	}
}

int take_event(struct reader *r)
{
	struct block_row row;
	bool found = true;

	r->t->phases[r->e.phase]++;
	switch (r->e.phase) {
	case 'X':
	case 'B':
	case 'E':
		find_track(r);
		if (!r->rc)
			set_row(r, &row);
		if (!r->rc && r->e.phase != 'X')
			r->rc = pair_event(r, &row, &found);
		if (!r->rc && found)
			r->rc = append(r, &row);
		break;
	case 'i':
	case 'I':
		if (r->e.name && r->e.name == r->text_memory)
			r->rc = take_memory(r);
		break;
	case 'M':
		r->rc = take_metadata(r);
		break;
	case '\0':
		notes_add(r->t, NOTES_EVENT_LOST, r->offset, "an event without ph");
		break;
	default:
		break;
	}
	if (++r->index > UINT32_MAX)
		r->rc = -EOVERFLOW;
	return r->rc;
}

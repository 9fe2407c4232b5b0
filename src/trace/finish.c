/* SPDX-License-Identifier: Apache-2.0
 *
 * finish.c - the budget while a trace is read, and at its end the rules for rows that are
 * no real events (docs/traces.md, "Broken events").
 */
#include <errno.h>
#include <stdlib.h>

#include "base/number.h"
#include "trace/reading.h"

#define SECOND 1000000000LL
#define DAY (86400 * SECOND)
#define LEAST_BUDGET (32ull << 20) /* for texts; less makes no sense */

uint64_t finish_held(const struct reader *r)
{
	const struct trace *t = r->t;

	return t->blocks.bytes + t->texts.bytes + t->args.bytes + tracks_bytes(t) +
	       t->memories.bytes + r->buffers + r->raws.bytes;
}

int finish_budget(struct reader *r)
{
	struct trace *t = r->t;
	uint64_t held = finish_held(r), fixed;
	/* What comes between two looks: a block, texts, and later blocks that are unpacked. */
	uint64_t slack = (1 + BLOCK_CACHE) * sizeof(struct trace_block);
	uint64_t budget = r->budget > slack ? r->budget - slack : 0;
	int rc = 0;

	if (held > t->peak)
		t->peak = held;
	if (held > budget) {
		fixed = held - t->blocks.bytes;
		rc = block_spill(&t->blocks, budget > fixed ? budget - fixed : 0);
		fixed = finish_held(r) - t->args.bytes;
		if (!rc && fixed + t->args.bytes > budget)
			rc = argset_spill(&t->args, budget > fixed ? budget - fixed : 0);
		fixed = finish_held(r) - t->memories.bytes;
		if (!rc && fixed + t->memories.bytes > budget)
			rc = memories_spill(&t->memories, budget > fixed ? budget - fixed : 0);
		t->spilled =
			t->blocks.spilled_bytes + t->args.spilled_bytes + t->memories.spilled_bytes;
	}
	/* What cannot be written out: new texts of args end at half of the budget, names later. */
	fixed = t->texts.bytes + t->args.bytes + tracks_bytes(t);
	budget = r->budget > LEAST_BUDGET ? r->budget : LEAST_BUDGET;
	r->texts_full |= fixed > budget / 2;
	r->names_full |= fixed > budget;
	return rc;
}

void finish_block(const struct trace *t, struct trace_block *b, uint32_t rows)
{
	for (uint32_t i = 0; i < rows; i++) {
		bool zero = t->zero_is_broken && !b->ts[i] && !b->dur[i];

		if (zero || b->ts[i] < t->near_from || b->ts[i] > t->near_to)
			b->flags[i] |= TRACE_BROKEN;
	}
}

static void count_block(struct trace *t, const struct trace_block *b, uint32_t rows, uint32_t k)
{
	for (uint32_t i = 0; i < rows; i++) {
		uint64_t row = (uint64_t)k * TRACE_BLOCK_ROWS + i;

		if (b->flags[i] & TRACE_BROKEN)
			continue;
		t->broken += (t->zero_is_broken && !b->ts[i] && !b->dur[i]) ||
			     b->ts[i] < t->near_from || b->ts[i] > t->near_to;
		if (t->zero_is_broken && !b->ts[i] && !b->dur[i])
			notes_add(t, NOTES_ZERO_EVENT, 0, "row %llu (event %u), %.80s",
				  (unsigned long long)row, b->index[i],
				  trace_text(t, b->name[i], NULL));
		else if (b->ts[i] < t->near_from || b->ts[i] > t->near_to)
			notes_add(t, NOTES_FAR_TIME, 0, "row %llu (event %u), %.80s: ts %lld ns",
				  (unsigned long long)row, b->index[i],
				  trace_text(t, b->name[i], NULL), (long long)b->ts[i]);
	}
}

int finish_trace(struct reader *r)
{
	struct trace *t = r->t;
	uint32_t n = t->blocks.n;
	int64_t middle;

	block_close(&t->blocks);
	pair_close(r);
	tracks_close(t);
	meta_close(t);
	t->near_from = INT64_MIN;
	t->near_to = INT64_MAX;
	if (r->n_samples) {
		qsort(r->samples, r->n_samples, sizeof(*r->samples), number_order_int);
		middle = r->samples[r->n_samples / 2];
		t->zero_is_broken = r->has_zero && r->least >= SECOND;
		if (__builtin_sub_overflow(middle, DAY, &t->near_from))
			t->near_from = INT64_MIN;
		if (__builtin_add_overflow(middle, DAY, &t->near_to))
			t->near_to = INT64_MAX;
	}
	if (!t->zero_is_broken && r->least >= t->near_from && r->most <= t->near_to)
		return 0; /* nothing to look for */
	t->has_rules = true;
	block_forget(&t->blocks); /* they were read without these rules */
	for (uint32_t k = 0; k < n; k++) {
		bool fresh;
		struct trace_block *b = block_get(&t->blocks, k, &fresh);

		if (!b)
			return -EIO;
		count_block(t, b, trace_block_rows(t, k), k);
		if (k == n - 1)
			finish_block(t, b, trace_block_rows(t, k)); /* it is not unpacked later */
	}
	block_forget(&t->blocks);
	return 0;
}

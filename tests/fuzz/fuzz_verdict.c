/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_verdict.c - any trace that can be read gets a verdict, a score and a coverage, and the
 * shares of every step add up to its time exactly.
 */
#include <stdlib.h>
#include <string.h>

#include "analyse/coverage.h"
#include "analyse/score.h"
#include "analyse/syncs.h"
#include "analyse/verdict_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct verdict_shares *s)
{
	int permille[VERDICT_KINDS], tenths = 0;
	int64_t sum = 0;

	verdict_permille(s, permille);
	for (int k = 0; k < VERDICT_KINDS; k++) {
		if (s->ns[k] < 0 || permille[k] < 0)
			abort();
		sum += s->ns[k];
		tenths += permille[k];
	}
	if (sum != s->total || tenths != (s->total > 0 ? 1000 : 0))
		abort();
}

static void judge(struct view *v)
{
	struct verdict_result *r;
	struct coverage *c;
	struct syncs *s;
	struct score score;
	struct buf out;

	buf_init(&out, 1u << 24);
	if (!verdict_new(v, 1, &r)) {
		check(&r->ranks[0].facts.shares);
		for (size_t i = 0; i < r->ranks[0].n_steps; i++)
			check(&r->ranks[0].steps[i].shares);
		verdict_text(r, &out);
		score_of(&r->ranks[0], &score);
		score_text(&score, &out);
		verdict_free(r);
	}
	if (!coverage_new(v, &c)) {
		coverage_text(c, &out);
		coverage_free(c);
	}
	if (!syncs_new(v, &s))
		syncs_free(s);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_options o = {.memory = 64u << 20};
	struct view_options vo = {.rule = VIEW_EXACT};
	struct err e = {0};
	struct trace *t;
	struct view *v;

	if (trace_read_bytes(data, size, &o, &t, &e))
		return 0;
	if (!view_new(&t, 1, &vo, &v)) {
		judge(v);
		view_free(v, 1);
	}
	trace_free(t);
	return 0;
}

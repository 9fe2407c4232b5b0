/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - what is left to chance in a round, drawn before it begins.
 */
#include "round.h"

#include <stdio.h>
#include <string.h>

static uint64_t round_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static unsigned round_below(uint64_t *state, unsigned n)
{
	return (unsigned)(round_random(state) % n);
}

void round_draw(uint64_t seed, unsigned number, struct round_plan *ret)
{
	static const char *const kinds[] = {"s", "f", "a", "h", "sfah", "sft", "ssssf", "fa"};
	static const unsigned rates[] = {0, 0, 1000, 20000, 20000, 200000, 200000, 1000000};
	uint64_t s = seed * 1000003u + number;

	round_random(&s);
	*ret = (struct round_plan){.victim = (enum round_victim)(number % VICTIMS)};
	ret->early = round_below(&s, 8) == 0;
	ret->end_by_kill = round_below(&s, 2);
	ret->end_agent = round_below(&s, 2);
	ret->zombies = round_below(&s, 4) == 0;
	ret->finisher_ms = round_below(&s, 3) ? 0 : 1 + round_below(&s, 60);
	ret->recover_ms = round_below(&s, 2) ? 0 : 1 + round_below(&s, 25);
	ret->handler = round_below(&s, 3) == 0;
	ret->leave = round_below(&s, 4) == 0;
	ret->delay_ms = ret->early ? round_below(&s, 60) : 20 + round_below(&s, 680);
	ret->linger_ms = round_below(&s, 250);
	ret->apart_us = round_below(&s, 4) ? round_below(&s, 3000) : 0;
	ret->order = round_below(&s, 6);
	ret->threads = 1 + round_below(&s, 3);
	ret->children = round_below(&s, 3) ? 0 : 1 + round_below(&s, 3);
	ret->rate = rates[round_below(&s, sizeof(rates) / sizeof(rates[0]))];
	/* A long time at full speed only makes the test slow. */
	if (ret->rate == 0 && ret->delay_ms > 250)
		ret->delay_ms /= 3;
	snprintf(ret->kinds, sizeof(ret->kinds), "%s",
		 kinds[round_below(&s, sizeof(kinds) / sizeof(kinds[0]))]);
	ret->store = (enum round_store)round_below(&s, ROUND_STORES);
	if (ret->store == ROUND_FOLDED && !ret->early) {
		ret->rate = 0; /* folds become due by what there is */
		ret->threads = 3;
		ret->delay_ms = 1500 + round_below(&s, 1500);
	}
	if (ret->store == ROUND_RETAINED && ret->rate < 20000)
		ret->rate = 20000;
	ret->copy_ms = 20 + round_below(&s, 400);
	if (ret->store != ROUND_IN_PLACE && ret->recover_ms == 0 && ret->finisher_ms == 0)
		ret->finisher_ms = 1 + round_below(&s, 120);
}

void round_describe(const struct round_plan *p, struct buf *out)
{
	static const char *const names[VICTIMS] = {"trainer",     "launcher",       "agent",
						   "agent twice", "launcher+agent", "all"};

	buf_printf(out,
		   "kill %s after %u ms%s, apart %u us, order %u, linger %u ms, %u threads, %u "
		   "children%s, rate %u, kinds %s%s%s%s%s",
		   names[p->victim], p->delay_ms, p->early ? " (early)" : "", p->apart_us, p->order,
		   p->linger_ms, p->threads, p->children, p->leave ? " left behind" : "", p->rate,
		   p->kinds, p->handler ? ", handler" : "", p->zombies ? ", zombies" : "",
		   p->end_agent ? ", agent ended" : "", p->end_by_kill ? ", end by kill" : "");
	if (p->store == ROUND_LOCAL)
		buf_printf(out, ", live in a private folder, copied each %u ms", p->copy_ms);
	else if (p->store != ROUND_IN_PLACE)
		buf_puts(out, p->store == ROUND_FOLDED ? ", folded" : ", retained");
	if (p->finisher_ms)
		buf_printf(out, ", finisher killed after %u ms", p->finisher_ms);
	if (p->recover_ms)
		buf_printf(out, ", recovery killed after %u ms", p->recover_ms);
}

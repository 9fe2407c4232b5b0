/* SPDX-License-Identifier: Apache-2.0
 *
 * cover.c - steps that several attempts of a run have: each is shown from the
 * newest segment whose range of steps covers it.
 */
#include "base/mem.h"
#include "store/query_priv.h"

#include <stdlib.h>

void cover_done(struct cover *c)
{
	free(c->own);
	free(c->above);
	*c = (struct cover){0};
}

static void cover_widen(struct cover_span *s, int64_t min, int64_t max)
{
	if (min == SINK_STEP_NONE)
		return;
	if (s->min == SINK_STEP_NONE || min < s->min)
		s->min = min;
	if (s->max == SINK_STEP_NONE || max > s->max)
		s->max = max;
}

void cover_add(struct cover *c, uint32_t segment, int64_t min, int64_t max)
{
	while (c->n <= segment) {
		c->own = xgrow(c->own, c->n, &c->cap, sizeof(*c->own));
		c->own[c->n++] = (struct cover_span){SINK_STEP_NONE, SINK_STEP_NONE};
	}
	cover_widen(&c->own[segment], min, max);
}

void cover_end(struct cover *c)
{
	size_t i;

	free(c->above);
	c->above = xcalloc(c->n + 1, sizeof(*c->above));
	if (c->n)
		c->above[c->n - 1] = (struct cover_span){SINK_STEP_NONE, SINK_STEP_NONE};
	for (i = c->n; i > 1; i--) {
		c->above[i - 2] = c->above[i - 1];
		cover_widen(&c->above[i - 2], c->own[i - 1].min, c->own[i - 1].max);
	}
}

/* May a later segment have steps of [min, max]? */
static bool cover_may(const struct cover *c, uint32_t segment, int64_t min, int64_t max)
{
	return min != SINK_STEP_NONE && segment < c->n && c->above[segment].min != SINK_STEP_NONE &&
	       max >= c->above[segment].min && min <= c->above[segment].max;
}

bool cover_hides(const struct cover *c, uint32_t segment, int64_t step)
{
	size_t i;

	if (!cover_may(c, segment, step, step))
		return false;
	for (i = (size_t)segment + 1; i < c->n; i++)
		if (c->own[i].min != SINK_STEP_NONE && step >= c->own[i].min &&
		    step <= c->own[i].max)
			return true;
	return false;
}

enum cover_how cover_steps(const struct cover *c, uint32_t segment, int64_t min, int64_t max)
{
	enum cover_how how = COVER_NONE;
	size_t i;

	if (!cover_may(c, segment, min, max))
		return COVER_NONE;
	for (i = (size_t)segment + 1; i < c->n; i++) {
		const struct cover_span *s = &c->own[i];

		if (s->min == SINK_STEP_NONE || max < s->min || min > s->max)
			continue;
		if (min >= s->min && max <= s->max)
			return COVER_ALL;
		how = COVER_SOME;
	}
	return how;
}

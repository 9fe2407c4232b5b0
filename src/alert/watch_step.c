/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_step.c - which processes do steps: one ends, another sets the pace.
 */
#include "alert/watch_priv.h"

#define WATCH_STEP_MAX_NS 1e17 /* three years; a longer step is none */

void watch_step(struct watch *w, struct watch_slot *slot, const struct sink_sample *v)
{
	uint32_t p = slot->owner;
	uint8_t is = p < w->n_processes ? w->processes[p] : 0;
	bool is_new = !(is & (WATCH_STEPPED | WATCH_ENDED));
	int64_t end_ns;

	if (p < w->n_processes && is_new) {
		w->processes[p] |= WATCH_STEPPED;
		w->stepping++;
	}
	if (!(v->value >= 0 && v->value <= WATCH_STEP_MAX_NS))
		return;
	end_ns = v->time_ns + (int64_t)v->value;
	if (end_ns > w->step_ns)
		w->step_ns = end_ns;
	/* Who is gone sets no pace by what is read late. */
	if (is & WATCH_ENDED)
		return;
	if (p == w->steps.leader || !w->steps.leader)
		w->step_series = v->series;
	steps_add(&w->steps, p, end_ns, v->step, is_new);
}

void watch_leave(struct watch *w, uint32_t process)
{
	size_t i;

	if (--w->stepping == 0) {
		steps_end(&w->steps);
		return;
	}
	steps_leave(&w->steps, process);
	if (w->step_series >= w->n_slots || w->slots[w->step_series].owner != process)
		return;
	/* What is waited for from now on. */
	for (i = 1; i < w->n_slots; i++) {
		uint32_t p = w->slots[i].owner;

		if ((w->slots[i].flags & WATCH_STEP) && p < w->n_processes &&
		    (w->processes[p] & (WATCH_STEPPED | WATCH_ENDED)) == WATCH_STEPPED) {
			w->step_series = (uint32_t)i;
			return;
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/phase.h"

#include "agent/live.h"
#include "base/mem.h"

#include <string.h>

static bool phase_is_checkpoint(const char *span)
{
	return strstr(span, "checkpoint") || strstr(span, "save");
}

static bool phase_names_aside(const char *span)
{
	static const char *const words[] = {"eval",   "valid",   "test",    "checkpoint", "save",
					    "sanity", "compile", "predict", "generat",    "warm"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (strcasestr(span, words[i]))
			return true;
	return false;
}

bool phase_is_aside(const struct live *l)
{
	size_t i;

	for (i = 0; i < l->n_clients; i++)
		if (client_is_in(l->clients[i], phase_names_aside))
			return true;
	return false;
}

enum phase phase_of(const struct live *l)
{
	bool checkpoint = false;
	uint64_t steps = l->gone.steps_most;
	size_t i;

	for (i = 0; i < l->n_clients; i++) {
		struct client *c = l->clients[i];

		if (c->reader.ctl && c->reader.ctl->steps_done > steps)
			steps = c->reader.ctl->steps_done;
		checkpoint |= client_is_in(c, phase_is_checkpoint);
	}
	if (l->hang.hung)
		return PHASE_STALLED;
	if (checkpoint)
		return PHASE_CHECKPOINT;
	return steps < PHASE_WARMUP_STEPS ? PHASE_WARMUP : PHASE_STEADY;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang.h"

void hang_init(struct hang *h, int64_t after_ns)
{
	*h = (struct hang){.after_ns = after_ns};
}

int64_t hang_timeout(const struct hang *h, bool busy)
{
	int64_t ns = 10 * h->longest_ns > HANG_LEAST_NS ? 10 * h->longest_ns : HANG_LEAST_NS;

	if (h->after_ns > 0)
		return h->after_ns;
	return busy ? ns * HANG_OPEN : ns;
}

enum hang_news hang_check(struct hang *h, int64_t mono_ns, uint64_t records, uint64_t beats,
			  uint64_t cpu_ns, bool busy)
{
	bool first = h->progress_ns == 0, was = h->hung;
	bool progress = first || records != h->records || beats != h->beats ||
			cpu_ns > h->cpu_ns + HANG_CPU_NS;
	int64_t quiet = mono_ns - h->progress_ns;

	h->records = records;
	h->beats = beats;
	h->cpu_ns = cpu_ns;
	if (h->after_ns < 0)
		return HANG_NOTHING;
	if (progress) {
		if (!first && quiet > h->longest_ns)
			h->longest_ns = quiet;
		h->progress_ns = mono_ns;
		h->hung = false;
		return was ? HANG_OVER : HANG_NOTHING;
	}
	if (was || quiet < hang_timeout(h, busy))
		return HANG_NOTHING;
	h->hung = true;
	return HANG_BEGAN;
}

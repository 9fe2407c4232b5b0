/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/timeline.h"

#include <math.h>
#include <string.h>

#define TIMELINE_BASE_NS 50000000  /* shortest stretch that sets the rate */
#define TIMELINE_JUMP_NS 20000000  /* a disagreement larger than this and */
#define TIMELINE_JUMP_SHARE 1e-2   /* than this part of the stretch is a jump */
#define TIMELINE_STEP_NS 100000000 /* wall clock steps smaller than this are slewing */
#define TIMELINE_KEEP_NS 900000000 /* anchors closer than this replace each other */

void timeline_init(struct timeline *t, uint64_t ticks_per_s)
{
	memset(t, 0, sizeof(*t));
	t->ns_per_tick = ticks_per_s ? 1e9 / (double)ticks_per_s : 1.0;
	t->lo = 1; /* an empty stretch: the first look-up searches */
}

/* Does b continue a's line? If not, *ret_ns is what the counter missed. */
static bool timeline_agrees(const struct timeline *t, const struct timeline_anchor *a,
			    const struct timeline_anchor *b, int64_t *ret_ns)
{
	double expected = (double)(int64_t)(b->ticks - a->ticks) * t->ns_per_tick;
	double seen = (double)(b->boot_ns - a->boot_ns);

	/* The first rate is rough: believe the anchors until there is a better. */
	*ret_ns = (int64_t)(seen - expected);
	if (b->ticks <= a->ticks)
		return false;
	return fabs(seen - expected) <= TIMELINE_JUMP_NS ||
	       fabs(seen - expected) <= seen * TIMELINE_JUMP_SHARE;
}

static void timeline_drop(struct timeline *t, unsigned i)
{
	memmove(&t->a[i], &t->a[i + 1], (t->len - i - 1) * sizeof(t->a[0]));
	t->len--;
}

static void timeline_insert(struct timeline *t, unsigned i, const struct timeline_anchor *a)
{
	if (t->len == TIMELINE_MAX) {
		/* Thin out the older half, but keep where epochs begin. */
		unsigned k;

		for (k = 1; k < t->len / 2; k++)
			if (!t->a[k].epoch && !t->a[k + 1].epoch) {
				timeline_drop(t, k);
				if (k < i)
					i--;
			}
		/* All epochs: the first must go. */
		if (t->len == TIMELINE_MAX) {
			timeline_drop(t, 0);
			i = i ? i - 1 : 0;
		}
	}
	memmove(&t->a[i + 1], &t->a[i], (t->len - i) * sizeof(t->a[0]));
	t->a[i] = *a;
	t->len++;
	t->lo = 1;
	t->hi = 0;
}

/* An anchor that comes late: between two of the newest epoch, far from both. */
static void timeline_add_late(struct timeline *t, const struct timeline_anchor *a)
{
	unsigned i = t->len;

	while (i > 0 && t->a[i - 1].boot_ns > a->boot_ns && !t->a[i - 1].epoch)
		i--;
	if (i == 0 && t->len && !t->a[0].epoch && a->ticks < t->a[0].ticks) {
		timeline_insert(t, 0, a);
		return;
	}
	if (i == 0 || i == t->len || t->a[i].ticks <= a->ticks || t->a[i - 1].ticks >= a->ticks)
		return;
	if (a->boot_ns - t->a[i - 1].boot_ns >= TIMELINE_KEEP_NS &&
	    t->a[i].boot_ns - a->boot_ns >= TIMELINE_KEEP_NS)
		timeline_insert(t, i, a);
}

/* Better rate from the newest stretch that is long enough. */
static void timeline_rate(struct timeline *t)
{
	unsigned i = t->len - 1, k = i;

	while (k > 0 && !t->a[k].epoch && t->a[i].boot_ns - t->a[k].boot_ns < 10 * TIMELINE_BASE_NS)
		k--;
	if (t->a[i].boot_ns - t->a[k].boot_ns >= TIMELINE_BASE_NS)
		t->ns_per_tick = (double)(t->a[i].boot_ns - t->a[k].boot_ns) /
				 (double)(t->a[i].ticks - t->a[k].ticks);
}

enum timeline_news timeline_add(struct timeline *t, const struct wire_anchor *anchor,
				int64_t *ret_ns)
{
	struct timeline_anchor a = {anchor->ticks, anchor->boot_ns, anchor->real_ns, false}, last;
	enum timeline_news news = TIMELINE_SAME;
	int64_t ns = 0;

	if (t->len == 0) {
		timeline_insert(t, 0, &a);
		return TIMELINE_SAME;
	}
	last = t->a[t->len - 1];
	if (a.boot_ns <= last.boot_ns) {
		timeline_add_late(t, &a);
		return TIMELINE_SAME;
	}
	if (!timeline_agrees(t, &last, &a, &ns)) {
		a.epoch = true;
		news = TIMELINE_JUMPED;
	} else {
		ns = (a.real_ns - a.boot_ns) - (last.real_ns - last.boot_ns);
		if (ns > TIMELINE_STEP_NS || ns < -TIMELINE_STEP_NS)
			news = TIMELINE_STEPPED;
	}
	/* Keep anchors about a second apart; the newest always. */
	if (news == TIMELINE_SAME && t->len >= 2 && !last.epoch &&
	    a.boot_ns - t->a[t->len - 2].boot_ns < TIMELINE_KEEP_NS)
		timeline_drop(t, t->len - 1);
	timeline_insert(t, t->len, &a);
	if (news != TIMELINE_JUMPED)
		timeline_rate(t);
	if (ret_ns)
		*ret_ns = ns;
	return news;
}

/* The stretch that holds these ticks, newest epoch first: after a counter reset
 * the same ticks exist twice, and what is drained now is most likely new. */
static void timeline_find(struct timeline *t, uint64_t ticks)
{
	unsigned i = t->len - 1;
	struct timeline_anchor *a, *b;

	while (i > 0 && t->a[i].ticks > ticks)
		i--;
	a = &t->a[i];
	b = i + 1 < t->len && !t->a[i + 1].epoch ? a + 1 : NULL;
	t->lo = i == 0 ? 0 : a->ticks;
	/* The next epoch's ticks end it too, unless its counter began again. */
	t->hi = i + 1 < t->len && a[1].ticks > a->ticks ? a[1].ticks : UINT64_MAX;
	t->base_ns = a->boot_ns;
	t->rate = b ? (double)(b->boot_ns - a->boot_ns) / (double)(b->ticks - a->ticks)
		    : t->ns_per_tick;
	/* Look-ups count from lo: for the first stretch that is not a->ticks. */
	if (i == 0)
		t->base_ns -= (int64_t)((double)a->ticks * t->rate);
}

int64_t timeline_boot_ns(struct timeline *t, uint64_t ticks)
{
	if (t->len == 0)
		return 0;
	if (ticks < t->lo || ticks >= t->hi)
		timeline_find(t, ticks);
	return t->base_ns + (int64_t)((double)(ticks - t->lo) * t->rate);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * allocs.c - one pass per device for the line and the peaks, one for what was alive at the
 * peak: blocks are matched by address.
 */
#include "analyse/allocs.h"

#include "analyse/idmap.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct allocs_build {
	const struct tbtree *t;
	const struct tbmemory *m;
};

static bool allocs_is_of(const struct allocs_device *d, const struct trace_memory *e)
{
	return d->type == e->device_type && d->id == e->device;
}

/* The next point; totals that the trace does not tell are summed up. */
static void allocs_point(struct allocs_device *d, const struct trace_memory *e, int64_t *sum)
{
	struct allocs_point *p = &d->points[d->n++];

	*sum += e->bytes;
	p->ts = e->ts;
	p->allocated = e->allocated == TRACE_NONE ? *sum : e->allocated;
	p->reserved = e->allocated == TRACE_NONE || e->reserved <= 0 ? TRACE_NONE : e->reserved;
	d->is_relative = d->is_relative || e->allocated == TRACE_NONE;
}

static void allocs_peaks(struct allocs_device *d)
{
	const struct allocs_point *p;
	size_t i;

	d->reserved_peak = d->unused_peak = d->unused_at_peak = TRACE_NONE;
	for (i = 0; i < d->n; i++) {
		p = &d->points[i];
		if (!i || p->allocated > d->peak) {
			d->peak = p->allocated;
			d->peak_ts = p->ts;
			d->unused_at_peak =
				p->reserved == TRACE_NONE ? TRACE_NONE : p->reserved - p->allocated;
		}
		if (p->reserved == TRACE_NONE)
			continue;
		if (p->reserved > d->reserved_peak) {
			d->reserved_peak = p->reserved;
			d->reserved_peak_ts = p->ts;
		}
		if (p->reserved - p->allocated > d->unused_peak) {
			d->unused_peak = p->reserved - p->allocated;
			d->unused_peak_ts = p->ts;
		}
	}
}

static void allocs_line(struct allocs_build *w, struct allocs_device *d)
{
	const struct trace_memory *e;
	int64_t sum = 0;
	size_t i, n = 0;

	for (i = 0; i < w->m->n_events; i++)
		n += allocs_is_of(d, &w->m->events[i]);
	d->points = xcalloc(n + 1, sizeof(*d->points));
	for (i = 0; i < w->m->n_events; i++) {
		e = &w->m->events[i];
		if (!allocs_is_of(d, e))
			continue;
		if (!d->n)
			d->growth = e->allocated == TRACE_NONE ? 0 : e->bytes - e->allocated;
		allocs_point(d, e, &sum);
		if (e->bytes > 0) {
			d->allocations++;
			d->allocated_bytes += e->bytes;
		} else {
			d->releases++;
			d->released_bytes -= e->bytes;
		}
	}
	/* growth holds minus the bytes before the first event. */
	if (d->n)
		d->growth += d->points[d->n - 1].allocated;
	allocs_peaks(d);
}

/* For each allocation when it was released: place in time's order; UINT32_MAX: never. */
static void allocs_match(struct allocs_build *w, struct allocs_device *d, uint32_t *until)
{
	const struct trace_memory *e;
	struct idmap at;
	uint32_t *slot;
	size_t i;

	idmap_init(&at);
	for (i = 0; i < w->m->n_events; i++) {
		e = &w->m->events[i];
		until[i] = UINT32_MAX;
		if (!allocs_is_of(d, e))
			continue;
		slot = idmap_at(&at, (int64_t)e->address);
		if (e->bytes > 0) {
			*slot = (uint32_t)i;
			d->live++;
			d->live_bytes += e->bytes;
			continue;
		}
		if (*slot == IDMAP_NONE) {
			d->unknown_releases++;
			continue;
		}
		until[*slot] = (uint32_t)i;
		d->live--;
		d->live_bytes -= w->m->events[*slot].bytes;
		*slot = IDMAP_NONE;
	}
	idmap_done(&at);
}

static int allocs_by_bytes(const void *pa, const void *pb)
{
	const struct allocs_owner *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return (a->name > b->name) - (a->name < b->name);
}

/* Owners of the blocks alive at the event `peak` (in time's order). */
static void allocs_alive(struct allocs_build *w, struct allocs_device *d, const uint32_t *until,
			 size_t peak)
{
	const struct trace_memory *e;
	struct idmap names;
	uint32_t *at, node, name;
	size_t i, cap = 0;
	int64_t bytes = 0;

	idmap_init(&names);
	for (i = 0; i <= peak && i < w->m->n_events; i++) {
		e = &w->m->events[i];
		if (!allocs_is_of(d, e) || e->bytes <= 0 ||
		    (until[i] != UINT32_MAX && until[i] <= peak))
			continue;
		node = w->m->node_of[i];
		name = node == TBTREE_NIL ? 0 : w->t->rows->rows[w->t->nodes[node].row].name;
		at = idmap_at(&names, name);
		if (*at == IDMAP_NONE) {
			*at = (uint32_t)d->n_owners;
			if (d->n_owners == cap)
				d->owners = xgrow(d->owners, d->n_owners, &cap, sizeof(*d->owners));
			d->owners[d->n_owners++] = (struct allocs_owner){.name = name};
		}
		d->owners[*at].blocks++;
		d->owners[*at].bytes += e->bytes;
		bytes += e->bytes;
	}
	idmap_done(&names);
	d->before_bytes = !d->is_relative && d->peak > bytes ? d->peak - bytes : 0;
	if (d->n_owners)
		qsort(d->owners, d->n_owners, sizeof(*d->owners), allocs_by_bytes);
}

/* The event at which `allocated` was at its peak. */
static size_t allocs_peak_event(const struct allocs_build *w, const struct allocs_device *d)
{
	size_t i, k = 0;

	for (i = 0; i < w->m->n_events; i++) {
		if (!allocs_is_of(d, &w->m->events[i]))
			continue;
		if (d->points[k].allocated == d->peak && d->points[k].ts == d->peak_ts)
			return i;
		k++;
	}
	return w->m->n_events;
}

static void allocs_device(struct allocs_build *w, struct allocs_device *d, uint32_t *until)
{
	const struct trace_device *dev;
	size_t i, n;

	allocs_line(w, d);
	allocs_match(w, d, until);
	allocs_alive(w, d, until, allocs_peak_event(w, d));
	dev = trace_devices(w->t->rows->trace, &n);
	for (i = 0; d->type != 0 && i < n; i++) {
		if (dev[i].id == d->id)
			d->capacity = dev[i].memory;
	}
}

int allocs_new(const struct tbtree *t, const struct tbmemory *m, struct allocs **ret)
{
	struct allocs_build w = {.t = t, .m = m};
	struct allocs *a = xcalloc(1, sizeof(*a));
	uint32_t *until = xcalloc(m->n_events + 1, sizeof(*until));
	size_t i;

	a->devices = xcalloc(m->n + 1, sizeof(*a->devices));
	for (i = 0; i < m->n; i++) {
		a->devices[i].type = m->devices[i].type;
		a->devices[i].id = m->devices[i].id;
		memcpy(a->devices[i].name, m->devices[i].name, sizeof(a->devices[i].name));
		allocs_device(&w, &a->devices[i], until);
	}
	a->n = m->n;
	free(until);
	*ret = a;
	return 0;
}

void allocs_free(struct allocs *a)
{
	size_t i;

	if (!a)
		return;
	for (i = 0; i < a->n; i++) {
		free(a->devices[i].points);
		free(a->devices[i].owners);
	}
	free(a->devices);
	free(a);
}

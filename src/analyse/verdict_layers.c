/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_layers.c - from rows to layers: which instants have something of each kind, and
 * which windows are the steps.
 */
#include "analyse/verdict_priv.h"

#include "analyse/room.h"

#include <string.h>

int verdict_append(struct verdict_spans *l, int64_t ts, int64_t end)
{
	int rc = room_for(&l->s, l->n, &l->cap, sizeof(*l->s));

	if (rc)
		return rc;
	l->s[l->n++] = (struct view_span){ts, end};
	return 0;
}

int64_t verdict_within(const struct verdict_spans *l, int64_t ts, int64_t end)
{
	size_t lo = 0, hi = l->n;
	int64_t sum = 0;

	while (lo < hi) { /* the first that ends behind ts */
		size_t mid = lo + (hi - lo) / 2;

		if (l->s[mid].end <= ts)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < l->n && l->s[lo].ts < end; lo++) {
		int64_t a = l->s[lo].ts > ts ? l->s[lo].ts : ts;
		int64_t b = l->s[lo].end < end ? l->s[lo].end : end;

		sum += b - a;
	}
	return sum;
}

void verdict_learn_gpu(struct verdict_work *w, const struct view_row *row)
{
	/* Copies and fills are told by category too: their names are theirs alone. */
	w->names[row->name].gpu =
		(uint8_t)(1 + kclass_gpu(trace_text(w->t, row->name, NULL), row->cat));
}

static enum verdict_host host_kind(const char *name, const struct view_row *row)
{
	if (kclass_is_loader(name))
		return HOST_LOADER;
	if (row->cat == TRACE_CAT_CPU_OP && kclass_is_item(name))
		return HOST_ITEM;
	if (kclass_is_collective(name))
		return HOST_COLLECTIVE;
	if (row->cat == TRACE_CAT_USER_ANNOTATION || kclass_is_mark(name))
		return HOST_MARK;
	switch (verdict_is_call(row) ? kclass_call(name) : KCLASS_CALL_OTHER) {
	case KCLASS_CALL_LAUNCH:
		return strstr(name, "emcpy") ? HOST_COPY : HOST_LAUNCH;
	case KCLASS_CALL_GRAPH:
		return HOST_GRAPH;
	case KCLASS_CALL_SYNC:
		return HOST_SYNC;
	default:
		return HOST_PLAIN;
	}
}

void verdict_learn_host(struct verdict_work *w, const struct view_row *row)
{
	w->names[row->name].host = (uint8_t)(1 + host_kind(trace_text(w->t, row->name, NULL), row));
}

void verdict_learn_says(struct verdict_work *w, uint32_t name)
{
	const char *text = trace_text(w->t, name, NULL);
	unsigned says = SAYS_KNOWN;

	says |= kclass_is_tensor(text) ? SAYS_TENSOR : 0;
	says |= strstr(text, "Pageable") ? SAYS_PAGEABLE : 0;
	says |= strstr(text, "DtoH") ? SAYS_TO_HOST : 0;
	says |= view_step_number(text) >= 0 ? SAYS_STEP : 0;
	if (strstr(text, "CompiledFxGraph") || !strncmp(text, "Torch-Compiled Region", 21) ||
	    !strncmp(text, "CompiledFunction", 16))
		says |= SAYS_COMPILED;
	else if (strstr(text, "_SingleProcessDataLoaderIter"))
		says |= SAYS_SINGLE_PROCESS;
	else if (!strcmp(text, "DataParallel.forward"))
		says |= SAYS_DATA_PARALLEL;
	w->names[name].says = (uint8_t)says;
}

static int add_step(struct verdict_rank *r, size_t *cap, int64_t number, int64_t ts, int64_t end)
{
	int rc = room_for(&r->steps, r->n_steps, cap, sizeof(*r->steps));

	if (rc)
		return rc;
	memset(&r->steps[r->n_steps], 0, sizeof(*r->steps));
	r->steps[r->n_steps].number = number;
	r->steps[r->n_steps].ts = ts;
	r->steps[r->n_steps++].end = end;
	return 0;
}

/* Steps as marked. Overlapping or repeated marks are cut at the next one's begin. */
static int marked_steps(struct verdict_work *w, size_t *cap)
{
	const struct view *v = w->v;
	int rc = 0;

	for (size_t i = 0; i < v->n_steps && !rc; i++) {
		const struct view_step *s = &v->steps[i], *next = s + 1;
		int64_t end = s->end;
		bool has_next = i + 1 < v->n_steps;

		if (has_next && (next->ts < end || next->number == s->number + 1))
			end = next->ts;
		if (end > s->ts)
			rc = add_step(w->r, cap, s->number, s->ts, end);
	}
	return rc;
}

int verdict_windows(struct verdict_work *w)
{
	const struct view *v = w->v;
	int64_t from = INT64_MAX, to = INT64_MIN;
	size_t cap = 0;
	int rc;

	w->r->n_steps = 0;
	rc = marked_steps(w, &cap);
	w->r->has_marks = w->r->n_steps > 0;
	if (!rc && !w->r->n_steps) {
		for (size_t i = 0; i < v->n; i++) {
			const struct view_row *row = &v->rows[i];

			/* The profiler's own last wait is not the program's. */
			if (!verdict_is_gpu(row) && row->cat != TRACE_CAT_CPU_OP &&
			    row->cat != TRACE_CAT_USER_ANNOTATION &&
			    !(verdict_is_call(row) && verdict_host_kind(w, row) != HOST_SYNC))
				continue;
			from = row->ts < from ? row->ts : from;
			to = row->end > to ? row->end : to;
		}
		if (from < to)
			rc = add_step(w->r, &cap, -1, from, to);
	}
	if (rc)
		return rc;
	w->from = w->r->n_steps ? w->r->steps[0].ts : 0;
	w->to = w->r->n_steps ? w->r->steps[w->r->n_steps - 1].end : 0;
	return 0;
}

static enum verdict_layer gpu_layer(enum verdict_kind kind)
{
	switch (kind) {
	case VERDICT_MEMORY:
		return LAYER_MEMORY;
	case VERDICT_COPY:
		return LAYER_COPY;
	case VERDICT_COMMUNICATION:
		return LAYER_COMM;
	default:
		return LAYER_COMPUTE;
	}
}

static enum verdict_layer host_layer(struct verdict_work *w, const struct view_row *row)
{
	switch (verdict_host_kind(w, row)) {
	case HOST_LOADER:
		return LAYER_DATA;
	case HOST_SYNC:
		return LAYER_SYNC;
	case HOST_COLLECTIVE:
		return LAYER_COLLECTIVE;
	case HOST_MARK: /* covers what it marks and says nothing of it */
		return LAYERS;
	default:
		return LAYER_WORK;
	}
}

static enum verdict_layer layer_of(struct verdict_work *w, const struct view_row *row)
{
	if (verdict_is_gpu(row))
		return gpu_layer(verdict_gpu_kind(w, row));
	if (row->cat == TRACE_CAT_OVERHEAD)
		return LAYER_OVERHEAD;
	return verdict_is_host(row) ? host_layer(w, row) : LAYERS;
}

/* LAYER_HOST: what none of the host's layers covers, where it is long. */
static int add_uncovered(struct verdict_work *w)
{
	struct verdict_spans all = {NULL, 0, 0};
	size_t at[LAYERS] = {0};
	int64_t t = w->from;
	int rc = 0;

	for (;;) { /* merge of the layers by ts */
		enum verdict_layer best = LAYERS;

		for (enum verdict_layer l = LAYER_OVERHEAD; l < LAYER_HOST; l++)
			if (at[l] < w->layer[l].n &&
			    (best == LAYERS ||
			     w->layer[l].s[at[l]].ts < w->layer[best].s[at[best]].ts))
				best = l;
		if (best == LAYERS || rc)
			break;
		rc = verdict_add(&all, w->layer[best].s[at[best]].ts,
				 w->layer[best].s[at[best]].end);
		at[best]++;
	}
	for (size_t i = 0; i <= all.n && !rc; i++) {
		int64_t next = i < all.n ? all.s[i].ts : w->to;

		if (next - t >= VERDICT_HOST_NS)
			rc = verdict_add(&w->layer[LAYER_HOST], t, next);
		if (i < all.n && all.s[i].end > t)
			t = all.s[i].end;
	}
	free(all.s);
	return rc;
}

/* A row in which the host waits: the profiler, the GPU, or room in a queue. */
static bool is_blocked(struct verdict_work *w, const struct view_row *row)
{
	if (row->cat == TRACE_CAT_OVERHEAD)
		return true;
	if (!verdict_is_host(row))
		return false;
	switch (verdict_host_kind(w, row)) {
	case HOST_SYNC:
		return true;
	case HOST_LAUNCH:
	case HOST_GRAPH:
		return row->end - row->ts >= VERDICT_BLOCKED_NS;
	default:
		return false;
	}
}

int verdict_layers(struct verdict_work *w)
{
	const struct view *v = w->v;

	for (size_t i = 0; i < v->n; i++) {
		const struct view_row *row = &v->rows[i];
		enum verdict_layer l;
		int rc;

		if (row->cat == TRACE_CAT_PYTHON_FUNCTION)
			w->has_python = true;
		if (row->end <= w->from || row->ts >= w->to)
			continue;
		l = layer_of(w, row);
		if (l == LAYERS)
			continue;
		if (l <= LAYER_COMM)
			w->has_gpu = true;
		else if (l != LAYER_OVERHEAD)
			w->has_host = true;
		rc = verdict_add(&w->layer[l], row->ts, row->end);
		if (!rc && is_blocked(w, row))
			rc = verdict_add(&w->blocked, row->ts, row->end);
		if (rc)
			return rc;
	}
	return w->has_host ? add_uncovered(w) : 0;
}

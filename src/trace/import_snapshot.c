/* SPDX-License-Identifier: Apache-2.0
 *
 * import_snapshot.c - segments and blocks added up by device, and the history replayed
 * backwards in thought: what lives at the end less all that happened is what lived before.
 */
#include "trace/import_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct work {
	const struct import_tree *t;
	struct import_snapshot *s;
	int rc;
};

/* Sums of foreign numbers: stay within 64 bits. */
static void add(int64_t *sum, int64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = v > 0 ? INT64_MAX : INT64_MIN;
}

static struct import_snapshot_device *device(struct import_snapshot *s, int64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->devices[i].device == id)
			return &s->devices[i];
	if (s->n == IMPORT_DEVICES_MAX) {
		s->skipped++;
		return NULL;
	}
	s->devices[s->n] = (struct import_snapshot_device){.device = id, .peak_us = -1};
	return &s->devices[s->n++];
}

static int64_t number(const struct import_tree *t, import_ref of, const char *key)
{
	int64_t v = import_int(t, import_get(t, of, key), 0);

	return v > 0 ? v : 0;
}

/* "file.py:12 name", without what would end a frame. */
static void put_frame(struct import_folded *out, const struct import_tree *t, import_ref frame)
{
	static const char *const keys[] = {"filename", "name"};
	int64_t line = import_int(t, import_get(t, frame, "line"), 0);

	for (int k = 0; k < 2; k++) {
		size_t len = 0;
		const char *p = import_text(t, import_get(t, frame, keys[k]), &len);

		if (p)
			import_folded_frame(out, p, len);
		if (!k)
			buf_printf(&out->text, ":%lld ", (long long)line);
	}
}

/* Not a Python file, and not "<stdin>" or the like. */
static bool is_native(const struct import_tree *t, import_ref frame)
{
	size_t len = 0;
	const char *p = import_text(t, import_get(t, frame, "filename"), &len);

	return !p || !len || !(*p == '<' || (len > 3 && !memcmp(p + len - 3, ".py", 3)));
}

/* The frames of a block, innermost first in the file, as a stack from the root; those of
 * native code only where there are no others. */
static int put_stack(struct work *w, import_ref frames, int64_t bytes)
{
	const struct import_tree *t = w->t;
	import_ref stack[256];
	size_t at = w->s->live.text.len, n = 0;
	bool has_python = false;

	for (uint32_t c = import_first(t, frames); c != IMPORT_NULL; c = import_next(t, c))
		has_python |= !is_native(t, import_item(t, c));
	for (uint32_t c = import_first(t, frames); c != IMPORT_NULL && n < 256;
	     c = import_next(t, c))
		if (!has_python || !is_native(t, import_item(t, c)))
			stack[n++] = import_item(t, c);
	if (!n)
		buf_puts(&w->s->live.text, "(no stack recorded)");
	while (n) {
		put_frame(&w->s->live, t, stack[--n]);
		if (n)
			buf_putc(&w->s->live.text, ';');
	}
	return import_folded_add(&w->s->live, at, (double)bytes);
}

static void read_block(struct work *w, struct import_snapshot_device *d, import_ref block,
		       int64_t *used)
{
	const struct import_tree *t = w->t;
	import_ref state = import_get(t, block, "state"), history = import_get(t, block, "history");
	import_ref frames = import_get(t, block, "frames");
	int64_t size = number(t, block, "size");

	d->blocks++;
	if (import_is(t, state, "active_pending_free")) {
		add(&d->pending, size);
		add(used, size);
	} else if (import_is(t, state, "active_allocated")) {
		d->live++;
		add(&d->allocated, size);
		add(&d->requested, number(t, block, "requested_size"));
		add(used, size);
		if (frames == IMPORT_NULL) /* before 2.1: within the history */
			frames = import_get(t, import_at(t, history, 0), "frames");
		if (!w->rc)
			w->rc = put_stack(w, frames, size);
	} else if (size > d->largest_free) {
		d->largest_free = size;
	}
}

static void read_segment(struct work *w, import_ref segment)
{
	const struct import_tree *t = w->t;
	struct import_snapshot_device *d =
		device(w->s, import_int(t, import_get(t, segment, "device"), 0));
	import_ref blocks = import_get(t, segment, "blocks");
	int64_t total = number(t, segment, "total_size"), used = 0;

	if (!d)
		return;
	d->segments++;
	add(&d->reserved, total);
	for (uint32_t c = import_first(t, blocks); c != IMPORT_NULL; c = import_next(t, c))
		read_block(w, d, import_item(t, c), &used);
	add(&d->free, total > used ? total - used : 0);
}

static const struct action {
	const char *name;
	int sign, segment; /* of the allocated and of the reserved bytes */
	size_t counter;
} actions[] = {
	{"alloc", 1, 0, offsetof(struct import_snapshot_device, allocs)},
	/* The program lets go at free_requested; the allocator may reuse at free_completed. */
	{"free_requested", -1, 0, offsetof(struct import_snapshot_device, frees)},
	{"free", -1, 0, offsetof(struct import_snapshot_device, frees)},
	{"segment_alloc", 0, 1, offsetof(struct import_snapshot_device, segment_allocs)},
	{"segment_map", 0, 1, offsetof(struct import_snapshot_device, segment_allocs)},
	{"segment_free", 0, -1, offsetof(struct import_snapshot_device, segment_frees)},
	{"segment_unmap", 0, -1, offsetof(struct import_snapshot_device, segment_frees)},
	{"oom", 0, 0, offsetof(struct import_snapshot_device, ooms)},
	{NULL, 0, 0, 0},
};

static const struct action *action_of(const struct import_tree *t, import_ref event)
{
	import_ref name = import_get(t, event, "action");
	const struct action *a = actions;

	while (a->name && !import_is(t, name, a->name))
		a++;
	return a;
}

static int keep_event(struct import_snapshot *s, const struct import_snapshot_event *h)
{
	if (s->n_history == s->cap_history) {
		size_t cap = s->cap_history ? s->cap_history * 2 : 256;
		struct import_snapshot_event *list = realloc(s->history, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		s->history = list;
		s->cap_history = cap;
	}
	s->history[s->n_history++] = *h;
	return 0;
}

/* What the history tells of the bytes that the program holds, event by event. */
static void keep_history(struct work *w, const struct import_snapshot_device *d, import_ref events,
			 int64_t reserved)
{
	const struct import_tree *t = w->t;
	struct import_snapshot_event h = {
		.device = d->device, .allocated = d->begin, .reserved = reserved};

	for (uint32_t c = import_first(t, events); c != IMPORT_NULL && !w->rc;
	     c = import_next(t, c)) {
		import_ref event = import_item(t, c);
		const struct action *a = action_of(t, event);

		h.us = import_int(t, import_get(t, event, "time_us"), -1);
		h.bytes = a->sign * number(t, event, "size");
		h.address = (uint64_t)import_int(t, import_get(t, event, "addr"), 0);
		add(&h.allocated, h.bytes);
		add(&h.reserved, a->segment * number(t, event, "size"));
		if (a->sign && h.us >= 0 && h.us < INT64_MAX / 1000)
			w->rc = keep_event(w->s, &h);
	}
}

static void replay(struct work *w, struct import_snapshot_device *d, import_ref events)
{
	const struct import_tree *t = w->t;
	int64_t net = 0, now, segments = 0;

	for (uint32_t c = import_first(t, events); c != IMPORT_NULL; c = import_next(t, c)) {
		const struct action *a = action_of(t, import_item(t, c));

		d->events++;
		if (a->name)
			++*(uint64_t *)((char *)d + a->counter);
		add(&net, a->sign * number(t, import_item(t, c), "size"));
		add(&segments, a->segment * number(t, import_item(t, c), "size"));
	}
	d->end = d->allocated;
	d->begin = d->allocated > net ? d->allocated - net : 0;
	now = d->peak = d->begin;
	for (uint32_t c = import_first(t, events); c != IMPORT_NULL; c = import_next(t, c)) {
		import_ref event = import_item(t, c);

		add(&now, action_of(t, event)->sign * number(t, event, "size"));
		if (now > d->peak) {
			d->peak = now;
			d->peak_us = import_int(t, import_get(t, event, "time_us"), -1);
		}
	}
	keep_history(w, d, events, d->reserved > segments ? d->reserved - segments : 0);
}

int import_snapshot(const void *data, size_t len, struct import_snapshot *ret, struct err *e)
{
	struct import_snapshot s = {.n = 0};
	struct import_tree t;
	struct work w = {&t, &s, 0};
	import_ref segments, traces;
	int64_t id = 0;
	int rc = import_pickle(data, len, &t, e);

	if (rc)
		return rc;
	buf_init(&s.live.text, IMPORT_FILE_MAX);
	segments = import_type(&t, t.root) == IMPORT_LIST ? t.root : /* before 2.0 */
			   import_get(&t, t.root, "segments");
	traces = import_get(&t, t.root, "device_traces");
	if (import_type(&t, segments) != IMPORT_LIST)
		w.rc = err_set(e, -EBADMSG, "no memory snapshot: no \"segments\" in the pickle");
	for (uint32_t c = import_first(&t, segments); c != IMPORT_NULL && !w.rc;
	     c = import_next(&t, c))
		read_segment(&w, import_item(&t, c));
	for (uint32_t c = import_first(&t, traces); c != IMPORT_NULL && !w.rc;
	     c = import_next(&t, c), id++) {
		struct import_snapshot_device *d =
			import_count(&t, import_item(&t, c)) ? device(&s, id) : NULL;

		if (d)
			replay(&w, d, import_item(&t, c));
	}
	import_tree_done(&t);
	if (w.rc) {
		import_snapshot_done(&s);
		return err_set(e, w.rc, "the memory snapshot cannot be read");
	}
	memcpy(s.live.unit, "bytes", 6);
	memcpy(s.live.what, "memory snapshot", 16);
	*ret = s;
	return 0;
}

void import_snapshot_done(struct import_snapshot *s)
{
	import_folded_done(&s->live);
	free(s->history);
	s->history = NULL;
	s->n_history = s->cap_history = 0;
}

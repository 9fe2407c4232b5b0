/* SPDX-License-Identifier: Apache-2.0
 *
 * tracks.c - pairs of pid and tid as small numbers, and their names, which metadata
 * events give before or after the rows.
 */
#include "trace/reading.h"

#include <errno.h>
#include <stdlib.h>

#include "trace/decimal.h"

#define WHOLE_PROCESS UINT32_MAX

static uint32_t mix(uint32_t pid, uint32_t tid)
{
	uint64_t h = ((uint64_t)pid << 32 | tid) * 0x9e3779b97f4a7c15u;

	return (uint32_t)(h >> 32);
}

int64_t tracks_number(const char *text, bool *ret_stream)
{
	size_t len = strlen(text);
	unsigned flags;
	int64_t v;

	*ret_stream = !strncmp(text, "stream ", 7);
	if (*ret_stream) {
		text += 7;
		len -= 7;
	}
	while (len && text[len - 1] == ' ')
		len--;
	if (len && decimal_read((const unsigned char *)text, len, 0, &v, &flags) == len)
		return v;
	*ret_stream = false;
	return TRACE_NONE;
}

static int grow_slots(struct tracks_list *l)
{
	uint32_t n = l->n_slots ? l->n_slots * 2 : 256;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t at = mix(l->tracks[i].pid_text, l->tracks[i].tid_text) & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = i + 1;
	}
	free(l->slots);
	l->slots = slots;
	l->n_slots = n;
	return 0;
}

static int add(struct trace *t, uint32_t pid, uint32_t tid)
{
	struct tracks_list *l = &t->tracks;
	struct trace_track *x;
	bool is_stream;

	if (l->n == l->cap) {
		uint32_t cap = l->cap * 2 + 64;

		x = realloc(l->tracks, cap * sizeof(*x));
		if (!x)
			return -ENOMEM;
		l->tracks = x;
		l->cap = cap;
	}
	x = &l->tracks[l->n++];
	*x = (struct trace_track){.pid_text = pid, .tid_text = tid, .sort_index = TRACE_NONE};
	x->pid = tracks_number(trace_text(t, pid, NULL), &is_stream);
	x->tid = tracks_number(trace_text(t, tid, NULL), &x->tid_is_stream);
	return 0;
}

int tracks_put(struct trace *t, uint32_t pid, uint32_t tid, uint16_t *ret, uint64_t offset)
{
	struct tracks_list *l = &t->tracks;
	uint32_t at;
	int rc;

	if (l->n >= l->n_slots / 2) {
		rc = grow_slots(l);
		if (rc)
			return rc;
	}
	for (at = mix(pid, tid) & (l->n_slots - 1); l->slots[at];
	     at = (at + 1) & (l->n_slots - 1)) {
		const struct trace_track *x = &l->tracks[l->slots[at] - 1];

		if (x->pid_text == pid && x->tid_text == tid) {
			*ret = (uint16_t)(l->slots[at] - 1);
			return 0;
		}
	}
	if (l->n > UINT16_MAX) {
		notes_add(t, NOTES_TRACKS_FULL, offset, "pid %.60s, tid %.60s is one too many",
			  trace_text(t, pid, NULL), trace_text(t, tid, NULL));
		*ret = UINT16_MAX;
		return 0;
	}
	rc = add(t, pid, tid);
	if (rc)
		return rc;
	l->slots[at] = l->n;
	*ret = (uint16_t)(l->n - 1);
	return 0;
}

static uint32_t *name_slot(const struct tracks_list *l, uint32_t pid, uint32_t tid)
{
	uint32_t at = mix(pid, tid) & (l->n_name_slots - 1);

	for (; l->name_slots[at]; at = (at + 1) & (l->n_name_slots - 1)) {
		const struct tracks_name *x = &l->names[l->name_slots[at] - 1];

		if (x->pid == pid && x->tid == tid)
			break;
	}
	return &l->name_slots[at];
}

static int grow_names(struct tracks_list *l)
{
	uint32_t n = l->n_name_slots ? l->n_name_slots * 2 : 256;
	uint32_t *slots = calloc(n, sizeof(*slots));
	struct tracks_name *names = realloc(l->names, n / 2 * sizeof(*names));

	if (names)
		l->names = names;
	if (!slots || !names) {
		free(slots);
		return -ENOMEM;
	}
	free(l->name_slots);
	l->name_slots = slots;
	l->n_name_slots = n;
	for (uint32_t i = 0; i < l->n_names; i++)
		*name_slot(l, names[i].pid, names[i].tid) = i + 1;
	return 0;
}

int tracks_metadata(struct trace *t, const struct event *e, const struct trace_track *where)
{
	struct tracks_list *l = &t->tracks;
	const char *kind = trace_text(t, e->name, NULL);
	bool thread = !strncmp(kind, "thread_", 7);
	struct tracks_name *x;
	uint32_t tid = thread ? where->tid_text : WHOLE_PROCESS;
	uint32_t *slot;

	if (!thread && strncmp(kind, "process_", 8) != 0)
		return 0;
	if (l->n_names + 1 >= l->n_name_slots / 2 && grow_names(l))
		return -ENOMEM;
	slot = name_slot(l, where->pid_text, tid);
	if (!*slot) {
		l->names[l->n_names++] = (struct tracks_name){
			.pid = where->pid_text, .tid = tid, .sort_index = TRACE_NONE};
		*slot = l->n_names;
	}
	x = &l->names[*slot - 1];
	kind = strchr(kind, '_') + 1;
	if (!strcmp(kind, "name"))
		x->name = e->label;
	else if (!strcmp(kind, "labels"))
		x->labels = e->label;
	else if (!strcmp(kind, "sort_index"))
		x->sort_index = e->sort_index;
	return 0;
}

void tracks_close(struct trace *t)
{
	struct tracks_list *l = &t->tracks;

	for (uint32_t i = 0; i < l->n && l->n_names; i++) {
		struct trace_track *x = &l->tracks[i];
		uint32_t at = *name_slot(l, x->pid_text, x->tid_text);

		if (at) {
			x->name = l->names[at - 1].name;
			x->sort_index = l->names[at - 1].sort_index;
		}
		at = *name_slot(l, x->pid_text, WHOLE_PROCESS);
		if (at) {
			x->process_name = l->names[at - 1].name;
			x->process_labels = l->names[at - 1].labels;
		}
	}
	free(l->names);
	free(l->name_slots);
	l->names = NULL;
	l->name_slots = NULL;
	l->n_names = l->n_name_slots = 0;
}

void tracks_done(struct trace *t)
{
	free(t->tracks.tracks);
	free(t->tracks.slots);
	free(t->tracks.names);
	free(t->tracks.name_slots);
	t->tracks = (struct tracks_list){0};
}

uint64_t tracks_bytes(const struct trace *t)
{
	const struct tracks_list *l = &t->tracks;

	return l->cap * sizeof(*l->tracks) + (uint64_t)l->n_slots * sizeof(*l->slots) +
	       (uint64_t)l->n_name_slots * (sizeof(*l->name_slots) + sizeof(*l->names) / 2);
}

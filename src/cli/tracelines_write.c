/* SPDX-License-Identifier: Apache-2.0
 *
 * tracelines_write.c - the bytes of a timeline.
 */
#include "cli/tracelines.h"

#include "base/mem.h"
#include "cli/tracecmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tracelines_names[TRACELINES_CATEGORIES] = {
	"other", "operator", "annotation", "kernel", "communication", "copy",
	"set",   "runtime",  "python",     "wait",   "overhead",
};

static const char *const tracelines_kinds[LANES_KINDS] = {"host", "device", "mark"};

static double tracelines_ms(const struct tracelines *l, int64_t ns)
{
	return (double)(ns - l->first) / 1e6;
}

static void tracelines_pad(struct buf *b, char with)
{
	while (b->len % 8 && !b->error)
		buf_putc(b, with);
}

void tracelines_place(struct json *j, const struct trace *t, uint16_t track, enum lanes_kind kind)
{
	const struct trace_track *k = trace_track(t, track);
	const char *process = trace_text(t, k->process_name, NULL);
	const char *labels = trace_text(t, k->process_labels, NULL);
	const char *thread = trace_text(t, k->name, NULL);
	char *text;

	if (*labels && strcmp(labels, "CPU") != 0)
		text = xstrdup(labels);
	else
		text = xasprintf("%s%s%s", process, *process ? " " : "",
				 trace_text(t, k->pid_text, NULL));
	json_kstr(j, "process", text);
	free(text);
	if (*thread)
		text = xstrdup(thread);
	else
		text = xasprintf("thread %s", trace_text(t, k->tid_text, NULL));
	json_kstr(j, "thread", text);
	free(text);
	json_kstr(j, "kind", tracelines_kinds[kind]);
}

static void tracelines_lane_json(struct json *j, const struct tracelines *l, size_t i)
{
	json_object(j);
	tracelines_place(j, l->t, l->lanes[i].track, l->lanes[i].kind);
	json_kuint(j, "depths", l->lanes[i].depths);
	json_kuint(j, "events", l->lanes[i].events);
	json_object_end(j);
}

static void tracelines_notes(struct json *j, const struct tracelines *l)
{
	const struct trace_note *notes;
	size_t n, i;
	char *text;

	notes = trace_notes(l->t, &n);
	json_key(j, "notes");
	json_array(j);
	if (l->shortest > 0) {
		text = xasprintf("More than %u events in this part: those below %" PRId64
				 " ns are left out.",
				 TRACELINES_HELD, l->shortest);
		json_str(j, text);
		free(text);
	}
	for (i = 0; i < n && i < 20; i++) {
		text = xasprintf("%s (%" PRIu64 ")", trace_note_rows[notes[i].kind].meaning,
				 notes[i].count);
		json_str(j, text);
		free(text);
	}
	json_array_end(j);
}

static void tracelines_head(const struct tracelines *l, struct buf *b)
{
	const struct trace_meta *meta = trace_meta(l->t);
	char base[32];
	struct json j;
	size_t i;

	json_init(&j, b);
	json_object(&j);
	json_kstr(&j, "file", tracecmd_name(trace_path(l->t)));
	json_key(&j, "rank");
	if (meta->rank == TRACE_NONE)
		json_null(&j);
	else
		json_int(&j, meta->rank);
	snprintf(base, sizeof(base), "%" PRId64, meta->base_ns + l->first);
	json_kstr(&j, "base_ns", meta->base_ns ? base : NULL);
	json_kdouble(&j, "first_ms", 0);
	json_kdouble(&j, "last_ms", tracelines_ms(l, l->last));
	json_kdouble(&j, "from_ms", l->from > l->to ? 0 : tracelines_ms(l, l->from));
	json_kdouble(&j, "to_ms", l->from > l->to ? 0 : tracelines_ms(l, l->to));
	json_kuint(&j, "events", l->in_range);
	json_kuint(&j, "bars", l->n);
	json_kdouble(&j, "merged_ms", (double)l->merged_ns / 1e6);
	json_kuint(&j, "left_out", l->left_out);
	json_key(&j, "categories");
	json_array(&j);
	for (i = 0; i < TRACELINES_CATEGORIES; i++)
		json_str(&j, tracelines_names[i]);
	json_array_end(&j);
	json_key(&j, "lanes");
	json_array(&j);
	for (i = 0; i < l->n_lanes; i++)
		tracelines_lane_json(&j, l, i);
	json_array_end(&j);
	json_key(&j, "steps");
	json_array(&j);
	for (i = 0; i < l->n_steps; i++) {
		json_array(&j);
		json_int(&j, l->steps[i].number);
		json_double(&j, tracelines_ms(l, l->steps[i].ts));
		json_double(&j, tracelines_ms(l, l->steps[i].end));
		json_array_end(&j);
	}
	json_array_end(&j);
	tracelines_notes(&j, l);
	json_object_end(&j);
	tracelines_pad(b, ' ');
}

static void tracelines_u32(struct buf *b, uint32_t v)
{
	uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};

	buf_append(b, bytes, 4);
}

/* Names in the order of their first bar; the bars' names become places among them. */
static uint32_t tracelines_texts(struct tracelines *l, struct buf *offsets, struct buf *texts)
{
	uint32_t *place = xcalloc((size_t)trace_texts(l->t) + 1, sizeof(*place)), n = 0;
	const char *text;
	size_t i, len;

	for (i = 0; i < l->n; i++) {
		uint32_t *at = &place[l->bars[i].name < trace_texts(l->t) ? l->bars[i].name : 0];

		if (!*at) {
			text = trace_text(l->t, l->bars[i].name, &len);
			tracelines_u32(offsets, (uint32_t)texts->len);
			buf_append(texts, text, len);
			*at = ++n;
		}
		l->bars[i].name = *at - 1;
	}
	tracelines_u32(offsets, (uint32_t)texts->len);
	free(place);
	return n;
}

static uint32_t tracelines_rows(const struct tracelines *l, struct buf *b)
{
	size_t i, k;
	uint32_t n = 0;

	for (i = 0; i < l->n; i = k) {
		for (k = i; k < l->n && l->bars[k].lane == l->bars[i].lane &&
			    l->bars[k].depth == l->bars[i].depth;)
			k++;
		tracelines_u32(b, l->bars[i].lane);
		tracelines_u32(b, l->bars[i].depth);
		tracelines_u32(b, (uint32_t)i);
		tracelines_u32(b, (uint32_t)(k - i));
		n++;
	}
	return n;
}

static void tracelines_columns(const struct tracelines *l, struct buf *b)
{
	uint64_t bits;
	uint32_t word;
	double ms;
	float dur;
	size_t i;

	for (i = 0; i < l->n; i++) {
		ms = tracelines_ms(l, l->bars[i].ts);
		memcpy(&bits, &ms, 8);
		tracelines_u32(b, (uint32_t)bits);
		tracelines_u32(b, (uint32_t)(bits >> 32));
	}
	for (i = 0; i < l->n; i++) {
		dur = (float)((double)l->bars[i].dur / 1e6);
		memcpy(&word, &dur, 4);
		tracelines_u32(b, word);
	}
	tracelines_pad(b, 0);
	for (i = 0; i < l->n; i++)
		tracelines_u32(b, l->bars[i].name);
	tracelines_pad(b, 0);
	for (i = 0; i < l->n; i++)
		tracelines_u32(b, l->bars[i].count);
	tracelines_pad(b, 0);
	for (i = 0; i < l->n; i++)
		tracelines_u32(b, l->bars[i].index);
	tracelines_pad(b, 0);
	for (i = 0; i < l->n; i++)
		buf_putc(b, (char)l->bars[i].category);
	tracelines_pad(b, 0);
}

void tracelines_write(struct tracelines *l, struct buf *out)
{
	struct buf head, rows, offsets, texts;
	uint32_t n_names, n_rows;

	buf_init(&head, TRACELINES_MAX);
	buf_init(&rows, TRACELINES_MAX);
	buf_init(&offsets, TRACELINES_MAX);
	buf_init(&texts, TRACELINES_MAX);
	tracelines_head(l, &head);
	n_names = tracelines_texts(l, &offsets, &texts);
	n_rows = tracelines_rows(l, &rows);
	buf_append(out, "LTL2", 4);
	tracelines_u32(out, (uint32_t)head.len);
	tracelines_u32(out, (uint32_t)l->n);
	tracelines_u32(out, n_rows);
	tracelines_u32(out, n_names);
	tracelines_u32(out, (uint32_t)texts.len);
	buf_append(out, head.data, head.len);
	buf_append(out, buf_str(&rows), rows.len);
	tracelines_columns(l, out);
	buf_append(out, buf_str(&offsets), offsets.len);
	tracelines_pad(out, 0);
	buf_append(out, buf_str(&texts), texts.len);
	if (!out->error && (head.error || rows.error || offsets.error || texts.error))
		out->error = -EFBIG;
	buf_done(&head);
	buf_done(&rows);
	buf_done(&offsets);
	buf_done(&texts);
}

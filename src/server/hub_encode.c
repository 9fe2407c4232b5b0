/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_encode.c - see hub_encode.h: the frame of events, and all of them but points.
 */
#include "server/hub_encode.h"

#include "base/mem.h"
#include "report/events.h"
#include "report/runview.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HUB_BYTES_MAX (64u << 20) /* of a batch: points are bounded, events by the store */
#define HUB_LABEL_MAX 4096u

void hub_frame(struct buf *out, struct json *j, const char *id, const char *event, const char *run)
{
	if (id)
		buf_printf(out, "id: %s\n", id);
	buf_printf(out, "event: %s\ndata: ", event);
	json_init(j, out);
	json_object(j);
	if (run)
		json_kstr(j, "run", run);
}

void hub_frame_end(struct buf *out, struct json *j)
{
	json_object_end(j);
	buf_puts(out, "\n\n");
}

char *hub_id(char out[HUB_ID_MAX], const char *boot, uint64_t seq)
{
	snprintf(out, HUB_ID_MAX, "%.8s-%" PRIu64, boot, seq);
	return out;
}

bool hub_id_parse(const char *text, const char *boot, uint64_t *ret)
{
	size_t n = strlen(boot);
	char back[HUB_ID_MAX];
	uint64_t seq;

	if (strncmp(text, boot, n) || text[n] != '-')
		return false;
	seq = strtoull(text + n + 1, NULL, 10);
	if (strcmp(hub_id(back, boot, seq), text))
		return false;
	*ret = seq;
	return true;
}

/* ---- batches ------------------------------------------------------------------------------ */

void hub_batch_init(struct hub_batch *b, const char *boot)
{
	*b = (struct hub_batch){.boot = boot};
	buf_init(&b->bytes, HUB_BYTES_MAX);
}

void hub_batch_done(struct hub_batch *b)
{
	buf_done(&b->bytes);
	free(b->marks);
}

void hub_batch_reset(struct hub_batch *b, const char *run)
{
	buf_reset(&b->bytes);
	b->n = 0;
	b->run = run;
}

struct json *hub_batch_begin(struct hub_batch *b, const char *event)
{
	char id[HUB_ID_MAX];

	b->marks = xgrow(b->marks, b->n, &b->cap, sizeof(*b->marks));
	b->marks[b->n] = (struct hub_mark){.seq = ++b->seq, .at = b->bytes.len};
	hub_frame(&b->bytes, &b->json, hub_id(id, b->boot, b->seq), event, b->run);
	return &b->json;
}

/* One that did not fit is not there. */
void hub_batch_end(struct hub_batch *b)
{
	struct hub_mark *m = &b->marks[b->n];

	hub_frame_end(&b->bytes, &b->json);
	if (b->bytes.error) {
		b->bytes.len = m->at;
		b->bytes.error = 0;
		return;
	}
	m->len = b->bytes.len - m->at;
	b->n++;
}

/* ---- series and events ---------------------------------------------------------------------- */

/* k="v",k="v" as an object. A value has \" for a quote and \\ for a backslash. */
static void hub_put_labels(struct json *j, const char *labels)
{
	char value[HUB_LABEL_MAX], *key;
	const char *p = labels, *end;
	size_t n;

	json_key(j, "label");
	json_object(j);
	while (*p && (end = strstr(p, "=\""))) {
		key = xstrndup(p, (size_t)(end - p));
		for (p = end + 2, n = 0; *p && *p != '"'; p++) {
			if (*p == '\\' && p[1])
				p++;
			if (n < sizeof(value) - 1)
				value[n++] = *p;
		}
		json_key(j, key);
		json_strn(j, value, n);
		free(key);
		p += *p == '"';
		p += *p == ',';
	}
	json_object_end(j);
}

void hub_put_series(struct json *j, const struct store_series *s, int64_t pid)
{
	char *id = xasprintf("%s/%" PRIu32, s->host_name, s->id);

	json_kstr(j, "id", id);
	json_kstr(j, "name", s->name);
	json_kstr(j, "labels", s->labels);
	hub_put_labels(j, s->labels);
	json_kstr(j, "unit", runview_unit(s));
	json_kstr(j, "kind", runview_kind(s->kind));
	json_kstr(j, "help", s->help);
	json_kstr(j, "source", s->source);
	json_kstr(j, "host", s->host_name);
	json_kuint(j, "process", s->process);
	json_key(j, "pid");
	if (pid > 0)
		json_int(j, pid);
	else
		json_null(j);
	json_kstr(j, "role", s->role);
	json_key(j, "rank");
	if (s->rank >= 0)
		json_int(j, s->rank);
	else
		json_null(j);
	json_kuint(j, "count", s->count);
	free(id);
}

void hub_put_event(struct json *j, const struct store_event *e, const char *host)
{
	events_json_store(j, e, host);
}

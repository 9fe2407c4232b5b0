/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dead process was doing: its open spans and last records, as JSON.
 */
#include "agent/client_priv.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>

#define CRASH_MAX 65536

static void crash_spans(struct client *c, struct json *j, const struct wire_lane *l)
{
	uint32_t depth = l->depth < WIRE_SPANS_OPEN ? l->depth : WIRE_SPANS_OPEN, i;

	json_key(j, "open_spans");
	json_array(j);
	for (i = 0; i < depth; i++) {
		/* Spans need not nest: a place may be empty. */
		if (l->open[i].start == 0)
			continue;
		json_object(j);
		json_kstr(j, "name", client_name(c, l->open[i].name));
		json_kint(j, "start_ns", client_utc(c, l->open[i].start));
		if (l->open[i].step != WIRE_STEP_NONE)
			json_kint(j, "step", l->open[i].step);
		json_object_end(j);
	}
	json_array_end(j);
}

static void crash_record(struct client *c, struct json *j, const struct wire_rec *r)
{
	static const char *const names[WIRE_TYPES] = {
		[WIRE_SET] = "set",     [WIRE_ADD] = "add",     [WIRE_OBSERVE] = "observe",
		[WIRE_FRAME] = "frame", [WIRE_SPAN] = "span",   [WIRE_STEP] = "step",
		[WIRE_EPOCH] = "epoch", [WIRE_EVENT] = "event", [WIRE_ATTR] = "attr"};

	if (r->type >= WIRE_TYPES || !names[r->type])
		return;
	json_object(j);
	json_kstr(j, "type", names[r->type]);
	if (r->type <= WIRE_OBSERVE || r->type == WIRE_SPAN)
		json_kstr(j, "name", client_name(c, r->id));
	json_kint(j, "time_ns", r->flags & WIRE_F_UTC ? (int64_t)r->time : client_utc(c, r->time));
	if (r->step != WIRE_STEP_NONE)
		json_kint(j, "step", r->step);
	if (r->type <= WIRE_OBSERVE)
		json_kdouble(j, "value", r->value);
	json_object_end(j);
}

static void crash_lane(struct client *c, struct json *j, uint32_t lane)
{
	struct client_lane *l = &c->lanes[lane];
	uint64_t i = l->recent_n > CLIENT_RECENT ? l->recent_n - CLIENT_RECENT : 0;

	json_object(j);
	json_kuint(j, "tid", l->tid);
	json_kstr(j, "thread", l->thread);
	crash_spans(c, j, &c->reader.lanes[lane]);
	json_key(j, "last_records");
	json_array(j);
	for (; i < l->recent_n; i++)
		crash_record(c, j, &l->recent[i % CLIENT_RECENT]);
	json_array_end(j);
	json_object_end(j);
}

char *crash_attrs(struct client *c)
{
	struct buf b;
	struct json j;
	uint32_t i;
	char *text;

	buf_init(&b, CRASH_MAX);
	json_init(&j, &b);
	json_object(&j);
	if (c->reader.ctl && c->reader.ctl->step != WIRE_STEP_NONE)
		json_kint(&j, "step", c->reader.ctl->step);
	json_kbool(&j, "in_step", c->reader.ctl && c->reader.ctl->step_start != 0);
	json_key(&j, "lanes");
	json_array(&j);
	for (i = 0; i < c->reader.ring.lanes; i++)
		if (c->lanes[i].recent_n || c->reader.lanes[i].depth)
			crash_lane(c, &j, i);
	json_array_end(&j);
	json_object_end(&j);
	text = xstrdup(b.error ? "{}" : buf_str(&b));
	buf_done(&b);
	return text;
}

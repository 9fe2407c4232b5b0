/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_series.c - what looks at a series, decided once, when it is defined.
 */
#include "alert/watch_priv.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------- */

static void watch_keep_name(struct watch *w, uint32_t id, const struct sink_series *d)
{
	size_t n = w->n_names ? w->n_names : 64;

	if (id >= WATCH_NAMES_MAX)
		return;
	while (n <= id)
		n *= 2;
	if (n > w->n_names) {
		w->names = xrealloc(w->names, n, sizeof(*w->names));
		memset(w->names + w->n_names, 0, (n - w->n_names) * sizeof(*w->names));
		w->n_names = n;
	}
	if (!w->names[id])
		w->names[id] = d->labels && d->labels[0] ? xasprintf("%s{%s}", d->name, d->labels)
							 : xstrdup(d->name);
}

void watch_name(const struct watch *w, uint32_t id, char out[WATCH_SERIES_TEXT])
{
	if (id < w->n_names && w->names[id])
		snprintf(out, WATCH_SERIES_TEXT, "%s", w->names[id]);
	else
		snprintf(out, WATCH_SERIES_TEXT, "series %u", id);
}

/* ---- instances ----------------------------------------------------------------------------- */

static struct watch_instance *watch_new_instance(struct watch *w, uint32_t row)
{
	const struct rule *r = &w->rows[row].rule;
	struct watch_instance *in;

	if (w->n_instances > WATCH_INSTANCES_MAX) {
		w->left_out++;
		return NULL;
	}
	w->instances =
		xgrow(w->instances, w->n_instances, &w->cap_instances, sizeof(*w->instances));
	in = &w->instances[w->n_instances++];
	memset(in, 0, sizeof(*in));
	in->row = row;
	if (r->test == RULE_FORECAST) {
		in->fit = xcalloc(1, sizeof(*in->fit));
		in->fit->width_ns = r->span_ns / FIT_BINS;
	}
	if (r->test == RULE_MULTIPLE)
		in->spread = xcalloc(1, sizeof(*in->spread));
	if (r->test == RULE_SURGE)
		in->surge = xcalloc(1, sizeof(*in->surge));
	return in;
}

static uint16_t watch_number(const struct watch *w, const struct watch_instance *in)
{
	return (uint16_t)(in - w->instances);
}

static void watch_take_value(struct watch *w, struct watch_instance *in, uint32_t id,
			     uint32_t process)
{
	in->series = id;
	in->process = process;
	in->next = w->slots[id].instance;
	w->slots[id].instance = watch_number(w, in);
}

static void watch_take_of(struct watch *w, struct watch_instance *in, uint32_t id)
{
	in->of_series = id;
	in->of_next = w->slots[id].of;
	w->slots[id].of = watch_number(w, in);
}

/* An instance of a row that needs two series: made by whichever comes first. */
static struct watch_instance *watch_pair(struct watch *w, uint32_t row, const struct sink_series *d)
{
	char *key = xasprintf("%u %u %s", row, d->process, d->labels ? d->labels : "");
	struct watch_instance *in = NULL;
	uint64_t at;

	if (map_get(&w->pairs, key, strlen(key), &at)) {
		in = &w->instances[at];
	} else {
		in = watch_new_instance(w, row);
		if (in)
			map_put(&w->pairs, key, strlen(key), watch_number(w, in));
	}
	free(key);
	return in;
}

static bool watch_is_wanted(const struct watch *w, const struct rule *r,
			    const struct sink_series *d)
{
	bool is_program = d->process < w->n_processes &&
			  (w->processes[d->process] & WATCH_PROGRAM) && d->source &&
			  strcmp(d->source, "record") == 0;

	if (d->kind != SINK_GAUGE)
		return false;
	if (r->from == RULE_FROM_ANY)
		return true;
	return (r->from == RULE_FROM_PROGRAM) == is_program;
}

static void watch_try_row(struct watch *w, uint32_t row, uint32_t id, const struct sink_series *d)
{
	const struct rule *r = &w->rows[row].rule;
	const char *labels = d->labels ? d->labels : "";
	struct watch_instance *in;

	if (r->what != RULE_OF_SERIES || !watch_is_wanted(w, r, d))
		return;
	if (r->test == RULE_NOT_FINITE) {
		if (!w->slots[id].nan && rule_matches(r->names, d->name, labels)) {
			w->slots[id].nan = (uint8_t)(row + 1);
			watch_keep_name(w, id, d);
		}
		return;
	}
	if (r->of && strcmp(r->of, d->name) == 0) {
		in = watch_pair(w, row, d);
		if (in && !in->of_series)
			watch_take_of(w, in, id);
	}
	if (!rule_matches(r->names, d->name, labels))
		return;
	in = r->of ? watch_pair(w, row, d) : watch_new_instance(w, row);
	if (!in || in->series)
		return;
	watch_take_value(w, in, id, d->process);
	watch_keep_name(w, id, d);
}

/* ---- what other parts of the watch need ------------------------------------------------------ */

static void watch_find_use(struct watch *w, uint32_t id, const struct sink_series *d)
{
	static const struct {
		const char *name;
		enum sink_kind kind;
		uint8_t flag;
	} rows[] = {{"step", SINK_SPAN, WATCH_STEP},
		    {"lapse/step/samples", SINK_COUNTER, WATCH_SAMPLES},
		    {"lapse/step/tokens", SINK_COUNTER, WATCH_TOKENS}};
	struct watch_slot *slot = &w->slots[id];
	size_t i;

	if (!d->source || strcmp(d->source, "record") != 0)
		slot->flags |= WATCH_MACHINE;
	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (d->kind == rows[i].kind && strcmp(d->name, rows[i].name) == 0)
			slot->flags |= rows[i].flag;
	if (slot->flags & WATCH_STEP)
		watch_keep_name(w, id, d);
	/* A program's own may be called so, too; of those `good` counts something else. */
	if (!(slot->flags & WATCH_MACHINE) || d->kind != SINK_GAUGE)
		return;
	if (strcmp(d->name, "tree/cpu") == 0)
		slot->flags |= WATCH_LOAD;
	if (strcmp(d->name, "gpu/power") == 0 && w->n_loads < WATCH_LOADS - 1) {
		slot->flags |= WATCH_LOAD;
		slot->good = (uint8_t)++w->n_loads;
	}
}

static bool watch_has_room(struct watch *w, uint32_t id)
{
	size_t n = w->n_slots ? w->n_slots : 256;

	if (id < w->n_slots)
		return true;
	if (id > WATCH_SERIES_MAX)
		return false;
	while (n <= id)
		n *= 2;
	w->slots = xrealloc(w->slots, n, sizeof(*w->slots));
	memset(w->slots + w->n_slots, 0, (n - w->n_slots) * sizeof(*w->slots));
	w->n_slots = n;
	return true;
}

void watch_define(struct watch *w, uint32_t id, const struct sink_series *d)
{
	struct watch_slot *slot;
	size_t i;

	if (!watch_has_room(w, id) || (w->slots[id].flags & WATCH_KNOWN) ||
	    d->process >= WATCH_PROCESSES_MAX)
		return;
	slot = &w->slots[id];
	slot->flags |= WATCH_KNOWN;
	slot->owner = (uint16_t)d->process;
	watch_find_use(w, id, d);
	for (i = 0; i < builtin_n_rules; i++) {
		struct watch_row *row = &w->rows[i];

		if (row->rule.unless && !row->superseded && strcmp(row->rule.unless, d->name) == 0)
			watch_supersede(w, row);
		if (!row->off)
			watch_try_row(w, (uint32_t)i, id, d);
	}
}

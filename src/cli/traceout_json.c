/* SPDX-License-Identifier: Apache-2.0
 *
 * traceout_json.c - the JSON form of what `lapse trace` prints. Its keys are listed in
 * docs/trace.md.
 */
#include "cli/traceout_priv.h"

#include "base/mem.h"
#include "cli/tracehead.h"

#define TRACEOUT_JSON_MAX (256u << 20)

static void traceout_json_file(const struct trace *t, struct json *j)
{
	const struct trace_meta *m = trace_meta(t);
	uint64_t bytes, resident, spilled;
	const struct trace_note *notes;
	size_t k, n;

	trace_sizes(t, &bytes, &resident, &spilled);
	json_object(j);
	json_kstr(j, "path", trace_path(t));
	json_key(j, "rank");
	m->rank >= 0 ? json_int(j, m->rank) : json_null(j);
	json_kstr(j, "rank_from", m->rank >= 0 ? m->rank_from : NULL);
	json_key(j, "world_size");
	m->world_size >= 0 ? json_int(j, m->world_size) : json_null(j);
	json_kuint(j, "rows", trace_rows(t));
	json_kuint(j, "bytes", bytes);
	json_kbool(j, "complete", m->is_complete);
	json_kint(j, "base_ns", m->base_ns);
	json_key(j, "error");
	json_null(j);
	json_key(j, "notes");
	json_array(j);
	notes = trace_notes(t, &n);
	for (k = 0; k < n; k++) {
		const struct trace_note_row *row = &trace_note_rows[notes[k].kind];

		json_object(j);
		json_kstr(j, "kind", row->name);
		json_kuint(j, "count", notes[k].count);
		json_kuint(j, "offset", notes[k].offset);
		json_kstr(j, "text", notes[k].text);
		json_kstr(j, "meaning", row->meaning);
		json_kstr(j, "done", row->done);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void traceout_json_failed(const struct tracecmd_failed *f, struct json *j)
{
	static const char *const keys[] = {"rank",  "rank_from", "world_size", "rows",
					   "bytes", "complete",  "base_ns"};
	size_t k;

	json_object(j);
	json_kstr(j, "path", f->path);
	for (k = 0; k < ARRAY_LEN(keys); k++) {
		json_key(j, keys[k]);
		json_null(j);
	}
	json_kstr(j, "error", f->why);
	json_key(j, "notes");
	json_array(j);
	json_array_end(j);
	json_object_end(j);
}

/* The parts of files that did not fit into --memory. */
static void traceout_json_cuts(const struct tracecmd_set *s, struct json *j)
{
	size_t i;

	json_key(j, "cuts");
	json_array(j);
	for (i = 0; s->fit && i < s->n; i++) {
		const struct tracefit *f = &s->fit[i];

		if (!f->is_cut)
			continue;
		json_object(j);
		json_kuint(j, "file", i);
		json_kuint(j, "rows", f->rows);
		json_kuint(j, "of", f->of);
		json_key(j, "step_first");
		f->first >= 0 ? json_int(j, f->first) : json_null(j);
		json_key(j, "step_last");
		f->first >= 0 ? json_int(j, f->last) : json_null(j);
		json_kint(j, "from_ns", f->from);
		json_kint(j, "to_ns", f->to);
		json_object_end(j);
	}
	json_array_end(j);
}

static void traceout_json_inputs(const struct tracecmd_set *s, struct json *j)
{
	size_t i;

	json_object(j);
	json_kstr(j, "rule", tracehead_rule(s));
	json_kstr(j, "steps", tracecmd_opt.steps);
	json_key(j, "views");
	json_array(j);
	for (i = 0; s->view && i < s->n; i++) {
		const struct view *v = &s->view[i];

		json_object(j);
		json_kuint(j, "file", i);
		json_kuint(j, "rows", v->n);
		json_kuint(j, "left_out", v->left_out);
		json_kuint(j, "steps", v->n_steps);
		json_key(j, "step_first");
		v->n_steps ? json_int(j, v->steps[0].number) : json_null(j);
		json_key(j, "step_last");
		v->n_steps ? json_int(j, v->steps[v->n_steps - 1].number) : json_null(j);
		json_kint(j, "first_ns", v->first);
		json_kint(j, "last_ns", v->last);
		json_kint(j, "origin_ns", v->origin);
		json_kbool(j, "rounded", v->rounded);
		json_kbool(j, "dropped_last", v->dropped_last);
		json_object_end(j);
	}
	json_array_end(j);
	traceout_json_cuts(s, j);
	json_object_end(j);
}

int traceout_json(const struct traceout *o, FILE *to, struct err *e)
{
	struct buf text;
	struct json j;
	int err = 0;
	size_t i;

	buf_init(&text, TRACEOUT_JSON_MAX);
	json_init(&j, &text);
	json_object(&j);
	json_kstr(&j, "command", o->set->wish->command);
	json_key(&j, "files");
	json_array(&j);
	for (i = 0; i < o->set->n; i++)
		traceout_json_file(o->set->trace[i], &j);
	for (i = 0; i < o->set->n_failed; i++)
		traceout_json_failed(&o->set->failed[i], &j);
	json_array_end(&j);
	json_key(&j, "inputs");
	traceout_json_inputs(o->set, &j);
	json_key(&j, "sheets");
	json_object(&j);
	for (i = 0; i < o->n; i++)
		if (traceout_wanted(&o->items[i])) {
			json_key(&j, sheet_name(o->items[i].sheet));
			sheet_json(o->items[i].sheet, &j);
		}
	json_object_end(&j);
	json_key(&j, "notes");
	json_array(&j);
	for (i = 0; i < o->n; i++)
		if (o->items[i].text) {
			json_object(&j);
			json_kstr(&j, "key", o->items[i].key);
			json_kstr(&j, "text", o->items[i].text);
			json_object_end(&j);
		}
	json_array_end(&j);
	json_object_end(&j);
	buf_putc(&text, '\n');
	if (text.error)
		err = err_set(e, text.error,
			      "the document would be larger than 256 MiB; --sheet NAME prints one "
			      "table, --csv has no such limit");
	else
		fwrite(text.data, 1, text.len, to);
	buf_done(&text);
	return err;
}

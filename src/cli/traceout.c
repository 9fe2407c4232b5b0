/* SPDX-License-Identifier: Apache-2.0
 *
 * traceout.c - see traceout.h. All is kept until the end, so that nothing is printed of
 * a command that fails half-way.
 */
#include "cli/traceout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmt.h"
#include "base/mem.h"
#include "cli/outfile.h"
#include "cli/progress.h"
#include "cli/spark.h"

#define TRACEOUT_JSON_MAX (256u << 20)
#define TRACEOUT_WIDTH_MAX 100
#define TRACEOUT_FILES_SHOWN 16

struct traceout_item {
	struct sheet *sheet; /* one of these three */
	char *text;
	void (*draw)(const struct term *term, FILE *to, const void *data);
	const void *data;
	const char *key; /* of text */
	bool is_data;    /* a sheet for programs only */
	bool is_people;  /* a sheet for people only */
	bool is_missing; /* a text about what is not there */
};

struct traceout {
	const struct tracecmd_set *set;
	struct traceout_item *items;
	size_t n, cap;
	bool is_plain;
};

struct traceout *traceout_begin(const struct tracecmd_set *s)
{
	struct traceout *o = xcalloc(1, sizeof(*o));

	o->set = s;
	return o;
}

static struct traceout_item *traceout_add(struct traceout *o)
{
	o->items = xgrow(o->items, o->n, &o->cap, sizeof(*o->items));
	o->items[o->n] = (struct traceout_item){0};
	return &o->items[o->n++];
}

void traceout_sheet(struct traceout *o, struct sheet *sheet)
{
	/* One file: there is nothing to tell apart. Ranks name files better than places. */
	if (o->set->n == 1 || o->set->has_ranks)
		sheet_hide(sheet, "file");
	if (o->set->n == 1 || !o->set->has_ranks)
		sheet_hide(sheet, "rank");
	traceout_add(o)->sheet = sheet;
}

void traceout_sheet_as(struct traceout *o, struct sheet *sheet)
{
	traceout_add(o)->sheet = sheet;
}

void traceout_people(struct traceout *o, struct sheet *sheet)
{
	struct traceout_item *i = traceout_add(o);

	i->sheet = sheet;
	i->is_people = true;
}

void traceout_data(struct traceout *o, struct sheet *sheet)
{
	struct traceout_item *i = traceout_add(o);

	i->sheet = sheet;
	i->is_data = true;
}

static void traceout_text(struct traceout *o, const char *key, const char *fmt, va_list ap,
			  bool is_missing)
{
	struct traceout_item *i = traceout_add(o);

	if (vasprintf(&i->text, fmt, ap) < 0)
		i->text = xstrdup(fmt);
	i->key = key;
	i->is_missing = is_missing;
}

void traceout_say(struct traceout *o, const char *key, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	traceout_text(o, key, fmt, ap, false);
	va_end(ap);
}

void traceout_missing(struct traceout *o, const char *key, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	traceout_text(o, key, fmt, ap, true);
	va_end(ap);
}

void traceout_draw(struct traceout *o,
		   void (*fn)(const struct term *term, FILE *to, const void *data),
		   const void *data)
{
	struct traceout_item *i = traceout_add(o);

	i->draw = fn;
	i->data = data;
}

void traceout_plain(struct traceout *o)
{
	o->is_plain = true;
}

void traceout_file(struct sheet *sheet, const struct tracecmd_set *s, size_t i)
{
	int64_t rank = trace_meta(s->trace[i])->rank;

	sheet_int(sheet, (int64_t)i);
	if (rank >= 0)
		sheet_int(sheet, rank);
	else
		sheet_missing(sheet);
}

char *traceout_groups(char out[FMT_MAX], uint64_t n)
{
	char digits[32];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), i, k = 0;

	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[k++] = ',';
		out[k++] = digits[i];
	}
	out[k] = '\0';
	return out;
}

void traceout_wrap(const struct term *term, FILE *to, int first, int indent, const char *text)
{
	int room = term->width > TRACEOUT_WIDTH_MAX ? TRACEOUT_WIDTH_MAX : term->width;
	char *clean = term_clean(text), *save = NULL, *word;
	int at = first, width;
	bool fresh = true; /* no word behind the indent yet */

	for (word = strtok_r(clean, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		width = term_text_width(word);
		if (!fresh && room && at + 1 + width > room) {
			fprintf(to, "\n%*s", indent, "");
			at = indent;
			fresh = true;
		}
		at += fprintf(to, "%s", fresh ? "" : " ");
		fputs(word, to);
		at += width;
		fresh = false;
	}
	fputc('\n', to);
	free(clean);
}

/* ---- what the numbers are made of ----------------------------------------------------------- */

static const char *traceout_rule(const struct tracecmd_set *s)
{
	if (s->view)
		return s->view->rule == VIEW_HTA	 ? "hta"
		       : s->view->rule == VIEW_HTA_EXACT ? "hta_exact"
							 : "exact";
	return tracecmd_opt.plugin ? "plugin" : "exact";
}

static void traceout_head_file(const struct traceout *o, const struct term *term, FILE *to)
{
	const struct trace *t = o->set->trace[0];
	const struct view *v = o->set->view;
	const struct trace_meta *m = trace_meta(t);
	char a[FMT_MAX];
	char *name = term_clean(tracecmd_name(trace_path(t)));

	term_put(term, to, TERM_BOLD, name);
	free(name);
	fprintf(to, ": %s rows", traceout_groups(a, trace_rows(t)));
	if (m->rank >= 0)
		fprintf(to, ", rank %" PRId64, m->rank);
	if (m->rank >= 0 && m->world_size > 0)
		fprintf(to, " of %" PRId64, m->world_size);
	if (v && v->n_steps == 1)
		fprintf(to, ", step %" PRId64, v->steps[0].number);
	else if (v && v->n_steps)
		fprintf(to, ", %zu steps (%" PRId64 " to %" PRId64 ")", v->n_steps,
			v->steps[0].number, v->steps[v->n_steps - 1].number);
	if (v && v->last > v->first)
		fprintf(to, ", %s", fmt_seconds(a, (double)(v->last - v->first) / 1e9));
	fputc('\n', to);
}

static void traceout_head_files(const struct traceout *o, const struct term *term, FILE *to)
{
	static const struct table_column columns[] = {
		{"FILE", TABLE_RIGHT}, {"RANK", TABLE_RIGHT},  {"ROWS", TABLE_RIGHT},
		{"STEPS", TABLE_RIGHT}, {"TIME", TABLE_RIGHT}, {"NAME", TABLE_ELIDE}};
	const struct tracecmd_set *s = o->set;
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	char a[FMT_MAX];
	size_t i;

	for (i = 0; i < s->n && i < TRACEOUT_FILES_SHOWN; i++) {
		const struct view *v = s->view ? &s->view[i] : NULL;
		int64_t rank = trace_meta(s->trace[i])->rank;

		if (s->has_ranks)
			table_cell(t, TERM_PLAIN, NULL);
		else
			table_cellf(t, TERM_PLAIN, "%zu", i);
		if (rank >= 0)
			table_cellf(t, TERM_PLAIN, "%" PRId64, rank);
		else
			table_cell(t, TERM_DIM, "-");
		table_cell(t, TERM_PLAIN, traceout_groups(a, trace_rows(s->trace[i])));
		if (v)
			table_cellf(t, TERM_PLAIN, "%zu", v->n_steps);
		else
			table_cell(t, TERM_PLAIN, NULL);
		if (v && v->last > v->first)
			table_cell(t, TERM_PLAIN,
				   fmt_seconds(a, (double)(v->last - v->first) / 1e9));
		else
			table_cell(t, TERM_PLAIN, NULL);
		table_cell(t, TERM_PLAIN, trace_path(s->trace[i]));
	}
	table_print(t, term, to, 0);
	if (i < s->n)
		fprintf(to, "and %zu more\n", s->n - i);
	table_free(t);
}

/* The sentence about rows, window and what is left out. */
static char *traceout_inputs(const struct tracecmd_set *s)
{
	uint64_t left = 0, rows = 0;
	bool dropped = false, rounded = false;
	char a[FMT_MAX], b[FMT_MAX];
	size_t i;

	if (!s->view)
		return tracecmd_opt.plugin
			       ? xasprintf("Numbers as torch-tb-profiler 0.4.3 makes them: its rows, its "
					   "threads, doubles in us.")
			       : NULL;
	for (i = 0; i < s->n; i++) {
		rows += s->view[i].n;
		left += s->view[i].left_out;
		dropped = dropped || s->view[i].dropped_last;
		rounded = rounded || s->view[i].rounded;
	}
	traceout_groups(a, rows);
	traceout_groups(b, left);
	if (s->view->rule != VIEW_EXACT)
		return xasprintf("Numbers as HTA 0.6.1 makes them: %s rows, %s left out%s%s.", a, b,
				 dropped ? "; the last step and what it launched are dropped "
					   "(--include-last keeps them)"
					 : "",
				 rounded ? "; begins up and ends down to whole us" : "");
	return xasprintf("Exact nanoseconds%s%s%s%s.", tracecmd_opt.steps ? "" : ", all steps",
			 left ? "; left out: " : ", every row with a duration", left ? b : "",
			 left ? " rows that are broken or mark the recording itself" : "");
}

static void traceout_head(const struct traceout *o, const struct term *term, FILE *to)
{
	char *text = traceout_inputs(o->set), *more;

	if (o->set->n == 1)
		traceout_head_file(o, term, to);
	else
		traceout_head_files(o, term, to);
	if (text && tracecmd_opt.steps) {
		more = xasprintf("%s Only what begins in steps %s.", text, tracecmd_opt.steps);
		free(text);
		text = more;
	}
	if (text)
		traceout_wrap(term, to, 0, 0, text);
	free(text);
}

/* What is wrong inside of files. */
static void traceout_notes(const struct traceout *o)
{
	size_t i, k, n;

	for (i = 0; i < o->set->n; i++) {
		const struct trace_note *notes = trace_notes(o->set->trace[i], &n);

		for (k = 0; k < n; k++) {
			char *clean = term_clean(notes[k].text);

			fprintf(stderr,
				"lapse %s: %s: %s: %" PRIu64 ", the first at byte %" PRIu64
				"%s%s\n",
				o->set->wish->command, trace_path(o->set->trace[i]),
				trace_note_rows[notes[k].kind].name, notes[k].count,
				notes[k].offset, *clean ? ": " : "", clean);
			free(clean);
		}
	}
}

/* ---- the three forms -------------------------------------------------------------------------- */

static bool traceout_wanted(const struct traceout_item *i)
{
	return i->sheet && !i->is_people &&
	       (!tracecmd_opt.sheet || strcmp(sheet_name(i->sheet), tracecmd_opt.sheet) == 0);
}

static void traceout_text_out(const struct traceout *o, const struct term *term, FILE *to)
{
	bool only = tracecmd_opt.sheet != NULL, spaced = true;
	size_t i;

	if (!only && !o->is_plain) {
		traceout_head(o, term, to);
		spaced = false;
	}
	for (i = 0; i < o->n; i++) {
		const struct traceout_item *it = &o->items[i];

		if (it->sheet && (only ? traceout_wanted(it)
				       : !it->is_data && sheet_rows(it->sheet) > 0)) {
			if (!spaced)
				fputc('\n', to);
			sheet_print(it->sheet, term, to, (size_t)tracecmd_opt.limit);
			spaced = false;
		} else if (!only && it->draw) {
			it->draw(term, to, it->data);
			spaced = false;
		} else if (!only && it->text && !it->is_missing) {
			traceout_wrap(term, to, 0, 0, it->text);
			spaced = false;
		}
	}
	for (i = 0; i < o->n && !only; i++) {
		if (!o->items[i].is_missing)
			continue;
		fputc('\n', to);
		traceout_wrap(term, to, 0, 0, o->items[i].text);
	}
}

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
					   "bytes", "complete",	 "base_ns"};
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

static void traceout_json_inputs(const struct tracecmd_set *s, struct json *j)
{
	size_t i;

	json_object(j);
	json_kstr(j, "rule", traceout_rule(s));
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
	json_object_end(j);
}

static int traceout_json(const struct traceout *o, FILE *to, struct err *e)
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

static void traceout_csv(const struct traceout *o, FILE *to)
{
	bool several = false;
	size_t i;

	for (i = 0; i < o->n; i++) {
		if (!traceout_wanted(&o->items[i]))
			continue;
		if (several)
			fputc('\n', to);
		sheet_csv(o->items[i].sheet, to);
		several = true;
	}
}

/* --sheet names a sheet of this command. */
static int traceout_check_sheet(const struct traceout *o, struct err *e)
{
	struct buf names;
	size_t i;
	int err = 0;

	for (i = 0; i < o->n && tracecmd_opt.sheet; i++)
		if (traceout_wanted(&o->items[i]))
			return 0;
	if (!tracecmd_opt.sheet)
		return 0;
	buf_init(&names, 4096);
	for (i = 0; i < o->n; i++)
		if (o->items[i].sheet)
			buf_printf(&names, "%s%s", names.len ? ", " : "",
				   sheet_name(o->items[i].sheet));
	err = err_set(e, -EINVAL, "no table named \"%s\" here; there %s %s", tracecmd_opt.sheet,
		      names.len ? "are" : "is", names.len ? buf_str(&names) : "none");
	buf_done(&names);
	return err;
}

void traceout_drop(struct traceout *o)
{
	size_t i;

	for (i = 0; i < o->n; i++) {
		sheet_free(o->items[i].sheet);
		free(o->items[i].text);
	}
	free(o->items);
	free(o);
}

int traceout_end(struct traceout *o)
{
	const char *command = o->set->wish->command;
	int status = o->set->status, err;
	struct outfile f = {0};
	struct err e = {0};
	struct term term;

	progress_end();
	tracecmd_signals_default();
	if (!tracecmd_opt.quiet && !o->set->wish->no_notes && (!o->is_plain || tracecmd_opt.json || tracecmd_opt.csv))
		traceout_notes(o);
	err = traceout_check_sheet(o, &e);
	if (err)
		status = 2;
	if (!err && outfile_open(&f, tracecmd_opt.output, &e) == 0) {
		term_look(&term, f.to);
		if (tracecmd_opt.json)
			err = traceout_json(o, f.to, &e);
		else if (tracecmd_opt.csv)
			traceout_csv(o, f.to);
		else
			traceout_text_out(o, &term, f.to);
		if (f.to != stdout && ferror(f.to) && !err)
			err = err_set(&e, -EIO, "cannot write %s", tracecmd_opt.output);
		outfile_close(&f, !err, &e);
	}
	if (e.code)
		fprintf(stderr, "lapse %s: %s\n", command, e.text);
	if (e.code && !status)
		status = 1;
	traceout_drop(o);
	return status;
}

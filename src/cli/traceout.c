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
#include "cli/tracehead.h"

#define TRACEOUT_JSON_MAX (256u << 20)
#define TRACEOUT_WIDTH_MAX 100

struct traceout_item {
	struct sheet *sheet; /* one of sheet, text, draw, lines */
	char *text;
	void (*draw)(const struct term *term, FILE *to, const void *data);
	const void *data;
	const char *key;   /* of text */
	char *lines;       /* of a list */
	const char *title; /* of a list */
	bool is_data;      /* a sheet for programs only */
	bool is_people;    /* a sheet for people only */
	bool is_missing;   /* a text about what is not there */
};

struct traceout {
	const struct tracecmd_set *set;
	struct traceout_item *items;
	size_t n, cap;
	bool is_plain;
};

static struct traceout_item *traceout_add(struct traceout *o)
{
	o->items = xgrow(o->items, o->n, &o->cap, sizeof(*o->items));
	o->items[o->n] = (struct traceout_item){0};
	return &o->items[o->n++];
}

struct traceout *traceout_begin(const struct tracecmd_set *s)
{
	struct traceout *o = xcalloc(1, sizeof(*o));
	char *text = tracecmd_cut_text(s);
	struct traceout_item *i;

	o->set = s;
	if (text) {
		i = traceout_add(o);
		i->key = "part";
		i->text = text;
	}
	return o;
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

void traceout_list(struct traceout *o, const char *title, char *lines)
{
	struct traceout_item *i = traceout_add(o);

	i->title = title;
	i->lines = lines;
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

/* A word that no line can hold: its middle is left out. Others stay as they are. */
static int traceout_shorten(char *word, int width, int room)
{
	size_t len = strlen(word), keep = room > 8 ? (size_t)room - 2 : 6, head = keep / 2;
	size_t i;

	if (width <= room)
		return width;
	for (i = 0; i < len; i++)
		if ((unsigned char)word[i] >= 0x80)
			return width;
	memcpy(word + head, "..", 2);
	memmove(word + head + 2, word + len - (keep - head), keep - head + 1);
	return (int)keep + 2;
}

void traceout_wrap(const struct term *term, FILE *to, int first, int indent, const char *text)
{
	int room = term->width > TRACEOUT_WIDTH_MAX ? TRACEOUT_WIDTH_MAX : term->width;
	char *clean = term_clean(text), *save = NULL, *word;
	int at = first, width;
	bool fresh = true; /* no word behind the indent yet */

	for (word = strtok_r(clean, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		width = term_text_width(word);
		if (room)
			width = traceout_shorten(word, width, room - indent);
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

void traceout_dots(const struct term *term, FILE *to, const char *lines)
{
	char *text = xstrdup(lines), *save = NULL, *line;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		fprintf(to, "  %s ", spark_is_utf8() ? "\u2022" : "*");
		traceout_wrap(term, to, 4, 4, line);
	}
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

/* ---- the three forms --------------------------------------------------------------------------
 */

static bool traceout_wanted(const struct traceout_item *i)
{
	return i->sheet && !i->is_people &&
	       (!tracecmd_opt.sheet || strcmp(sheet_name(i->sheet), tracecmd_opt.sheet) == 0);
}

/* One item; an empty line comes before a table or list unless nothing stands above. */
static void traceout_item_out(const struct traceout_item *it, const struct term *term, FILE *to,
			      bool *any)
{
	bool is_block = it->sheet || it->lines;

	if ((it->sheet && (it->is_data || sheet_rows(it->sheet) == 0)) ||
	    (it->lines && !*it->lines) || it->is_missing)
		return;
	if (is_block && *any)
		fputc('\n', to);
	if (it->sheet) {
		sheet_print(it->sheet, term, to, (size_t)tracecmd_opt.limit);
	} else if (it->lines) {
		term_put(term, to, TERM_BOLD, it->title);
		fputc('\n', to);
		traceout_dots(term, to, it->lines);
	} else if (it->draw) {
		it->draw(term, to, it->data);
	} else {
		traceout_wrap(term, to, 0, 0, it->text);
	}
	*any = true;
}

static void traceout_text_out(const struct traceout *o, const struct term *term, FILE *to)
{
	bool any = false;
	size_t i;

	if (tracecmd_opt.sheet) {
		for (i = 0; i < o->n; i++)
			if (traceout_wanted(&o->items[i]))
				sheet_print(o->items[i].sheet, term, to,
					    (size_t)tracecmd_opt.limit);
		return;
	}
	if (!o->is_plain) {
		tracehead_print(o->set, term, to);
		any = true;
	}
	for (i = 0; i < o->n; i++)
		traceout_item_out(&o->items[i], term, to, &any);
	for (i = 0; i < o->n; i++) {
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
		free(o->items[i].lines);
	}
	free(o->items);
	free(o);
}

static int traceout_write(const struct traceout *o, struct err *e)
{
	struct outfile f = {0};
	struct term term;
	int err = outfile_open(&f, tracecmd_opt.output, e);

	if (err)
		return err;
	term_look(&term, f.to);
	if (tracecmd_opt.json)
		err = traceout_json(o, f.to, e);
	else if (tracecmd_opt.csv)
		traceout_csv(o, f.to);
	else
		traceout_text_out(o, &term, f.to);
	if (f.to != stdout && ferror(f.to) && !err)
		err = err_set(e, -EIO, "cannot write %s", tracecmd_opt.output);
	if (outfile_close(&f, !err, e) && !err)
		err = e->code;
	return err;
}

int traceout_end(struct traceout *o)
{
	const struct tracecmd_wish *w = o->set->wish;
	bool for_programs = tracecmd_opt.json || tracecmd_opt.csv;
	int status = o->set->status;
	struct err e = {0};

	progress_end();
	tracecmd_signals_default();
	if (!tracecmd_opt.quiet && !w->no_notes && (!o->is_plain || for_programs))
		traceout_notes(o);
	if (traceout_check_sheet(o, &e))
		status = 2;
	else if (traceout_write(o, &e) && !status)
		status = 1;
	if (e.code && e.code != -EPIPE)
		fprintf(stderr, "lapse %s: %s\n", w->command, e.text);
	traceout_drop(o);
	return status;
}

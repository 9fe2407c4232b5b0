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

#include "base/file.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "cli/outfile.h"
#include "cli/progress.h"
#include "report/spark.h"
#include "cli/tracehead.h"
#include "cli/traceparts.h"
#include "cli/traceout_priv.h"

#define TRACEOUT_WIDTH_MAX 100

static struct traceout_item *traceout_add(struct traceout *o)
{
	o->items = xgrow(o->items, o->n, &o->cap, sizeof(*o->items));
	o->items[o->n] = (struct traceout_item){0};
	return &o->items[o->n++];
}

struct traceout *traceout_begin(const struct tracecmd_set *s)
{
	struct traceout *o = xcalloc(1, sizeof(*o));
	char *text = traceparts_text(s);
	struct traceout_item *i;

	o->set = s;
	if (text) {
		i = traceout_add(o);
		i->key = "part";
		i->text = text;
		i->is_part = true;
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

/* Several parts of a command may find the same missing: it is told once. */
static bool traceout_is_told(const struct traceout *o, const char *text)
{
	size_t i;

	for (i = 0; i < o->n; i++)
		if (o->items[i].is_missing && strcmp(o->items[i].text, text) == 0)
			return true;
	return false;
}

static void traceout_text(struct traceout *o, const char *key, const char *fmt, va_list ap,
			  bool is_missing)
{
	struct traceout_item *i;
	char *text;

	if (vasprintf(&text, fmt, ap) < 0)
		text = xstrdup(fmt);
	if (is_missing && traceout_is_told(o, text)) {
		free(text);
		return;
	}
	i = traceout_add(o);
	i->text = text;
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

bool traceout_wanted(const struct traceout_item *i)
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

/* Of tables of one name, which are parts of one: the first. */
static bool traceout_is_first(const struct traceout *o, size_t at)
{
	size_t i;

	for (i = 0; i < at; i++)
		if (o->items[i].sheet &&
		    !strcmp(sheet_name(o->items[i].sheet), sheet_name(o->items[at].sheet)))
			return false;
	return true;
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
		if (o->items[i].sheet && traceout_is_first(o, i))
			buf_printf(&names, "%s%s", names.len ? ", " : "",
				   sheet_name(o->items[i].sheet));
	err = err_set(e, -EINVAL, "no table named \"%s\" here; there %s %s", tracecmd_opt.sheet,
		      names.len ? "are" : "is", names.len ? buf_str(&names) : "none");
	buf_done(&names);
	return err;
}

static void traceout_item_done(struct traceout_item *i)
{
	sheet_free(i->sheet);
	free(i->text);
	free(i->lines);
}

void traceout_drop(struct traceout *o)
{
	size_t i;

	for (i = 0; i < o->n; i++)
		traceout_item_done(&o->items[i]);
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

/* ---- a folder ---------------------------------------------------------------------------- */

static int traceout_csv_file(const struct sheet *sheet, const char *path, struct err *e)
{
	struct outfile f = {0};
	int err = outfile_open(&f, path, e);

	if (err)
		return err;
	sheet_csv(sheet, f.to);
	if (ferror(f.to))
		err = err_set(e, -EIO, "cannot write %s", path);
	return outfile_close(&f, !err, e) ? e->code : err;
}

static int traceout_csv_files(const struct traceout *o, const char *folder, struct sheet *written,
			      struct err *e)
{
	size_t i;
	char *path;
	int err = file_mkdirs(folder, 0777);

	if (err)
		return err_errno(e, err, "cannot make the folder %s", folder);
	for (i = 0; i < o->n && !err; i++) {
		if (!traceout_wanted(&o->items[i]))
			continue;
		path = xasprintf("%s/%s.csv", folder, sheet_name(o->items[i].sheet));
		err = traceout_csv_file(o->items[i].sheet, path, e);
		sheet_text(written, path);
		sheet_int(written, (int64_t)sheet_rows(o->items[i].sheet));
		free(path);
	}
	return err;
}

/* Of sentences, those that hold whatever the tables are. */
static void traceout_keep_missing(struct traceout *o)
{
	size_t i, n = 0;

	for (i = 0; i < o->n; i++)
		if (o->items[i].is_missing || o->items[i].is_part)
			o->items[n++] = o->items[i];
		else
			traceout_item_done(&o->items[i]);
	o->n = n;
}

int traceout_folder(struct traceout *o, const char *folder)
{
	static const struct sheet_column columns[] = {{"output", "FILE", SHEET_TEXT, 0},
						      {"rows", "ROWS", SHEET_COUNT, 0}};
	struct sheet *written = sheet_new("written", NULL, columns, ARRAY_LEN(columns));
	struct err e = {0};
	int status = 0;

	progress_end();
	tracecmd_signals_default();
	if (traceout_check_sheet(o, &e))
		status = 2;
	else if (traceout_csv_files(o, folder, written, &e))
		status = 1;
	if (status) {
		fprintf(stderr, "lapse %s: %s\n", o->set->wish->command, e.text);
		sheet_free(written);
		return status;
	}
	traceout_keep_missing(o);
	traceout_sheet_as(o, written);
	tracecmd_opt.sheet = NULL;
	return 0;
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

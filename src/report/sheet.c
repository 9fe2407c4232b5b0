/* SPDX-License-Identifier: Apache-2.0 */
#include "report/sheet.h"

#include "base/fmt.h"
#include "base/mem.h"
#include "report/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHEET_LINE_MAX (64u << 20) /* bytes of a line of CSV */

struct sheet_cell {
	union { /* by the column's kind */
		int64_t i;
		double d;
		char *text;
	};
	bool known;
};

struct sheet {
	const char *name, *title;
	const struct sheet_column *columns;
	bool *hidden; /* by column */
	size_t n_columns;
	struct sheet_cell *cells;
	size_t n, cap;
};

struct sheet *sheet_new(const char *name, const char *title, const struct sheet_column *columns,
			size_t n)
{
	struct sheet *s = xcalloc(1, sizeof(*s));
	size_t i;

	s->name = name;
	s->title = title;
	s->columns = columns;
	s->n_columns = n;
	s->hidden = xcalloc(n, sizeof(*s->hidden));
	for (i = 0; i < n; i++)
		s->hidden[i] = columns[i].flags & SHEET_DATA;
	return s;
}

void sheet_free(struct sheet *s)
{
	size_t i;

	for (i = 0; s && i < s->n; i++)
		if (s->columns[i % s->n_columns].kind == SHEET_TEXT && s->cells[i].known)
			free(s->cells[i].text);
	if (s) {
		free(s->cells);
		free(s->hidden);
	}
	free(s);
}

static bool sheet_is_double(enum sheet_kind kind)
{
	return kind == SHEET_PERCENT || kind == SHEET_NUMBER || kind == SHEET_US;
}

static enum sheet_kind sheet_next(const struct sheet *s)
{
	return s->columns[s->n % s->n_columns].kind;
}

static void sheet_add(struct sheet *s, struct sheet_cell c)
{
	s->cells = xgrow(s->cells, s->n, &s->cap, sizeof(c));
	s->cells[s->n++] = c;
}

void sheet_text(struct sheet *s, const char *text)
{
	sheet_add(s, (struct sheet_cell){.known = text != NULL, .text = xstrdup(text)});
}

void sheet_int(struct sheet *s, int64_t v)
{
	if (sheet_is_double(sheet_next(s)))
		sheet_double(s, (double)v);
	else
		sheet_add(s, (struct sheet_cell){.known = true, .i = v});
}

void sheet_double(struct sheet *s, double v)
{
	sheet_add(s, (struct sheet_cell){.known = true, .d = v});
}

void sheet_missing(struct sheet *s)
{
	sheet_add(s, (struct sheet_cell){.known = false});
}

size_t sheet_rows(const struct sheet *s)
{
	return s->n_columns ? s->n / s->n_columns : 0;
}

const char *sheet_name(const struct sheet *s)
{
	return s->name;
}

void sheet_hide(struct sheet *s, const char *key)
{
	size_t i;

	for (i = 0; i < s->n_columns; i++)
		if (strcmp(s->columns[i].key, key) == 0)
			s->hidden[i] = true;
}

/* ---- for people ------------------------------------------------------------------- */

/* Whole ns where they are few: "350 ns", not "349.98 ns". */
static double sheet_round(double ns)
{
	return ns > -1e15 && ns < 1e15 ? (double)llround(ns) : ns;
}

static void sheet_show(struct table *t, const struct sheet_column *c, const struct sheet_cell *v)
{
	char text[FMT_MAX];

	if (!v->known) {
		table_cell(t, TERM_DIM, "-");
		return;
	}
	switch (c->kind) {
	case SHEET_TEXT:
		table_cell(t, TERM_PLAIN, v->text);
		break;
	case SHEET_COUNT:
		table_cellf(t, TERM_PLAIN, "%lld", (long long)v->i);
		break;
	case SHEET_NS:
		table_cell(t, TERM_PLAIN, fmt_seconds(text, (double)v->i / 1e9));
		break;
	case SHEET_US:
		table_cell(t, TERM_PLAIN, fmt_seconds(text, sheet_round(v->d * 1e3) / 1e9));
		break;
	case SHEET_BYTES:
		table_cell(t, TERM_PLAIN, fmt_bytes(text, (double)v->i));
		break;
	case SHEET_PERCENT:
		table_cellf(t, TERM_PLAIN, "%.1f %%", v->d);
		break;
	case SHEET_NUMBER:
		table_cellf(t, TERM_PLAIN, v->d >= 1000 || v->d <= -1000 ? "%.0f" : "%.3g", v->d);
		break;
	case SHEET_BOOL:
		table_cell(t, v->i ? TERM_PLAIN : TERM_DIM, v->i ? "yes" : "no");
		break;
	}
}

static bool sheet_is_number(enum sheet_kind kind)
{
	return kind != SHEET_TEXT && kind != SHEET_BOOL;
}

/* The columns that people see: their rows of a table, and where they are in the sheet. */
static size_t sheet_seen(const struct sheet *s, struct table_column *columns, size_t *at)
{
	size_t i, n = 0;

	for (i = 0; i < s->n_columns; i++) {
		if (s->hidden[i])
			continue;
		columns[n].head = s->columns[i].head;
		columns[n].flags = (s->columns[i].flags & ~(SHEET_DATA | SHEET_SEEN)) |
				   (sheet_is_number(s->columns[i].kind) ? TABLE_RIGHT : 0);
		at[n++] = i;
	}
	return n;
}

void sheet_print(const struct sheet *s, const struct term *term, FILE *to, size_t limit)
{
	struct table_column *columns = xcalloc(s->n_columns, sizeof(*columns));
	size_t *at = xcalloc(s->n_columns, sizeof(*at));
	size_t i, k, rows = sheet_rows(s), shown = limit && limit < rows ? limit : rows;
	size_t n = sheet_seen(s, columns, at);
	struct table *t = table_new(columns, n);

	for (i = 0; i < shown; i++)
		for (k = 0; k < n; k++)
			sheet_show(t, &s->columns[at[k]], &s->cells[i * s->n_columns + at[k]]);
	if (s->title) {
		term_put(term, to, TERM_BOLD, s->title);
		fputc('\n', to);
	}
	table_print(t, term, to, s->title ? 2 : 0);
	if (shown < rows)
		fprintf(to, "%s%zu more (--limit 0 shows all)\n", s->title ? "  " : "",
			rows - shown);
	table_free(t);
	free(columns);
	free(at);
}

/* ---- for programs ------------------------------------------------------------------- */

void sheet_json(const struct sheet *s, struct json *j)
{
	size_t i, k;

	json_array(j);
	for (i = 0; i < sheet_rows(s); i++) {
		json_object(j);
		for (k = 0; k < s->n_columns; k++) {
			const struct sheet_cell *v = &s->cells[i * s->n_columns + k];
			enum sheet_kind kind = s->columns[k].kind;

			if (s->columns[k].flags & SHEET_SEEN)
				continue;
			json_key(j, s->columns[k].key);
			if (!v->known)
				json_null(j);
			else if (kind == SHEET_TEXT)
				json_str(j, v->text);
			else if (kind == SHEET_BOOL)
				json_bool(j, v->i);
			else if (sheet_is_double(kind))
				json_double(j, v->d);
			else
				json_int(j, v->i);
		}
		json_object_end(j);
	}
	json_array_end(j);
}

static void sheet_csv_cell(enum sheet_kind kind, const struct sheet_cell *v, struct buf *out)
{
	if (!v->known)
		return;
	if (kind == SHEET_TEXT)
		export_csv_text(out, v->text);
	else if (sheet_is_double(kind))
		json_put_double(out, v->d);
	else
		buf_printf(out, "%lld", (long long)v->i);
}

void sheet_csv(const struct sheet *s, FILE *to)
{
	const char *comma = "";
	struct buf line;
	size_t i, k;

	for (k = 0; k < s->n_columns; k++) {
		if (s->columns[k].flags & SHEET_SEEN)
			continue;
		fprintf(to, "%s%s", comma, s->columns[k].key);
		comma = ",";
	}
	fputc('\n', to);
	buf_init(&line, SHEET_LINE_MAX);
	for (i = 0; i < sheet_rows(s); i++) {
		buf_reset(&line);
		for (k = 0, comma = ""; k < s->n_columns; k++) {
			if (s->columns[k].flags & SHEET_SEEN)
				continue;
			buf_puts(&line, comma);
			comma = ",";
			sheet_csv_cell(s->columns[k].kind, &s->cells[i * s->n_columns + k], &line);
		}
		buf_putc(&line, '\n');
		fwrite(line.data, 1, line.len, to);
	}
	buf_done(&line);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - see table.h. A table is kept whole until it is printed, as the
 * widths depend on all rows.
 */
#include "report/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/utf8.h"

#define TABLE_GAP 2
#define TABLE_ELIDED_MIN 8 /* no column is shortened below this */

void term_look(struct term *t, FILE *to)
{
	const char *no_color = getenv("NO_COLOR"), *name = getenv("TERM"), *columns;
	struct winsize size;
	int64_t width;
	int fd = fileno(to);

	*t = (struct term){0};
	if (fd < 0 || !isatty(fd))
		return;
	t->color = (!no_color || no_color[0] == '\0') && name && name[0] != '\0' &&
		   strcmp(name, "dumb") != 0;
	t->width = 80;
	columns = getenv("COLUMNS");
	if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		t->width = size.ws_col;
	else if (columns && number_int(columns, &width) == 0 && width >= 20 && width <= 10000)
		t->width = (int)width;
}

void term_put(const struct term *t, FILE *to, enum term_style style, const char *text)
{
	static const char *const codes[] = {
		[TERM_PLAIN] = "",        [TERM_BOLD] = "\033[1m",     [TERM_DIM] = "\033[2m",
		[TERM_RED] = "\033[31m",  [TERM_YELLOW] = "\033[33m",  [TERM_GREEN] = "\033[32m",
		[TERM_BLUE] = "\033[34m", [TERM_MAGENTA] = "\033[35m", [TERM_CYAN] = "\033[36m",
	};

	if (t->color && style != TERM_PLAIN)
		fprintf(to, "%s%s\033[0m", codes[style], text);
	else
		fputs(text, to);
}

/* The character at p: its length in bytes, and how many columns it takes. */
static size_t term_char(const char *p, size_t len, int *ret_width)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t n = utf8_valid(u, len), i;
	wchar_t c;
	int width;

	*ret_width = 1;
	if (n < 2)
		return 1;
	c = (wchar_t)(u[0] & (0x7f >> n));
	for (i = 1; i < n; i++)
		c = (wchar_t)(c << 6 | (u[i] & 0x3f));
	width = wcwidth(c);
	if (width >= 0)
		*ret_width = width;
	return n;
}

int term_text_width(const char *text)
{
	size_t len = strlen(text), i = 0;
	int width, sum = 0;

	while (i < len) {
		i += term_char(text + i, len - i, &width);
		sum += width;
	}
	return sum;
}

char *term_clean(const char *text)
{
	char *copy = xstrdup(text ? text : ""), *p;

	for (p = copy; *p; p++)
		if (*p == '\n' || *p == '\t' || *p == '\r')
			*p = ' ';
	utf8_clean(copy, strlen(copy));
	return copy;
}

struct table_text {
	char *text;
	int width;
	enum term_style style;
};

struct table {
	const struct table_column *columns;
	size_t n_columns;
	struct table_text *cells;
	size_t n, cap;
};

struct table *table_new(const struct table_column *columns, size_t n)
{
	struct table *t = xcalloc(1, sizeof(*t));

	t->columns = columns;
	t->n_columns = n;
	return t;
}

void table_free(struct table *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < t->n; i++)
		free(t->cells[i].text);
	free(t->cells);
	free(t);
}

void table_cell(struct table *t, enum term_style style, const char *text)
{
	struct table_text *c;

	t->cells = xgrow(t->cells, t->n, &t->cap, sizeof(*t->cells));
	c = &t->cells[t->n++];
	c->text = term_clean(text);
	c->width = term_text_width(c->text);
	c->style = style;
}

void table_cellf(struct table *t, enum term_style style, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	table_cell(t, style, text);
	free(text);
}

size_t table_rows(const struct table *t)
{
	return t->n / t->n_columns;
}

/* Widths of the columns; 0: left out. Returns the width of a line. */
static int table_measure(const struct table *t, int *widths)
{
	size_t col, i;
	int sum = 0;

	for (col = 0; col < t->n_columns; col++) {
		widths[col] = 0;
		for (i = col; i < t->n; i += t->n_columns)
			if (t->cells[i].width > widths[col])
				widths[col] = t->cells[i].width;
		if (widths[col] > 0 && term_text_width(t->columns[col].head) > widths[col])
			widths[col] = term_text_width(t->columns[col].head);
		sum += widths[col] ? widths[col] + TABLE_GAP : 0;
	}
	return sum ? sum - TABLE_GAP : 0;
}

/* Take from the widest column that may be shortened, until the line fits. */
static int table_shrink(const struct table *t, int *widths, int sum, int room)
{
	size_t col, widest;

	while (sum > room) {
		widest = t->n_columns;
		for (col = 0; col < t->n_columns; col++)
			if (t->columns[col].flags & (TABLE_ELIDE | TABLE_CUT) &&
			    widths[col] > TABLE_ELIDED_MIN &&
			    (widest == t->n_columns || widths[col] > widths[widest]))
				widest = col;
		if (widest == t->n_columns)
			break;
		widths[widest]--;
		sum--;
	}
	return sum;
}

/* Make the line fit: shorten; if that is not enough, leave out columns, from
 * the left, and shorten what remains as little as it needs. */
static void table_fit(const struct table *t, int *widths, int sum, int room)
{
	int *shrunk = xcalloc(t->n_columns, sizeof(*shrunk));
	size_t col;

	for (col = 0; col < t->n_columns; col++) {
		memcpy(shrunk, widths, t->n_columns * sizeof(*shrunk));
		if (table_shrink(t, shrunk, sum, room) <= room)
			break;
		if (!(t->columns[col].flags & TABLE_DROP) || !widths[col])
			continue;
		sum -= widths[col] + TABLE_GAP;
		widths[col] = 0;
	}
	free(shrunk);
	table_shrink(t, widths, sum, room);
}

/* Print at most `width` columns of text, ".." in its middle or at its end if it
 * is longer: the end of a metric's name tells as much as its beginning. */
static int table_put_elided(const struct term *term, FILE *to, const struct table_text *c,
			    int width, bool cut)
{
	size_t len = strlen(c->text), head = 0, tail, n;
	int head_width = 0, tail_width = c->width, w,
	    head_room = cut ? width - 2 : (width - 2 + 1) / 2;
	char *text;

	if (c->width <= width) {
		term_put(term, to, c->style, c->text);
		return c->width;
	}
	for (;;) {
		n = term_char(c->text + head, len - head, &w);
		if (head_width + w > head_room)
			break;
		head += n;
		head_width += w;
	}
	for (tail = 0; tail_width > width - 2 - head_width; tail += n) {
		n = term_char(c->text + tail, len - tail, &w);
		tail_width -= w;
	}
	text = xasprintf("%.*s..%s", (int)head, c->text, c->text + tail);
	term_put(term, to, c->style, text);
	free(text);
	return head_width + 2 + tail_width;
}

static void table_line(const struct table *t, const struct term *term, FILE *to, int indent,
		       const int *widths, const struct table_text *cells)
{
	int pending = indent, used;
	size_t col;

	for (col = 0; col < t->n_columns; col++) {
		const struct table_text *c = &cells[col];
		bool right = t->columns[col].flags & TABLE_RIGHT;

		if (!widths[col])
			continue;
		used = c->width < widths[col] ? c->width : widths[col];
		if (right)
			pending += widths[col] - used;
		/* Blanks wait for the next text: no line ends in blanks. */
		if (c->text[0] != '\0') {
			fprintf(to, "%*s", pending, "");
			pending = 0;
			used = table_put_elided(term, to, c, widths[col],
						t->columns[col].flags & TABLE_CUT);
		}
		pending += (right ? 0 : widths[col] - used) + TABLE_GAP;
	}
	fputc('\n', to);
}

void table_print(const struct table *t, const struct term *term, FILE *to, int indent)
{
	int *widths = xcalloc(t->n_columns, sizeof(*widths));
	struct table_text *heads = xcalloc(t->n_columns, sizeof(*heads));
	int sum = table_measure(t, widths), room = term->width - indent;
	bool has_heads = false;
	size_t i;

	if (term->width > 0)
		table_fit(t, widths, sum, room);
	for (i = 0; i < t->n_columns; i++) {
		heads[i] = (struct table_text){.text = xstrdup(t->columns[i].head),
					       .width = term_text_width(t->columns[i].head),
					       .style = TERM_DIM};
		has_heads = has_heads || heads[i].width > 0;
	}
	if (has_heads && t->n > 0)
		table_line(t, term, to, indent, widths, heads);
	for (i = 0; i + t->n_columns <= t->n; i += t->n_columns)
		table_line(t, term, to, indent, widths, &t->cells[i]);
	for (i = 0; i < t->n_columns; i++)
		free(heads[i].text);
	free(heads);
	free(widths);
}

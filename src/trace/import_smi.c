/* SPDX-License-Identifier: Apache-2.0
 *
 * import_smi.c - nvidia-smi's CSV: a header with units in brackets, cells parted by ", ".
 */
#include "trace/import_smi.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GPUS_MAX 1024

struct cells {
	struct {
		const char *p;
		size_t len;
	} at[IMPORT_COLUMNS_MAX];
	size_t n;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '"';
}

static void split(const char *p, size_t len, struct cells *ret)
{
	const char *end = p + len;

	ret->n = 0;
	while (p <= end && ret->n < IMPORT_COLUMNS_MAX) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma ? comma : end, *next = stop + 1;

		while (p < stop && is_blank(*p))
			p++;
		while (stop > p && is_blank(stop[-1]))
			stop--;
		ret->at[ret->n].p = p;
		ret->at[ret->n++].len = (size_t)(stop - p);
		p = next;
	}
}

static bool is_text(const char *p, size_t len, const char *text)
{
	return len == strlen(text) && !memcmp(p, text, len);
}

/* "memory.used [MiB]" */
static bool read_header(struct import_smi *s, const struct cells *c)
{
	bool known = false;

	for (size_t i = 0; i < c->n; i++) {
		struct import_column *col = &s->columns[i];
		const char *p = c->at[i].p, *open = memchr(p, '[', c->at[i].len);
		size_t len = open ? (size_t)(open - p) : c->at[i].len, unit;

		while (len && is_blank(p[len - 1]))
			len--;
		if (!len)
			return false;
		known |= is_text(p, len, "timestamp") || memchr(p, '.', len);
		snprintf(col->name, sizeof(col->name), "%.*s", (int)(len < 63 ? len : 63), p);
		unit = open ? c->at[i].len - (size_t)(open - p) - 1 : 0;
		if (unit && open[unit] == ']')
			unit--;
		snprintf(col->unit, sizeof(col->unit), "%.*s", (int)(unit < 15 ? unit : 15),
			 open ? open + 1 : "");
		/* A first cell that begins with a digit is a row: there is no header. */
		if (!i && *p >= '0' && *p <= '9')
			return false;
	}
	s->n_columns = c->n;
	return known && c->n > 0;
}

static bool is_header(const struct import_smi *s, const struct cells *c)
{
	size_t len = strlen(s->columns[0].name);

	return c->n == s->n_columns && c->at[0].len >= len &&
	       !memcmp(c->at[0].p, s->columns[0].name, len);
}

/* "2026/11/27 23:11:01.250" */
static int64_t read_time(const char *p, size_t len)
{
	struct tm tm = {.tm_isdst = 0};
	int millis = 0, n = 0;
	char text[40];
	time_t t;

	if (len >= sizeof(text))
		return INT64_MIN;
	memcpy(text, p, len);
	text[len] = '\0';
	if (sscanf(text, "%4d/%2d/%2d %2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &n) != 6 ||
	    tm.tm_year < 1970 || tm.tm_year > 2200)
		return INT64_MIN;
	if (text[n] == '.')
		sscanf(text + n + 1, "%3d", &millis);
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	t = timegm(&tm);
	return (int64_t)t * 1000000000 + (int64_t)(millis > 0 ? millis : 0) * 1000000;
}

/* "81079 MiB", "12 %", "0x1f", "N/A": the number before the unit. */
static double read_number(const char *p, size_t len)
{
	char text[64], *end;
	double v;

	if (!len || len >= sizeof(text))
		return NAN;
	memcpy(text, p, len);
	text[len] = '\0';
	if (!(*text == '-' || *text == '.' || (*text >= '0' && *text <= '9')))
		return NAN;
	v = strtod(text, &end);
	/* A date, a bus id or a name that begins with a digit is no number. */
	return (*end == '\0' || *end == ' ' || *end == '%') && isfinite(v) ? v : NAN;
}

static int gpu_of(struct import_smi *s, const struct cells *c, uint32_t *ret)
{
	static const char *const keys[] = {"index",      "uuid",     "gpu_uuid", "pci.bus_id",
					   "gpu_bus_id", "gpu_name", "name",     NULL};
	char name[80] = "";
	char(*gpus)[80];

	for (size_t k = 0; keys[k] && !name[0]; k++)
		for (size_t i = 0; i < s->n_columns; i++)
			if (!strcmp(s->columns[i].name, keys[k]))
				snprintf(name, sizeof(name), "%.*s",
					 (int)(c->at[i].len < 79 ? c->at[i].len : 79), c->at[i].p);
	for (size_t i = 0; i < s->n_gpus; i++)
		if (!strcmp(s->gpus[i], name)) {
			*ret = (uint32_t)i;
			return 0;
		}
	if (s->n_gpus == GPUS_MAX)
		return -E2BIG;
	gpus = realloc(s->gpus, (s->n_gpus + 1) * sizeof(*gpus));
	if (!gpus)
		return -ENOMEM;
	s->gpus = gpus;
	memcpy(s->gpus[s->n_gpus], name, sizeof(name));
	*ret = (uint32_t)s->n_gpus++;
	return 0;
}

static int room(struct import_smi *s)
{
	size_t cap = s->cap ? s->cap * 2 : 256;
	struct import_smi_row *rows;
	double *cells;

	if (s->n_rows < s->cap)
		return 0;
	rows = realloc(s->rows, cap * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	s->rows = rows;
	cells = realloc(s->cells, cap * s->n_columns * sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	s->cells = cells;
	s->cap = cap;
	return 0;
}

static void put_cell(struct import_smi *s, size_t i, double v)
{
	struct import_column *col = &s->columns[i];

	s->cells[s->n_rows * s->n_columns + i] = v;
	if (isnan(v)) {
		col->none++;
		return;
	}
	col->least = col->n && col->least < v ? col->least : v;
	col->most = col->n && col->most > v ? col->most : v;
	col->sum += v;
	col->last = v;
	col->n++;
}

static int read_row(struct import_smi *s, const struct cells *c)
{
	struct import_smi_row row = {.time = INT64_MIN};
	int rc = room(s);

	if (!rc)
		rc = gpu_of(s, c, &row.gpu);
	if (rc)
		return rc;
	for (size_t i = 0; i < s->n_columns; i++) {
		if (!strcmp(s->columns[i].name, "timestamp")) {
			row.time = read_time(c->at[i].p, c->at[i].len);
			s->cells[s->n_rows * s->n_columns + i] = NAN;
			continue;
		}
		put_cell(s, i, read_number(c->at[i].p, c->at[i].len));
	}
	if (row.time != INT64_MIN) {
		s->from = s->from == INT64_MIN || row.time < s->from ? row.time : s->from;
		s->to = row.time > s->to ? row.time : s->to;
	}
	s->rows[s->n_rows++] = row;
	return 0;
}

static int read_line(struct import_smi *s, const char *p, size_t len, uint64_t number,
		     struct err *e)
{
	struct cells c;

	while (len && is_blank(p[len - 1]))
		len--;
	if (!len)
		return 0;
	split(p, len, &c);
	if (!s->n_columns) {
		if (read_header(s, &c))
			return 0;
		return err_set(
			e, -EBADMSG,
			"line %llu is no header of nvidia-smi: run it with --format=csv, not "
			"csv,noheader",
			(unsigned long long)number);
	}
	if (is_header(s, &c))
		return 0;
	if (c.n != s->n_columns) {
		if (!s->skipped++)
			s->first_skipped = number;
		return 0;
	}
	return read_row(s, &c);
}

int import_smi(const char *data, size_t len, struct import_smi *ret, struct err *e)
{
	struct import_smi *s = calloc(1, sizeof(*s));
	const char *p = data, *end = data + len;
	uint64_t number = 1;
	int rc = 0;

	if (!s)
		return err_set(e, -ENOMEM, "out of memory");
	s->from = s->to = INT64_MIN;
	for (; p < end && !rc; number++) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);

		rc = read_line(s, p, n, number, e);
		p += n + 1;
	}
	if (!rc && !s->n_columns)
		rc = err_set(e, -EBADMSG, "the file is empty");
	if (rc) {
		import_smi_done(s);
		free(s);
		return err_set(e, rc, "nvidia-smi's CSV cannot be read");
	}
	*ret = *s;
	free(s);
	return 0;
}

void import_smi_done(struct import_smi *s)
{
	free(s->cells);
	free(s->rows);
	free(s->gpus);
	s->cells = NULL;
	s->rows = NULL;
	s->gpus = NULL;
}

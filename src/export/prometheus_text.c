/* SPDX-License-Identifier: Apache-2.0
 *
 * prometheus_text.c - names, labels, buckets and lines of Prometheus' text
 * format 0.0.4.
 */
#include "export/prometheus_priv.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/utf8.h"

/* ---- buckets --------------------------------------------------------------------- */

#define PROMETHEUS_POWER 10 /* of 4, the outermost */

static struct prometheus_scale prometheus_scales[2];
static pthread_once_t prometheus_once = PTHREAD_ONCE_INIT;

static void prometheus_build(void)
{
	static const double durations[] = {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025,
					   0.05, 0.1,    0.25, 0.5,  1,      2.5,  5,    10,
					   25,   50,     100,  250,  500,    1000};
	struct prometheus_scale *d = &prometheus_scales[0], *v = &prometheus_scales[1];
	int k;

	d->n = ARRAY_LEN(durations);
	memcpy(d->le, durations, sizeof(durations));
	for (k = PROMETHEUS_POWER; k >= -PROMETHEUS_POWER; k--)
		v->le[v->n++] = -ldexp(1, 2 * k);
	v->zero = v->n;
	v->le[v->n++] = 0;
	for (k = -PROMETHEUS_POWER; k <= PROMETHEUS_POWER; k++)
		v->le[v->n++] = ldexp(1, 2 * k);
}

const struct prometheus_scale *prometheus_durations(void)
{
	pthread_once(&prometheus_once, prometheus_build);
	return &prometheus_scales[0];
}

const struct prometheus_scale *prometheus_values(void)
{
	pthread_once(&prometheus_once, prometheus_build);
	return &prometheus_scales[1];
}

static const struct prometheus_scale *prometheus_scale(const struct prometheus_entry *e)
{
	return e->kind == PROMETHEUS_SPAN ? prometheus_durations() : prometheus_values();
}

/* The bucket of what is at most v; s->n: +Inf. */
static size_t prometheus_bucket(const struct prometheus_scale *s, double v)
{
	size_t low = 0, high = s->n, mid;

	while (low < high) {
		mid = (low + high) / 2;
		if (v <= s->le[mid])
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static void prometheus_add(struct prometheus_entry *e, double v, uint64_t n)
{
	const struct prometheus_scale *s = prometheus_scale(e);

	if (!e->below)
		e->below = xcalloc(PROMETHEUS_LE_MAX + 1, sizeof(*e->below));
	e->below[prometheus_bucket(s, v)] += n;
	e->negative = e->negative || v < 0;
}

void prometheus_observe(struct prometheus_entry *e, double v)
{
	if (isnan(v))
		return;
	e->count++;
	e->value += v;
	prometheus_add(e, v, 1);
}

/* Upper end of what a bin holds (wire/sink.h): that of bin 0 is 0 for us. */
static double prometheus_bin_high(uint16_t key)
{
	uint64_t bits = (uint64_t)(key & 0x8000u || key == 0 ? key : key + 1u) << 48;
	double v;

	memcpy(&v, &bits, sizeof(v));
	return isnan(v) ? INFINITY : v;
}

void prometheus_observe_hist(struct prometheus_entry *e, const struct sink_hist *h)
{
	size_t i;

	for (i = 0; i < h->n_bins; i++)
		prometheus_add(e, prometheus_bin_high(h->bins[i].key), h->bins[i].count);
	e->count += h->count;
	e->value += h->count ? h->sum : 0;
}

/* ---- names ----------------------------------------------------------------------- */

struct prometheus_unit {
	const char *unit, *suffix;
	double scale;
};

/* Units that have a base unit; others are in HELP only. */
static const struct prometheus_unit prometheus_units[] = {
	{"s", "seconds", 1},       {"ms", "seconds", 1e-3},
	{"us", "seconds", 1e-6},   {"ns", "seconds", 1e-9},
	{"min", "seconds", 60},    {"h", "seconds", 3600},
	{"By", "bytes", 1},        {"KiBy", "bytes", 0x1p10},
	{"MiBy", "bytes", 0x1p20}, {"GiBy", "bytes", 0x1p30},
	{"kBy", "bytes", 1e3},     {"MBy", "bytes", 1e6},
	{"GBy", "bytes", 1e9},     {"By/s", "bytes_per_second", 1},
	{"%", "ratio", 1e-2},      {"Cel", "celsius", 1},
	{"J", "joules", 1},        {"mJ", "joules", 1e-3},
	{"W", "watts", 1},         {"mW", "watts", 1e-3},
	{"Hz", "hertz", 1},        {"MHz", "hertz", 1e6},
	{"V", "volts", 1},         {"A", "amperes", 1},
};

/* Endings that mean something to Prometheus and would be false here. */
static bool prometheus_is_reserved(const char *name)
{
	static const char *const endings[] = {"_total", "_count", "_sum", "_bucket", "_info"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(endings); i++)
		if (text_ends(name, endings[i]))
			return true;
	return false;
}

static bool prometheus_ends_with(const struct buf *b, const char *suffix)
{
	size_t k = strlen(suffix);

	return b->len > k && b->data[b->len - k - 1] == '_' &&
	       memcmp(b->data + b->len - k, suffix, k) == 0;
}

char *prometheus_name(const struct store_series *s, double *ret_scale)
{
	const char *p = s->name, *suffix = NULL;
	struct buf b;
	char *name;
	size_t i;

	*ret_scale = 1;
	for (i = 0; i < ARRAY_LEN(prometheus_units); i++)
		if (strcmp(prometheus_units[i].unit, s->unit) == 0) {
			suffix = prometheus_units[i].suffix;
			*ret_scale = prometheus_units[i].scale;
		}
	buf_init(&b, 65536);
	buf_puts(&b, "lapse_");
	if (strncmp(p, "lapse/", 6) == 0)
		p += 6;
	for (; *p; p++)
		buf_putc(&b, isalnum((unsigned char)*p) ? *p : '_');
	/* Bins cannot be scaled: their unit stays as it is. */
	if (s->kind == SINK_HISTOGRAM && *ret_scale != 1) {
		*ret_scale = 1;
		suffix = NULL;
	}
	if (suffix && !prometheus_ends_with(&b, suffix))
		buf_printf(&b, "_%s", suffix);
	if (s->kind == SINK_COUNTER && !prometheus_ends_with(&b, "total"))
		buf_puts(&b, "_total");
	else if (s->kind != SINK_COUNTER && prometheus_is_reserved(buf_str(&b)))
		buf_puts(&b, "_value");
	name = xstrdup(buf_str(&b));
	buf_done(&b);
	return name;
}

/* ---- lines ------------------------------------------------------------------------ */

static void prometheus_escape(struct buf *b, const char *text, bool quote)
{
	size_t left = strlen(text), n;

	while (left) {
		n = utf8_valid((const unsigned char *)text, left);
		if (n == 0)
			buf_puts(b, "\xef\xbf\xbd");
		else if (*text == '\n')
			buf_puts(b, "\\n");
		else if (*text == '\\' || (quote && *text == '"'))
			buf_printf(b, "\\%c", *text);
		else
			buf_append(b, text, n);
		n = n ? n : 1;
		text += n;
		left -= n;
	}
}

void prometheus_label(struct buf *b, const char *value)
{
	prometheus_escape(b, value, true);
}

void prometheus_head(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_printf(b, "# HELP %s ", name);
	prometheus_escape(b, help, false);
	buf_printf(b, "\n# TYPE %s %s\n", name, type);
}

void prometheus_number(struct buf *b, double v)
{
	if (isinf(v))
		buf_puts(b, v > 0 ? "+Inf" : "-Inf");
	else
		json_put_double(b, v);
}

static void prometheus_sample(struct buf *b, const struct prometheus_entry *e, const char *suffix,
			      const char *le, double v)
{
	buf_printf(b, "%s%s{%s%s%s%s} ", e->name, suffix, e->labels, le ? ",le=\"" : "",
		   le ? le : "", le ? "\"" : "");
	prometheus_number(b, v);
	buf_putc(b, '\n');
}

static void prometheus_buckets(struct buf *b, const struct prometheus_entry *e)
{
	const struct prometheus_scale *s = prometheus_scale(e);
	uint64_t sum = 0;
	struct buf le;
	size_t i;

	buf_init(&le, 64);
	for (i = 0; i < s->n; i++) {
		sum += e->below ? e->below[i] : 0;
		if (i < s->zero && !e->negative)
			continue;
		buf_reset(&le);
		prometheus_number(&le, s->le[i]);
		prometheus_sample(b, e, "_bucket", buf_str(&le), (double)sum);
	}
	buf_done(&le);
	prometheus_sample(b, e, "_bucket", "+Inf", (double)e->count);
	prometheus_sample(b, e, "_sum", NULL, e->value);
	prometheus_sample(b, e, "_count", NULL, (double)e->count);
}

const char *prometheus_type(enum prometheus_kind kind, bool is_open)
{
	static const char *const types[] = {[PROMETHEUS_GAUGE] = "gauge",
					    [PROMETHEUS_COUNTER] = "counter",
					    [PROMETHEUS_SPAN] = "histogram",
					    [PROMETHEUS_HIST] = "histogram",
					    [PROMETHEUS_INFO] = "info"};

	return kind == PROMETHEUS_INFO && !is_open ? "gauge" : types[kind];
}

void prometheus_lines(struct buf *b, const struct prometheus_entry *e, bool first)
{
	if (first)
		prometheus_head(b, e->name, prometheus_type(e->kind, false), e->help);
	if (e->kind == PROMETHEUS_SPAN || e->kind == PROMETHEUS_HIST)
		prometheus_buckets(b, e);
	else
		prometheus_sample(b, e, "", NULL, e->value);
}

/* ---- OpenMetrics ---------------------------------------------------------------------- */

/* Limits of buckets are written as Go writes a float: "1.0", "1.048576e+06". */
static void prometheus_open_limit(struct buf *b, double v)
{
	char text[64];
	char *dot;

	snprintf(text, sizeof(text), "%.15g", v);
	if (fabs(v) >= 1e6) {
		snprintf(text, sizeof(text), "%.14e", v);
		dot = strchr(text, 'e');
		while (dot[-1] == '0' && dot[-2] != '.') {
			memmove(dot - 1, dot, strlen(dot) + 1);
			dot--;
		}
	} else if (!strpbrk(text, ".e")) {
		strcat(text, ".0");
	}
	buf_puts(b, text);
}

static void prometheus_open_buckets(struct buf *b, const struct prometheus_entry *e)
{
	const struct prometheus_scale *s = prometheus_scale(e);
	uint64_t sum = 0;
	struct buf le;
	size_t i;

	buf_init(&le, 64);
	for (i = 0; i < s->n; i++) {
		sum += e->below ? e->below[i] : 0;
		if (i < s->zero && !e->negative)
			continue;
		buf_reset(&le);
		prometheus_open_limit(&le, s->le[i]);
		prometheus_sample(b, e, "_bucket", buf_str(&le), (double)sum);
	}
	buf_done(&le);
	prometheus_sample(b, e, "_bucket", "+Inf", (double)e->count);
	/* A sum that may go down is none: the format has neither then. */
	if (e->negative)
		return;
	prometheus_sample(b, e, "_sum", NULL, e->value);
	prometheus_sample(b, e, "_count", NULL, (double)e->count);
}

size_t prometheus_open_family(const struct prometheus_entry *e)
{
	const char *ending = e->kind == PROMETHEUS_COUNTER ? "_total"
			     : e->kind == PROMETHEUS_INFO  ? "_info"
							   : "";

	return strlen(e->name) - strlen(ending);
}

void prometheus_open_lines(struct buf *b, const struct prometheus_entry *e, bool first)
{
	int family = (int)prometheus_open_family(e);

	if (first) {
		buf_printf(b, "# TYPE %.*s %s\n# HELP %.*s ", family, e->name,
			   prometheus_type(e->kind, true), family, e->name);
		prometheus_escape(b, e->help, true);
		buf_putc(b, '\n');
	}
	if (e->kind == PROMETHEUS_SPAN || e->kind == PROMETHEUS_HIST)
		prometheus_open_buckets(b, e);
	else
		prometheus_sample(b, e, "", NULL, e->value);
}

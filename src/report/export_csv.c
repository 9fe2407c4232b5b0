/* SPDX-License-Identifier: Apache-2.0
 *
 * export_csv.c - long form, one value a row, RFC 4180: CRLF is not used (every
 * reader takes LF), quotes where they are needed.
 */
#include "report/export.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void export_csv_text(struct buf *out, const char *text)
{
	size_t len = strlen(text), i = 0, n;
	bool quote = text[strcspn(text, ",\"\r\n")] != '\0';

	if (quote)
		buf_putc(out, '"');
	while (i < len) {
		n = utf8_valid((const unsigned char *)text + i, len - i);
		if (text[i] == '"')
			buf_putc(out, '"');
		if (n == 0 || (n == 1 && ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) &&
			       !strchr("\t\r\n", text[i]))) {
			buf_puts(out, "\xef\xbf\xbd");
			n = 1;
		} else {
			buf_append(out, text + i, n);
		}
		i += n;
	}
	if (quote)
		buf_putc(out, '"');
}

static void csv_begin(struct buf *out, const struct runview *v, unsigned what)
{
	(void)v;
	if (what & EXPORT_EVENTS)
		buf_puts(out, "host,process,rank,time_ns,time_utc,step,severity,kind,text,attrs\n");
	else
		buf_puts(out, "host,process,rank,series,labels,unit,kind,time_ns,time_utc,step,"
			      "value,thread\n");
}

/* host,process,rank, */
static void csv_process(struct buf *out, const struct store_process *p)
{
	export_csv_text(out, p->host_name);
	buf_putc(out, ',');
	export_csv_text(out, p->role);
	buf_printf(out, ":%lld,", (long long)p->pid);
	if (p->rank >= 0)
		buf_printf(out, "%lld", (long long)p->rank);
	buf_putc(out, ',');
}

/* time_ns,time_utc,step, */
static void csv_moment(struct buf *out, int64_t time_ns, int64_t step)
{
	char text[FMT_MAX];

	buf_printf(out, "%lld,%s,", (long long)time_ns, fmt_utc(text, time_ns));
	if (step != SINK_STEP_NONE)
		buf_printf(out, "%lld", (long long)step);
	buf_putc(out, ',');
}

static void csv_row(struct buf *out, const struct runview *v, const struct store_series *s,
		    const struct store_point *p, const char *part, double value)
{
	csv_process(out, runview_process(v, s->host, s->process));
	export_csv_text(out, s->name);
	buf_putc(out, ',');
	export_csv_text(out, s->labels);
	buf_putc(out, ',');
	export_csv_text(out, strcmp(part, ":count") == 0 ? "1" : runview_unit(s));
	buf_printf(out, ",%s%s,", runview_kind(s->kind), part);
	csv_moment(out, p->time_ns, p->step);
	json_put_double(out, value);
	buf_putc(out, ',');
	if (p->thread)
		buf_printf(out, "%u", p->thread);
	buf_putc(out, '\n');
}

static void csv_point(struct buf *out, const struct runview *v, const struct store_series *s,
		      size_t index, const struct store_point *p)
{
	(void)index;
	if (!p->hist) {
		csv_row(out, v, s, p, "", p->value);
		return;
	}
	csv_row(out, v, s, p, ":count", (double)(p->hist->count + p->hist->nan));
	csv_row(out, v, s, p, ":sum", p->hist->sum);
	csv_row(out, v, s, p, ":min", p->hist->min);
	csv_row(out, v, s, p, ":max", p->hist->max);
}

static void csv_event(struct buf *out, const struct runview *v, const struct store_event *e)
{
	csv_process(out, runview_process(v, e->host, e->process));
	csv_moment(out, e->time_ns, e->step);
	buf_printf(out, "%s,", events_severity(e->severity));
	export_csv_text(out, e->kind);
	buf_putc(out, ',');
	export_csv_text(out, e->text);
	buf_putc(out, ',');
	export_csv_text(out, e->attrs);
	buf_putc(out, '\n');
}

const struct export_ops export_csv = {
	.name = "csv",
	.what = EXPORT_SAMPLES | EXPORT_SPANS | EXPORT_HISTOGRAMS,
	.events_alone = true,
	.begin = csv_begin,
	.point = csv_point,
	.event = csv_event,
};

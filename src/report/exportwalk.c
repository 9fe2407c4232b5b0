/* SPDX-License-Identifier: Apache-2.0
 *
 * exportwalk.c - see exportwalk.h.
 */
#include "report/exportwalk.h"

#include <string.h>

#include "base/mem.h"

#define EXPORTWALK_LINE_MAX (64u << 20) /* bytes of what one item becomes */

const struct export_ops *exportwalk_format(const char *name)
{
	static const struct export_ops *const formats[] = {&export_csv, &export_json};
	size_t i;

	for (i = 0; i < ARRAY_LEN(formats); i++)
		if (strcmp(formats[i]->name, name) == 0)
			return formats[i];
	return NULL;
}

unsigned exportwalk_what(const char *word, size_t len)
{
	static const struct {
		const char *name;
		unsigned bit;
	} rows[] = {{"samples", EXPORT_SAMPLES},
		    {"spans", EXPORT_SPANS},
		    {"histograms", EXPORT_HISTOGRAMS},
		    {"events", EXPORT_EVENTS}};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (strlen(rows[i].name) == len && memcmp(rows[i].name, word, len) == 0)
			return rows[i].bit;
	return 0;
}

static int exportwalk_flush(struct exportwalk *x, struct err *e)
{
	if (x->line.error)
		x->ended = err_set(e, x->line.error, "one item is larger than %u MiB",
				   EXPORTWALK_LINE_MAX >> 20);
	else if (x->line.len)
		x->ended = x->put(x->arg, buf_str(&x->line), x->line.len);
	buf_reset(&x->line);
	return x->ended;
}

static int exportwalk_point(void *arg, const struct store_point *p)
{
	struct exportwalk *x = arg;

	x->ops->point(&x->line, x->v, x->series, x->index, p);
	x->rows++;
	return exportwalk_flush(x, NULL);
}

static int exportwalk_event(void *arg, const struct store_event *e)
{
	struct exportwalk *x = arg;
	const struct store_range *r = &x->range;

	if (r->by_time && (e->time_ns < r->time_min || e->time_ns > r->time_max))
		return 0;
	if (r->by_step &&
	    (e->step == SINK_STEP_NONE || e->step < r->step_min || e->step > r->step_max))
		return 0;
	x->ops->event(&x->line, x->v, e);
	x->rows++;
	return exportwalk_flush(x, NULL);
}

bool exportwalk_wants(const struct exportwalk *x, const struct store_series *s)
{
	unsigned bit = s->kind == SINK_SPAN        ? EXPORT_SPANS
		       : s->kind == SINK_HISTOGRAM ? EXPORT_HISTOGRAMS
						   : EXPORT_SAMPLES;

	return x->what & bit && (!x->wants || x->wants(x->arg, s));
}

static int exportwalk_series(struct exportwalk *x, struct err *e)
{
	struct err read = {0};
	int err;

	if (x->ops->series)
		x->ops->series(&x->line, x->series, x->index);
	if (exportwalk_flush(x, e) != 0)
		return x->ended;
	err = store_reader_points(x->v->reader, x->series->host, x->series->id, &x->range,
				  exportwalk_point, x, &read);
	if (err && !x->ended)
		x->ended = x->unread(x->arg, x->series->name, &read);
	return x->ended;
}

static int exportwalk_all(struct exportwalk *x, struct err *e)
{
	struct err read = {0};
	int err;

	x->ops->begin(&x->line, x->v, x->what);
	err = exportwalk_flush(x, e);
	for (x->index = 0; !err && x->index < x->v->n_series; x->index++) {
		x->series = &x->v->series[x->index];
		if (exportwalk_wants(x, x->series))
			err = exportwalk_series(x, e);
	}
	if (err || !(x->what & EXPORT_EVENTS))
		return err;
	err = store_reader_events(x->v->reader, exportwalk_event, x, &read);
	if (err && !x->ended)
		x->ended = x->unread(x->arg, "events", &read);
	return x->ended;
}

int exportwalk_run(struct exportwalk *x, struct err *e)
{
	int err;

	buf_init(&x->line, EXPORTWALK_LINE_MAX);
	err = exportwalk_all(x, e);
	buf_done(&x->line);
	/* The walk of the store passes on what a function returned, and forgets why. */
	return err ? err_set(e, err, "an item is larger than %u MiB, or could not be written",
			     EXPORTWALK_LINE_MAX >> 20)
		   : 0;
}

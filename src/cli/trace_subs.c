/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_subs.h"

#include <math.h>

const struct opt *trace_plain_options(void)
{
	static const struct opt rows[] = {TRACECMD_OPTIONS, TRACECMD_OUTPUT, {0}};

	return rows;
}

const struct opt *trace_hta_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS, TRACECMD_OUTPUT, TRACECMD_STEPS, TRACECMD_HTA, {0}};

	return rows;
}

const struct opt *trace_plugin_options(void)
{
	static const struct opt rows[] = {TRACECMD_OPTIONS, TRACECMD_OUTPUT, TRACECMD_PLUGIN, {0}};

	return rows;
}

const struct opt *trace_steps_options(void)
{
	static const struct opt rows[] = {TRACECMD_OPTIONS, TRACECMD_OUTPUT, TRACECMD_STEPS, {0}};

	return rows;
}

int trace_run(const struct tracecmd_wish *w,
	      int (*fill)(struct tracecmd_set *s, struct traceout *o), int argc, char **argv)
{
	struct tracecmd_set s;
	int status = tracecmd_load(w, argc, argv, &s), err;
	struct traceout *o;

	if (!status) {
		o = traceout_begin(&s);
		err = fill(&s, o);
		if (err)
			traceout_drop(o);
		/* Above 0: an exit status, and the user was told. */
		status = err < 0 ? tracecmd_fail(&s, err, NULL) : err > 0 ? err : traceout_end(o);
	}
	tracecmd_done(&s);
	return status;
}

#define TRACE_LIST_CELL 16   /* of a sheet */
#define TRACE_LIST_TEXTS 160 /* of a row: names of kernels are long */
#define TRACE_LIST_SHOWN 48  /* of a cell where all are made a document before they are written */

uint32_t trace_list_bytes(size_t columns)
{
	bool is_whole = tracecmd_opt.json || (!tracecmd_opt.csv && !tracecmd_opt.limit);

	return (uint32_t)(columns * (TRACE_LIST_CELL + (is_whole ? TRACE_LIST_SHOWN : 0)) +
			  TRACE_LIST_TEXTS * (is_whole ? 2 : 1));
}

bool trace_is_told(const struct tracecmd_set *s, size_t i, enum coverage_id id)
{
	bool is_part = tracecmd_opt.steps || (s->fit && s->fit[i].to);

	return !is_part || (id != COVERAGE_NO_STEPS && id != COVERAGE_LAUNCH_NO_WORK &&
			    id != COVERAGE_WORK_NO_LAUNCH && id != COVERAGE_NO_CORRELATION);
}

void trace_number(struct sheet *sheet, double v)
{
	if (isnan(v))
		sheet_missing(sheet);
	else
		sheet_double(sheet, v);
}

void trace_describe(struct sheet *sheet, const struct numeric_describe *d)
{
	trace_number(sheet, d->mean);
	trace_number(sheet, d->std);
	trace_number(sheet, d->min);
	trace_number(sheet, d->q25);
	trace_number(sheet, d->q50);
	trace_number(sheet, d->q75);
	trace_number(sheet, d->max);
}

void trace_text_cell(struct sheet *sheet, const struct trace *t, uint32_t id)
{
	sheet_text(sheet, id ? trace_text(t, id, NULL) : NULL);
}

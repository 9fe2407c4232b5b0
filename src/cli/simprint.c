/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simprint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/export.h"

#define SIMPRINT_BUF (1u << 20)
#define SIMPRINT_FLUSH 65536

/* The processes as a reader of the store would see them, all of one host index: a
 * series knows its process by a number that is unique here. */
static void simprint_processes(const struct simulate *m, struct runview *v)
{
	struct simulate_process p;
	size_t cap = 0;

	while (simulate_process(m, v->n_processes, &p) == 0) {
		v->processes = xgrow(v->processes, v->n_processes, &cap, sizeof(*v->processes));
		v->processes[v->n_processes] =
			(struct store_process){.host_name = xasprintf("node%u", p.host),
					       .id = (uint32_t)v->n_processes + 1,
					       .pid = p.sink.pid,
					       .rank = p.sink.rank,
					       .role = p.sink.role};
		v->n_processes++;
	}
}

static int simprint_flush(struct buf *b, bool all)
{
	if (b->len < SIMPRINT_FLUSH && !all)
		return 0;
	if (fwrite(buf_str(b), 1, b->len, stdout) != b->len)
		return -EIO;
	buf_reset(b);
	return 0;
}

static int simprint_series(const struct simulate *m, const struct runview *v,
			   const struct simulate_series *s, struct buf *b)
{
	struct store_series row = {.process = s->process + 1,
				   .name = s->name,
				   .labels = s->labels,
				   .unit = simulate_unit(s),
				   .kind = simulate_kind(s)};
	uint64_t n = simulate_points(m, s), k;
	struct simulate_point point;
	int err = 0;

	for (k = 0; k < n && !err; k++) {
		struct store_point p = {0};

		simulate_point(m, s, k, &point);
		p.time_ns = point.time_ns;
		p.step = point.step;
		p.value = point.value;
		p.thread = point.thread;
		p.hist = point.hist.n_bins ? &point.hist : NULL;
		export_csv.point(b, v, &row, 0, &p);
		err = simprint_flush(b, false);
	}
	return err;
}

int simprint(const struct simulate *m, const char *pattern)
{
	struct runview *v = xcalloc(1, sizeof(*v));
	struct simulate_series s;
	struct simulate_size size;
	struct buf b;
	size_t i, found = 0;
	int err = 0;

	buf_init(&b, SIMPRINT_BUF);
	simprint_processes(m, v);
	simulate_size(m, &size);
	export_csv.begin(&b, v, EXPORT_SAMPLES);
	for (i = 0; i < size.series && !err; i++) {
		simulate_series(m, i, &s);
		if (!runview_match(pattern, s.name))
			continue;
		found++;
		err = simprint_series(m, v, &s, &b);
	}
	if (!err)
		simprint_flush(&b, true);
	buf_done(&b);
	for (i = 0; i < v->n_processes; i++)
		free((char *)v->processes[i].host_name);
	free(v->processes);
	free(v);
	if (found == 0)
		fprintf(stderr, "lapse simulate: --print: no series is named like \"%s\"\n",
			pattern);
	return runview_flush() || found == 0 ? 1 : 0;
}

static void simprint_length(char out[FMT_MAX], const struct fault_row *row)
{
	if (row->permille == 0)
		snprintf(out, FMT_MAX, "one step");
	else if (row->permille == 1000)
		snprintf(out, FMT_MAX, "to the end");
	else
		snprintf(out, FMT_MAX, "%g%% of the steps", row->permille / 10.0);
}

static void simprint_json(void)
{
	const struct fault_row *row;
	struct buf b;
	struct json j;

	buf_init(&b, SIMPRINT_BUF);
	json_init(&j, &b);
	json_array(&j);
	for (row = fault_rows; row < fault_rows + FAULT_KINDS; row++) {
		json_object(&j);
		json_kstr(&j, "name", row->name);
		json_kstr(&j, "signature", row->signature);
		json_kstr(&j, "strength", row->strength);
		json_kdouble(&j, "strength_default", row->usual);
		json_kdouble(&j, "strength_min", row->lo);
		json_kdouble(&j, "strength_max", row->hi);
		json_kdouble(&j, "length_share", row->permille / 1000.0);
		json_kstr(&j, "series", row->series);
		json_object_end(&j);
	}
	json_array_end(&j);
	runview_json_print("simulate", &b);
	buf_done(&b);
}

void simprint_faults(bool json)
{
	const struct fault_row *row;
	char length[FMT_MAX];

	if (json) {
		simprint_json();
		return;
	}
	for (row = fault_rows; row < fault_rows + FAULT_KINDS; row++) {
		simprint_length(length, row);
		printf("%s\n  %s.\n  strength: %s; default %g, %g to %g. Length: %s.\n", row->name,
		       row->signature, row->strength, row->usual, row->lo, row->hi, length);
	}
}

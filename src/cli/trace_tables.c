/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_tables.c - `lapse trace tables`: what `temporal` to `annotations` print, from one
 * reading of the files.
 */
#include "cli/trace_subs.h"

#include <limits.h>
#include <malloc.h>

#include "base/mem.h"

static const char *trace_tables_folder;

const struct opt *trace_tables_options(void)
{
	static const struct opt rows[] = {
		TRACECMD_OPTIONS,
		{.name = "output",
		 .letter = 'o',
		 .type = OPT_STR,
		 .value = "FOLDER",
		 .to = &trace_tables_folder,
		 .help = "write each table into FOLDER, as CSV under its name"},
		TRACECMD_STEPS,
		TRACECMD_HTA,
		{0},
	};

	return rows;
}

static int trace_tables_fill(struct tracecmd_set *s, struct traceout *o)
{
	static int (*const fills[])(struct tracecmd_set * s, struct traceout * o) = {
		trace_temporal_fill, trace_idle_fill,  trace_kernels_fill,   trace_overlap_fill,
		trace_launch_fill,   trace_queue_fill, trace_bandwidth_fill, trace_annotations_fill,
	};
	size_t i;
	int err = 0;

	for (i = 0; i < ARRAY_LEN(fills) && !err; i++)
		err = fills[i](s, o);
	return !err && trace_tables_folder ? traceout_folder(o, trace_tables_folder) : err;
}

#define TRACE_TABLES_MAPPED (32 << 20) /* the most that the library takes */

int trace_tables(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace tables",
						  .views = TRACECMD_DEVICE_ROWS};

	/* One table after the other takes and frees arrays: the next has their pages. */
	mallopt(M_MMAP_THRESHOLD, TRACE_TABLES_MAPPED);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	return trace_run(&wish, trace_tables_fill, argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_import.h - a file of another profiler, read: what trace_import.c makes and
 * trace_imported.c prints.
 */
#ifndef CLI_TRACE_IMPORT_H
#define CLI_TRACE_IMPORT_H

#include "cli/tracecmd.h"
#include "trace/import_file.h"
#include "trace/import_frames.h"
#include "trace/import_nsys.h"
#include "trace/import_out.h"
#include "trace/import_tracemalloc.h"

struct trace_import {
	const char *path;
	enum import_kind kind;
	struct buf bytes; /* of the file: names point into it */
	/* One of these, by the kind. */
	struct import_folded folded;
	struct import_pstats pstats;
	struct import_timeline timeline;
	struct import_nsys nsys;
	struct import_smi *smi;
	struct import_snapshot *snapshot;
	struct import_mprof *mprof;
	struct import_frames frames;     /* of folded, or of what lives in the snapshot */
	bool has_stacks_written;         /* not events */
	uint64_t written, written_bytes; /* events or stacks; of text */
};

/* Print n files; output: where one was written to, NULL: nowhere. The exit status. */
int trace_import_print(struct tracecmd_set *s, struct trace_import *files, size_t n,
		       const char *output);

#endif

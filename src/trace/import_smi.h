/* SPDX-License-Identifier: Apache-2.0
 *
 * import_smi.h - the CSV of nvidia-smi --query-gpu=... --format=csv[,nounits] -l N, and of
 * lapse gpu-log, which writes the same.
 */
#ifndef TRACE_IMPORT_SMI_H
#define TRACE_IMPORT_SMI_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMPORT_COLUMNS_MAX 256

struct import_column {
	char name[64]; /* "utilization.gpu" */
	char unit[16]; /* "%", "MiB"; "" none */
	uint64_t n;    /* cells with a number */
	uint64_t none; /* "N/A", "[Not Supported]", empty and the like */
	double least, most, sum, last;
};

struct import_smi_row {
	int64_t time; /* ns since 1970 of the written date as if it were UTC (the file does not
			 say the zone); INT64_MIN none */
	uint32_t gpu; /* in gpus */
};

struct import_smi {
	struct import_column columns[IMPORT_COLUMNS_MAX];
	size_t n_columns;
	double *cells; /* rows x columns; NaN: no number */
	struct import_smi_row *rows;
	size_t n_rows, cap;
	char (*gpus)[80]; /* by index, uuid, bus id or name, whichever the file has; else "" */
	size_t n_gpus;
	int64_t from, to;       /* of rows with a time; INT64_MIN none */
	uint64_t skipped;       /* lines with another number of cells (cut off at the end, repeated
				   headers are not counted) */
	uint64_t first_skipped; /* line, from 1 */
};

/* 0, -EBADMSG (no header: it must name "timestamp" or a column with a dot in it), -ENOMEM,
 * -E2BIG. */
int import_smi(const char *data, size_t len, struct import_smi *ret, struct err *e);
void import_smi_done(struct import_smi *s);

#endif

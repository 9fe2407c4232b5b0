/* SPDX-License-Identifier: Apache-2.0
 *
 * gpuquery.h - the fields that nvidia-smi --query-gpu knows, asked of the NVIDIA driver
 * and written as nvidia-smi writes them.
 */
#ifndef CLI_GPUQUERY_H
#define CLI_GPUQUERY_H

#include <stdio.h>

#include "base/err.h"
#include "probe/gpu/nvml.h"

#define GPUQUERY_MAX 256      /* fields of a query */
#define GPUQUERY_TEXT 128     /* bytes of a value, NUL included */
#define GPUQUERY_GPUS_MAX 256 /* GPUs */

struct gpuquery_field {
	const char *name; /* "clocks.current.sm", as the header has it */
	const char *also; /* other names, comma-separated; NULL none */
	const char *unit; /* "MHz"; NULL none */
	int (*get)(const struct nvml *n, struct nvml_device *d, int arg, char out[GPUQUERY_TEXT]);
	int arg;
};

/* All fields, ended by name NULL. */
extern const struct gpuquery_field gpuquery_fields[];

/* A list "timestamp,utilization.gpu" (blanks are allowed). 0, or -EINVAL and *e says which. */
struct gpuquery {
	const struct gpuquery_field *fields[GPUQUERY_MAX];
	size_t n;
	bool header, units;
};
int gpuquery_parse(struct gpuquery *q, const char *list, struct err *e);

/* "csv", with noheader and nounits. 0 or -EINVAL. */
int gpuquery_format(struct gpuquery *q, const char *format, struct err *e);

/* The line of names; the driver's version says which ones it knows. */
void gpuquery_header(const struct gpuquery *q, int driver_major, FILE *to);

/* One line for the GPU with this index. */
void gpuquery_line(const struct gpuquery *q, const struct nvml *n, struct nvml_device *d,
		   unsigned index, unsigned count, FILE *to);

/* Is it the GPU that `id` means: its index, its uuid, its PCI address in either form? */
bool gpuquery_is(const char *id, unsigned index, const char *uuid, const struct nvml_pci *pci);

#endif

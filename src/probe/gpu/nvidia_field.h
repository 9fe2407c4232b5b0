/* SPDX-License-Identifier: Apache-2.0
 *
 * nvidia_field.h - figures that NVIDIA's driver gives as numbered fields, many in one call.
 * Which it knows and what each costs is learned when a GPU is found.
 */
#ifndef PROBE_GPU_NVIDIA_FIELD_H
#define PROBE_GPU_NVIDIA_FIELD_H

#include "probe/gpu/nvidia_dev.h"
#include "probe/gpu/rows.h"

enum nvidia_how {
	NVIDIA_GAUGE,
	NVIDIA_COUNT,   /* grows */
	NVIDIA_COUNT64, /* grows too fast for 32 bits */
	NVIDIA_REASON   /* ns in which the clock was held down: a share of the time */
};

struct nvidia_field {
	unsigned id, scope;
	enum gpu_row row;
	enum nvidia_how how;
	double scale;
	const char *label; /* value of kind or reason; NULL none */
};

/* Of the rows with the same metric and label the first that the driver knows is read. */
extern const struct nvidia_field nvidia_fields[];
extern const size_t nvidia_n_fields;

/* Fill g->field: ask each once or twice. NVML's code if the GPU is gone, else 0. */
int nvidia_classify(struct nvidia *n, struct nvidia_gpu *g);

/* Where the fields "slowdown" are numbered in this driver: NVML_FI_SLOWDOWN_OLD, _NEW, or 0: it
 * cannot be told apart. *ret NVML's code, of a GPU that is gone. */
unsigned nvidia_slowdown(struct nvidia *n, struct nvidia_gpu *g, int *ret);

#define NVIDIA_REASONS 7

/* What a group keeps of a GPU's fields. */
struct nvidia_figures {
	uint32_t field[NVIDIA_FIELDS_MAX]; /* points */
	uint32_t reason[NVIDIA_REASONS], throttled;
	int reason_field[NVIDIA_REASONS]; /* place in nvidia_fields, -1: the mask tells */
	uint64_t raw[NVIDIA_FIELDS_MAX];
	int64_t raw_ns[NVIDIA_FIELDS_MAX]; /* CLOCK_MONOTONIC; 0: not read yet */
	double share[NVIDIA_FIELDS_MAX];   /* NaN unknown */
};

/* Look up the points of the fields of class c. */
void nvidia_figures_init(struct nvidia_figures *f, const struct nvidia_gpu *g, enum nvidia_class c,
			 struct probe_set *s);

/* Ask for them and put them. NVML's code, NVML_OK also if some are not told. */
int nvidia_figures_read(struct nvidia *n, struct nvidia_gpu *g, struct nvidia_figures *f,
			enum nvidia_class c, struct probe_set *s, const struct probe_now *now);

/* All of them absent. */
void nvidia_figures_absent(struct nvidia_figures *f, struct probe_set *s, const char *why);

#endif

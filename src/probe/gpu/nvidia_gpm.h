/* SPDX-License-Identifier: Apache-2.0
 *
 * nvidia_gpm.h - how much of a GPU worked: counters of Hopper and newer, as means
 * between two samples. The driver gives them to every user.
 */
#ifndef PROBE_GPU_NVIDIA_GPM_H
#define PROBE_GPU_NVIDIA_GPM_H

#include "probe/gpu/nvidia_dev.h"
#include "probe/gpu/rows.h"

#define NVIDIA_GPM_MIN_NS 100000000 /* between samples, as NVIDIA asks */
#define NVIDIA_GPM_METRICS 8

/* Can it, and what does a sample cost? Sets g->gpm. NVML's code if the GPU is gone, else 0. */
int nvidia_gpm_classify(struct nvidia *n, struct nvidia_gpu *g);

/* Points of its metrics into points[NVIDIA_GPM_METRICS]. */
void nvidia_gpm_points(const struct nvidia_gpu *g, struct probe_set *s,
		       uint32_t points[NVIDIA_GPM_METRICS]);

/* Take a sample and put the means since the one before. NVML's code. */
int nvidia_gpm_read(struct nvidia *n, struct nvidia_gpu *g, struct probe_set *s,
		    const uint32_t points[NVIDIA_GPM_METRICS], const struct probe_now *now);

/* Free its samples: before the library is restarted, and at the end. */
void nvidia_gpm_done(struct nvidia *n, struct nvidia_gpu *g);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * procs.h - GPU memory and use by process, for the figures of a run. The slow group
 * of NVIDIA's GPUs writes the table in its thread, any thread may ask.
 */
#ifndef PROBE_GPU_PROCS_H
#define PROBE_GPU_PROCS_H

#include <stddef.h>

#define GPU_PROCS_MAX 4096 /* processes kept */

/* What a process uses of all GPUs, as of the last reading (each 10 s). */
struct gpu_proc {
	long pid;     /* as the driver tells it: of the machine, also in a container */
	double bytes; /* NaN: the driver does not tell it */
	double busy;  /* GPUs that it kept busy, 0.5 is half of one; NaN unknown */
};

/* Memory that the process has on all GPUs, bytes. 0; -ENOENT it uses none; -ENODATA: nobody
 * reads (no NVIDIA GPU, the group is off), or the driver does not tell it. */
int gpu_procs_get(long pid, double *ret_bytes);

/* GPUs that the process kept busy since the reading before. As above. */
int gpu_procs_busy(long pid, double *ret_gpus);

/* Replace the table (sorted by pid in place, entries of one pid added up). n 0 and known: no
 * process uses a GPU. */
void gpu_procs_set(struct gpu_proc *p, size_t n);

/* Nobody reads any more. */
void gpu_procs_forget(void);

#endif

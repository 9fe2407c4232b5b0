/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.h - both groups of NVIDIA's GPUs read in turn, for bench_gpu, and its other parts.
 */
#ifndef BENCH_GPU_READER_H
#define BENCH_GPU_READER_H

#include <stdbool.h>

#include "probe/probe.h"

#define READER_TIMES 200 /* calls and rounds that are timed */

struct reader {
	struct probe_set *s;
	void *fast, *slow;
	unsigned gpus; /* told so far */
};

/* false after printing why. */
bool reader_open(struct reader *r);
void reader_close(struct reader *r);

/* Wall time of one round of a group, s. */
double reader_round(struct reader *r, bool slow);

void reader_pause(double s);

/* For qsort(). */
int reader_compare(const void *a, const void *b);

/* Print what each call of the driver takes, and each of its fields. */
void gpu_calls(void);
void gpu_fields(void);

/* Hold our figures between two of nvidia-smi's. */
void gpu_compare(void);

#endif

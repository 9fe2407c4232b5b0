/* SPDX-License-Identifier: Apache-2.0
 *
 * card.h - GPUs whose driver tells its figures in files below /sys/class/drm/cardN: a
 * table of files for each vendor, one reader for all.
 */
#ifndef PROBE_GPU_CARD_H
#define PROBE_GPU_CARD_H

#include <stddef.h>

#include "probe/gpu/rows.h"

enum card_how {
	CARD_GAUGE,       /* a number */
	CARD_COUNT,       /* a number that grows */
	CARD_MEAN_POWER,  /* energy in a counter: its mean rate since the last reading */
	CARD_SPEED,       /* "16.0 GT/s PCIe": the generation of the link */
	CARD_CHOSEN,      /* lines "1: 1000Mhz *": the number of the line with the star */
	CARD_CORRECTED,   /* "ue: 0", "ce: 3": what follows ce, a counter */
	CARD_UNCORRECTED, /* what follows ue */
	CARD_NEVER        /* no file: path says why */
};

struct card_source {
	enum gpu_row row;
	enum card_how how;
	double scale;
	const char *path; /* below cardN; "@" stands for its hwmon folder */
};

struct card_vendor {
	unsigned id;      /* of PCI */
	const char *name; /* "amd": label gpu="amd0" */
	const char *title;
	const struct card_source *sources; /* of the same row the first that can be read counts */
	size_t n;
};

#define CARD_SOURCES_MAX 32

/* What a file says. 0, or -EBADMSG. */
int card_number(const char *text, enum card_how how, double *ret);

int card_open(const struct probe_env *env, const struct card_vendor *v, void **ret_state,
	      struct err *e);
void card_read(void *state, struct probe_set *s, const struct probe_now *now);
void card_close(void *state);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * rapl.h - energy that processor packages used, by the counters of Intel and AMD CPUs
 * that the kernel shows under /sys/class/powercap.
 */
#ifndef PROBE_LINUX_RAPL_H
#define PROBE_LINUX_RAPL_H

#include "probe/probe.h"

#define RAPL_PACKAGES_MAX 64

struct rapl_package {
	char path[64];  /* "intel-rapl:0/energy_uj" */
	uint64_t range; /* microjoules at which the counter begins anew; 0 unknown */
	uint64_t raw;   /* last reading */
	uint64_t sum;   /* microjoules since the first reading */
	int64_t mono_ns;
	bool has;
	uint32_t point;
};

struct rapl {
	int dir_fd; /* -1: nothing of the kind */
	size_t n;
	struct rapl_package packages[RAPL_PACKAGES_MAX];
};

/* Look for packages; their points are those of the row m (label "package"). Nothing found
 * is no error: n is 0. */
void rapl_open(struct rapl *r, const char *root, struct probe_set *s, const struct probe_metric *m);
void rapl_close(struct rapl *r);
void rapl_read(struct rapl *r, struct probe_set *s, const struct probe_now *now);

#endif

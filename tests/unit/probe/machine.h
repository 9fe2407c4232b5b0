/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.h - a machine whose NVIDIA library is the one that plays it (tests/fake), at a time
 * that the test sets: both groups, what they read and what they tell.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include "../../fake/nvml.h"
#include "base/err.h"
#include "probe/probe.h"

#include <stdbool.h>

struct machine {
	struct probe_set *s;
	void *fast, *slow, *lib;
	fake_nvml_time_fn *time;
	fake_nvml_calls_fn *calls;
	double at;
};

/* Open it with the library and a script of it (nvml.h). 0, or what the fast group said. */
int machine_try(struct machine *m, const char *lib, const char *script, struct err *e);
/* The usual library; the test fails if that fails. */
void machine_init(struct machine *m, const char *script);
void machine_done(struct machine *m);

/* Set its time; read, with the slow group or without. */
void machine_at(struct machine *m, double seconds);
void machine_read(struct machine *m, double seconds, bool slow);

/* What was told since the last look, "KIND|TEXT|ATTRS" a line; it stays in machine_heard. */
extern char machine_heard[8192];
const char *machine_listen(struct machine *m);

/* A point has this value; or none, and the reason holds these words. */
void machine_expect(struct machine *m, const char *name, const char *labels, double want);
void machine_expect_absent(struct machine *m, const char *name, const char *labels,
			   const char *why);

#endif

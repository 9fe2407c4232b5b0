/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor.h - what `lapse doctor` found: sentences in areas, each with how well it is
 * and what would help.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "base/json.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>

enum doctor_state {
	DOCTOR_OK,
	DOCTOR_NOTE,    /* not here, and nothing of what was asked for needs it */
	DOCTOR_WARNING, /* something will be missing */
	DOCTOR_BROKEN   /* recording does not work */
};

struct doctor_finding {
	const char *area; /* static: "agent", "shared memory" */
	enum doctor_state state;
	char *text;
	char *remedy; /* NULL: none is needed or known */
};

struct doctor {
	const struct config *config;
	const char *dir;    /* folder of the runs, as asked for */
	const char *python; /* interpreter; NULL: python3 of PATH */
	struct doctor_finding *findings;
	size_t n, cap;
};

/* Add a finding. remedy (NULL: none) is copied; text is a format. */
void doctor_add(struct doctor *d, const char *area, enum doctor_state state, const char *remedy,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void doctor_done(struct doctor *d);

/* The areas; each adds what it finds and never fails. */
void doctor_agent(struct doctor *d);  /* doctor_here.c: rendezvous folder, agent, its log */
void doctor_store(struct doctor *d);  /* doctor_here.c: folder of the runs */
void doctor_kernel(struct doctor *d); /* doctor_kernel.c: what the kernel allows */
void doctor_ports(struct doctor *d);  /* doctor_ports.c: who listens where dashboards want to */
void doctor_python(struct doctor *d); /* doctor_python.c: interpreter and packages */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * alerting.h - what the settings say of the built-in alerts: those of the agent, and of a run,
 * whose launcher puts them into its run file.
 */
#ifndef CLI_ALERTING_H
#define CLI_ALERTING_H

#include "alert/watch.h"
#include "config/config.h"
#include "wire/run.h"

#define ALERTING_MAX 32

struct alerting {
	const char *none[ALERTING_MAX + 1];
	struct watch_limit limits[ALERTING_MAX + 1];
	size_t n_none, n_limits;
	struct watch_settings settings; /* valid as long as this one */
};

/* Take alert.enabled, alert.off and alert.limits over, for this process. What makes no
 * sense is left out, and told in the log. */
void alerting_set(const struct config *c);

/* Put those of them that the configuration gives into the run file. */
void alerting_describe(const struct config *c, struct run_start *r);

/* Those of a run: what its file does not say is as this process has it. What makes no sense is
 * left out, and told in the log. */
const struct watch_settings *alerting_of_run(struct alerting *a, const struct run_start *r);

#endif

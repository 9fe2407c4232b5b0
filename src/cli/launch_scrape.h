/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_scrape.h - whom to ask for their figures: `lapse run --scrape` and the lists
 * run.scrape and agent.scrape of a configuration.
 */
#ifndef CLI_LAUNCH_SCRAPE_H
#define CLI_LAUNCH_SCRAPE_H

#include "base/err.h"
#include "config/config.h"
#include "probe/scrape/target.h"
#include "wire/run.h"

/* One value of the option, a row of type OPT_CALL; `to` is not used: [PRESET=]URL,URL. 0, or
 * -EINVAL after printing what is wrong. */
int launch_scrape_add(const char *arg, void *to);

/* Take the list run.scrape unless the option was given. 0, or -EINVAL and the first entry that
 * is wrong in *e; those that are right are taken all the same. */
int launch_scrape_configure(const struct config *c, struct err *e);

/* Put what was asked for into r->scrape. */
void launch_scrape_describe(struct run_start *r);

/* The targets of agent.scrape; the same errors. Valid as long as the process. */
int launch_scrape_agent(const struct config *c, const struct scrape_target **ret, size_t *ret_n,
			struct err *e);

#endif

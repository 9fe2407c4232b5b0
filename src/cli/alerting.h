/* SPDX-License-Identifier: Apache-2.0
 *
 * alerting.h - what the settings say of the built-in alerts.
 */
#ifndef CLI_ALERTING_H
#define CLI_ALERTING_H

#include "alert/watch.h"
#include "config/config.h"

/* Take alert.enabled, alert.off and alert.limits over, for this process. What makes no
 * sense is left out, and told in the log. */
void alerting_set(const struct config *c);

/* As they are now; without a call before, the rules as they are. */
const struct watch_settings *alerting_settings(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * crashes.h - what each thread of a process was doing when the process died, as
 * the agent kept it in the attributes of "crash" events (docs/cli.md).
 */
#ifndef REPORT_CRASHES_H
#define REPORT_CRASHES_H

#include "report/events.h"
#include "report/runview.h"

#define CRASHES_KIND "crash"

/* Add a row for each thread in the event's attributes: process, thread, open
 * spans from the outermost in, how long the innermost had been open, its last
 * record. Attributes that are not the agent's add nothing. */
struct table *crashes_table(void);
void crashes_add(struct table *t, const struct runview *v, const struct event_row *row);

#endif

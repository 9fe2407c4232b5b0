/* SPDX-License-Identifier: Apache-2.0
 *
 * traceevent.h - all about one event of a trace as JSON, for the dashboard's timeline
 * (docs/http.md, "timeline", event).
 */
#ifndef CLI_TRACEEVENT_H
#define CLI_TRACEEVENT_H

#include "base/buf.h"
#include "trace/trace.h"

#define TRACEEVENT_ARGS 200u         /* arguments; what is more is counted */
#define TRACEEVENT_TEXT (16u << 10)  /* bytes of a value or a name; what is more is cut */
#define TRACEEVENT_KEY 512u          /* bytes of a key */
#define TRACEEVENT_EVENT (64u << 20) /* bytes of the event's text */

/* Append the object about the event at that place in traceEvents. 0; -ENOENT: there is none;
 * -ENOMEM, -EIO. */
int traceevent_write(struct trace *t, uint32_t index, struct buf *out, struct err *e);

#endif

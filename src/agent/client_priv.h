/* SPDX-License-Identifier: Apache-2.0
 *
 * client_priv.h - between client.c, client_end.c, decode.c and crash.c.
 */
#ifndef AGENT_CLIENT_PRIV_H
#define AGENT_CLIENT_PRIV_H

#include "agent/client.h"

#include <stdint.h>

/* decode.c: turn the whole records in n slots at r into pushes. */
int decode_records(struct client *c, uint32_t lane, const struct wire_rec *r, uint64_t n);

/* Push the batch under construction. */
int client_flush(struct client *c);

/* The series of a definition, defined in the sink when first used. 0 and
 * *ret, or the sink's error; *ret is 0 for an id that is not known. */
int client_series(struct client *c, uint32_t id, uint32_t *ret);

/* Take the definitions that are new. All that records use are there once the records are. */
int client_read_defs(struct client *c);

/* Define the process in the sink, or what has changed of it. end_ns: 0: it has not ended. */
int client_process(struct client *c, int64_t end_ns);

/* An event of this process; nothing without a sink. */
int client_event(struct client *c, int64_t time_ns, int64_t step, int severity, const char *kind,
		 const char *text, const char *attrs);

/* crash.c: the attributes of a crash event as JSON: open spans and last records
 * of each lane. Allocated; the caller frees it. */
char *crash_attrs(struct client *c);

/* Name of a definition, "?" if unknown. */
const char *client_name(const struct client *c, uint32_t id);

#endif

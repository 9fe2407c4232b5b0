/* SPDX-License-Identifier: Apache-2.0
 *
 * topalerts.h - the alerts of a run that fire, as their events tell one after the other, and
 * what people said of them.
 */
#ifndef CLI_TOPALERTS_H
#define CLI_TOPALERTS_H

#include "alert/list.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPALERTS_MAX 256u /* that fire at once; of more the newest are left out */

struct topalert {
	char id[ALERTS_ID_MAX], rule[RULE_NAME_MAX], series[ALERTS_SERIES_MAX], text[320];
	char host_name[ALERTS_HOST_MAX];
	uint32_t series_id; /* in the host's file; 0: none */
	int severity;
	unsigned host;
	uint32_t process;
	int64_t since_ns;
	bool acknowledged;
	int64_t silenced_ns; /* until then; 0: no */
};

struct topalerts {
	struct topalert *all; /* owned; in order of their begin */
	size_t n, cap, left_out;
};

void topalerts_done(struct topalerts *a);

/* Take an event: others than those of alerts change nothing. */
void topalerts_event(struct topalerts *a, const struct store_event *e);

/* Take what was said; first for all of them topalerts_unsaid(). */
void topalerts_unsaid(struct topalerts *a);
void topalerts_said(struct topalerts *a, const struct alerts_said *s);

/* How many fire and are not silenced. */
size_t topalerts_loud(const struct topalerts *a, int64_t now_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * list.h - the alerts of a run as its events tell them, the state of each rule, and what
 * people said of them: the file ALERTS_ACK in the run's folder, one JSON object a line,
 * only ever appended to:
 *
 *   {"at_ns": "...", "do": "ack", "alert": ID, "by": "...", "note": "..."}
 *   {"at_ns": "...", "do": "silence", "rule": NAME, "series": "..." or null,
 *    "host": "...", "series_id": N, "until_ns": "...", "by": "...", "note": "..."}
 *
 * With a host it is of that one's series of this number (0: of its alerts without a series);
 * else of all series that are written so, or of the whole rule. A line that is no such thing is
 * skipped. Later lines hold.
 */
#ifndef ALERT_LIST_H
#define ALERT_LIST_H

#include "alert/rule.h"
#include "base/err.h"
#include "base/json.h"
#include "report/runview.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALERTS_ACK "alerts.ack"
#define ALERTS_ACK_MAX (4u << 20) /* bytes of the file; then nothing is added */
#define ALERTS_MAX 65536u         /* alerts of a run that are listed: the first */
#define ALERTS_ID_MAX 64
#define ALERTS_BY_MAX 101
#define ALERTS_NOTE_MAX 1001
#define ALERTS_SERIES_MAX 256
#define ALERTS_HOST_MAX 256
#define ALERTS_SILENCE_MAX_S 2592000 /* 30 days */

enum alerts_state {
	ALERTS_ACTIVE,
	ALERTS_RESOLVED,
	ALERTS_ENDED /* it fired when its process, the run or who watched it ended */
};

struct alerts_item {
	char id[ALERTS_ID_MAX], rule[RULE_NAME_MAX];
	const struct rule_about *about; /* NULL: a rule that this version does not know */
	int severity;
	enum alerts_state state;
	unsigned host;
	uint32_t process, series, of; /* ids in the host's file; 0 none */
	int64_t since_ns, until_ns;   /* UTC; until 0: it fires */
	int64_t from_ns, to_ns;       /* range of the evidence; to 0: now */
	double value, limit;
	bool has_value, has_limit;
	char unit[16], name[ALERTS_SERIES_MAX]; /* the series as people write it */
	char *text, *host_name;
	int64_t ack_ns; /* 0: nobody has */
	char *ack_by, *ack_note;
	int64_t silenced_ns; /* until then; 0: no */
};

enum alerts_look {
	ALERTS_OK,
	ALERTS_FIRING,
	ALERTS_CANNOT,
	ALERTS_OFF
};

struct alerts_rule {
	const struct rule_about *about;
	int severity; /* of its first row */
	double limit;
	const char *unit;
	enum alerts_look look;
	const char *why; /* CANNOT, OFF */
	unsigned fired;
	int64_t last_ns, silenced_ns;
};

struct alerts {
	const struct runview *v;
	bool watched;
	const char *why;           /* if not */
	struct alerts_item *items; /* the newest first */
	size_t n, cap;
	struct alerts_rule *rules;
	size_t n_rules;
	int64_t now_ns;
	/* Private to the reading. */
	int64_t *began_ns; /* of each host's watch */
	size_t n_began;
	bool enabled;
	bool *off;
	double *limits;
};

/* Read. now_ns: UTC, for silences. The view must outlive it. 0, or -errno and *e. */
int alerts_read(struct alerts *a, const struct runview *v, int64_t now_ns, struct err *e);
void alerts_done(struct alerts *a);

/* How long it fired, or has so far. */
double alerts_duration_s(const struct alerts *a, const struct alerts_item *it);

/* Active and not silenced; of them not acknowledged. */
size_t alerts_active(const struct alerts *a, size_t *ret_unacknowledged);

const char *alerts_state_name(enum alerts_state s); /* "active" ... */
const char *alerts_look_name(enum alerts_look l);   /* "ok" ... */
/* A rule's test with its limit in force. Appended. */
void alerts_test(const struct alerts_rule *r, struct buf *out);

/* The item of an id; NULL: none. */
const struct alerts_item *alerts_find(const struct alerts *a, const char *id);

/* The keys of the answer of GET .../alerts (docs/http.md), into an open object. which:
 * "active", "history" or "all". */
void alerts_json(struct json *j, const struct alerts *a, const char *which, size_t limit);

/* ---- saying something ---------------------------------------------------------------- */

/* by NULL: the user that runs this. Each appends a line and syncs it. 0, or -errno and *e. */
int alerts_ack(const char *dir, const char *id, const char *by, const char *note, int64_t now_ns,
	       struct err *e);
struct alerts_scope {
	const char *rule;
	const char *host;   /* NULL: all of the rule */
	uint32_t series_id; /* in the host's file; 0: those without a series */
	const char *series; /* for people; NULL: none */
};
/* until_ns <= now: the silence ends. */
int alerts_silence(const char *dir, const struct alerts_scope *of, int64_t until_ns, const char *by,
		   const char *note, int64_t now_ns, struct err *e);

/* Read the file: each line that can be read. 0 also if there is none. */
struct alerts_said {
	bool is_silence;
	char id[ALERTS_ID_MAX], rule[RULE_NAME_MAX], series[ALERTS_SERIES_MAX];
	char host[ALERTS_HOST_MAX]; /* "": of any */
	uint32_t series_id;
	char by[ALERTS_BY_MAX], note[ALERTS_NOTE_MAX];
	int64_t at_ns, until_ns;
};
/* Is it a silence of these? */
bool alerts_said_of(const struct alerts_said *s, const struct alerts_scope *of);
int alerts_said(const char *dir, void (*fn)(void *arg, const struct alerts_said *s), void *arg);

#endif

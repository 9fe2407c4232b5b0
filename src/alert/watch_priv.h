/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_priv.h - what the parts of a watch share.
 */
#ifndef ALERT_WATCH_PRIV_H
#define ALERT_WATCH_PRIV_H

#include "alert/builtin.h"
#include "alert/fit.h"
#include "alert/rule.h"
#include "alert/spread.h"
#include "alert/steps.h"
#include "alert/surge.h"
#include "alert/watch.h"
#include "base/map.h"

#define WATCH_ID_MAX (RULE_NAME_MAX + 8)
#define WATCH_SERIES_TEXT 256
/* Series with a name of their own in alerts; others have a number. */
#define WATCH_NAMES_MAX 8192u
#define WATCH_AHEAD_NS 60000000000LL /* a program's own times may be so far ahead */
#define WATCH_LOADS 17               /* tree/cpu, and the power of so many GPUs less one */

/* An alert that is told. */
struct watch_alert {
	char id[WATCH_ID_MAX];
	char series[WATCH_SERIES_TEXT];
	uint32_t series_id, of_id, process;
	int64_t since_ns, from_ns;
	double value, limit;
};

/* A row of a table. */
struct watch_row {
	struct rule rule; /* limits as they are set */
	bool off;         /* not wanted */
	bool superseded;  /* the series of rule.unless is there */
	unsigned told;    /* alerts that fire and were told */
	unsigned over;    /* SURGE: alerts that were told and are over */
	int64_t rest_ns;  /* SURGE: nothing is told before this; 0: nothing was told yet */
	/* Of rows that are no series' own: one state, one alert. */
	struct rule_state state;
	struct watch_alert *alert; /* while it fires */
	uint32_t tripped;          /* NOT_FINITE: series that are bad */
};

/* A row and a series. */
struct watch_instance {
	uint32_t row, series, of_series, process;
	uint16_t next, of_next; /* of the same series, to which this other one belongs; 0: none */
	struct rule_state state;
	double of, mean, first; /* the other series' last value; smoothed value; first value */
	int64_t mean_ns;
	uint32_t positive; /* values above 0 while steps went on */
	bool has_of, has_mean, has_first, in_use;
	struct fit *fit;           /* FORECAST */
	struct spread *spread;     /* MULTIPLE */
	struct surge *surge;       /* SURGE */
	struct watch_alert *alert; /* while it fires and was told */
};

/* A series, by its id: small, since every sample comes by. */
enum watch_flag {
	WATCH_STEP = 1,
	WATCH_SAMPLES = 2,
	WATCH_TOKENS = 4,
	WATCH_LOAD = 8,
	WATCH_MACHINE = 16, /* its times are the agent's */
	WATCH_ARMED = 32,   /* NaN: it was finite long enough before */
	WATCH_TRIPPED = 64, /* NaN: it is bad */
	WATCH_KNOWN = 128,
	WATCH_FED = WATCH_STEP | WATCH_SAMPLES | WATCH_TOKENS | WATCH_LOAD
};
struct watch_slot {
	uint16_t instance;  /* first of the series; 0: none */
	uint16_t of;        /* first instance to which it is the other series; 0: none */
	uint16_t owner;     /* process */
	uint8_t flags, nan; /* nan: row + 1 */
	uint8_t good, bad;  /* NaN: values in a row; good of a load: its number */
};

struct watch_event {
	uint32_t process;
	int64_t time_ns;
	int severity;
	char *text, *attrs;
	bool is_pushed; /* the sink within has it, uncommitted */
};

struct watch_load {
	double usual, now; /* means over two minutes of steps, over 15 s; of all while shorter */
	double usual_s, now_s; /* s that they are over */
	int64_t last_ns;
};

struct watch {
	struct sink sink;
	struct sink *inner;
	char host[256];
	bool off, said, ended;
	bool is_aside;
	struct watch_row rows[BUILTIN_ROWS_MAX];
	struct watch_slot *slots; /* by series */
	char **names;             /* of those that are looked at, up to WATCH_NAMES_MAX; owned */
	size_t n_slots, n_names;
	struct watch_instance *instances; /* from 1 on */
	size_t n_instances, cap_instances;
	uint64_t left_out;  /* instances beyond the maximum */
	struct map pairs;   /* row, process, labels -> instance, for what comes in two series */
	uint8_t *processes; /* by id: enum watch_process */
	size_t n_processes;
	uint32_t first_process, command;
	uint32_t step_series; /* of the process that sets the pace */
	int64_t step_ns;      /* end of the last step of any process, also of those that are gone */
	unsigned stepping;    /* processes that recorded steps and live */
	struct steps steps;
	struct watch_load loads[WATCH_LOADS];
	unsigned n_loads; /* GPUs */
	int64_t now_ns, tick_ns, began_ns, wall_ns, loss_ns;
	int64_t settled_ns; /* since when it is; 0: it is not */
	struct map lanes;   /* ring, lane -> records lost, as last told */
	uint64_t lost;
	int64_t rate_ns; /* of the last learning rate; 0: none was told */
	struct map uids; /* process id -> dropped */
	struct watch_event queue[WATCH_QUEUE_MAX];
	unsigned n_queue;
};

enum watch_process {
	WATCH_PROGRAM = 1, /* a trainer, a worker */
	WATCH_STEPPED = 2,
	WATCH_ENDED = 4,
	WATCH_RATED = 8 /* it has told a learning rate */
};

/* Why an alert is over. */
enum watch_why {
	WATCH_WHY_GOOD, /* what it looked at became so */
	WATCH_WHY_BETTER,
	WATCH_WHY_UNREAD,
	WATCH_WHY_PROCESS /* it was bad to the end of its process */
};

/* watch.c: an event of an alert goes in at once, and again if its commit fails. Takes the
 * texts over. */
void watch_queue(struct watch *w, uint32_t process, int64_t time_ns, int severity, char *text,
		 char *attrs);

/* watch_series.c: a series was defined; as people write it, into out. */
void watch_define(struct watch *w, uint32_t id, const struct sink_series *d);
void watch_name(const struct watch *w, uint32_t id, char out[WATCH_SERIES_TEXT]);

/* watch_value.c: a sample of a series that something looks at; time has passed. */
void watch_sample(struct watch *w, struct watch_slot *slot, const struct sink_sample *v);
void watch_tick(struct watch *w);
void watch_supersede(struct watch *w, struct watch_row *row);
/* A program's process has ended (may be said again): so have alerts of what it recorded. */
void watch_gone(struct watch *w, uint32_t process, int64_t time_ns);

/* watch_step.c: a sample of a series of steps; a process that did steps has ended, once. */
void watch_step(struct watch *w, struct watch_slot *slot, const struct sink_sample *v);
void watch_leave(struct watch *w, uint32_t process);

/* watch_say.c: an alert begins (state->since_ns; the alert's series fields are set), ends. */
void watch_fire(struct watch *w, struct watch_row *row, struct watch_alert *a, int64_t time_ns,
		double usual, double left_s);
void watch_resolve(struct watch *w, struct watch_row *row, struct watch_alert *a, int64_t time_ns,
		   enum watch_why why);
/* Text of WATCH_ATTR. */
void watch_describe(const struct watch *w, struct buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * view.h - a run as commands look at it: found by what the user typed, its
 * processes and series in memory (points are not), and how values are worded.
 */
#ifndef REPORT_RUNVIEW_H
#define REPORT_RUNVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fmt.h"
#include "base/json.h"
#include "report/table.h"
#include "store/store.h"

#define RUNVIEW_JSON_MAX (256u << 20) /* bytes of one JSON document */

struct runview {
	char dir[4096];                  /* the run's folder */
	struct store_reader *reader;     /* owned */
	struct store_run run;            /* strings owned by the reader */
	struct store_process *processes; /* strings owned */
	struct store_series *series;     /* strings owned */
	size_t n_processes, n_series;
};

/* Open the run in folder DIR. 0, or -errno and *e. */
int runview_open_dir(struct runview *v, const char *dir, struct err *e);

/* Read run, processes and series anew, by the same reader: all pointers into the view
 * end. 0, or -errno and *e: the view is only good for runview_close(). */
int runview_refresh(struct runview *v, struct err *e);

/* Find the run `what` under root (NULL: the usual folder) and open it. On
 * failure prints "lapse COMMAND: why" to stderr. Warnings about files that could
 * not be read are printed too, and the run opens all the same. 0 or -errno. */
int runview_open(struct runview *v, const char *command, const char *root, const char *what);
void runview_close(struct runview *v);

/* The process of a series. Never NULL: an unknown one is all zero. */
const struct store_process *runview_process(const struct runview *v, unsigned host, uint32_t id);

/* "trainer 0" with its rank, "worker" without one. Returns out. */
char *runview_process_text(char *out, size_t cap, const struct runview *v, unsigned host,
			   uint32_t id);

/* Are there several processes of the program (without the agent's own), so that
 * it must be said whose a thing is? */
bool runview_is_several(const struct runview *v);

/* All of a series' points in one number each. Of points that retention has dropped
 * count, nan, min, max and sum still know; the steps of min and max do not. */
struct runview_stat {
	uint64_t count; /* points; observations for a histogram */
	uint64_t nan;   /* of them NaN; these are in none of the values below but last */
	double last, min, max, sum;
	int64_t last_step, min_step, max_step; /* steps of last, min, max */
	int64_t first_ns, last_ns;             /* times of the first and last that arrived */
	uint32_t segments;                     /* highest segment seen */
};
int runview_stat(const struct runview *v, const struct store_series *s,
		 const struct store_range *range, struct runview_stat *ret, struct err *e);

/* Does the name match the shell pattern ('*' also stands for '/')? NULL: yes. */
bool runview_match(const char *pattern, const char *name);

/* "running", "exited 3", "killed SIGKILL", "out of memory", "hung", "lost". */
const char *runview_outcome(char out[FMT_MAX], const struct store_run *run);
enum term_style runview_outcome_style(const struct store_run *run);

/* "SIGKILL", or "signal 99". */
const char *runview_signal(char out[FMT_MAX], int signal);

/* Seconds from start to end, or to now while it runs; NaN if not known. */
double runview_duration_s(const struct store_run *run);

/* Are user_s, system_s (and max_rss if > 0) of the command known? */
bool runview_has_usage(const struct store_run *run);

/* A value with its unit as people read it: "412 MiB", "12.3 ms", "2.31 nat". */
const char *runview_value(char out[FMT_MAX], double v, const char *unit);

/* Unit of a value of this kind: a span's is nanoseconds. */
const char *runview_unit(const struct store_series *s);

const char *runview_kind(enum sink_kind kind);

/* A number of things to the digit, or "-" for "does not apply". */
const char *runview_step(char out[FMT_MAX], int64_t step);

/* Order of processes for people: by rank, then host and number. */
int runview_process_order(const struct store_process *x, const struct store_process *y);

/* JSON: key with a step, a time (two keys, KEY_ns and KEY), a finite number;
 * null where there is none. */
void runview_json_step(struct json *j, const char *key, int64_t step);
void runview_json_time(struct json *j, const char *key, int64_t time_ns);
void runview_json_number(struct json *j, const char *key, double v, bool has);
void runview_json_known(struct json *j, const char *key, double v); /* null: NaN or infinite */

/* The keys of "run" objects, the same in every command. */
void runview_json_run(struct json *j, const struct runview *v);
void runview_json_run_of(struct json *j, const struct store_run *run, const char *dir,
			 const char *warning);

/* An object for a process. */
void runview_json_process(struct json *j, const struct store_process *p);

/* Flush stdout. Exit status: 0, or 1 after printing why (nothing if the reader
 * went away). To be asked once, after the last output. */
int runview_flush(void);

/* Write the document and a line end to stdout. Exit status: 0, or 1 after
 * printing why. */
int runview_json_print(const char *command, const struct buf *b);

#endif

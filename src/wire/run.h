/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - the two small files by which launcher and agent talk
 * (docs/launcher.md): the run file says what was started, the outcome file how
 * it ended; and the one that says what was changed afterwards. Text, one key=value a line, values
 * percent-escaped, so that a person can read them and a newer version can add keys.
 */
#ifndef WIRE_RUN_H
#define WIRE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_FILE_MAX 393216 /* bytes of either file */
#define RUN_ID_MAX 127

/* What the launcher says before it starts the command. */
struct run_start {
	char id[RUN_ID_MAX + 1];
	char dir[4096]; /* absolute: the run's folder */
	char name[256];
	char project[256];
	char command[65536]; /* shell-quoted, secrets redacted; cut at the end */
	char cwd[4096];
	char host[256];
	char user[64];
	char tags[1024]; /* comma-separated */
	char notes[4096];
	int64_t launcher_pid;
	uint64_t launcher_start; /* clock ticks since boot: tells a reused pid */
	int64_t child_pid;       /* 0 until it has been forked */
	uint64_t child_start;
	int64_t start_ns;       /* UTC */
	int64_t start_boot_ns;  /* CLOCK_BOOTTIME at the same moment */
	int64_t stall_after_ms; /* 0: learn; -1: never */
	char exports[4096];     /* FORMAT=PATH a line; PATH may be empty: its own place */
	char scrape[16384];     /* a target a line (probe/scrape/target.h); may hold a token */
	char alerts[4096]; /* what its settings say of alerts: KEY=VALUE a line, of alert.KEY */
};

/* How the command ended, by precedence. */
enum run_outcome_kind {
	RUN_RUNNING = 0,
	RUN_EXITED = 1,   /* code holds */
	RUN_SIGNALED = 2, /* signal holds */
	RUN_OOM = 3,      /* killed by the kernel for memory; signal holds */
	RUN_HUNG = 4,     /* was hung, and did not end well; code or signal holds */
	RUN_LOST = 5,     /* nobody reaped it: the launcher died first */
	RUN_DETACHED = 6, /* lapse attach left while it went on */
	RUN_KINDS
};

/* What the launcher says once it has reaped the command. */
struct run_outcome {
	char id[RUN_ID_MAX + 1];
	enum run_outcome_kind kind;
	int code;                /* exit status; -1 none */
	int signal;              /* 0 none */
	int core;                /* 1: it dumped core */
	int64_t end_ns;          /* UTC */
	double user_s, system_s; /* CPU seconds of the command and its reaped children */
	int64_t max_rss;         /* bytes, largest process of the tree */
	char evidence[1024];     /* why OOM (which counter or kernel line) or hung; "" none */
	size_t stderr_len;       /* bytes of stderr_tail; 0 without --tee-stderr */
	char stderr_tail[65536]; /* the last of the command's stderr */
};

/* Write the text of a file into out (cap bytes). 0 and *ret_len, or -ENOSPC. */
int run_start_format(const struct run_start *r, char *out, size_t cap, size_t *ret_len);
int run_outcome_format(const struct run_outcome *o, char *out, size_t cap, size_t *ret_len);

/* Parse text of len bytes, which need not end in NUL. Unknown keys are skipped,
 * missing ones keep their zero, too long values are cut. 0, or -EBADMSG: not
 * such a file, or cut short (no last line "end"); why[] then says which line is
 * wrong. *ret is written only on success. These structs are large: not on small
 * stacks. */
int run_start_parse(const char *text, size_t len, struct run_start *ret, char why[128]);
int run_outcome_parse(const char *text, size_t len, struct run_outcome *ret, char why[128]);

/* What somebody changed of a run afterwards (docs/schema.md); what has_... does not
 * say is as it was. */
struct run_edit {
	bool has_name, has_project, has_tags, has_notes;
	char name[256], project[256], tags[1024], notes[4096];
};
int run_edit_format(const struct run_edit *r, char *out, size_t cap, size_t *ret_len);
int run_edit_parse(const char *text, size_t len, struct run_edit *ret, char why[128]);

/* "exited", "signaled", "oom", "hung", "lost", "detached", "running". */
const char *run_outcome_name(enum run_outcome_kind kind);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * tracecmd.h - what the subcommands of `lapse trace` share: options, and loading files
 * with progress. A subcommand is a row in tracecmds.c and functions in a file trace_NAME.c;
 * traceout.h prints what it found.
 */
#ifndef CLI_TRACECMD_H
#define CLI_TRACECMD_H

#include "base/err.h"
#include "cli/opt.h"
#include "cli/tracefit.h"
#include "trace/trace.h"
#include "trace/view.h"

#include <stdbool.h>

struct tracecmd_options {
	bool json, csv, quiet;               /* of all */
	const char *rank, *sheet;            /* of all */
	const char *output;                  /* TRACECMD_OUTPUT: of what is printed */
	int64_t memory, limit;               /* of all */
	const char *steps;                   /* TRACECMD_STEPS */
	bool hta, no_rounding, include_last; /* TRACECMD_HTA */
	bool plugin;                         /* TRACECMD_PLUGIN */
};
extern struct tracecmd_options tracecmd_opt;

#define TRACECMD_LIMIT 20 /* rows of a table for people unless --limit says more */

/* clang-format off */
#define TRACECMD_OPTIONS                                                                           \
	{.name = "json", .type = OPT_FLAG, .to = &tracecmd_opt.json,                               \
	 .help = "print one JSON object (docs/trace.md)"},                                         \
	{.name = "csv", .type = OPT_FLAG, .to = &tracecmd_opt.csv,                                 \
	 .help = "print CSV; several tables are parted by an empty line"},                         \
	{.name = "sheet", .type = OPT_STR, .value = "NAME", .to = &tracecmd_opt.sheet,             \
	 .help = "only the table of this name (docs/trace.md)"},                                   \
	{.name = "limit", .letter = 'n', .type = OPT_INT, .value = "N", .to = &tracecmd_opt.limit, \
	 .help = "rows of each table; 0: all (default: 20; JSON and CSV have all)"},               \
	{.name = "rank", .type = OPT_STR, .value = "N,...", .to = &tracecmd_opt.rank,              \
	 .help = "only the traces of these ranks"},                                                \
	{.name = "memory", .type = OPT_BYTES, .value = "SIZE", .to = &tracecmd_opt.memory,         \
	 .lo = 1 << 20, .hi = INT64_MAX,                                                           \
	 .help = "memory for the events of all files; what is more waits in a temporary file "     \
		 "(default: 1G)"},                                                                 \
	{.name = "quiet", .letter = 'q', .type = OPT_FLAG, .to = &tracecmd_opt.quiet,              \
	 .help = "no progress, and nothing on stderr about what is wrong inside a file"}
#define TRACECMD_OUTPUT                                                                            \
	{.name = "output", .letter = 'o', .type = OPT_STR, .value = "FILE",                        \
	 .to = &tracecmd_opt.output, .help = "write into FILE instead of standard output"}
#define TRACECMD_STEPS                                                                             \
	{.name = "steps", .type = OPT_STR, .value = "FROM:TO", .to = &tracecmd_opt.steps,          \
	 .help = "only what begins in these profiler steps, TO not included"}
#define TRACECMD_HTA                                                                               \
	{.name = "hta", .type = OPT_FLAG, .to = &tracecmd_opt.hta,                                 \
	 .help = "the numbers of Holistic Trace Analysis 0.6.1: times rounded to whole us, the "   \
		 "last step left out"},                                                            \
	{.name = "include-last", .type = OPT_FLAG, .to = &tracecmd_opt.include_last,               \
	 .help = "with --hta: keep the last step"},                                                \
	{.name = "no-rounding", .type = OPT_FLAG, .to = &tracecmd_opt.no_rounding,                 \
	 .help = "with --hta: times as they are (HTA_DISABLE_NS_ROUNDING=1)"}
#define TRACECMD_PLUGIN                                                                            \
	{.name = "plugin", .type = OPT_FLAG, .to = &tracecmd_opt.plugin,                           \
	 .help = "the numbers of torch-tb-profiler 0.4.3, with its rules and defects"}
/* clang-format on */

enum tracecmd_views {
	TRACECMD_NO_VIEWS,
	TRACECMD_DEVICE_ROWS, /* view_options.devices_only */
	TRACECMD_ALL_ROWS
};

enum tracecmd_fits {
	TRACECMD_NO_PARTS,
	TRACECMD_PARTS,
	TRACECMD_TOGETHER
};

/* What a subcommand wants loaded. */
struct tracecmd_wish {
	const char *command; /* "trace idle", for messages */
	enum tracecmd_views views;
	/* Without views: what is made of the rows, TRACECMD_PARTS: of one trace after the other (on
	 * several CPUs), or TRACECMD_TOGETHER; set->fit then says which part. With views only
	 * need.row_more and need.event_more count. */
	enum tracecmd_fits fits;
	struct tracefit_need need;
	bool by_windows;    /* sums that are made of windows too, where the host's calls allow it */
	bool exact;         /* views by the exact rule, whatever the options say */
	bool texts;         /* shapes, stacks and the like are looked at */
	bool keep_order;    /* as given; else by rank where all are known */
	bool no_notes;      /* the command itself tells what is wrong inside of files */
	size_t least, most; /* files; most 0: any number */
};

struct tracecmd_failed {
	char *path, *why;
};

/* The files of a command, loaded; view[i] is that of trace[i]. */
struct tracecmd_set {
	const struct tracecmd_wish *wish;
	struct trace **trace;
	struct view *view; /* NULL without views */
	size_t n;
	struct tracefit *fit; /* by trace, which part is looked at; NULL: all */
	struct tracecmd_failed *failed;
	size_t n_failed;
	bool has_ranks; /* all ranks are known and differ */
	int status;     /* 1: a file that was asked for could not be read */
};

/* Find, read, and view the files of argv (a folder: every trace in it), several at once,
 * with progress on a terminal. Exit status 0; 1 or 2 after printing why not. */
int tracecmd_load(const struct tracecmd_wish *w, int argc, char **argv, struct tracecmd_set *s);
void tracecmd_done(struct tracecmd_set *s);

/* "FROM:TO" of --steps; 0, 0 without it. 0 or -EINVAL after printing why. */
int tracecmd_steps(const char *command, int64_t *ret_from, int64_t *ret_to);

/* SIGINT, SIGTERM, SIGHUP end the program at once with status 128 + N, the line of progress
 * erased. tracecmd_load() calls it. */
void tracecmd_signals(void);
/* The same with a file at PATH half written by trace/write.h; NULL: none any more. */
void tracecmd_writes(const char *path);
/* From here on a signal does what it does by default: what writes files looks after
 * itself. */
void tracecmd_signals_default(void);

/* Print why and give 1: an allocation of an analysis failed, or what e says. */
int tracecmd_fail(const struct tracecmd_set *s, int code, const struct err *e);

/* A short name of trace i: its rank, else its file's name. Valid until the next call. */
const char *tracecmd_label(const struct tracecmd_set *s, size_t i);
/* The file's name without folders. */
const char *tracecmd_name(const char *path);

/* The subcommands, ended by name NULL; names are "trace idle". */
extern const struct command tracecmds[];

#endif

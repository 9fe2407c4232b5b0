/* SPDX-License-Identifier: Apache-2.0
 *
 * opt.h - options of commands as tables: one row an option, from which parsing,
 * --help and the documentation test all come.
 */
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opt_type {
	OPT_FLAG,     /* bool: --name sets it true */
	OPT_STR,      /* const char *: the last one wins */
	OPT_INT,      /* int64_t, with lo and hi */
	OPT_DURATION, /* int64_t ns: "90", "1.5s", "10m", "2h", "1d"; bare: seconds */
	OPT_BYTES,    /* int64_t: "64k", "4M", "1G" (binary), bare: bytes */
	OPT_CALL      /* repeated: call(arg, to), 0 or -EINVAL after printing why */
};

struct opt {
	const char *name; /* long name without "--" */
	char letter;      /* short name, or 0 */
	enum opt_type type;
	const char *value; /* what --help calls the value: "DIR"; NULL for flags */
	const char *help;  /* one line */
	void *to;          /* where the value goes, by type */
	int64_t lo, hi;    /* allowed range for OPT_INT, _DURATION, _BYTES; 0, 0: any >= 0 */
	int (*call)(const char *arg, void *to); /* OPT_CALL only */
};

/* A command: one row in cli/commands.c, one file cli/cmd_NAME.c. */
struct command {
	const char *name;
	const char *args;                   /* "[OPTIONS] -- COMMAND [ARG...]" */
	const char *summary;                /* one line */
	const char *about;                  /* paragraphs for --help; "" none */
	const char *examples;               /* lines for --help */
	const struct opt *(*options)(void); /* rows ended by name NULL */
	/* Runs with the arguments behind the options; returns the exit status. */
	int (*run)(int argc, char **argv);
	bool options_first; /* stop at the first argument that is no option */
	/* Subcommands, ended by name NULL; their names begin with this one's and a space. */
	const struct command *subs;
};

/* Parse argv[1..] by the rows of c, which it fills. Prints --help (to stdout)
 * or what is wrong, with the nearest name (to stderr).
 * Returns the index of the first argument to the command, or -1 and
 * *ret_status is the exit status: 0 after --help, 2 after an error. Arguments
 * and options may be mixed unless options_first; argv is permuted. "--" ends
 * the options. */
int opt_parse(const struct command *c, int argc, char **argv, int *ret_status);

/* The subcommand called `name` (without the command's); NULL if there is none. */
const struct command *opt_sub(const struct command *c, const char *name);

/* Print --help of a command to stdout. */
void opt_help(const struct command *c);

/* The commands, ended by name NULL (cli/commands.c). */
extern const struct command commands[];

#endif

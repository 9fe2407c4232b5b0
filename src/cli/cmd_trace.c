/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_trace.c - `lapse trace`: finds the subcommand, has its options read, runs it.
 */
#include "cli/cmd.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/near.h"
#include "cli/tracecmd.h"

/* Without a subcommand it is summary, whose options may stand before the file. */
const struct opt *cmd_trace_options(void)
{
	return tracecmds[0].options();
}

static int trace_sub(const struct command *c, int argc, char **argv)
{
	int status = 0, first = opt_parse(c, argc, argv, &status);

	return first < 0 ? status : c->run(argc - first, argv + first);
}

/* A word that is no file but nearly a subcommand. */
static bool trace_is_typo(const char *word)
{
	const struct command *c;
	struct near near = {0};

	if (strpbrk(word, "/.") || access(word, F_OK) == 0)
		return false;
	for (c = tracecmds; c->name; c++)
		near_try(&near, word, c->name + strlen("trace "));
	if (near.best)
		fprintf(stderr,
			"lapse trace: there is no file and no subcommand \"%s\"; did you mean "
			"%s?\n",
			word, near.best);
	return near.best != NULL;
}

int cmd_trace(int argc, char **argv)
{
	const struct command *c;

	if (argc > 0) {
		for (c = tracecmds; c->name; c++)
			if (strcmp(c->name + strlen("trace "), argv[0]) == 0)
				return trace_sub(c, argc, argv);
		if (trace_is_typo(argv[0]))
			return 2;
	}
	/* The word before the arguments is "trace" or an option that was read. */
	return trace_sub(&tracecmds[0], argc + 1, argv - 1);
}

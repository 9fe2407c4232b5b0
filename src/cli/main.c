/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the program `lapse`: finds the command in the table, has its options
 * read, runs it.
 */
#include "cli/cmd.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/near.h"
#include "cli/manpage.h"
#include "report/runview.h"

static void main_usage(FILE *to)
{
	const struct command *c;

	fprintf(to, "usage: lapse COMMAND [OPTIONS] [ARGUMENTS]\n\n"
		    "Records what a training run does, and keeps it whatever happens.\n\n"
		    "Commands:\n");
	for (c = commands; c->name; c++)
		fprintf(to, "  %-10s %s\n", c->name, c->summary);
	fprintf(to,
		"  %-10s %s\n\nlapse help COMMAND tells more, lapse help --man COMMAND as a "
		"manual page. Start with:\n"
		"  lapse run -- python3 train.py\n",
		"help", "explain a command");
}

static const struct command *main_find(const char *name)
{
	const struct command *c;

	for (c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static int main_unknown(const char *name)
{
	struct near near = {0};
	const struct command *c;

	for (c = commands; c->name; c++)
		near_try(&near, name, c->name);
	near_try(&near, name, "help");
	fprintf(stderr, "lapse: unknown command \"%s\"", name);
	if (near.best)
		fprintf(stderr, "; did you mean %s?", near.best);
	fprintf(stderr, "\nTry: lapse help\n");
	return 2;
}

/* lapse help --man [COMMAND] */
static int main_man(int argc, char **argv)
{
	const struct command *c = argc > 0 ? main_find(argv[0]) : NULL;

	if (argc > 0 && !c)
		return main_unknown(argv[0]);
	if (c)
		manpage_command(c);
	else
		manpage_program();
	return 0;
}

static int main_help(int argc, char **argv)
{
	const struct command *c;

	if (argc > 0 && strcmp(argv[0], "--man") == 0)
		return main_man(argc - 1, argv + 1);

	if (argc == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 ||
	    strcmp(argv[0], "help") == 0) {
		main_usage(stdout);
		return 0;
	}
	c = main_find(argv[0]);
	if (!c)
		return main_unknown(argv[0]);
	opt_help(argc > 1 && opt_sub(c, argv[1]) ? opt_sub(c, argv[1]) : c);
	return 0;
}

static int main_command(const struct command *c, int argc, char **argv)
{
	int status = 0;
	int first = opt_parse(c, argc, argv, &status);

	return first < 0 ? status : c->run(argc - first, argv + first);
}

static int main_dispatch(int argc, char **argv)
{
	static const char *const help[] = {"help", "--help", "-h"};
	const struct command *c;
	size_t i;

	if (argc < 2) {
		main_usage(stderr);
		return 2;
	}
	for (i = 0; i < ARRAY_LEN(help); i++)
		if (strcmp(argv[1], help[i]) == 0)
			return main_help(argc - 2, argv + 2);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return main_command(main_find("version"), argc - 1, argv + 1);
	c = main_find(argv[1]);
	return c ? main_command(c, argc - 1, argv + 1) : main_unknown(argv[1]);
}

int main(int argc, char **argv)
{
	int status;

	/* Widths of characters need a UTF-8 locale; numbers keep the C one. */
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C.UTF-8");
	status = main_dispatch(argc, argv);
	return status ? status : runview_flush();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_completion.c - `lapse completion`: a shell's completion script, written from the
 * tables of commands and options.
 */
#include "cli/cmd.h"

#include "base/mem.h"
#include "base/near.h"

#include <stdio.h>
#include <string.h>

static const struct opt completion_rows[] = {
	{.name = NULL},
};

const struct opt *cmd_completion_options(void)
{
	return completion_rows;
}

/* What an argument of a command or a value of an option is. */
enum completion_of {
	COMPLETION_NOTHING,
	COMPLETION_FILE,
	COMPLETION_FOLDER,
	COMPLETION_RUN,
	COMPLETION_COMMAND
};

static enum completion_of completion_value(const char *value)
{
	if (!value)
		return COMPLETION_NOTHING;
	if (strstr(value, "DIR"))
		return COMPLETION_FOLDER;
	return strstr(value, "FILE") || strstr(value, "PROGRAM") ? COMPLETION_FILE
								 : COMPLETION_NOTHING;
}

static enum completion_of completion_args(const struct command *c)
{
	if (strstr(c->args, "COMMAND"))
		return COMPLETION_COMMAND;
	if (strstr(c->args, "RUN"))
		return COMPLETION_RUN;
	return strstr(c->args, "FILE") || strstr(c->args, "FOLDER") ? COMPLETION_FILE
								    : COMPLETION_NOTHING;
}

/* ---- bash -------------------------------------------------------------------------- */

static const char *const bash_of[] = {
	[COMPLETION_NOTHING] = "COMPREPLY=()",
	[COMPLETION_FILE] = "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))",
	[COMPLETION_FOLDER] = "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))",
	[COMPLETION_RUN] = ("COMPREPLY=($(compgen -W \"last $(command ls "
			    "\"${LAPSE_DIR:-lapse-runs}\" 2>/dev/null)\" -- \"$cur\"))"),
	[COMPLETION_COMMAND] = "COMPREPLY=($(compgen -c -- \"$cur\"))",
};

static void bash_values(const struct command *c)
{
	const struct opt *o;

	for (o = c->options(); o->name; o++) {
		if (!o->value)
			continue;
		printf("\t%s:--%s", c->name, o->name);
		if (o->letter)
			printf("|%s:-%c", c->name, o->letter);
		printf(") %s; return;;\n", bash_of[completion_value(o->value)]);
	}
}

static void bash_command(const struct command *c)
{
	const struct opt *o;

	printf("\t%s) [[ $cur == -* ]] && COMPREPLY=($(compgen -W \"", c->name);
	for (o = c->options(); o->name; o++)
		printf("--%s ", o->name);
	printf("--help\" -- \"$cur\")) || { %s; };;\n", bash_of[completion_args(c)]);
}

static void completion_bash(void)
{
	const struct command *c;

	printf("# bash completion for lapse; made by `lapse completion bash`\n"
	       "_lapse() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
	       "cmd=${COMP_WORDS[1]}\n"
	       "\tCOMPREPLY=()\n"
	       "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\tCOMPREPLY=($(compgen -W \"");
	for (c = commands; c->name; c++)
		printf("%s ", c->name);
	printf("help\" -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase $cmd:$prev in\n"
	       "\thelp:*) COMPREPLY=($(compgen -W \"");
	for (c = commands; c->name; c++)
		printf("%s ", c->name);
	printf("\" -- \"$cur\")); return;;\n");
	for (c = commands; c->name; c++)
		bash_values(c);
	printf("\tesac\n\tcase $cmd in\n");
	for (c = commands; c->name; c++)
		bash_command(c);
	printf("\tesac\n}\ncomplete -F _lapse lapse\n");
}

/* ---- zsh --------------------------------------------------------------------------- */

/* In single quotes; with what _arguments takes as its own escaped. */
static void zsh_text(const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr(special, *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static const char *const zsh_of[] = {
	[COMPLETION_NOTHING] = " ",
	[COMPLETION_FILE] = "_files",
	[COMPLETION_FOLDER] = "_files -/",
	[COMPLETION_RUN] = "{compadd last ${LAPSE_DIR:-lapse-runs}/*(N:t)}",
	[COMPLETION_COMMAND] = "_normal",
};

static void zsh_command(const struct command *c)
{
	enum completion_of args = completion_args(c);
	const struct opt *o;

	printf("\t%s)\n\t\t_arguments", c->name);
	for (o = c->options(); o->name; o++) {
		printf(" \\\n\t\t\t'--%s%s[", o->name, o->value ? "=" : "");
		zsh_text(o->help, "[]:\\");
		putchar(']');
		if (o->value) {
			putchar(':');
			zsh_text(o->value, "[]:\\");
			printf(":%s", zsh_of[completion_value(o->value)]);
		}
		putchar('\'');
	}
	printf(" \\\n\t\t\t'--help[print help]'");
	if (args != COMPLETION_NOTHING)
		printf(" \\\n\t\t\t'*:%s:%s'", args == COMPLETION_RUN ? "run" : "argument",
		       zsh_of[args]);
	printf("\n\t\t;;\n");
}

static void completion_zsh(void)
{
	const struct command *c;

	printf("#compdef lapse\n# zsh completion for lapse; made by `lapse completion zsh`\n"
	       "_lapse() {\n\tlocal -a names\n\tnames=(\n");
	for (c = commands; c->name; c++) {
		printf("\t\t'%s:", c->name);
		zsh_text(c->summary, ":\\");
		printf("'\n");
	}
	printf("\t\t'help:explain a command'\n\t)\n"
	       "\tif (( CURRENT == 2 )); then\n\t\t_describe command names\n\t\treturn\n\tfi\n"
	       "\tlocal cmd=$words[2]\n\tshift words\n\t(( CURRENT-- ))\n\tcase $cmd in\n");
	for (c = commands; c->name; c++)
		zsh_command(c);
	printf("\thelp) _describe command names ;;\n\tesac\n}\n"
	       "if [ \"$funcstack[1]\" = _lapse ]; then _lapse \"$@\"; else compdef _lapse lapse; "
	       "fi\n");
}

/* ---- fish -------------------------------------------------------------------------- */

static void fish_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
}

static void fish_command(const struct command *c)
{
	static const char *const of[] = {
		[COMPLETION_NOTHING] = " -x",
		[COMPLETION_FILE] = " -r -F",
		[COMPLETION_FOLDER] = " -x -a '(__fish_complete_directories)'",
		[COMPLETION_RUN] = "",
		[COMPLETION_COMMAND] = "",
	};
	const struct opt *o;

	printf("complete -c lapse -n __fish_use_subcommand -a %s -d '", c->name);
	fish_text(c->summary);
	printf("'\n");
	for (o = c->options(); o->name; o++) {
		printf("complete -c lapse -n '__fish_seen_subcommand_from %s' -l %s", c->name,
		       o->name);
		if (o->letter)
			printf(" -s %c", o->letter);
		if (o->value)
			fputs(of[completion_value(o->value)], stdout);
		printf(" -d '");
		fish_text(o->help);
		printf("'\n");
	}
	if (completion_args(c) == COMPLETION_RUN)
		printf("complete -c lapse -n '__fish_seen_subcommand_from %s' -a 'last "
		       "(__lapse_runs)'\n",
		       c->name);
	if (completion_args(c) == COMPLETION_FILE)
		printf("complete -c lapse -n '__fish_seen_subcommand_from %s' -F\n", c->name);
	if (completion_args(c) == COMPLETION_COMMAND)
		printf("complete -c lapse -n '__fish_seen_subcommand_from %s' -a "
		       "'(__fish_complete_subcommand)'\n",
		       c->name);
}

static void completion_fish(void)
{
	const struct command *c;

	printf("# fish completion for lapse; made by `lapse completion fish`\n"
	       "function __lapse_runs\n\tset -l dir lapse-runs\n"
	       "\tset -q LAPSE_DIR; and set dir $LAPSE_DIR\n\tcommand ls $dir 2>/dev/null\nend\n"
	       "complete -c lapse -f\n");
	for (c = commands; c->name; c++)
		fish_command(c);
	printf("complete -c lapse -n __fish_use_subcommand -a help -d 'explain a command'\n");
}

/* ---- the command -------------------------------------------------------------------- */

static const struct {
	const char *shell;
	void (*print)(void);
} completion_shells[] = {
	{"bash", completion_bash},
	{"zsh", completion_zsh},
	{"fish", completion_fish},
};

int cmd_completion(int argc, char **argv)
{
	const char *shell = cmd_one_arg("completion", argc, argv, "shell: bash, zsh or fish", NULL);
	struct near near = {0};
	size_t i;

	if (!shell)
		return 2;
	for (i = 0; i < ARRAY_LEN(completion_shells); i++) {
		near_try(&near, shell, completion_shells[i].shell);
		if (strcmp(shell, completion_shells[i].shell) == 0) {
			completion_shells[i].print();
			return 0;
		}
	}
	fprintf(stderr, "lapse completion: \"%s\" is none of bash, zsh, fish%s%s%s\n", shell,
		near.best ? "; did you mean " : "", near.best ? near.best : "",
		near.best ? "?" : "");
	return 2;
}

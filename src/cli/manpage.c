/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manpage.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Text of a paragraph: backslashes and dashes are roff's, and no line begins with a dot. */
static void man_text(const char *text)
{
	bool begin = true;

	for (; *text; text++) {
		if (begin && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
		/* Lists without spaces may be broken behind their commas. */
		if (*text == ',' || *text == '|')
			fputs("\\:", stdout);
		begin = *text == '\n';
	}
}

static void man_head(const char *name, const char *summary)
{
	char upper[64];
	size_t i;

	for (i = 0; name[i] && i + 1 < sizeof(upper); i++)
		upper[i] = (char)toupper((unsigned char)name[i]);
	upper[i] = '\0';
	printf(".TH %s 1 \"\" \"lapse " LAPSE_VERSION
	       "\" \"User Commands\"\n.ad l\n.nh\n.SH NAME\n%s \\- ",
	       upper, name);
	man_text(summary);
	putchar('\n');
}

static void man_option(const struct opt *o)
{
	printf(".TP\n");
	if (o->letter)
		printf("\\fB\\-%c\\fR, ", o->letter);
	printf("\\fB\\-\\-");
	man_text(o->name);
	printf("\\fR");
	if (o->value) {
		printf(" \\fI");
		man_text(o->value);
		printf("\\fR");
	}
	putchar('\n');
	man_text(o->help);
	putchar('\n');
}

static void man_files(void)
{
	printf(".SH ENVIRONMENT\n"
	       ".TP\n\\fBLAPSE_DIR\\fR\nfolder of the runs (default ./lapse\\-runs)\n"
	       ".TP\n\\fBLAPSE_CONFIG\\fR\nconfiguration file\n"
	       ".TP\n\\fBLAPSE_RENDEZVOUS\\fR\nfolder where programs meet the agent\n");
}

static bool man_has_option(const struct command *c, const char *name)
{
	const struct opt *o;

	for (o = c->options(); o->name; o++)
		if (strcmp(o->name, name) == 0)
			return true;
	return false;
}

/* Each with the options that the command itself has not. */
static void man_subs(const struct command *c)
{
	const struct command *sub;
	const struct opt *o;

	printf(".SH SUBCOMMANDS\n");
	for (sub = c->subs; sub->name; sub++) {
		printf(".SS ");
		man_text(sub->name + strlen(c->name) + 1);
		putchar(' ');
		man_text(sub->args);
		putchar('\n');
		man_text(sub->summary);
		putchar('\n');
		if (sub->about[0]) {
			printf(".PP\n");
			man_text(sub->about);
			putchar('\n');
		}
		for (o = sub->options(); o->name; o++)
			if (!man_has_option(c, o->name))
				man_option(o);
	}
}

void manpage_command(const struct command *c)
{
	static const struct opt help = {.name = "help", .letter = 'h', .help = "print help"};
	const struct opt *o;
	char name[64];

	snprintf(name, sizeof(name), "lapse-%s", c->name);
	man_head(name, c->summary);
	printf(".SH SYNOPSIS\n\\fBlapse %s\\fR ", c->name);
	man_text(c->args);
	printf("\n.SH DESCRIPTION\n");
	putchar(toupper((unsigned char)c->summary[0]));
	man_text(c->summary + 1);
	printf(".\n");
	if (c->about[0]) {
		printf(".PP\n");
		man_text(c->about);
		putchar('\n');
	}
	printf(".SH OPTIONS\n");
	for (o = c->options(); o->name; o++)
		man_option(o);
	man_option(&help);
	if (c->subs)
		man_subs(c);
	man_files();
	if (c->examples[0]) {
		printf(".SH EXAMPLES\n.nf\n");
		man_text(c->examples);
		printf("\n.fi\n");
	}
	printf(".SH SEE ALSO\n\\fBlapse\\fR(1)\n");
}

void manpage_program(void)
{
	const struct command *c;

	man_head("lapse", "flight recorder for model training");
	printf(".SH SYNOPSIS\n\\fBlapse\\fR \\fICOMMAND\\fR [OPTIONS] [ARGUMENTS]\n"
	       ".SH DESCRIPTION\nRecords what a training run does, and keeps it whatever "
	       "happens.\n.SH COMMANDS\n");
	for (c = commands; c->name; c++) {
		printf(".TP\n\\fBlapse\\-%s\\fR(1)\n", c->name);
		man_text(c->summary);
		putchar('\n');
	}
	man_files();
	printf(".SH EXAMPLES\n.nf\n  lapse run \\-\\- python3 train.py\n  lapse report "
	       "last\n.fi\n");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - one table row for each option: reading, checking and the help
 * text all come from it.
 */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum options_kind {
	OPTIONS_FLAG,
	OPTIONS_INT,
	OPTIONS_REAL,
	OPTIONS_STRING,
	OPTIONS_TEXT
};

struct options_row {
	const char *name, *value, *help;
	enum options_kind kind;
	size_t at;              /* place in struct options */
	double start, min, max; /* default and limits of a number */
};

#define AT(member) offsetof(struct options, member)

static const struct options_row options_table[] = {
	{"text", "PATH",
	 "file or folder to learn from; may be repeated\n"
	 "(default " TEXT_DEFAULT ")",
	 OPTIONS_TEXT, AT(text), 0, 0, 0},
	{"steps", "N", "stop after N steps; 0: no training", OPTIONS_INT, AT(steps), 2500, 0, 1e9},
	{"seconds", "S",
	 "stop after S seconds; without --steps the only limit.\n"
	 "The learning rate then follows the clock: not repeatable",
	 OPTIONS_REAL, AT(seconds), 0, 0, 1e7},
	{"seed", "N", "start of the random numbers", OPTIONS_INT, AT(seed), 1, 0, 1e15},
	{"threads", "N",
	 "threads; at most as many as CPUs. The result is the\n"
	 "same for every number",
	 OPTIONS_INT, AT(threads), 2, 1, 4},
	{"batch", "N", "sequences in a step", OPTIONS_INT, AT(batch), 16, 4, 4096},
	{"context", "N", "characters in a sequence", OPTIONS_INT, AT(context), 64, 2, 1024},
	{"dim", "N", "numbers that stand for a character", OPTIONS_INT, AT(dim), 64, 1, 1024},
	{"heads", "N", "attention heads; must divide --dim", OPTIONS_INT, AT(heads), 4, 1, 64},
	{"layers", "N", "blocks", OPTIONS_INT, AT(layers), 2, 1, 16},
	{"rate", "X", "highest learning rate; 100 makes a run that fails", OPTIONS_REAL, AT(rate),
	 0.004, 0, 1e6},
	{"decay", "X", "weight decay", OPTIONS_REAL, AT(decay), 0.1, 0, 1e3},
	{"clip", "X", "longest gradient", OPTIONS_REAL, AT(clip), 1, 1e-6, 1e9},
	{"log-every", "N", "print a line every N steps", OPTIONS_INT, AT(log_every), 50, 1, 1e9},
	{"eval-every", "N", "evaluate on held-out text every N steps", OPTIONS_INT, AT(eval_every),
	 100, 1, 1e9},
	{"sample", "N", "characters to write at the end", OPTIONS_INT, AT(sample), 200, 0, 1e6},
	{"summary", "FILE", "write the summary as JSON", OPTIONS_STRING, AT(summary), 0, 0, 0},
	{"checkpoint", "FILE", "write the weights at each best validation loss", OPTIONS_STRING,
	 AT(checkpoint), 0, 0, 0},
	{"load", "FILE", "start with the weights of a checkpoint", OPTIONS_STRING, AT(load), 0, 0,
	 0},
	{"check-gradients", NULL,
	 "compare the gradients with finite differences; exit\n"
	 "status 1 if they are wrong",
	 OPTIONS_FLAG, AT(check_gradients), 0, 0, 0},
	{"help", NULL, "this text", OPTIONS_FLAG, AT(help), 0, 0, 0},
};

#define OPTIONS_ROWS (sizeof(options_table) / sizeof(options_table[0]))

static void *options_place(struct options *o, const struct options_row *row)
{
	return (char *)o + row->at;
}

static void options_defaults(struct options *o)
{
	*o = (struct options){0};
	for (size_t i = 0; i < OPTIONS_ROWS; i++) {
		const struct options_row *row = &options_table[i];

		if (row->kind == OPTIONS_INT)
			*(int64_t *)options_place(o, row) = (int64_t)row->start;
		else if (row->kind == OPTIONS_REAL)
			*(double *)options_place(o, row) = row->start;
	}
}

/* The row of an argument "--name" or "--name=value", or NULL. */
static const struct options_row *options_find(const char *arg, const char **value)
{
	size_t length = strcspn(arg, "=");

	*value = arg[length] ? arg + length + 1 : NULL;
	for (size_t i = 0; i < OPTIONS_ROWS; i++) {
		const char *name = options_table[i].name;

		if (!strncmp(arg, "--", 2) && strlen(name) == length - 2 &&
		    !strncmp(arg + 2, name, length - 2))
			return &options_table[i];
	}
	return NULL;
}

static int options_number(struct options *o, const struct options_row *row, const char *value)
{
	char *end;
	double x = strtod(value, &end);
	int whole = row->kind == OPTIONS_INT;

	if (end == value || *end || !(x >= row->min && x <= row->max) || (whole && x != floor(x))) {
		fprintf(stderr, "charlm: --%s %s: needs a%s number from %g to %g\n", row->name,
			value, whole ? " whole" : "", row->min, row->max);
		return -1;
	}
	if (whole)
		*(int64_t *)options_place(o, row) = (int64_t)x;
	else
		*(double *)options_place(o, row) = x;
	return 0;
}

static int options_set(struct options *o, const struct options_row *row, const char *value)
{
	switch (row->kind) {
	case OPTIONS_FLAG:
		*(int64_t *)options_place(o, row) = 1;
		return 0;
	case OPTIONS_STRING:
		*(const char **)options_place(o, row) = value;
		return 0;
	case OPTIONS_TEXT:
		if (o->texts == OPTIONS_TEXTS_MAX) {
			fprintf(stderr, "charlm: more than %d times --text; name a folder\n",
				OPTIONS_TEXTS_MAX);
			return -1;
		}
		o->text[o->texts++] = value;
		return 0;
	default:
		return options_number(o, row, value);
	}
}

static int options_check(const struct options *o)
{
	if (o->dim % o->heads == 0)
		return 0;
	fprintf(stderr, "charlm: --heads %lld does not divide --dim %lld\n", (long long)o->heads,
		(long long)o->dim);
	return -1;
}

int options_parse(struct options *o, int argc, char **argv)
{
	int steps_given = 0;

	options_defaults(o);
	for (int i = 1; i < argc; i++) {
		const char *value;
		const struct options_row *row = options_find(argv[i], &value);
		int flag = row && row->kind == OPTIONS_FLAG;

		if (!row || (flag && value)) {
			fprintf(stderr, "charlm: %s: no such option; see --help\n", argv[i]);
			return -1;
		}
		if (!flag && !value && ++i == argc) {
			fprintf(stderr, "charlm: --%s needs a value\n", row->name);
			return -1;
		}
		if (options_set(o, row, value ? value : argv[i]))
			return -1;
		steps_given |= row->at == AT(steps);
	}
	if (o->seconds > 0 && !steps_given)
		o->steps = INT64_MAX;
	if (!o->texts)
		o->text[o->texts++] = TEXT_DEFAULT;
	return options_check(o);
}

void options_help(void)
{
	printf("usage: charlm [OPTION]...\n"
	       "Train a small character-level language model and show how it goes.\n\n");
	for (size_t i = 0; i < OPTIONS_ROWS; i++) {
		const struct options_row *row = &options_table[i];
		char left[32];

		snprintf(left, sizeof(left), "--%s %s", row->name, row->value ? row->value : "");
		printf("  %-18s ", left);
		for (const char *c = row->help; *c; c++)
			*c == '\n' ? (void)printf("\n%21s", "") : (void)putchar(*c);
		if (row->start > 0)
			printf(" (default %g)", row->start);
		putchar('\n');
	}
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * opt.c - see opt.h. One walk over argv; a row of the table says how a value is
 * read, so a new option needs no code here.
 */
#include "cli/opt.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmt.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/number.h"

#define OPT_HELP_WIDTH 80

/* In names '-' and '_' are the same: some users know options by the one, some by the other. */
static bool opt_is(const char *row, const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < len && row[i]; i++)
		if (row[i] != name[i] && !(strchr("-_", row[i]) && strchr("-_", name[i])))
			return false;
	return i == len && row[i] == '\0';
}

static const struct opt *opt_find(const struct opt *rows, const char *name, size_t len)
{
	const struct opt *o;

	for (o = rows; o->name; o++)
		if (opt_is(o->name, name, len))
			return o;
	return NULL;
}

static const struct opt *opt_find_letter(const struct opt *rows, char letter)
{
	const struct opt *o;

	for (o = rows; o->name; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static const struct {
	int (*parse)(const char *text, int64_t *ret);
	const char *want;
} opt_numbers[] = {
	[OPT_INT] = {number_int, NUMBER_INT_WANT},
	[OPT_DURATION] = {number_duration, NUMBER_DURATION_WANT},
	[OPT_BYTES] = {number_bytes, NUMBER_BYTES_WANT},
};

static const char *opt_show(char out[FMT_MAX], enum opt_type type, int64_t v)
{
	if (type == OPT_DURATION)
		return fmt_seconds(out, (double)v / 1e9);
	if (type == OPT_BYTES)
		return fmt_bytes(out, (double)v);
	snprintf(out, FMT_MAX, "%lld", (long long)v);
	return out;
}

static int opt_set_number(const struct command *c, const struct opt *o, const char *arg)
{
	int64_t hi = o->lo == 0 && o->hi == 0 ? INT64_MAX : o->hi, v = 0;
	char text[FMT_MAX];
	int err = opt_numbers[o->type].parse(arg, &v);

	if (err == -EINVAL) {
		fprintf(stderr, "lapse %s: --%s: \"%s\" is not %s\n", c->name, o->name, arg,
			opt_numbers[o->type].want);
		return err;
	}
	if (err || v < o->lo || v > hi) {
		fprintf(stderr, "lapse %s: --%s: %s is out of range: at least %s", c->name, o->name,
			arg, opt_show(text, o->type, o->lo));
		if (hi < INT64_MAX)
			fprintf(stderr, ", at most %s", opt_show(text, o->type, hi));
		fputc('\n', stderr);
		return -ERANGE;
	}
	*(int64_t *)o->to = v;
	return 0;
}

static int opt_set(const struct command *c, const struct opt *o, const char *arg)
{
	switch (o->type) {
	case OPT_FLAG:
		*(bool *)o->to = true;
		return 0;
	case OPT_STR:
		*(const char **)o->to = arg;
		return 0;
	case OPT_CALL:
		return o->call(arg, o->to);
	default:
		return opt_set_number(c, o, arg);
	}
}

/* The walk: argv[i] is the next word, rest the words that are no options. */
struct opt_walk {
	const struct command *c;
	const struct opt *rows;
	int argc, i;
	char **argv;
};

static int opt_missing(const struct opt_walk *w, const struct opt *o)
{
	fprintf(stderr, "lapse %s: --%s needs a value: --%s %s\n", w->c->name, o->name, o->name,
		o->value ? o->value : "VALUE");
	return -EINVAL;
}

static int opt_long(struct opt_walk *w)
{
	const char *word = w->argv[w->i++] + 2, *eq = strchr(word, '=');
	size_t len = eq ? (size_t)(eq - word) : strlen(word);
	const struct opt *o = opt_find(w->rows, word, len), *row;
	struct near near = {0};
	char name[NEAR_LEN_MAX + 1];

	if (!o) {
		snprintf(name, sizeof(name), "%.*s", (int)(len < 64 ? len : 64), word);
		for (row = w->rows; row->name; row++)
			near_try(&near, name, row->name);
		near_try(&near, name, "help");
		fprintf(stderr, "lapse %s: unknown option --%.*s", w->c->name, (int)len, word);
		if (near.best)
			fprintf(stderr, "; did you mean --%s?", near.best);
		fputc('\n', stderr);
		return -EINVAL;
	}
	if (o->type == OPT_FLAG && eq) {
		fprintf(stderr, "lapse %s: --%s takes no value\n", w->c->name, o->name);
		return -EINVAL;
	}
	if (o->type == OPT_FLAG || eq)
		return opt_set(w->c, o, eq ? eq + 1 : NULL);
	if (w->i >= w->argc)
		return opt_missing(w, o);
	return opt_set(w->c, o, w->argv[w->i++]);
}

static int opt_short(struct opt_walk *w)
{
	const char *p = w->argv[w->i++] + 1;
	const struct opt *o;
	int err;

	for (; *p; p++) {
		o = opt_find_letter(w->rows, *p);
		if (!o) {
			fprintf(stderr, "lapse %s: unknown option -%c\n", w->c->name, *p);
			return -EINVAL;
		}
		if (o->type != OPT_FLAG) {
			if (p[1])
				return opt_set(w->c, o, p + 1);
			if (w->i >= w->argc)
				return opt_missing(w, o);
			return opt_set(w->c, o, w->argv[w->i++]);
		}
		err = opt_set(w->c, o, NULL);
		if (err)
			return err;
	}
	return 0;
}

static int opt_fail(const struct command *c, int *ret_status)
{
	fprintf(stderr, "Try: lapse %s --help\n", c->name);
	*ret_status = 2;
	return -1;
}

int opt_parse(const struct command *c, int argc, char **argv, int *ret_status)
{
	struct opt_walk w = {.c = c, .rows = c->options(), .argc = argc, .argv = argv, .i = 1};
	char **rest = xcalloc((size_t)argc + 1, sizeof(*rest));
	int n = 0, first, err = 0;

	while (w.i < argc && !err) {
		char *word = argv[w.i];

		if (strcmp(word, "--") == 0) {
			w.i++;
			break;
		}
		if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
			opt_help(c);
			free(rest);
			*ret_status = 0;
			return -1;
		}
		if (word[0] == '-' && word[1] == '-') {
			err = opt_long(&w);
		} else if (word[0] == '-' && word[1] != '\0') {
			err = opt_short(&w);
		} else if (c->options_first) {
			break;
		} else {
			rest[n++] = word;
			w.i++;
		}
	}
	while (!err && w.i < argc)
		rest[n++] = argv[w.i++];
	first = argc - n;
	/* The options have been used up: their places are free. */
	if (n > 0)
		memcpy(argv + first, rest, (size_t)n * sizeof(*rest));
	free(rest);
	return err ? opt_fail(c, ret_status) : first;
}

/* Print text from column `at` on, broken at spaces, indented by `indent`. */
static void opt_wrap(const char *text, size_t at, size_t indent)
{
	size_t n;

	while (*text) {
		n = strcspn(text, " ");
		if (at > indent && at + n + 1 > OPT_HELP_WIDTH) {
			printf("\n%*s", (int)indent, "");
			at = indent;
		} else if (at > indent) {
			putchar(' ');
			at++;
		}
		printf("%.*s", (int)n, text);
		at += n;
		text += n;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void opt_help_row(const struct opt *o, size_t width)
{
	char left[96];
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(left, sizeof(left), "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
		 o->value ? o->value : "");
	printf("%-*s", (int)width, left);
	if (strlen(left) + 2 > width)
		printf("\n%*s", (int)width, "");
	opt_wrap(o->help, width, width);
}

const struct command *opt_sub(const struct command *c, const char *name)
{
	size_t len = strlen(c->name);
	const struct command *sub;

	for (sub = c->subs; sub && sub->name; sub++)
		if (strcmp(sub->name + len + 1, name) == 0)
			return sub;
	return NULL;
}

static void opt_help_subs(const struct command *c)
{
	const struct command *sub;

	printf("\nSubcommands:\n");
	for (sub = c->subs; sub->name; sub++)
		printf("  %-13s %s\n", sub->name + strlen(c->name) + 1, sub->summary);
}

void opt_help(const struct command *c)
{
	static const struct opt help = {.name = "help", .letter = 'h', .help = "print this text"};
	const struct opt *o;
	size_t width = 0, n;

	printf("usage: lapse %s %s\n\n%c%s.\n", c->name, c->args, toupper(c->summary[0]),
	       c->summary + 1);
	if (c->about[0] != '\0')
		printf("\n%s\n", c->about);
	if (c->subs)
		opt_help_subs(c);
	for (o = c->options(); o->name; o++) {
		n = 6 + 2 + strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0) + 2;
		if (n > width && n <= 34)
			width = n;
	}
	if (width < 16)
		width = 16;
	printf("\nOptions:\n");
	for (o = c->options(); o->name; o++)
		opt_help_row(o, width);
	opt_help_row(&help, width);
	if (c->examples[0] != '\0')
		printf("\nExamples:\n%s\n", c->examples);
}

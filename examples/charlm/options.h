/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - the command line of charlm.
 */
#ifndef CHARLM_OPTIONS_H
#define CHARLM_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#define OPTIONS_TEXTS_MAX 64

/* See the table in options.c for meaning, default and limits of each. */
struct options {
	const char *text[OPTIONS_TEXTS_MAX];
	size_t texts;
	int64_t steps, seed, threads;
	int64_t batch, context, dim, heads, layers;
	int64_t log_every, eval_every, sample;
	double seconds, rate, decay, clip;
	const char *summary, *checkpoint, *load;
	int64_t check_gradients, help;
};

/* Fill o from the arguments. Strings stay argv's. Returns 0, or -1 after a
 * message on stderr. */
int options_parse(struct options *o, int argc, char **argv);

/* Print all options with their defaults on stdout. */
void options_help(void);

#endif /* CHARLM_OPTIONS_H */

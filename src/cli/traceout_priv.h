/* SPDX-License-Identifier: Apache-2.0
 *
 * traceout_priv.h - what traceout.c keeps, for those of its forms that have files of their
 * own.
 */
#ifndef CLI_TRACEOUT_PRIV_H
#define CLI_TRACEOUT_PRIV_H

#include "cli/traceout.h"

struct traceout_item {
	struct sheet *sheet; /* one of sheet, text, draw, lines */
	char *text;
	void (*draw)(const struct term *term, FILE *to, const void *data);
	const void *data;
	const char *key;   /* of text */
	char *lines;       /* of a list */
	const char *title; /* of a list */
	bool is_data;      /* a sheet for programs only */
	bool is_people;    /* a sheet for people only */
	bool is_missing;   /* a text about what is not there */
	bool is_part;      /* the text about the part that was looked at */
};

struct traceout {
	const struct tracecmd_set *set;
	struct traceout_item *items;
	size_t n, cap;
	bool is_plain;
};

/* Is it a sheet that programs get, with --sheet the one of that name? */
bool traceout_wanted(const struct traceout_item *i);

/* The JSON document. -EFBIG where it would be too large. */
int traceout_json(const struct traceout *o, FILE *to, struct err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.h - the table of settings: one row a key, from which reading, checking,
 * `lapse config` and docs/config.md all come. A new setting is a row in keys.c
 * and the code that asks for it.
 */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include <stddef.h>
#include <stdint.h>

enum config_type {
	CONFIG_BOOL,     /* true, false (yes, no, on, off) */
	CONFIG_TEXT,     /* any scalar, as it is written */
	CONFIG_WORDS,    /* a list of texts, or one text with commas */
	CONFIG_CHOICES,  /* as WORDS, each one of `choices`; true: all, false: none */
	CONFIG_INT,      /* whole number, lo to hi */
	CONFIG_DURATION, /* ns: 90, 1.5s, 10m, 2h */
	CONFIG_BYTES,    /* 4096, 64k, 4M */
	CONFIG_NUMBER,   /* decimal */
	CONFIG_FREE,     /* a mapping of anything */
	CONFIG_ITEMS,    /* a list of mappings with the keys of `items` */
	CONFIG_BLOCK     /* a mapping whose keys are those below same_as */
};

/* Who asks for a setting. */
enum config_reader {
	CONFIG_READ_RUN = 1,    /* lapse run */
	CONFIG_READ_AGENT = 2,  /* lapse agent */
	CONFIG_READ_PYTHON = 4, /* lapse.init() */
	CONFIG_READ_SERVE = 8,  /* lapse serve */
};

struct config_key {
	const char *path; /* "run.dir" */
	enum config_type type;
	unsigned readers;              /* of enum config_reader; 0: has no effect in this version */
	const char *help;              /* one line */
	const char *preset;            /* the default, as it would be written; NULL: none. Without
					  readers: what lapse does anyway */
	const char *env;               /* environment variable that goes before the file, or NULL */
	const char *option;            /* "run --dir": what goes before both, or NULL */
	const char *python;            /* its name in the settings of lapse.init(), or NULL */
	const char *same_as;           /* the key that this other name sets, or NULL */
	int64_t (*convert)(int64_t v); /* from this key's unit to that one's, or NULL */
	double scale;                  /* NUMBER with same_as: that one's unit in this one's */
	int64_t lo, hi;                /* range of INT, DURATION, BYTES, NUMBER (in
					  its unit; ns); 0, 0: anything not negative */
	const char *const *choices;    /* of CHOICES, ended by NULL */
	const struct config_key *items; /* of ITEMS: path, type, help, lo, hi of each key, ended by
					   path NULL; a text instead of a mapping is the first */
};

/* The rows, ended by path NULL. */
extern const struct config_key config_keys[];

/* What the type is called for people: "duration". */
const char *config_type_name(enum config_type type);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h - the configuration of a command: the file of --config or
 * $LAPSE_CONFIG, and the environment. Arguments are the command's: it asks here
 * for what was not given.
 */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "base/err.h"
#include "config/config.h"

struct settings {
	struct config *config; /* never NULL */
	char *path;            /* absolute, of the file that was read; NULL: none */
	struct err left_out;   /* why the file of $LAPSE_CONFIG was left out */
};

/* Read. option is the argument of --config or NULL. 0, or 2 after printing what
 * is wrong with the file of --config. One that only $LAPSE_CONFIG names comes
 * from far away: if it is bad the rest holds, and left_out says why. */
int settings_load(struct settings *s, const char *command, const char *option);

/* The i-th sentence that a user should see, or NULL: left_out, then the notes. */
const char *settings_note(const struct settings *s, size_t i);

/* Call fn with each word of a list, "a,b"; NULL: none. The word may be changed. */
void settings_words(const char *list, void (*fn)(char *word));

void settings_done(struct settings *s);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * config_priv.h - the inside of a configuration, for the files of this folder.
 */
#ifndef CONFIG_CONFIG_PRIV_H
#define CONFIG_CONFIG_PRIV_H

#include "config/config.h"
#include "config/value.h"

/* What a row of the table holds. */
struct config_setting {
	struct value value;
	enum config_from from;
	const char *written; /* the row's path by which the file says it */
	unsigned line, column;
};

struct config {
	struct config_setting *settings; /* by row of config_keys */
	struct doc doc;
	char *file;
	char **notes;
	size_t n_notes, notes_cap;
};

/* The row with this path; aborts if there is none. */
size_t config_row(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * config.h - the settings that hold: defaults, then a YAML file, then the
 * environment. Arguments go before all of them and are the commands' business.
 * docs/config.md is the page for users, keys.c the table.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/err.h"
#include "config/doc.h"
#include "config/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_from {
	CONFIG_FROM_DEFAULT,
	CONFIG_FROM_FILE,
	CONFIG_FROM_ENVIRONMENT
};

struct config;

/* All at their defaults. The caller frees it. */
struct config *config_new(void);
void config_free(struct config *c);

/* Take over a file, at most once: 0, or -errno and *e, "FILE:LINE:COLUMN: what is
 * wrong" or why it cannot be read; *c may then hold half of it and is only good
 * for config_free(). A file that is not a regular one is refused. */
int config_load(struct config *c, const char *path, struct err *e);

/* The same with the text of a file called name. */
int config_parse(struct config *c, const char *name, const char *text, size_t len, struct err *e);

/* Take over the environment. A variable that makes no sense is left out and
 * becomes a note. */
void config_environment(struct config *c);

/* The value of a setting by its path, which must be in the table (else abort()).
 * The config owns texts. */
bool config_given(const struct config *c, const char *path);       /* or there is none */
const char *config_text(const struct config *c, const char *path); /* NULL: none */
bool config_flag(const struct config *c, const char *path);        /* false: none */
int64_t config_number(const struct config *c, const char *path, int64_t otherwise);

/* Entries of a list of mappings, and what the i-th says: fn is called for each key with its
 * value as a text that value_of_text() would read. */
size_t config_items(const struct config *c, const char *path);
void config_item(const struct config *c, const char *path, size_t i,
		 void (*fn)(void *arg, const char *key, const char *text), void *arg);

/* Where it comes from; of a file *ret_line (may be NULL) is its line. */
enum config_from config_from(const struct config *c, const char *path, unsigned *ret_line);

/* The file that was read, as it was called; NULL: none. */
const char *config_file(const struct config *c);

/* What the user should know but what is no error: sentences, the i-th or NULL. */
const char *config_note(const struct config *c, size_t i);

#endif

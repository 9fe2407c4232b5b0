/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c - see settings.h.
 */
#include "cli/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int settings_load(struct settings *s, const char *command, const char *option)
{
	const char *variable = getenv("LAPSE_CONFIG");
	const char *path = option ? option : variable && variable[0] ? variable : NULL;
	struct err e = {0};

	*s = (struct settings){.config = config_new()};
	if (path && config_load(s->config, path, &e) < 0) {
		config_free(s->config);
		s->config = config_new();
		if (option) {
			fprintf(stderr, "lapse %s: --config: %s\n", command, e.text);
			return 2;
		}
		err_set(&s->left_out, e.code, "LAPSE_CONFIG: %.440s; the file is left out", e.text);
	} else if (path) {
		s->path = realpath(path, NULL);
	}
	config_environment(s->config);
	return 0;
}

const char *settings_note(const struct settings *s, size_t i)
{
	if (!s->left_out.code)
		return config_note(s->config, i);
	return i == 0 ? s->left_out.text : config_note(s->config, i - 1);
}

void settings_done(struct settings *s)
{
	config_free(s->config);
	free(s->path);
	*s = (struct settings){0};
}

void settings_words(const char *list, void (*fn)(char *word))
{
	char *copy = xstrdup(list), *save = NULL, *word;

	for (word = copy ? strtok_r(copy, ",", &save) : NULL; word;
	     word = strtok_r(NULL, ",", &save))
		fn(word);
	free(copy);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_config.c - `lapse config`: is a configuration file right, and which
 * settings hold, each with where it comes from.
 */
#include "cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "report/table.h"
#include "report/runview.h"
#include "config/config.h"
#include "config/dump.h"

#define CONFIG_VALUE_MAX (DOC_BYTES_MAX + 4096u)

static bool config_json;

const struct opt *cmd_config_options(void)
{
	static const struct opt rows[] = {
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &config_json,
		 .help = "print one JSON object, with the table of all keys"},
		{0},
	};

	return rows;
}

static void config_row_from(struct table *t, const struct config *c, const struct config_key *k)
{
	unsigned line = 0;

	switch (config_from(c, k->path, &line)) {
	case CONFIG_FROM_FILE:
		table_cellf(t, TERM_PLAIN, "%s:%u", config_file(c), line);
		return;
	case CONFIG_FROM_ENVIRONMENT:
		table_cell(t, TERM_PLAIN, k->env);
		return;
	default:
		table_cell(t, TERM_DIM, "default");
	}
}

static void config_print(const struct config *c)
{
	static const struct table_column columns[] = {
		{"SETTING", 0}, {"VALUE", TABLE_CUT}, {"FROM", TABLE_ELIDE}};
	struct table *t = table_new(columns, 3);
	const struct config_key *k;
	struct term term;
	struct buf value;

	buf_init(&value, CONFIG_VALUE_MAX);
	for (k = config_keys; k->path; k++) {
		if (!k->readers)
			continue;
		buf_reset(&value);
		dump_text(c, k, &value);
		table_cell(t, TERM_PLAIN, k->path);
		table_cell(t, TERM_PLAIN, value.len > 0 ? buf_str(&value) : "-");
		config_row_from(t, c, k);
	}
	buf_done(&value);
	term_look(&term, stdout);
	table_print(t, &term, stdout, 0);
	table_free(t);
}

static int config_print_json(const struct config *c)
{
	struct buf b;
	struct json j;
	int status;

	buf_init(&b, RUNVIEW_JSON_MAX);
	json_init(&j, &b);
	dump_json(c, &j);
	status = runview_json_print("config", &b);
	buf_done(&b);
	return status;
}

int cmd_config(int argc, char **argv)
{
	const char *variable = getenv("LAPSE_CONFIG"), *path;
	struct config *c;
	struct err e = {0};
	int status = 0;
	size_t i;

	path = cmd_one_arg("config", argc, argv, "file", variable ? variable : "");
	if (!path)
		return 2;
	c = config_new();
	if (path[0] && config_load(c, path, &e) < 0) {
		fprintf(stderr, "lapse config: %s\n", e.text);
		config_free(c);
		return 1;
	}
	config_environment(c);
	if (config_json)
		status = config_print_json(c);
	else
		config_print(c);
	for (i = 0; !config_json && config_note(c, i); i++)
		fprintf(stderr, "lapse config: %s\n", config_note(c, i));
	config_free(c);
	return status;
}

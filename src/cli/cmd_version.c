/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_version.c - `lapse version`: what this program is and what it was built
 * with.
 */
#include "cli/cmd.h"

#include <sqlite3.h>
#include <stdio.h>
#include <zstd.h>

#include "base/json.h"
#include "report/runview.h"
#include "wire/wire.h"

static bool version_json;

const struct opt *cmd_version_options(void)
{
	static const struct opt rows[] = {
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &version_json,
		 .help = "print one JSON object"},
		{0},
	};

	return rows;
}

int cmd_version(int argc, char **argv)
{
	struct buf b;
	struct json j;
	int status;

	if (argc > 0) {
		fprintf(stderr, "lapse version: unexpected argument \"%s\"\n", argv[0]);
		return 2;
	}
	if (!version_json) {
		printf("lapse %s (rings up to version %d.%d, SQLite %s, zstd %s)\n", LAPSE_VERSION,
		       WIRE_MAJOR, WIRE_MINOR, sqlite3_libversion(), ZSTD_versionString());
		return 0;
	}
	buf_init(&b, RUNVIEW_JSON_MAX);
	json_init(&j, &b);
	json_object(&j);
	json_kstr(&j, "version", LAPSE_VERSION);
	json_kint(&j, "wire_major", WIRE_MAJOR);
	json_kint(&j, "wire_minor", WIRE_MINOR);
	json_kstr(&j, "sqlite", sqlite3_libversion());
	json_kstr(&j, "zstd", ZSTD_versionString());
	json_object_end(&j);
	status = runview_json_print("version", &b);
	buf_done(&b);
	return status;
}

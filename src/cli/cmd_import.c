/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_import.c - `lapse import`: takes runs that were recorded elsewhere.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/import.h"
#include "report/runview.h"

static const char *import_dir;
static struct import_wish import_wish = {.limit = 100ull << 30};
static int64_t import_limit = (int64_t)(100ull << 30);

const struct opt *cmd_import_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &import_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "as-new",
		 .type = OPT_FLAG,
		 .to = &import_wish.as_new,
		 .help = "give it another id if a run with its id is there"},
		{.name = "limit",
		 .type = OPT_BYTES,
		 .value = "SIZE",
		 .to = &import_limit,
		 .lo = 1,
		 .hi = INT64_MAX,
		 .help = "most that an archive may unpack to (default: 100G)"},
		{0},
	};

	return rows;
}

static int import_one(const char *root, const char *const *paths, unsigned n)
{
	struct import_done done = {0};
	struct err e = {0};

	import_wish.limit = (uint64_t)import_limit;
	if (import_run(root, paths, n, &import_wish, &e, &done) < 0) {
		fprintf(stderr, "lapse import: %s: %s\n", paths[0], e.text);
		return 1;
	}
	if (done.joined && done.added == 0)
		printf("%s: is there already\n", done.id);
	else if (done.joined)
		printf("%s: %u host%s added\n", done.id, done.added, done.added == 1 ? "" : "s");
	else
		printf("%s: imported\n", done.id);
	return 0;
}

/* Files HOST.db are of one run, all others a run each. */
int cmd_import(int argc, char **argv)
{
	const char **files = xcalloc((size_t)argc, sizeof(*files));
	char root[4096];
	unsigned n = 0;
	int i, status = 0;

	if (argc == 0) {
		fprintf(stderr, "lapse import: this needs a folder, an archive or files HOST.db\n"
				"Try: lapse import --help\n");
		free(files);
		return 2;
	}
	if (store_root(import_dir, root, sizeof(root)) < 0) {
		fprintf(stderr, "lapse import: folder of runs: its name is too long\n");
		free(files);
		return 1;
	}
	import_sweep(root);
	for (i = 0; i < argc; i++) {
		if (text_ends(argv[i], ".db"))
			files[n++] = argv[i];
		else
			status |= import_one(root, (const char *const[]){argv[i]}, 1);
	}
	if (n)
		status |= import_one(root, files, n);
	free(files);
	i = runview_flush();
	return status ? status : i;
}

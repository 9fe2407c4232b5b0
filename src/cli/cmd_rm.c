/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_rm.c - `lapse rm`: removes runs for good.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fmt.h"
#include "base/mem.h"
#include "report/table.h"
#include "store/folder.h"
#include "store/store.h"

static const char *rm_dir;
static bool rm_force, rm_yes;

const struct opt *cmd_rm_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &rm_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "force",
		 .letter = 'f',
		 .type = OPT_FLAG,
		 .to = &rm_force,
		 .help = "also one without an end that changed in the last day, or without data"},
		{.name = "yes",
		 .letter = 'y',
		 .type = OPT_FLAG,
		 .to = &rm_yes,
		 .help = "do not ask on a terminal"},
		{0},
	};

	return rows;
}

struct rm_run {
	char dir[4096];
	struct folder_info info;
};

static int rm_find(const char *root, const char *what, struct rm_run *run)
{
	struct err e = {0};
	int r = store_find(root, what, run->dir, sizeof(run->dir), &e);

	if (r == 0)
		r = folder_look(run->dir, &e, &run->info);
	if (r == 0 && run->info.is_written)
		r = err_set(&e, -EBUSY, "%s is being recorded; end it first", run->dir);
	if (r == 0 && !rm_force && run->info.state == FOLDER_LIVE && run->info.is_run)
		r = err_set(&e, -EBUSY,
			    "%s has no end and was written within the last day, perhaps by "
			    "another machine; --force removes it",
			    run->dir);
	if (r == 0 && !rm_force && !run->info.is_run)
		r = err_set(&e, -EINVAL,
			    "%s does not look like a run (no database of lapse in it); --force "
			    "removes it",
			    run->dir);
	if (r < 0)
		fprintf(stderr, "lapse rm: %s\n", e.text);
	return r;
}

/* Without any data only a name that lapse has made may go. */
static bool rm_is_named(const char *dir)
{
	const char *name = strrchr(dir, '/');
	size_t i;

	name = name ? name + 1 : dir;
	for (i = 0; i < 15; i++)
		if (i == 8 ? name[i] != '-' : name[i] < '0' || name[i] > '9')
			return false;
	return name[i] == '-';
}

static bool rm_confirm(const struct rm_run *runs, size_t n)
{
	char text[FMT_MAX], *name, answer[16] = "";
	uint64_t bytes = 0;
	size_t i;

	if (rm_yes || !isatty(STDIN_FILENO))
		return true;
	for (i = 0; i < n; i++) {
		bytes += runs[i].info.bytes;
		name = term_clean(runs[i].dir);
		fprintf(stderr, "%s\n", name);
		free(name);
	}
	fprintf(stderr, "Remove %s, %s? [y/N] ", n == 1 ? "this run" : "these runs",
		fmt_bytes(text, (double)bytes));
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	return answer[0] == 'y' || answer[0] == 'Y';
}

/* What a killed removal left beside the run, too. */
static int rm_one(const struct rm_run *run)
{
	char *parent = xstrdup(run->dir), *slash = strrchr(parent, '/');
	struct err e = {0};
	int r = folder_remove(run->dir, rm_force && rm_is_named(run->dir), &e);

	if (r < 0)
		fprintf(stderr, "lapse rm: %s\n", e.text);
	if (slash && slash != parent) {
		*slash = '\0';
		folder_sweep(parent, NULL);
	}
	free(parent);
	return r;
}

int cmd_rm(int argc, char **argv)
{
	struct rm_run *runs;
	struct err e = {0};
	char root[4096];
	int i, status = 0;
	size_t n = 0, k;

	if (argc == 0) {
		fprintf(stderr, "lapse rm: this needs a RUN\nTry: lapse rm --help\n");
		return 2;
	}
	if (store_root(rm_dir, root, sizeof(root)) < 0) {
		err_set(&e, -ENAMETOOLONG, "folder of runs: too long a name");
		fprintf(stderr, "lapse rm: %s\n", e.text);
		return 1;
	}
	runs = xcalloc((size_t)argc, sizeof(*runs));
	for (i = 0; i < argc; i++) {
		if (rm_find(root, argv[i], &runs[n]) < 0)
			status = 1;
		else
			n++;
	}
	if (n && !rm_confirm(runs, n)) {
		fprintf(stderr, "lapse rm: nothing was removed\n");
		status = 1;
		n = 0;
	}
	for (k = 0; k < n; k++)
		if (rm_one(&runs[k]) < 0)
			status = 1;
	free(runs);
	return status;
}

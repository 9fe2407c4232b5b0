/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_fsck.c - `lapse fsck`: looks for damage in the databases of runs, and writes
 * what is left of damaged ones into new files.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "report/runview.h"

#define FSCK_SHOWN 50u /* findings of a file that are printed; JSON has all */

static const char *fsck_dir;
static bool fsck_all, fsck_json, fsck_repair;

const struct opt *cmd_fsck_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &fsck_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "all",
		 .letter = 'a',
		 .type = OPT_FLAG,
		 .to = &fsck_all,
		 .help = "all runs of the folder"},
		{.name = "repair",
		 .type = OPT_FLAG,
		 .to = &fsck_repair,
		 .help = "write what can be read of a damaged file into a new one, keep the old"},
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &fsck_json,
		 .help = "print one JSON object"},
		{0},
	};

	return rows;
}

struct fsck {
	struct buf text;
	struct json json;
	struct term term;
	const char *dir;  /* of the run */
	const char *file; /* being checked */
	uint64_t runs, files, findings, repaired, failed;
	uint64_t shown;         /* of this file */
	bool progress, on_line; /* a line of progress stands on stderr */
};

/* ---- what is told ------------------------------------------------------------------------ */

static void fsck_clear_line(struct fsck *f)
{
	if (f->on_line)
		fprintf(stderr, "\r\033[K");
	f->on_line = false;
}

static int fsck_on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct fsck *f = arg;

	if (!f->progress)
		return 0;
	if (total && done)
		fprintf(stderr, "\r\033[K%s/%s: %u %%", f->dir, f->file,
			(unsigned)(done * 100 / (total > done ? total : done)));
	else
		fprintf(stderr, "\r\033[K%s/%s: reading", f->dir, f->file);
	f->on_line = true;
	return 0;
}

static const char *fsck_advice(const struct store_finding *f)
{
	if (strstr(f->what, "copy the folder"))
		return "copy the folder to one that you can write, and check it there";
	return "lapse fsck --repair keeps what can be read";
}

static int fsck_on_finding(void *arg, const struct store_finding *found)
{
	struct fsck *f = arg;

	f->findings++;
	if (fsck_json) {
		json_object(&f->json);
		json_kstr(&f->json, "table", *found->table ? found->table : NULL);
		json_kstr(&f->json, "row", *found->row ? found->row : NULL);
		json_kstr(&f->json, "what", found->what);
		json_kstr(&f->json, "advice", fsck_advice(found));
		json_object_end(&f->json);
		return 0;
	}
	fsck_clear_line(f);
	if (f->shown++ < FSCK_SHOWN)
		printf("%s/%s: %s%s%s%s%s%s\n", f->dir, f->file, *found->table ? "table " : "",
		       found->table, *found->row ? ", " : "", found->row,
		       *found->table || *found->row ? ": " : "", found->what);
	if (f->shown == 1)
		printf("  %s\n", fsck_advice(found));
	return 0;
}

/* Something that kept a file from being checked or repaired. */
static void fsck_failed(struct fsck *f, const char *text)
{
	f->failed++;
	fsck_clear_line(f);
	if (fsck_json)
		json_kstr(&f->json, "error", text);
	else
		fprintf(stderr, "lapse fsck: %s\n", text);
}

/* ---- a file -------------------------------------------------------------------------------- */

static void fsck_tell_repaired(struct fsck *f, const struct store_repaired *n)
{
	f->repaired++;
	if (fsck_json) {
		json_key(&f->json, "repaired");
		json_object(&f->json);
		json_kstr(&f->json, "kept", n->kept);
		json_kuint(&f->json, "points", n->points);
		json_kuint(&f->json, "points_lost", n->points_lost);
		json_kuint(&f->json, "chunks_lost", n->chunks_lost);
		json_kuint(&f->json, "commits_lost", n->commits_lost);
		json_kuint(&f->json, "rows", n->rows);
		json_kuint(&f->json, "rows_lost", n->rows_lost);
		json_object_end(&f->json);
		return;
	}
	fsck_clear_line(f);
	printf("%s/%s: repaired: %" PRIu64 " points are there", f->dir, f->file, n->points);
	if (n->points_lost || n->chunks_lost)
		printf(", %" PRIu64 " in %" PRIu64 " chunks are lost", n->points_lost,
		       n->chunks_lost);
	if (n->commits_lost)
		printf(", %" PRIu64 " commits are lost", n->commits_lost);
	if (n->rows_lost)
		printf(", %" PRIu64 " other rows are lost", n->rows_lost);
	printf("\n  the old file is %s\n", n->kept);
}

static void fsck_repair_file(struct fsck *f, const struct store_checker *c)
{
	struct store_repaired n;
	struct err e = {0};

	if (store_repair(f->dir, f->file, c, &e, &n) < 0) {
		fsck_failed(f, e.text);
		return;
	}
	fsck_tell_repaired(f, &n);
	free(n.kept);
}

static void fsck_check_file(struct fsck *f, const struct store_file *file)
{
	const struct store_checker c = {fsck_on_finding, fsck_on_progress, f};
	struct err e = {0};
	uint64_t n = 0;
	int r;

	f->shown = 0;
	if (fsck_json) {
		json_key(&f->json, "findings");
		json_array(&f->json);
	}
	r = file->path ? store_check_all(file->path, &c, &e, &n) : 0;
	if (fsck_json)
		json_array_end(&f->json);
	fsck_clear_line(f);
	if (!fsck_json && f->shown > FSCK_SHOWN)
		printf("%s/%s: %" PRIu64 " more; --json shows all\n", f->dir, f->file,
		       f->shown - FSCK_SHOWN);
	if (r < 0)
		fsck_failed(f, e.text);
	else if (n && fsck_repair)
		fsck_repair_file(f, &c);
}

static int fsck_on_file(void *arg, const struct store_file *file)
{
	struct fsck *f = arg;

	f->file = file->name;
	if (fsck_json) {
		json_object(&f->json);
		json_kstr(&f->json, "file", file->name);
		json_kstr(&f->json, "path", file->path);
		json_kbool(&f->json, "live", file->is_live);
		json_kbool(&f->json, "set_aside", file->is_aside);
	}
	if (file->is_aside) {
		if (!fsck_json)
			printf("%s/%s: was set aside; nothing reads it, delete it when you do not "
			       "need it\n",
			       f->dir, file->name);
	} else {
		f->files++;
		fsck_check_file(f, file);
	}
	if (fsck_json)
		json_object_end(&f->json);
	return 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void fsck_run(struct fsck *f, const char *dir)
{
	struct err e = {0};
	int r;

	f->dir = dir;
	f->file = "";
	f->runs++;
	if (fsck_json) {
		json_object(&f->json);
		json_kstr(&f->json, "dir", dir);
		json_key(&f->json, "files");
		json_array(&f->json);
	}
	r = store_files(dir, fsck_on_file, f, &e);
	if (fsck_json)
		json_array_end(&f->json);
	if (r < 0)
		fsck_failed(f, e.text);
	if (fsck_json)
		json_object_end(&f->json);
}

static int fsck_every_run(struct fsck *f, const char *root)
{
	char **runs = NULL, *dir;
	struct err e = {0};
	size_t i;
	int r = store_runs(root, &runs, &e);

	if (r < 0)
		fprintf(stderr, "lapse fsck: %s\n", e.text);
	for (i = 0; r == 0 && runs[i]; i++) {
		dir = xasprintf("%s/%s", root, runs[i]);
		fsck_run(f, dir);
		free(dir);
	}
	store_runs_free(runs);
	return r;
}

static int fsck_named(struct fsck *f, const char *root, const char *what)
{
	struct err e = {0};
	char dir[4096];
	int r = store_find(root, what, dir, sizeof(dir), &e);

	if (r < 0)
		fprintf(stderr, "lapse fsck: %s\n", e.text);
	else
		fsck_run(f, dir);
	return r;
}

static int fsck_runs(struct fsck *f, int argc, char **argv)
{
	struct err e = {0};
	char root[4096];
	int i, r = store_root(fsck_dir, root, sizeof(root));

	if (r < 0) {
		err_errno(&e, r, "folder of runs %s", fsck_dir ? fsck_dir : "");
		fprintf(stderr, "lapse fsck: %s\n", e.text);
		return r;
	}
	if (fsck_all)
		return fsck_every_run(f, root);
	if (argc == 0)
		return fsck_named(f, root, "last");
	for (i = 0; i < argc; i++) {
		int one = fsck_named(f, root, argv[i]);

		r = one < 0 ? one : r;
	}
	return r;
}

static int fsck_finish(struct fsck *f, int r)
{
	uint64_t left = f->findings;
	int status = 0;

	if (fsck_json) {
		json_array_end(&f->json);
		json_kuint(&f->json, "checked", f->files);
		json_kuint(&f->json, "findings", f->findings);
		json_kuint(&f->json, "repaired", f->repaired);
		json_kuint(&f->json, "failed", f->failed);
		json_object_end(&f->json);
		status = runview_json_print("fsck", &f->text);
	} else if (r == 0) {
		printf("%" PRIu64 " runs, %" PRIu64 " files checked: ", f->runs, f->files);
		if (left || f->failed)
			printf("%" PRIu64 " things are wrong, %" PRIu64
			       " files were repaired, %" PRIu64 " failed\n",
			       left, f->repaired, f->failed);
		else
			printf("all is well\n");
		status = runview_flush();
	}
	return status || r < 0 || left || f->failed ? 1 : 0;
}

int cmd_fsck(int argc, char **argv)
{
	struct fsck f = {0};
	int r;

	if (fsck_all && argc > 0) {
		fprintf(stderr, "lapse fsck: --all takes no run; name runs or --all\n");
		return 2;
	}
	buf_init(&f.text, RUNVIEW_JSON_MAX);
	json_init(&f.json, &f.text);
	f.progress = isatty(STDERR_FILENO);
	if (fsck_json) {
		json_object(&f.json);
		json_key(&f.json, "runs");
		json_array(&f.json);
	}
	r = fsck_runs(&f, argc, argv);
	r = fsck_finish(&f, r);
	buf_done(&f.text);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_gc.c - `lapse gc`: makes room in the folder of the runs.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cleanup.h"
#include "report/runview.h"

static const char *gc_dir;
static bool gc_json;
static struct cleanup_wish gc_wish;

const struct opt *cmd_gc_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &gc_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "keep-raw",
		 .type = OPT_DURATION,
		 .value = "TIME",
		 .to = &gc_wish.keep_raw_ns,
		 .lo = 1,
		 .hi = INT64_MAX,
		 .help = "single points that are older go"},
		{.name = "max-size",
		 .type = OPT_BYTES,
		 .value = "SIZE",
		 .to = &gc_wish.max_size,
		 .lo = 1,
		 .hi = INT64_MAX,
		 .help = "of a larger file of a run and host the oldest points go"},
		{.name = "max-total",
		 .type = OPT_BYTES,
		 .value = "SIZE",
		 .to = &gc_wish.max_total,
		 .lo = 1,
		 .hi = INT64_MAX,
		 .help = "points of the oldest runs go until all take no more"},
		{.name = "older-than",
		 .type = OPT_DURATION,
		 .value = "TIME",
		 .to = &gc_wish.older_than_ns,
		 .lo = 1,
		 .hi = INT64_MAX,
		 .help = "only runs that ended so long ago"},
		{.name = "remove-runs",
		 .type = OPT_FLAG,
		 .to = &gc_wish.remove_runs,
		 .help = "remove runs: those of --older-than; for --max-total the oldest"},
		{.name = "dry-run",
		 .letter = 'n',
		 .type = OPT_FLAG,
		 .to = &gc_wish.dry_run,
		 .help = "only say what would be done"},
		{.name = "json", .type = OPT_FLAG, .to = &gc_json, .help = "print one JSON object"},
		{0},
	};

	return rows;
}

static const char *const gc_states[] = {
	[FOLDER_ENDED] = "ended", [FOLDER_OPEN] = "open", [FOLDER_LIVE] = "live"};

static bool gc_is_touched(const struct cleanup_run *run)
{
	return run->removed || run->points || run->error;
}

static int gc_print_json(const struct cleanup *c)
{
	struct json j;
	struct buf b;
	int status;
	size_t i;

	buf_init(&b, RUNVIEW_JSON_MAX);
	json_init(&j, &b);
	json_object(&j);
	json_kbool(&j, "dry_run", gc_wish.dry_run);
	json_key(&j, "runs");
	json_array(&j);
	for (i = 0; i < c->n; i++) {
		const struct cleanup_run *run = &c->runs[i];

		json_object(&j);
		json_kstr(&j, "id", run->id);
		json_kstr(&j, "state", gc_states[run->info.state]);
		json_kbool(&j, "removed", run->removed);
		json_kuint(&j, "points", run->points);
		json_kuint(&j, "bytes_before", run->info.bytes);
		json_kuint(&j, "bytes_after", run->bytes);
		json_kstr(&j, "error", run->error);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_kuint(&j, "bytes_before", c->before);
	json_kuint(&j, "bytes_after", c->after);
	json_kuint(&j, "leftovers", c->swept);
	json_object_end(&j);
	status = runview_json_print("gc", &b);
	buf_done(&b);
	return status;
}

static void gc_print_run(struct table *t, const struct cleanup_run *run)
{
	char text[FMT_MAX];
	uint64_t freed = run->info.bytes > run->bytes ? run->info.bytes - run->bytes : 0;

	table_cell(t, TERM_PLAIN, run->id);
	if (run->removed)
		table_cell(t, TERM_YELLOW, gc_wish.dry_run ? "would be removed" : "removed");
	else if (run->points)
		table_cellf(t, TERM_PLAIN, "%s %s points", gc_wish.dry_run ? "would lose" : "lost",
			    fmt_count(text, (double)run->points));
	else
		table_cell(t, TERM_RED, "failed");
	table_cell(t, TERM_PLAIN, fmt_bytes(text, (double)freed));
}

static int gc_print_table(const struct cleanup *c)
{
	static const struct table_column columns[] = {
		{"RUN", 0}, {"WHAT", 0}, {"FREED", TABLE_RIGHT}};
	uint64_t freed = c->before > c->after ? c->before - c->after : 0;
	struct table *t = table_new(columns, 3);
	char text[FMT_MAX], left[FMT_MAX];
	struct term term;
	size_t i, live = 0, left_n = 0;

	term_look(&term, stdout);
	for (i = 0; i < c->n; i++) {
		live += c->runs[i].info.state == FOLDER_LIVE;
		left_n += !c->runs[i].removed;
		if (gc_is_touched(&c->runs[i]))
			gc_print_run(t, &c->runs[i]);
	}
	if (table_rows(t))
		table_print(t, &term, stdout, 0);
	table_free(t);
	printf("%s%s %s; %zu runs %stake %s", gc_wish.dry_run ? "about " : "",
	       fmt_bytes(text, (double)freed), gc_wish.dry_run ? "would be freed" : "freed", left_n,
	       gc_wish.dry_run ? "would " : "", fmt_bytes(left, (double)c->after));
	if (live)
		printf("; %zu live, left alone", live);
	printf("\n");
	return runview_flush();
}

static int gc_report(const struct cleanup *c)
{
	int status = gc_json ? gc_print_json(c) : gc_print_table(c);
	size_t i;

	for (i = 0; i < c->n; i++) {
		if (!c->runs[i].error)
			continue;
		fprintf(stderr, "lapse gc: %s: %s\n", c->runs[i].id, c->runs[i].error);
		status = 1;
	}
	if (gc_wish.max_total && c->after > gc_wish.max_total) {
		fprintf(stderr, "lapse gc: the runs still take more than --max-total%s\n",
			gc_wish.remove_runs ? "" : "; --remove-runs would remove the oldest ones");
		status = 1;
	}
	return status;
}

int cmd_gc(int argc, char **argv)
{
	const struct cleanup_wish *w = &gc_wish;
	struct cleanup c = {0};
	struct err e = {0};
	char root[4096];
	int r;

	if (argc > 0) {
		fprintf(stderr,
			"lapse gc: unexpected argument \"%s\"; a folder is given with --dir\n",
			argv[0]);
		return 2;
	}
	if (!w->keep_raw_ns && !w->max_size && !w->max_total &&
	    !(w->remove_runs && w->older_than_ns)) {
		fprintf(stderr,
			"lapse gc: say what may go: --keep-raw, --max-size, --max-total, or "
			"--older-than with --remove-runs\nTry: lapse gc --help\n");
		return 2;
	}
	if (w->remove_runs && !w->older_than_ns && !w->max_total) {
		fprintf(stderr, "lapse gc: --remove-runs needs --older-than or --max-total\n");
		return 2;
	}
	r = store_root(gc_dir, root, sizeof(root));
	if (r < 0)
		err_errno(&e, r, "folder of runs %s", gc_dir ? gc_dir : "");
	else
		r = cleanup_run(root, w, &e, &c);
	if (r < 0)
		fprintf(stderr, "lapse gc: %s\n", e.text);
	r = r < 0 ? 1 : gc_report(&c);
	cleanup_done(&c);
	return r;
}

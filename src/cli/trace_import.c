/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_import.c - `lapse trace import`: what is in the files of other profilers, and the same
 * as a trace or as collapsed stacks that the other subcommands read.
 */
#include "cli/trace_import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/progress.h"
#include "cli/trace_subs.h"
#include "trace/import_file.h"

static const char *trace_import_from, *trace_import_file;

const struct opt *trace_import_options(void)
{
	static const struct opt rows[] = {
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &tracecmd_opt.json,
		 .help = "print one JSON object (docs/trace.md)"},
		{.name = "csv",
		 .type = OPT_FLAG,
		 .to = &tracecmd_opt.csv,
		 .help = "print CSV; several tables are parted by an empty line"},
		{.name = "sheet",
		 .type = OPT_STR,
		 .value = "NAME",
		 .to = &tracecmd_opt.sheet,
		 .help = "only the table of this name (docs/trace.md)"},
		{.name = "limit",
		 .letter = 'n',
		 .type = OPT_INT,
		 .value = "N",
		 .to = &tracecmd_opt.limit,
		 .help = "rows of each table; 0: all (default: 20; JSON and CSV have all)"},
		{.name = "from",
		 .type = OPT_STR,
		 .value = "KIND",
		 .to = &trace_import_from,
		 .help = "what the file is: collapsed, speedscope, pstats, smi, snapshot, "
			 "tracemalloc, timeline, mprof, nsys (default: by its content)"},
		{.name = "output",
		 .letter = 'o',
		 .type = OPT_STR,
		 .value = "FILE",
		 .to = &trace_import_file,
		 .help = "write it as a trace (.json, .json.gz, .json.zst, -) or as collapsed "
			 "stacks (.folded, .txt); one file"},
		{.name = "quiet",
		 .letter = 'q',
		 .type = OPT_FLAG,
		 .to = &tracecmd_opt.quiet,
		 .help = "no progress, and nothing on stderr about what is wrong inside a file"},
		{0},
	};

	return rows;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Read a part of the file; enough to tell the kind. */
static int trace_import_look(const char *path, enum import_kind *ret, struct err *e)
{
	char head[32];
	struct stat st;
	size_t n;
	FILE *f;

	*ret = IMPORT_FILE_UNKNOWN;
	if (strcmp(path, "-") == 0 || stat(path, &st) || !S_ISREG(st.st_mode))
		return 0;
	f = fopen(path, "re");
	if (!f)
		return err_errno(e, -errno, "cannot read %s", path);
	n = fread(head, 1, sizeof(head), f);
	fclose(f);
	if (import_detect(head, n) == IMPORT_FILE_SQLITE)
		*ret = IMPORT_FILE_SQLITE;
	return 0;
}

static int trace_import_parse(struct trace_import *m, struct write_sink *sink, struct err *e)
{
	char *data = m->bytes.data;
	size_t len = m->bytes.len;

	switch (m->kind) {
	case IMPORT_FILE_COLLAPSED:
	case IMPORT_FILE_SPEEDSCOPE:
		return import_folded(data, len, &m->folded, e);
	case IMPORT_FILE_TRACEMALLOC:
		return import_tracemalloc(data, len, &m->folded, e);
	case IMPORT_FILE_PSTATS:
		return import_pstats(data, len, &m->pstats, e);
	case IMPORT_FILE_SMI:
		m->smi = xcalloc(1, sizeof(*m->smi));
		return import_smi(data, len, m->smi, e);
	case IMPORT_FILE_SNAPSHOT:
		m->snapshot = xcalloc(1, sizeof(*m->snapshot));
		return import_snapshot(data, len, m->snapshot, e);
	case IMPORT_FILE_TIMELINE:
		return import_timeline(data, len, &m->timeline, e);
	case IMPORT_FILE_MPROF:
		m->mprof = xcalloc(1, sizeof(*m->mprof));
		return import_mprof(data, len, m->mprof, e);
	case IMPORT_FILE_SQLITE:
		return len ? import_nsys_bytes(data, len, sink, &m->nsys, e)
			   : import_nsys(m->path, sink, &m->nsys, e);
	default:
		return -EINVAL;
	}
}

/* Why a kind cannot be imported. */
static int trace_import_refuse(const struct trace_import *m, struct err *e)
{
	if (m->kind == IMPORT_FILE_TRACE)
		return err_set(e, -EINVAL,
			       "this is a trace already: lapse trace summary reads it, lapse trace "
			       "convert writes it");
	return err_set(e, -EBADMSG, "%s%s: %s",
		       m->kind == IMPORT_FILE_UNKNOWN ? "of no kind that is known" : "an ",
		       m->kind == IMPORT_FILE_UNKNOWN ? "" : import_kind_name(m->kind),
		       import_kind_advice(m->kind));
}

static int trace_import_read(struct trace_import *m, struct write_sink *sink, struct err *e)
{
	struct err why = {0};
	enum import_kind kind;
	int rc = trace_import_look(m->path, &kind, e);

	if (rc)
		return rc;
	if (kind != IMPORT_FILE_SQLITE) {
		rc = import_load(m->path, &m->bytes, e);
		if (rc)
			return rc;
		kind = import_detect(m->bytes.data, m->bytes.len);
	}
	m->kind = trace_import_from ? import_kind_of(trace_import_from) : kind;
	if (m->kind == IMPORT_FILE_TRACE || import_kind_advice(m->kind))
		rc = trace_import_refuse(m, &why);
	else if (kind == IMPORT_FILE_SQLITE && m->kind != kind && !m->bytes.len)
		rc = err_set(&why, -EBADMSG, "this is an SQLite database, not: %s",
			     import_kind_name(m->kind));
	else if (kind != IMPORT_FILE_SQLITE && m->kind == IMPORT_FILE_SQLITE)
		rc = err_set(&why, -EBADMSG, "this is no SQLite database");
	else
		rc = trace_import_parse(m, sink, &why);
	return rc ? err_set(e, rc, "%s: %s", m->path, why.text) : 0;
}

static void trace_import_drop(struct trace_import *m)
{
	import_frames_done(&m->frames);
	import_folded_done(&m->folded);
	import_pstats_done(&m->pstats);
	import_timeline_done(&m->timeline);
	import_nsys_done(&m->nsys);
	if (m->smi)
		import_smi_done(m->smi);
	if (m->snapshot)
		import_snapshot_done(m->snapshot);
	if (m->mprof)
		import_mprof_done(m->mprof);
	free(m->smi);
	free(m->snapshot);
	free(m->mprof);
	buf_done(&m->bytes);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The stacks of a file; NULL: it has none. */
static const struct import_folded *trace_import_stacks(const struct trace_import *m)
{
	if (m->snapshot)
		return &m->snapshot->live;
	return m->folded.n ? &m->folded : NULL;
}

static int trace_import_trace(const struct trace_import *m, struct write_sink *s, uint64_t *ret,
			      struct err *e)
{
	switch (m->kind) {
	case IMPORT_FILE_PSTATS:
		return import_out_pstats(s, &m->pstats, ret, e);
	case IMPORT_FILE_SMI:
		return import_out_smi(s, m->smi, ret, e);
	case IMPORT_FILE_SNAPSHOT:
		return import_out_snapshot(s, m->snapshot, ret, e);
	case IMPORT_FILE_TIMELINE:
		return import_out_timeline(s, &m->timeline, ret, e);
	case IMPORT_FILE_MPROF:
		return import_out_mprof(s, m->mprof, ret, e);
	default:
		return import_out_folded(s, &m->folded, import_kind_name(m->kind), ret, e);
	}
}

static int trace_import_fill(struct trace_import *m, struct write_sink *s, struct err *e)
{
	const struct import_folded *stacks = trace_import_stacks(m);
	bool folded =
		text_ends(trace_import_file, ".folded") || text_ends(trace_import_file, ".txt");

	if (m->kind == IMPORT_FILE_SQLITE) {
		if (folded)
			return err_set(e, -EINVAL,
				       "%s has no stacks; write FILE.json and see lapse trace "
				       "stacks",
				       m->path);
		m->written = m->nsys.events;
		return 0;
	}
	if (!folded)
		return trace_import_trace(m, s, &m->written, e);
	if (!stacks)
		return err_set(e, -EINVAL, "%s has no stacks; write FILE.json", m->path);
	m->written = stacks->n;
	m->has_stacks_written = true;
	return import_out_collapsed(s, stacks);
}

/* Read and write at once: an export of nsys goes through row by row. */
static int trace_import_write(struct trace_import *m, struct err *e)
{
	struct write_sink *s = NULL;
	int rc;

	tracecmd_writes(trace_import_file);
	rc = write_open(trace_import_file, &s, e);
	if (!rc)
		rc = trace_import_read(m, s, e);
	if (!rc)
		rc = trace_import_fill(m, s, e);
	if (rc)
		write_abort(s);
	else
		rc = write_close(s, &m->written_bytes, e);
	tracecmd_writes(NULL);
	return rc;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int trace_import_check(int argc)
{
	const char *why = NULL;

	if (!argc)
		why = "this takes files";
	else if (trace_import_file && argc > 1)
		why = "--output takes one file";
	else if (tracecmd_opt.json && tracecmd_opt.csv)
		why = "--json and --csv do not go together";
	if (why) {
		fprintf(stderr, "lapse trace import: %s\nTry: lapse trace import --help\n", why);
		return 2;
	}
	if (trace_import_from && (import_kind_of(trace_import_from) == IMPORT_FILE_UNKNOWN ||
				  import_kind_of(trace_import_from) == IMPORT_FILE_TRACE)) {
		fprintf(stderr,
			"lapse trace import: --from: \"%s\" is none of collapsed, speedscope, "
			"pstats, smi, snapshot, tracemalloc, timeline, mprof, nsys\n",
			trace_import_from);
		return 2;
	}
	return 0;
}

int trace_import(int argc, char **argv)
{
	static const struct tracecmd_wish wish = {.command = "trace import"};
	struct tracecmd_set set = {.wish = &wish};
	struct trace_import *files;
	size_t n = 0;
	int status = trace_import_check(argc), i, rc;

	if (status)
		return status;
	files = xcalloc((size_t)argc, sizeof(*files));
	set.failed = xcalloc((size_t)argc, sizeof(*set.failed));
	progress_begin(tracecmd_opt.quiet);
	progress_phase("Reading", NULL, 0);
	tracecmd_signals();
	for (i = 0; i < argc; i++) {
		struct err e = {0};

		files[n].path = argv[i];
		rc = trace_import_file ? trace_import_write(&files[n], &e)
				       : trace_import_read(&files[n], NULL, &e);
		if (!rc) {
			n++;
			continue;
		}
		progress_erase();
		fprintf(stderr, "lapse trace import: %s\n", e.text);
		set.failed[set.n_failed++] =
			(struct tracecmd_failed){xstrdup(argv[i]), xstrdup(e.text)};
		set.status = rc == -EINVAL ? 2 : 1;
		trace_import_drop(&files[n]);
		files[n] = (struct trace_import){0};
	}
	status = set.status;
	if (n && !(trace_import_file && strcmp(trace_import_file, "-") == 0))
		status = trace_import_print(&set, files, n, trace_import_file);
	else
		progress_end();
	while (n > 0)
		trace_import_drop(&files[--n]);
	free(files);
	tracecmd_done(&set);
	return status;
}

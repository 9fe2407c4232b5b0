/* SPDX-License-Identifier: Apache-2.0
 *
 * runinfo.c - the table run: what was started and how it ended, one row a host;
 * the reader makes one of all hosts' rows.
 */
#include "base/mem.h"
#include "store/hosts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int runinfo_run(struct store *s, sqlite3_stmt *st, const char *what, struct err *e)
{
	int r = db_run(st, what, e);

	if (r == -EUCLEAN)
		s->corrupt = true;
	sqlite3_finalize(st);
	return r;
}

int store_start(struct store *s, const struct run_start *r, struct err *e)
{
	const char *const texts[] = {r->id,   r->name, r->project, r->command, r->cwd,
				     r->host, r->user, r->tags,    r->notes};
	sqlite3_stmt *st;
	size_t i;
	int code;

	code = db_prepare(s->db,
			  "INSERT INTO run(one, id, name, project, command, cwd, host, user, tags,"
			  " notes, launcher_pid, child_pid, start_ns, stall_after_ms)"
			  " VALUES(1,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)"
			  " ON CONFLICT(one) DO UPDATE SET id=?1, name=?2, project=?3, command=?4,"
			  " cwd=?5, host=?6, user=?7, tags=?8, notes=?9, launcher_pid=?10,"
			  " child_pid=?11, start_ns=?12, stall_after_ms=?13",
			  e, &st);
	if (code < 0)
		return code;
	for (i = 0; i < ARRAY_LEN(texts); i++)
		sqlite3_bind_text(st, (int)i + 1, texts[i], -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 10, r->launcher_pid);
	sqlite3_bind_int64(st, 11, r->child_pid);
	sqlite3_bind_int64(st, 12, r->start_ns);
	sqlite3_bind_int64(st, 13, r->stall_after_ms);
	return runinfo_run(s, st, "writing the run", e);
}

int store_end(struct store *s, const struct run_outcome *o, struct err *e)
{
	size_t len =
		o->stderr_len < sizeof(o->stderr_tail) ? o->stderr_len : sizeof(o->stderr_tail);
	sqlite3_stmt *st;
	int code;

	code = db_prepare(
		s->db,
		"INSERT INTO run(one, id, end_ns, outcome, code, signal, core, user_s,"
		" system_s, max_rss, evidence, stderr_tail)"
		" VALUES(1,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"
		" ON CONFLICT(one) DO UPDATE SET end_ns=?2, outcome=?3, code=?4, signal=?5,"
		" core=?6, user_s=?7, system_s=?8, max_rss=?9, evidence=?10,"
		" stderr_tail=?11",
		e, &st);
	if (code < 0)
		return code;
	sqlite3_bind_text(st, 1, o->id, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, o->end_ns);
	sqlite3_bind_int(st, 3, (int)o->kind);
	sqlite3_bind_int(st, 4, o->code);
	sqlite3_bind_int(st, 5, o->signal);
	sqlite3_bind_int(st, 6, o->core);
	sqlite3_bind_double(st, 7, o->user_s);
	sqlite3_bind_double(st, 8, o->system_s);
	sqlite3_bind_int64(st, 9, o->max_rss);
	sqlite3_bind_text(st, 10, o->evidence, -1, SQLITE_STATIC);
	sqlite3_bind_blob(st, 11, len ? o->stderr_tail : "", (int)len, SQLITE_STATIC);
	return runinfo_run(s, st, "writing the run's end", e);
}

/* ---- reading ---------------------------------------------------------------------- */

enum runinfo_text {
	RUNINFO_ID,
	RUNINFO_NAME,
	RUNINFO_PROJECT,
	RUNINFO_COMMAND,
	RUNINFO_CWD,
	RUNINFO_USER,
	RUNINFO_TAGS,
	RUNINFO_NOTES,
	RUNINFO_EVIDENCE,
	RUNINFO_STDERR,
	RUNINFO_HOSTS,
	RUNINFO_TEXTS
};
_Static_assert(RUNINFO_TEXTS <= ARRAY_LEN(((struct store_reader *)0)->run_text), "room");

/* The hosts' outcomes in order of precedence: a larger number is shown first. */
static int runinfo_weight(enum run_outcome_kind kind, int code)
{
	static const int weights[] = {
		[RUN_RUNNING] = 6, [RUN_OOM] = 5,    [RUN_SIGNALED] = 4, [RUN_HUNG] = 3,
		[RUN_LOST] = 1,    [RUN_EXITED] = 0, [RUN_DETACHED] = 1,
	};

	if (kind == RUN_EXITED && code != 0)
		return 2;
	return weights[kind];
}

static void runinfo_set(struct store_reader *r, enum runinfo_text which, sqlite3_stmt *st, int at)
{
	const char *s = db_text(st, at);
	size_t i, n = (size_t)sqlite3_column_bytes(st, at);
	char *copy = xstrndup(s, n);

	for (i = 0; i < n; i++)
		if (copy[i] == '\0')
			copy[i] = '?';
	free(r->run_text[which]);
	r->run_text[which] = copy;
}

static double runinfo_seconds(sqlite3_stmt *st, int at)
{
	return sqlite3_column_type(st, at) == SQLITE_NULL ? NAN : sqlite3_column_double(st, at);
}

/* Of several ends the one with more weight; running until all have ended. */
static void runinfo_merge_end(struct store_reader *r, sqlite3_stmt *st, bool first,
			      struct store_run *out)
{
	int kind = sqlite3_column_int(st, 10), code = sqlite3_column_int(st, 11);
	int64_t end = sqlite3_column_int64(st, 9), rss = sqlite3_column_int64(st, 16);

	if (kind < RUN_RUNNING || kind >= RUN_KINDS)
		kind = RUN_RUNNING;
	if (first || runinfo_weight((enum run_outcome_kind)kind, code) >
			     runinfo_weight(out->outcome, out->code)) {
		out->outcome = (enum run_outcome_kind)kind;
		out->code = code;
		out->signal = sqlite3_column_int(st, 12);
		out->core = sqlite3_column_int(st, 13);
		runinfo_set(r, RUNINFO_EVIDENCE, st, 17);
		runinfo_set(r, RUNINFO_STDERR, st, 18);
	}
	if (first || (out->end_ns && (end == 0 || end > out->end_ns)))
		out->end_ns = end;
	out->user_s += runinfo_seconds(st, 14);
	out->system_s += runinfo_seconds(st, 15);
	if (rss > out->max_rss)
		out->max_rss = rss;
}

static void runinfo_merge(struct store_reader *r, sqlite3_stmt *st, bool first,
			  struct store_run *out)
{
	int64_t start = sqlite3_column_int64(st, 8);
	int i;

	for (i = RUNINFO_ID; first && i <= RUNINFO_NOTES; i++)
		runinfo_set(r, (enum runinfo_text)i, st, i);
	if (first || (start && start < out->start_ns))
		out->start_ns = start;
	runinfo_merge_end(r, st, first, out);
}

static int runinfo_host(struct store_reader *r, struct hosts_one *h, bool *first,
			struct store_run *out, struct err *e)
{
	sqlite3_stmt *st;
	int rc, code;

	code = db_prepare(
		h->db,
		"SELECT id, name, project, command, cwd, user, tags, notes, start_ns, end_ns,"
		" outcome, code, signal, core, user_s, system_s, max_rss, evidence,"
		" stderr_tail FROM run",
		e, &st);
	if (code < 0)
		return code;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		runinfo_merge(r, st, *first, out);
		*first = false;
	} else if (rc != SQLITE_DONE) {
		code = db_fail(h->db, rc, "reading table run", e);
	}
	sqlite3_finalize(st);
	return code;
}

static void runinfo_hosts(struct store_reader *r)
{
	struct buf b;
	size_t i;

	buf_init(&b, HOSTS_MAX * 256);
	for (i = 0; i < r->n_hosts; i++)
		buf_printf(&b, "%s%s", i ? "," : "", r->hosts[i].name);
	free(r->run_text[RUNINFO_HOSTS]);
	r->run_text[RUNINFO_HOSTS] = xstrdup(buf_str(&b));
	buf_done(&b);
}

static void runinfo_edit_one(struct store_reader *r, enum runinfo_text which, bool has,
			     const char *text)
{
	if (!has)
		return;
	free(r->run_text[which]);
	r->run_text[which] = xstrdup(text);
}

/* What was changed afterwards goes before what was recorded. */
static void runinfo_edit(struct store_reader *r)
{
	struct run_edit *edit = xcalloc(1, sizeof(*edit));
	struct err e = {0};
	int code = store_edit_load(r->hosts[0].dir, &e, edit);

	if (code == 0) {
		runinfo_edit_one(r, RUNINFO_NAME, edit->has_name, edit->name);
		runinfo_edit_one(r, RUNINFO_PROJECT, edit->has_project, edit->project);
		runinfo_edit_one(r, RUNINFO_TAGS, edit->has_tags, edit->tags);
		runinfo_edit_one(r, RUNINFO_NOTES, edit->has_notes, edit->notes);
	} else if (code != -ENOENT && !r->edit_is_bad) {
		buf_printf(&r->warning, "%s\n", e.text);
		r->edit_is_bad = true;
	}
	free(edit);
}

int store_reader_run(struct store_reader *r, struct store_run *out, struct err *e)
{
	struct store_run run = {.code = -1};
	bool first = true;
	int code = 0;
	size_t i;

	for (i = 0; code == 0 && i < r->n_hosts; i++) {
		struct err why = {0};

		code = runinfo_host(r, &r->hosts[i], &first, &run, &why);
		code = hosts_forgive(r, &r->hosts[i], code, &why, e);
	}
	if (code < 0)
		return code;
	for (i = 0; i < RUNINFO_TEXTS; i++)
		if (!r->run_text[i])
			r->run_text[i] = xstrdup("");
	runinfo_edit(r);
	runinfo_hosts(r);
	run.id = r->run_text[RUNINFO_ID];
	run.name = r->run_text[RUNINFO_NAME];
	run.project = r->run_text[RUNINFO_PROJECT];
	run.command = r->run_text[RUNINFO_COMMAND];
	run.cwd = r->run_text[RUNINFO_CWD];
	run.user = r->run_text[RUNINFO_USER];
	run.tags = r->run_text[RUNINFO_TAGS];
	run.notes = r->run_text[RUNINFO_NOTES];
	run.hosts = r->run_text[RUNINFO_HOSTS];
	run.evidence = r->run_text[RUNINFO_EVIDENCE];
	run.stderr_tail = r->run_text[RUNINFO_STDERR];
	*out = run;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * salvage.c - rows of a damaged database into a new one. A walk goes on behind
 * what cannot be read: it looks for the next key whose page can be.
 */
#include "store/salvage.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SALVAGE_PROBES (1u << 20)    /* in all, key by key: some minutes */
#define SALVAGE_WINDOW 1024          /* keys of a hole that are tried one by one, at each end */
#define SALVAGE_GAP_MAX 4096u        /* rows in a row that are made up */
#define SALVAGE_ROWS_MAX (1ll << 40) /* greatest key that is looked for */

/* ---- walking ----------------------------------------------------------------------------- */

/* Is this what a damaged page gives, rather than a machine in need? */
static bool salvage_is_hole(int rc)
{
	return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB ||
	       (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_TOOBIG;
}

/* Rows from lo up to hi or the first that cannot be read: *ret_next is behind the
 * last one read. 1: there may be more behind a hole. */
static int salvage_run_of(struct salvage *w, int64_t lo, int64_t hi, salvage_fn fn,
			  int64_t *ret_next)
{
	int rc, r = 0;

	*ret_next = lo;
	sqlite3_bind_int64(w->in, 1, lo);
	sqlite3_bind_int64(w->in, 2, hi);
	while (r == 0 && (rc = sqlite3_step(w->in)) == SQLITE_ROW) {
		int64_t key = sqlite3_column_int64(w->in, w->key);

		if (key < *ret_next || key > hi) { /* no order: a damaged page */
			rc = SQLITE_CORRUPT;
			break;
		}
		r = fn(w, w->in);
		*ret_next = key + 1;
	}
	sqlite3_reset(w->in);
	if (r || rc == SQLITE_DONE)
		return r;
	if (!salvage_is_hole(rc))
		return db_fail(w->from, rc, "reading what is left", w->e);
	return 1;
}

/* Can the place of key x be read, be there a row or not? */
static int salvage_probe(struct salvage *w, int64_t x, int64_t hi)
{
	int rc;

	w->probes++;
	sqlite3_bind_int64(w->in, 1, x);
	sqlite3_bind_int64(w->in, 2, hi);
	rc = sqlite3_step(w->in);
	sqlite3_reset(w->in);
	if (rc == SQLITE_ROW || rc == SQLITE_DONE)
		return 1;
	return salvage_is_hole(rc) ? 0 : db_fail(w->from, rc, "reading what is left", w->e);
}

/* Where it can be read again: a page covers a range of keys without a gap. hi + 1:
 * nowhere. */
static int salvage_hole_end(struct salvage *w, int64_t from, int64_t hi, int64_t *ret)
{
	int64_t step = 1, bad = from, good = hi + 1, mid;
	int r = 0;

	for (; r == 0 && step <= hi - from; step *= 2) {
		r = salvage_probe(w, from + step, hi);
		if (r == 1)
			good = from + step;
		else
			bad = from + step;
	}
	r = r < 0 ? r : 0;
	while (r == 0 && good <= hi && good - bad > 1) {
		mid = bad + (good - bad) / 2;
		r = salvage_probe(w, mid, hi);
		if (r == 1)
			good = mid;
		else
			bad = mid;
		r = r < 0 ? r : 0;
	}
	*ret = good;
	return r;
}

/* Each key of a small range: ranges still to be read are on a stack, a hole halves
 * one. */
static int salvage_comb(struct salvage *w, int64_t lo, int64_t hi, salvage_fn fn)
{
	struct {
		int64_t lo, hi;
	} stack[64] = {{lo, hi}};
	size_t n = lo <= hi;
	int r = 0;

	while (r == 0 && n) {
		int64_t to = stack[--n].hi, next, mid;

		r = salvage_run_of(w, stack[n].lo, to, fn, &next);
		if (r <= 0)
			continue;
		r = 0;
		if (next >= to || ++w->probes > SALVAGE_PROBES) {
			w->lost++;
			continue;
		}
		mid = next + (to - next) / 2;
		stack[n].lo = mid + 1;
		stack[n++].hi = to;
		stack[n].lo = next;
		stack[n++].hi = mid;
	}
	return r;
}

static int salvage_ranges(struct salvage *w, int64_t lo, int64_t hi, salvage_fn fn)
{
	int64_t next, end, window, from;
	int r = 0;

	while (r == 0 && lo <= hi) {
		r = salvage_run_of(w, lo, hi, fn, &next);
		if (r <= 0)
			break;
		r = salvage_hole_end(w, next, hi, &end);
		/* There may be good pages among bad ones: look near both ends. */
		window = end > hi ? SALVAGE_WINDOW / 16 : SALVAGE_WINDOW;
		from = end - next > window ? next + window : end;
		if (r == 0)
			r = salvage_comb(w, next, from - 1, fn);
		if (r == 0 && end <= hi)
			r = salvage_comb(w, end - from > window ? end - window : from, end - 1, fn);
		w->lost++;
		lo = end;
	}
	return r;
}

int salvage_walk(struct salvage *w, const char *sql, int key, int64_t series, int64_t lo,
		 int64_t hi, salvage_fn fn)
{
	int r = db_prepare(w->from, sql, NULL, &w->in);

	w->lost = 0;
	w->key = key;
	if (r == -ENOMEM)
		return err_set(w->e, r, "%s: no memory", w->v.path);
	if (r < 0) { /* the table itself is gone */
		w->ret->rows_lost++;
		return 0;
	}
	if (series)
		sqlite3_bind_int64(w->in, 3, series);
	r = salvage_ranges(w, lo, hi, fn);
	sqlite3_finalize(w->in);
	w->in = NULL;
	return r;
}

/* ---- tables -------------------------------------------------------------------------------- */

static int salvage_step(struct salvage *w)
{
	if (++w->ret->rows % 64 || !w->to->progress)
		return 0;
	return w->to->progress(w->to->arg, w->ret->rows, 0);
}

/* Into w->out, column by column; a row that the table does not take is lost. */
static int salvage_copy(struct salvage *w, sqlite3_stmt *st)
{
	int i, rc;

	for (i = 0; i < sqlite3_bind_parameter_count(w->out); i++)
		sqlite3_bind_value(w->out, i + 1, sqlite3_column_value(st, i));
	rc = sqlite3_step(w->out);
	sqlite3_reset(w->out);
	if ((rc & 0xff) == SQLITE_CONSTRAINT) {
		w->ret->rows_lost++;
		return 0;
	}
	return rc == SQLITE_DONE ? salvage_step(w) : db_fail(w->s.db, rc, "writing a row", w->e);
}

/* Read one column, write the others: "a, b" with the key first. */
static int salvage_table(struct salvage *w, const char *table, const char *columns, int n,
			 const char *key, int64_t hi)
{
	char *read = xasprintf("SELECT %s FROM %s WHERE %s BETWEEN ?1 AND ?2 ORDER BY %s", columns,
			       table, key, key);
	struct buf sql;
	int i, r;

	buf_init(&sql, 4096);
	buf_printf(&sql, "INSERT OR FAIL INTO %s(%s) VALUES(", table, columns);
	for (i = 1; i <= n; i++)
		buf_printf(&sql, "?%d%s", i, i < n ? "," : ")");
	r = db_prepare(w->s.db, buf_str(&sql), w->e, &w->out);
	buf_done(&sql);
	if (r == 0)
		r = salvage_walk(w, read, 0, 0, 0, hi, salvage_copy);
	w->ret->rows_lost += w->lost;
	sqlite3_finalize(w->out);
	w->out = NULL;
	free(read);
	return r;
}

/* Without a key of its own by which a range can be halved: forwards until it cannot
 * be read, then backwards. */
static int salvage_both_ways(struct salvage *w, const char *read, const char *write)
{
	static const char *const ways[] = {"", " DESC"};
	int rc = SQLITE_DONE, r = db_prepare(w->s.db, write, w->e, &w->out);
	size_t i;

	for (i = 0; r == 0 && i < ARRAY_LEN(ways); i++) {
		char *sql = xasprintf("%s%s", read, ways[i]);

		if (db_prepare(w->from, sql, NULL, &w->in) < 0)
			rc = SQLITE_CORRUPT;
		else
			while (r == 0 && (rc = sqlite3_step(w->in)) == SQLITE_ROW)
				r = salvage_copy(w, w->in);
		sqlite3_finalize(w->in);
		w->in = NULL;
		free(sql);
		if (rc == SQLITE_DONE)
			break;
		w->ret->rows_lost += i == 0;
	}
	sqlite3_finalize(w->out);
	w->out = NULL;
	return r;
}

/* ---- what others refer to ------------------------------------------------------------------- */

/* Processes and series are numbered without gaps: rows that are lost are made up, so
 * that what refers to them is not. */
static int salvage_fill(struct salvage *w, const char *holes, const char *write)
{
	sqlite3_stmt *in, *out = NULL;
	int64_t from, to;
	int rc = SQLITE_DONE, r = db_prepare(w->s.db, holes, w->e, &in);

	if (r == 0)
		r = db_prepare(w->s.db, write, w->e, &out);
	while (r == 0 && (rc = sqlite3_step(in)) == SQLITE_ROW) {
		from = sqlite3_column_int64(in, 0);
		to = sqlite3_column_int64(in, 1);
		for (; r == 0 && from < to; from++) {
			sqlite3_bind_int64(out, 1, from);
			r = db_run(out, "writing a row", w->e);
			w->ret->rows_lost++;
		}
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(w->s.db, rc, "looking for gaps", w->e);
	sqlite3_finalize(in);
	sqlite3_finalize(out);
	return r;
}

/* Rows behind a gap that is too long to be one: their number is what is damaged. */
static int salvage_cut(struct salvage *w, const char *table)
{
	char *sql = xasprintf("DELETE FROM %s WHERE id < 1 OR id >= (SELECT min(id) FROM (SELECT"
			      " id, id - lag(id, 1, 0) OVER (ORDER BY id) AS gap FROM %s) WHERE"
			      " gap > %u)",
			      table, table, SALVAGE_GAP_MAX);
	int r = db_exec(w->s.db, sql, w->e);

	w->ret->rows_lost += r == 0 ? (uint64_t)sqlite3_changes(w->s.db) : 0;
	free(sql);
	return r;
}

/* Greatest series that a chunk names; 0: cannot be read. */
static int64_t salvage_series_of_chunks(const struct salvage *w)
{
	int64_t id = 0, last = 0;

	if (db_int(w->from, "SELECT max(series) FROM chunk", NULL, &id) < 0 ||
	    db_int(w->s.db, "SELECT max(id) FROM series", NULL, &last) < 0 || id < 0 ||
	    id > CATALOG_SERIES_MAX || id > last + SALVAGE_GAP_MAX)
		return 0;
	return id;
}

static int salvage_references(struct salvage *w)
{
	char *series, *holes;
	int r = salvage_cut(w, "process");

	if (r == 0)
		r = salvage_cut(w, "series");
	holes = xasprintf("SELECT lag(id, 1, 0) OVER (ORDER BY id) + 1, id FROM (SELECT id FROM"
			  " series UNION SELECT %lld + 1)",
			  (long long)salvage_series_of_chunks(w));
	/* Its kind is that of the points, which are not known yet: set when they are. */
	series = xasprintf("INSERT INTO series(id, seq, process, name, labels, unit, help, kind,"
			   " source) VALUES(?1, 0, 1, 'lost/' || ?1, '', '', 'its definition was"
			   " lost', %d, 'repair')",
			   SINK_GAUGE);
	if (r == 0)
		r = salvage_fill(w, holes, series);
	if (r == 0)
		r = salvage_fill(w,
				 "SELECT lag(id, 1, 0) OVER (ORDER BY id) + 1, id FROM (SELECT id"
				 " FROM process UNION SELECT min(max(process), 65536) + 1 FROM"
				 " series HAVING max(process) > 0)",
				 "INSERT INTO process VALUES(?1, 0, cast(printf('lost-%011d', ?1)"
				 " AS BLOB), 0, 0, 0, 'lost', '', -1, -1, -1, 0, 0, 0, 0)");
	if (r == 0)
		r = db_exec(w->s.db,
			    "UPDATE series SET process = 1 WHERE process NOT IN (SELECT id FROM"
			    " process)",
			    w->e);
	free(series);
	free(holes);
	return r;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static int salvage_tables(struct salvage *w)
{
	int r = salvage_table(w, "run",
			      "one, id, name, project, command, cwd, host, user, tags, notes,"
			      " launcher_pid, child_pid, start_ns, stall_after_ms, end_ns, outcome,"
			      " code, signal, core, user_s, system_s, max_rss, evidence,"
			      " stderr_tail",
			      24, "one", 1);

	if (r == 0)
		r = salvage_table(w, "process",
				  "id, seq, uid, pid, ppid, start_time, role, program, rank,"
				  " local_rank, world_size, start_ns, end_ns, dropped, refused",
				  15, "id", CATALOG_PROCESSES_MAX);
	if (r == 0)
		r = salvage_table(w, "series",
				  "id, seq, process, name, labels, unit, help, kind, source", 9,
				  "id", CATALOG_SERIES_MAX);
	if (r == 0)
		r = salvage_table(w, "event",
				  "id, seq, process, time_ns, step, severity, kind, text, attrs", 9,
				  "id", SALVAGE_ROWS_MAX);
	if (r == 0)
		r = salvage_both_ways(w,
				      "SELECT process, key, seq, value FROM attr ORDER BY"
				      " process, key",
				      "INSERT OR IGNORE INTO attr(process, key, seq, value)"
				      " VALUES(?1,?2,?3,?4)");
	if (r == 0)
		r = salvage_both_ways(w,
				      "SELECT ring, lane, process, seq, pos, rec, stored,"
				      " overwritten, broken, dropped FROM lane WHERE length(ring) ="
				      " 16 ORDER BY ring",
				      "INSERT OR IGNORE INTO lane(ring, lane, process, seq, pos,"
				      " rec, stored, overwritten, broken, dropped)"
				      " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)");
	return r < 0 ? r : salvage_references(w);
}

/* A row of process whose uid is no uid, a series of no kind: the writer would refuse
 * the file. */
static int salvage_values(struct salvage *w)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
		 "UPDATE OR IGNORE process SET uid = cast(printf('lost-%%011d', id) AS BLOB)"
		 " WHERE typeof(uid) <> 'blob' OR length(uid) <> 16;"
		 "UPDATE series SET kind = %d WHERE kind NOT BETWEEN %d AND %d",
		 SINK_GAUGE, SINK_GAUGE, SINK_SPAN);
	return db_exec(w->s.db, sql, w->e);
}

static int salvage_meta(struct salvage *w, int64_t ret[META_N])
{
	int64_t last = 0;
	struct err e = {0};

	memset(ret, 0, META_N * sizeof(*ret));
	if (store_meta_read(w->from, &e, ret) < 0)
		memset(ret, 0, META_N * sizeof(*ret));
	/* Numbers of rows must never come again. */
	if (db_int(w->from, "SELECT max(id) FROM axis", NULL, &last) == 0 && last > ret[META_AXIS])
		ret[META_AXIS] = last;
	if (db_int(w->from, "SELECT max(id) FROM pack", NULL, &last) == 0 && last > ret[META_PACK])
		ret[META_PACK] = last;
	if (ret[META_AXIS] > SALVAGE_ROWS_MAX || ret[META_PACK] > SALVAGE_ROWS_MAX)
		ret[META_AXIS] = ret[META_PACK] = 0; /* of the new file: all are new */
	return 0;
}

static int salvage_all(struct salvage *w)
{
	int r = salvage_tables(w);

	if (r == 0)
		r = salvage_values(w);
	if (r == 0)
		r = salvage_meta(w, w->meta);
	if (r == 0)
		r = store_prepare(&w->s, w->e);
	if (r == 0)
		r = salvage_chunks(w);
	if (r == 0)
		r = salvage_tail(w);
	w->meta[META_FOLDS]++;
	if (r == 0)
		r = store_meta_write(&w->s, w->meta, w->e);
	store_unprepare(&w->s);
	return r;
}

int salvage_run(sqlite3 *from, const char *from_path, sqlite3 *to, const char *path,
		const struct store_checker *c, struct err *e, struct store_repaired *ret)
{
	struct err one = {0};
	struct salvage w = {.from = from, .e = e, .to = c, .ret = ret};
	int r;

	w.s.db = to;
	w.s.path = (char *)path;
	w.v = (struct verify){.path = from_path, .db = from, .e = &one, .to = c};
	catalog_init(&w.s.catalog);
	blob_codec_init(&w.s.codec);
	column_codec_init(&w.s.columns);
	blob_codec_init(&w.v.codec);
	column_codec_init(&w.v.columns);
	build_init(&w.build, path, &w.s.columns, e);
	r = db_exec(to, "BEGIN IMMEDIATE", e);
	if (r == 0)
		r = salvage_all(&w);
	if (r == 0)
		r = db_exec(to, "COMMIT", e);
	build_done(&w.build);
	points_done(&w.points);
	hists_done(&w.hists);
	points_done(&w.v.points);
	hists_done(&w.v.hists);
	axis_done(&w.v.axis);
	free(w.v.kinds);
	column_codec_done(&w.v.columns);
	blob_codec_done(&w.v.codec);
	column_codec_done(&w.s.columns);
	blob_codec_done(&w.s.codec);
	catalog_done(&w.s.catalog);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * lists.c - reading the tables that are lists: processes, series, events,
 * attributes. Rows are taken by id, so that a slow caller does not hold a
 * transaction: it is ended and begun again behind the last row.
 */
#include "base/mem.h"
#include "store/read_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One row to the caller. 0, what the caller's fn returned, or -errno. */
typedef int (*lists_row_fn)(void *arg, struct hosts_one *h, unsigned host, sqlite3_stmt *st,
			    struct err *e);

/* Which rows of a table: ids above `after`, of commits (above, upto]. */
struct lists_bounds {
	int64_t after, above, upto;
};
static const struct lists_bounds lists_all = {INT64_MIN, INT64_MIN, INT64_MAX};

/* Call row for all rows of a statement whose ?1, ?2 and ?3 are the bounds and
 * whose first column is the id. */
static int lists_walk(struct hosts_one *h, unsigned host, const char *sql,
		      const struct lists_bounds *bounds, lists_row_fn row, void *arg, struct err *e)
{
	int64_t after = bounds->after, until;
	sqlite3_stmt *st;
	int rc, r = db_prepare(h->db, sql, e, &st);

	if (r < 0)
		return r;
	do {
		until = store_mono_ns() + HOSTS_HOLD_NS;
		sqlite3_bind_int64(st, 1, after);
		sqlite3_bind_int64(st, 2, bounds->above);
		sqlite3_bind_int64(st, 3, bounds->upto);
		while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
			after = sqlite3_column_int64(st, 0);
			r = row(arg, h, host, st, e);
			if (r != 0 || store_mono_ns() > until)
				break;
		}
		if (r == 0 && rc != SQLITE_ROW && rc != SQLITE_DONE)
			r = db_fail(h->db, rc, "reading a table", e);
		sqlite3_reset(st);
	} while (r == 0 && rc == SQLITE_ROW);
	sqlite3_finalize(st);
	return r;
}

/* ---- processes ---------------------------------------------------------------- */

struct lists_processes {
	int (*fn)(void *arg, const struct store_process *p);
	void *arg;
	struct map lanes; /* ring and lane to index of positions */
	struct map sums;  /* process to index of its first lane in positions, which
			     holds the sums of all its lanes once all are loaded */
	struct sink_position *positions;
	size_t n, cap;
};

static void lists_put_lane(struct lists_processes *l, const struct sink_position *p)
{
	unsigned char key[20];
	uint64_t i;

	memcpy(key, p->ring, 16);
	memcpy(key + 16, &p->lane, 4);
	if (!map_get(&l->lanes, key, sizeof(key), &i)) {
		i = l->n++;
		l->positions = xgrow(l->positions, i, &l->cap, sizeof(*l->positions));
		map_put(&l->lanes, key, sizeof(key), i);
	} else if (p->rec < l->positions[i].rec || p->dropped < l->positions[i].dropped) {
		return; /* older than what is known */
	}
	l->positions[i] = *p;
}

static int lists_folded_lanes(struct lists_processes *l, struct hosts_one *h, struct err *e)
{
	struct sink_position p = {0};
	sqlite3_stmt *st;
	int rc, r;

	r = db_prepare(h->db,
		       "SELECT ring, lane, stored, overwritten, broken, dropped, process, rec"
		       " FROM lane",
		       e, &st);
	if (r < 0)
		return r;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		if (sqlite3_column_bytes(st, 0) != 16)
			continue;
		memcpy(p.ring, sqlite3_column_blob(st, 0), 16);
		p.lane = (uint32_t)sqlite3_column_int64(st, 1);
		p.stored = (uint64_t)sqlite3_column_int64(st, 2);
		p.overwritten = (uint64_t)sqlite3_column_int64(st, 3);
		p.broken = (uint64_t)sqlite3_column_int64(st, 4);
		p.dropped = (uint64_t)sqlite3_column_int64(st, 5);
		p.process = (uint32_t)sqlite3_column_int64(st, 6);
		p.rec = (uint64_t)sqlite3_column_int64(st, 7);
		lists_put_lane(l, &p);
	}
	if (rc != SQLITE_DONE)
		r = db_fail(h->db, rc, "reading table lane", e);
	sqlite3_finalize(st);
	return r;
}

static int lists_tail_lanes(struct lists_processes *l, struct hosts_one *h, struct err *e)
{
	struct sink_position p;
	struct tail_walk w;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < h->n_tail; i++) {
		const struct blob_id id = {h->path, "tail", h->tail[i].seq, 0};

		if (h->tail[i].blob.format == BLOB_MERGED)
			continue; /* its positions are in the table */
		r = tail_begin(&w, &id, &h->tail[i].blob, e);
		while (r == 0 && (r = tail_position(&w, &p)) > 0) {
			lists_put_lane(l, &p);
			r = 0;
		}
	}
	return r;
}

static void lists_sum(struct lists_processes *l)
{
	struct sink_position *sum;
	uint64_t first;
	size_t i;

	map_done(&l->sums);
	for (i = 0; i < l->n; i++) {
		uint32_t process = l->positions[i].process;

		if (!map_get(&l->sums, &process, sizeof(process), &first)) {
			map_put(&l->sums, &process, sizeof(process), i);
			continue;
		}
		sum = &l->positions[first];
		sum->stored += l->positions[i].stored;
		sum->overwritten += l->positions[i].overwritten;
		sum->broken += l->positions[i].broken;
		sum->dropped += l->positions[i].dropped;
	}
}

static int lists_load_lanes(struct lists_processes *l, struct store_reader *rd, struct hosts_one *h,
			    bool sync, struct err *e)
{
	int r;

	map_done(&l->lanes);
	l->n = 0;
	r = hosts_begin(h, e);
	if (r == 0)
		r = lists_folded_lanes(l, h, e);
	if (r == 0 && sync)
		r = hosts_sync_tail(rd, h, e);
	hosts_end(h);
	if (r == 0)
		r = lists_tail_lanes(l, h, e);
	if (r == 0)
		lists_sum(l);
	return r;
}

static int lists_process(void *arg, struct hosts_one *h, unsigned host, sqlite3_stmt *st,
			 struct err *e)
{
	const struct lists_processes *l = arg;
	struct store_process p = {.host = host, .host_name = h->name};
	uint64_t i;

	(void)e;
	p.id = (uint32_t)sqlite3_column_int64(st, 0);
	p.pid = sqlite3_column_int64(st, 1);
	p.ppid = sqlite3_column_int64(st, 2);
	p.role = db_text(st, 3);
	p.program = db_text(st, 4);
	p.rank = sqlite3_column_int64(st, 5);
	p.local_rank = sqlite3_column_int64(st, 6);
	p.world_size = sqlite3_column_int64(st, 7);
	p.start_ns = sqlite3_column_int64(st, 8);
	p.end_ns = sqlite3_column_int64(st, 9);
	p.dropped = (uint64_t)sqlite3_column_int64(st, 10);
	p.refused = (uint64_t)sqlite3_column_int64(st, 11);
	if (map_get(&l->sums, &p.id, sizeof(p.id), &i)) {
		p.stored = l->positions[i].stored;
		p.overwritten = l->positions[i].overwritten;
		p.broken = l->positions[i].broken;
		p.dropped += l->positions[i].dropped;
	}
	return l->fn(l->arg, &p);
}

static int lists_host_processes(struct store_reader *r, unsigned host,
				const struct lists_bounds *bounds, bool sync,
				int (*fn)(void *arg, const struct store_process *p), void *arg,
				struct err *e)
{
	struct lists_processes l = {.fn = fn, .arg = arg};
	struct hosts_one *h = &r->hosts[host];
	struct err why = {0};
	int code;

	map_init(&l.lanes);
	map_init(&l.sums);
	code = lists_load_lanes(&l, r, h, sync, &why);
	if (sync) /* the processes are there without their counts */
		code = hosts_forgive(r, h, code, &why, e);
	else if (code < 0)
		err_set(e, code, "%s", why.text);
	if (code == 0)
		code = lists_walk(h, host,
				  "SELECT id, pid, ppid, role, program, rank, local_rank,"
				  " world_size, start_ns, end_ns, dropped, refused FROM process"
				  " WHERE id > ?1 AND seq > ?2 ORDER BY id",
				  bounds, lists_process, &l, e);
	map_done(&l.lanes);
	map_done(&l.sums);
	free(l.positions);
	return code;
}

int store_reader_processes(struct store_reader *r,
			   int (*fn)(void *arg, const struct store_process *p), void *arg,
			   struct err *e)
{
	int code = 0;
	size_t i;

	for (i = 0; code == 0 && i < r->n_hosts; i++) {
		struct err why = {0};

		code = lists_host_processes(r, (unsigned)i, &lists_all, true, fn, arg, &why);
		code = hosts_forgive(r, &r->hosts[i], code, &why, e);
	}
	return code;
}

int lists_new_processes(struct store_reader *r, unsigned host, uint64_t seq,
			int (*fn)(void *arg, const struct store_process *p), void *arg,
			struct err *e)
{
	const struct lists_bounds bounds = {INT64_MIN, (int64_t)seq, INT64_MAX};
	int64_t newest = 0;
	int code = db_int(r->hosts[host].db, "SELECT ifnull(max(seq), 0) FROM process", e, &newest);

	if (code < 0 || newest <= (int64_t)seq)
		return code;
	return lists_host_processes(r, host, &bounds, false, fn, arg, e);
}

/* ---- series --------------------------------------------------------------------- */

/* Points of a series: all, and those that retention dropped. */
struct lists_counts {
	uint64_t all, lost;
};

struct lists_series {
	int (*fn)(void *arg, const struct store_series *s);
	void *arg;
	struct lists_counts *counts; /* id - 1 */
	size_t n;
};

static void lists_count(struct lists_series *l, int64_t id, uint64_t count, uint64_t lost)
{
	size_t n = l->n ? l->n : 256;

	if (id < 1 || id > CATALOG_SERIES_MAX)
		return;
	while (n < (size_t)id)
		n *= 2;
	if (n > l->n) {
		l->counts = xrealloc(l->counts, n, sizeof(*l->counts));
		memset(l->counts + l->n, 0, (n - l->n) * sizeof(*l->counts));
		l->n = n;
	}
	l->counts[id - 1].all += count;
	l->counts[id - 1].lost += lost;
}

static int lists_folded_counts(struct lists_series *l, struct hosts_one *h, struct err *e)
{
	sqlite3_stmt *st;
	int rc, r;

	/* start + n of the last chunk, and start of the first: what came before is gone. */
	r = db_prepare(h->db,
		       "SELECT series, start + n, (SELECT f.start FROM chunk f"
		       " WHERE f.series = c.series ORDER BY f.ordinal LIMIT 1) FROM"
		       " (SELECT series, max(ordinal), start, n FROM chunk GROUP BY series) c",
		       e, &st);
	if (r < 0)
		return r;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		lists_count(l, sqlite3_column_int64(st, 0), (uint64_t)sqlite3_column_int64(st, 1),
			    (uint64_t)sqlite3_column_int64(st, 2));
	if (rc != SQLITE_DONE)
		r = db_fail(h->db, rc, "reading table chunk", e);
	sqlite3_finalize(st);
	return r;
}

static int lists_row_counts(struct lists_series *l, const struct hosts_one *h,
			    const struct hosts_tail *row, struct err *e)
{
	const struct blob_id id = {h->path, "tail", row->seq, 0};
	struct merged_entry x;
	struct tail_block block;
	struct tail_walk w;
	struct merged m;
	int r;

	if (row->blob.format != BLOB_MERGED) {
		r = tail_begin(&w, &id, &row->blob, e);
		while (r == 0 && (r = tail_block(&w, &block)) > 0) {
			lists_count(l, block.series, block.n, 0);
			r = 0;
		}
		return r;
	}
	r = merged_begin(&m, &id, &row->blob, e);
	if (r < 0)
		return r;
	while (r == 0 && (r = merged_next(&m, &x)) > 0) {
		lists_count(l, x.series, x.n, 0);
		r = 0;
	}
	merged_done(&m);
	return r;
}

static int lists_load_counts(struct lists_series *l, struct store_reader *rd, struct hosts_one *h,
			     struct err *e)
{
	size_t i;
	int r = hosts_begin(h, e);

	if (l->n)
		memset(l->counts, 0, l->n * sizeof(*l->counts));
	if (r == 0)
		r = lists_folded_counts(l, h, e);
	if (r == 0)
		r = hosts_sync_tail(rd, h, e);
	hosts_end(h);
	for (i = 0; r == 0 && i < h->n_tail; i++)
		r = lists_row_counts(l, h, &h->tail[i], e);
	return r;
}

static int lists_one_series(void *arg, struct hosts_one *h, unsigned host, sqlite3_stmt *st,
			    struct err *e)
{
	const struct lists_series *l = arg;
	struct store_series s = {.host = host, .host_name = h->name};

	(void)e;
	s.id = (uint32_t)sqlite3_column_int64(st, 0);
	s.process = (uint32_t)sqlite3_column_int64(st, 1);
	s.name = db_text(st, 2);
	s.labels = db_text(st, 3);
	s.unit = db_text(st, 4);
	s.help = db_text(st, 5);
	s.kind = (enum sink_kind)sqlite3_column_int(st, 6);
	s.source = db_text(st, 7);
	s.rank = sqlite3_column_type(st, 8) == SQLITE_NULL ? -1 : sqlite3_column_int64(st, 8);
	s.role = db_text(st, 9);
	s.began_ns = sqlite3_column_int64(st, 10);
	if (s.id && s.id <= l->n) {
		s.count = l->counts[s.id - 1].all;
		s.lost = l->counts[s.id - 1].lost;
	}
	return l->fn(l->arg, &s);
}

static int lists_host_series(struct store_reader *r, unsigned host,
			     const struct lists_bounds *bounds, struct lists_series *l,
			     struct err *e)
{
	return lists_walk(&r->hosts[host], host,
			  "SELECT s.id, s.process, s.name, s.labels, s.unit, s.help,"
			  " s.kind, s.source, p.rank, p.role, p.start_ns FROM series s"
			  " LEFT JOIN process p ON p.id = s.process"
			  " WHERE s.id > ?1 AND s.seq > ?2 AND s.seq <= ?3 ORDER BY s.id",
			  bounds, lists_one_series, l, e);
}

struct store_standing store_standing(const struct store_series *s)
{
	return (struct store_standing){s->labels[0] != '\0', s->rank, s->began_ns};
}

bool store_standing_is_before(struct store_standing a, struct store_standing b)
{
	if (a.has_labels != b.has_labels)
		return b.has_labels;
	if (a.rank != b.rank)
		return (uint64_t)a.rank < (uint64_t)b.rank;
	return a.began_ns > b.began_ns;
}

bool store_series_is_before(const struct store_series *a, const struct store_series *b)
{
	return store_standing_is_before(store_standing(a), store_standing(b));
}

int store_reader_series(struct store_reader *r, int (*fn)(void *arg, const struct store_series *s),
			void *arg, struct err *e)
{
	struct lists_series l = {.fn = fn, .arg = arg};
	int code = 0;
	size_t i;

	for (i = 0; code == 0 && i < r->n_hosts; i++) {
		struct err why = {0};

		/* The series are there without their counts. */
		code = lists_load_counts(&l, r, &r->hosts[i], &why);
		code = hosts_forgive(r, &r->hosts[i], code, &why, e);
		if (code < 0)
			break;
		err_clear(&why);
		code = lists_host_series(r, (unsigned)i, &lists_all, &l, &why);
		code = hosts_forgive(r, &r->hosts[i], code, &why, e);
	}
	free(l.counts);
	return code;
}

int lists_new_series(struct store_reader *r, unsigned host, uint32_t after, uint64_t seq,
		     int (*fn)(void *arg, const struct store_series *s), void *arg, struct err *e)
{
	const struct lists_bounds bounds = {after, INT64_MIN, (int64_t)seq};
	struct lists_series l = {.fn = fn, .arg = arg};

	return lists_host_series(r, host, &bounds, &l, e);
}

/* ---- events and attributes ---------------------------------------------------------- */

struct lists_events {
	int (*fn)(void *arg, const struct store_event *e);
	void *arg;
};

static int lists_event(void *arg, struct hosts_one *h, unsigned host, sqlite3_stmt *st,
		       struct err *e)
{
	const struct lists_events *l = arg;
	struct store_event ev = {.host = host};

	(void)h;
	(void)e;
	ev.seq = (uint64_t)sqlite3_column_int64(st, 1);
	ev.process = (uint32_t)sqlite3_column_int64(st, 2);
	ev.time_ns = sqlite3_column_int64(st, 3);
	ev.step = sqlite3_column_type(st, 4) == SQLITE_NULL ? SINK_STEP_NONE
							    : sqlite3_column_int64(st, 4);
	ev.severity = sqlite3_column_int(st, 5);
	ev.kind = db_text(st, 6);
	ev.text = db_text(st, 7);
	ev.attrs = db_text(st, 8);
	return l->fn(l->arg, &ev);
}

static int lists_host_events(struct store_reader *r, unsigned host,
			     const struct lists_bounds *bounds, struct lists_events *l,
			     struct err *e)
{
	return lists_walk(&r->hosts[host], host,
			  "SELECT id, seq, process, time_ns, step, severity, kind, text, attrs"
			  " FROM event WHERE id > ?1 AND seq > ?2 AND seq <= ?3 ORDER BY id",
			  bounds, lists_event, l, e);
}

int store_reader_events(struct store_reader *r, int (*fn)(void *arg, const struct store_event *e),
			void *arg, struct err *e)
{
	struct lists_events l = {fn, arg};
	int code = 0, first = 0;
	size_t i;

	/* A damaged file does not hide what the others have. */
	for (i = 0; (code == 0 || code == -EUCLEAN) && i < r->n_hosts; i++) {
		code = lists_host_events(r, (unsigned)i, &lists_all, &l, e);
		first = first ? first : code;
	}
	return first;
}

/* Ids and commits of events ascend together: only the new ones are passed to
 * find where they begin. */
int lists_new_events(struct store_reader *r, unsigned host, uint64_t after, uint64_t seq,
		     int (*fn)(void *arg, const struct store_event *e), void *arg, struct err *e)
{
	struct lists_bounds bounds = {INT64_MIN, (int64_t)after, (int64_t)seq};
	struct lists_events l = {fn, arg};
	sqlite3 *db = r->hosts[host].db;
	sqlite3_stmt *st;
	int rc, code;

	if (after == 0)
		return lists_host_events(r, host, &bounds, &l, e);
	code = db_prepare(db, "SELECT id FROM event WHERE seq <= ?1 ORDER BY id DESC LIMIT 1", e,
			  &st);
	if (code < 0)
		return code;
	sqlite3_bind_int64(st, 1, (int64_t)after);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		bounds.after = sqlite3_column_int64(st, 0);
	else if (rc != SQLITE_DONE)
		code = db_fail(db, rc, "reading table event", e);
	sqlite3_finalize(st);
	return code < 0 ? code : lists_host_events(r, host, &bounds, &l, e);
}

int lists_new_attrs(struct store_reader *r, unsigned host, uint64_t seq,
		    int (*fn)(void *arg, unsigned host, uint32_t process, const char *key,
			      const char *value),
		    void *arg, struct err *e)
{
	sqlite3 *db = r->hosts[host].db;
	sqlite3_stmt *st;
	int rc, code;

	code = db_prepare(
		db, "SELECT process, key, value FROM attr WHERE seq > ?1 ORDER BY process, key", e,
		&st);
	if (code < 0)
		return code;
	sqlite3_bind_int64(st, 1, (int64_t)seq);
	while (code == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		code = fn(arg, host, (uint32_t)sqlite3_column_int64(st, 0), db_text(st, 1),
			  db_text(st, 2));
	if (code == 0 && rc != SQLITE_DONE)
		code = db_fail(db, rc, "reading table attr", e);
	sqlite3_finalize(st);
	return code;
}

int store_reader_attrs(struct store_reader *r,
		       int (*fn)(void *arg, unsigned host, uint32_t process, const char *key,
				 const char *value),
		       void *arg, struct err *e)
{
	int code = 0, first = 0;
	size_t i;

	for (i = 0; (code == 0 || code == -EUCLEAN) && i < r->n_hosts; i++) {
		code = lists_new_attrs(r, (unsigned)i, 0, fn, arg, e);
		first = first ? first : code;
	}
	return first;
}

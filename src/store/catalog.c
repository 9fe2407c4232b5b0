/* SPDX-License-Identifier: Apache-2.0
 *
 * catalog.c - processes and series: found again by identity, ids handed out at
 * once, rows written with the next commit and kept pending until one succeeds.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void catalog_init(struct catalog *d)
{
	*d = (struct catalog){0};
	map_init(&d->by_uid);
	map_init(&d->by_name);
}

static void catalog_free_series(struct sink_series *d)
{
	free((char *)d->name);
	free((char *)d->labels);
	free((char *)d->unit);
	free((char *)d->help);
	free((char *)d->source);
}

static void catalog_free_pending(struct catalog *d)
{
	size_t i;

	for (i = 0; i < d->n_pending; i++)
		catalog_free_series(&d->pending[i].d);
	d->n_pending = 0;
}

void catalog_done(struct catalog *d)
{
	size_t i;

	for (i = 0; i < d->n_processes; i++) {
		free((char *)d->processes[i].p.role);
		free((char *)d->processes[i].p.program);
	}
	catalog_free_pending(d);
	free(d->processes);
	free(d->series);
	free(d->pending);
	map_done(&d->by_uid);
	map_done(&d->by_name);
	catalog_init(d);
}

static const char *catalog_str(const char *s)
{
	return s ? s : "";
}

static bool catalog_is_equal(const struct sink_process *a, const struct sink_process *b)
{
	return a->pid == b->pid && a->ppid == b->ppid && a->start_time == b->start_time &&
	       a->rank == b->rank && a->local_rank == b->local_rank &&
	       a->world_size == b->world_size && a->start_ns == b->start_ns &&
	       a->end_ns == b->end_ns && a->dropped == b->dropped && a->refused == b->refused &&
	       strcmp(a->role, catalog_str(b->role)) == 0 &&
	       strcmp(a->program, catalog_str(b->program)) == 0;
}

/* Take over *p as process number i (0-based), with copies of its strings. */
static void catalog_set_process(struct catalog *d, size_t i, const struct sink_process *p)
{
	struct sink_process *to = &d->processes[i].p;
	char *role = xstrdup(catalog_str(p->role)), *program = xstrdup(catalog_str(p->program));

	free((char *)to->role);
	free((char *)to->program);
	*to = *p;
	to->role = role;
	to->program = program;
}

static size_t catalog_new_process(struct catalog *d, const uint8_t uid[16])
{
	size_t i = d->n_processes++;

	d->processes = xgrow(d->processes, i, &d->cap_processes, sizeof(*d->processes));
	d->processes[i] = (struct catalog_process){0};
	map_put(&d->by_uid, uid, 16, i);
	return i;
}

int catalog_process(struct store *s, const struct sink_process *p, uint32_t *ret_id)
{
	struct catalog *d = &s->catalog;
	uint64_t i;

	err_clear(&s->err);
	if (strlen(catalog_str(p->role)) > CATALOG_TEXT_MAX ||
	    strlen(catalog_str(p->program)) > CATALOG_TEXT_MAX)
		return err_set(&s->err, -EINVAL,
			       "%s: a process's role or program is longer than %u", s->path,
			       CATALOG_TEXT_MAX);
	if (!map_get(&d->by_uid, p->uid, 16, &i)) {
		if (d->n_processes >= CATALOG_PROCESSES_MAX)
			return err_set(&s->err, -ENOSPC, "%s: more than %u processes", s->path,
				       CATALOG_PROCESSES_MAX);
		i = catalog_new_process(d, p->uid);
	} else if (catalog_is_equal(&d->processes[i].p, p)) {
		*ret_id = (uint32_t)i + 1;
		return 0;
	}
	catalog_set_process(d, i, p);
	d->dirty += !d->processes[i].dirty;
	d->processes[i].dirty = true;
	*ret_id = (uint32_t)i + 1;
	return 0;
}

/* Identity: process, class (scalar, histogram, span), name, labels. */
static char *catalog_key(const struct sink_series *d, size_t *ret_len)
{
	const char *name = catalog_str(d->name), *labels = catalog_str(d->labels);
	size_t n = strlen(name) + 1, m = strlen(labels);
	char *key = xcalloc(5 + n + m, 1);

	memcpy(key, &d->process, 4);
	key[4] = (char)(d->kind == SINK_COUNTER ? SINK_GAUGE : d->kind);
	memcpy(key + 5, name, n);
	memcpy(key + 5 + n, labels, m);
	*ret_len = 5 + n + m;
	return key;
}

static size_t catalog_new_series(struct catalog *d, const char *key, size_t key_len,
				 const struct sink_series *from)
{
	const char *unit = catalog_str(from->unit);
	size_t i = d->n_series++;

	d->series = xgrow(d->series, i, &d->cap_series, sizeof(*d->series));
	d->series[i] = (struct catalog_series){.kind = (uint8_t)from->kind,
					       .unit = map_hash(unit, strlen(unit))};
	map_put(&d->by_name, key, key_len, i);
	return i;
}

static void catalog_pend(struct catalog *d, size_t i, const struct sink_series *from)
{
	struct catalog_pending *p;

	d->pending = xgrow(d->pending, d->n_pending, &d->cap_pending, sizeof(*d->pending));
	p = &d->pending[d->n_pending++];
	p->id = (uint32_t)i + 1;
	p->d = *from;
	p->d.name = xstrdup(catalog_str(from->name));
	p->d.labels = xstrdup(catalog_str(from->labels));
	p->d.unit = xstrdup(catalog_str(from->unit));
	p->d.help = xstrdup(catalog_str(from->help));
	p->d.source = xstrdup(catalog_str(from->source));
}

/* The first unit and kind of a series win; say so once. */
static void catalog_conflict(struct store *s, struct catalog_series *have,
			     const struct sink_series *d)
{
	const char *unit = catalog_str(d->unit);
	char *text;

	if (have->conflict || (have->kind == d->kind && have->unit == map_hash(unit, strlen(unit))))
		return;
	text = xasprintf("%.255s%s%.255s%s was defined again as a %s in \"%.63s\"; the first unit "
			 "and kind stay",
			 d->name, *catalog_str(d->labels) ? "{" : "", catalog_str(d->labels),
			 *catalog_str(d->labels) ? "}" : "",
			 d->kind == SINK_COUNTER ? "counter" : "gauge", unit);
	have->conflict = commit_event(s, d->process, 2, "series-conflict", text) == 0;
	free(text);
}

static int catalog_check_series(struct store *s, const struct sink_series *d)
{
	const char *texts[] = {catalog_str(d->name), catalog_str(d->labels), catalog_str(d->unit),
			       catalog_str(d->help), catalog_str(d->source)};
	size_t i;

	if (d->process == 0 || d->process > s->catalog.n_processes)
		return err_set(&s->err, -EINVAL, "%s: a series names process %u, which is unknown",
			       s->path, d->process);
	if (d->kind < SINK_GAUGE || d->kind > SINK_SPAN || !*texts[0])
		return err_set(&s->err, -EINVAL, "%s: a series without name or kind", s->path);
	for (i = 0; i < ARRAY_LEN(texts); i++)
		if (strlen(texts[i]) > CATALOG_TEXT_MAX)
			return err_set(&s->err, -EINVAL,
				       "%s: series %.64s: a text is longer than %u", s->path,
				       texts[0], CATALOG_TEXT_MAX);
	return 0;
}

int catalog_series(struct store *s, const struct sink_series *d, uint32_t *ret_id)
{
	struct catalog *all = &s->catalog;
	size_t key_len;
	char *key;
	uint64_t i;
	int r;

	err_clear(&s->err);
	r = catalog_check_series(s, d);
	if (r < 0)
		return r;
	key = catalog_key(d, &key_len);
	if (map_get(&all->by_name, key, key_len, &i)) {
		catalog_conflict(s, &all->series[i], d);
	} else if (all->n_series >= CATALOG_SERIES_MAX) {
		r = err_set(&s->err, -ENOSPC, "%s: more than %u series", s->path,
			    CATALOG_SERIES_MAX);
	} else {
		i = catalog_new_series(all, key, key_len, d);
		catalog_pend(all, i, d);
	}
	free(key);
	if (r == 0)
		*ret_id = (uint32_t)i + 1;
	return r;
}

static int catalog_write_process(struct store *s, size_t i, uint64_t seq)
{
	const struct sink_process *p = &s->catalog.processes[i].p;
	sqlite3_stmt *st = s->sql[SQL_PROCESS];
	const int64_t numbers[] = {p->rank,   p->local_rank,       p->world_size,      p->start_ns,
				   p->end_ns, (int64_t)p->dropped, (int64_t)p->refused};
	size_t k;

	sqlite3_bind_int64(st, 1, (int64_t)i + 1);
	sqlite3_bind_int64(st, 2, (int64_t)seq);
	sqlite3_bind_blob(st, 3, p->uid, 16, SQLITE_STATIC);
	sqlite3_bind_int64(st, 4, p->pid);
	sqlite3_bind_int64(st, 5, p->ppid);
	sqlite3_bind_int64(st, 6, (int64_t)p->start_time);
	sqlite3_bind_text(st, 7, p->role, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 8, p->program, -1, SQLITE_STATIC);
	for (k = 0; k < ARRAY_LEN(numbers); k++)
		sqlite3_bind_int64(st, 9 + (int)k, numbers[k]);
	return db_run(st, "writing a process", &s->err);
}

static int catalog_write_series(struct store *s, const struct catalog_pending *p, uint64_t seq)
{
	sqlite3_stmt *st = s->sql[SQL_SERIES];

	sqlite3_bind_int64(st, 1, p->id);
	sqlite3_bind_int64(st, 2, (int64_t)seq);
	sqlite3_bind_int64(st, 3, p->d.process);
	sqlite3_bind_text(st, 4, p->d.name, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 5, p->d.labels, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 6, p->d.unit, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 7, p->d.help, -1, SQLITE_STATIC);
	sqlite3_bind_int(st, 8, p->d.kind);
	sqlite3_bind_text(st, 9, p->d.source, -1, SQLITE_STATIC);
	return db_run(st, "writing a series", &s->err);
}

int catalog_write(struct store *s, uint64_t seq)
{
	struct catalog *d = &s->catalog;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && d->dirty && i < d->n_processes; i++)
		if (d->processes[i].dirty)
			r = catalog_write_process(s, i, seq);
	for (i = 0; r == 0 && i < d->n_pending; i++)
		r = catalog_write_series(s, &d->pending[i], seq);
	return r;
}

void catalog_written(struct store *s)
{
	struct catalog *d = &s->catalog;
	size_t i;

	for (i = 0; d->dirty && i < d->n_processes; i++)
		d->processes[i].dirty = false;
	d->dirty = 0;
	catalog_free_pending(d);
}

static int catalog_load_processes(struct store *s, sqlite3_stmt *st, struct err *e)
{
	struct sink_process p;
	size_t i;
	int rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		i = s->catalog.n_processes;
		if (sqlite3_column_int64(st, 0) != (int64_t)i + 1 || i >= CATALOG_PROCESSES_MAX ||
		    sqlite3_column_bytes(st, 1) != 16)
			return err_set(e, -EUCLEAN, "%s: table process: row %zu is not a process",
				       s->path, i + 1);
		memcpy(p.uid, sqlite3_column_blob(st, 1), 16);
		p.pid = sqlite3_column_int64(st, 2);
		p.ppid = sqlite3_column_int64(st, 3);
		p.start_time = (uint64_t)sqlite3_column_int64(st, 4);
		p.role = db_text(st, 5);
		p.program = db_text(st, 6);
		p.rank = sqlite3_column_int64(st, 7);
		p.local_rank = sqlite3_column_int64(st, 8);
		p.world_size = sqlite3_column_int64(st, 9);
		p.start_ns = sqlite3_column_int64(st, 10);
		p.end_ns = sqlite3_column_int64(st, 11);
		p.dropped = (uint64_t)sqlite3_column_int64(st, 12);
		p.refused = (uint64_t)sqlite3_column_int64(st, 13);
		catalog_set_process(&s->catalog, catalog_new_process(&s->catalog, p.uid), &p);
	}
	return rc == SQLITE_DONE ? 0 : db_fail(s->db, rc, "reading table process", e);
}

static int catalog_load_series(struct store *s, sqlite3_stmt *st, struct err *e)
{
	struct catalog *d = &s->catalog;
	struct sink_series one = {0};
	size_t key_len;
	char *key;
	int rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		one.process = (uint32_t)sqlite3_column_int64(st, 1);
		one.name = db_text(st, 2);
		one.labels = db_text(st, 3);
		one.unit = db_text(st, 4);
		one.kind = (enum sink_kind)sqlite3_column_int(st, 5);
		if (sqlite3_column_int64(st, 0) != (int64_t)d->n_series + 1 ||
		    d->n_series >= CATALOG_SERIES_MAX || one.process == 0 ||
		    one.process > d->n_processes || one.kind < SINK_GAUGE || one.kind > SINK_SPAN)
			return err_set(e, -EUCLEAN, "%s: table series: row %zu is not a series",
				       s->path, d->n_series + 1);
		key = catalog_key(&one, &key_len);
		catalog_new_series(d, key, key_len, &one);
		free(key);
	}
	return rc == SQLITE_DONE ? 0 : db_fail(s->db, rc, "reading table series", e);
}

int catalog_load(struct store *s, struct err *e)
{
	static const char *const sql[] = {
		"SELECT id, uid, pid, ppid, start_time, role, program, rank, local_rank,"
		" world_size, start_ns, end_ns, dropped, refused FROM process ORDER BY id",
		"SELECT id, process, name, labels, unit, kind FROM series ORDER BY id"};
	sqlite3_stmt *st;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ARRAY_LEN(sql); i++) {
		r = db_prepare(s->db, sql[i], e, &st);
		if (r < 0)
			break;
		r = i == 0 ? catalog_load_processes(s, st, e) : catalog_load_series(s, st, e);
		sqlite3_finalize(st);
	}
	return r;
}

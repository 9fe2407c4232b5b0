/* SPDX-License-Identifier: Apache-2.0
 *
 * The mixed set of src/simulate in a closed file, beside the same samples as rows of
 * SQLite and in VictoriaMetrics (bench/python/victoria.py): bytes a sample all in,
 * samples taken and read a second. Rates are of CPU time, all threads of a process
 * together: what one core does.
 */
#include "bench.h"
#include "filled.h"
#include "simulate/mixed.h"
#include "store/store.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEED 1
#define START 1767323045000000000
#define ROUNDS 3
#define SAMPLES ((double)MIXED_SERIES * MIXED_POINTS)
#define BATCH 60 /* seconds of samples in a commit, ours and the peer's */
#define COMMIT_MAX (1u << 20)

static char disk[] = "/var/tmp/bench-peers-XXXXXX";
static int64_t times[MIXED_POINTS];
static double *values; /* by series */

/* What an engine is found to do with the set, over rounds. */
struct found {
	double bytes;         /* closed file, a sample */
	double packed;        /* after VACUUM; SQLite only */
	double taken[ROUNDS]; /* samples a second, till the file is closed */
	double read[ROUNDS];
};

/* ---- lapse ------------------------------------------------------------------------ */

static void commit(struct store *s)
{
	struct sink *k = store_sink(s);
	struct err e = {0};
	int r;

	if (k->ops->commit(k) < 0)
		bench_die("commit", store_error(s)->text);
	do
		r = store_fold(s, false, &e);
	while (r > 0);
	if (r < 0)
		bench_die("fold", e.text);
}

static void close_store(struct store *s)
{
	struct err e = {0};

	if (store_close(s, &e) < 0)
		bench_die("close", e.text);
}

/* Rounds of all series as time goes on. */
static void take_batches(const char *dir)
{
	uint32_t ids[MIXED_SERIES];
	struct store *s = filled_open(dir, "h", MIXED_SERIES, ids);
	struct sink_sample v[MIXED_SERIES];
	struct sink *k = store_sink(s);
	size_t i, j;

	for (i = 0; i < MIXED_POINTS; i++) {
		for (j = 0; j < MIXED_SERIES; j++)
			v[j] = (struct sink_sample){times[i], SINK_STEP_NONE,
						    values[j * MIXED_POINTS + i], ids[j], 0};
		if (k->ops->samples(k, v, MIXED_SERIES) < 0)
			bench_die("samples", store_error(s)->text);
		if ((i + 1) % BATCH == 0 || i + 1 == MIXED_POINTS)
			commit(s);
	}
	close_store(s);
}

/* An import: series after series, a million samples a commit. */
static void take_bulk(const char *dir)
{
	static struct sink_sample v[MIXED_POINTS];
	uint32_t ids[MIXED_SERIES];
	struct store *s = filled_open(dir, "h", MIXED_SERIES, ids);
	struct sink *k = store_sink(s);
	size_t i, j, n = 0;

	for (j = 0; j < MIXED_SERIES; j++) {
		for (i = 0; i < MIXED_POINTS; i++)
			v[i] = (struct sink_sample){times[i], SINK_STEP_NONE,
						    values[j * MIXED_POINTS + i], ids[j], 0};
		if (k->ops->samples(k, v, MIXED_POINTS) < 0)
			bench_die("samples", store_error(s)->text);
		n += MIXED_POINTS;
		if (n + MIXED_POINTS <= COMMIT_MAX)
			continue;
		commit(s);
		n = 0;
	}
	commit(s);
	close_store(s);
}

static int on_block(void *arg, const struct store_block *b)
{
	size_t *n = arg;

	if (memcmp(b->time_ns, times + *n % MIXED_POINTS, b->n * sizeof(*times)) != 0)
		bench_die("decode", "a time is not what was stored");
	*n += b->n;
	return 0;
}

static double decode(const char *dir)
{
	const struct store_range all = {.all_segments = true};
	struct store_reader *r;
	struct err e = {0};
	double t = bench_cpu();
	size_t n = 0;
	uint32_t i;

	if (store_reader_open(dir, &e, &r) < 0)
		bench_die("reader", e.text);
	for (i = 1; i <= MIXED_SERIES; i++)
		if (store_reader_blocks(r, 0, i, &all, on_block, &n, &e) < 0)
			bench_die("points", e.text);
	store_reader_close(r);
	if (n != (size_t)MIXED_SERIES * MIXED_POINTS)
		bench_die("decode", "not all points");
	return (double)n / (bench_cpu() - t);
}

static void measure_ours(const char *name, void (*take)(const char *dir), struct found *f,
			 int round)
{
	char dir[300], file[64];
	double t = bench_cpu();

	snprintf(dir, sizeof(dir), "%s/%s-%d", disk, name, round);
	take(dir);
	f->taken[round] = SAMPLES / (bench_cpu() - t);
	snprintf(file, sizeof(file), "%s-%d/h", name, round);
	f->bytes = filled_bytes(disk, file) / SAMPLES;
	f->read[round] = decode(dir);
}

/* ---- rows of SQLite ------------------------------------------------------------------ */

static void sql(sqlite3 *db, const char *text)
{
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
		bench_die(text, sqlite3_errmsg(db));
}

static sqlite3_stmt *prepared(sqlite3 *db, const char *text)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, text, -1, &st, NULL) != SQLITE_OK)
		bench_die(text, sqlite3_errmsg(db));
	return st;
}

static void insert_all(sqlite3 *db)
{
	sqlite3_stmt *st = prepared(db, "INSERT INTO sample VALUES (?,?,?)");
	size_t i, j;

	for (i = 0; i < MIXED_POINTS; i++) {
		if (i % BATCH == 0)
			sql(db, "BEGIN");
		for (j = 0; j < MIXED_SERIES; j++) {
			sqlite3_bind_int64(st, 1, (int64_t)j + 1);
			sqlite3_bind_int64(st, 2, times[i]);
			sqlite3_bind_double(st, 3, values[j * MIXED_POINTS + i]);
			if (sqlite3_step(st) != SQLITE_DONE)
				bench_die("insert", sqlite3_errmsg(db));
			sqlite3_reset(st);
		}
		if ((i + 1) % BATCH == 0 || i + 1 == MIXED_POINTS)
			sql(db, "COMMIT");
	}
	sqlite3_finalize(st);
}

static size_t select_series(sqlite3_stmt *st, size_t series, size_t n)
{
	double sum = 0;

	sqlite3_bind_int64(st, 1, (int64_t)series + 1);
	while (sqlite3_step(st) == SQLITE_ROW) {
		if (sqlite3_column_int64(st, 0) != times[n++ % MIXED_POINTS])
			bench_die("select", "a time is not what was stored");
		sum += sqlite3_column_double(st, 1);
	}
	sqlite3_reset(st);
	return isnan(sum) ? 0 : n;
}

static double select_all(sqlite3 *db)
{
	sqlite3_stmt *st =
		prepared(db, "SELECT time, value FROM sample WHERE series = ? ORDER BY time");
	double t = bench_cpu();
	size_t j, n = 0;

	for (j = 0; j < MIXED_SERIES; j++)
		n = select_series(st, j, n);
	sqlite3_finalize(st);
	if (n != (size_t)MIXED_SERIES * MIXED_POINTS)
		bench_die("select", "not all rows");
	return (double)n / (bench_cpu() - t);
}

static void measure_rows(const char *name, const char *key, struct found *f, int round)
{
	bool is_keyed = key[0] == ',';
	char path[300], table[160];
	sqlite3 *db;
	double t;

	snprintf(path, sizeof(path), "%s/%s.db", disk, name);
	snprintf(table, sizeof(table),
		 "CREATE TABLE sample(series INTEGER, time INTEGER, value REAL%s", key);
	unlink(path);
	if (sqlite3_open(path, &db) != SQLITE_OK)
		bench_die(path, sqlite3_errmsg(db));
	sql(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384");
	sql(db, table);
	t = bench_cpu();
	insert_all(db);
	sql(db, "PRAGMA wal_checkpoint(TRUNCATE)");
	f->taken[round] = SAMPLES / (bench_cpu() - t);
	f->bytes = filled_bytes(disk, name) / SAMPLES;
	if (is_keyed)
		f->read[round] = select_all(db);
	if (round == ROUNDS - 1) {
		sql(db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
		f->packed = filled_bytes(disk, name) / SAMPLES;
	}
	sqlite3_close(db);
}

/* ---- VictoriaMetrics ------------------------------------------------------------------- */

static void write_text(const char *path)
{
	FILE *f = fopen(path, "w");
	size_t i, j;

	if (!f)
		bench_die(path, "cannot be written");
	for (i = 0; i < MIXED_POINTS; i++)
		for (j = 0; j < MIXED_SERIES; j++)
			fprintf(f, "mixed{series=\"%zu\"} %.17g %lld\n", j,
				values[j * MIXED_POINTS + i], (long long)(times[i] / 1000000));
	if (fclose(f) != 0)
		bench_die(path, "cannot be written");
}

/* Its version, bytes and CPU seconds; false: it cannot be had. */
static bool ask_victoria(const char *script, char version[64], double *bytes, double *cpu)
{
	char command[900], line[256] = "";
	FILE *p;
	bool has;

	snprintf(command, sizeof(command), "%s/mixed.txt", disk);
	write_text(command);
	snprintf(command, sizeof(command), "python3 '%s' '%s/mixed.txt' %.0f", script, disk,
		 SAMPLES);
	p = popen(command, "r");
	has = p && fgets(line, sizeof(line), p) &&
	      sscanf(line, "%63s %lf %lf", version, bytes, cpu) == 3;
	if (p && pclose(p) != 0)
		has = false;
	return has;
}

/* ---- the rows ----------------------------------------------------------------------------- */

static void print_rows(struct found *batches, struct found *bulk, struct found *peer,
		       const char *name)
{
	char text[96];

	bench_print("peers/mixed-file", batches->bytes, "B/sample", name, peer->bytes,
		    BENCH_VALUE_MAX, 1.75);
	snprintf(text, sizeof(text), "%s, after VACUUM", name);
	bench_print("peers/mixed-file", batches->bytes, "B/sample", text, peer->packed,
		    BENCH_VALUE_MAX, 1.75);
	bench_print("peers/mixed-taken", bench_median(batches->taken, ROUNDS), "samples/s", name,
		    bench_median(peer->taken, ROUNDS), BENCH_NONE, 0);
	bench_print("peers/mixed-bulk", bench_median(bulk->taken, ROUNDS), "samples/s", name,
		    bench_median(peer->taken, ROUNDS), BENCH_VALUE_MIN, 10e6);
	if (peer->read[0] > 0)
		bench_print("peers/mixed-decode", bench_median(batches->read, ROUNDS), "samples/s",
			    name, bench_median(peer->read, ROUNDS), BENCH_VALUE_MIN, 100e6);
}

static void print_victoria(struct found *batches, struct found *bulk, const char *script)
{
	char version[64], name[96];
	double bytes, cpu;

	if (!ask_victoria(script, version, &bytes, &cpu)) {
		fprintf(stderr, "bench peers: VictoriaMetrics is not available; without it\n");
		return;
	}
	snprintf(name, sizeof(name), "VictoriaMetrics %s, times in ms", version);
	bench_print("peers/mixed-file", batches->bytes, "B/sample", name, bytes / SAMPLES,
		    BENCH_VALUE_MAX, 1.75);
	snprintf(name, sizeof(name), "VictoriaMetrics %s, text import", version);
	bench_print("peers/mixed-bulk", bench_median(bulk->taken, ROUNDS), "samples/s", name,
		    SAMPLES / cpu, BENCH_VALUE_MIN, 10e6);
}

int main(int argc, char **argv)
{
	static struct found batches, bulk, keyed, plain;
	char command[256];
	size_t j;
	int i;

	if (!mkdtemp(disk))
		bench_die("folder", "cannot be made");
	values = malloc(sizeof(double) * MIXED_SERIES * MIXED_POINTS);
	if (!values)
		bench_die("memory", "none");
	mixed_times(SEED, START, times, MIXED_POINTS);
	for (j = 0; j < MIXED_SERIES; j++)
		mixed_values(SEED, (unsigned)j, values + j * MIXED_POINTS, MIXED_POINTS);
	for (i = 0; i < ROUNDS; i++) {
		measure_ours("batches", take_batches, &batches, i);
		measure_ours("bulk", take_bulk, &bulk, i);
		measure_rows("keyed", ", PRIMARY KEY(series, time)) WITHOUT ROWID", &keyed, i);
		measure_rows("plain", ")", &plain, i);
	}
	print_rows(&batches, &bulk, &keyed, "SQLite rows WITHOUT ROWID");
	print_rows(&batches, &bulk, &plain, "SQLite rows by rowid, without an index");
	print_victoria(&batches, &bulk, argc > 1 ? argv[1] : "bench/python/victoria.py");
	free(values);
	snprintf(command, sizeof(command), "rm -rf '%s'", disk);
	return system(command) != 0;
}

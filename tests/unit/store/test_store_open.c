/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_open.c - versions and migrations, a database of version 1 made by
 * hand, file systems, hostile schemas, names of files.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "storetest.h"

static int try_open(const char *dir, struct err *e, struct store **s)
{
	const struct store_options o = {.dir = dir, .host = "h"};

	return store_open(&o, e, s);
}

/* ---- migrations --------------------------------------------------------------- */

static int old_step(sqlite3 *db, const char *path, struct err *e)
{
	assert_string_equal(path, "old.db");
	return db_exec(db, "INSERT INTO u SELECT a + b FROM t", e);
}

static const struct db_step old_steps[] = {
	{NULL, NULL},
	{"ALTER TABLE t ADD COLUMN b INTEGER NOT NULL DEFAULT 5", NULL},
	{"CREATE TABLE u(x)", old_step},
	{"INSERT INTO nowhere VALUES(1)", NULL},
};

static sqlite3 *open_old(const char *dir, const char *sql)
{
	char *path = storetest_path(dir, "old.db");
	struct err e = {0};
	sqlite3 *db = NULL;

	unlink(path);
	assert_int_equal(db_open_writer(path, false, &e, &db), 0);
	assert_int_equal(db_exec(db, sql, &e), 0);
	free(path);
	return db;
}

static int64_t ask(sqlite3 *db, const char *sql)
{
	int64_t v = -1;

	assert_int_equal(db_int(db, sql, NULL, &v), 0);
	return v;
}

static void test_migrations(void **state)
{
	static const char one[] = "PRAGMA application_id=1279348819; PRAGMA user_version=1;"
				  "CREATE TABLE t(a); INSERT INTO t VALUES(37)";
	sqlite3 *db = open_old(*state, one);
	struct err e = {0};

	assert_int_equal(DB_APPLICATION_ID, 1279348819);
	assert_int_equal(db_migrate(db, "old.db", "CREATE TABLE new(x)", old_steps, 3, &e), 0);
	assert_int_equal(ask(db, "PRAGMA user_version"), 3);
	assert_int_equal(ask(db, "SELECT x FROM u"), 42);
	assert_int_equal(ask(db, "SELECT count(*) FROM sqlite_master WHERE name='new'"), 0);
	assert_int_equal(db_migrate(db, "old.db", "", old_steps, 3, &e), 0); /* nothing to do */
	/* A step that fails leaves all as it was. */
	assert_true(db_migrate(db, "old.db", "", old_steps, 4, &e) < 0);
	assert_int_equal(ask(db, "PRAGMA user_version"), 3);
	assert_true(sqlite3_get_autocommit(db));
	err_clear(&e);
	assert_int_equal(db_migrate(db, "old.db", "", old_steps, 2, &e), -EPROTO);
	assert_non_null(strstr(e.text, "version 3"));
	sqlite3_close(db);

	db = open_old(*state, "PRAGMA application_id=1279348819"); /* made, but no tables yet */
	assert_int_equal(db_migrate(db, "old.db", "CREATE TABLE new(x)", old_steps, 3, NULL), 0);
	assert_int_equal(ask(db, "PRAGMA user_version"), 3);
	assert_int_equal(ask(db, "SELECT count(*) FROM sqlite_master WHERE name='new'"), 1);
	sqlite3_close(db);

	db = open_old(*state, "CREATE TABLE t(a)"); /* somebody else's */
	assert_int_equal(db_migrate(db, "old.db", "", old_steps, 3, NULL), -EUCLEAN);
	sqlite3_close(db);
	db = open_old(*state, "PRAGMA application_id=1279348819; CREATE TABLE t(a)");
	assert_int_equal(db_migrate(db, "old.db", "", old_steps, 3, NULL),
			 -EUCLEAN); /* no version 0 */
	sqlite3_close(db);
}

/* ---- a file of version 1 --------------------------------------------------------- */

/* As the first release writes it. The blobs' bytes are worked out by hand from
 * docs/schema.md, but for the checksum, whose algorithm has its own test. */
static const char version1[] =
	"PRAGMA auto_vacuum=2; PRAGMA application_id=1279348819; PRAGMA user_version=1;"
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE run(one INTEGER PRIMARY KEY CHECK(one=1), id TEXT NOT NULL DEFAULT '',"
	" name TEXT NOT NULL DEFAULT '', project TEXT NOT NULL DEFAULT '',"
	" command TEXT NOT NULL DEFAULT '', cwd TEXT NOT NULL DEFAULT '',"
	" host TEXT NOT NULL DEFAULT '', user TEXT NOT NULL DEFAULT '',"
	" tags TEXT NOT NULL DEFAULT '', notes TEXT NOT NULL DEFAULT '',"
	" launcher_pid INTEGER NOT NULL DEFAULT 0, child_pid INTEGER NOT NULL DEFAULT 0,"
	" start_ns INTEGER NOT NULL DEFAULT 0, stall_after_ms INTEGER NOT NULL DEFAULT 0,"
	" end_ns INTEGER NOT NULL DEFAULT 0, outcome INTEGER NOT NULL DEFAULT 0,"
	" code INTEGER NOT NULL DEFAULT -1, signal INTEGER NOT NULL DEFAULT 0,"
	" core INTEGER NOT NULL DEFAULT 0, user_s REAL, system_s REAL,"
	" max_rss INTEGER NOT NULL DEFAULT 0, evidence TEXT NOT NULL DEFAULT '',"
	" stderr_tail BLOB NOT NULL DEFAULT x'');"
	"CREATE TABLE process(id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, uid BLOB NOT NULL,"
	" pid INTEGER NOT NULL, ppid INTEGER NOT NULL, start_time INTEGER NOT NULL,"
	" role TEXT NOT NULL, program TEXT NOT NULL, rank INTEGER NOT NULL,"
	" local_rank INTEGER NOT NULL, world_size INTEGER NOT NULL, start_ns INTEGER NOT NULL,"
	" end_ns INTEGER NOT NULL, dropped INTEGER NOT NULL, refused INTEGER NOT NULL);"
	"CREATE TABLE series(id INTEGER PRIMARY KEY, seq INTEGER NOT NULL,"
	" process INTEGER NOT NULL, name TEXT NOT NULL, labels TEXT NOT NULL, unit TEXT NOT NULL,"
	" help TEXT NOT NULL, kind INTEGER NOT NULL, source TEXT NOT NULL);"
	"CREATE TABLE event(id INTEGER PRIMARY KEY, seq INTEGER NOT NULL,"
	" process INTEGER NOT NULL, time_ns INTEGER NOT NULL, step INTEGER,"
	" severity INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, attrs TEXT NOT NULL);"
	"CREATE TABLE attr(process INTEGER NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL,"
	" value TEXT NOT NULL, PRIMARY KEY(process, key)) WITHOUT ROWID;"
	"CREATE TABLE lane(ring BLOB NOT NULL, lane INTEGER NOT NULL,"
	" process INTEGER NOT NULL, seq INTEGER NOT NULL,"
	" pos INTEGER NOT NULL, rec INTEGER NOT NULL, stored INTEGER NOT NULL,"
	" overwritten INTEGER NOT NULL, broken INTEGER NOT NULL, dropped INTEGER NOT NULL,"
	" PRIMARY KEY(ring, lane)) WITHOUT ROWID;"
	"CREATE TABLE tail(seq INTEGER PRIMARY KEY, blob BLOB NOT NULL);"
	"CREATE TABLE chunk(series INTEGER NOT NULL, ordinal INTEGER NOT NULL,"
	" data INTEGER NOT NULL, start INTEGER NOT NULL, n INTEGER NOT NULL,"
	" segment INTEGER NOT NULL, segment_step INTEGER, segment_time INTEGER NOT NULL,"
	" seq_min INTEGER NOT NULL, seq_max INTEGER NOT NULL, time_min INTEGER NOT NULL,"
	" time_max INTEGER NOT NULL, step_min INTEGER, step_max INTEGER, nan INTEGER NOT NULL,"
	" observed INTEGER NOT NULL, sum REAL, min REAL, max REAL, min_at INTEGER,"
	" max_at INTEGER, first REAL, last REAL, PRIMARY KEY(series, ordinal)) WITHOUT ROWID;"
	"CREATE TABLE chunk_data(id INTEGER PRIMARY KEY, blob BLOB NOT NULL);"
	"INSERT INTO meta VALUES('folded', 4);"
	"INSERT INTO process VALUES(1, 1, x'000102030405060708090a0b0c0d0e0f', 10, 1, 5,"
	" 'trainer', 'p', 0, 0, 1, 50, 0, 0, 0);"
	"INSERT INTO series VALUES(1, 1, 1, 'loss', '', 'nat', '', 1, 'record');"
	"INSERT INTO lane VALUES(x'000102030405060708090a0b0c0d0e0f', 2, 1, 4, 64, 60, 59, 0, 1, "
	"0);"
	"INSERT INTO chunk VALUES(1, 0, 1, 0, 2, 0, 4, 110, 1, 4, 100, 110, 3, 4, 0, 2, 3, 1, 2,"
	" 0, 1, 1, 2);";

static void put_blob(sqlite3 *db, const char *sql, uint64_t a, uint64_t b, unsigned char *blob,
		     size_t n)
{
	uint64_t key[2] = {a, b};
	sqlite3_stmt *st;
	uint32_t crc;

	crc = crc32c(0, blob, 16);
	crc = crc32c(crc, key, 16);
	crc = crc32c(crc, blob + 16, n - 16);
	memcpy(blob + 4, &crc, 4);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
	sqlite3_bind_blob(st, 1, blob, (int)n, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(st), SQLITE_DONE);
	sqlite3_finalize(st);
}

static void test_version_1(void **state)
{
	unsigned char chunk[] = {
		2,    0,    0,    0,    0,    0,    0,    0,
		23,   0,    0,    0,    2,    0,    0,    0, /* points, 23 bytes, 2 of them */
		0xc8, 0x01, 0x06,                            /* base time 100, base step 3 */
		0x15,                                        /* three strides, raw values */
		0x00, 0x14, 0x00, 0x02, 0x00, 0x00,          /* +10 ns, +1 step, thread 0 */
		0,    0,    0,    0,    0,    0,    0xf0, 0x3f,
		0,    0,    0,    0,    0,    0,    0,    0x40, /* 1, 2 */
	};
	unsigned char tail[] = {
		1,    0,    0,    0,    0,    0,    0,    0,    57, 0, 0,  0,  3,  0,  0,
		0,    0xf0, 0x01, 0x0a, /* base time 120, base step 5 */
		1,                      /* one position: ring, lane 2, process 1, ... */
		0,    1,    2,    3,    4,    5,    6,    7,    8,  9, 10, 11, 12, 13, 14,
		15,   2,    1,    0x80, 0x01, 0x7f, 0x7e, 0,    1,  0, 1,  1,  3, /* one block:
										  series 1, 3
										  points */
		0x5e, /* time by differences, no step, thread stride 0; one value */
		3,    0x00, 0x02, 0x04,                         /* 3 bytes: +0, +1, +2 ns */
		0x0e, 0x00,                                     /* thread 7 */
		0,    0,    0,    0,    0,    0,    0x08, 0x40, /* 3, three times */
		0,                                              /* no histograms */
	};
	static const int64_t times[] = {100, 110, 120, 121, 123}, steps[] = {3, 4};
	static const double values[] = {1, 2, 3, 3, 3};
	const uint8_t ring[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	char *path = storetest_path(*state, "h.db");
	struct sink_position pos;
	struct storetest_points got;
	struct err e = {0};
	struct store *s;
	sqlite3 *db;
	size_t i;

	chunk[8] = sizeof(chunk) - 16;
	tail[8] = sizeof(tail) - 16;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, version1, NULL, NULL, NULL), SQLITE_OK);
	put_blob(db, "INSERT INTO chunk_data VALUES(1, ?1)", 1, 0, chunk, sizeof(chunk));
	put_blob(db, "INSERT INTO tail VALUES(5, ?1)", 5, 0, tail, sizeof(tail));
	sqlite3_close(db);
	if (store_check(path, &e) < 0)
		fail_msg("%s", e.text);
	got = storetest_read_dir(*state, 1);
	assert_int_equal(got.n, 5);
	for (i = 0; i < 5; i++) {
		assert_int_equal(got.v[i].time_ns, times[i]);
		assert_int_equal(got.v[i].step, i < 2 ? steps[i] : SINK_STEP_NONE);
		assert_true(got.v[i].value == values[i]);
		assert_int_equal(got.v[i].thread, i < 2 ? 0 : 7);
	}
	free(got.v);
	s = storetest_open(*state); /* and a writer goes on with it */
	assert_int_equal(store_sink(s)->ops->resume(store_sink(s), ring, 2, &pos), 0);
	assert_int_equal(pos.process, 1);
	assert_int_equal(pos.pos, 128);
	assert_int_equal(pos.rec, 127);
	assert_int_equal(pos.stored, 126);
	assert_int_equal(pos.broken, 1);
	storetest_push(s, 1, 130, 9, 4);
	storetest_commit(s);
	storetest_close(s);
	assert_int_equal(storetest_sql(*state, "SELECT n FROM chunk"), 6);
	assert_int_equal(storetest_sql(*state, "PRAGMA user_version"), 2);
	assert_int_equal(store_check(path, &e), 0);
	free(path);
}

static void test_newer_version_is_left_alone(void **state)
{
	struct store *s = storetest_open(*state);
	struct store_reader *r;
	struct err e = {0};

	storetest_process(s, 1);
	storetest_commit(s);
	storetest_close(s);
	storetest_sql(*state, "PRAGMA user_version=99");
	assert_int_equal(try_open(*state, &e, &s), -EPROTO);
	assert_non_null(strstr(e.text, "version 99"));
	err_clear(&e);
	assert_int_equal(store_reader_open(*state, &e, &r), -EPROTO);
	assert_int_equal(storetest_count(*state, "h.db.corrupt"), 0);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM process"), 1);
}

/* A database from a stranger: views and triggers in place of tables. */
static void test_hostile_schema(void **state)
{
	static const char *const bad[] = {
		"DROP TABLE attr; CREATE VIEW attr(process, key, seq, value) AS"
		" WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x)"
		" SELECT n, n, n, n FROM x",
		"CREATE TRIGGER t AFTER INSERT ON tail BEGIN DELETE FROM tail; END",
		"CREATE VIRTUAL TABLE v USING fts5(a)",
		"DROP TABLE meta",
	};
	struct store_reader *r;
	struct store *s;
	struct err e = {0};
	char *path = storetest_path(*state, "h.db");
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		s = storetest_open(*state);
		storetest_close(s);
		storetest_sql(*state, bad[i]);
		err_clear(&e);
		assert_int_equal(store_reader_open(*state, &e, &r), -EUCLEAN);
		assert_int_equal(store_check(path, NULL), -EUCLEAN);
		unlink(path);
	}
	free(path);
}

static void test_check_finds(void **state)
{
	static const char *const damage[] = {
		"UPDATE chunk SET start = start + 1 WHERE ordinal = 1",
		"UPDATE chunk SET n = n - 1 WHERE ordinal = 0",
		"UPDATE chunk SET segment = 1 WHERE ordinal = 1",
		"UPDATE chunk SET segment_step = 5 WHERE ordinal = 0",
		"UPDATE chunk SET segment_time = segment_time + 1 WHERE ordinal = 0",
		"UPDATE chunk SET at = at + 1 WHERE ordinal = 1",
		"UPDATE chunk SET len = len - 1 WHERE ordinal = 1",
		"UPDATE chunk SET axis = 2 WHERE ordinal = 0",
		"UPDATE chunk SET axis = NULL WHERE ordinal = 0",
		"UPDATE chunk SET pack = 9 WHERE ordinal = 0",
		"DELETE FROM chunk WHERE series = 1 AND ordinal = 1",
		"DELETE FROM chunk WHERE series = 1",
		"DELETE FROM pack WHERE id = 1",
		"UPDATE pack SET blob = zeroblob(length(blob)) WHERE id = 1",
		"INSERT INTO pack(id, blob) VALUES(7, x'00')",
		"UPDATE meta SET value = 0 WHERE key = 'pack'",
		"DELETE FROM axis WHERE id = 1",
		"UPDATE axis SET blob = x'01' WHERE id = 1",
		"INSERT INTO axis SELECT 7, blob FROM axis WHERE id = 1",
		"UPDATE meta SET value = 1 WHERE key = 'axis'",
		"DELETE FROM summary WHERE id % 68719476736 = 0",
		"INSERT INTO summary SELECT id + 1, blob FROM summary",
		"UPDATE summary SET blob = (SELECT blob FROM summary WHERE id = 1 << 40) WHERE"
		" id = 2 << 40",
		"UPDATE tail SET seq = seq + 1 WHERE seq = (SELECT max(seq) FROM tail)",
		"UPDATE tail SET blob = x'01'",
		"UPDATE meta SET value = value + 1 WHERE key = 'folded'",
		"UPDATE meta SET value = value - 1 WHERE key = 'folded'",
		"DELETE FROM series",
		"DELETE FROM process",
		"UPDATE series SET kind = 3 WHERE id = 1",
	};
	char *path = storetest_path(*state, "h.db"), *aside = storetest_path(*state, "copy");
	char *command = xasprintf("cp '%s' '%s'", path, aside);
	char *back = xasprintf("cp '%s' '%s'", aside, path);
	struct err e = {0};
	struct store *s;
	uint32_t p, id, other;
	size_t i;

	s = storetest_open(*state);
	p = storetest_process(s, 1);
	id = storetest_series(s, p, "a", SINK_GAUGE);
	other = storetest_series(s, p, "b", SINK_GAUGE);
	for (i = 0; i < 20000; i++) {
		storetest_push(s, id, (int64_t)(i * i), (int64_t)i, (double)rand());
		if (i < 10000)
			storetest_push(s, other, (int64_t)(i * i), (int64_t)i, (double)i);
	}
	storetest_commit(s);
	storetest_merge(s); /* chunks of 8,192 and a merged row */
	storetest_push(s, id, 5, 30000, 1);
	storetest_commit(s);
	db_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL);
	assert_int_equal(system(command), 0);
	storetest_close(s);
	assert_int_equal(system(back), 0);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), 3);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM axis"), 2);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM tail"), 2);
	assert_int_equal(store_check(path, &e), 0);
	for (i = 0; i < ARRAY_LEN(damage); i++) {
		assert_int_equal(system(back), 0);
		storetest_sql(*state, damage[i]);
		err_clear(&e);
		if (store_check(path, &e) != -EUCLEAN)
			fail_msg("not found: %s", damage[i]);
		assert_non_null(strstr(e.text, "h.db"));
	}
	free(path);
	free(aside);
	free(command);
	free(back);
}

static void test_file_systems(void **state)
{
	(void)state;
	assert_true(fstype_is_wal_safe_magic(0xef53));      /* ext4 */
	assert_true(fstype_is_wal_safe_magic(0x01021994));  /* tmpfs */
	assert_false(fstype_is_wal_safe_magic(0x6969));     /* NFS */
	assert_false(fstype_is_wal_safe_magic(0xff534d42)); /* CIFS */
	assert_false(fstype_is_wal_safe_magic(0xfe534d42)); /* SMB2 */
	assert_false(fstype_is_wal_safe_magic(0x65735546)); /* FUSE */
	assert_false(fstype_is_wal_safe_magic(0x01021997)); /* 9p */
	assert_false(fstype_is_wal_safe_magic(0x0bd00bd0)); /* Lustre */
	assert_false(fstype_is_wal_safe_magic(0x47504653)); /* GPFS */
	assert_false(fstype_is_wal_safe_magic(0x00c36400)); /* Ceph */
	assert_false(fstype_is_wal_safe_magic(0x19830326)); /* BeeGFS: unknown */
	assert_false(fstype_is_wal_safe("/nonexistent"));
	assert_false(fstype_is_wal_safe("/proc"));
}

static void test_without_wal(void **state)
{
	const struct store_options o = {.dir = *state, .host = "h", .no_wal = true};
	struct storetest_points got;
	struct err e = {0};
	struct store *s;
	uint32_t id;

	assert_int_equal(store_open(&o, &e, &s), 0);
	id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	storetest_push(s, id, 1, 1, 1);
	storetest_commit(s);
	assert_int_equal(storetest_count(*state, "h.db-wal"), 0);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 1);
	free(got.v);
	storetest_fold(s);
	storetest_close(s);
	s = storetest_open(*state); /* on a file system where a WAL is safe */
	storetest_push(s, id, 2, 2, 2);
	storetest_commit(s);
	storetest_close(s);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 2);
	free(got.v);
}

static void test_host_names(void **state)
{
	static const struct {
		const char *host, *file;
	} names[] = {
		{"node-1.example", "node-1.example.db"},
		{"../../etc/x", "_._.._etc_x.db"},
		{"a/b\nc", "a_b_c.db"},
		{".", "_.db"},
		{"", "host.db"},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		const struct store_options o = {.dir = *state, .host = names[i].host};
		struct err e = {0};
		struct store *s;

		assert_int_equal(store_open(&o, &e, &s), 0);
		storetest_close(s);
		assert_int_equal(storetest_count(*state, names[i].file), 1);
	}
}

static void test_not_a_plain_file(void **state)
{
	char *path = storetest_path(*state, "h.db");
	struct err e = {0};
	struct store *s;

	assert_int_equal(symlink("/tmp/elsewhere", path), 0);
	assert_int_equal(try_open(*state, &e, &s), -EINVAL);
	assert_non_null(strstr(e.text, "not a plain file"));
	err_clear(&e);
	assert_int_equal(try_open(path, &e, &s), -ENOENT);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_migrations, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_version_1, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_newer_version_is_left_alone, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_hostile_schema, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_check_finds, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_file_systems, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_without_wal, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_host_names, storetest_setup,
						storetest_teardown),
		cmocka_unit_test_setup_teardown(test_not_a_plain_file, storetest_setup,
						storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

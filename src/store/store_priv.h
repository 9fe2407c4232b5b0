/* SPDX-License-Identifier: Apache-2.0
 *
 * store_priv.h - what the files of this folder share: the database connection,
 * the writer's state, the reader's. Nobody else includes it but tests.
 */
#ifndef STORE_PRIV_H
#define STORE_PRIV_H

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "store/codec.h"
#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- db.c: the connection ----------------------------------------------- */

#define DB_APPLICATION_ID 0x4c415053 /* "LAPS" */
#define DB_VERSION 1                 /* PRAGMA user_version of this lapse */
#define DB_BLOB_MAX (256 << 20)      /* longest value SQLite may hand over */

/* -errno of a result of SQLite; db may be NULL. */
int db_errno(sqlite3 *db, int rc);

/* Fill e from the connection's last error and return the errno. */
int db_fail(sqlite3 *db, int rc, const char *what, struct err *e);

/* Run statements that return no rows that matter. */
int db_exec(sqlite3 *db, const char *sql, struct err *e);
int db_prepare(sqlite3 *db, const char *sql, struct err *e, sqlite3_stmt **ret);

/* Run a statement to its end and reset it, bindings cleared. */
int db_run(sqlite3_stmt *st, const char *what, struct err *e);

/* One integer: the first column of the first row; -ENODATA if there is none. */
int db_int(sqlite3 *db, const char *sql, struct err *e, int64_t *ret);

/* Column as a string, "" for NULL; valid until the statement steps. */
const char *db_text(sqlite3_stmt *st, int column);

/* Open for writing, made (0600) if missing, settings made; no tables yet. */
int db_open_writer(const char *path, bool wal, struct err *e, sqlite3 **ret);

/* Open read-only; on media that cannot be written, without a WAL: *warning
 * then says what that leaves out (added to it, one sentence and a newline).
 * The schema has been checked. */
int db_open_reader(const char *path, struct buf *warning, struct err *e, sqlite3 **ret);

/* Is this a database of lapse with all tables? 0, -EUCLEAN, -EPROTO. */
int db_check_schema(sqlite3 *db, struct err *e);

/* Bring a database from its version to `version`: schema if it is empty, else
 * steps[v], which leads from v to v + 1. One transaction. */
int db_migrate(sqlite3 *db, const char *schema, const char *const *steps, int version,
	       struct err *e);

/* Tables as this lapse wants them: db_migrate() with its own tables. */
int db_create(sqlite3 *db, struct err *e);

/* ---- fstype.c ------------------------------------------------------------ */

/* May a WAL be used on the file system of this folder? Unknown ones: no. */
bool fstype_is_wal_safe(const char *dir);
bool fstype_is_wal_safe_magic(uint64_t magic);

/* ---- catalog.c: processes and series -------------------------------------- */

#define CATALOG_PROCESSES_MAX (64u << 10)
#define CATALOG_SERIES_MAX (1u << 20)
#define CATALOG_TEXT_MAX 4096u /* bytes of any string of a definition */

struct catalog_process {
	struct sink_process p; /* strings owned */
	bool dirty;            /* differs from the database */
};

/* What is kept of a series for good. */
struct catalog_series {
	uint32_t count; /* samples of it in the commit being written */
	uint8_t kind;   /* enum sink_kind */
	bool conflict;  /* an event about it has been written */
	uint64_t unit;  /* hash of the unit */
};

/* Of a series not yet in the database. */
struct catalog_pending {
	uint32_t id;
	struct sink_series d; /* strings owned */
};

struct catalog {
	struct catalog_process *processes; /* id - 1 */
	size_t n_processes, cap_processes, dirty;
	struct catalog_series *series; /* id - 1 */
	size_t n_series, cap_series;
	struct catalog_pending *pending;
	size_t n_pending, cap_pending;
	struct map by_uid, by_name;
};

void catalog_init(struct catalog *d);
void catalog_done(struct catalog *d);
int catalog_load(struct store *s, struct err *e);
int catalog_process(struct store *s, const struct sink_process *p, uint32_t *ret_id);
int catalog_series(struct store *s, const struct sink_series *d, uint32_t *ret_id);
/* Write what is pending, in the transaction that is open. */
int catalog_write(struct store *s, uint64_t seq);
/* It has been committed. */
void catalog_written(struct store *s);

/* ---- commit.c: the sink --------------------------------------------------- */

#define COMMIT_TEXTS_MAX (64u << 10)      /* events and attributes in a commit */
#define COMMIT_TEXT_BYTES_MAX (64u << 20) /* bytes of their strings */
#define COMMIT_LANES_MAX (1u << 20)       /* lanes with a position, in all */

/* An event (key NULL) or an attribute (kind NULL); strings owned. */
struct commit_text {
	uint32_t process;
	int64_t time_ns, step;
	int severity;
	char *kind, *text, *attrs; /* attribute: text is the value */
	char *key;
};

struct commit_lane {
	struct sink_position committed, next;
	bool has_committed, has_next;
	bool unfolded; /* the table lane does not have `committed` yet */
};

struct commit {
	struct sink_sample *samples;
	size_t n_samples, cap_samples;
	struct hists hists;
	struct commit_text *texts;
	size_t n_texts, cap_texts, text_bytes;
	struct commit_lane *lanes;
	size_t n_lanes, cap_lanes;
	uint32_t *moved; /* lanes with has_next */
	size_t n_moved, cap_moved;
	struct map by_lane;
	/* while a commit is written */
	struct points sorted;
	uint32_t *series, *lengths, *order;
	size_t cap_series, cap_lengths, cap_order;
	struct sink_position *positions;
	size_t cap_positions;
	struct buf body;
};

extern const struct sink_ops commit_ops;
void commit_init(struct commit *c);
void commit_done(struct commit *c);
/* Set a lane's committed position while the store is opened. */
int commit_load_lane(struct store *s, const struct sink_position *p, bool folded, struct err *e);
/* Add an event of the store's own. */
int commit_event(struct store *s, uint32_t process, int severity, const char *kind,
		 const char *text);

/* ---- checkpoint.c ---------------------------------------------------------- */

#define CHECKPOINT_BYTES (4 << 20)
#define CHECKPOINT_SECONDS 30
#define CHECKPOINT_RESTART_BYTES (64 << 20) /* a WAL that is longer begins anew */
#define CHECKPOINT_BUSY_MS 100
#define CHECKPOINT_KEEP_BYTES (32 << 20) /* a WAL that began anew is cut to this */

struct checkpoint {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	sqlite3 *db; /* of the thread alone */
	bool running, stop, asked;
	int pages, done; /* in the WAL now; of them checkpointed */
	int page_size;
};

/* Start the thread for the database that s->db has open in WAL mode. */
int checkpoint_start(struct store *s, struct err *e);
void checkpoint_stop(struct store *s);

/* ---- store.c ---------------------------------------------------------------- */

enum store_sql {
	SQL_BEGIN,
	SQL_COMMIT,
	SQL_ROLLBACK,
	SQL_PROCESS,
	SQL_SERIES,
	SQL_EVENT,
	SQL_ATTR,
	SQL_TAIL,
	SQL_TAIL_READ,
	SQL_TAIL_DELETE,
	SQL_LANE,
	SQL_META,
	SQL_CHUNK,
	SQL_CHUNK_LAST,
	SQL_DATA_NEW,
	SQL_DATA_SET,
	SQL_DATA_GET,
	SQL_N
};

struct store {
	struct sink sink; /* first */
	char *dir, *path, *lock_path;
	int lock_fd;
	dev_t dev;
	ino_t ino;
	bool wal;
	bool corrupt; /* -EUCLEAN was seen */
	sqlite3 *db;
	sqlite3_stmt *sql[SQL_N];
	struct err err;
	uint64_t seq;    /* last commit */
	uint64_t folded; /* last commit in chunks */
	struct catalog catalog;
	struct commit commit;
	struct blob_codec codec;
	uint64_t tail_rows, tail_body; /* not folded: rows, bytes of their bodies */
	int64_t tail_since;            /* CLOCK_MONOTONIC ns of the first of them */
	struct checkpoint checkpoint;
	bool folding; /* a fold is due and not all slices are done */
	struct store_stats stats;
};

/* End a transaction that failed; notes corruption. Returns r. */
int store_abort(struct store *s, int r);
/* 0, or -EUCLEAN: the first page of the file is no longer a database's. */
int store_check_header(struct store *s, struct err *e);
int64_t store_mono_ns(void);
int64_t store_utc_ns(void);

/* ---- fold.c ------------------------------------------------------------------- */

#define FOLD_BYTES (4u << 20)   /* fold a tail whose bodies exceed this, */
#define FOLD_SERIES_BYTES 4096u /* or this much a series if that is more, */
#define FOLD_BYTES_MAX                                                                             \
	(32u << 20) /* but at the latest here; also the most that                                  \
		       one transaction takes (at least one row) */
#define FOLD_SLICE                                                                                 \
	(512u << 10) /* of bodies folded by one call, unless all is asked for:                     \
			tens of ms; more with many series, so that chunks                          \
			do not become small */
#define FOLD_ROWS 4096u
#define FOLD_SECONDS 600

/* ---- chunkrow.c: the table chunk --------------------------------------------- */

/* Columns in the order in which chunkrow_read() takes them. */
#define CHUNKROW_COLUMNS                                                                           \
	"series, ordinal, data, start, n, segment, segment_step, segment_time, seq_min, seq_max,"  \
	" time_min, time_max, step_min, step_max, nan, observed, sum, min, max, min_at, max_at,"   \
	" first, last"
#define CHUNKROW_N 23

void chunkrow_bind(sqlite3_stmt *st, const struct chunk *c);
/* 0 or -EUCLEAN: numbers that no lapse writes. */
int chunkrow_read(sqlite3_stmt *st, const char *path, struct err *e, struct chunk *ret);

/* ---- reader: hosts.c, lists.c, scan.c ------------------------------------------ */

#define HOSTS_MAX 4096u
#define HOSTS_HOLD_NS 200000000 /* longest a transaction is held, about */
#define HOSTS_TAIL_MAX (512u << 20)

/* A tail row in memory; never changes once committed. */
struct hosts_tail {
	uint64_t seq;
	struct blob blob; /* body owned */
};

struct hosts_one {
	char *name, *path;
	sqlite3 *db;
	struct hosts_tail *tail;
	size_t n_tail, cap_tail, tail_bytes;
};

struct store_reader {
	struct hosts_one *hosts;
	size_t n_hosts, cap_hosts;
	struct buf warning;
	struct blob_codec codec;
	char *run_text[12]; /* strings of store_reader_run() */
};

/* Bring host's tail up to date with the transaction that is open. */
int hosts_sync_tail(struct store_reader *r, struct hosts_one *h, struct err *e);
int hosts_begin(struct hosts_one *h, struct err *e);
void hosts_end(struct hosts_one *h);

#endif

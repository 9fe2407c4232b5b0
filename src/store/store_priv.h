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
#include "store/place.h"
#include "store/retain.h"
#include "store/store.h"
#include "store/summary.h"
#include "store/sumtree.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- db.c: the connection ----------------------------------------------- */

#define DB_APPLICATION_ID 0x4c415053 /* "LAPS" */
#define DB_VERSION 2                 /* PRAGMA user_version of this lapse */
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

/* The same of a file that nobody changes, without locks. */
int db_open_frozen(const char *path, struct err *e, sqlite3 **ret);

/* Is this a database of lapse with all tables of its version? 0, -EUCLEAN, -EPROTO. */
int db_check_schema(sqlite3 *db, const char *path, struct err *e, int *ret_version);

/* From one version to the next: statements, then a function, NULL if not needed. */
struct db_step {
	const char *sql;
	int (*run)(sqlite3 *db, const char *path, struct err *e);
};

/* Bring a database from its version to `version`: schema if it is empty, else
 * steps[v], which leads from v to v + 1. One transaction. */
int db_migrate(sqlite3 *db, const char *path, const char *schema, const struct db_step *steps,
	       int version, struct err *e);

/* Tables as this lapse wants them: db_migrate() with its own tables. */
int db_create(sqlite3 *db, const char *path, struct err *e);

/* ---- migrate.c ------------------------------------------------------------ */

/* Make version 2 of version 1: the step's function. */
int migrate_from_1(sqlite3 *db, const char *path, struct err *e);

#define MIGRATE_COPY_MAX (1 << 30) /* bytes of a file that a reader migrates in memory */

/* A migrated copy of an older file in memory; db is closed. 0, -EFBIG: larger than
 * MIGRATE_COPY_MAX. */
int migrate_copy(sqlite3 *db, const char *path, struct err *e, sqlite3 **ret);

/* ---- fstype.c ------------------------------------------------------------ */

/* May a WAL be used on the file system of this folder? Unknown ones: no. */
bool fstype_is_wal_safe(const char *dir);
bool fstype_is_wal_safe_magic(uint64_t magic);

/* ---- doubt.c ------------------------------------------------------------------- */

/* What a reader of the file at path, which is open, should know if it is a copy of a
 * live one. */
void doubt_file(sqlite3 *db, const char *path, struct buf *warning);

/* ---- filecopy.c ---------------------------------------------------------------- */

/* Copy a plain file, made or replaced (0600), down to the disk. On error `to` is
 * gone. */
int filecopy_file(const char *from, const char *to, struct err *e);
/* What was renamed in dir is on the disk. */
int filecopy_sync_dir(const char *dir, struct err *e);

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
	SQL_AXIS,
	SQL_PACK,
	SQL_SUMMARY_GET,
	SQL_SUMMARY_SET,
	SQL_N
};

/* A merged row of the tail. */
struct store_merged {
	uint64_t seq, points;
	size_t bytes;
	uint8_t *series; /* bit id - 1: it has points of this series */
	size_t n_series; /* bits */
};

/* Numbers that the table meta keeps; each only grows. */
enum store_meta {
	META_FOLDED, /* last commit in a fold */
	META_FOLDS,  /* folds so far: a reader sees that merged rows changed */
	META_AXIS,   /* last row of axis and of pack: never used again */
	META_PACK,
	META_N
};
extern const char *const store_meta_names[META_N];
/* Read them all; those that are not there are 0. */
int store_meta_read(sqlite3 *db, struct err *e, int64_t ret[META_N]);
/* Write those that differ from s->meta, which stays as it is. */
int store_meta_write(struct store *s, const int64_t meta[META_N], struct err *e);
/* Prepare s->sql, or finalize it. */
int store_prepare(struct store *s, struct err *e);
void store_unprepare(struct store *s);

struct store {
	struct sink sink;        /* first */
	char *dir, *file, *home; /* run's folder, HOST.db, DIR/HOST.db */
	char *path, *lock_path;  /* of the live database, of the run's lock */
	struct place place;
	int lock_fd;
	dev_t dev;
	ino_t ino;
	bool wal;
	bool corrupt; /* -EUCLEAN was seen */
	bool settled; /* store_settle() was called */
	int64_t patience_ns;
	sqlite3 *db;
	sqlite3_stmt *sql[SQL_N];
	struct err err;
	uint64_t seq; /* last commit */
	int64_t meta[META_N];
	struct catalog catalog;
	struct commit commit;
	struct blob_codec codec;
	struct column_codec columns;
	struct store_merged *merged; /* oldest first */
	size_t n_merged, cap_merged;
	uint64_t tail_rows, tail_body; /* plain rows, bytes of their bodies */
	int64_t tail_since;            /* CLOCK_MONOTONIC ns of the first of them */
	struct checkpoint checkpoint;
	bool folding; /* a fold is due and not all slices are done */
	struct retain_state retain;
	struct store_stats stats;
};

/* End a transaction that failed; notes corruption. Returns r. */
int store_abort(struct store *s, int r);
/* 0, or -EUCLEAN: the first page of the file is no longer a database's. */
int store_check_header(struct store *s, struct err *e);
/* Open s->path, make or migrate its tables, load what the writer needs; close it. */
int store_connect(struct store *s, struct err *e);
void store_disconnect(struct store *s);
/* An event of the store's own, at once; if that fails the store is disconnected. */
int store_say(struct store *s, const char *kind, const char *text, struct err *e);

/* ---- aside.c ---- */
/* Name of the mark of a file that is to be set aside; the caller frees it. */
char *store_bad_mark(const struct store *s);
/* Set the file aside, for which why is the reason, and connect to a new one. */
int store_replace(struct store *s, const struct err *why, struct err *e);
/* PATH.corrupt-UTCSECONDS that is not taken; the caller frees it. */
char *store_aside_name(const char *path);
int64_t store_mono_ns(void);
int64_t store_utc_ns(void);

/* ---- fold.c ------------------------------------------------------------------- */

#define FOLD_BYTES (1u << 20)   /* fold a tail whose plain rows exceed this, */
#define FOLD_SERIES_BYTES 1024u /* or this much a series if that is more, */
#define FOLD_BYTES_MAX                                                                             \
	(32u << 20) /* but at the latest here; also the most that                                  \
		       one transaction takes (at least one row) */
#define FOLD_SLICE                                                                                 \
	(512u << 10) /* of bodies folded by one call, unless all is asked for:                     \
			tens of ms; more with many series */
#define FOLD_ROWS 4096u
#define FOLD_SECONDS 600
#define FOLD_MERGED_BYTES                                                                          \
	(4u << 20)                     /* merged rows together; beyond, the longest series are     \
					  sealed early */
#define FOLD_MERGED_SERIES_BYTES 1024u /* or this much a series, up to FOLD_BYTES_MAX */

/* ---- rowbody.c: bodies of rows that a fold walks -------------------------------- */

/* A plain row's is copied. Of a merged one the directory is there, axes and entries
 * once they are loaded; the row must not change meanwhile. */
struct rowbody {
	unsigned char *copy;
	unsigned char *map; /* len bytes of addresses; NULL: copy has all */
	size_t len, passed;
	sqlite3_blob *blob;
};
/* Take the body of row id, whose blob b is open; expanded: b was compressed. *ret is
 * where the body will be. 0, or -errno and nothing to be freed. */
int rowbody_take(struct rowbody *y, sqlite3 *db, const struct blob_id *id, const struct blob *b,
		 bool expanded, struct err *e, const unsigned char **ret);
/* Fill in len bytes at p. 0 or -errno. */
int rowbody_load(struct rowbody *y, const unsigned char *p, size_t len, struct err *e);
/* They are not needed for now; no entry before p is needed any more. */
void rowbody_drop(struct rowbody *y, const unsigned char *p, size_t len);
void rowbody_pass(struct rowbody *y, const unsigned char *p);
void rowbody_done(struct rowbody *y);

/* A row of the tail in memory. */
struct fold_row {
	uint64_t seq;
	struct blob blob; /* its body is that of `body` */
	struct rowbody body;
};
/* Bytes of merged rows at which series are sealed early. */
uint64_t store_merged_max(const struct store *s);
/* Note a merged row that is in the tail. 0 or -errno; checks its directory. */
int fold_note_merged(struct store *s, const struct blob_id *id, const struct blob *b, struct err *e,
		     struct store_merged *ret);

/* One transaction: plain rows of up to bytes_max, but at least one if there are any, and what is
 * merged with them. seal: all becomes chunks if these are the last rows. */
int fold_batch(struct store *s, uint64_t bytes_max, bool seal, struct err *e);

#define FOLD_DIRECT (32u << 10) /* samples of a commit that is folded at once, without a row, */
#define FOLD_DIRECT_SERIES 256u /* if it has so many a series */
/* Is that so now? */
bool fold_takes_commit(const struct store *s, size_t samples, size_t series);
/* Commit seq, with all rows before it: in the transaction that is open, which it ends
 * if it goes well. */
struct gather_memory;
int fold_commit(struct store *s, uint64_t seq, const struct gather_memory *memory, struct err *e);

/* ---- build.c: series on axes ----------------------------------------------------- */

#define BUILD_POINTS (3 * CHUNK_POINTS_MAX / 2) /* of a series; then some are put onto axes */
#define BUILD_BYTES_MAX (1u << 30)
#define BUILD_AXES 4u    /* latest axes, kept as columns */
#define BUILD_WAITING 3u /* series whose axis is not decided */

struct build_axis {
	uint32_t n;
	size_t at, len; /* its body in build.axis_bytes */
	int64_t id;     /* row of axis; 0: not written */
	uint32_t group; /* 1 + the group that it is in; 0: none */
	uint32_t column;
};
/* Axes that are one row of moments. */
struct build_group {
	uint32_t n;
	size_t at, len; /* its body in build.group_bytes */
	int64_t id;     /* row of axis; 0: not written */
};
struct build_slot {
	struct axis axis;
	uint32_t index; /* in build.axes */
	uint64_t used;
};
struct build_entry {
	uint32_t series, axis, n;
	uint32_t order; /* in which it was made */
	bool is_hist, is_full, sealed;
	uint32_t end;   /* 1 + the column of its group with the ends of its spans; 0: none */
	size_t at, len; /* its body in build.bytes */
};
struct build_wait {
	uint32_t series;
	struct points points;
	size_t from; /* points before it are done */
};
struct build {
	const char *path;
	struct err *e;
	struct column_codec *columns;
	struct build_axis *axes;
	size_t n_axes, cap_axes;
	struct build_slot slots[BUILD_AXES];
	size_t n_slots;
	bool quick; /* what does not fill an axis will soon be put again */
	uint64_t clock;
	struct build_entry *entries;
	size_t n_entries, cap_entries;
	uint32_t made; /* entries so far */
	int (*flush)(void *arg);
	void *flush_arg;
	size_t flushed; /* bytes that the last flush left */
	bool is_loop;   /* steps of an axis that was made since then change */
	struct build_wait waiting[BUILD_WAITING];
	size_t n_waiting;
	struct build_group *groups;
	size_t n_groups, cap_groups;
	struct buf bytes, axis_bytes, group_bytes;
	struct presence presence;
};
void build_init(struct build *b, const char *path, struct column_codec *columns, struct err *e);
void build_done(struct build *b);
/* Take points of a series, series ascending; p->n becomes 0, or, if more will
 * come, less than BUILD_POINTS - 1. 0 or -errno. */
int build_points(struct build *b, uint32_t series, struct points *p, bool more);
int build_hists(struct build *b, uint32_t series, struct hists *h, bool more);
/* Call flush whenever new entries have some 100 KB, or a megabyte with those of a loop:
 * they are in order, and those of a series that is not waiting are complete. It may seal
 * some and then drop them. */
void build_on_flush(struct build *b, int (*flush)(void *arg), void *arg);
bool build_is_waiting(const struct build *b, uint32_t series);
/* Forget the entries marked `sealed`, in any order then. */
void build_drop_sealed(struct build *b);
/* All has come: the entries are complete, points first, by series. */
int build_end(struct build *b);
struct merged_axis build_axis_at(const struct build *b, size_t i);

/* Write the entries that are not sealed as the merged row of commits first to
 * seq, giving up b's bytes; *ret is left alone if there are none. */
int fold_write_merged(struct store *s, struct build *b, uint64_t seq, uint64_t first, struct err *e,
		      struct store_merged *ret);

/* ---- gather.c: the tail by series -------------------------------------------------- */

/* Points of a commit that has no row: n series, ascending, so many of each. */
struct gather_memory {
	const struct points *points;
	const uint32_t *series, *lengths;
	size_t n;
};

/* Give the points of rows, oldest first, then of memory (NULL: none), to b, series by
 * series. 0 or -errno. */
int gather_rows(struct store *s, struct fold_row *rows, size_t n,
		const struct gather_memory *memory, struct build *b, struct err *e);

/* ---- group.c: axes that follow from each other ---------------------------------------- */

/* Make groups of the axes of entries marked `sealed` that have no row yet. Until this they
 * are alone. 0 or -ENOMEM. */
int group_axes(const struct catalog *d, struct build *b);
/* What is to be written has been: groups that have a row stay known by it. */
void group_forget(struct build *b);

/* ---- seal.c: entries to chunks ------------------------------------------------------ */

/* Write the entries marked `sealed` as chunks, with axes, packs and summaries. The
 * last ids used are in meta. 0 or -errno. */
int seal_entries(struct store *s, struct build *b, int64_t meta[META_N], struct err *e);

/* ---- chunkrow.c: the table chunk ---------------------------------------------------- */

/* Columns in the order in which chunkrow_read() takes them. */
#define CHUNKROW_COLUMNS                                                                           \
	"series, ordinal, start, n, segment, segment_step, segment_time, axis, pack, at, len"
#define CHUNKROW_PACK (64u << 10)     /* a pack is closed at this size */
#define CHUNKROW_PACK_MAX (16u << 20) /* and never has more: a chunk of histograms may be long */

void chunkrow_bind(sqlite3_stmt *st, const struct chunk *c);
/* 0 or -EUCLEAN: numbers that no lapse writes. */
int chunkrow_read(sqlite3_stmt *st, const char *path, struct err *e, struct chunk *ret);

/* Axes of one database that were used last, decoded: at most AXES_KEPT of 256 KiB, or with
 * moments of 64 KiB more for each column of times that was needed, and its bytes. */
#define AXES_KEPT 16
struct axis_kept {
	int64_t id; /* 0: none */
	uint64_t used;
	struct axis axis;
};
struct axis_cache {
	struct axis_kept kept[AXES_KEPT];
	size_t n;                /* places in use */
	int64_t gone[AXES_KEPT]; /* ids of axes that had to go, 0: none */
	uint64_t n_gone, clock;
};
void axis_cache_done(struct axis_cache *c);

/* Reading the points behind rows. */
struct chunkdata {
	sqlite3 *db;
	const char *path;
	struct blob_codec *codec;
	struct column_codec *columns;
	sqlite3_stmt *get_axis;
	sqlite3_blob *pack; /* row pack_id */
	int64_t pack_id;
	struct axis_cache *axes; /* somebody's, or NULL */
	struct axis_cache own;
	struct buf bytes;
};
/* axes: where decoded axes are kept, also for others; NULL: until it is done. */
void chunkdata_init(struct chunkdata *d, sqlite3 *db, const char *path, struct blob_codec *codec,
		    struct column_codec *columns, struct axis_cache *axes);
void chunkdata_done(struct chunkdata *d);
/* Let go of the pack, so that no transaction stays open. */
void chunkdata_end(struct chunkdata *d);
/* Append a chunk's points to points or hists. */
int chunkdata_read(struct chunkdata *d, const struct chunk *c, bool is_hist, struct err *e,
		   struct points *points, struct hists *hists);
/* A chunk's points, which need not be copied: valid until the next call, points holding
 * some of them. */
int chunkdata_view(struct chunkdata *d, const struct chunk *c, struct err *e, struct points *points,
		   struct points_view *ret);
/* A chunk's values, for which ret has room; points is scratch. */
int chunkdata_values(struct chunkdata *d, const struct chunk *c, struct err *e,
		     struct points *points, double *ret);

#endif

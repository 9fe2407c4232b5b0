/* SPDX-License-Identifier: Apache-2.0
 *
 * hosts.h - the reader's state: one connection a host's file, and its tail in memory.
 * Only for files of this folder.
 */
#ifndef STORE_HOSTS_H
#define STORE_HOSTS_H

#include "store/store_priv.h"

#define HOSTS_MAX 4096u
#define HOSTS_HOLD_NS 200000000 /* longest a transaction is held, about */
#define HOSTS_TAIL_MAX (512u << 20)

/* A tail row in memory, plain or merged; never changes. */
struct hosts_tail {
	uint64_t seq;
	struct blob blob; /* body owned */
};

/* Statements that are kept, but not of files that move. */
enum hosts_sql {
	HOSTS_KIND,
	HOSTS_CHUNKS,
	HOSTS_CHUNK,
	HOSTS_SUMMARY,
	HOSTS_SQL_N
};

struct hosts_one {
	char *name, *path; /* path: of what is open */
	char *dir, *file;
	bool moves;   /* another file may come to be the one to read */
	bool frozen;  /* opened by db_open_frozen() */
	bool damaged; /* which has been told */
	dev_t dev;
	ino_t ino;
	sqlite3 *db;
	struct hosts_tail *tail; /* merged rows, then plain ones */
	size_t n_tail, cap_tail, tail_bytes;
	int64_t folds; /* as of which the merged rows are */
	struct axis_cache axes;
	sqlite3_stmt *sql[HOSTS_SQL_N]; /* made when first used */
};

struct store_reader {
	struct hosts_one *hosts;
	size_t n_hosts, cap_hosts;
	struct buf warning;
	struct blob_codec codec;
	struct column_codec columns;
	char *run_text[12]; /* strings of store_reader_run() */
	bool edit_is_bad;   /* it has been told that run.edit cannot be read */
};

/* Bring host's tail up to date with the transaction that is open. */
int hosts_sync_tail(struct store_reader *r, struct hosts_one *h, struct err *e);
int hosts_begin(struct hosts_one *h, struct err *e);
/* What reading from h gave, code and why: damage of one host's file is told by the
 * warning, once, and becomes 0; all else is handed on. */
int hosts_forgive(struct store_reader *r, struct hosts_one *h, int code, const struct err *why,
		  struct err *e);
void hosts_end(struct hosts_one *h);
/* A statement, until hosts_sql_end(). */
int hosts_sql(struct hosts_one *h, enum hosts_sql which, struct err *e, sqlite3_stmt **ret);
void hosts_sql_end(struct hosts_one *h, enum hosts_sql which, sqlite3_stmt *st);

/* Append what a row of the tail has of a series; nothing if it has none. */
int hosts_points(struct store_reader *r, const struct hosts_one *h, const struct hosts_tail *row,
		 uint32_t series, bool is_hist, struct err *e, struct points *points,
		 struct hists *hists);

#endif

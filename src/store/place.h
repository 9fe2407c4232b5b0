/* SPDX-License-Identifier: Apache-2.0
 *
 * place.h - where a host's file of a run lies. Where a WAL is not safe in the run's
 * folder the live file is in a folder of this host, and a pointer, HOST.live, in
 * the run's folder says where; at the end it is moved there. docs/schema.md, "Life
 * of the files", has the order of things.
 */
#ifndef STORE_PLACE_H
#define STORE_PLACE_H

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- place.c: pointers, private folders ------------------------------------------------- */

/* HOST.live; strings owned. */
struct place_pointer {
	char *host, *boot; /* whose it is, and of which boot */
	char *path;        /* of the live database on that host */
	int64_t since_ns;  /* UTC */
};
void place_pointer_done(struct place_pointer *p);
/* 0, -ENOENT; -EBADMSG: no such text. */
int place_pointer_read(const char *path, struct place_pointer *ret);
/* Down to the disk. */
int place_pointer_write(const char *path, const struct place_pointer *p, struct err *e);

/* The file `origin` in a folder of a live database: whose it is. */
int place_origin_write(const char *folder, const char *dir, const char *file, struct err *e);
/* Strings are freed by the caller. 0, -ENOENT, -EBADMSG. */
int place_origin_read(const char *folder, char **ret_dir, char **ret_file);

/* This boot of this machine: 36 characters; "" if it cannot be known. */
void place_boot(char out[40]);

/* Folders in which live files may lie, in order of preference; the caller frees each.
 * NULL: there is no i-th. */
char *place_candidate(const char *explicit_dir, size_t i);
/* The first that is, or can be made, ours (mode 0700) on a file system where a WAL is
 * safe, with so much room. The caller frees it. -ENOSPC and why not. */
int place_choose(const char *explicit_dir, uint64_t bytes, struct err *e, char **ret);

/* Remove a folder and the plain files in it. */
void place_remove(const char *folder);

/* Is there such a file? */
bool place_is(const char *path, const char *suffix);
/* Does the folder of a live database belong to FILE in DIR, as seen from here? */
bool place_is_of(const char *folder, const char *dir, const char *file);

/* What a reader opens for HOST.db in dir. */
struct place_view {
	char *path;     /* owned; NULL: there is nothing yet */
	bool is_live;   /* it is in a private folder of this host */
	bool is_frozen; /* nobody writes it in place and its file system may be shared:
			   to be read without locks */
};
/* What a reader should know, if it is not the newest, is added to *warning. */
void place_find(const char *dir, const char *file, struct buf *warning, struct place_view *ret);

/* The run in dir is to be deleted: so are its live files in private folders of this
 * host that nobody writes. */
void place_drop(const char *dir);

/* ---- move.c: the writer's side ------------------------------------------------------------- */

struct place {
	const char *dir, *file, *home; /* run's folder, HOST.db, DIR/HOST.db; of the store */
	char *pointer;                 /* DIR/HOST.live */
	char *folder;                  /* of the live file; NULL: it is at home */
	int lock_fd;                   /* folder/lock */
	int64_t copy_every_ns;
	char *lost, *slow; /* events to write: a live file that is not to be found; no
			      private folder to be had */
	/* the thread that copies */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool running, stop;
};

/* Settle where the file lives: takes up a live one, or makes one of the file at home
 * if that is wanted. The run's lock is held. *ret_path is the database's (owned by
 * the caller), *ret_wal whether a WAL may be used. */
int place_settle(struct place *p, const struct store_options *o, struct err *e, char **ret_path,
		 bool *ret_wal);
void place_done(struct place *p);

/* Copy the live database home now and then, from a thread. */
int place_start(struct place *p, const char *path, struct err *e);
void place_stop(struct place *p);
/* One copy: a snapshot, then file by file; the one at home is replaced. */
int place_copy(struct place *p, const char *path, struct err *e);
/* The database at path is closed for good: bring it home, forget the live one. On
 * error it stays where it is, and *e says where. */
int place_finish(struct place *p, const char *path, struct err *e);

#endif

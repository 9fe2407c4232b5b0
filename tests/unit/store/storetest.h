/* SPDX-License-Identifier: Apache-2.0
 *
 * storetest.h - what the store's tests share: a folder of their own, a store in
 * it, short ways to push, and the points that a reader gives.
 */
#ifndef STORETEST_H
#define STORETEST_H

#include "store/store_priv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new empty folder; freed and removed with all in it by storetest_remove(). */
char *storetest_dir(void);
void storetest_remove(char *dir);

/* For cmocka: *state is such a folder. */
int storetest_setup(void **state);
int storetest_teardown(void **state);

/* A number below n at random; the state is the test's, so that it is the same each time. */
uint64_t storetest_random(uint64_t *state, uint64_t n);

/* The double with these bits. */
double storetest_double(uint64_t bits);

/* DIR/NAME; the caller frees it. */
char *storetest_path(const char *dir, const char *name);

/* Open DIR/h.db; the test fails if that fails. */
struct store *storetest_open(const char *dir);
void storetest_close(struct store *s);

/* Process with this byte as its uid, and a series of it. */
uint32_t storetest_process(struct store *s, uint8_t uid);
uint32_t storetest_series(struct store *s, uint32_t process, const char *name, enum sink_kind kind);

/* One sample. */
void storetest_push(struct store *s, uint32_t series, int64_t time, int64_t step, double value);
void storetest_commit(struct store *s);
/* n samples that count up from `first`, each at that time and step, and a commit. */
void storetest_push_many(struct store *s, uint32_t series, size_t n, int64_t first);
/* Fold and seal all; fold so that only full chunks are sealed. */
void storetest_fold(struct store *s);
void storetest_merge(struct store *s);
/* store_check() of DIR/h.db finds nothing. */
void storetest_check(const char *dir);

/* All points of a series, copied; freed by the caller. */
struct storetest_points {
	struct store_point *v;
	size_t n, cap;
};
struct storetest_points storetest_read(struct store_reader *r, uint32_t series,
				       const struct store_range *range);
/* Open a reader; the test fails if that fails. */
struct store_reader *storetest_reader(const char *dir);
/* As storetest_read(), with a reader opened for it. */
struct storetest_points storetest_read_dir(const char *dir, uint32_t series);

/* Run SQL on DIR/h.db with a connection of its own; the first column of the
 * first row. */
int64_t storetest_sql(const char *dir, const char *sql);

/* Number of files in dir whose name begins with prefix. */
size_t storetest_count(const char *dir, const char *prefix);

#endif

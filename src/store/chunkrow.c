/* SPDX-License-Identifier: Apache-2.0
 *
 * chunkrow.c - rows of the table chunk to and from SQL. NULL stands for NaN and
 * for "none".
 */
#include "store/store_priv.h"

#include <errno.h>
#include <math.h>

static void chunkrow_bind_step(sqlite3_stmt *st, int at, int64_t step)
{
	if (step != SINK_STEP_NONE)
		sqlite3_bind_int64(st, at, step);
}

void chunkrow_bind(sqlite3_stmt *st, const struct chunk *c)
{
	sqlite3_bind_int64(st, 1, c->series);
	sqlite3_bind_int64(st, 2, c->ordinal);
	sqlite3_bind_int64(st, 3, c->data);
	sqlite3_bind_int64(st, 4, (int64_t)c->start);
	sqlite3_bind_int64(st, 5, c->n);
	sqlite3_bind_int64(st, 6, c->segment.no);
	chunkrow_bind_step(st, 7, c->segment.step);
	sqlite3_bind_int64(st, 8, c->segment.time);
	sqlite3_bind_int64(st, 9, (int64_t)c->seq_min);
	sqlite3_bind_int64(st, 10, (int64_t)c->seq_max);
	sqlite3_bind_int64(st, 11, c->time_min);
	sqlite3_bind_int64(st, 12, c->time_max);
	chunkrow_bind_step(st, 13, c->step_min);
	chunkrow_bind_step(st, 14, c->step_max);
	sqlite3_bind_int64(st, 15, (int64_t)c->nan);
	sqlite3_bind_int64(st, 16, (int64_t)c->observed);
	/* SQLite stores NaN as NULL. */
	sqlite3_bind_double(st, 17, c->sum);
	sqlite3_bind_double(st, 18, c->min);
	sqlite3_bind_double(st, 19, c->max);
	if (c->min_at >= 0)
		sqlite3_bind_int64(st, 20, c->min_at);
	if (c->max_at >= 0)
		sqlite3_bind_int64(st, 21, c->max_at);
	sqlite3_bind_double(st, 22, c->first);
	sqlite3_bind_double(st, 23, c->last);
}

static int64_t chunkrow_int(sqlite3_stmt *st, int at, int64_t none)
{
	return sqlite3_column_type(st, at) == SQLITE_NULL ? none : sqlite3_column_int64(st, at);
}

static double chunkrow_double(sqlite3_stmt *st, int at)
{
	return sqlite3_column_type(st, at) == SQLITE_NULL ? NAN : sqlite3_column_double(st, at);
}

static bool chunkrow_is_sane(sqlite3_stmt *st)
{
	int64_t ordinal = sqlite3_column_int64(st, 1), n = sqlite3_column_int64(st, 4);
	int64_t segment = sqlite3_column_int64(st, 5), series = sqlite3_column_int64(st, 0);

	return series > 0 && series <= CATALOG_SERIES_MAX && ordinal >= 0 && ordinal < UINT32_MAX &&
	       sqlite3_column_int64(st, 2) > 0 && sqlite3_column_int64(st, 3) >= 0 && n > 0 &&
	       n <= CHUNK_POINTS_MAX && segment >= 0 && segment < SEGMENTS_MAX;
}

int chunkrow_read(sqlite3_stmt *st, const char *path, struct err *e, struct chunk *ret)
{
	if (!chunkrow_is_sane(st))
		return err_set(e, -EUCLEAN,
			       "%s: table chunk, series %lld, ordinal %lld: impossible row", path,
			       sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1));
	ret->series = (uint32_t)sqlite3_column_int64(st, 0);
	ret->ordinal = (uint32_t)sqlite3_column_int64(st, 1);
	ret->data = sqlite3_column_int64(st, 2);
	ret->start = (uint64_t)sqlite3_column_int64(st, 3);
	ret->n = (uint32_t)sqlite3_column_int64(st, 4);
	ret->segment.no = (uint32_t)sqlite3_column_int64(st, 5);
	ret->segment.step = chunkrow_int(st, 6, SINK_STEP_NONE);
	ret->segment.time = sqlite3_column_int64(st, 7);
	ret->seq_min = (uint64_t)sqlite3_column_int64(st, 8);
	ret->seq_max = (uint64_t)sqlite3_column_int64(st, 9);
	ret->time_min = sqlite3_column_int64(st, 10);
	ret->time_max = sqlite3_column_int64(st, 11);
	ret->step_min = chunkrow_int(st, 12, SINK_STEP_NONE);
	ret->step_max = chunkrow_int(st, 13, SINK_STEP_NONE);
	ret->nan = (uint64_t)sqlite3_column_int64(st, 14);
	ret->observed = (uint64_t)sqlite3_column_int64(st, 15);
	ret->sum = chunkrow_double(st, 16);
	ret->min = chunkrow_double(st, 17);
	ret->max = chunkrow_double(st, 18);
	ret->min_at = chunkrow_int(st, 19, -1);
	ret->max_at = chunkrow_int(st, 20, -1);
	ret->first = chunkrow_double(st, 21);
	ret->last = chunkrow_double(st, 22);
	return 0;
}

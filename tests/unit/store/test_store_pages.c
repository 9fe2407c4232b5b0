/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_pages.c - what folding leaves besides chunks: the figures of a series, its
 * summary tree and leaves, pages of histograms.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "storetest.h"

/* The page of a summary tree, decoded. */
static size_t read_page(const char *dir, int64_t id, struct summary nodes[SUMMARY_PAGE])
{
	char *path = storetest_path(dir, "h.db");
	struct sumtree_db db = {.path = path};
	struct column_codec columns;
	struct blob_codec codec;
	struct err e = {0};
	sqlite3 *sql;
	size_t n = 0;

	blob_codec_init(&codec);
	column_codec_init(&columns);
	db.codec = &codec;
	db.columns = &columns;
	assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
	assert_int_equal(db_prepare(sql, "SELECT blob FROM summary WHERE id = ?1", &e, &db.get), 0);
	if (sumtree_get(&db, id, &e, nodes, &n) < 0)
		fail_msg("%s", e.text);
	sqlite3_finalize(db.get);
	sqlite3_close(sql);
	blob_codec_done(&codec);
	column_codec_done(&columns);
	free(path);
	return n;
}

static void test_figures(void **state)
{
	static const double values[] = {2, NAN, -4.5, 8, 8};
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	struct summary nodes[SUMMARY_PAGE];
	size_t i;

	for (i = 0; i < 5; i++)
		storetest_push(s, id, 1000 - (int64_t)i, 3 + (int64_t)(i / 2), values[i]);
	storetest_commit(s);
	storetest_fold(s);
	{
		const struct summary *n = nodes;

		assert_int_equal(read_page(*state, summary_id(id, 1, 0), nodes), 1);
		assert_true(n->n == 5 && n->nan == 1 && n->observed == 4 && n->sum == 13.5);
		assert_true(n->min == -4.5 && n->max == 8 && n->min_at == 2 && n->max_at == 3);
		assert_true(n->first == 2 && n->last == 8 && n->time_min == 996 &&
			    n->time_max == 1000 && n->step_min == 3 && n->step_max == 5);
		assert_true(n->segment_min == 0 && n->segment_max == 0);
	}
	/* The chunk's one leaf would say the same. */
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM summary"), 1);
	storetest_close(s);
	storetest_check(*state);
}

/* 300 chunks of one point each: the tree has pages and levels as stated, and grows
 * a chunk at a time or many at once to the same. */
static void test_tree(void **state)
{
	struct summary nodes[SUMMARY_PAGE];
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	size_t i;

	for (i = 0; i < 300; i++) {
		storetest_push(s, id, (int64_t)i, (int64_t)(300 - i), (double)(i * 7 % 300));
		storetest_commit(s);
		if (i < 20 || i % 37 == 0 || i == 299)
			storetest_fold(s);
		if (i < 20)
			storetest_check(*state);
	}
	storetest_check(*state);
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM chunk"), 300);
	/* Levels of 300, 75, 19, 5 and 2 nodes above the leaves, the first in 3 pages. */
	assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM summary"), 3 + 4);
	assert_int_equal(read_page(*state, summary_id(id, 1, 2), nodes), 44);
	assert_int_equal(read_page(*state, summary_id(id, 2, 0), nodes), 75);
	assert_true(nodes[74].n == 4 && nodes[74].time_min == 296 && nodes[74].time_max == 299);
	assert_int_equal(read_page(*state, summary_id(id, 3, 0), nodes), 19);
	assert_true(nodes[18].n == 12 && nodes[18].time_min == 288 && nodes[18].time_max == 299);
	assert_true(nodes[1].first == 16 * 7 && nodes[1].last == 31 * 7 && nodes[1].min_at == 0);
	assert_int_equal(read_page(*state, summary_id(id, 4, 0), nodes), 5);
	assert_true(nodes[3].n == 64 && nodes[4].n == 44 && nodes[4].time_min == 256);
	assert_int_equal(read_page(*state, summary_id(id, 5, 0), nodes), 2);
	assert_true(nodes[0].n == 256 && nodes[1].n == 44 && nodes[0].segment_max == 255);
	assert_true(nodes[0].min == 0 && nodes[0].min_at == 0 && nodes[0].max == 298 &&
		    nodes[0].max_at == 214);
	assert_true(nodes[1].max == 299 && nodes[1].max_at == 257 - 256);
	storetest_close(s);
	storetest_check(*state);
}

static void test_histograms(void **state)
{
	struct store *s = storetest_open(*state);
	struct sink *k = store_sink(s);
	uint32_t p = storetest_process(s, 1), g = storetest_series(s, p, "g", SINK_GAUGE);
	uint32_t id = storetest_series(s, p, "h", SINK_HISTOGRAM);
	struct sink_bin bins[2] = {{0x3ff0, 3}, {0x4000, 1}};
	struct sink_hist h = {.series = id,
			      .count = 4,
			      .nan = 1,
			      .sum = 5.5,
			      .min = 1,
			      .max = 2,
			      .bins = bins,
			      .n_bins = 2};
	struct summary nodes[SUMMARY_PAGE];
	struct storetest_points got;
	size_t i, n;

	for (i = 0; i < 3000; i++) {
		h.time_ns = h.step = (int64_t)i;
		assert_int_equal(k->ops->hist(k, &h), 0);
		storetest_push(s, g, (int64_t)i, (int64_t)i, 1);
		if (i == 1300 || i == 1310) {
			storetest_commit(s);
			storetest_fold(s);
		}
	}
	storetest_commit(s);
	got = storetest_read_dir(*state, id);
	assert_int_equal(got.n, 3000);
	assert_true(got.v[2999].step == 2999 && got.v[2999].value == 5.5 / 4);
	free(got.v);
	storetest_close(s);
	storetest_check(*state);
	assert_int_equal(storetest_sql(*state, "SELECT sum(n) FROM chunk WHERE series=2"), 3000);
	assert_int_equal(storetest_sql(*state, "SELECT max(n) FROM chunk WHERE series=2"),
			 CHUNK_HISTS_MAX);
	n = read_page(*state, summary_id(id, 1, 0), nodes);
	for (i = 0; i < n; i++)
		assert_true(nodes[i].observed == 4 * nodes[i].n && nodes[i].nan == nodes[i].n &&
			    nodes[i].sum == 5.5 * (double)nodes[i].n && nodes[i].min == 1 &&
			    nodes[i].max == 2 && isnan(nodes[i].first));
}

/* Leaves of 512 points, in pages of 8 chunks, and quarters of 4 leaves, in pages of 32;
 * pages of chunks with one such node each are left out, and come to be when a longer
 * chunk joins. */
static void test_leaves(void **state)
{
	struct summary nodes[SUMMARY_PAGE];
	struct store *s = storetest_open(*state);
	uint32_t id = storetest_series(s, storetest_process(s, 1), "a", SINK_GAUGE);
	int64_t first = 0;
	size_t i, n;

	for (i = 0; i < 20; i++) {
		n = i == 10 ? CHUNK_POINTS_MAX : i == 12 ? 513 : 1 + 51 * i % 512;
		storetest_push_many(s, id, n, first);
		storetest_fold(s);
		storetest_check(*state);
		first += (int64_t)n;
		assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM summary WHERE"
						       " (id >> 36 & 15) = 0"),
				 i >= 10);
		assert_int_equal(storetest_sql(*state, "SELECT count(*) FROM summary WHERE"
						       " (id >> 36 & 15) = 15"),
				 i >= 10);
	}
	assert_int_equal(read_page(*state, summary_id(id, SUMMARY_QUARTER, 0), nodes), 10 + 4 + 9);
	assert_true(nodes[9].n == 460 && nodes[10].n == 2048 && nodes[13].n == 2048);
	assert_true(nodes[12].last == nodes[13].first - 1 && nodes[13].max_at == 2047);
	assert_true(nodes[15].n == 513 && nodes[15].last == nodes[15].first + 512);
	assert_int_equal(read_page(*state, summary_id(id, 0, 1), nodes), 6 + 16 + 2);
	assert_true(nodes[2].n == 512 && nodes[17].n == 512 && nodes[2].last == nodes[3].first - 1);
	assert_true(nodes[19].n == 512 && nodes[20].n == 1);
	storetest_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_figures, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_tree, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_leaves, storetest_setup, storetest_teardown),
		cmocka_unit_test_setup_teardown(test_histograms, storetest_setup,
						storetest_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

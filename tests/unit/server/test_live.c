/* SPDX-License-Identifier: Apache-2.0
 *
 * Live updates: the bytes of events, points that become buckets, what is kept for clients
 * that come back, and changes of the list of runs.
 */
#include "server/feed_encode.h"
#include "server/feed_list.h"
#include "server/feed_ring.h"

#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct store_series loss = {.host_name = "node1",
					 .id = 3,
					 .process = 2,
					 .rank = 0,
					 .role = "trainer",
					 .name = "loss",
					 .labels = "",
					 .unit = "",
					 .help = "",
					 .source = "record",
					 .kind = SINK_GAUGE};

static void add(struct feed_points *p, const struct store_series *s, int64_t ns, int64_t step,
		double v)
{
	const struct store_point point = {.time_ns = ns, .step = step, .value = v};

	feed_points_add(p, s, &point);
}

/* ---- ids --------------------------------------------------------------------------------- */

static void test_ids(void **state)
{
	char id[FEED_ID_MAX];
	uint64_t seq = 7;

	(void)state;
	assert_string_equal(feed_id(id, "abcdef", 1041), "abcdef-1041");
	assert_true(feed_id_parse("abcdef-1041", "abcdef", &seq));
	assert_int_equal(seq, 1041);
	assert_true(feed_id_parse("abcdef-18446744073709551615", "abcdef", &seq));
	seq = 7;
	/* Another server's, and what none of us has written. */
	assert_false(feed_id_parse("abcdeg-1041", "abcdef", &seq));
	assert_false(feed_id_parse("abcdef-", "abcdef", &seq));
	assert_false(feed_id_parse("abcdef", "abcdef", &seq));
	assert_false(feed_id_parse("abcdef--1", "abcdef", &seq));
	assert_false(feed_id_parse("abcdef- 1", "abcdef", &seq));
	assert_false(feed_id_parse("abcdef-1x", "abcdef", &seq));
	assert_false(feed_id_parse("abcdef-18446744073709551616", "abcdef", &seq));
	assert_false(feed_id_parse("", "abcdef", &seq));
	assert_int_equal(seq, 7);
}

/* ---- events ------------------------------------------------------------------------------ */

static void test_points_one_by_one(void **state)
{
	const struct store_series other = {.host_name = "node1",
					   .id = 17,
					   .name = "gpu/busy",
					   .labels = "",
					   .kind = SINK_GAUGE};
	struct feed_batch b;
	struct feed_points p;

	(void)state;
	feed_batch_init(&b, "abcdef");
	feed_batch_reset(&b, "r1");
	feed_points_init(&p, &b, FEED_POINTS);
	add(&p, &loss, 1795874809001250000, 998, 1.75);
	add(&p, &loss, 1795874809101500001, 999, NAN);
	add(&p, &loss, 1795874809101500001, SINK_STEP_NONE, -INFINITY);
	add(&p, &other, 1795874809000000000, SINK_STEP_NONE, 0.75);
	feed_points_done(&p);
	assert_string_equal(
		buf_str(&b.bytes),
		"id: abcdef-1\nevent: points\ndata: {\"run\":\"r1\",\"series\":{"
		"\"node1/3\":[[1795874809001.25,998,1.75],[1795874809101.500001,999,\"NaN\"],"
		"[1795874809101.500001,null,\"-Infinity\"]],"
		"\"node1/17\":[[1795874809000,null,0.75]]},\"buckets\":{}}\n\n");
	assert_int_equal(p.count, 4);
	assert_int_equal(p.n_series, 2);
	assert_int_equal(p.step, 999);
	assert_int_equal(b.n, 1);
	assert_int_equal(b.marks[0].len, b.bytes.len);
	feed_batch_done(&b);
}

/* Five points where four may be: two buckets of two, one of one. */
static void test_buckets(void **state)
{
	struct feed_batch b;
	struct feed_points p;

	(void)state;
	feed_batch_init(&b, "abcdef");
	feed_batch_reset(&b, "r1");
	feed_points_init(&p, &b, 4);
	add(&p, &loss, 1000000, 1, 4);
	add(&p, &loss, 2000000, 2, 2);
	add(&p, &loss, 3000000, 3, NAN);
	add(&p, &loss, 4000000, SINK_STEP_NONE, 8);
	add(&p, &loss, 5000000, 5, NAN);
	feed_points_done(&p);
	assert_string_equal(buf_str(&b.bytes),
			    "id: abcdef-1\nevent: points\ndata: {\"run\":\"r1\",\"series\":{},"
			    "\"buckets\":{\"node1/3\":[[1,2,2,2,0,2,3,4,2],[3,4,3,2,1,8,8,8,8],"
			    "[5,5,5,1,1,null,null,null,\"NaN\"]]}}\n\n");
	feed_batch_done(&b);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (text = strstr(text, what); text; text = strstr(text + 1, what))
		n++;
	return n;
}

/* However many come: at least half as many buckets as may be, and no point is lost. */
static void test_buckets_of_many(void **state)
{
	size_t n, i;

	(void)state;
	for (n = 1; n <= 3000; n += n < 420 ? 1 : 97) {
		struct feed_batch b;
		struct feed_points p;
		uint64_t points = 0;
		const char *at;
		size_t buckets;

		feed_batch_init(&b, "abcdef");
		feed_batch_reset(&b, "r1");
		feed_points_init(&p, &b, FEED_POINTS);
		for (i = 0; i < n; i++)
			add(&p, &loss, (int64_t)i * 1000000, (int64_t)i, (double)i);
		feed_points_done(&p);
		at = strstr(buf_str(&b.bytes),
			    n > FEED_POINTS ? "\"buckets\":{\"node1/3\":[" : "\"node1/3\":[");
		assert_non_null(at);
		buckets = count(at, "],[") + 1;
		if (n <= FEED_POINTS) {
			assert_int_equal(buckets, n);
		} else {
			assert_true(buckets <= FEED_POINTS && buckets >= FEED_POINTS / 2);
			for (at = strchr(at, '[') + 1; *at == '['; at += at[1] == ',' ? 2 : 1) {
				unsigned long long of;

				assert_int_equal(sscanf(at, "[%*[^,],%*[^,],%*[^,],%llu", &of), 1);
				points += of;
				at = strchr(at, ']');
			}
			assert_int_equal(points, n);
		}
		feed_batch_done(&b);
	}
}

/* A series can be in an object but once: when it comes again another event begins. */
static void test_series_that_come_again(void **state)
{
	struct store_series later = loss, hist = loss, elsewhere = loss;
	struct feed_batch b;
	struct feed_points p;

	(void)state;
	later.id = 4;
	hist.id = 1;
	hist.kind = SINK_HISTOGRAM;
	elsewhere.id = 2;
	elsewhere.host = 1;
	elsewhere.host_name = "node2";
	feed_batch_init(&b, "abcdef");
	feed_batch_reset(&b, "r1");
	feed_points_init(&p, &b, FEED_POINTS);
	add(&p, &loss, 1000000, 1, 1);
	add(&p, &later, 1000000, 1, 1);
	add(&p, &hist, 1000000, 1, 1);
	add(&p, &elsewhere, 1000000, 1, 1);
	add(&p, &loss, 2000000, 1, 1);
	add(&p, &later, 2000000, 1, 1);
	feed_points_done(&p);
	assert_int_equal(b.n, 2);
	assert_int_equal(b.seq, 2);
	assert_string_equal(b.bytes.data + b.marks[1].at,
			    "id: abcdef-2\nevent: points\ndata: {\"run\":\"r1\",\"series\":{"
			    "\"node1/3\":[[2,1,1]],\"node1/4\":[[2,1,1]]},\"buckets\":{}}\n\n");
	feed_batch_done(&b);
}

/* More than clients can take at once is left out, and said. */
static void test_too_much(void **state)
{
	struct store_series s = loss;
	struct feed_batch b;
	struct feed_points p;
	size_t i;

	(void)state;
	feed_batch_init(&b, "abcdef");
	feed_batch_reset(&b, "r1");
	feed_points_init(&p, &b, FEED_POINTS);
	for (s.id = 1; s.id <= 1000; s.id++)
		for (i = 0; i < FEED_POINTS; i++)
			add(&p, &s, 1795874809001250000 + (int64_t)i, 123456, 1.0 / 3);
	feed_points_done(&p);
	assert_true(b.bytes.len < FEED_BATCH_MAX + 2 * FEED_EVENT_MAX);
	assert_true(b.n > 2);
	for (i = 0; i < b.n; i++)
		assert_true(b.marks[i].len < FEED_EVENT_MAX + 20000);
	assert_non_null(strstr(b.bytes.data + b.marks[b.n - 1].at,
			       "event: gap\ndata: {\"run\":\"r1\",\"reason\":\"much\"}\n\n"));
	feed_batch_done(&b);
}

/* Names may be anything: an event stays one line. */
static void test_hostile_names(void **state)
{
	struct store_series s = loss;
	struct store_event e = {.kind = "a\ndata: b",
				.text = "x\r\n\r\nid: 9",
				.attrs = "{\"k\":1}",
				.severity = 2,
				.step = 4,
				.process = 1,
				.time_ns = 1000000000};
	struct feed_batch b;
	struct json *j;

	(void)state;
	feed_batch_init(&b, "abcdef");
	feed_batch_reset(&b, "r1");
	s.name = "</script>\n\nevent: end";
	s.labels = "a=\"q\\\"\\\\\",b=\"\"";
	j = feed_batch_begin(&b, "series");
	feed_put_series(j, &s, 4711);
	feed_batch_end(&b);
	feed_put_event(feed_batch_begin(&b, "event"), &e, "h\n\nost");
	feed_batch_end(&b);
	assert_int_equal(count(b.bytes.data, "\n\n"), 2);
	assert_int_equal(count(b.bytes.data, "\n"), 8);
	assert_int_equal(count(b.bytes.data, "\r"), 0);
	assert_non_null(strstr(b.bytes.data, "\"label\":{\"a\":\"q\\\"\\\\\",\"b\":\"\"}"));
	assert_non_null(strstr(b.bytes.data, "\"id\":\"node1/3\""));
	assert_non_null(strstr(b.bytes.data, "\"pid\":4711"));
	assert_non_null(strstr(b.bytes.data, "\"attrs\":{\"k\":1}"));
	feed_batch_done(&b);
}

/* ---- what is kept ------------------------------------------------------------------------ */

static void test_ring(void **state)
{
	struct feed_ring r;
	char text[32];
	uint64_t seq;

	(void)state;
	feed_ring_init(&r, 10);
	assert_null(feed_ring_after(&r, 0));
	assert_int_equal(r.floor, 10);
	/* Other runs' events have the numbers between. */
	for (seq = 12; seq <= 1010; seq += 2) {
		snprintf(text, sizeof(text), "event %04u", (unsigned)seq);
		feed_ring_add(&r, seq, (int64_t)seq * 1000000000, text, 10);
	}
	assert_int_equal(r.n, 500);
	assert_int_equal(r.bytes, 5000);
	assert_int_equal(feed_ring_after(&r, 10)->seq, 12);
	assert_int_equal(feed_ring_after(&r, 12)->seq, 14);
	assert_int_equal(feed_ring_after(&r, 13)->seq, 14);
	assert_null(feed_ring_after(&r, 1010));
	assert_string_equal(feed_ring_after(&r, 500)->data, "event 0502");
	/* By bytes, then by age: an event is there or the floor is at it. */
	feed_ring_trim(&r, 0, 3000);
	assert_int_equal(r.n, 300);
	assert_int_equal(r.floor, 410);
	assert_int_equal(feed_ring_after(&r, r.floor)->seq, 412);
	feed_ring_trim(&r, INT64_C(1100) * 1000000000, 3000);
	assert_int_equal(feed_ring_after(&r, 0)->seq, 500);
	assert_int_equal(r.floor, 498);
	for (seq = 1012; seq <= 3000; seq++) {
		snprintf(text, sizeof(text), "event %04u", (unsigned)seq);
		feed_ring_add(&r, seq, (int64_t)seq * 1000000000, text, 10);
		feed_ring_trim(&r, (int64_t)seq * 1000000000, 3000);
		assert_int_equal(feed_ring_after(&r, r.floor)->seq > r.floor, 1);
		assert_string_equal(feed_ring_after(&r, seq - 1)->data, text);
	}
	assert_int_equal(r.n, 300);
	feed_ring_trim(&r, INT64_C(100000) * 1000000000, 3000);
	assert_int_equal(r.n, 0);
	assert_int_equal(r.floor, 3000);
	feed_ring_done(&r);
}

/* ---- the list of runs ---------------------------------------------------------------------- */

static const char *look(struct feed_list *l, char *const *roots, struct buf *out)
{
	const char *data;

	buf_reset(out);
	feed_list_look(l, roots, out);
	data = strstr(buf_str(out), "data: ");
	return data ? data + 6 : "";
}

static void test_list(void **state)
{
	char root[] = "/tmp/lapse-live-XXXXXX", a[64], b[64], file[80];
	char *const roots[] = {root, NULL}, *const none[] = {NULL};
	struct feed_list *l;
	struct buf out;
	FILE *f;

	(void)state;
	buf_init(&out, 1 << 20);
	assert_non_null(mkdtemp(root));
	snprintf(a, sizeof(a), "%s/20261128-140509-aaaa", root);
	snprintf(b, sizeof(b), "%s/20261128-140510-bbbb", root);
	snprintf(file, sizeof(file), "%s/run.edit", a);
	assert_int_equal(mkdir(a, 0700), 0);
	l = feed_list_new(roots);
	assert_string_equal(look(l, roots, &out), "");
	assert_int_equal(mkdir(b, 0700), 0);
	assert_string_equal(look(l, roots, &out),
			    "{\"new\":[\"20261128-140510-bbbb\"],\"gone\":[],\"changed\":[],"
			    "\"more\":false}\n\n");
	f = fopen(file, "w");
	assert_non_null(f);
	fclose(f);
	assert_string_equal(look(l, roots, &out),
			    "{\"new\":[],\"gone\":[],\"changed\":[\"20261128-140509-aaaa\"],"
			    "\"more\":false}\n\n");
	assert_string_equal(look(l, roots, &out), "");
	assert_int_equal(rmdir(b), 0);
	assert_string_equal(look(l, roots, &out),
			    "{\"new\":[],\"gone\":[\"20261128-140510-bbbb\"],\"changed\":[],"
			    "\"more\":false}\n\n");
	assert_string_equal(look(l, none, &out),
			    "{\"new\":[],\"gone\":[\"20261128-140509-aaaa\"],\"changed\":[],"
			    "\"more\":false}\n\n");
	feed_list_free(l);
	unlink(file);
	rmdir(a);
	rmdir(root);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_points_one_by_one),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_buckets_of_many),
		cmocka_unit_test(test_series_that_come_again),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests_name("server_live", tests, NULL, NULL);
}

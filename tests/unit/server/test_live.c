/* SPDX-License-Identifier: Apache-2.0
 *
 * Live updates: the bytes of events, points that become buckets, what is kept for clients
 * that come back, and changes of the list of runs.
 */
#include "server/http_priv.h"
#include "server/hub_encode.h"
#include "server/hub_list.h"
#include "server/hub_priv.h"
#include "server/hub_ring.h"
#include "server/routes.h"
#include "server/server_priv.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
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

static void add(struct hub_points *p, const struct store_series *s, int64_t ns, int64_t step,
		double v)
{
	const struct store_point point = {.time_ns = ns, .step = step, .value = v};

	hub_points_add(p, s, &point);
}

/* ---- ids --------------------------------------------------------------------------------- */

static void test_ids(void **state)
{
	char id[HUB_ID_MAX];
	uint64_t seq = 7;

	(void)state;
	assert_string_equal(hub_id(id, "abcdef", 1041), "abcdef-1041");
	assert_true(hub_id_parse("abcdef-1041", "abcdef", &seq));
	assert_int_equal(seq, 1041);
	assert_true(hub_id_parse("abcdef-18446744073709551615", "abcdef", &seq));
	seq = 7;
	/* Another server's, and what none of us has written. */
	assert_false(hub_id_parse("abcdeg-1041", "abcdef", &seq));
	assert_false(hub_id_parse("abcdef-", "abcdef", &seq));
	assert_false(hub_id_parse("abcdef", "abcdef", &seq));
	assert_false(hub_id_parse("abcdef--1", "abcdef", &seq));
	assert_false(hub_id_parse("abcdef- 1", "abcdef", &seq));
	assert_false(hub_id_parse("abcdef-1x", "abcdef", &seq));
	assert_false(hub_id_parse("abcdef-18446744073709551616", "abcdef", &seq));
	assert_false(hub_id_parse("", "abcdef", &seq));
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
	struct hub_batch b;
	struct hub_points p;

	(void)state;
	hub_batch_init(&b, "abcdef");
	hub_batch_reset(&b, "r1");
	hub_points_init(&p, &b, HUB_POINTS);
	add(&p, &loss, 1795874809001250000, 998, 1.75);
	add(&p, &loss, 1795874809101500001, 999, NAN);
	add(&p, &loss, 1795874809101500001, SINK_STEP_NONE, -INFINITY);
	add(&p, &other, 1795874809000000000, SINK_STEP_NONE, 0.75);
	hub_points_done(&p);
	assert_string_equal(
		buf_str(&b.bytes),
		"id: abcdef-1\nevent: points\ndata: {\"run\":\"r1\",\"series\":{"
		"\"node1/3\":[[1795874809001.25,998,1.75],[1795874809101.500001,999,\"NaN\"],"
		"[1795874809101.500001,null,\"-Infinity\"]],"
		"\"node1/17\":[[1795874809000,null,0.75]]},\"buckets\":{}}\n\n");
	assert_int_equal(p.count, 4);
	assert_int_equal(p.shown, 4);
	assert_int_equal(p.step, 999);
	assert_int_equal(b.n, 1);
	assert_int_equal(b.marks[0].len, b.bytes.len);
	hub_batch_done(&b);
}

/* Five points where four may be: two buckets of two, one of one. */
static void test_buckets(void **state)
{
	struct hub_batch b;
	struct hub_points p;

	(void)state;
	hub_batch_init(&b, "abcdef");
	hub_batch_reset(&b, "r1");
	hub_points_init(&p, &b, 4);
	add(&p, &loss, 1000000, 1, 4);
	add(&p, &loss, 2000000, 2, 2);
	add(&p, &loss, 3000000, 3, NAN);
	add(&p, &loss, 4000000, SINK_STEP_NONE, 8);
	add(&p, &loss, 5000000, 5, NAN);
	hub_points_done(&p);
	assert_string_equal(buf_str(&b.bytes),
			    "id: abcdef-1\nevent: points\ndata: {\"run\":\"r1\",\"series\":{},"
			    "\"buckets\":{\"node1/3\":[[1,2,2,2,0,2,3,4,2],[3,4,3,2,1,8,8,8,8],"
			    "[5,5,5,1,1,null,null,null,\"NaN\"]]}}\n\n");
	hub_batch_done(&b);
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
		struct hub_batch b;
		struct hub_points p;
		uint64_t points = 0;
		const char *at;
		size_t buckets;

		hub_batch_init(&b, "abcdef");
		hub_batch_reset(&b, "r1");
		hub_points_init(&p, &b, HUB_POINTS);
		for (i = 0; i < n; i++)
			add(&p, &loss, (int64_t)i * 1000000, (int64_t)i, (double)i);
		hub_points_done(&p);
		at = strstr(buf_str(&b.bytes),
			    n > HUB_POINTS ? "\"buckets\":{\"node1/3\":[" : "\"node1/3\":[");
		assert_non_null(at);
		buckets = count(at, "],[") + 1;
		if (n <= HUB_POINTS) {
			assert_int_equal(buckets, n);
		} else {
			assert_true(buckets <= HUB_POINTS && buckets >= HUB_POINTS / 2);
			for (at = strchr(at, '[') + 1; *at == '['; at += at[1] == ',' ? 2 : 1) {
				unsigned long long of;

				assert_int_equal(sscanf(at, "[%*[^,],%*[^,],%*[^,],%llu", &of), 1);
				points += of;
				at = strchr(at, ']');
			}
			assert_int_equal(points, n);
		}
		hub_batch_done(&b);
	}
}

/* A series can be in an object but once: when it comes again another event begins. */
static void test_series_that_come_again(void **state)
{
	struct store_series later = loss, hist = loss, elsewhere = loss;
	struct hub_batch b;
	struct hub_points p;

	(void)state;
	later.id = 4;
	hist.id = 1;
	hist.kind = SINK_HISTOGRAM;
	elsewhere.id = 2;
	elsewhere.host = 1;
	elsewhere.host_name = "node2";
	hub_batch_init(&b, "abcdef");
	hub_batch_reset(&b, "r1");
	hub_points_init(&p, &b, HUB_POINTS);
	add(&p, &loss, 1000000, 1, 1);
	add(&p, &later, 1000000, 1, 1);
	add(&p, &hist, 1000000, 1, 1);
	add(&p, &elsewhere, 1000000, 1, 1);
	add(&p, &loss, 2000000, 1, 1);
	add(&p, &later, 2000000, 1, 1);
	hub_points_done(&p);
	assert_int_equal(b.n, 2);
	assert_int_equal(b.seq, 2);
	assert_string_equal(b.bytes.data + b.marks[1].at,
			    "id: abcdef-2\nevent: points\ndata: {\"run\":\"r1\",\"series\":{"
			    "\"node1/3\":[[2,1,1]],\"node1/4\":[[2,1,1]]},\"buckets\":{}}\n\n");
	hub_batch_done(&b);
}

/* So many series, each with so many points. */
static struct hub_batch flood(uint32_t series, size_t points)
{
	struct store_series s = loss;
	struct hub_batch b;
	struct hub_points p;
	size_t i;

	hub_batch_init(&b, "abcdef");
	hub_batch_reset(&b, "r1");
	hub_points_init(&p, &b, HUB_POINTS);
	for (s.id = 1; s.id <= series; s.id++)
		for (i = 0; i < points; i++)
			add(&p, &s, 1795874809001250000 + (int64_t)i, 123456, 1.0 / 3);
	hub_points_done(&p);
	return b;
}

/* Series get less room, but each is there, as long as 768 KiB are enough for that; what is
 * more is left out, and said. */
static void test_much(void **state)
{
	static const char gap[] = "event: gap\ndata: {\"run\":\"r1\",\"reason\":\"much\"}\n\n";
	struct hub_batch b = flood(600, 500);
	size_t i;

	(void)state;
	assert_true(b.bytes.len < HUB_BATCH_MAX);
	assert_int_equal(count(b.bytes.data, "\"node1/"), 600);
	assert_null(strstr(b.bytes.data, gap));
	for (i = 0; i < b.n; i++)
		assert_true(b.marks[i].len < HUB_EVENT_MAX + 20000);
	hub_batch_done(&b);
	b = flood(20000, 3);
	assert_true(b.bytes.len < HUB_BATCH_MAX + 1000);
	assert_true(count(b.bytes.data, "\"node1/") > 3000);
	assert_non_null(strstr(b.bytes.data + b.marks[b.n - 1].at, gap));
	hub_batch_done(&b);
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
	struct hub_batch b;
	struct json *j;

	(void)state;
	hub_batch_init(&b, "abcdef");
	hub_batch_reset(&b, "r1");
	s.name = "</script>\n\nevent: end";
	s.labels = "a=\"q\\\"\\\\\",b=\"\"";
	j = hub_batch_begin(&b, "series");
	hub_put_series(j, &s, 4711);
	hub_batch_end(&b);
	hub_put_event(hub_batch_begin(&b, "event"), &e, "h\n\nost");
	hub_batch_end(&b);
	assert_int_equal(count(b.bytes.data, "\n\n"), 2);
	assert_int_equal(count(b.bytes.data, "\n"), 8);
	assert_int_equal(count(b.bytes.data, "\r"), 0);
	assert_non_null(strstr(b.bytes.data, "\"label\":{\"a\":\"q\\\"\\\\\",\"b\":\"\"}"));
	assert_non_null(strstr(b.bytes.data, "\"id\":\"node1/3\""));
	assert_non_null(strstr(b.bytes.data, "\"pid\":4711"));
	assert_non_null(strstr(b.bytes.data, "\"attrs\":{\"k\":1}"));
	hub_batch_done(&b);
}

/* ---- what is kept ------------------------------------------------------------------------ */

static void test_ring(void **state)
{
	struct hub_ring r;
	char text[32];
	uint64_t seq;

	(void)state;
	hub_ring_init(&r, 10);
	assert_null(hub_ring_after(&r, 0));
	assert_int_equal(r.floor, 10);
	/* Other runs' events have the numbers between. */
	for (seq = 12; seq <= 1010; seq += 2) {
		snprintf(text, sizeof(text), "event %04u", (unsigned)seq);
		hub_ring_add(&r, seq, (int64_t)seq * 1000000000, text, 10);
	}
	assert_int_equal(r.n, 500);
	assert_int_equal(r.bytes, 5000);
	assert_int_equal(hub_ring_after(&r, 10)->seq, 12);
	assert_int_equal(hub_ring_after(&r, 12)->seq, 14);
	assert_int_equal(hub_ring_after(&r, 13)->seq, 14);
	assert_null(hub_ring_after(&r, 1010));
	assert_string_equal(hub_ring_after(&r, 500)->data, "event 0502");
	/* By bytes, then by age: an event is there or the floor is at it. */
	hub_ring_trim(&r, 0, 3000);
	assert_int_equal(r.n, 300);
	assert_int_equal(r.floor, 410);
	assert_int_equal(hub_ring_after(&r, r.floor)->seq, 412);
	hub_ring_trim(&r, INT64_C(1100) * 1000000000, 3000);
	assert_int_equal(hub_ring_after(&r, 0)->seq, 500);
	assert_int_equal(r.floor, 498);
	for (seq = 1012; seq <= 3000; seq++) {
		snprintf(text, sizeof(text), "event %04u", (unsigned)seq);
		hub_ring_add(&r, seq, (int64_t)seq * 1000000000, text, 10);
		hub_ring_trim(&r, (int64_t)seq * 1000000000, 3000);
		assert_int_equal(hub_ring_after(&r, r.floor)->seq > r.floor, 1);
		assert_string_equal(hub_ring_after(&r, seq - 1)->data, text);
	}
	assert_int_equal(r.n, 300);
	hub_ring_trim(&r, INT64_C(100000) * 1000000000, 3000);
	assert_int_equal(r.n, 0);
	assert_int_equal(r.floor, 3000);
	hub_ring_done(&r);
}

/* ---- who comes back ------------------------------------------------------------------------ */

static MHD_ContentReaderCallback client_read;
static MHD_ContentReaderFreeCallback client_free;
static void *client_arg;

static struct MHD_Response *fake_response(uint64_t size, size_t block,
					  MHD_ContentReaderCallback read, void *arg,
					  MHD_ContentReaderFreeCallback done)
{
	(void)size;
	(void)block;
	client_read = read;
	client_arg = arg;
	client_free = done;
	return (struct MHD_Response *)arg;
}

static void fake_sleep(struct MHD_Connection *c)
{
	(void)c;
}

static const struct mhd_api fake_api = {.create_response_from_callback = fake_response,
					.suspend_connection = fake_sleep};

/* A hub without a thread, two runs with an event of 1,000 bytes by turns, and a client of both
 * that has event 10 and takes 4 KiB at a time. */
struct back {
	struct hub h;
	struct hub_client c;
	struct buf got;
};

static void back_init(struct back *b, uint64_t seq)
{
	static const char *const ids[] = {"a", "b"};
	char text[1001];
	unsigned i;

	*b = (struct back){.c = {.ask.n = 2, .after = "abcdef-10", .is_known = true}};
	b->c.is_late = true;
	b->c.at = 10;
	b->c.stream = http_stream_new(4096);
	for (i = 0; i < 2; i++) {
		b->c.runs[i] = hub_run_new(ids[i], "/nowhere", seq);
		b->c.runs[i]->cursor = store_cursor_new();
		b->c.told[i] = b->c.at;
	}
	hub_batch_init(&b->h.batch, "abcdef");
	buf_init(&b->h.out, 1 << 20);
	buf_init(&b->got, 1 << 20);
	for (i = 11; i <= 40; i++) {
		snprintf(text, sizeof(text), "event %c %02u %989s", 'a' + (char)(i % 2), i, "");
		hub_ring_add(&b->c.runs[i % 2]->ring, i, 1, text, 1000);
	}
	assert_non_null(http_stream_response(&fake_api, NULL, b->c.stream));
}

static void back_done(struct back *b)
{
	size_t i;

	for (i = 0; i < 2; i++)
		hub_run_free(b->c.runs[i]);
	client_free(client_arg);
	http_stream_discard(b->c.stream);
	hub_batch_done(&b->h.batch);
	buf_done(&b->h.out);
	buf_done(&b->got);
}

/* It reads all that waits, then the hub tends it. */
static void back_take(struct back *b)
{
	char data[4096];
	ssize_t n;

	while ((n = client_read(client_arg, 0, data, sizeof(data))) > 0)
		buf_append(&b->got, data, (size_t)n);
	assert_int_equal(n, 0);
	assert_true(hub_client_tend(&b->h, &b->c, 1));
}

/* What is dropped before a slow client has it is told, once, of its run only. */
static void test_dropped_meanwhile(void **state)
{
	static const char gap[] = "event: gap\ndata: {\"run\":\"b\",\"reason\":\"old\"}\n\n";
	struct back b;
	const char *at;
	int i;

	(void)state;
	back_init(&b, 0);
	assert_true(hub_client_greet(&b.h, &b.c, 1));
	back_take(&b);
	assert_true(b.c.is_late);
	hub_ring_trim(&b.c.runs[1]->ring, 1, 5000); /* 31 to 39 are left of run b */
	for (i = 0; b.c.is_late && i < 30; i++)
		back_take(&b);
	back_take(&b);
	at = strstr(buf_str(&b.got), gap);
	assert_non_null(at);
	assert_int_equal(count(buf_str(&b.got), "event: gap"), 1);
	assert_null(strstr(at, "event b 29"));
	assert_non_null(strstr(at, "event b 31"));
	assert_int_equal(count(buf_str(&b.got), "event a "), 15);
	assert_non_null(strstr(at, "event a 40"));
	back_done(&b);
}

/* A run that cannot be read at first: the client has meanwhile got on with the other one. */
static void test_greeted_late(void **state)
{
	struct store_cursor *cursor;
	struct back b;
	int i;

	(void)state;
	back_init(&b, 5);
	cursor = b.c.runs[1]->cursor;
	b.c.runs[1]->cursor = NULL;
	hub_ring_done(&b.c.runs[1]->ring);
	hub_ring_init(&b.c.runs[1]->ring, 30);
	for (i = 0; b.c.is_late && i < 30; i++) {
		assert_true(hub_client_greet(&b.h, &b.c, 1));
		back_take(&b);
	}
	assert_false(b.c.is_late);
	assert_int_equal(b.c.at, 40);
	b.c.runs[1]->cursor = cursor;
	back_take(&b);
	assert_int_equal(count(buf_str(&b.got), "event: gap"), 0);
	assert_true(hub_client_greet(&b.h, &b.c, 1));
	back_take(&b);
	assert_int_equal(count(buf_str(&b.got), "{\"run\":\"b\",\"reason\":\"old\"}"), 1);
	back_done(&b);
}

/* ---- the list of runs ---------------------------------------------------------------------- */

static const char *look(struct hub_list *l, char *const *roots, struct buf *out)
{
	const char *data;

	buf_reset(out);
	hub_list_look(l, roots, out);
	data = strstr(buf_str(out), "data: ");
	return data ? data + 6 : "";
}

static void test_list(void **state)
{
	char root[] = "/tmp/lapse-live-XXXXXX", a[64], b[64], file[80];
	char *const roots[] = {root, NULL}, *const none[] = {NULL};
	struct hub_list *l;
	struct buf out;
	FILE *f;

	(void)state;
	buf_init(&out, 1 << 20);
	assert_non_null(mkdtemp(root));
	snprintf(a, sizeof(a), "%s/20261128-140509-aaaa", root);
	snprintf(b, sizeof(b), "%s/20261128-140510-bbbb", root);
	snprintf(file, sizeof(file), "%s/run.edit", a);
	assert_int_equal(mkdir(a, 0700), 0);
	l = hub_list_new(roots);
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
	hub_list_free(l);
	unlink(file);
	rmdir(a);
	rmdir(root);
	buf_done(&out);
}

/* ---- without a thread --------------------------------------------------------------------- */

static bool has_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	return has_threads ? __real_pthread_create(thread, attr, fn, arg) : EAGAIN;
}

/* It is said what is missing, and when there are threads again there are streams. */
static void test_no_thread(void **state)
{
	struct http_request request = {.method = "GET", .params = {{"runs", "1"}}, .n_params = 1};
	struct server server = {.lock = PTHREAD_MUTEX_INITIALIZER,
				.parts_lock = PTHREAD_MUTEX_INITIALIZER};
	const struct route_ask ask = {.server = &server, .request = &request};
	struct http_reply reply = {0};

	(void)state;
	has_threads = false;
	route_live[0].answer(&ask, &reply);
	assert_int_equal(reply.status, 503);
	assert_non_null(strstr(buf_str(&reply.body), "no thread"));
	assert_null(reply.stream);
	buf_done(&reply.body);
	has_threads = true;
	reply = (struct http_reply){0};
	route_live[0].answer(&ask, &reply);
	assert_non_null(reply.stream);
	assert_int_equal(server.n_parts, 1);
	server.parts[0].part->stop(server.parts[0].state);
	server.parts[0].part->done(server.parts[0].state);
	http_stream_lost(reply.stream); /* the hub holds it no more */
	buf_done(&reply.body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_points_one_by_one),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_buckets_of_many),
		cmocka_unit_test(test_series_that_come_again),
		cmocka_unit_test(test_much),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_dropped_meanwhile),
		cmocka_unit_test(test_greeted_late),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_no_thread),
	};

	return cmocka_run_group_tests_name("server_live", tests, NULL, NULL);
}

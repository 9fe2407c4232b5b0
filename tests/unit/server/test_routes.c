/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a request without a network: which route, which parameters, what errors and
 * bodies look like; and that the table itself is sound.
 */
#include "server/body.h"
#include "server/routes_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void answer_none(const struct route_ask *a, struct http_reply *reply)
{
	(void)a;
	(void)reply;
}

static const struct param params[] = {
	{.name = "word", .lo = 1, .hi = 8},
	{.name = "n", .type = PARAM_INT, .lo = -5, .hi = 500},
	{.name = "on", .type = PARAM_FLAG},
	{.name = "axis", .type = PARAM_CHOICE, .choices = "time|step|relative", .is_many = true},
	{0},
};
static const struct param needed[] = {
	{.name = "run", .is_many = true, .is_needed = true, .help = "Two at least."},
	{0},
};
static const struct route group_a[] = {
	{.method = "GET", .path = "/", .answer = answer_none},
	{.method = "GET", .path = "/runs", .params = params, .answer = answer_none},
	{.method = "GET", .path = "/runs/{run}", .answer = answer_none},
	{.method = "POST", .path = "/runs/{run}/edit", .answer = answer_none},
	{0},
};
static const struct route group_b[] = {
	{.method = "GET", .path = "/runs/{run}/files/{name...}", .answer = answer_none},
	{.method = "GET", .path = "/compare", .params = needed, .answer = answer_none},
	{.method = "POST", .path = "/runs", .answer = answer_none},
	{0},
};
static const struct route *const groups[] = {group_a, group_b, NULL};

/* ---- which route ------------------------------------------------------------------------ */

static void finds(const char *method, const char *path, const char *pattern, const char *arg0,
		  const char *arg1)
{
	struct routes_found f = routes_find(groups, method, path);
	const char *want[] = {arg0, arg1};
	size_t i;

	assert_non_null(f.route);
	assert_string_equal(f.route->path, pattern);
	for (i = 0; i < 2 && want[i]; i++) {
		assert_true(i < f.n_args);
		assert_int_equal(f.args[i].len, strlen(want[i]));
		assert_memory_equal(f.args[i].at, want[i], f.args[i].len);
	}
	assert_int_equal(f.n_args, i);
}

static void test_match(void **state)
{
	(void)state;
	finds("GET", "/", "/", NULL, NULL);
	finds("HEAD", "/runs", "/runs", NULL, NULL);
	finds("GET", "/runs/20261128-140509-k3xw", "/runs/{run}", "20261128-140509-k3xw", NULL);
	finds("POST", "/runs/a/edit", "/runs/{run}/edit", "a", NULL);
	finds("GET", "/runs/a/files/b", "/runs/{run}/files/{name...}", "a", "b");
	finds("GET", "/runs/a/files/b/c..d/", "/runs/{run}/files/{name...}", "a", "b/c..d/");
	finds("POST", "/runs", "/runs", NULL, NULL);
}

static void misses(const char *method, const char *path, const char *allow)
{
	struct routes_found f = routes_find(groups, method, path);

	assert_null(f.route);
	assert_string_equal(f.allow, allow);
}

static void test_no_match(void **state)
{
	(void)state;
	misses("GET", "", "");
	misses("GET", "/run", "");
	misses("GET", "/runs/", "");
	misses("GET", "/runsx", "");
	misses("GET", "/runs//edit", "");
	misses("GET", "/runs/a/", "");
	misses("GET", "/runs/a/files/", "");
	misses("GET", "/runs/a/b/edit", "");
	misses("GET", "/runs/a/edit", "POST");
	misses("HEAD", "/runs/a/edit", "POST");
	misses("DELETE", "/runs/a", "GET, HEAD");
	misses("OPTIONS", "/runs", "GET, HEAD, POST");
	misses("get", "/runs", "GET, HEAD, POST");
}

/* ---- parameters --------------------------------------------------------------------------- */

static struct http_request request;

static void ask(const char *const *pairs)
{
	request = (struct http_request){.method = "GET", .path = "/runs"};
	for (; *pairs; pairs += 2)
		request.params[request.n_params++] = (struct http_param){pairs[0], pairs[1]};
}

static struct http_reply fresh(void)
{
	struct http_reply reply = {0};

	buf_init(&reply.body, HTTP_REPLY_MAX);
	return reply;
}

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void passes(const char *const *pairs)
{
	struct http_reply reply = fresh();

	ask(pairs);
	assert_true(params_check(&group_a[1], &request, &reply));
	assert_int_equal(reply.body.len, 0);
	buf_done(&reply.body);
}

/* What is wrong is named. */
static void fails(const char *const *pairs, const char *what)
{
	struct http_reply reply = fresh();

	ask(pairs);
	assert_false(params_check(&group_a[1], &request, &reply));
	assert_int_equal(reply.status, 400);
	assert_non_null(strstr(reply.body.data, "{\"error\":{\"code\":\"bad-parameter\""));
	if (!strstr(reply.body.data, what))
		fail_msg("\"%s\" is not in %s", what, reply.body.data);
	buf_done(&reply.body);
}

static void test_params(void **state)
{
	(void)state;
	passes(PAIRS("word", "a"));
	passes(PAIRS("word", "\xc3\xa4\xe2\x82\xac..."));
	passes(PAIRS("n", "-5", "on", "0", "axis", "step", "axis", "time"));
	passes(PAIRS("n", "500", "on", "true"));
	fails(PAIRS("wrod", "a"), "did you mean \\\"word\\\"?");
	fails(PAIRS("zzzzzz", "a"), "It takes word, n, on, axis.");
	fails(PAIRS("word", "a", "word", "b"), "word is there twice");
	fails(PAIRS("word", ""), "it may have 1 to 8");
	fails(PAIRS("word", "123456789"), "word has 9 bytes");
	fails(PAIRS("word", "a\nb"), "word has, at byte 1,");
	fails(PAIRS("word", "a\xff"), "word has, at byte 1,");
	fails(PAIRS("word", "a\x7f"), "word has, at byte 1,");
	fails(PAIRS("n", "501"), "from -5 to 500");
	fails(PAIRS("n", "-6"), "from -5 to 500");
	fails(PAIRS("n", "99999999999999999999"), "from -5 to 500");
	fails(PAIRS("n", "1.5"), "n is \\\"1.5\\\"");
	fails(PAIRS("n", ""), "n is \\\"\\\"");
	fails(PAIRS("n", "0x10"), "whole number");
	fails(PAIRS("on", "yes"), "0, 1, true or false");
	fails(PAIRS("axis", "tim"), "time|step|relative");
	fails(PAIRS("axis", "time|step"), "time|step|relative");
	fails(PAIRS("axis", ""), "time|step|relative");
}

static void test_more_params(void **state)
{
	struct http_reply reply = fresh();

	(void)state;
	ask(PAIRS("word", "a"));
	request.has_more_params = true;
	assert_false(params_check(&group_a[1], &request, &reply));
	assert_int_equal(reply.status, 400);
	buf_done(&reply.body);
	reply = fresh();
	ask(PAIRS("word", "a"));
	request.n_params = 0;
	assert_false(params_check(&group_b[1], &request, &reply));
	assert_non_null(strstr(reply.body.data, "needs the parameter run: Two at least."));
	buf_done(&reply.body);
	reply = fresh();
	assert_true(params_check(&group_a[0], &request, &reply)); /* a route that takes none */
}

static void test_values(void **state)
{
	const struct route_ask a = {.request = &request, .route = &group_a[1]};

	(void)state;
	ask(PAIRS("n", "-3", "on", "1", "axis", "step", "axis", "time"));
	assert_int_equal(param_int(&a, "n", 7), -3);
	assert_int_equal(param_int(&a, "m", 7), 7);
	assert_true(param_flag(&a, "on"));
	assert_false(param_flag(&a, "off"));
	assert_string_equal(param_text(&a, "axis"), "step");
	assert_string_equal(param_nth(&a, "axis", 1), "time");
	assert_null(param_nth(&a, "axis", 2));
	assert_null(param_text(&a, "word"));
	ask(PAIRS("on", "false"));
	assert_false(param_flag(&a, "on"));
}

/* ---- replies -------------------------------------------------------------------------------- */

static void test_error(void **state)
{
	struct http_reply reply = fresh();
	struct json j;

	(void)state;
	reply_json(&reply, &j);
	json_object(&j);
	http_header(&reply, "Accept-Ranges", "bytes");
	strcpy(reply.etag, "\"x\"");
	reply_error(&reply, 404, "no-such-run", "There is no run \"%s\".", "<b>\n");
	assert_int_equal(reply.status, 404);
	assert_string_equal(reply.type, "application/json");
	assert_string_equal(reply.body.data, "{\"error\":{\"code\":\"no-such-run\",\"message\":"
					     "\"There is no run \\\"<b>\\n\\\".\"}}");
	assert_string_equal(reply.etag, "");
	assert_int_equal(reply.n_headers, 0);
	reply_etag(&reply);
	assert_string_equal(reply.etag, ""); /* errors have none */
	buf_done(&reply.body);
}

static void test_etag(void **state)
{
	static const char *const texts[] = {"",         "a",        "b",         "aaaaaaaa",
					    "aaaaaaab", "baaaaaaa", "aaaaaaaaa", "aaaaaaaa\x01"};
	char tags[8][HTTP_ETAG_MAX];
	size_t i, k;

	(void)state;
	for (i = 0; i < 8; i++) {
		struct http_reply reply = fresh();

		buf_puts(&reply.body, texts[i]);
		reply_etag(&reply);
		strcpy(tags[i], reply.etag);
		assert_int_equal(strlen(tags[i]), strlen("W/\"0123456789abcdef\""));
		for (k = 0; k < i; k++)
			assert_string_not_equal(tags[i], tags[k]);
		buf_done(&reply.body);
	}
}

static void test_secure(void **state)
{
	struct http_reply reply = fresh();
	size_t i, policies = 0;

	(void)state;
	http_header(&reply, "Content-Security-Policy", "default-src 'self'");
	reply_secure(&reply);
	for (i = 0; i < reply.n_headers; i++) {
		assert_true(strlen(reply.headers[i].value) < sizeof(reply.headers[i].value) - 1);
		policies += !strcmp(reply.headers[i].name, "Content-Security-Policy");
	}
	assert_int_equal(reply.n_headers, 5);
	assert_int_equal(policies, 1);
	assert_string_equal(reply.headers[0].value, "default-src 'self'");
}

/* ---- bodies --------------------------------------------------------------------------------- */

enum {
	NAME,
	FOR,
	ALL,
	FIELDS
};

static struct body_field fields[FIELDS];

static bool reads(const char *text, size_t len, char message[512])
{
	static const struct body_field begin[FIELDS] = {
		[NAME] = {.name = "name", .max = 12, .is_needed = true},
		[FOR] = {.name = "for_s", .type = BODY_NUMBER, .lo = 1, .hi = 100},
		[ALL] = {.name = "all", .type = BODY_FLAG},
	};
	struct http_request r = {.body = text, .body_len = len};
	struct http_reply reply = fresh();
	bool is;

	memcpy(fields, begin, sizeof(fields));
	is = body_read(&r, fields, FIELDS, &reply);
	message[0] = '\0';
	if (!is) {
		assert_int_equal(reply.status, 400);
		assert_non_null(strstr(reply.body.data, "bad-body"));
		snprintf(message, 512, "%s", reply.body.data);
	}
	buf_done(&reply.body);
	return is;
}

static void test_body(void **state)
{
	static const char one[] = " { \"name\" : \"a\\u00e4\\ud83d\\ude00\\n\" , \"for_s\":2.5e1,"
				  "\"all\":true}\r\n";
	char message[512];

	(void)state;
	assert_true(reads(one, sizeof(one) - 1, message));
	assert_string_equal(fields[NAME].text, "a\xc3\xa4\xf0\x9f\x98\x80\n");
	assert_true(fields[FOR].number > 24.9 && fields[FOR].number < 25.1);
	assert_true(fields[ALL].has && fields[ALL].flag);
	body_done(fields, FIELDS);
	assert_true(reads("{\"name\":\"\"}", 11, message));
	assert_true(fields[NAME].has && !fields[FOR].has && !fields[ALL].has);
	body_done(fields, FIELDS);
}

static void test_bad_bodies(void **state)
{
	static const char *const rows[][2] = {
		{"", "no JSON object"},
		{"[]", "no JSON object"},
		{"{", "no JSON object"},
		{"{}", "lacks"},
		{"{\"all\":true}", "lacks \\\"name\\\""},
		{"{\"name\":\"a\"} x", "more behind"},
		{"{\"name\":\"a\",}", "no JSON object"},
		{"{\"name\":\"a\" \"all\":true}", "no JSON object"},
		{"{\"name\":\"a\",\"name\":\"b\"}", "twice"},
		{"{\"nmae\":\"a\"}", "\\\"nmae\\\": it is not known"},
		{"{\"name\":1}", "no string"},
		{"{\"name\":{}}", "no string"},
		{"{\"name\":\"1234567890123\"}", "too long"},
		{"{\"name\":\"a", "without an end"},
		{"{\"name\":\"a\\", "without an end"},
		{"{\"name\":\"\\x41\"}", "does not know"},
		{"{\"name\":\"\\u00\"}", "no character"},
		{"{\"name\":\"\\u0000\"}", "no character"},
		{"{\"name\":\"\\ud83d\"}", "half of a character"},
		{"{\"name\":\"\\udc00\"}", "no character"},
		{"{\"name\":\"\xff\"}", "no UTF-8"},
		{"{\"name\":\"a\nb\"}", "control characters"},
		{"{\"name\":\"\\u001b\"}", "control characters"},
		{"{\"name\":\"a\",\"for_s\":\"1\"}", "no number"},
		{"{\"name\":\"a\",\"for_s\":0}", "out of its range"},
		{"{\"name\":\"a\",\"for_s\":1e400}", "number"},
		{"{\"name\":\"a\",\"for_s\":nan}", "no number"},
		{"{\"name\":\"a\",\"all\":1}", "neither true nor false"},
	};
	char message[512];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (reads(rows[i][0], strlen(rows[i][0]), message))
			fail_msg("taken: %s", rows[i][0]);
		if (!strstr(message, rows[i][1]))
			fail_msg("%s: \"%s\" is not in %s", rows[i][0], rows[i][1], message);
		body_done(fields, FIELDS);
	}
	assert_false(reads("{\"name\":\"a\0b\"}", 14, message));
	body_done(fields, FIELDS);
}

/* ---- the table --------------------------------------------------------------------------------
 */

static void check_param(const struct param *p)
{
	assert_true(p->type == PARAM_TEXT || p->type == PARAM_INT || p->type == PARAM_FLAG ||
		    p->type == PARAM_CHOICE);
	assert_non_null(p->help);
	if (p->type == PARAM_INT)
		assert_true(p->hi > p->lo);
	if (p->type == PARAM_CHOICE)
		assert_non_null(p->choices);
}

static void test_table(void **state)
{
	const struct route *const *group, *r;
	struct routes_found f;
	const struct param *p;
	size_t n = 0;

	(void)state;
	for (group = routes_groups; *group; group++)
		for (r = *group; r->path; r++, n++) {
			assert_true(r->path[0] == '/');
			assert_non_null(r->summary);
			assert_non_null(r->answer);
			assert_true(!strcmp(r->method, "GET") || !strcmp(r->method, "POST"));
			for (p = r->params; p && p->name; p++)
				check_param(p);
			/* No other route takes its requests away: {} fits itself. */
			f = routes_find(routes_groups, r->method, r->path);
			assert_ptr_equal(f.route, r);
		}
	assert_true(n > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match),  cmocka_unit_test(test_no_match),
		cmocka_unit_test(test_params), cmocka_unit_test(test_more_params),
		cmocka_unit_test(test_values), cmocka_unit_test(test_error),
		cmocka_unit_test(test_etag),   cmocka_unit_test(test_secure),
		cmocka_unit_test(test_body),   cmocka_unit_test(test_bad_bodies),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

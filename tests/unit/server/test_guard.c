/* SPDX-License-Identifier: Apache-2.0 */
#include "server/guard.h"
#include "server/peer.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN "abcdefghijklmnopqrstuvwxyz"

static struct guard_address address(const char *text)
{
	struct guard_net net;

	assert_int_equal(guard_net_parse(text, &net, NULL), 0);
	return net.address;
}

static enum guard_answer ask(const struct guard_rules *rules, struct guard_request r)
{
	if (!r.method)
		r.method = "GET";
	if (!r.path)
		r.path = "/";
	if (!r.host)
		r.host = "localhost:8080";
	r.from = address("127.0.0.1");
	return guard_check(rules, &r);
}

static const struct guard_rules open_rules = {.port = 8080, .page = "page"};
static const struct guard_rules closed_rules = {.port = 8080, .page = "page", .token = TOKEN};

/* A page at evil.example that has its name pointed at 127.0.0.1 sends its own Host. */
static void test_host(void **state)
{
	static const struct {
		const char *host;
		enum guard_answer answer;
	} rows[] = {
		{"localhost:8080", GUARD_PASS},
		{"LOCALHOST:8080", GUARD_PASS},
		{"127.0.0.1:8080", GUARD_PASS},
		{"127.1.2.3:8080", GUARD_PASS},
		{"[::1]:8080", GUARD_PASS},
		{"box.example:8080", GUARD_PASS},
		{"evil.example:8080", GUARD_HOST},
		{"localhost.evil.example:8080", GUARD_HOST},
		{"localhost:8081", GUARD_PASS}, /* a forwarded port */
		{"localhost", GUARD_PASS},
		{"192.0.2.7:8080", GUARD_HOST},
		{"127.0.0.1.evil.example:8080", GUARD_HOST},
		{"0.0.0.0:8080", GUARD_HOST},
		{"[::1", GUARD_HOST},
		{"[::1]8080", GUARD_HOST},
		{":8080", GUARD_HOST},
		{"localhost:8080:8080", GUARD_HOST},
		{"localhost:", GUARD_HOST},
		{"localhost:99999999999999999999", GUARD_HOST},
		{"", GUARD_HOST},
	};
	static const char *const names[] = {"box.example"};
	struct guard_rules rules = open_rules;
	size_t i;

	(void)state;
	rules.hosts = names;
	rules.n_hosts = 1;
	for (i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(ask(&rules, (struct guard_request){.host = rows[i].host}),
				 rows[i].answer);
}

/* Where others ask, any address will do: a name has to be rebound, an address cannot be. */
static void test_literals(void **state)
{
	struct guard_rules rules = open_rules;

	(void)state;
	rules.has_literals = true;
	assert_int_equal(ask(&rules, (struct guard_request){.host = "192.0.2.7:80"}), GUARD_PASS);
	assert_int_equal(ask(&rules, (struct guard_request){.host = "[fd00::7]"}), GUARD_PASS);
	assert_int_equal(ask(&rules, (struct guard_request){.host = "evil.example"}), GUARD_HOST);
	assert_int_equal(ask(&rules, (struct guard_request){.host = "1.2.3.4.nip.io"}), GUARD_HOST);
}

/* On a shared machine: the user's own processes and root's, where it is known. */
static void test_users(void **state)
{
	static const struct {
		int64_t ours, theirs;
		enum guard_answer answer;
	} rows[] = {
		{1000, 1000, GUARD_PASS}, {1000, 0, GUARD_PASS},  {1000, 1001, GUARD_USER},
		{0, 1000, GUARD_USER},    {1000, -1, GUARD_PASS}, {-1, 1001, GUARD_PASS},
	};
	struct guard_rules rules = open_rules, closed = closed_rules;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		rules.user = rows[i].ours;
		assert_int_equal(ask(&rules, (struct guard_request){.user = rows[i].theirs}),
				 rows[i].answer);
	}
	closed.user = 1000;
	assert_int_equal(ask(&closed, (struct guard_request){.user = 1001,
							     .authorization = "Bearer " TOKEN}),
			 GUARD_PASS);
}

/* `nobody` is a user like others, but where the kernel says it for want of an id. */
static void test_nobody(void **state)
{
	static const char all[] = "         0          0 4294967295\n";
	static const char *const parts[] = {"         0     100000      65536\n",
					    "0 0 4294967294\n", "1000 0 4294967295\n", "", "x"};
	size_t i;

	(void)state;
	assert_int_equal(peer_told(65534, all), 65534);
	assert_int_equal(peer_told(65533, all), 65533);
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		assert_int_equal(peer_told(65534, parts[i]), PEER_UNKNOWN);
		assert_int_equal(peer_told(1234, parts[i]), 1234);
	}
}

static void test_site(void **state)
{
	static const struct {
		const char *site, *mode, *dest, *path, *origin;
		enum guard_answer answer;
	} rows[] = {
		{NULL, NULL, NULL, "/api/v1/runs", NULL, GUARD_PASS}, /* curl */
		{"same-origin", "cors", "empty", "/api/v1/runs", NULL, GUARD_PASS},
		{"none", "navigate", "document", "/api/v1/runs", NULL, GUARD_PASS},
		{"cross-site", "navigate", "document", "/", NULL, GUARD_PASS},
		{"cross-site", "navigate", "iframe", "/", NULL, GUARD_SITE},
		{"cross-site", "navigate", "document", "/api/v1/runs", NULL, GUARD_SITE},
		{"cross-site", "no-cors", "script", "/", NULL, GUARD_SITE},
		{"same-site", "cors", "empty", "/api/v1/live", NULL, GUARD_SITE},
		{NULL, NULL, NULL, "/", "http://localhost:8080", GUARD_PASS},
		{NULL, NULL, NULL, "/", "http://localhost:9090", GUARD_SITE},
		{NULL, NULL, NULL, "/", "https://localhost:8080", GUARD_PASS}, /* TLS before us */
		{NULL, NULL, NULL, "/", "http://127.0.0.1:8080", GUARD_SITE},
		{NULL, NULL, NULL, "/", "http://localhost", GUARD_SITE},
		{NULL, NULL, NULL, "/", "http://evil.example:8080", GUARD_SITE},
		{NULL, NULL, NULL, "/", "null", GUARD_SITE},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(ask(&open_rules, (struct guard_request){.fetch_site = rows[i].site,
									 .fetch_mode = rows[i].mode,
									 .fetch_dest = rows[i].dest,
									 .path = rows[i].path,
									 .origin = rows[i].origin}),
				 rows[i].answer);
}

static void test_token(void **state)
{
	(void)state;
	assert_int_equal(ask(&closed_rules, (struct guard_request){0}), GUARD_NO_TOKEN);
	assert_int_equal(ask(&closed_rules, (struct guard_request){.query_token = TOKEN}),
			 GUARD_SET_COOKIE);
	assert_int_equal(ask(&closed_rules, (struct guard_request){.query_token = "x"}),
			 GUARD_WRONG_TOKEN);
	/* Links with the token lead to the page only. */
	assert_int_equal(ask(&closed_rules,
			     (struct guard_request){.query_token = TOKEN, .path = "/api/v1/runs"}),
			 GUARD_NO_TOKEN);
	assert_int_equal(ask(&closed_rules,
			     (struct guard_request){.cookie = "a=b; lapse_8080=" TOKEN "; c=d"}),
			 GUARD_PASS);
	assert_int_equal(ask(&closed_rules, (struct guard_request){.cookie = "lapse_8081=" TOKEN}),
			 GUARD_NO_TOKEN);
	assert_int_equal(ask(&closed_rules, (struct guard_request){.cookie = "lapse_8080="}),
			 GUARD_WRONG_TOKEN);
	assert_int_equal(
		ask(&closed_rules, (struct guard_request){.authorization = "bearer " TOKEN}),
		GUARD_PASS);
	assert_int_equal(
		ask(&closed_rules, (struct guard_request){.authorization = "Bearer " TOKEN "a"}),
		GUARD_WRONG_TOKEN);
}

static void test_acting(void **state)
{
	const char *json = "application/json; charset=utf-8";
	struct guard_request r = {.method = "POST", .path = "/api/v1/x", .content_type = json};

	(void)state;
	assert_int_equal(ask(&open_rules, r), GUARD_NO_TOKEN);
	r.page_token = "page";
	assert_int_equal(ask(&open_rules, r), GUARD_PASS);
	r.page_token = "pag";
	assert_int_equal(ask(&open_rules, r), GUARD_WRONG_TOKEN);
	r.page_token = "page";
	r.content_type = "text/plain";
	assert_int_equal(ask(&open_rules, r), GUARD_TYPE);
	r.content_type = "application/jsonx";
	assert_int_equal(ask(&open_rules, r), GUARD_TYPE);
	r.content_type = json;
	/* A form of another site that is sent by a click is navigation, too. */
	r.path = "/";
	r.fetch_site = "cross-site";
	r.fetch_mode = "navigate";
	assert_int_equal(ask(&open_rules, r), GUARD_SITE);
	r.fetch_site = r.fetch_mode = NULL;
	/* The cookie opens the door, but does not act. */
	r.cookie = "lapse_8080=" TOKEN;
	r.page_token = NULL;
	assert_int_equal(ask(&closed_rules, r), GUARD_NO_TOKEN);
	r.authorization = "Basic eDp5"; /* nor with it something else that a proxy adds */
	assert_int_equal(ask(&closed_rules, r), GUARD_NO_TOKEN);
	r.authorization = "Bearer " TOKEN "a";
	assert_int_equal(ask(&closed_rules, r), GUARD_NO_TOKEN);
	r.authorization = NULL;
	r.page_token = "page";
	assert_int_equal(ask(&closed_rules, r), GUARD_PASS);
	r.cookie = r.page_token = NULL;
	r.authorization = "Bearer " TOKEN;
	assert_int_equal(ask(&closed_rules, r), GUARD_PASS);
}

static void test_networks(void **state)
{
	static const char *const bad[] = {
		"",         "x",          "10.0.0.0/33",
		"10.0.0/8", "::/129",     "1.2.3.4/-1",
		"1.2.3.4/", "1.2.3.4/8x", "0000:0000:0000:0000:0000:0000:0000:0000:0000:00001"};
	struct guard_rules rules = open_rules;
	struct guard_request r = {.method = "GET", .path = "/", .host = "localhost:8080"};
	struct guard_net nets[2];
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a090807)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct err e = {0};
	size_t i;

	(void)state;
	assert_int_equal(guard_net_parse("10.0.0.0/9", &nets[0], &e), 0);
	assert_int_equal(guard_net_parse("fd00::/8", &nets[1], &e), 0);
	rules.nets = nets;
	rules.n_nets = 2;
	r.from = guard_address_of((struct sockaddr *)&four); /* 10.9.8.7 */
	assert_int_equal(guard_check(&rules, &r), GUARD_PASS);
	four.sin_addr.s_addr = htonl(0x0a890807); /* 10.137.8.7 */
	r.from = guard_address_of((struct sockaddr *)&four);
	assert_int_equal(guard_check(&rules, &r), GUARD_ADDRESS);
	inet_pton(AF_INET6, "fd12::1", &six.sin6_addr);
	r.from = guard_address_of((struct sockaddr *)&six);
	assert_int_equal(guard_check(&rules, &r), GUARD_PASS);
	inet_pton(AF_INET6, "::ffff:10.1.1.1", &six.sin6_addr);
	r.from = guard_address_of((struct sockaddr *)&six);
	assert_int_equal(guard_check(&rules, &r), GUARD_PASS);
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		e = (struct err){0};
		assert_int_equal(guard_net_parse(bad[i], &nets[0], &e), -EINVAL);
		assert_true(e.text[0]);
	}
}

static void test_equal(void **state)
{
	(void)state;
	assert_true(guard_equal("abc", "abc"));
	assert_true(guard_equal("", ""));
	assert_false(guard_equal("abc", "abd"));
	assert_false(guard_equal("ab", "abab"));
	assert_false(guard_equal("abab", "ab"));
	assert_false(guard_equal("", "a"));
	assert_false(guard_equal("a", ""));
}

/* Another token each time. false: it is not new. */
static bool guess(struct guard_wrongs *w, const struct guard_address *from, int64_t now)
{
	static unsigned n;
	char token[32];

	snprintf(token, sizeof(token), "guess %u", n++);
	return guard_wrong_add(w, from, token, now);
}

static void test_guessing(void **state)
{
	static struct guard_wrongs w;
	struct guard_address a = address("10.0.0.1"), b = address("10.0.0.2");
	int64_t now = 1000000000;
	int i;

	(void)state;
	for (i = 0; i < GUARD_WRONG_MAX; i++) {
		assert_false(guard_must_wait(&w, &a, now));
		assert_true(guess(&w, &a, now));
	}
	assert_true(guard_must_wait(&w, &a, now));
	assert_false(guard_must_wait(&w, &b, now));
	assert_true(guard_must_wait(&w, &a, now + GUARD_WRONG_NS));
	assert_false(guard_must_wait(&w, &a, now + GUARD_WRONG_NS + 1));
	guess(&w, &a, now + GUARD_WRONG_NS + 1); /* begins anew */
	assert_false(guard_must_wait(&w, &a, now + GUARD_WRONG_NS + 1));
	/* Others do not push out who guesses now. */
	for (i = 0; i < GUARD_WRONG_MAX; i++)
		guess(&w, &a, now + 2 * GUARD_WRONG_NS);
	for (i = 0; i < 255; i++) {
		b.bytes[0] = (uint8_t)i;
		b.bytes[1] = 1;
		guess(&w, &b, now + 2 * GUARD_WRONG_NS - 1);
	}
	assert_true(guard_must_wait(&w, &a, now + 2 * GUARD_WRONG_NS));
}

/* Pages with old cookies ask on and on: who asks again tries nothing. */
static void test_same_again(void **state)
{
	static struct guard_wrongs w;
	struct guard_request r = {.method = "GET", .path = "/api/v1/runs"};
	const int64_t now = 1000000000;
	char cookie[64];
	int i;

	(void)state;
	r.from = address("10.0.0.1");
	for (i = 0; i < 3 * GUARD_WRONG_MAX; i++) {
		snprintf(cookie, sizeof(cookie), "lapse_8080=old token %d", i % 2);
		r.cookie = cookie;
		assert_int_equal(guard_wrong_count(&w, &closed_rules, &r, now), i < 2);
	}
	assert_false(guard_must_wait(&w, &r.from, now));
	/* Wherever it stands it is the same one; each place may have a new one. */
	r.cookie = NULL;
	r.authorization = "Bearer old token 1";
	assert_false(guard_wrong_count(&w, &closed_rules, &r, now));
	r = (struct guard_request){.method = "POST", .path = "/", .from = r.from};
	for (i = 2; i < GUARD_WRONG_MAX; i++) {
		assert_false(guard_must_wait(&w, &r.from, now));
		snprintf(cookie, sizeof(cookie), "lapse_8080=Bearer x%d", i);
		r.cookie = i % 4 == 0 ? cookie : "lapse_8080=" TOKEN;
		r.authorization = i % 4 == 1 ? cookie + 11 : "Bearer " TOKEN;
		r.query_token = i % 4 == 2 ? cookie : TOKEN;
		r.page_token = i % 4 == 3 ? cookie : "page";
		assert_true(guard_wrong_count(&w, &closed_rules, &r, now));
		assert_false(guard_wrong_count(&w, &closed_rules, &r, now));
	}
	assert_true(guard_must_wait(&w, &r.from, now));
}

static void test_wrong_cookie(void **state)
{
	(void)state;
	assert_true(guard_cookie_is_wrong(&closed_rules,
					  &(struct guard_request){.cookie = "lapse_8080=x"}));
	assert_true(guard_cookie_is_wrong(&closed_rules,
					  &(struct guard_request){.cookie = "lapse_8080="}));
	assert_false(guard_cookie_is_wrong(&closed_rules,
					   &(struct guard_request){.cookie = "lapse_8080=" TOKEN}));
	assert_false(guard_cookie_is_wrong(&closed_rules,
					   &(struct guard_request){.cookie = "lapse_8081=x"}));
	assert_false(guard_cookie_is_wrong(&closed_rules, &(struct guard_request){0}));
	assert_false(guard_cookie_is_wrong(&open_rules,
					   &(struct guard_request){.cookie = "lapse_8080=x"}));
}

static void test_new_token(void **state)
{
	char a[GUARD_TOKEN_LEN + 1], b[GUARD_TOKEN_LEN + 1];

	(void)state;
	assert_int_equal(guard_token(a), 0);
	assert_int_equal(guard_token(b), 0);
	assert_int_equal(strlen(a), GUARD_TOKEN_LEN);
	assert_int_equal(strspn(a, "abcdefghijklmnopqrstuvwxyz234567"), GUARD_TOKEN_LEN);
	assert_string_not_equal(a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host),       cmocka_unit_test(test_literals),
		cmocka_unit_test(test_users),      cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_site),       cmocka_unit_test(test_token),
		cmocka_unit_test(test_acting),     cmocka_unit_test(test_networks),
		cmocka_unit_test(test_equal),      cmocka_unit_test(test_guessing),
		cmocka_unit_test(test_same_again), cmocka_unit_test(test_wrong_cookie),
		cmocka_unit_test(test_new_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

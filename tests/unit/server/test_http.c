/* SPDX-License-Identifier: Apache-2.0
 *
 * test_http.c - answers that wait for clients which do not read: no more than may be held; and
 * clients that go while their answer is made.
 */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE (48u << 20) /* more than sockets take */
#define SMALL 1000u

static atomic_int stage; /* of the answer to /slow */

/* Until the client has gone. */
static void answer_slowly(const struct http_request *r)
{
	atomic_store(&stage, http_is_gone(r) ? -1 : 1);
	while (!http_is_gone(r))
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	atomic_fetch_add(&stage, 1);
}

static void answer(void *arg, const struct http_request *r, struct http_reply *reply)
{
	size_t n = strcmp(r->path, "/large") == 0 ? LARGE : SMALL;
	char *to = buf_reserve(&reply->body, n);

	(void)arg;
	if (strcmp(r->path, "/slow") == 0)
		answer_slowly(r);
	reply->status = 200;
	reply->type = "text/plain";
	if (!to)
		return;
	memset(to, 'x', n);
	reply->body.len += n;
}

static void tick(void *arg)
{
	(void)arg;
}

static int ask_only(uint16_t port, const char *path)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char text[128];
	int fd = socket(AF_INET, SOCK_STREAM, 0), n;

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
	assert_int_equal(write(fd, text, (size_t)n), n);
	return fd;
}

/* Ask, and read the status; the rest of the answer is left where it is. */
static int ask(uint16_t port, const char *path, int *ret_fd)
{
	int fd = ask_only(port, path), status = 0;
	char text[16];

	assert_int_equal(recv(fd, text, 12, MSG_WAITALL), 12);
	text[12] = '\0';
	assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
	*ret_fd = fd;
	return status;
}

static void test_held(void **state)
{
	const struct http_options o = {.max_clients = 20,
				       .workers = 2,
				       .head_ns = INT64_C(60000000000),
				       .body_ns = INT64_C(60000000000),
				       .quiet_ns = INT64_C(60000000000),
				       .held_max = LARGE + LARGE / 2,
				       .answer = answer,
				       .tick = tick};
	struct err e = {0};
	struct http *h;
	int first, fd, status, tries;

	(void)state;
	signal(SIGPIPE, SIG_IGN); /* as the program does */
	if (http_start(&o, &e, &h) == -ENOENT)
		skip(); /* no libmicrohttpd */
	assert_int_equal(ask(http_port(h), "/large", &first), 200);
	assert_int_equal(ask(http_port(h), "/large", &fd), 503);
	close(fd);
	assert_int_equal(ask(http_port(h), "/small", &fd), 200);
	close(fd);
	/* The first one goes: there is room again. */
	close(first);
	for (tries = 0; tries < 600; tries++) {
		status = ask(http_port(h), "/large", &fd);
		close(fd);
		if (status == 200)
			break;
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	}
	assert_int_equal(status, 200);
	http_stop(h);
}

static void wait_for_stage(int want)
{
	while (atomic_load(&stage) != want)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* Whether the whole connection is closed or only the client's side of it. */
static void test_gone(void **state)
{
	const struct http_options o = {.max_clients = 20,
				       .workers = 1,
				       .head_ns = INT64_C(60000000000),
				       .body_ns = INT64_C(60000000000),
				       .quiet_ns = INT64_C(60000000000),
				       .answer = answer,
				       .tick = tick};
	struct err e = {0};
	struct http *h;
	int fd;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	if (http_start(&o, &e, &h) == -ENOENT)
		skip();
	fd = ask_only(http_port(h), "/slow");
	wait_for_stage(1);
	close(fd);
	wait_for_stage(2);
	fd = ask_only(http_port(h), "/slow");
	wait_for_stage(1);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	wait_for_stage(2);
	close(fd);
	/* The only worker is free again. */
	assert_int_equal(ask(http_port(h), "/small", &fd), 200);
	close(fd);
	http_stop(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_held),
					   cmocka_unit_test(test_gone)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

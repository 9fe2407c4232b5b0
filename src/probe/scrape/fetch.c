/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/scrape/fetch.h"

#include "base/buf.h"
#include "base/curl.h"
#include "base/mem.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FETCH_KEEP (1u << 20) /* a buffer that grew larger is freed after use */
#define FETCH_TOKEN_MAX 16384 /* bytes of a token file */
#define FETCH_WHY_MAX 512
#define FETCH_MS 1000000

#define FETCH_ACCEPT                                                                               \
	"Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,"       \
	"*/*;q=0.1"

struct fetch_one {
	struct fetch *f;
	const struct scrape_target *target;
	struct buf body;
	void *easy, *headers;
	bool busy, too_large;
	int64_t begun_ns;
	char error[CURL_ERROR_SIZE];
	char why[FETCH_WHY_MAX]; /* it failed before it began */
};

struct fetch {
	const struct curl_api *curl; /* NULL until it is needed */
	void *multi;
	struct fetch_one *one;
	size_t n;
};

struct fetch *fetch_new(const struct scrape_target *targets, size_t n)
{
	struct fetch *f = xcalloc(1, sizeof(*f));
	size_t i;

	f->one = xcalloc(n, sizeof(*f->one));
	f->n = n;
	for (i = 0; i < n; i++) {
		f->one[i].f = f;
		f->one[i].target = &targets[i];
		buf_init(&f->one[i].body, FETCH_BODY_MAX);
	}
	return f;
}

static void fetch_drop_headers(struct fetch_one *o)
{
	if (o->headers)
		o->f->curl->slist_free_all(o->headers);
	o->headers = NULL;
}

void fetch_free(struct fetch *f)
{
	size_t i;

	if (!f)
		return;
	for (i = 0; i < f->n; i++) {
		struct fetch_one *o = &f->one[i];

		if (o->easy) {
			f->curl->multi_remove_handle(f->multi, o->easy);
			f->curl->easy_cleanup(o->easy);
		}
		fetch_drop_headers(o);
		buf_done(&o->body);
	}
	if (f->multi)
		f->curl->multi_cleanup(f->multi);
	free(f->one);
	free(f);
}

/* ---- files ---------------------------------------------------------------------------- */

/* A whole regular file; what could block is refused. */
static int fetch_file(const char *path, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	struct stat st;
	ssize_t n = 1;
	char *room;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	while (!err && n > 0) {
		room = buf_reserve(out, 65536);
		n = room ? read(fd, room, 65536) : 0;
		if (n > 0)
			out->len += (size_t)n;
		if (!room || (n < 0 && errno != EINTR))
			err = room ? -errno : -EFBIG;
	}
	close(fd);
	return err;
}

static void fetch_failed(struct fetch_one *o, const char *what, int err)
{
	const char *text = strerror(-err);

	if (err == -EINVAL)
		text = "no regular file";
	snprintf(o->why, sizeof(o->why), "%s: %s", what, text);
}

/* ---- http ----------------------------------------------------------------------------- */

static size_t fetch_write(char *data, size_t size, size_t n, void *arg)
{
	struct fetch_one *o = arg;

	buf_append(&o->body, data, size * n);
	o->too_large = o->body.error != 0;
	return o->too_large ? 0 : size * n;
}

static bool fetch_load(struct fetch *f, struct fetch_one *o)
{
	struct err e = {0};

	if (!f->curl)
		f->curl = curl_load(&e);
	if (f->curl && !f->multi)
		f->multi = f->curl->multi_init();
	if (!f->multi)
		snprintf(o->why, sizeof(o->why), "%s", f->curl ? "no memory" : e.text);
	return f->multi;
}

static void fetch_header(struct fetch_one *o, const char *text)
{
	void *more = o->f->curl->slist_append(o->headers, text);

	if (more)
		o->headers = more;
}

/* The token is read anew each time: it may be replaced while we run. */
static bool fetch_authorize(struct fetch_one *o)
{
	const struct scrape_target *t = o->target;
	struct buf file;
	char *header;
	size_t len;
	int err = 0;

	if (!t->token && !t->token_file)
		return true;
	buf_init(&file, FETCH_TOKEN_MAX + 65536);
	if (t->token_file)
		err = fetch_file(t->token_file, &file);
	if (!err && file.len > FETCH_TOKEN_MAX)
		err = -EFBIG;
	if (err) {
		fetch_failed(o, "the token_file", err);
	} else {
		len = strcspn(t->token_file ? buf_str(&file) : t->token, "\r\n");
		header = xasprintf("Authorization: Bearer %.*s", (int)len,
				   t->token_file ? buf_str(&file) : t->token);
		fetch_header(o, header);
		explicit_bzero(header, strlen(header));
		free(header);
	}
	buf_done(&file);
	return !err;
}

/* unix:///SOCKET:/PATH */
static void fetch_address(struct fetch_one *o)
{
	const struct curl_api *c = o->f->curl;
	const char *url = o->target->url, *path, *colon;
	char *socket, *whole;

	if (strncmp(url, "unix://", 7) != 0) {
		c->easy_setopt(o->easy, CURL_URL, url);
		return;
	}
	path = url + 7;
	colon = strstr(path, ":/");
	socket = xstrndup(path, colon ? (size_t)(colon - path) : strlen(path));
	whole = xasprintf("http://localhost%s", colon ? colon + 1 : "/metrics");
	c->easy_setopt(o->easy, CURL_UNIX_SOCKET_PATH, socket);
	c->easy_setopt(o->easy, CURL_URL, whole);
	free(socket);
	free(whole);
}

/* A handle lives as long as its target, and keeps the connection. */
static bool fetch_prepare(struct fetch_one *o)
{
	const struct curl_api *c = o->f->curl;
	const struct scrape_target *t = o->target;

	if (o->easy)
		return true;
	o->easy = c->easy_init();
	if (!o->easy) {
		snprintf(o->why, sizeof(o->why), "no memory");
		return false;
	}
	fetch_address(o);
	c->easy_setopt(o->easy, CURL_NOSIGNAL, 1L);
	c->easy_setopt(o->easy, CURL_HTTPGET, 1L);
	c->easy_setopt(o->easy, CURL_PROTOCOLS, CURL_PROTOCOL_HTTP | CURL_PROTOCOL_HTTPS);
	c->easy_setopt(o->easy, CURL_PROXY, "");
	c->easy_setopt(o->easy, CURL_USERAGENT, "lapse");
	c->easy_setopt(o->easy, CURL_ACCEPT_ENCODING, "");
	c->easy_setopt(o->easy, CURL_TIMEOUT_MS, (long)(t->timeout_ns / FETCH_MS));
	c->easy_setopt(o->easy, CURL_QUICK_EXIT, 1L);
	c->easy_setopt(o->easy, CURL_ERRORBUFFER, o->error);
	c->easy_setopt(o->easy, CURL_PRIVATE, o);
	c->easy_setopt(o->easy, CURL_WRITEDATA, o);
	c->easy_setopt(o->easy, CURL_WRITEFUNCTION, fetch_write);
	if (t->ca_file)
		c->easy_setopt(o->easy, CURL_CAINFO, t->ca_file);
	if (t->insecure) {
		c->easy_setopt(o->easy, CURL_SSL_VERIFYPEER, 0L);
		c->easy_setopt(o->easy, CURL_SSL_VERIFYHOST, 0L);
	}
	return true;
}

static bool fetch_ask(struct fetch_one *o)
{
	const struct curl_api *c;
	char patience[96];

	if (!fetch_load(o->f, o) || !fetch_prepare(o))
		return false;
	c = o->f->curl;
	fetch_drop_headers(o);
	fetch_header(o, FETCH_ACCEPT);
	snprintf(patience, sizeof(patience), "X-Prometheus-Scrape-Timeout-Seconds: %.3g",
		 (double)o->target->timeout_ns / 1e9);
	fetch_header(o, patience);
	if (!fetch_authorize(o))
		return false;
	c->easy_setopt(o->easy, CURL_HTTPHEADER, o->headers);
	o->error[0] = '\0';
	if (c->multi_add_handle(o->f->multi, o->easy) == 0)
		return true;
	snprintf(o->why, sizeof(o->why), "libcurl does not take it");
	return false;
}

void fetch_begin(struct fetch *f, size_t target)
{
	struct fetch_one *o = &f->one[target];
	int err;

	if (o->busy)
		return;
	o->busy = true;
	o->too_large = false;
	o->why[0] = '\0';
	o->begun_ns = clock_ns(CLOCK_MONOTONIC);
	if (o->body.cap > FETCH_KEEP)
		buf_done(&o->body);
	buf_reset(&o->body);
	if (strncmp(o->target->url, "file://", 7) == 0) {
		err = fetch_file(o->target->url + 7, &o->body);
		if (err)
			fetch_failed(o, o->target->url + 7, err);
		return;
	}
	fetch_ask(o);
}

/* ---- answers --------------------------------------------------------------------------- */

struct fetch_to {
	struct fetch *f;
	void (*done)(void *arg, const struct fetch_answer *a);
	void *arg;
};

static void fetch_tell(const struct fetch_to *to, struct fetch_one *o, bool openmetrics)
{
	struct fetch_answer a = {
		.target = (size_t)(o - to->f->one),
		.why = o->why[0] ? o->why : NULL,
		.text = buf_str(&o->body),
		.len = o->body.len,
		.openmetrics = openmetrics,
		.took_ns = clock_ns(CLOCK_MONOTONIC) - o->begun_ns,
	};

	o->busy = false;
	to->done(to->arg, &a);
}

static void fetch_judge(struct fetch_one *o, int result, long status, const char *type)
{
	const struct curl_api *c = o->f->curl;

	if (o->too_large)
		snprintf(o->why, sizeof(o->why), "the answer has more than %u MiB",
			 FETCH_BODY_MAX >> 20);
	else if (result)
		snprintf(o->why, sizeof(o->why), "%s",
			 o->error[0] ? o->error : c->easy_strerror(result));
	else if (status >= 300 && status < 400)
		snprintf(o->why, sizeof(o->why),
			 "HTTP status %ld: it points elsewhere, which is not followed; give that "
			 "address",
			 status);
	else if (status == 401 || status == 403)
		snprintf(o->why, sizeof(o->why),
			 "HTTP status %ld: it wants to know who asks (token_file)", status);
	else if (status != 200)
		snprintf(o->why, sizeof(o->why), "HTTP status %ld", status);
	else if (strncasecmp(type, "text/html", 9) == 0)
		snprintf(o->why, sizeof(o->why), "a web page came, no metrics: is the path right?");
}

static void fetch_ended(const struct fetch_to *to, const struct curl_message *m)
{
	const struct curl_api *c = to->f->curl;
	int result = m->data.result;
	char *type = NULL, *private = NULL;
	void *easy = m->easy;
	struct fetch_one *o;
	long status = 0;
	bool openmetrics;

	c->easy_getinfo(easy, CURL_GET_PRIVATE, &private);
	c->easy_getinfo(easy, CURL_RESPONSE_CODE, &status);
	c->easy_getinfo(easy, CURL_CONTENT_TYPE, &type);
	o = (struct fetch_one *)(void *)private;
	openmetrics = type && strncasecmp(type, "application/openmetrics-text", 28) == 0;
	fetch_judge(o, result, status, type ? type : "");
	c->multi_remove_handle(to->f->multi, easy);
	fetch_tell(to, o, openmetrics);
}

/* A file has no Content-Type. */
static bool fetch_ends_as_openmetrics(const struct buf *text)
{
	static const char eof[] = "\n# EOF\n";
	size_t n = strlen(eof);

	return text->len >= n && memcmp(text->data + text->len - n, eof, n) == 0;
}

/* Those that libcurl has no part in. */
static void fetch_step_others(const struct fetch_to *to)
{
	size_t i;

	for (i = 0; i < to->f->n; i++) {
		struct fetch_one *o = &to->f->one[i];
		bool file = strncmp(o->target->url, "file://", 7) == 0;

		if (o->busy && (file || o->why[0]))
			fetch_tell(to, o, fetch_ends_as_openmetrics(&o->body));
	}
}

static bool fetch_is_busy(const struct fetch *f)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (f->one[i].busy)
			return true;
	return false;
}

void fetch_step(struct fetch *f, int wait_ms, void (*done)(void *arg, const struct fetch_answer *a),
		void *arg)
{
	struct fetch_to to = {f, done, arg};
	int64_t until = clock_ns(CLOCK_MONOTONIC) + (int64_t)wait_ms * FETCH_MS, left;
	struct curl_message *m;
	int running = 0, n;

	fetch_step_others(&to);
	while (fetch_is_busy(f)) {
		f->curl->multi_perform(f->multi, &running);
		while ((m = f->curl->multi_info_read(f->multi, &n)))
			if (m->what == CURL_DONE)
				fetch_ended(&to, m);
		left = until - clock_ns(CLOCK_MONOTONIC);
		if (left <= 0 || !fetch_is_busy(f))
			break;
		f->curl->multi_wait(f->multi, NULL, 0, (int)(left / FETCH_MS) + 1, &n);
		/* While it looks up a name there may be nothing to wait for. */
		if (n == 0)
			usleep(left < 5 * FETCH_MS ? 1000 : 5000);
	}
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * test_read_files.c - traces from files and pipes: compressed, in several members, cut, stopped,
 * and larger than the memory they may use.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <zstd.h>

#include "trace/trace.h"

static char folder[] = "/tmp/test_read_files.XXXXXX";

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const void *data, size_t len)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
}

/* A trace of n events; freed by the caller. Event i begins at 1000 i us, lasts i % 7 us. */
static char *make_trace(unsigned n, size_t *ret_len)
{
	char *text = malloc(128 + (size_t)n * 200);
	size_t len = (size_t)sprintf(text, "{\"distributedInfo\":{\"rank\":3},\"traceEvents\":[\n");

	for (unsigned i = 0; i < n; i++)
		len += (size_t)sprintf(
			text + len,
			"%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op %u\",\"pid\":1,\"tid\":2,"
			"\"ts\":%u.5,\"dur\":%u,\"args\":{\"External id\":%u,\"Sequence "
			"number\":%u,"
			"\"Input Dims\":[[%u]]}}",
			i ? ",\n" : "", i % 5, i * 1000, i % 7, i, i * 3, i % 11);
	len += (size_t)sprintf(text + len, "\n]}\n");
	*ret_len = len;
	return text;
}

static size_t gzip(const void *from, size_t len, unsigned char *to, size_t max)
{
	struct isal_zstream z;

	isal_deflate_stateless_init(&z);
	z.gzip_flag = IGZIP_GZIP;
	z.next_in = (uint8_t *)from;
	z.avail_in = (uint32_t)len;
	z.end_of_stream = 1;
	z.next_out = to;
	z.avail_out = (uint32_t)max;
	assert_int_equal(isal_deflate_stateless(&z), COMP_OK);
	return max - z.avail_out;
}

static uint64_t noted(const struct trace *t, const char *name)
{
	size_t n;
	const struct trace_note *notes = trace_notes(t, &n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(trace_note_rows[notes[i].kind].name, name))
			return notes[i].count;
	return 0;
}

/* Is it make_trace(n), or its first n events? */
static void check_rows(struct trace *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct trace_block *b = trace_block(t, i / TRACE_BLOCK_ROWS);
		uint32_t at = i % TRACE_BLOCK_ROWS;
		const struct trace_args *a;
		char text[32];

		assert_non_null(b);
		assert_int_equal(b->ts[at], i * 1000000ull + 500);
		assert_int_equal(b->dur[at], i % 7 * 1000);
		assert_int_equal(b->external[at], i);
		assert_int_equal(b->index[at], i);
		snprintf(text, sizeof(text), "op %u", i % 5);
		assert_string_equal(trace_text(t, b->name[at], NULL), text);
		a = trace_args(t, b->args[at]);
		assert_int_equal(a->sequence, i * 3);
		snprintf(text, sizeof(text), "[[%u]]", i % 11);
		assert_string_equal(trace_text(t, a->dims, NULL), text);
	}
}

static struct trace *read_file(const char *name, const struct trace_options *o)
{
	struct trace *t = NULL;
	struct err e = {0};

	if (trace_read(path_of(name), o, &t, &e))
		fail_msg("%s", e.text);
	return t;
}

static void test_formats(void **state)
{
	const unsigned n = 20000; /* several pieces */
	size_t len, packed, half;
	char *text = make_trace(n, &len);
	unsigned char *out = malloc(len + 4096);
	static const char *const names[] = {"plain", "gz", "members", "zst", "zst members"};

	(void)state;
	write_file("plain", text, len);
	packed = gzip(text, len, out, len + 4096);
	write_file("gz", out, packed);
	half = len / 2;
	packed = gzip(text, half, out, len + 4096);
	packed += gzip(text + half, len - half, out + packed, len + 4096 - packed);
	memset(out + packed, 0, 512); /* as tar and others pad */
	write_file("members", out, packed + 512);
	packed = ZSTD_compress(out, len + 4096, text, len, 1);
	write_file("zst", out, packed);
	packed = ZSTD_compress(out, len + 4096, text, half, 1);
	packed += ZSTD_compress(out + packed, len + 4096 - packed, text + half, len - half, 1);
	write_file("zst members", out, packed);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct trace *t = read_file(names[i], NULL);
		uint64_t json, resident, spilled;
		size_t notes;

		assert_int_equal(trace_rows(t), n);
		check_rows(t, n);
		trace_notes(t, &notes);
		assert_int_equal(notes, 0);
		assert_int_equal(trace_meta(t)->rank, 3);
		trace_sizes(t, &json, &resident, &spilled);
		assert_int_equal(json, len);
		assert_int_equal(spilled, 0);
		trace_free(t);
	}
	free(out);
	free(text);
}

static void check_damaged(const char *what, const unsigned char *data, size_t len, unsigned n)
{
	struct trace *t;

	write_file("damaged", data, len);
	t = read_file("damaged", NULL);
	assert_true(trace_rows(t) > 0);
	assert_true(trace_rows(t) < n);
	if (!noted(t, "compression") || !noted(t, "truncated"))
		fail_msg("%s: not noted", what);
	check_rows(t, (unsigned)trace_rows(t) - 1); /* the last may have been mended */
	trace_free(t);
}

static void test_damage(void **state)
{
	const unsigned n = 20000;
	size_t len, packed;
	char *text = make_trace(n, &len);
	unsigned char *out = malloc(len + 4096);
	struct trace *t = NULL;
	struct err e = {0};

	(void)state;
	packed = gzip(text, len, out, len + 4096);
	check_damaged("gzip cut", out, packed / 2, n);
	memset(out + packed / 2, 0xff, 64);
	check_damaged("gzip overwritten", out, packed, n);
	packed = ZSTD_compress(out, len + 4096, text, len, 1);
	check_damaged("zstd cut", out, packed / 2, n);
	write_file("damaged", out, 6);
	assert_int_equal(trace_read(path_of("damaged"), NULL, &t, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "ends early"));
	free(out);
	free(text);
}

static void test_errors(void **state)
{
	struct trace *t = NULL;
	struct err e = {0}, e2 = {0};

	(void)state;
	assert_int_equal(trace_read(path_of("absent"), NULL, &t, &e), -ENOENT);
	assert_non_null(strstr(e.text, "absent"));
	assert_int_equal(trace_read(folder, NULL, &t, &e2), -EISDIR);
	assert_null(t);
}

/* ---- a pipe ------------------------------------------------------------------------------ */

struct feed {
	int fd;
	const char *text;
	size_t len;
};

static void *feed(void *arg)
{
	const struct feed *f = arg;
	ssize_t done = 0;

	for (size_t at = 0; at < f->len; at += (size_t)done) {
		done = write(f->fd, f->text + at, f->len - at < 3001 ? f->len - at : 3001);
		if (done < 0)
			break;
	}
	close(f->fd);
	return NULL;
}

static void test_pipe(void **state)
{
	const unsigned n = 5000;
	size_t len;
	char *text = make_trace(n, &len), path[64];
	int ends[2];
	struct feed f;
	pthread_t thread;
	struct trace *t = NULL;
	struct err e = {0};

	(void)state;
	assert_int_equal(pipe(ends), 0);
	f = (struct feed){ends[1], text, len};
	assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	assert_int_equal(trace_read(path, NULL, &t, &e), 0);
	pthread_join(thread, NULL);
	close(ends[0]);
	assert_int_equal(trace_rows(t), n);
	check_rows(t, n);
	trace_free(t);
	free(text);
}

/* ---- stopping ----------------------------------------------------------------------------- */

static bool stop_now(void *arg, uint64_t bytes, uint64_t of, uint64_t rows)
{
	unsigned *calls = arg;

	(void)rows;
	assert_true(bytes <= of || !of);
	return ++*calls == 2;
}

/* Also when nothing comes any more. */
static void test_stop(void **state)
{
	unsigned calls = 0;
	struct trace_options o = {.progress = {stop_now, &calls}};
	struct trace *t = NULL;
	struct err e = {0};
	int ends[2];
	char path[64];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "[{\"ph\":", 7), 7);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	assert_int_equal(trace_read(path, &o, &t, &e), -EINTR);
	assert_int_equal(calls, 2);
	assert_null(t);
	/* The same of compressed data: the thread ends too. */
	calls = 0;
	assert_int_equal(write(ends[1], "\x1f\x8b\x08\x00", 4), 4);
	assert_int_equal(trace_read(path, &o, &t, &e), -EINTR);
	close(ends[0]);
	close(ends[1]);
}

/* ---- more than fits ----------------------------------------------------------------------- */

static void test_spill(void **state)
{
	const unsigned n = 3 * TRACE_BLOCK_ROWS + 1000;
	struct trace_options o = {.memory = 1 << 20, .temporary = folder};
	uint64_t json, resident, spilled;
	size_t len;
	char *text = make_trace(n, &len);
	struct trace *t;

	(void)state;
	write_file("large", text, len);
	t = read_file("large", &o);
	trace_sizes(t, &json, &resident, &spilled);
	assert_int_equal(trace_rows(t), n);
	assert_true(spilled > 0);
	check_rows(t, n);
	check_rows(t, n); /* from the front again */
	trace_free(t);
	/* Nowhere to write it: an error that says so. */
	o.temporary = "/nonexistent/folder";
	t = NULL;
	assert_int_equal(trace_read(path_of("large"), &o, &t, NULL), -ENOENT);
	assert_null(t);
	free(text);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"plain",       "gz",      "members", "zst",
					    "zst members", "damaged", "large"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(path_of(names[i]));
	return rmdir(folder); /* fails if a temporary file was left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats), cmocka_unit_test(test_damage),
		cmocka_unit_test(test_errors),  cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_stop),    cmocka_unit_test(test_spill),
	};

	return cmocka_run_group_tests_name("read_files", tests, set_up, tear_down);
}

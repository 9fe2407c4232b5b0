/* SPDX-License-Identifier: Apache-2.0
 *
 * test_import.c - files of other tools: the samples in the fuzzers' corpus were written by the
 * tools' own formats (Python's pickle and marshal among them), the numbers are counted by hand.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "trace/import_file.h"
#include "trace/import_folded.h"
#include "trace/import_pstats.h"
#include "trace/import_smi.h"
#include "trace/import_snapshot.h"
#include "trace/import_timeline.h"
#include "trace/import_tracemalloc.h"

/* The sample without the byte that tells the fuzzer which importer is meant. */
static struct buf sample(const char *name)
{
	struct buf b;
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", getenv("IMPORT_SAMPLES"), name);
	buf_init(&b, 1 << 24);
	assert_int_equal(file_read(AT_FDCWD, path, &b), 0);
	memmove(b.data, b.data + 1, b.len);
	b.len--;
	return b;
}

static void is_line(const struct import_folded *f, size_t i, const char *stack, double weight)
{
	assert_true(i < f->n);
	assert_int_equal(f->lines[i].len, strlen(stack));
	assert_memory_equal(f->text.data + f->lines[i].at, stack, strlen(stack));
	assert_true(f->lines[i].weight == weight);
}

static void test_collapsed(void **state)
{
	struct buf b = sample("collapsed");
	struct import_folded f;
	struct err e = {0};

	(void)state;
	assert_int_equal(import_folded(b.data, b.len, &f, &e), 0);
	assert_int_equal(f.n, 3);
	is_line(&f, 0, "main;f;g", 12);
	is_line(&f, 1, "main", 3);
	is_line(&f, 2, "x y.py (a.py:1);z", 4);
	assert_true(f.total == 19);
	assert_int_equal(f.skipped, 1);
	assert_int_equal(f.first_skipped, 3);
	import_folded_done(&f);
	buf_done(&b);
}

static void test_speedscope(void **state)
{
	struct buf b = sample("speedscope");
	struct import_folded f;
	struct err e = {0};

	(void)state;
	assert_int_equal(import_folded(b.data, b.len, &f, &e), 0);
	assert_string_equal(f.unit, "seconds");
	assert_int_equal(f.n, 6);
	is_line(&f, 0, "main;a:b", 0.5);
	is_line(&f, 1, "main;c\xc3\xa9", 0.25);
	is_line(&f, 2, "main", 1);
	is_line(&f, 3, "main", 1);       /* evented: 0 to 1 */
	is_line(&f, 4, "main;a:b", 1.5); /* 1 to 2.5 */
	is_line(&f, 5, "main", 0.5);
	import_folded_done(&f);
	buf_done(&b);
}

static void test_pstats(void **state)
{
	struct buf b = sample("pstats");
	struct import_pstats p;
	struct err e = {0};

	(void)state;
	assert_int_equal(import_pstats(b.data, b.len, &p, &e), 0);
	assert_int_equal(p.n, 2);
	assert_memory_equal(p.functions[0].name, "f", 1);
	assert_memory_equal(p.functions[0].file, "a.py", 4);
	assert_int_equal(p.functions[0].line, 1);
	assert_int_equal(p.functions[0].primitive, 1);
	assert_int_equal(p.functions[0].calls, 2);
	assert_true(p.functions[0].self == 0.5 && p.functions[0].total == 0.75);
	assert_int_equal(p.functions[0].callers, 1);
	assert_true(p.self == 0.75);
	assert_int_equal(p.calls, 3);
	import_pstats_done(&p);
	buf_done(&b);
}

static void test_smi(void **state)
{
	struct buf b = sample("smi");
	struct import_smi s;
	struct err e = {0};

	(void)state;
	assert_int_equal(import_smi(b.data, b.len, &s, &e), 0);
	assert_int_equal(s.n_rows, 2);
	assert_int_equal(s.n_columns, 5);
	assert_string_equal(s.columns[2].name, "utilization.gpu");
	assert_string_equal(s.columns[2].unit, "%");
	assert_int_equal(s.columns[2].n, 1);
	assert_int_equal(s.columns[2].none, 1);
	assert_true(s.cells[2] == 12 && isnan(s.cells[5 + 2]));
	assert_true(s.columns[3].least == 100 && s.columns[3].most == 150 &&
		    s.columns[3].sum == 250);
	assert_string_equal(s.gpus[0], "GPU A");
	/* date -u -d "2026-11-27 23:11:01" +%s */
	assert_int_equal(s.from, 1795821061250000000);
	assert_int_equal(s.to, 1795821062250000000);
	import_smi_done(&s);
	buf_done(&b);
}

static void test_smi_odd(void **state)
{
	static const char nounits[] = "index, memory.used [MiB]\r\n0, 5\r\n1, 7\r\n\r\n"
				      "index, memory.used [MiB]\r\n0, 6\r\n1";
	static const char noheader[] = "2026/11/27 23:11:01.250, 5 %\n";
	struct import_smi s;
	struct err e = {0};

	(void)state;
	assert_int_equal(import_smi(nounits, strlen(nounits), &s, &e), 0);
	assert_int_equal(s.n_rows, 3);
	assert_int_equal(s.n_gpus, 2);
	assert_int_equal(s.rows[1].gpu, 1);
	assert_int_equal(s.rows[2].gpu, 0);
	assert_int_equal(s.skipped, 1); /* the cut-off line */
	assert_int_equal(s.first_skipped, 7);
	import_smi_done(&s);
	assert_int_equal(import_smi(noheader, strlen(noheader), &s, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "noheader"));
	err_clear(&e);
	assert_int_equal(import_smi("", 0, &s, &e), -EBADMSG);
}

static void check_snapshot(const char *name)
{
	struct buf b = sample(name);
	struct import_snapshot s;
	struct err e = {0};
	const struct import_snapshot_device *d;

	if (import_snapshot(b.data, b.len, &s, &e))
		fail_msg("%s", e.text);
	assert_int_equal(s.n, 1);
	d = &s.devices[0];
	assert_int_equal(d->segments, 1);
	assert_int_equal(d->blocks, 2);
	assert_int_equal(d->live, 1);
	assert_int_equal(d->reserved, 4096);
	assert_int_equal(d->allocated, 1024);
	assert_int_equal(d->requested, 1000);
	assert_int_equal(d->free, 3072);
	assert_int_equal(d->largest_free, 3072);
	assert_int_equal(d->allocs, 2);
	assert_int_equal(d->frees, 1);
	assert_int_equal(d->segment_allocs, 1);
	assert_int_equal(d->events, 5);
	assert_int_equal(d->begin, 0);
	assert_int_equal(d->end, 1024);
	assert_int_equal(d->peak, 3072);
	assert_int_equal(d->peak_us, 12);
	assert_int_equal(s.live.n, 1);
	is_line(&s.live, 0, "a.py:9 <module>;a.py:3 f", 1024);
	import_snapshot_done(&s);
	buf_done(&b);
}

static void test_snapshot(void **state)
{
	(void)state;
	check_snapshot("snapshot2");
	check_snapshot("snapshot4");
}

/* Nothing in a pickle is ever run: what would call something is refused by name. */
static void test_pickle_refused(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *word;
	} rows[] = {
		{"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.", 26, "posix.system"},
		{"cos\nsystem\n(S'id'\ntR.", 22, "opcode 0x63"},
		{"\x80\x02}q\x05.", 6, "out of order"},
		{"\x80\x02h\x00.", 5, "never made"},
		{"\x80\x02X\xff\xff\xff\x7f"
		 "a.",
		 9, "longer than the data"},
		{"\x80\x02"
		 "e.",
		 4, "no mark"},
		{"\x80\x02K\x01"
		 "K\x02"
		 "a.",
		 8, "holds none"},
		{"\x80\x02.", 3, "without a value"},
		{"\x80\x02N", 3, "before its end mark"},
		{"", 0, "before its end mark"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct import_tree t;
		struct err e = {0};

		assert_int_equal(import_pickle(rows[i].text, rows[i].len, &t, &e), -EBADMSG);
		if (!strstr(e.text, rows[i].word))
			fail_msg("row %zu: %s", i, e.text);
	}
}

static void test_pickle_numbers(void **state)
{
	/* [-1, 2**31, -2**63, 2**70, 1.5, True] by pickle.dumps(…, 2) */
	static const char text[] =
		"\x80\x02]q\x00(J\xff\xff\xff\xff\x8a\x05\x00\x00\x00\x80\x00\x8a\x08"
		"\x00\x00\x00\x00\x00\x00\x00\x80\x8a\x09\x00\x00\x00\x00\x00\x00\x00"
		"\x00@G?\xf8\x00\x00\x00\x00\x00\x00\x88"
		"e.";
	struct import_tree t;
	struct err e = {0};

	(void)state;
	assert_int_equal(import_pickle(text, sizeof(text) - 1, &t, &e), 0);
	assert_int_equal(import_count(&t, t.root), 6);
	assert_int_equal(import_int(&t, import_at(&t, t.root, 0), 0), -1);
	assert_int_equal(import_int(&t, import_at(&t, t.root, 1), 0), 1ll << 31);
	assert_int_equal(import_int(&t, import_at(&t, t.root, 2), 0), INT64_MIN);
	assert_int_equal(import_int(&t, import_at(&t, t.root, 3), 0), INT64_MAX);
	assert_true(import_float(&t, import_at(&t, t.root, 4), 0) == 1.5);
	assert_int_equal(import_int(&t, import_at(&t, t.root, 5), 0), 1);
	import_tree_done(&t);
}

/* Before: 100 and 50; at 10: 35 of activations come, at 20 they go, at 30 10 of unknown go. */
static void test_timeline(void **state)
{
	struct buf b = sample("timeline");
	struct import_timeline t;
	struct err e = {0};

	(void)state;
	assert_int_equal(import_timeline(b.data, b.len, &t, &e), 0);
	assert_int_equal(t.n, 4);
	assert_int_equal(t.points[0].ts, 10); /* what was before: at the first time */
	assert_int_equal(t.points[0].total, 150);
	assert_int_equal(t.points[1].total, 185);
	assert_int_equal(t.points[3].total, 140);
	assert_int_equal(t.peak, 185);
	assert_int_equal(t.peak_point, 1);
	assert_int_equal(t.categories[4].peak, 35);
	assert_int_equal(t.categories[4].least, 0);
	assert_int_equal(t.categories[7].peak, 50);
	assert_int_equal(t.categories[7].last, 40);
	assert_string_equal(import_category(4), "Activation");
	import_timeline_done(&t);
	buf_done(&b);
}

/* Two arrays of 1000 bytes (and their headers) of f, called by g's comprehension. */
static void test_tracemalloc(void **state)
{
	struct buf b = sample("tracemalloc");
	struct import_folded f;
	struct err e = {0};

	(void)state;
	if (import_tracemalloc(b.data, b.len, &f, &e))
		fail_msg("%s", e.text);
	assert_true(f.n >= 2);
	assert_true(f.total >= 2000 && f.total < 2300);
	for (size_t i = 0; i < f.n; i++) {
		static const char end[] = ";/home/user/training/aa.py:3";

		assert_true(f.lines[i].len > sizeof(end));
		assert_memory_equal(f.text.data + f.lines[i].at + f.lines[i].len + 1 - sizeof(end),
				    end, sizeof(end) - 1);
	}
	import_folded_done(&f);
	buf_done(&b);
}

static void test_detect(void **state)
{
	static const struct {
		const char *name;
		enum import_kind kind;
	} samples[] = {
		{"collapsed", IMPORT_FILE_COLLAPSED},     {"speedscope", IMPORT_FILE_SPEEDSCOPE},
		{"pstats", IMPORT_FILE_PSTATS},           {"smi", IMPORT_FILE_SMI},
		{"snapshot2", IMPORT_FILE_SNAPSHOT},      {"snapshot4", IMPORT_FILE_SNAPSHOT},
		{"tracemalloc", IMPORT_FILE_TRACEMALLOC}, {"timeline", IMPORT_FILE_TIMELINE},
	};
	static const struct {
		const char *text;
		enum import_kind kind;
	} texts[] = {
		{"{\"traceEvents\":[]}", IMPORT_FILE_TRACE},
		{"[{\"ph\":\"X\"}]", IMPORT_FILE_TRACE},
		{"SQLite format 3", IMPORT_FILE_SQLITE},
		{"CMDLINE python x.py\nMEM 1.0 2.0\n", IMPORT_FILE_MPROF},
		{"MEM 1.0 2.0\n", IMPORT_FILE_MPROF},
		{"<!DOCTYPE x><html>", IMPORT_FILE_HTML},
		{"hello", IMPORT_FILE_UNKNOWN},
		{"", IMPORT_FILE_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
		struct buf b = sample(samples[i].name);

		if (import_detect(b.data, b.len) != samples[i].kind)
			fail_msg("%s", samples[i].name);
		assert_null(import_kind_advice(samples[i].kind));
		buf_done(&b);
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (import_detect(texts[i].text, strlen(texts[i].text)) != texts[i].kind)
			fail_msg("%s", texts[i].text);
	assert_non_null(import_kind_advice(IMPORT_FILE_HTML));
	assert_int_equal(import_kind_of("pstats"), IMPORT_FILE_PSTATS);
	assert_int_equal(import_kind_of("what"), IMPORT_FILE_UNKNOWN);
	assert_null(import_kind_key(IMPORT_FILE_HTML));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collapsed),      cmocka_unit_test(test_speedscope),
		cmocka_unit_test(test_pstats),         cmocka_unit_test(test_smi),
		cmocka_unit_test(test_smi_odd),        cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_pickle_refused), cmocka_unit_test(test_pickle_numbers),
		cmocka_unit_test(test_timeline),       cmocka_unit_test(test_tracemalloc),
		cmocka_unit_test(test_detect),
	};

	return cmocka_run_group_tests_name("trace-import", tests, NULL, NULL);
}

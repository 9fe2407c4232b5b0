/* SPDX-License-Identifier: Apache-2.0
 *
 * test_read.c - the reader of traces: what each value becomes, and what becomes of text that
 * is not as it should be. Each complaint that users have about other tools is a row here.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/reading.h"
#include "trace/trace.h"

#define FIRST                                                                                      \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"first\",\"pid\":1,\"tid\":2,\"ts\":1000.5,"   \
	"\"dur\":2.25,\"args\":{\"External id\":7}}"
#define LAST                                                                                       \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"last\",\"pid\":1,\"tid\":2,\"ts\":2000,"      \
	"\"dur\":3,\"args\":{\"External id\":8}}"
/* An event but for its name and what follows dur. */
#define X(name, more)                                                                              \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":" name                                          \
	",\"pid\":1,\"tid\":2,\"ts\":1500,\"dur\":4" more "}"

static struct trace *read_pieces(const char *text, size_t len, size_t piece)
{
	struct trace *t = NULL;
	struct err e = {0};

	assert_int_equal(reading_bytes(text, len, piece, NULL, NULL, &t, &e), 0);
	assert_non_null(t);
	return t;
}

static struct trace *read_text(const char *text)
{
	return read_pieces(text, strlen(text), 0);
}

/* How often a kind was noted. */
static uint64_t noted(const struct trace *t, const char *name)
{
	size_t n;
	const struct trace_note *notes = trace_notes(t, &n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(trace_note_rows[notes[i].kind].name, name))
			return notes[i].count;
	return 0;
}

static const char *name_of(struct trace *t, uint32_t row)
{
	return trace_text(t, trace_block(t, 0)->name[row], NULL);
}

/* ---- one odd event between two good ones ---------------------------------------------- */

struct odd_row {
	const char *what, *text;
	const char *name; /* of the event in the middle; NULL: it is lost */
	const char *note; /* NULL: none at all */
};

static const struct odd_row odd_rows[] = {
	{"as it should be", X("\"b\"", ""), "b", NULL},
	{"quote in a name", X("\"say \"hi\" now\"", ""), "say \"hi\" now", "unescaped-quote"},
	{"quote and comma", X("\"f(\"a\", b)\"", ""), "f(\"a\", b)", "unescaped-quote"},
	{"quote at the end", X("\"a \"b\"\"", ""), "a \"b\"", "unescaped-quote"},
	{"quote in an argument",
	 X("\"b\"", ",\"args\":{\"Concrete Inputs\":[\"x \"y\" z\", \"\"],\"External id\":9}"), "b",
	 "unescaped-quote"},
	{"missing quote", X("\"b", ""), "b", "missing-quote"},
	{"missing quote before a line break",
	 "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":4,\"name\":\"b\n}", "b",
	 "missing-quote"},
	{"N/A", X("\"b\"", ",\"args\":{\"bytes\":N/A,\"External id\":9}"), "b", "bare-word"},
	{"NaN", X("\"b\"", ",\"args\":{\"bytes\":NaN,\"External id\":9}"), "b", "non-finite"},
	{"raw tab and bell", X("\"a\tb\ac\"", ""), "a\tb\ac", "control-character"},
	{"raw line break", X("\"a\nb\"", ""), "a\nb", "control-character"},
	{"not UTF-8", X("\"a\xff\xc3(\"", ""), "a\xff\xc3(", "not-utf8"},
	{"UTF-8", X("\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"", ""),
	 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", NULL},
	{"escapes", X("\"\\u00e4\\u20ac\\ud83d\\ude00\\n\\\"\\\\\\/\"", ""),
	 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\n\"\\/", NULL},
	{"half a pair", X("\"\\ud83dx\"", ""), "\xef\xbf\xbdx", NULL},
	{"no escape", X("\"a\\q\"", ""), "a\\q", "bad-escape"},
	{"key twice", X("\"a\"", ",\"name\":\"b\""), "b", "duplicate-key"},
	{"comma behind the last key", X("\"b\"", ","), "b", "comma"},
	{"two commas", X("\"b\"", ",,\"id\":1"), "b", "comma"},
	{"missing comma", X("\"b\"", " \"id\":1"), "b", "event-mended"},
	{"missing brace", X("\"b\"", ",\"args\":{\"External id\":9"), "b", "event-mended"},
	{"missing colon", X("\"b\"", ",\"id\" 1"), "b", "event-mended"},
	{"no value", X("\"b\"", ",\"id\":"), "b", "event-mended"},
	{"brackets that do not match", X("\"b\"", ",\"args\":{\"Input Dims\":[[1,2],}"), "b",
	 "event-mended"},
	{"an array that does not end", X("\"b\"", ",\"args\":{\"Input Dims\":[[1,2]}"), "b",
	 "event-mended"},
	{"nothing but rubbish", "{%%%%}", NULL, "event-lost"},
	{"no ph", "{\"name\":\"b\",\"ts\":1,\"dur\":2}", NULL, "event-lost"},
	{"no ts", "{\"ph\":\"X\",\"name\":\"b\",\"dur\":2}", "b", "no-time"},
	{"ts is a word", "{\"ph\":\"X\",\"name\":\"b\",\"ts\":\"soon\",\"dur\":2}", "b",
	 "bad-number"},
	{"negative dur", "{\"ph\":\"X\",\"name\":\"b\",\"ts\":5,\"dur\":-2}", "b", "negative-dur"},
	{"huge number", "{\"ph\":\"X\",\"name\":\"b\",\"ts\":5,\"dur\":1e99}", "b", "number-range"},
	{"infinite", X("\"b\"", ",\"args\":{\"blocks per SM\":\"inf\"}"), "b", "non-finite"},
};

static void check_odd(const struct odd_row *x, size_t piece)
{
	char text[2048];
	int len = snprintf(text, sizeof(text), "{\"traceEvents\":[\n" FIRST ",\n%s,\n" LAST "\n]}",
			   x->text);
	struct trace *t = read_pieces(text, (size_t)len, piece);
	size_t n_notes;

	if (trace_rows(t) != 2u + !!x->name)
		fail_msg("%s: %llu rows", x->what, (unsigned long long)trace_rows(t));
	assert_string_equal(name_of(t, 0), "first");
	assert_string_equal(name_of(t, (uint32_t)trace_rows(t) - 1), "last");
	if (x->name && strcmp(name_of(t, 1), x->name) != 0)
		fail_msg("%s: the name is %s", x->what, name_of(t, 1));
	assert_int_equal(trace_block(t, 0)->index[trace_rows(t) - 1], 2);
	assert_int_equal(trace_block(t, 0)->external[trace_rows(t) - 1], 8);
	trace_notes(t, &n_notes);
	if (!x->note && n_notes)
		fail_msg("%s: noted something", x->what);
	if (x->note && !noted(t, x->note))
		fail_msg("%s: not noted", x->what);
	assert_true(trace_meta(t)->is_complete);
	trace_free(t);
}

static void test_odd_event(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(odd_rows) / sizeof(*odd_rows); i++) {
		check_odd(&odd_rows[i], 0);
		for (size_t piece = 1; piece < 40; piece += 7)
			check_odd(&odd_rows[i], piece);
	}
}

/* ---- the whole text -------------------------------------------------------------------- */

static void test_tops(void **state)
{
	static const struct {
		const char *text;
		uint64_t rows;
		const char *note;
		bool complete;
	} rows[] = {
		{"[" FIRST "," LAST "]", 2, NULL, true},
		{"\xef\xbb\xbf[" FIRST "]", 1, "byte-order-mark", true},
		{" \n{\"traceEvents\" : [ " FIRST " ] , \"x\" : {\"a\":[1,{}]} } \n", 1, NULL,
		 true},
		{"{\"traceEvents\":[]}", 0, NULL, true},
		{"{\"a\":N/A,\"traceEvents\":[" FIRST "]}", 1, "bare-word", true},
		{"{\"INFO\":\"a \"quoted\" word\",\n\"traceEvents\":[" FIRST "]}", 1, "metadata",
		 true},
		{"{\"traceEvents\":[" FIRST ",]}", 1, "comma", true},
		{"{\"traceEvents\":[" FIRST " " LAST "]}", 2, "comma", true},
		{"{\"traceEvents\":[" FIRST ",null,7," LAST "]}", 2, "between-events", true},
		{"{\"traceEvents\":[" FIRST "}," LAST "]}", 2, "between-events", true},
		{"{\"traceEvents\":[" FIRST "," LAST "]} tail", 2, "between-events", true},
		{"{\"traceEvents\":[" FIRST "," LAST, 2, "truncated", false},
		{"{\"traceEvents\":[" FIRST ",", 1, "truncated", false},
		{"{\"traceEvents\":[" FIRST "]", 1, "truncated", false},
		{"[" FIRST "," LAST, 2, "truncated", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct trace *t = read_text(rows[i].text);

		if (trace_rows(t) != rows[i].rows)
			fail_msg("%s: %llu rows", rows[i].text, (unsigned long long)trace_rows(t));
		if (rows[i].note && !noted(t, rows[i].note))
			fail_msg("%s: no note %s", rows[i].text, rows[i].note);
		assert_int_equal(trace_meta(t)->is_complete, rows[i].complete);
		trace_free(t);
	}
}

static void test_no_trace(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{"", "empty"},
		{"  \n ", "empty"},
		{"hello", "found 'hello' at byte 0, expected { or ["},
		{"\"a\"", "expected { or ["},
		{"{}", "no array traceEvents"},
		{"{\"traceEvents\":7}", "no array traceEvents"},
		{"{\"schemaVersion\":1", "no array traceEvents"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct trace *t = NULL;
		struct err e = {0};
		int rc = trace_read_bytes(rows[i].text, strlen(rows[i].text), NULL, &t, &e);

		assert_int_equal(rc, -EBADMSG);
		assert_null(t);
		if (!strstr(e.text, rows[i].says))
			fail_msg("%s: %s", rows[i].text, e.text);
	}
}

/* Cut anywhere: all events that are whole are there, and the loss is told. */
static void test_cut_anywhere(void **state)
{
	static const char text[] = "{\"traceEvents\":[" FIRST "," LAST "],\"traceName\":\"x\"}";
	size_t one = sizeof("{\"traceEvents\":[" FIRST) - 1;
	size_t two = sizeof("{\"traceEvents\":[" FIRST "," LAST) - 1;

	(void)state;
	for (size_t len = 16; len < sizeof(text) - 1; len++) {
		struct trace *t = read_pieces(text, len, 0);
		uint64_t whole = len >= two ? 2 : len >= one;

		/* What there is of the last event may be enough to keep it. */
		assert_in_range(trace_rows(t), whole, whole + 1);
		assert_false(trace_meta(t)->is_complete);
		assert_true(noted(t, "truncated") || noted(t, "event-mended"));
		trace_free(t);
	}
}

/* ---- values ----------------------------------------------------------------------------- */

static void test_times(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
		bool fraction;
	} rows[] = {
		{"0", 0, false},
		{"7", 7000, false},
		{"-7", -7000, false},
		{"-7.5", -7500, true},
		{"1669783687464181", 1669783687464181000, false},
		{"1712195495509889.253", 1712195495509889253, true},
		{"3605057436108.407", 3605057436108407, true},
		{"0.001", 1, true},
		{"0.0005", 1, true},
		{"0.00049", 0, true},
		{"2.75", 2750, true},
		{"0.30000000000000004", 300, true},
		{"1.6e15", 1600000000000000000, true},
		{"12E-1", 1200, true},
		{"\"1712195495509889.253\"", 1712195495509889253, true},
		{"\"42\"", 42000, false},
		{"9223372036854775.807", INT64_MAX, true},
		{"9223372036854775.808", INT64_MAX, true},
		{"99999999999999999999", INT64_MAX, false},
		{"-99999999999999999999", INT64_MIN, false},
		{"00012", 12000, false},
		{"1.", 1000, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[256];
		struct trace *t;
		const struct trace_block *b;

		snprintf(text, sizeof(text), "[{\"ph\":\"X\",\"ts\":%s,\"dur\":%s}]", rows[i].text,
			 rows[i].text);
		t = read_text(text);
		b = trace_block(t, 0);
		if (b->ts[0] != rows[i].ns || b->dur[0] != rows[i].ns)
			fail_msg("%s: %lld", rows[i].text, (long long)b->ts[0]);
		assert_int_equal(!!(b->flags[0] & TRACE_TS_FRACTION), rows[i].fraction);
		assert_true(b->flags[0] & TRACE_HAS_DUR);
		assert_false(b->flags[0] & TRACE_HAS_CAT);
		trace_free(t);
	}
}

static void test_columns(void **state)
{
	struct trace *t = read_text(
		"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":\"stream 7\","
		"\"ts\":1,\"dur\":2,\"args\":{\"device\":0,\"context\":1,\"stream\":7,"
		"\"correlation\":18446744073709551615,\"External id\":\"12\",\"grid\":[3, 2, 1],"
		"\"block\":[64,1,1],\"registers per thread\":40,\"shared memory\":2048,"
		"\"blocks per SM\":0.0125,\"warps per SM\":1,\"est. achieved occupancy %\":33,"
		"\"memory bandwidth (GB/s)\":1.2345678901234567,\"bytes\":\"99\"}},"
		"{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":\"0\",\"tid\":\"stream "
		"7\","
		"\"ts\":5,\"dur\":null,\"args\":{\"stream\":\"0x0\",\"Input Dims\":[[1, 2], []]}},"
		"{\"ph\":\"X\",\"cat\":\"own\",\"name\":\"k\",\"pid\":\"Spans\",\"tid\":-3,\"ts\":"
		"6,"
		"\"args\":{\"stream\":4294967295,\"Input Dims\":\n[[1,\n 2],\n\t[]]}}]");
	const struct trace_block *b = trace_block(t, 0);
	const struct trace_args *a = trace_args(t, b->args[0]);
	const struct trace_track *k = trace_track(t, b->track[0]);

	(void)state;
	assert_int_equal(trace_rows(t), 3);
	assert_int_equal(b->correlation[0], -1); /* the bits of 2^64 - 1 */
	assert_int_equal(b->external[0], 12);
	assert_int_equal(b->stream[0], 7);
	assert_int_equal(b->stream[1], TRACE_NONE);
	assert_int_equal(b->stream[2], INT32_MAX);
	assert_int_equal(b->cat[0], TRACE_CAT_KERNEL);
	assert_int_equal(b->cat[1], TRACE_CAT_KERNEL);
	assert_int_equal(b->cat[2], TRACE_CAT_OTHER);
	assert_int_equal(b->flags[0], TRACE_HAS_DUR | TRACE_HAS_CAT);
	assert_int_equal(b->flags[1], TRACE_HAS_CAT);
	assert_int_equal(a->grid[0], 3);
	assert_int_equal(a->grid[1], 2);
	assert_int_equal(a->block[0], 64);
	assert_int_equal(a->registers, 40);
	assert_int_equal(a->shared_memory, 2048);
	assert_true(a->blocks_per_sm == 0.0125 && a->warps_per_sm == 1 && a->occupancy == 33);
	assert_true(a->bandwidth == 1.2345678901234567);
	assert_int_equal(a->bytes, 99);
	assert_int_equal(a->python_id, TRACE_NONE);
	assert_int_equal(k->pid, 0);
	assert_int_equal(k->tid, 7);
	assert_true(k->tid_is_stream);
	assert_int_equal(b->track[0], b->track[1]); /* pid 0 and "0" are the same text */
	assert_int_equal(trace_track(t, b->track[2])->pid, TRACE_NONE);
	assert_int_equal(trace_track(t, b->track[2])->tid, -3);
	assert_string_equal(trace_text(t, trace_args(t, b->args[1])->dims, NULL), "[[1, 2], []]");
	assert_int_equal(trace_args(t, b->args[1])->dims, trace_args(t, b->args[2])->dims);
	assert_true(isnan(trace_args(t, b->args[1])->occupancy));
	trace_free(t);
}

static void test_other_phases(void **state)
{
	struct trace *t = read_text(
		"{\"traceEvents\":["
		"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":"
		"\"main\"}},"
		"{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"outer\",\"pid\":1,\"tid\":2,\"ts\":10}"
		","
		"{\"ph\":\"B\",\"name\":\"inner\",\"pid\":1,\"tid\":2,\"ts\":11.5},"
		"{\"ph\":\"B\",\"name\":\"elsewhere\",\"pid\":1,\"tid\":3,\"ts\":12},"
		"{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":13},"
		"{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":20},"
		"{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":21},"
		"{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"tid\":2,\"ts\":14,\"s\":\"t\","
		"\"args\":"
		"{\"Addr\":140737488355328,\"Bytes\":-512,\"Total Allocated\":1024,\"Device "
		"Type\":1,"
		"\"Device Id\":0}},"
		"{\"ph\":\"C\",\"name\":\"counter\",\"ts\":15,\"args\":{\"x\":1}},"
		"{\"ph\":\"s\",\"id\":1,\"ts\":15,\"pid\":1,\"tid\":2},"
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"python\"}},"
		"{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":1,\"args\":{\"labels\":\"GPU "
		"0\"}},"
		"{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":2,"
		"\"args\":{\"sort_index\":99}}"
		"]}");
	const struct trace_block *b = trace_block(t, 0);
	const struct trace_track *k = trace_track(t, b->track[0]);
	const struct trace_memory *m;

	(void)state;
	assert_int_equal(trace_rows(t), 2);
	assert_string_equal(name_of(t, 0), "inner");
	assert_int_equal(b->ts[0], 11500);
	assert_int_equal(b->dur[0], 1500);
	assert_int_equal(b->index[0], 2);
	assert_string_equal(name_of(t, 1), "outer");
	assert_int_equal(b->dur[1], 10000);
	assert_int_equal(b->flags[1], TRACE_HAS_DUR | TRACE_HAS_CAT | TRACE_PAIRED);
	assert_int_equal(noted(t, "unpaired"), 2);
	m = trace_memory_at(t, 0);
	assert_int_equal(trace_memories(t), 1);
	assert_null(trace_memory_at(t, 1));
	assert_int_equal(m->bytes, -512);
	assert_int_equal(m->address, 140737488355328);
	assert_int_equal(m->allocated, 1024);
	assert_int_equal(m->reserved, TRACE_NONE);
	assert_int_equal(m->device_type, 1);
	assert_int_equal(trace_phase_count(t, 'B'), 3);
	assert_int_equal(trace_phase_count(t, 'C'), 1);
	assert_int_equal(trace_phase_count(t, 'M'), 4);
	assert_string_equal(trace_text(t, k->name, NULL), "main");
	assert_string_equal(trace_text(t, k->process_name, NULL), "python");
	assert_string_equal(trace_text(t, k->process_labels, NULL), "GPU 0");
	assert_int_equal(k->sort_index, 99);
	trace_free(t);
}

static void test_metadata(void **state)
{
	struct trace *t = read_text(
		"{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":3,\"name\":\"GPU \\\"x\\\"\","
		"\"totalGlobalMem\":85017493504,\"computeMajor\":9,\"computeMinor\":0,\"numSms\":"
		"132,"
		"\"warpSize\":32,\"maxThreadsPerMultiprocessor\":2048}],\"traceEvents\":[" FIRST
		"],"
		"\"distributedInfo\":{\"backend\":\"nccl\",\"pg_config\":[{\"rank\":9}],\"rank\":5,"
		"\"world_size\":8},\"baseTimeNanoseconds\":1790857026000000001,\"with_stack\":1,"
		"\"record_shapes\":true,\"host_name\":\"h\",\"cupti_version\":22}");
	const struct trace_meta *m = trace_meta(t);
	const struct trace_device *d;
	size_t n;

	(void)state;
	d = trace_devices(t, &n);
	assert_int_equal(n, 1);
	assert_int_equal(d->id, 3);
	assert_string_equal(trace_text(t, d->name, NULL), "GPU \"x\"");
	assert_int_equal(d->memory, 85017493504);
	assert_int_equal(d->major, 9);
	assert_int_equal(d->sms, 132);
	assert_int_equal(d->threads_per_sm, 2048);
	assert_int_equal(m->rank, 5);
	assert_int_equal(m->world_size, 8);
	assert_string_equal(m->rank_from, "distributedInfo");
	assert_string_equal(trace_text(t, m->backend, NULL), "nccl");
	assert_int_equal(m->base_ns, 1790857026000000001);
	assert_true(m->with_stack && m->record_shapes && !m->profile_memory);
	assert_int_equal(m->cupti, 22);
	assert_int_equal(m->cuda_driver, TRACE_NONE);
	assert_true(m->has_object);
	trace_free(t);
}

/* ---- broken events ---------------------------------------------------------------------- */

static void test_zero_and_far(void **state)
{
	struct trace *t = read_text("[{\"ph\":\"X\",\"name\":\"a\",\"ts\":5000000,\"dur\":1},"
				    "{\"ph\":\"X\",\"name\":\"zero\",\"ts\":0,\"dur\":0},"
				    "{\"ph\":\"X\",\"name\":\"b\",\"ts\":5000010,\"dur\":0},"
				    "{\"ph\":\"X\",\"name\":\"far\",\"ts\":100005000000,\"dur\":1},"
				    "{\"ph\":\"X\",\"name\":\"c\",\"ts\":5000020,\"dur\":1}]");
	const struct trace_block *b = trace_block(t, 0);

	(void)state;
	assert_int_equal(trace_rows(t), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(!!(b->flags[i] & TRACE_BROKEN), i == 1 || i == 3);
	assert_int_equal(noted(t, "zero-event"), 1);
	assert_int_equal(noted(t, "far-time"), 1);
	trace_free(t);

	/* A trace that begins at 0 is none of this. */
	t = read_text("[{\"ph\":\"X\",\"ts\":0,\"dur\":0},{\"ph\":\"X\",\"ts\":10,\"dur\":1}]");
	assert_int_equal(trace_block(t, 0)->flags[0] & TRACE_BROKEN, 0);
	assert_int_equal(noted(t, "zero-event"), 0);
	trace_free(t);
}

static void test_only_columns(void **state)
{
	static const char text[] =
		"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":2,\"args\":{\"Input Dims\":[[1]],"
		"\"Call stack\":\"f\",\"device\":4,\"correlation\":9,"
		"\"Process Group Name\":\"7\"}}]";
	struct trace_options o = {.only_columns = true};
	const struct trace_args *a;
	struct trace *t = NULL;

	(void)state;
	assert_int_equal(trace_read_bytes(text, sizeof(text) - 1, &o, &t, NULL), 0);
	a = trace_args(t, trace_block(t, 0)->args[0]);
	assert_int_equal(a->dims, 0);
	assert_int_equal(a->stack, 0);
	assert_int_equal(a->device, 4);
	assert_string_equal(trace_text(t, a->group_name, NULL), "7");
	assert_int_equal(trace_block(t, 0)->correlation[0], 9);
	assert_int_equal(trace_find(t, "[[1]]"), 0);
	assert_string_equal(trace_text(t, trace_find(t, "a"), NULL), "a");
	trace_free(t);
}

/* A value laid out over lines is copied; what is odd in it is told where it stands in the file. */
static void test_note_of_copy(void **state)
{
	struct trace *t = read_text("[{\"ph\":\"X\",\"ts\":1,\"dur\":2,\"args\":{\"Input Dims\":[\n"
				    "[1],\"\x01\"]}}]");
	const struct trace_note *notes;
	size_t n;

	(void)state;
	notes = trace_notes(t, &n);
	assert_int_equal(n, 1);
	assert_string_equal(trace_note_rows[notes[0].kind].name, "control-character");
	assert_int_equal(notes[0].offset, 47); /* where the value begins */
	trace_free(t);
}

/* What is passed over is noted as it is when it is read. */
static void test_only_links(void **state)
{
	static const char text[] =
		"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":2,\"args\":{"
		"\"External id\":5,\"correlation\":9,\"stream\":7,\"device\":4,\"bytes\":64,"
		"\"memory bandwidth (GB/s)\":1.5,\"grid\":[1, 2,3],\"blocks per SM\":0.25,"
		"\"Sequence number\":-3,\"est. achieved occupancy %\":\"nan\"}},"
		"{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":1,\"pid\":1,\"tid\":3,\"args\":{"
		"\"Bytes\":5,\"Addr\":99999999999999999999}},"
		"{\"ph\":\"s\",\"id\":9,\"pid\":1,\"tid\":4,\"ts\":12.3456,\"name\":\"ac2g\"},"
		"{\"ph\":\"s\",\"id\":9,\"pid\":1,\"tid\":4,\"ts\":[1],\"name\":\"ac2g\"}]";
	struct trace_options all = {.memory = 0},
			     links = {.only_columns = true, .only_links = true};
	static const char *const kinds[] = {"non-finite", "number-range", "bad-number"};
	struct trace *t = NULL, *whole = NULL;
	const struct trace_args *a;

	(void)state;
	assert_int_equal(trace_read_bytes(text, sizeof(text) - 1, &all, &whole, NULL), 0);
	assert_int_equal(trace_read_bytes(text, sizeof(text) - 1, &links, &t, NULL), 0);
	a = trace_args(t, trace_block(t, 0)->args[0]);
	assert_int_equal(trace_block(t, 0)->correlation[0], 9);
	assert_int_equal(trace_block(t, 0)->stream[0], 7);
	assert_int_equal(trace_block(t, 0)->external[0], TRACE_NONE);
	assert_int_equal(a->bytes, 64);
	assert_true(a->bandwidth == 1.5);
	assert_int_equal(a->device, TRACE_NONE);
	assert_int_equal(a->grid[1], TRACE_NONE);
	assert_int_equal(a->sequence, TRACE_NONE);
	assert_true(isnan(a->blocks_per_sm) && isnan(a->occupancy));
	assert_int_equal(trace_memories(t), 0);
	assert_int_equal(trace_memories(whole), 1);
	assert_int_equal(trace_tracks(t), trace_tracks(whole));
	assert_int_equal(trace_phase_count(t, 's'), 2);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		assert_true(noted(whole, kinds[i]) > 0);
		assert_int_equal(noted(t, kinds[i]), noted(whole, kinds[i]));
	}
	assert_false(trace_has_fractions(t)); /* of rows */
	trace_free(whole);
	trace_free(t);
}

/* Ids of args stay what they are however many there are. */
static void test_many_args(void **state)
{
	const unsigned n = 3000;
	char *text = malloc(n * 160 + 2), *p = text;
	struct trace *t;

	(void)state;
	*p++ = '[';
	for (unsigned i = 0; i < n; i++)
		p += sprintf(p,
			     "{\"ph\":\"X\",\"ts\":%u,\"dur\":1,\"args\":{\"device\":%u,\"grid\":[%"
			     "u,1,1],"
			     "\"Python id\":%u}},",
			     i, i % 4, i % 700, i);
	p[-1] = ']';
	t = read_pieces(text, (size_t)(p - text), 0);
	assert_int_equal(trace_rows(t), n);
	for (unsigned i = 0; i < n; i++) {
		const struct trace_args *a = trace_args(t, trace_block(t, 0)->args[i]);

		assert_int_equal(a->device, i % 4);
		assert_int_equal(a->grid[0], i % 700);
		assert_int_equal(a->grid[1], 1);
		assert_int_equal(a->python_id, i);
		assert_int_equal(a->bytes, TRACE_NONE);
	}
	trace_free(t);
	free(text);
}

/* A bracket that never closes, far from the end: what follows is not swallowed. */
static void test_large_hole(void **state)
{
	const size_t hole = 3u << 20;
	char *text = malloc(hole + 4096), *p = text;
	struct trace *t;

	(void)state;
	p += sprintf(p, "[" FIRST ",{\"ph\":\"X\",\"ts\":1,\"args\":{\"x\":[");
	memset(p, '[', hole);
	p += hole;
	p += sprintf(p, "}}," LAST "]");
	t = read_pieces(text, (size_t)(p - text), 0);
	assert_int_equal(trace_rows(t), 2);
	assert_string_equal(name_of(t, 1), "last");
	assert_int_equal(noted(t, "event-lost"), 1);
	trace_free(t);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_odd_event),    cmocka_unit_test(test_tops),
		cmocka_unit_test(test_no_trace),     cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_times),        cmocka_unit_test(test_columns),
		cmocka_unit_test(test_other_phases), cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_zero_and_far), cmocka_unit_test(test_only_columns),
		cmocka_unit_test(test_only_links),   cmocka_unit_test(test_note_of_copy),
		cmocka_unit_test(test_many_args),    cmocka_unit_test(test_large_hole),
	};

	return cmocka_run_group_tests_name("read", tests, NULL, NULL);
}

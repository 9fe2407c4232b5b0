/* SPDX-License-Identifier: Apache-2.0
 *
 * test_write.c - what is written loads again as it was, by the reader and by any JSON reader;
 * cuts keep what belongs to a step; merged ranks stay apart.
 */
#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "trace/merge.h"
#include "trace/repair.h"
#include "trace/validate.h"

static char dir[] = "/tmp/lapse-test-write-XXXXXX";

static const char *at(const char *name)
{
	static char paths[8][300];
	static unsigned i;
	char *p = paths[i++ % 8];

	snprintf(p, 300, "%s/%s", dir, name);
	return p;
}

/* Everything that a row can have, odd texts, every kind of pid. */
static const char all[] =
	"{\"schemaVersion\":1,\"baseTimeNanoseconds\":1700000000000000001,\"record_shapes\":1,"
	"\"with_stack\":1,\"trace_id\":\"AB\\\"C\",\"cuda_runtime_version\":13000,"
	"\"deviceProperties\":[{\"id\":0,\"name\":\"GPU \\u00e9\",\"totalGlobalMem\":85000000000,"
	"\"computeMajor\":9,\"computeMinor\":0,\"numSms\":132,\"warpSize\":32,"
	"\"maxThreadsPerBlock\":1024,\"maxThreadsPerMultiprocessor\":2048,\"regsPerBlock\":65536,"
	"\"sharedMemPerBlock\":49152}],"
	"\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":3,\"world_size\":8},"
	"\"traceEvents\":["
	"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":10,\"tid\":0,\"args\":{\"name\":"
	"\"python\"}},"
	"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":10,\"tid\":11,\"args\":{\"name\":\"main "
	"\\\\ 1\"}},"
	"{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":10,\"tid\":11,\"args\":{\"sort_"
	"index\":5}},"
	"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#4\",\"pid\":10,\"tid\":"
	"11,"
	"\"ts\":0.001,\"dur\":99.999,\"args\":{\"External id\":1}},"
	"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#5\",\"pid\":10,\"tid\":"
	"11,"
	"\"ts\":100,\"dur\":100},"
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\\\"b\\\\c\\nd\\u0001\",\"pid\":10,\"tid\":"
	"11,"
	"\"ts\":1.5,\"dur\":20,\"args\":{\"External id\":2,\"Input Dims\":[[2, 3], []],"
	"\"Input type\":[\"float\", \"\"],\"Input Strides\":[[3, 1], []],"
	"\"Concrete Inputs\":[\"\", \"1\"],\"Sequence number\":7,\"Fwd thread id\":0,"
	"\"Call stack\":\"a.py(1): f;b.py(2): g\",\"flops\":12}},"
	"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":10,\"tid\":"
	"11,"
	"\"ts\":10,\"dur\":2,\"args\":{\"correlation\":42,\"External id\":2}},"
	"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":10,\"tid\":"
	"11,"
	"\"ts\":150,\"dur\":2,\"args\":{\"correlation\":43}},"
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k<int, "
	"4>(float*)\",\"pid\":0,\"tid\":\"stream 7\","
	"\"ts\":120.25,\"dur\":3.125,\"args\":{\"device\":0,\"context\":1,\"stream\":7,"
	"\"correlation\":42,\"External id\":2,\"grid\":[4, 1, 1],\"block\":[128, 2, 1],"
	"\"registers per thread\":32,\"shared memory\":1024,\"blocks per SM\":0.030303,"
	"\"warps per SM\":\"inf\",\"est. achieved occupancy %\":12.5,\"Process Group Name\":\"0\","
	"\"Collective name\":\"allreduce\",\"dtype\":\"Float\",\"In msg nelems\":5,"
	"\"Out msg nelems\":6,\"Group size\":8}},"
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k2\",\"pid\":0,\"tid\":7,\"ts\":200,\"dur\":1,"
	"\"args\":{\"stream\":7,\"correlation\":43}},"
	"{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy\",\"pid\":0,\"tid\":7,\"ts\":201,"
	"\"dur\":0,\"args\":{\"stream\":7,\"bytes\":4096,\"memory bandwidth (GB/s)\":1.25}},"
	"{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"f\",\"pid\":\"Spans\",\"tid\":\"T "
	"1\","
	"\"ts\":-5,\"dur\":1,\"args\":{\"Python id\":1,\"Python parent id\":0,"
	"\"Python module id\":2}},"
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"no dur\",\"pid\":10,\"tid\":11,\"ts\":50},"
	"{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":10,"
	"\"tid\":11,\"ts\":12.5,\"args\":{\"Device Type\":1,\"Device "
	"Id\":0,\"Addr\":140000000000000,"
	"\"Bytes\":-512,\"Total Allocated\":1024,\"Total Reserved\":2048}},"
	"{\"ph\":\"C\",\"name\":\"counter\",\"pid\":10,\"ts\":1,\"args\":{\"x\":1}}"
	"],\"with_flops\":1}";

static struct trace *read_text(const char *text)
{
	struct trace_options o = {0};
	struct err e = {0};
	struct trace *t = NULL;

	if (trace_read_bytes(text, strlen(text), &o, &t, &e))
		fail_msg("%s", e.text);
	return t;
}

static struct trace *read_file(const char *path)
{
	struct trace_options o = {0};
	struct err e = {0};
	struct trace *t = NULL;

	if (trace_read(path, &o, &t, &e))
		fail_msg("%s", e.text);
	return t;
}

static void same_text(struct trace *a, uint32_t x, struct trace *b, uint32_t y)
{
	assert_string_equal(trace_text(a, x, NULL), trace_text(b, y, NULL));
}

static void same_args(struct trace *a, uint32_t x, struct trace *b, uint32_t y)
{
	const struct trace_args *p = trace_args(a, x), *q = trace_args(b, y);

#define SAME(field) assert_int_equal(p->field, q->field)
#define SAME_REAL(field) assert_true(p->field == q->field || (isnan(p->field) && isnan(q->field)))
#define SAME_TEXT(field) same_text(a, p->field, b, q->field)
	SAME(device);
	SAME(context);
	assert_memory_equal(p->grid, q->grid, sizeof(p->grid));
	assert_memory_equal(p->block, q->block, sizeof(p->block));
	SAME(registers);
	SAME(shared_memory);
	SAME_REAL(blocks_per_sm);
	SAME_REAL(warps_per_sm);
	SAME_REAL(occupancy);
	SAME(bytes);
	SAME_REAL(bandwidth);
	SAME_TEXT(dims);
	SAME_TEXT(types);
	SAME_TEXT(strides);
	SAME_TEXT(concrete);
	SAME_TEXT(stack);
	SAME(python_id);
	SAME(python_parent);
	SAME(python_module);
	SAME(sequence);
	SAME(forward_thread);
	SAME(flops);
	SAME_TEXT(collective);
	SAME_TEXT(group_name);
	SAME_TEXT(collective_dtype);
	SAME(in_elements);
	SAME(out_elements);
	SAME(group_size);
}

static void same_rows(struct trace *a, struct trace *b)
{
	const struct trace_block *x = trace_block(a, 0), *y = trace_block(b, 0);

	assert_int_equal(trace_rows(a), trace_rows(b));
	for (uint32_t i = 0; i < trace_rows(a); i++) {
		const struct trace_track *p = trace_track(a, x->track[i]);
		const struct trace_track *q = trace_track(b, y->track[i]);

		assert_int_equal(x->ts[i], y->ts[i]);
		assert_int_equal(x->dur[i], y->dur[i]);
		assert_int_equal(x->correlation[i], y->correlation[i]);
		assert_int_equal(x->external[i], y->external[i]);
		assert_int_equal(x->stream[i], y->stream[i]);
		assert_int_equal(x->cat[i], y->cat[i]);
		assert_int_equal(x->flags[i], y->flags[i]);
		same_text(a, x->name[i], b, y->name[i]);
		same_text(a, p->pid_text, b, q->pid_text);
		same_text(a, p->tid_text, b, q->tid_text);
		same_text(a, p->name, b, q->name);
		same_text(a, p->process_name, b, q->process_name);
		assert_int_equal(p->sort_index, q->sort_index);
		same_args(a, x->args[i], b, y->args[i]);
	}
}

static void same_meta(struct trace *a, struct trace *b)
{
	const struct trace_meta *p = trace_meta(a), *q = trace_meta(b);
	size_t n, m;
	const struct trace_device *d = trace_devices(a, &n), *f = trace_devices(b, &m);
	const struct trace_memory *x = trace_memory_at(a, 0), *y = trace_memory_at(b, 0);

	SAME(base_ns);
	SAME(rank);
	SAME(world_size);
	SAME(cuda_runtime);
	SAME(record_shapes);
	SAME(with_stack);
	SAME(with_flops);
	SAME_TEXT(trace_id);
	SAME_TEXT(backend);
	assert_int_equal(m, 1);
	same_text(a, d->name, b, f->name);
	assert_int_equal(d->memory, f->memory);
	assert_int_equal(d->sms, f->sms);
	assert_int_equal(d->threads_per_sm, f->threads_per_sm);
	assert_int_equal(trace_memories(a), 1);
	assert_int_equal(trace_memories(b), 1);
	assert_int_equal(x->ts, y->ts);
	assert_int_equal(x->bytes, y->bytes);
	assert_int_equal(x->address, y->address);
	assert_int_equal(x->allocated, y->allocated);
	assert_int_equal(x->reserved, y->reserved);
}

static void test_round_trip(void **state)
{
	static const char *const names[] = {"o.json", "o.json.gz", "o.json.zst"};
	struct trace *a = read_text(all);
	struct buf text;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct convert_options o = {0};
		struct convert_result r;
		struct validate v;
		struct trace *b;
		struct err e = {0};

		if (convert_trace(a, &o, at(names[i]), &r, &e))
			fail_msg("%s", e.text);
		assert_int_equal(r.rows, trace_rows(a));
		assert_int_equal(r.left_out, 0);
		assert_int_equal(r.memories, 1);
		assert_int_equal(r.flows, 2);
		assert_int_equal(r.not_held, 1); /* the counter */
		b = read_file(at(names[i]));
		same_rows(a, b);
		same_meta(a, b);
		validate_trace(b, &v);
		assert_true(v.is_valid);
		assert_int_equal(trace_phase_count(b, 's'), 2);
		assert_int_equal(trace_phase_count(b, 'f'), 2);
		trace_free(b);
	}
	buf_init(&text, 1 << 20);
	assert_int_equal(file_read(AT_FDCWD, at("o.json"), &text), 0);
	assert_true(repair_is_json(text.data, text.len));
	buf_done(&text);
	trace_free(a);
}

static uint64_t rows_named(struct trace *t, const char *name)
{
	uint64_t n = 0;
	const struct trace_block *b = trace_block(t, 0);

	for (uint32_t i = 0; i < trace_rows(t); i++)
		n += !strcmp(trace_text(t, b->name[i], NULL), name);
	return n;
}

/* Step 4: the kernel that runs in step 5's time but was launched in 4 comes along, the one
 * launched in 5 does not. */
static void test_cut(void **state)
{
	struct convert_options o = {.step_from = 4, .step_to = 5};
	struct trace *a = read_text(all), *b;
	struct convert_result r;
	struct err e = {0};

	(void)state;
	assert_int_equal(convert_trace(a, &o, at("cut.json"), &r, &e), 0);
	b = read_file(at("cut.json"));
	assert_int_equal(rows_named(b, "ProfilerStep#4"), 1);
	assert_int_equal(rows_named(b, "ProfilerStep#5"), 0);
	assert_int_equal(rows_named(b, "k<int, 4>(float*)"), 1);
	assert_int_equal(rows_named(b, "k2"), 0);
	assert_int_equal(rows_named(b, "cudaLaunchKernel"), 1);
	assert_int_equal(r.rows + r.left_out, trace_rows(a));
	trace_free(b);
	o.step_from = 9;
	o.step_to = 12;
	assert_int_equal(convert_trace(a, &o, at("none.json"), &r, &e), -ENOENT);
	assert_non_null(strstr(e.text, "it has 4 to 5"));
	assert_int_equal(access(at("none.json"), F_OK), -1);
	o = (struct convert_options){.from = 195000, .to = 202000, .without_flows = true};
	err_clear(&e);
	assert_int_equal(convert_trace(a, &o, at("time.json"), &r, &e), 0);
	b = read_file(at("time.json"));
	assert_int_equal(rows_named(b, "ProfilerStep#5"), 1); /* reaches into it */
	assert_int_equal(rows_named(b, "Memcpy"), 1);         /* no launch, lies in it */
	assert_int_equal(rows_named(b, "k2"), 0);             /* launched at 150 */
	assert_int_equal(r.flows, 0);
	trace_free(b);
	trace_free(a);
}

static void test_merge(void **state)
{
	struct trace *t[2] = {read_text(all), read_text(all)}, *m;
	static const int64_t offsets[2] = {0, 1000};
	struct merge_options o = {.offsets = offsets};
	const struct trace_block *b;
	struct merge_result r;
	struct err e = {0};
	uint32_t half;

	(void)state;
	assert_int_equal(merge_traces(t, 2, &o, at("merged.json.gz"), &r, &e), 0);
	assert_true(r.is_one_clock);
	m = read_file(at("merged.json.gz"));
	assert_int_equal(trace_rows(m), 2 * trace_rows(t[0]));
	assert_int_equal(trace_meta(m)->base_ns, 1700000000000000001);
	b = trace_block(m, 0);
	half = (uint32_t)trace_rows(t[0]);
	for (uint32_t i = 0; i < half; i++) {
		const struct trace_track *p = trace_track(m, b->track[i]);
		const struct trace_track *q = trace_track(m, b->track[i + half]);

		assert_int_equal(b->ts[i] + 1000, b->ts[i + half]);
		assert_int_equal(b->dur[i], b->dur[i + half]);
		if (b->correlation[i] != TRACE_NONE)
			assert_true(b->correlation[i + half] > 43);
		if (b->external[i] != TRACE_NONE)
			assert_true(b->external[i + half] > 2);
		if (p->pid != TRACE_NONE)
			assert_int_equal(q->pid, p->pid + MERGE_PID_STEP);
		else
			assert_string_equal(trace_text(m, q->pid_text, NULL), "rank 3 Spans");
	}
	trace_free(m);
	assert_int_equal(merge_traces(t, 0, &o, at("x.json"), &r, &e), -EINVAL);
	trace_free(t[0]);
	trace_free(t[1]);
}

/* A sink that is not closed leaves nothing, neither does one that cannot be opened. */
static void test_abort(void **state)
{
	struct write_sink *s;
	struct err e = {0};
	struct dirent *d;
	DIR *f;

	(void)state;
	assert_int_equal(write_open(at("gone.json"), &s, &e), 0);
	write_put(s, "x", 1);
	write_abort(s);
	assert_int_equal(access(at("gone.json"), F_OK), -1);
	assert_int_equal(write_open(at("no/such/folder.json"), &s, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no/such/folder.json"));
	f = opendir(dir);
	while ((d = readdir(f)))
		assert_null(strstr(d->d_name, ".tmp"));
	closedir(f);
}

static void test_us(void **state)
{
	static const struct {
		int64_t ns;
		bool point;
		const char *text;
	} rows[] = {
		{0, false, "0"},
		{0, true, "0.000"},
		{1, false, "0.001"},
		{-1, false, "-0.001"},
		{1500, false, "1.500"},
		{2000, false, "2"},
		{-2000, true, "-2.000"},
		{INT64_MAX, false, "9223372036854775.807"},
		{INT64_MIN, false, "-9223372036854775.808"},
	};
	struct buf b;

	(void)state;
	buf_init(&b, 64);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		buf_reset(&b);
		write_us(&b, rows[i].ns, rows[i].point);
		assert_string_equal(buf_str(&b), rows[i].text);
	}
	buf_done(&b);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	struct dirent *d;
	DIR *f = opendir(dir);

	(void)state;
	while (f && (d = readdir(f)))
		if (d->d_name[0] != '.')
			unlink(at(d->d_name));
	if (f)
		closedir(f);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_cut),
		cmocka_unit_test(test_merge),      cmocka_unit_test(test_abort),
		cmocka_unit_test(test_us),
	};

	return cmocka_run_group_tests_name("trace-write", tests, set_up, tear_down);
}

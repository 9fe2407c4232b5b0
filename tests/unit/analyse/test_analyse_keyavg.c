/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_keyavg.c - operators and kernels as key_averages() has them, FLOPs and shapes:
 * small traces worked out by hand. Real ones are compared by tests/golden/trace/compare_tb.py.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyse/flops.h"
#include "analyse/keyavg.h"
#include "analyse/shapes.h"

#define HOST "\"ph\": \"X\", \"pid\": 1, \"tid\": 1"
#define GPU "\"ph\": \"X\", \"pid\": 0, \"tid\": 7"

/* A step with a product (launched by the runtime) and an addition that calls itself; a launch
 * of another thread while the addition runs. */
static const char events[] =
	"[{" HOST ", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#3\", \"ts\": 0, "
	"\"dur\": 100, \"args\": {\"External id\": 1}},"
	"{" GPU ", \"cat\": \"gpu_user_annotation\", \"name\": \"ProfilerStep#3\", \"ts\": 49.999, "
	"\"dur\": 40.002, \"args\": {\"External id\": 1}},"
	"{" HOST ", \"cat\": \"python_function\", \"name\": \"train.py(5): step\", \"ts\": 1, "
	"\"dur\": 40, \"args\": {\"Python id\": 1}},"
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"ts\": 10, \"dur\": 30, "
	"\"args\": {\"External id\": 2, \"Input Dims\": [[2, 3], [3, 4]]}},"
	"{" HOST ", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"ts\": 15, "
	"\"dur\": 5, \"args\": {\"External id\": 2, \"correlation\": 9}},"
	"{" GPU ", \"cat\": \"kernel\", \"name\": \"gemm\", \"ts\": 50, \"dur\": 40, "
	"\"args\": {\"External id\": 2, \"correlation\": 9, \"device\": 0}},"
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"aten::add\", \"ts\": 50, \"dur\": 20, "
	"\"args\": {\"External id\": 3, \"Input Dims\": [[2, 3], []]}},"
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"aten::add\", \"ts\": 52, \"dur\": 10, "
	"\"args\": {\"External id\": 4, \"Input Dims\": [[2, 3], []]}},"
	"{\"ph\": \"X\", \"pid\": 1, \"tid\": 2, \"cat\": \"cuda_runtime\", "
	"\"name\": \"cudaEventQuery\", \"ts\": 64, \"dur\": 2, \"args\": {\"correlation\": 11}},"
	"{\"ph\": \"i\", \"s\": \"t\", \"pid\": 1, \"tid\": 2, \"name\": \"[memory]\", \"ts\": 55, "
	"\"args\": {\"Bytes\": 640, \"Device Type\": 0, \"Device Id\": -1, \"Addr\": 1}},"
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"aten::is_leaf\", \"ts\": 80, \"dur\": 1}]";

struct made {
	struct trace *trace;
	struct tbrows *rows;
	struct keyavg *k;
};

static void make(struct made *m, const struct keyavg_options *o)
{
	struct err e = {0};

	assert_int_equal(trace_read_bytes(events, strlen(events), NULL, &m->trace, &e), 0);
	assert_int_equal(tbrows_new(m->trace, TBROWS_EXACT, &m->rows), 0);
	assert_int_equal(keyavg_new(m->rows, o, &m->k), 0);
}

static void drop(struct made *m)
{
	keyavg_free(m->k);
	tbrows_free(m->rows);
	trace_free(m->trace);
}

static const struct keyavg_row *row(const struct made *m, const char *name, bool on_device)
{
	size_t i;

	for (i = 0; i < m->k->n; i++) {
		if (!strcmp(m->k->rows[i].name, name) && m->k->rows[i].on_device == on_device)
			return &m->k->rows[i];
	}
	return NULL;
}

static void test_times(void **state)
{
	const struct keyavg_row *r;
	struct made m;

	(void)state;
	make(&m, NULL);
	assert_int_equal(m.k->n, 6);
	r = row(&m, "ProfilerStep*", false);
	assert_int_equal(r->host, 100000);
	assert_int_equal(r->self_host, 50000);
	assert_int_equal(r->device, 40000);
	assert_int_equal(r->self_device, 0);
	r = row(&m, "aten::mm", false);
	assert_int_equal(r->self_host, 25000);
	assert_int_equal(r->self_device, 40000);
	assert_int_equal((int64_t)r->flops, 48);
	r = row(&m, "aten::add", false);
	/* PyTorch takes the other thread's query for a child, so that the addition has two and
	 * is not one with the addition in it: 20 - 10 - 2 and 10 us. */
	assert_int_equal(r->calls, 2);
	assert_int_equal(r->self_host, 18000);
	assert_int_equal((int64_t)r->flops, 12);
	/* Both hold the other thread's 640 bytes: PyTorch goes by time alone. */
	assert_int_equal(r->cpu_memory, 1280);
	assert_int_equal(r->self_cpu_memory, 640);
	r = row(&m, "gemm", true);
	assert_int_equal(r->device, 40000);
	assert_null(row(&m, "ProfilerStep*", true));
	assert_null(row(&m, "aten::is_leaf", false));
	assert_int_equal(m.k->self_device, 40000);
	drop(&m);
}

static void test_options(void **state)
{
	struct keyavg_options o = {.gpu_annotations = true, .by_thread = true};
	struct made m;

	(void)state;
	make(&m, &o);
	/* The file's copy is a ns wider on both sides. */
	assert_int_equal(row(&m, "ProfilerStep*", true)->device, 40000);
	assert_int_equal(m.k->self_device, 40000);
	assert_int_equal(row(&m, "aten::add", false)->calls, 1);
	assert_int_equal(row(&m, "aten::add", false)->self_host, 20000);
	assert_int_equal(row(&m, "aten::add", false)->cpu_memory, 0);
	drop(&m);
}

static void test_groups(void **state)
{
	struct keyavg_options o = {.group = KEYAVG_SHAPE | KEYAVG_STACK};
	const struct keyavg_row *r;
	struct made m;

	(void)state;
	make(&m, &o);
	r = row(&m, "aten::mm", false);
	assert_string_equal(trace_text(m.trace, r->dims, NULL), "[[2, 3], [3, 4]]");
	assert_string_equal(r->stack, "train.py(5): step");
	assert_string_equal(row(&m, "aten::add", false)->stack, "");
	assert_true(m.k->has_stacks && m.k->has_shapes && m.k->has_memory);
	drop(&m);
}

static void test_window(void **state)
{
	struct keyavg_options o = {.from = 40000, .to = 60000};
	struct made m;

	(void)state;
	make(&m, &o);
	assert_non_null(row(&m, "aten::add", false));
	assert_non_null(row(&m, "gemm", true));
	assert_null(row(&m, "aten::mm", false));
	drop(&m);
}

static void test_sort(void **state)
{
	const char *const *key;
	struct made m;

	(void)state;
	make(&m, NULL);
	for (key = keyavg_keys; *key; key++)
		assert_int_equal(keyavg_sort(m.k, *key), 0);
	assert_int_equal(keyavg_sort(m.k, "nothing"), -EINVAL);
	assert_int_equal(keyavg_sort(m.k, "self_cuda_time_total"), 0);
	/* Equal ones by name. */
	assert_string_equal(m.k->rows[0].name, "aten::mm");
	assert_string_equal(m.k->rows[1].name, "gemm");
	assert_int_equal(keyavg_sort(m.k, "cpu_time_total"), 0);
	assert_string_equal(m.k->rows[0].name, "ProfilerStep*");
	drop(&m);
}

static void test_flops(void **state)
{
	static const struct {
		const char *name, *dims, *concrete;
		double flops;
	} rows[] = {
		{"aten::mm", "[[2, 3], [3, 4]]", "", 48},
		{"aten::addmm", "[[4], [2, 3], [3, 4], [], []]", "", 48},
		{"aten::bmm", "[[5, 2, 3], [5, 3, 4]]", "", 240},
		{"aten::baddbmm", "[[5, 2, 4], [5, 2, 3], [5, 3, 4]]", "", 240},
		{"aten::mul", "[[2, 3], []]", "", 6},
		{"aten::add", "[[7], [7], []]", "", 7},
		/* 8 x 8 places, 3 x 3 of 3 channels, 16 of them, twice */
		{"aten::conv2d", "[[1, 3, 8, 8], [16, 3, 3, 3], [16], [], [], [], []]",
		 "[\"\", \"\", \"\", \"[1, 1]\", \"[1, 1]\", \"[1, 1]\", \"1\"]", 55296},
		{"aten::conv2d", "[[1, 3, 8, 8], [16, 3, 3, 3]]", "", 0},
		{"aten::relu", "[[7]]", "", 0},
		{"aten::mm", "", "", 0},
	};
	char text[1024], list[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct trace_block *b;
		struct err e = {0};
		struct trace *t;

		snprintf(list, sizeof(list), "%s", *rows[i].concrete ? rows[i].concrete : "[]");
		snprintf(text, sizeof(text),
			 "[{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 1, "
			 "\"tid\": 1, \"ts\": 1, \"dur\": 1, \"args\": {\"Input Dims\": %s, "
			 "\"Concrete Inputs\": %s}}]",
			 rows[i].name, *rows[i].dims ? rows[i].dims : "[]", list);
		assert_int_equal(trace_read_bytes(text, strlen(text), NULL, &t, &e), 0);
		b = trace_block(t, 0);
		assert_true(flops_of(t, rows[i].name, trace_args(t, b->args[0])) == rows[i].flops);
		trace_free(t);
	}
}

static void test_shapes(void **state)
{
	struct shapes s;
	int64_t v[4];
	size_t len;
	const char *p;

	(void)state;
	shapes_parse("[[4, 256], [], [[2], [3]], [1,2,3]]", &s);
	assert_int_equal(s.n, 4);
	assert_int_equal(s.of[0].dim[1], 256);
	assert_int_equal(s.of[1].n, 0);
	assert_true(s.of[2].is_list);
	assert_true(shapes_elements(&s, 3) == 6);
	assert_true(shapes_elements(&s, 9) == 0);
	shapes_parse("none", &s);
	assert_int_equal(s.n, 0);
	shapes_parse("[[1, [2", &s);
	assert_true(s.n <= 1);
	p = shapes_text("[\"a\", \"\", \"c::d\", 5]", 2, &len);
	assert_int_equal(len, 4);
	assert_memory_equal(p, "c::d", 4);
	assert_null(shapes_text("[\"a\"]", 1, &len));
	assert_int_equal(shapes_numbers("[\"\", \"[3, 4]\", 7]", 1, v, 4), 2);
	assert_int_equal(v[1], 4);
	assert_int_equal(shapes_numbers("[\"\", \"[3, 4]\", 7]", 2, v, 4), 1);
	assert_int_equal(v[0], 7);
	assert_int_equal(shapes_numbers("[\"\", \"x\"]", 1, v, 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times),  cmocka_unit_test(test_options),
		cmocka_unit_test(test_groups), cmocka_unit_test(test_window),
		cmocka_unit_test(test_sort),   cmocka_unit_test(test_flops),
		cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

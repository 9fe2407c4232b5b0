/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_view.c - which rows a rule keeps, their times, partners and steps: small
 * traces whose outcome follows from the rules in docs/trace-numbers.md by hand.
 */

#include "viewrig.h"

#include <stdlib.h>

/* ts up, end down: a kernel of 0.5 us within one us ends before it begins. */
static void test_rounding(void **state)
{
	struct view_options o = {.rule = VIEW_HTA};
	const struct view_row *k;
	struct rig r;

	(void)state;
	r = rig_view(HOST("cpu_op", "a", "100.000", "10.250") "," WORK("kernel", "k", "101.200",
								       "0.500", "7", "1"),
		     &o);
	assert_true(r.v->rounded);
	assert_int_equal(r.v->origin, 100000);
	k = rig_row(&r, "k");
	assert_int_equal(k->ts, 2000);  /* 102 - 100 us */
	assert_int_equal(k->end, 1000); /* floor(101.7) - 100 us */
	assert_int_equal(rig_row(&r, "a")->end, 10000);
	rig_done(&r);

	o.rule = VIEW_HTA_EXACT;
	r = rig_view(HOST("cpu_op", "a", "100.000", "10.250") "," WORK("kernel", "k", "101.200",
								       "0.500", "7", "1"),
		     &o);
	k = rig_row(&r, "k");
	assert_int_equal(k->ts, 1200);
	assert_int_equal(k->end, 1700);
	rig_done(&r);

	/* Whole times with a fraction in a duration: HTA does not round. */
	o.rule = VIEW_HTA;
	r = rig_view(HOST("cpu_op", "a", "100", "10.250"), &o);
	assert_false(r.v->rounded);
	assert_int_equal(rig_row(&r, "a")->end, 10250);
	rig_done(&r);
}

#define TWO_STEPS                                                                                  \
	STEP("1", "0", "100")                                                                      \
	"," CALL("cudaLaunchKernel", "10", "5", "1") "," CALL("inner", "11", "1", "1") "," WORK(   \
		"kernel", "early", "20", "5", "7",                                                 \
		"1") "," STEP("2", "100",                                                          \
			      "100") "," CALL("cudaLaunchKernel", "100", "5",                      \
					      "2") "," WORK("kernel", "late", "120", "5", "7",     \
							    "2") "," WORK("kernel", "alone",       \
									  "130", "5", "7",         \
									  "3") "," HOST("cpu_op",  \
											"after",   \
											"250",     \
											"1")

/* The last of two steps goes, with what it launched and what nobody launched; work of two
 * host rows of one correlation comes twice. */
static void test_last_step(void **state)
{
	struct view_options o = {.rule = VIEW_HTA};
	struct rig r;

	(void)state;
	r = rig_view(TWO_STEPS, &o);
	assert_true(r.v->dropped_last);
	assert_int_equal(rig_count(&r, "early"), 2);
	assert_int_equal(rig_count(&r, "late"), 0);
	assert_int_equal(rig_count(&r, "alone"), 0);
	assert_int_equal(rig_count(&r, "ProfilerStep#2"), 0);
	assert_int_equal(rig_count(&r, "after"), 0);
	assert_int_equal(r.v->n, 5);
	/* HTA's table: what the join gave, then the host. */
	assert_string_equal(trace_text(r.trace, r.v->rows[r.v->table[0]].name, NULL), "early");
	assert_string_equal(trace_text(r.trace, r.v->rows[r.v->table[2]].name, NULL),
			    "ProfilerStep#1");
	rig_done(&r);

	o.include_last = true;
	r = rig_view(TWO_STEPS, &o);
	assert_false(r.v->dropped_last);
	assert_int_equal(rig_count(&r, "late"), 1);
	assert_int_equal(rig_count(&r, "alone"), 0);
	rig_done(&r);

	o = (struct view_options){.rule = VIEW_EXACT};
	r = rig_view(TWO_STEPS, &o);
	assert_int_equal(rig_count(&r, "early"), 1);
	assert_int_equal(rig_count(&r, "late"), 1);
	assert_int_equal(rig_count(&r, "alone"), 1);
	assert_int_equal(r.v->n, 9);
	assert_int_equal(r.v->n_steps, 2);
	assert_int_equal(r.v->first, 0);
	assert_int_equal(r.v->last, 251000);
	rig_done(&r);
}

/* One step is not left out: there is nothing else. */
static void test_one_step(void **state)
{
	struct view_options o = {.rule = VIEW_HTA};
	struct rig r;

	(void)state;
	r = rig_view(STEP("7", "0", "100") "," WORK("kernel", "k", "130", "5", "7", "3"), &o);
	assert_false(r.v->dropped_last);
	assert_int_equal(r.v->n, 2);
	rig_done(&r);
}

static void test_partners(void **state)
{
	static const char events[] = HOST("cpu_op", "zero", "0", "1") "," CALL(
		"cudaLaunchKernel", "10", "5",
		"1") "," WORK("kernel", "a", "20", "5", "7",
			      "1") "," WORK("kernel", "b", "30", "5", "7",
					    "1") "," WORK("kernel", "alone", "40", "5", "7", "9");
	struct view_options o = {.rule = VIEW_HTA};
	const struct view_row *call, *alone;
	struct rig r;

	(void)state;
	r = rig_view(events, &o);
	call = rig_row(&r, "cudaLaunchKernel");
	alone = rig_row(&r, "alone");
	assert_int_equal(call->partner, 3); /* the last of the join: b */
	assert_int_equal(rig_row(&r, "a")->partner, 1);
	assert_int_equal(alone->partner, 0); /* "none", which HTA looks up as event 0 */
	assert_string_equal(trace_text(r.trace, r.v->rows[alone->pair].name, NULL), "zero");
	assert_int_equal(rig_row(&r, "zero")->partner, VIEW_NO_ROW);
	rig_done(&r);

	o.rule = VIEW_EXACT;
	r = rig_view(events, &o);
	call = rig_row(&r, "cudaLaunchKernel");
	assert_string_equal(trace_text(r.trace, r.v->rows[call->pair].name, NULL), "a");
	assert_ptr_equal(&r.v->rows[rig_row(&r, "b")->pair], call);
	assert_int_equal(rig_row(&r, "alone")->pair, VIEW_NO_ROW);
	assert_int_equal(view_linked(r.v, 1).n, 3);
	assert_int_equal(view_linked(r.v, 9).n, 1);
	assert_int_equal(view_linked(r.v, 8).n, 0);
	rig_done(&r);
}

/* Work belongs to the step that launched it, even if it runs in the next; where steps
 * overlap, HTA takes the later one in the file, exact the one that began last. */
static void test_steps(void **state)
{
	static const char events[] = STEP("2", "50", "100") "," STEP("1", "0", "100") "," HOST(
		"cpu_op", "both", "60",
		"1") "," HOST("cpu_op", "second", "120",
			      "1") "," HOST("cpu_op", "none", "150",
					    "1") "," CALL("cudaLaunchKernel", "10", "5",
							  "1") "," WORK("kernel", "k", "140", "5",
									"7", "1") "," WORK("kernel",
											   "zero",
											   "20",
											   "5", "0",
											   "5");
	struct view_options o = {.rule = VIEW_EXACT};
	struct rig r;

	(void)state;
	r = rig_view(events, &o);
	assert_int_equal(rig_row(&r, "both")->step, 2);
	assert_int_equal(rig_row(&r, "second")->step, 2);
	assert_int_equal(rig_row(&r, "none")->step, -1);
	assert_int_equal(rig_row(&r, "k")->step, 1);
	assert_int_equal(rig_row(&r, "zero")->step, 1);
	assert_int_equal(r.v->steps[0].number, 1);
	rig_done(&r);

	o.rule = VIEW_HTA;
	o.include_last = true;
	r = rig_view(events, &o);
	assert_int_equal(rig_row(&r, "both")->step, 1);
	assert_int_equal(rig_row(&r, "second")->step, 2);
	assert_int_equal(rig_row(&r, "k")->step, 1);
	rig_done(&r);
}

static void test_windows(void **state)
{
	struct view_options o = {.rule = VIEW_EXACT, .from = 100000, .to = 130000};
	struct rig r;

	(void)state;
	r = rig_view(TWO_STEPS, &o);
	assert_int_equal(r.v->n, 3); /* step 2, its launch, late */
	assert_int_equal(rig_row(&r, "late")->pair, rig_row(&r, "cudaLaunchKernel") - r.v->rows);
	rig_done(&r);
	o = (struct view_options){.rule = VIEW_EXACT, .step_from = 1, .step_to = 2};
	r = rig_view(TWO_STEPS, &o);
	assert_int_equal(r.v->n, 4); /* step 1, two calls, early */
	assert_int_equal(r.v->n_steps, 1);
	rig_done(&r);
	o = (struct view_options){.rule = VIEW_EXACT, .devices_only = true};
	r = rig_view(TWO_STEPS, &o);
	assert_int_equal(r.v->n, 7); /* all but "after", and "inner", which launches nothing */
	assert_int_equal(r.v->last, 251000);
	rig_done(&r);
}

/* HTA: a row with args.stream is the device's whatever it is; exact: by category. */
static void test_device_rows(void **state)
{
	static const char events[] =
		EVENT("cpu_op", "triton_op", "0", "10",
		      "\"stream\":0") "," WORK("cuda_sync", "Stream Sync", "5", "5", "7",
					       "4") "," WORK("kernel", "k", "20", "5", "7", "1");
	struct view_options o = {.rule = VIEW_HTA};
	struct rig r;

	(void)state;
	r = rig_view(events, &o);
	assert_true(rig_row(&r, "triton_op")->is_gpu);
	assert_true(rig_row(&r, "Stream Sync")->is_gpu);
	assert_int_equal(rig_row(&r, "Stream Sync")->class, VIEW_OTHER);
	rig_done(&r);
	o.rule = VIEW_EXACT;
	r = rig_view(events, &o);
	assert_false(rig_row(&r, "triton_op")->is_gpu);
	assert_false(rig_row(&r, "Stream Sync")->is_gpu);
	assert_true(rig_row(&r, "k")->is_gpu);
	rig_done(&r);
}

/* XLA: no categories; streams are threads of a process "/device:GPU:0". */
static void test_jax(void **state)
{
	static const char events[] =
		"{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":"
		"\"/device:GPU:0\"}},"
		"{\"ph\":\"M\",\"pid\":1,\"tid\":14,\"name\":\"thread_name\",\"args\":{\"name\":"
		"\"Stream #14(Compute)\"}},"
		"{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":"
		"\"XLA Modules\"}},"
		"{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":1.5,\"dur\":2,\"name\":\"fusion_1\"},"
		"{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":1.5,\"dur\":2,\"name\":\"jit_step\"}";
	struct view_options o = {.rule = VIEW_EXACT};
	struct rig r;

	(void)state;
	r = rig_view(events, &o);
	assert_true(rig_row(&r, "fusion_1")->is_gpu);
	assert_int_equal(rig_row(&r, "fusion_1")->stream, 14);
	assert_int_equal(rig_row(&r, "fusion_1")->class, VIEW_COMPUTATION);
	assert_false(rig_row(&r, "jit_step")->is_gpu);
	rig_done(&r);
}

static void test_classes(void **state)
{
	static const struct {
		const char *name;
		enum trace_cat cat;
		enum view_class hta, exact;
	} rows[] = {{"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", TRACE_CAT_KERNEL,
		     VIEW_COMMUNICATION, VIEW_COMMUNICATION},
		    {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", TRACE_CAT_KERNEL,
		     VIEW_COMMUNICATION, VIEW_COMMUNICATION},
		    {"void ncclKernel_x", TRACE_CAT_KERNEL, VIEW_COMMUNICATION, VIEW_COMMUNICATION},
		    {"hipMemcpyDtoH", TRACE_CAT_GPU_MEMCPY, VIEW_COMMUNICATION, VIEW_MEMORY},
		    {"Memcpy HtoD (Pageable -> Device)", TRACE_CAT_GPU_MEMCPY, VIEW_MEMORY,
		     VIEW_MEMORY},
		    {"CopyDeviceToHost", TRACE_CAT_GPU_MEMCPY, VIEW_COMPUTATION, VIEW_MEMORY},
		    {"volta_sgemm_128x32_nn", TRACE_CAT_KERNEL, VIEW_COMPUTATION, VIEW_COMPUTATION},
		    {"void admatmul(float)", TRACE_CAT_KERNEL, VIEW_OTHER, VIEW_COMPUTATION},
		    {"Stream Wait Event", TRACE_CAT_CUDA_SYNC, VIEW_OTHER, VIEW_OTHER},
		    {"cudaGraphLaunchKernel", TRACE_CAT_KERNEL, VIEW_OTHER, VIEW_COMPUTATION},
		    {"void vllm::cross_device_reduce_1stage<bf16, 2>(...)", TRACE_CAT_KERNEL,
		     VIEW_COMPUTATION, VIEW_COMMUNICATION}};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(view_class_of(rows[i].name, rows[i].cat, VIEW_HTA), rows[i].hta);
		assert_int_equal(view_class_of(rows[i].name, rows[i].cat, VIEW_EXACT),
				 rows[i].exact);
	}
	assert_int_equal(view_step_number("ProfilerStep#12"), 12);
	assert_int_equal(view_step_number("ProfilerStep # 3"), 3);
	assert_int_equal(view_step_number("ProfilerStep"), -1);
	assert_int_equal(view_step_number("ProfilerStep#99999999999"), -1);
}

static void test_spans(void **state)
{
	struct view_span a[] = {{5, 7}, {0, 2}, {2, 3}, {6, 9}, {20, 10}};
	struct view_span b[] = {{1, 6}, {8, 8}, {8, 30}};
	size_t na = view_merge(a, 5), nb = view_merge(b, 3);

	(void)state;
	assert_int_equal(na, 2); /* [0,3) and [5,9); what ends before it begins is nothing */
	assert_int_equal(view_total(a, na), 7);
	assert_int_equal(nb, 2);
	assert_int_equal(view_overlap(a, na, b, nb), 2 + 1 + 1);
	assert_int_equal(view_merge(a, 0), 0);
}

/* Times of all ranks begin at the first row of any; names of steps count over all. */
static void test_ranks(void **state)
{
	static const char *const texts[] = {"{\"traceEvents\":[" STEP("1", "1000", "10") "]}",
					    "{\"traceEvents\":[" STEP("2", "900", "10") "," HOST(
						    "cpu_op", "a", "890", "1") "]}"};
	struct view_options o = {.rule = VIEW_HTA};
	struct trace_options read = {0};
	struct trace *traces[2];
	struct err e = {0};
	struct view *v;

	(void)state;
	assert_int_equal(trace_read_bytes(texts[0], strlen(texts[0]), &read, &traces[0], &e), 0);
	assert_int_equal(trace_read_bytes(texts[1], strlen(texts[1]), &read, &traces[1], &e), 0);
	assert_int_equal(view_new(traces, 2, &o, &v), 0);
	assert_int_equal(v[0].origin, 890000);
	assert_int_equal(v[1].origin, 890000);
	assert_int_equal(v[0].n, 0); /* its last step is its only one */
	assert_int_equal(v[1].n, 1); /* what is before its step */
	assert_int_equal(v[1].rows[0].ts, 0);
	view_free(v, 2);
	trace_free(traces[0]);
	trace_free(traces[1]);
}

/* Whatever a reader of the decimal text gets: around where doubles stop to hold every number, in
 * each size, and at halves. */
static void test_us(void **state)
{
	uint64_t seed = 1;
	char text[64];
	int64_t ns;
	size_t i;

	(void)state;
	for (i = 0; i < 200000; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		ns = (int64_t)(seed >> (1 + i % 62));
		if (i % 7 == 0)
			ns = (1ll << 53) - 1000 + (int64_t)i / 7 % 2000;
		if (i % 7 == 1)
			ns -= ns % 125;
		snprintf(text, sizeof(text), "%lld.%03lld", (long long)(ns / 1000),
			 (long long)(ns % 1000));
		assert_true(view_us(ns) == strtod(text, NULL));
		assert_true(view_us(-ns) == -strtod(text, NULL));
	}
	assert_true(view_us(INT64_MAX) == 9223372036854775.807);
	assert_true(view_us(INT64_MIN) == -9223372036854775.808);
}

/* clang-format off */
#define FAR_LINKS                                                                                  \
	CALL("cudaLaunchKernel", "1", "1", "9000000000000000000") ","                              \
	CALL("cudaLaunchKernel", "2", "1", "3") "," WORK("kernel", "k", "4", "5", "7", "3")
#define TIES                                                                                       \
	STEP("1", "0", "90") "," CALL("cudaLaunchKernel", "1", "1", "5") ","                       \
	CALL("cudaLaunchKernel", "2", "1", "4") "," WORK("kernel", "b", "8", "5", "7", "4") ","    \
	STEP("2", "100", "9") "," WORK("kernel", "a", "8", "5", "8", "5") ","                      \
	WORK("kernel", "c", "8", "5", "9", "4")
/* clang-format on */

/* Correlations that lie far apart are found as others are. */
static void test_far_links(void **state)
{
	struct view_options o = {.rule = VIEW_HTA};
	struct rig r = rig_view(FAR_LINKS, &o);
	struct view_link link = view_linked(r.v, 3);

	(void)state;
	assert_int_equal(link.n, 2);
	assert_int_equal(link.rows[0], 1);
	assert_int_equal(link.rows[1], 2);
	assert_int_equal(view_linked(r.v, 9000000000000000000).n, 1);
	assert_int_equal(view_linked(r.v, 4).n, 0);
	assert_int_equal(view_linked(r.v, INT64_MAX).n, 0);
	assert_int_equal(view_linked(r.v, -7).n, 0);
	assert_int_equal(rig_row(&r, "k")->pair, 1);
	rig_done(&r);
}

/* Rows of one time stand as in the file, and in the table as HTA's join has them: by the first
 * work of each correlation, then the host's. */
static void test_ties(void **state)
{
	static const uint32_t table[] = {3, 5, 4, 0, 1, 2};
	struct view_options o = {.rule = VIEW_HTA};
	struct rig r = rig_view(TIES, &o);
	size_t i;

	(void)state;
	assert_int_equal(r.v->n, 6);
	for (i = 0; i < r.v->n; i++)
		assert_int_equal(r.v->table[i], table[i]);
	assert_ptr_equal(rig_row(&r, "b"), &r.v->rows[3]);
	assert_ptr_equal(rig_row(&r, "a"), &r.v->rows[4]);
	assert_ptr_equal(rig_row(&r, "c"), &r.v->rows[5]);
	assert_int_equal(r.v->rows[4].pair, 1); /* the first call */
	assert_int_equal(r.v->rows[1].pair, 4);
	assert_int_equal(r.v->rows[2].pair, 5); /* the last work of its correlation */
	rig_done(&r);
}

static void test_empty(void **state)
{
	struct view_options o = {.rule = VIEW_HTA};
	struct rig r;

	(void)state;
	/* 1e13 us are 317 years. */
	r = rig_view(
		HOST("cpu_op", "a", "1", "2") "," HOST("cpu_op", "long", "1", "10000000000000"),
		&o);
	assert_int_equal(r.v->n, 1);
	assert_int_equal(r.v->left_out, 1);
	rig_done(&r);
	r = rig_view("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"x\"}}",
		     &o);
	assert_int_equal(r.v->n, 0);
	assert_int_equal(r.v->first, 0);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounding),    cmocka_unit_test(test_last_step),
		cmocka_unit_test(test_one_step),    cmocka_unit_test(test_partners),
		cmocka_unit_test(test_steps),       cmocka_unit_test(test_windows),
		cmocka_unit_test(test_device_rows), cmocka_unit_test(test_jax),
		cmocka_unit_test(test_classes),     cmocka_unit_test(test_spans),
		cmocka_unit_test(test_ranks),       cmocka_unit_test(test_us),
		cmocka_unit_test(test_far_links),   cmocka_unit_test(test_ties),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

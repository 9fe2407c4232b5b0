/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_tb.c - steps, operators, kernels, memory and collectives of small traces whose
 * numbers are worked out by hand; the plugin's own tables of real traces are compared by
 * tests/golden/trace/compare_tb.py.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyse/allocs.h"
#include "analyse/tbadvice.h"
#include "analyse/tbcomm.h"
#include "analyse/tbgpu.h"
#include "analyse/tbkernels.h"
#include "analyse/tbmemory.h"
#include "analyse/tbmodules.h"
#include "analyse/tbnames.h"
#include "analyse/tbops.h"

struct made {
	struct trace *trace;
	struct tbrows *rows;
	struct tbtree *tree;
	struct tbsteps *steps;
};

static void make(struct made *m, const char *events, enum tbrows_variant variant)
{
	static char text[1 << 16];
	struct err e = {0};
	int n = snprintf(text, sizeof(text),
			 "{\"deviceProperties\": [{\"id\": 0, \"name\": \"G\", "
			 "\"totalGlobalMem\": 10000, \"computeMajor\": 8, \"computeMinor\": 0}],"
			 "\"traceEvents\": [%s]}",
			 events);

	assert_true(n > 0 && (size_t)n < sizeof(text));
	assert_int_equal(trace_read_bytes(text, (size_t)n, NULL, &m->trace, &e), 0);
	assert_int_equal(tbrows_new(m->trace, variant, &m->rows), 0);
	assert_int_equal(tbtree_new(m->rows, &m->tree), 0);
	assert_int_equal(tbsteps_new(m->rows, m->tree, &m->steps), 0);
}

static void drop(struct made *m)
{
	tbsteps_free(m->steps);
	tbtree_free(m->tree);
	tbrows_free(m->rows);
	trace_free(m->trace);
}

#define HOST "\"ph\": \"X\", \"pid\": 1, \"tid\": 1"
#define GPU "\"ph\": \"X\", \"pid\": 0, \"tid\": 7"

/* One step of 100 us whose work ends at 120, with the GPU's copy of its annotation; a product
 * by the runtime, a collective by the driver, the data loader beside. */
static const char one_step[] =
	"{" HOST ", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#1\", \"ts\": 0, "
	"\"dur\": 100, \"args\": {\"External id\": 1}},"
	"{" GPU ", \"cat\": \"gpu_user_annotation\", \"name\": \"ProfilerStep#1\", \"ts\": 20, "
	"\"dur\": 100, \"args\": {\"External id\": 1}},"
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"ts\": 10, \"dur\": 30, "
	"\"args\": {\"External id\": 2}},"
	"{" HOST ", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"ts\": 15, "
	"\"dur\": 5, \"args\": {\"External id\": 2, \"correlation\": 9}},"
	"{" GPU ", \"cat\": \"kernel\", \"name\": \"sm90_xmma_gemm_bf16\", \"ts\": 50, "
	"\"dur\": 40, \"args\": {\"External id\": 2, \"correlation\": 9, \"device\": 0, "
	"\"stream\": 7, \"blocks per SM\": 0.5, \"est. achieved occupancy %\": 20, "
	"\"grid\": [2, 1, 1], \"block\": [128, 1, 1]}},"
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"triton\", \"ts\": 55, \"dur\": 20, "
	"\"args\": {\"External id\": 3}},"
	"{" HOST ", \"cat\": \"cuda_driver\", \"name\": \"cuLaunchKernel\", \"ts\": 60, "
	"\"dur\": 4, \"args\": {\"External id\": 3, \"correlation\": 10}},"
	"{" GPU ", \"cat\": \"kernel\", \"name\": \"ncclDevKernel_AllReduce_Sum_f32_RING_LL\", "
	"\"ts\": 80, \"dur\": 40, \"args\": {\"External id\": 3, \"correlation\": 10, "
	"\"device\": 0, \"stream\": 7}},"
	"{" HOST ", \"cat\": \"user_annotation\", \"ts\": 80, \"dur\": 10, "
	"\"name\": \"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__\"}";

static void test_steps_exact(void **state)
{
	static const double wanted[TBSTEPS_ROLES] = {40, 0, 0, 30, 5, 0, 25, 20};
	const struct tbsteps_step *s;
	struct made m;
	size_t i;

	(void)state;
	make(&m, one_step, TBROWS_EXACT);
	assert_int_equal(m.steps->n, 1);
	s = &m.steps->steps[0];
	assert_int_equal(s->number, 1);
	assert_int_equal((int64_t)s->total, 120000);
	for (i = 0; i < TBSTEPS_ROLES; i++)
		assert_int_equal((int64_t)s->cost[i], (int64_t)wanted[i] * 1000);
	assert_int_equal((int64_t)s->computation, 40000);
	assert_int_equal((int64_t)s->communication, 40000);
	assert_int_equal((int64_t)s->overlap, 10000);
	assert_int_equal((int64_t)s->other, 50000);
	drop(&m);
}

/* The GPU's copy is a step of its own there, which is cut as it has no work; the driver's call
 * is unknown and the collective is a kernel. */
static void test_steps_plugin(void **state)
{
	static const double wanted[TBSTEPS_ROLES] = {50, 0, 0, 0, 5, 0, 25, 20};
	struct made m;
	size_t i;

	(void)state;
	make(&m, one_step, TBROWS_PLUGIN);
	assert_int_equal(m.steps->n, 1);
	assert_int_equal(m.steps->cut, 1);
	assert_true(m.steps->steps[0].total == 100);
	for (i = 0; i < TBSTEPS_ROLES; i++)
		assert_true(m.steps->steps[0].cost[i] == wanted[i]);
	drop(&m);
}

static void test_gpu(void **state)
{
	struct tbgpu *g;
	struct made m;

	(void)state;
	make(&m, one_step, TBROWS_EXACT);
	tbgpu_new(m.rows, m.tree, m.steps, &g);
	assert_int_equal(g->n, 1);
	assert_int_equal(g->devices[0].id, 0);
	assert_true(g->devices[0].utilisation == 70.0 / 120.0);
	assert_true(g->devices[0].sm_efficiency == 0.5 * 40000 / 120000);
	assert_true(g->devices[0].occupancy == 20);
	assert_true(g->devices[0].tensor_cores == 1); /* collectives are no share of it */
	assert_true(g->eligible_ratio == 0.5);        /* aten::mm's 40 of 80 us */
	tbgpu_free(g);
	drop(&m);
}

static const struct tbops_op *op_of(const struct made *m, const struct tbops *o, const char *name)
{
	size_t i;

	for (i = 0; i < o->n; i++) {
		if (!strcmp(trace_text(m->trace, o->ops[i].name, NULL), name))
			return &o->ops[i];
	}
	return NULL;
}

static void test_operators(void **state)
{
	const struct tbops_op *op;
	struct tbops *o;
	struct made m;

	(void)state;
	make(&m, one_step, TBROWS_EXACT);
	tbops_new(m.tree, TBOPS_NAME, &o);
	assert_int_equal(o->n, 2);
	op = op_of(&m, o, "aten::mm");
	assert_int_equal(op->calls, 1);
	assert_true(op->host == 30000 && op->self_host == 25000);
	assert_true(op->device == 40000 && op->self_device == 40000);
	assert_true(op->tc_eligible && tbops_tc_self_percent(op) == 100);
	op = op_of(&m, o, "triton");
	assert_true(op->self_host == 16000 && op->device == 40000);
	assert_int_equal(o->n_kernels, 2);
	tbops_free(o);
	drop(&m);

	make(&m, one_step, TBROWS_PLUGIN);
	tbops_new(m.tree, TBOPS_NAME, &o);
	op = op_of(&m, o, "triton");
	assert_true(op->self_host == 20 && op->device == 0);
	tbops_free(o);
	drop(&m);
}

/* A kernel's launch without external id goes to the innermost operator around it. */
static void test_launch_by_time(void **state)
{
	static const char events[] =
		"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"outer\", \"ts\": 0, \"dur\": 100},"
		"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"inner\", \"ts\": 10, \"dur\": 20},"
		"{" HOST ", \"cat\": \"cuda_runtime\", \"name\": \"hipLaunchKernel\", \"ts\": 12, "
		"\"dur\": 2, \"args\": {\"correlation\": 1}},"
		"{" HOST ", \"cat\": \"cuda_runtime\", \"name\": \"hipLaunchKernel\", \"ts\": 29, "
		"\"dur\": 2, \"args\": {\"correlation\": 2}},"
		"{" GPU ", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 40, \"dur\": 5, "
		"\"args\": {\"correlation\": 1, \"device\": 0}},"
		"{" GPU ", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 50, \"dur\": 7, "
		"\"args\": {\"correlation\": 2, \"device\": 0}}";
	struct tbops *o;
	struct made m;

	(void)state;
	make(&m, events, TBROWS_EXACT);
	tbops_new(m.tree, TBOPS_NAME, &o);
	assert_true(op_of(&m, o, "inner")->device == 5000);
	assert_true(op_of(&m, o, "outer")->device == 12000);
	assert_true(op_of(&m, o, "outer")->self_device == 7000);
	/* No steps: one that spans all rows. */
	assert_int_equal(m.steps->has_marks, 0);
	assert_true(m.steps->steps[0].total == 100000);
	tbops_free(o);
	drop(&m);
}

static void test_collapse(void **state)
{
	static const char events[] =
		"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"x\", \"ts\": 0, \"dur\": 50},"
		"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"x\", \"ts\": 5, \"dur\": 40},"
		"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"x\", \"ts\": 6, \"dur\": 30},"
		"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"y\", \"ts\": 10, \"dur\": 10},"
		"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"z\", \"ts\": 60, \"dur\": 10},"
		"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"late\", \"ts\": 65, \"dur\": 10}";
	struct tbops *o;
	struct made m;

	(void)state;
	make(&m, events, TBROWS_PLUGIN);
	tbops_new(m.tree, TBOPS_NAME, &o);
	assert_int_equal(op_of(&m, o, "x")->calls, 1);
	assert_true(op_of(&m, o, "x")->self_host == 40);
	assert_int_equal(op_of(&m, o, "y")->calls, 1);
	/* One that crosses its neighbour's end is lost in the plugin, kept in ours. */
	assert_int_equal(m.tree->crossing, 1);
	assert_null(op_of(&m, o, "late"));
	tbops_free(o);
	drop(&m);
	make(&m, events, TBROWS_EXACT);
	tbops_new(m.tree, TBOPS_NAME, &o);
	assert_int_equal(op_of(&m, o, "late")->calls, 1);
	tbops_free(o);
	drop(&m);
}

static void test_kernels(void **state)
{
	static const char events[] =
		"{" GPU ", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 0, \"dur\": 10, "
		"\"args\": {\"device\": 0, \"blocks per SM\": 4}},"
		"{" GPU ", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 20, \"dur\": 30, "
		"\"args\": {\"device\": 0}},"
		"{" GPU
		", \"cat\": \"kernel\", \"name\": \"volta_h884gemm\", \"ts\": 60, \"dur\": 60, "
		"\"args\": {\"device\": 0}}";
	struct tbkernels *k;
	struct made m;

	(void)state;
	make(&m, events, TBROWS_PLUGIN);
	tbkernels_new(m.rows, &k);
	assert_int_equal(k->n, 2);
	assert_string_equal(trace_text(m.trace, k->kernels[0].name, NULL), "volta_h884gemm");
	assert_true(k->kernels[0].tc_used && k->tc_ratio == 0.6);
	assert_true(k->kernels[1].total == 40 && k->kernels[1].mean == 20);
	assert_true(k->kernels[1].min == 10 && k->kernels[1].max == 30);
	assert_true(k->kernels[1].blocks == 1); /* 4 * 10 of 40 */
	tbkernels_free(k);
	drop(&m);
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		bool plugin, now;
	} rows[] = {
		{"volta_h884gemm_64x64_ldg8_nn", true, true},
		{"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32x8_stage3_ffma", true, false},
		{"nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_NNT", false, true},
		{"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26", false,
		 true},
		{"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16>", false,
		 true},
		{"void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>", false, false},
		{"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_MT256x128x64_MI16x16x1_SN", false, true},
		{"volta_sgemm_64x64_nt", false, false},
		{"void at::native::vectorized_elementwise_kernel<4, float>", false, false},
		{"void dummy_kernel(int)", false, false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint16_t f = tbnames_flags(rows[i].name);

		assert_int_equal(!!(f & TBNAMES_TC_PLUGIN), rows[i].plugin);
		assert_int_equal(!!(f & TBNAMES_TC), rows[i].now);
	}
	assert_true(tbnames_flags("ncclDevKernel_AllGather_RING_LL") & TBNAMES_COMM_KERNEL);
	assert_true(tbnames_flags("nccl:all_reduce") & TBNAMES_NCCL);
	assert_false(tbnames_flags("nccl:all_to_all") & TBNAMES_NCCL);
	assert_true(tbnames_flags("nccl:all_to_all") & TBNAMES_COMM_ANY);
	assert_true(tbnames_flags("gloo:barrier") & TBNAMES_COMM_HOST);
	assert_int_equal(tbnames_step("ProfilerStep#12"), 12);
	assert_int_equal(tbnames_step("ProfilerStep"), -1);
}

#define MEMORY(ts, addr, bytes, all, reserved)                                                     \
	",{\"ph\": \"i\", \"s\": \"t\", \"pid\": 1, \"tid\": 1, \"cat\": \"cpu_instant_event\", "  \
	"\"name\": \"[memory]\", \"ts\": " #ts ", \"args\": {\"Addr\": " #addr                     \
	", \"Bytes\": " #bytes                                                                     \
	", \"Device Type\": 1, \"Device Id\": 0, \"Total Allocated\": " #all                       \
	", \"Total Reserved\": " #reserved "}}"

static const char memory_events[] =
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"outer\", \"ts\": 0, \"dur\": 100},"
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"inner\", \"ts\": 10, \"dur\": 20}" MEMORY(
		12, 1, 512, 1512, 4096) MEMORY(15, 2, 256, 1768, 4096)
		MEMORY(29, 2, -256, 1512, 4096) MEMORY(40, 3, 8000, 9512, 12000)
			MEMORY(50, 77, -500, 9012, 12000) MEMORY(90, 3, -8000, 1012, 12000);

static void test_memory(void **state)
{
	static const int64_t inner[] = {512, 768, 2, 512, 768, 2};
	static const int64_t outer[] = {-500, 8000, 1, 12, 8768, 3};
	struct tbmemory *t;
	struct allocs *a;
	struct made m;
	size_t i;

	(void)state;
	make(&m, memory_events, TBROWS_EXACT);
	tbmemory_new(m.tree, &t);
	assert_int_equal(t->n, 1);
	assert_string_equal(t->devices[0].name, "GPU0");
	assert_int_equal(t->devices[0].peak, 9512);
	assert_int_equal(t->devices[0].n, 2);
	for (i = 0; i < TBMEMORY_NUMBERS; i++) {
		assert_int_equal(t->devices[0].ops[0].numbers[i], inner[i]);
		assert_int_equal(t->devices[0].ops[1].numbers[i], outer[i]);
	}
	allocs_new(m.tree, t, &a);
	assert_int_equal(a->devices[0].peak_ts, 40000);
	assert_int_equal(a->devices[0].reserved_peak, 12000);
	assert_int_equal(a->devices[0].unused_peak, 12000 - 1012);
	assert_int_equal(a->devices[0].unused_at_peak, 12000 - 9512);
	assert_int_equal(a->devices[0].unknown_releases, 1);
	assert_int_equal(a->devices[0].live, 1);
	assert_int_equal(a->devices[0].growth, 1012 - 1000);
	/* At the peak: 8000 of outer, 512 of inner, 1000 from before. */
	assert_int_equal(a->devices[0].n_owners, 2);
	assert_int_equal(a->devices[0].owners[0].bytes, 8000);
	assert_int_equal(a->devices[0].owners[1].bytes, 512);
	assert_int_equal(a->devices[0].before_bytes, 1000);
	assert_int_equal(a->devices[0].capacity, 10000);
	allocs_free(a);
	tbmemory_free(t);
	drop(&m);
}

static void test_advice(void **state)
{
	struct tbadvice advice;
	struct tbkernels *k;
	struct tbmemory *t;
	struct tbgpu *g;
	struct made m;

	(void)state;
	make(&m, memory_events, TBROWS_PLUGIN);
	tbmemory_new(m.tree, &t);
	tbgpu_new(m.rows, m.tree, m.steps, &g);
	tbkernels_new(m.rows, &k);
	tbadvice_make(m.rows, m.steps, g, k, t, &advice);
	assert_int_equal(advice.n, 1);
	assert_non_null(strstr(advice.text[0], "95.1% of 0.0GB on GPU0"));
	tbkernels_free(k);
	tbgpu_free(g);
	tbmemory_free(t);
	drop(&m);
}

#define RANK(kernel_ts, kernel_dur)                                                                \
	"{" HOST ", \"cat\": \"user_annotation\", \"name\": \"nccl:all_reduce\", \"ts\": 10, "     \
	"\"dur\": 5, \"args\": {\"External id\": 4, \"Input Dims\": [[4, 2], []], "                \
	"\"Input type\": [\"float\", \"\"]}},"                                                     \
	"{" GPU ", \"cat\": \"kernel\", \"name\": \"ncclKernel_AllReduce\", \"ts\": " #kernel_ts   \
	", \"dur\": " #kernel_dur ", \"args\": {\"External id\": 4, \"device\": 0}},"              \
	"{" HOST ", \"cat\": \"cpu_op\", \"name\": \"a\", \"ts\": 0, \"dur\": 100}"

static void test_ranks(void **state)
{
	struct tbsteps *steps[2];
	struct tbrows *rows[2];
	struct tbcomm *c;
	struct made m[2];

	(void)state;
	make(&m[0], RANK(20, 10), TBROWS_PLUGIN);
	make(&m[1], RANK(24, 6), TBROWS_PLUGIN);
	rows[0] = m[0].rows;
	rows[1] = m[1].rows;
	steps[0] = m[0].steps;
	steps[1] = m[1].steps;
	tbcomm_new(rows, steps, 2, &c);
	assert_true(c->is_known);
	assert_int_equal(c->ranks[0].n_ops, 1);
	assert_int_equal(c->ranks[0].ops[0].bytes, 32);
	assert_true(c->ranks[0].ops[0].total == 15);    /* [10, 15) and [20, 30) */
	assert_true(c->ranks[0].ops[0].transfer == 11); /* [10, 15) and [24, 30) */
	assert_true(c->ranks[1].ops[0].total == 11);
	assert_true(c->ranks[1].steps[0].transfer == 11);
	tbcomm_free(c);
	tbcomm_new(rows, steps, 0, &c);
	assert_false(c->is_known);
	assert_non_null(c->why);
	tbcomm_free(c);
	drop(&m[0]);
	drop(&m[1]);
}

#define CALL(name, ts, dur, id, parent, more)                                                      \
	"{" HOST ", \"cat\": \"python_function\", \"name\": \"" name "\", \"ts\": " #ts            \
	", \"dur\": " #dur ", \"args\": {\"Python id\": " #id                                      \
	", \"Python parent id\": " #parent more "}}"

static void test_modules(void **state)
{
	static const char events[] =
		CALL("nn.Module: Net_0", 0, 100, 1, null, ", \"Python module id\": 0") "," CALL(
			"net.py(3): forward", 1, 98, 2, 1,
			"") "," CALL("nn.Module: Linear_0", 10, 20, 3, 2,
				     ", \"Python module id\": 0") "," CALL("nn.Module: Linear_1",
									   40, 30, 4, 2,
									   ", \"Python module "
									   "id\": 1") ","
										      "{" HOST
										      ", \"cat\": "
										      "\"cpu_op\", "
										      "\"name\": "
										      "\"aten::"
										      "linear\", "
										      "\"ts\": 45, "
										      "\"dur\": "
										      "20}";
	struct tbmodules *mods;
	struct made m;

	(void)state;
	make(&m, events, TBROWS_EXACT);
	tbmodules_new(m.tree, &mods);
	assert_int_equal(mods->n, 3);
	assert_string_equal(tbmodules_name(m.tree, &mods->modules[0]), "Net_0");
	assert_int_equal(mods->modules[0].depth, 0);
	assert_true(mods->modules[0].self_host == 50000);
	assert_string_equal(tbmodules_name(m.tree, &mods->modules[2]), "Linear_1");
	assert_int_equal(mods->modules[2].depth, 1);
	assert_int_equal(mods->modules[2].operators, 1);
	assert_true(mods->modules[2].self_host == 10000 && mods->modules[2].average == 30000);
	tbmodules_free(mods);
	drop(&m);
}

static void test_spans(void **state)
{
	struct tbspans a = {0}, b = {0}, common = {0}, without = {0};

	(void)state;
	tbspan_add(&a, 20, 30);
	tbspan_add(&a, 0, 10);
	tbspan_add(&a, 5, 12);
	tbspan_merge(&a); /* [0, 12) [20, 30) */
	assert_int_equal(a.n, 2);
	tbspan_add(&b, 10, 25); /* ends behind the first, begins before the second */
	tbspan_common(&a, &b, &common);
	tbspan_without(&a, &b, &without);
	assert_true(tbspan_sum(&common) == 7);
	assert_true(tbspan_sum(&without) == 15);
	assert_true(without.v[0].ts == 0 && without.v[0].end == 10);
	tbspan_done(&a);
	tbspan_done(&b);
	tbspan_done(&common);
	tbspan_done(&without);
}

/* Nothing to say must not be a crash. */
static void test_empty(void **state)
{
	static const char *const texts[] = {
		"", "{" GPU ", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 5, \"dur\": 1}"};
	struct tbgpu *g;
	struct tbops *o;
	struct made m;
	size_t i, v;

	(void)state;
	for (i = 0; i < 2; i++) {
		for (v = TBROWS_EXACT; v <= TBROWS_PLUGIN; v++) {
			make(&m, texts[i], v);
			tbgpu_new(m.rows, m.tree, m.steps, &g);
			tbops_new(m.tree, TBOPS_SHAPE, &o);
			assert_int_equal(m.steps->n, 1);
			assert_int_equal(o->n, 0);
			/* The kernel has no thread of operators: ours tells it all the same. */
			assert_int_equal(o->n_kernels, i && v == TBROWS_EXACT);
			tbops_free(o);
			tbgpu_free(g);
			drop(&m);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps_exact),
		cmocka_unit_test(test_steps_plugin),
		cmocka_unit_test(test_gpu),
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_launch_by_time),
		cmocka_unit_test(test_collapse),
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_advice),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

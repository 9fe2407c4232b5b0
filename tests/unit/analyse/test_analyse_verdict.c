/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_verdict.c - how a step's time is cut into shares: small traces drawn by hand,
 * with the shares counted on paper; the decision, the rules and their sentences.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyse/coverage.h"
#include "analyse/score.h"
#include "analyse/syncs.h"
#include "analyse/verdict_trace.h"
#include "viewrig.h"

#define US 1000

static const struct view_options exact = {.rule = VIEW_EXACT};

struct expected {
	int64_t us[VERDICT_KINDS]; /* the profiler's estimate taken back to where it came from */
};

/* Shares with the estimate of recording put back: what the walk over the layers found. */
static void check_shares(const struct verdict_shares *s, enum verdict_kind from,
			 int64_t overhead_us, const struct expected *want)
{
	int64_t sum = 0;

	for (int k = 0; k < VERDICT_KINDS; k++) {
		int64_t ns = s->ns[k];

		sum += ns;
		if (k == VERDICT_PROFILER)
			ns = overhead_us * US;
		else if (k == (int)from)
			ns += s->ns[VERDICT_PROFILER] - overhead_us * US;
		if (ns != want->us[k] * US)
			fail_msg("%s: %lld ns, not %lld us", verdict_name(k)->id, (long long)ns,
				 (long long)want->us[k]);
	}
	assert_int_equal(sum, s->total);
}

static struct verdict_result *judge(struct rig *r)
{
	struct verdict_result *res = NULL;

	assert_int_equal(verdict_new(r->v, 1, &res), 0);
	return res;
}

/* One step of 1000 us. GPU: gemm 100-200, element-wise 150-250 (100 of it beside the gemm: 50
 * counted), copy 250-260, collective 300-400 with a kernel beside it 350-360. */
static void test_gpu_layers(void **state)
{
	struct rig r = rig_view(
		STEP("5", "0", "1000") "," HOST("cpu_op", "aten::mm", "0", "1000") "," WORK(
			"kernel", "some_gemm", "100", "100", "7",
			"1") "," WORK("kernel", "vectorized_elementwise_kernel", "150", "100", "8",
				      "2") "," WORK("gpu_memcpy",
						    "Memcpy HtoD (Pageable -> Device)", "250", "10",
						    "7",
						    "3") "," WORK("kernel",
								  "ncclDevKernel_AllReduce_Sum",
								  "300", "100", "9",
								  "4") "," WORK("kernel",
										"flash_fwd", "350",
										"10", "7", "5"),
		&exact);
	struct verdict_result *res = judge(&r);
	const struct verdict_rank *rank = &res->ranks[0];
	static const struct expected want = {{
		[VERDICT_COMPUTE] = 110,
		[VERDICT_MEMORY] = 50,
		[VERDICT_COPY] = 10,
		[VERDICT_COMMUNICATION] = 90,
		[VERDICT_LAUNCH] = 740,
	}};

	(void)state;
	assert_int_equal(rank->n_steps, 1);
	assert_true(rank->has_marks);
	assert_int_equal(rank->steps[0].number, 5);
	check_shares(&rank->facts.shares, VERDICT_LAUNCH, 0, &want);
	assert_int_equal(rank->busy, 260 * US);
	assert_int_equal(rank->kind, VERDICT_LAUNCH);
	assert_float_equal(rank->facts.measure[VERDICT_M_OVERLAP], 0.1, 1e-12);
	assert_float_equal(rank->facts.measure[VERDICT_M_PAGEABLE_COPY], 1, 1e-12);
	verdict_free(res);
	rig_done(&r);
}

/* GPU busy 0-100; then: data loader 100-400, overhead 400-450, an operator 450-600, Python
 * 600-700 (short: launch), other code 700-1400 (long), a kernel 1400-1500, sync until 1520:
 * the GPU ran dry in it, so up to the next kernel at 1600 all is sync. */
static void test_idle_layers(void **state)
{
	struct rig r = rig_view(
		STEP("1", "0", "1700") "," WORK("kernel", "gemm", "0", "100", "7", "1") "," HOST(
			"user_annotation",
			"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "90",
			"310") "," EVENT("overhead", "Buffer Flush", "400", "50",
					 "") "," HOST("cpu_op", "aten::add", "450",
						      "150") "," HOST("user_annotation",
								      "my own work", "705",
								      "690") "," CALL("cudaLaunchKe"
										      "rnel",
										      "1400", "5",
										      "2") "," WORK("kernel",
												    "gemm",
												    "1400",
												    "100",
												    "7",
												    "2") "," HOST("cpu_op",
														  "aten::item",
														  "1405",
														  "120") "," CALL("cudaStreamSynchronize",
																  "1410",
																  "110",
																  "3") "," HOST("cpu_op",
																		"aten::mul",
																		"1540",
																		"50") "," CALL("cudaLaunchKernel",
																			       "1550",
																			       "5",
																			       "4") "," WORK("kernel",
																					     "gemm",
																					     "1600",
																					     "100",
																					     "7",
																					     "4"),
		&exact);
	struct verdict_result *res = judge(&r);
	const struct verdict_rank *rank = &res->ranks[0];
	static const struct expected want = {{
		[VERDICT_COMPUTE] = 300,
		[VERDICT_DATA] = 300,
		[VERDICT_PROFILER] = 50,
		[VERDICT_LAUNCH] = 150,
		[VERDICT_HOST] = 800,
		[VERDICT_SYNC] = 100,
	}};
	struct buf top;

	(void)state;
	check_shares(&rank->facts.shares, VERDICT_LAUNCH, 50, &want);
	assert_int_equal(rank->kind, VERDICT_HOST);
	assert_int_equal(rank->syncs, 1);
	assert_int_equal(rank->sync_wait, 110 * US);
	buf_init(&top, 4096);
	verdict_top(rank, VERDICT_HOST, &top);
	assert_non_null(strstr(buf_str(&top), "my own work"));
	buf_reset(&top);
	verdict_top(rank, VERDICT_SYNC, &top);
	assert_non_null(strstr(buf_str(&top), "cudaStreamSynchronize (110 us in 1 call)"));
	assert_non_null(strstr(buf_str(&top), "aten::item"));
	buf_done(&top);
	verdict_free(res);
	rig_done(&r);
}

/* Steps 1 and 2 follow each other (65 us between count for step 1), 7 stands alone. */
static void test_windows(void **state)
{
	struct rig r = rig_view(STEP("1", "0", "100") "," STEP("2", "165", "100") "," STEP(
					"7", "1000", "50") "," HOST("cpu_op", "a", "0", "1050"),
				&exact);
	struct verdict_result *res = judge(&r);
	const struct verdict_rank *rank = &res->ranks[0];

	(void)state;
	assert_int_equal(rank->n_steps, 3);
	assert_int_equal(rank->steps[0].end, 165 * US);
	assert_int_equal(rank->steps[1].end, 265 * US);
	assert_int_equal(rank->steps[2].ts, 1000 * US);
	assert_int_equal(rank->facts.shares.total, 315 * US);
	assert_false(rank->facts.has_gpu);
	assert_int_equal(rank->kind, VERDICT_COMPUTE); /* of the host: there is no GPU */
	verdict_free(res);
	rig_done(&r);
}

static void test_no_host(void **state)
{
	struct rig r = rig_view(WORK("kernel", "gemm", "0", "10", "7",
				     "1") "," WORK("kernel", "gemm", "90", "10", "7", "2"),
				&exact);
	struct verdict_result *res = judge(&r);
	const struct verdict_rank *rank = &res->ranks[0];

	(void)state;
	assert_int_equal(rank->facts.shares.total, 100 * US);
	assert_int_equal(rank->facts.shares.ns[VERDICT_UNKNOWN], 80 * US);
	assert_int_equal(rank->kind, VERDICT_UNKNOWN);
	verdict_free(res);
	rig_done(&r);
}

static void test_nothing(void **state)
{
	struct rig r = rig_view("", &exact);
	struct verdict_result *res = judge(&r);
	struct coverage *c;

	(void)state;
	assert_int_equal(res->kind, VERDICT_UNKNOWN);
	assert_int_equal(verdict_new(r.v, 0, &res), -EINVAL);
	assert_int_equal(coverage_new(r.v, &c), 0);
	assert_int_equal(c->items[COVERAGE_NO_ROWS].grade, COVERAGE_FAIL);
	coverage_free(c);
	verdict_free(res);
	rig_done(&r);
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* A rank: step of 1000 us whose host works `work` us, collective of `comm` us. */
static struct rig rank_rig(const char *work, const char *at, const char *comm)
{
	char text[2048];

	snprintf(text, sizeof(text),
		 STEP("1", "0", "1000") ","
					"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"work\","
					"\"pid\":1,\"tid\":1,\"ts\":0,"
					"\"dur\":%s},"
					"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":"
					"\"cudaDeviceSynchronize\",\"pid\":1,"
					"\"tid\":1,\"ts\":%s,\"dur\":%s},"
					"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_"
					"AllReduce\",\"pid\":0,"
					"\"tid\":9,\"ts\":%s,\"dur\":%s,\"args\":{\"stream\":9}}",
		 work, work, comm, at, comm);
	return rig_view(text, &exact);
}

static void test_straggler(void **state)
{
	/* Rank 0 waits in its collective from 300 to 950, rank 1 comes at 900. */
	struct rig a = rank_rig("300", "300", "650"), b = rank_rig("900", "900", "50");
	struct view views[2] = {*a.v, *b.v};
	struct verdict_finding f[VERDICT_FINDINGS_MAX];
	struct verdict_result *res;
	size_t n;

	(void)state;
	assert_int_equal(verdict_new(views, 2, &res), 0);
	assert_int_equal(res->collectives, 1);
	assert_int_equal(res->ranks[0].facts.shares.ns[VERDICT_STRAGGLER], 600 * US);
	assert_int_equal(res->ranks[0].facts.shares.ns[VERDICT_COMMUNICATION], 50 * US);
	assert_int_equal(res->ranks[1].facts.shares.ns[VERDICT_STRAGGLER], 0);
	assert_int_equal(res->ranks[0].own, 350 * US); /* 1000 less 650 of waiting */
	assert_int_equal(res->ranks[1].own, 950 * US);
	assert_int_equal(res->kind, VERDICT_STRAGGLER);
	assert_int_equal(res->gating, 1);
	n = verdict_findings(res, 0, f, VERDICT_FINDINGS_MAX);
	assert_true(n > 0);
	assert_string_equal(f[0].rule->id, "bound-straggler");
	assert_non_null(strstr(f[0].text, "Rank 1 "));
	assert_non_null(strstr(f[0].text, "60.0 %"));
	verdict_free(res);
	rig_done(&a);
	rig_done(&b);
}

static void test_no_straggler(void **state)
{
	/* Both work alike, only later: no straggler though rank 0 waits. */
	struct rig a = rank_rig("800", "300", "650"), b = rank_rig("900", "900", "50");
	struct view views[2] = {*a.v, *b.v};
	struct verdict_result *res;

	(void)state;
	assert_int_equal(verdict_new(views, 2, &res), 0);
	assert_int_not_equal(res->kind, VERDICT_STRAGGLER);
	verdict_free(res);
	rig_done(&a);
	rig_done(&b);
}

/* ---- the vocabulary, without a trace -------------------------------------------------------- */

static void test_permille(void **state)
{
	struct verdict_shares s = {.total = 3};
	int p[VERDICT_KINDS], sum = 0;

	(void)state;
	s.ns[VERDICT_COMPUTE] = s.ns[VERDICT_DATA] = s.ns[VERDICT_HOST] = 1;
	verdict_permille(&s, p);
	for (int k = 0; k < VERDICT_KINDS; k++)
		sum += p[k];
	assert_int_equal(sum, 1000);
	assert_int_equal(p[VERDICT_COMPUTE], 334);
	assert_int_equal(p[VERDICT_DATA], 333);
	s.total = 0;
	verdict_permille(&s, p);
	assert_int_equal(p[VERDICT_COMPUTE], 0);
}

static struct verdict_facts facts(int64_t compute, int64_t memory, int64_t launch, int64_t profiler)
{
	struct verdict_facts f;

	verdict_facts_init(&f);
	f.shares.ns[VERDICT_COMPUTE] = compute;
	f.shares.ns[VERDICT_MEMORY] = memory;
	f.shares.ns[VERDICT_LAUNCH] = launch;
	f.shares.ns[VERDICT_PROFILER] = profiler;
	f.shares.total = compute + memory + launch + profiler;
	return f;
}

static void test_decide(void **state)
{
	struct verdict_facts f = facts(30, 20, 45, 5);

	(void)state;
	assert_int_equal(verdict_decide(&f), VERDICT_COMPUTE); /* 50 together */
	f = facts(16, 34, 45, 5);
	assert_int_equal(verdict_decide(&f), VERDICT_MEMORY); /* 34 of 50 is over 2/3 */
	f = facts(17, 33, 45, 5);
	assert_int_equal(verdict_decide(&f), VERDICT_COMPUTE);
	f = facts(10, 10, 30, 50);
	assert_int_equal(verdict_decide(&f), VERDICT_LAUNCH); /* the profiler left out */
	f.measure[VERDICT_M_STACKS] = 1;
	assert_int_equal(verdict_decide(&f), VERDICT_PROFILER);
	assert_int_equal(verdict_behind(&f), VERDICT_LAUNCH);
	f = facts(25, 25, 30, 20);
	f.measure[VERDICT_M_STACKS] = 1;
	assert_int_equal(verdict_decide(&f), VERDICT_COMPUTE); /* below a quarter */
	f.is_straggler = true;
	assert_int_equal(verdict_decide(&f), VERDICT_STRAGGLER);
	f = facts(0, 0, 0, 0);
	assert_int_equal(verdict_decide(&f), VERDICT_UNKNOWN);
}

/* What waits cost would be gone without them: from a quarter on they are named before a GPU that
 * works more, but not before other idle time that is more. */
static void test_decide_sync(void **state)
{
	struct verdict_facts f = facts(60, 15, 0, 0);

	(void)state;
	f.shares.ns[VERDICT_SYNC] = 25;
	f.shares.total = 100;
	assert_int_equal(verdict_decide(&f), VERDICT_SYNC);
	f.shares.ns[VERDICT_SYNC] = 24;
	f.shares.ns[VERDICT_COMPUTE] = 61;
	assert_int_equal(verdict_decide(&f), VERDICT_COMPUTE);
	f = facts(40, 4, 28, 0);
	f.shares.ns[VERDICT_SYNC] = 28;
	f.shares.total = 100;
	assert_int_equal(verdict_decide(&f), VERDICT_SYNC);
	f.shares.ns[VERDICT_LAUNCH] = 29;
	f.shares.ns[VERDICT_COMPUTE] = 39;
	assert_int_equal(verdict_decide(&f), VERDICT_COMPUTE);
}

static void test_rules(void **state)
{
	(void)state;
	for (const struct verdict_rule *r = verdict_rules; r->id; r++) {
		assert_true(r->sentence && *r->sentence && r->advice);
		for (const struct verdict_rule *o = r + 1; o->id; o++)
			assert_string_not_equal(o->id, r->id);
	}
	/* Each kind has a row that names it. */
	for (int k = 0; k < VERDICT_KINDS; k++) {
		struct verdict_facts f;
		bool fires = false;
		double v;

		verdict_facts_init(&f);
		f.has_gpu = true;
		f.measure[VERDICT_M_STRAGGLER_OVER] = 2;
		for (const struct verdict_rule *r = verdict_rules; r->id; r++)
			fires |= r->measure == VERDICT_M_BOUND && verdict_fires(r, &f, k, &v);
		if (!fires)
			fail_msg("no rule names %s", verdict_name(k)->id);
	}
}

/* Without a GPU nothing speaks of one, and each kind that there is has its row. */
static void test_rules_host(void **state)
{
	static const enum verdict_kind kinds[] = {VERDICT_COMPUTE,  VERDICT_COMMUNICATION,
						  VERDICT_DATA,     VERDICT_HOST,
						  VERDICT_PROFILER, VERDICT_UNKNOWN};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct verdict_facts f;
		size_t n = 0;
		double v;

		verdict_facts_init(&f);
		for (const struct verdict_rule *r = verdict_rules; r->id; r++) {
			if (!verdict_fires(r, &f, kinds[i], &v))
				continue;
			n += r->measure == VERDICT_M_BOUND;
			assert_null(strstr(r->sentence, "The GPU"));
		}
		assert_int_equal(n, 1);
	}
}

static void test_sentence(void **state)
{
	struct verdict_facts f = facts(0, 0, 250, 750);
	static const struct verdict_rule rule = {
		"x",
		VERDICT_LAUNCH,
		VERDICT_M_SHARE,
		0,
		false,
		VERDICT_MEASURES,
		0,
		"{share} of it, {value} times, {percent}, {top}, rank {rank}, {odd}.",
		"",
		NULL,
		VERDICT_ANYWHERE};
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	verdict_sentence(&rule, &f, 0.5, NULL, 3, &b);
	assert_string_equal(buf_str(&b),
			    "25.0 % of it, 0.50 times, 50.0 %, nothing named, rank 3, .");
	buf_done(&b);
}

/* ---- coverage, score, waits ------------------------------------------------------------------ */

static void test_coverage(void **state)
{
	/* Stream 7: rows 0-100 and 60-120: 40 us counted twice. Kernel 2 begins 5 us before its
	 * launch; launch 9 has no kernel; kernel 3 has no launch. */
	struct rig r = rig_view(
		HOST("cpu_op", "a", "0", "300") "," CALL(
			"cudaLaunchKernel", "0", "1",
			"1") "," CALL("cudaLaunchKernel", "65", "1",
				      "2") "," CALL("cudaLaunchKernel", "200", "1",
						    "9") "," WORK("kernel", "k", "0", "100", "7",
								  "1") "," WORK("kernel", "k", "60",
										"60", "7",
										"2") "," WORK("kern"
											      "el",
											      "k",
											      "150",
											      "0",
											      "8",
											      "3"),
		&exact);
	struct coverage *c;

	(void)state;
	assert_int_equal(coverage_new(r.v, &c), 0);
	assert_int_equal(c->launches, 3);
	assert_int_equal(c->work, 3);
	assert_int_equal(c->items[COVERAGE_LAUNCH_NO_WORK].count, 1);
	assert_int_equal(c->items[COVERAGE_WORK_NO_LAUNCH].count, 1);
	assert_int_equal(c->items[COVERAGE_WORK_EARLY].count, 1);
	assert_int_equal(c->earliest, 5 * US);
	assert_int_equal(c->items[COVERAGE_ZERO_DUR].count, 1);
	assert_int_equal(c->items[COVERAGE_OVERLAP].count, 1);
	assert_int_equal(c->n_streams, 2);
	assert_int_equal(c->streams[0].raw, 160 * US);
	assert_int_equal(c->streams[0].clipped, 120 * US);
	assert_int_equal(c->streams[0].longest, 40 * US);
	assert_int_equal(c->items[COVERAGE_NO_STEPS].grade, COVERAGE_NOTE);
	assert_int_equal(c->items[COVERAGE_NO_GPU].grade, COVERAGE_FINE);
	coverage_free(c);
	rig_done(&r);
}

static void test_score(void **state)
{
	/* GPU 850 of 1000 us; 100 us of data loading. */
	struct rig r = rig_view(STEP("1", "0", "1000") "," HOST(
					"user_annotation", "enumerate(DataLoader)#x", "850",
					"100") "," WORK("kernel", "gemm", "0", "850", "7",
							"1") "," CALL("cudaFree", "950", "50", "8"),
				&exact);
	struct verdict_result *res = judge(&r);
	struct score s;

	(void)state;
	score_of(&res->ranks[0], &s);
	assert_float_equal(s.rows[SCORE_UTILISATION].value, 0.85, 1e-12);
	assert_int_equal(s.rows[SCORE_UTILISATION].state, SCORE_PASS);
	assert_int_equal(s.rows[SCORE_MEMORY].state, SCORE_UNKNOWN);
	assert_float_equal(s.rows[SCORE_LOADING].value, 0.1, 1e-12);
	assert_int_equal(s.rows[SCORE_LOADING].state, SCORE_FAIL);
	assert_int_equal(s.rows[SCORE_LAUNCH].state, SCORE_PASS);
	assert_int_equal(s.rows[SCORE_CPU].state, SCORE_PASS);
	assert_int_equal(s.passed, 3);
	assert_int_equal(s.failed, 1);
	verdict_free(res);
	rig_done(&r);
}

static void test_syncs(void **state)
{
	struct rig r = rig_view(
		STEP("1", "0", "1000") "," HOST("python_function", "train.py(3): step", "0", "900") "," HOST(
			"cpu_op", "aten::item", "100",
			"50") "," HOST("cpu_op", "aten::_local_scalar_dense", "110",
				       "35") "," CALL("cudaStreamSynchronize", "120", "20",
						      "1") "," CALL("cudaLaunchKernel", "200", "5",
								    "2") "," WORK("kernel", "gemm",
										  "210", "10", "7",
										  "2"),
		&exact);
	struct syncs *s;

	(void)state;
	assert_int_equal(syncs_new(r.v, &s), 0);
	assert_int_equal(s->count, 1);
	assert_int_equal(s->in_steps, 1);
	assert_int_equal(s->n, 1);
	assert_int_equal(s->sites[0].wait, 20 * US);
	assert_int_equal(s->sites[0].idle, 70 * US); /* 140 to 210 */
	assert_int_equal(s->sites[0].cost, 20 * US); /* not more than the wait */
	assert_string_equal(trace_text(r.trace, s->sites[0].op, NULL), "aten::item");
	assert_string_equal(trace_text(r.trace, s->sites[0].python, NULL), "train.py(3): step");
	syncs_free(s);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gpu_layers),   cmocka_unit_test(test_idle_layers),
		cmocka_unit_test(test_windows),      cmocka_unit_test(test_no_host),
		cmocka_unit_test(test_nothing),      cmocka_unit_test(test_straggler),
		cmocka_unit_test(test_no_straggler), cmocka_unit_test(test_permille),
		cmocka_unit_test(test_decide),       cmocka_unit_test(test_decide_sync),
		cmocka_unit_test(test_rules),        cmocka_unit_test(test_rules_host),
		cmocka_unit_test(test_sentence),     cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_score),        cmocka_unit_test(test_syncs),
	};

	return cmocka_run_group_tests_name("analyse-verdict", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_paths.c - nesting, short names, Welch's test, critical paths, kernel
 * sequences, stacks and differences on traces small enough to work out by hand.
 */
#include "viewrig.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyse/critical.h"
#include "analyse/nest.h"
#include "analyse/sequences.h"
#include "analyse/shortname.h"
#include "analyse/stacks.h"
#include "analyse/tracediff.h"
#include "analyse/welch.h"

static const struct view_options exact = {.rule = VIEW_EXACT};
static const struct view_options hta = {.rule = VIEW_HTA};

/* ---- names ----------------------------------------------------------------------------- */

static void check_short(const char *name, const char *want)
{
	char got[512];
	size_t len = shortname_of(name, strlen(name), got);

	assert_string_equal(got, want);
	assert_int_equal(len, strlen(want));
}

/* By hand from HTA's rule: brackets go with what they hold, "->" goes, the last word stays. */
static void short_names(void **state)
{
	(void)state;
	check_short("aten::add", "aten::add");
	check_short("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)");
	check_short("hipMemset<x>", "hipMemset<x>");
	check_short("dma(x)", "dma(x)");
	check_short("void at::native::kernel<4, at::Fill<long>, at::Array<char*, 1> >(int, long)",
		    "at::native::kernel");
	check_short("auto f(int)->long", "flong");
	check_short("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long)",
		    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t");
	check_short("a)b(c", "b(c"); /* a bracket without its start takes all before it */
	check_short("(x) ", "");
	check_short("", "");
}

/* ---- statistics ------------------------------------------------------------------------- */

/* Of 2 degrees of freedom p = 1 - t / sqrt(2 + t^2), of 1 (Cauchy's) 1/2 at t = 1; 2.228138852
 * is the table's two-sided 5 % point of 10. */
static void welch_distribution(void **state)
{
	double t = 2.228138852;

	(void)state;
	assert_true(fabs(welch_beta(1, 0.5, 2.0 / 11) - (1 - 3 / sqrt(11))) < 1e-15);
	assert_true(fabs(welch_beta(5, 0.5, 10 / (10 + t * t)) - 0.05) < 1e-10);
	assert_true(fabs(welch_beta(0.5, 0.5, 0.5) - 0.5) < 1e-14);
	assert_true(fabs(welch_beta(1, 1, 0.3) - 0.3) < 1e-14);
	assert_true(fabs(welch_beta(2, 3, 0.4) - 0.5248) < 1e-14); /* 6x^2-8x^3+3x^4 */
	assert_true(welch_beta(3, 4, 0) == 0 && welch_beta(3, 4, 1) == 1);
}

/* a = 1 2 3, b = 4 6 8: means 2 and 6, variances 1 and 4. t = 4 / sqrt(5/3), freedom =
 * (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) = 50/17; pooled variance 2.5, g = 4/sqrt(2.5) * 4/5. */
static void welch_by_hand(void **state)
{
	struct welch w = welch_test(2, 2, 3, 6, 8, 3);

	(void)state;
	assert_true(fabs(w.t - 4 / sqrt(5.0 / 3)) < 1e-12);
	assert_true(fabs(w.freedom - 50.0 / 17) < 1e-12);
	assert_true(fabs(w.effect - 4 / sqrt(2.5) * 0.8) < 1e-12);
	assert_true(fabs(w.p - 0.05478676604107642) < 1e-15); /* mpmath's betainc, 25 digits */
	assert_true(isnan(welch_test(1, 0, 1, 2, 1, 5).p));
	assert_true(welch_test(1, 0, 3, 1, 0, 3).p == 1);
	assert_true(welch_test(1, 0, 3, 2, 0, 3).p == 0);
}

static void adjusted(void **state)
{
	double p[5] = {0.01, 0.04, NAN, 0.03, 0.5};
	size_t order[5];

	(void)state;
	welch_adjust(p, order, 5);
	assert_true(fabs(p[0] - 0.04) < 1e-15);
	assert_true(fabs(p[3] - 0.16 / 3) < 1e-15); /* 0.03 * 4/2 is above 0.04 * 4/3 */
	assert_true(fabs(p[1] - 0.16 / 3) < 1e-15);
	assert_true(isnan(p[2]) && p[4] == 0.5);
}

/* ---- nesting ----------------------------------------------------------------------------- */

static void nested(void **state)
{
	static const struct nest_options o = {.order = NEST_EXACT};
	struct nest *t;
	struct rig r = rig_view(
		HOST("cpu_op", "a", "0", "100") "," HOST("cpu_op", "b", "10", "20") "," HOST(
			"cpu_op", "c", "30", "80") "," HOST("cpu_op", "d", "40", "0"),
		&exact);

	(void)state;
	assert_int_equal(nest_new(r.v, &o, &t), 0);
	assert_int_equal(t->n, 4);
	assert_int_equal(t->parent[0], -1);
	assert_int_equal(t->parent[1], 0);
	assert_int_equal(t->parent[2], 0); /* begins where b ends: beside it */
	assert_int_equal(t->parent[3], 2);
	assert_int_equal(t->end[0], 4);
	assert_int_equal(t->cut, 1); /* c ends 10 us after a */
	assert_int_equal(t->self[0], 10000);
	assert_int_equal(t->self[2], 70000);
	nest_free(t);
	rig_done(&r);
}

struct selves {
	int64_t ns[8];
	size_t n;
};

/* In the order in which they end; the row of 30 us apart. */
static void add_self(void *arg, const struct view_row *r, int64_t self)
{
	struct selves *s = arg;

	s->ns[r->end - r->ts == 30000 ? 7 : s->n++ % 7] += self;
}

/* Of rows that begin at one time the longer is outside, whichever comes first in the file; a row
 * that is no call counts as long as it is. */
static void own_times(void **state)
{
	struct selves s = {{0}, 0};
	struct rig r = rig_view(
		HOST("cpu_op", "in", "0", "40") "," HOST("cpu_op", "out", "0", "100") "," HOST(
			"cpu_op", "late", "90", "20") "," WORK("kernel", "k", "10", "30", "7", "1"),
		&exact);

	(void)state;
	assert_int_equal(nest_self(r.v, add_self, &s), 0);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.ns[7], 30000); /* the kernel */
	assert_int_equal(s.ns[0], 40000); /* in ends first */
	assert_int_equal(s.ns[1], 10000); /* late is cut at the end of out */
	assert_int_equal(s.ns[2], 50000); /* out: 100 - 40 - 10 */
	rig_done(&r);
}

/* ---- critical path ----------------------------------------------------------------------- */

/*  host   step [0, 100]: op [5, 45] with launch [10, 20]; op2 [50, 95] with sync [60, 90]
 *  stream 7            : kernel [30, 88] of the launch
 * The sync waits for the kernel, so the path is op 5-10, launch 10 -> kernel 30, kernel to 88,
 * then from the sync's end (90) to op2's (95): 5 + 20 + 58 + 5 = 88 us. */
#define STEP_EVENTS                                                                                \
	STEP("1", "0", "100")                                                                      \
	"," HOST("cpu_op", "op", "5", "40") "," CALL(                                              \
		"cudaLaunchKernel", "10", "10",                                                    \
		"1") "," HOST("cpu_op", "op2", "50",                                               \
			      "45") "," CALL("cudaDeviceSynchronize", "60", "30",                  \
					     "2") "," WORK("kernel", "k", "30", "58", "7", "1")
#define SYNC_EVENT                                                                                 \
	",{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Context Sync\",\"pid\":0,\"tid\":7,"      \
	"\"ts\":60,\"dur\":29,\"args\":{\"stream\":7,\"correlation\":2}}"

static void check_path(const char *events, const struct view_options *o, int64_t ns, uint64_t syncs,
		       uint64_t inferred)
{
	struct critical_options c = {.annotation = "ProfilerStep"};
	struct critical_result *got;
	struct rig r = rig_view(events, o);
	int64_t sum = 0;

	assert_int_equal(critical_new(r.v, &c, &got, NULL), 0);
	assert_true(got->ok);
	assert_int_equal(got->to - got->from, 100000);
	assert_int_equal(got->ns, ns);
	assert_int_equal(got->sync_rows, syncs);
	assert_int_equal(got->inferred, inferred);
	for (int i = 0; i < CRITICAL_BOUNDS; i++)
		sum += got->share[i].ns;
	assert_int_equal(sum, ns);
	critical_free(got);
	rig_done(&r);
}

static void critical_by_hand(void **state)
{
	(void)state;
	check_path(STEP_EVENTS SYNC_EVENT, &exact, 88000, 1, 0);
	check_path(STEP_EVENTS SYNC_EVENT, &hta, 88000, 1, 0);
	/* Without the row of the wait HTA sees 5-45 and 50-60 and 90-95 of the host only, or the
	 * kernel alone (5 + 20 + 58 = 83); the exact rule takes the wait from the call. */
	check_path(STEP_EVENTS, &hta, 83000, 0, 0);
	check_path(STEP_EVENTS, &exact, 88000, 0, 1);
}

static void critical_bounds(void **state)
{
	struct critical_options c = {.annotation = ""};
	struct critical_result *got;
	struct rig r = rig_view(STEP_EVENTS SYNC_EVENT, &exact);
	struct err e = {0};

	(void)state;
	assert_int_equal(critical_new(r.v, &c, &got, NULL), 0);
	assert_int_equal(got->share[CRITICAL_CPU].ns, 10000);
	assert_int_equal(got->share[CRITICAL_LAUNCH_DELAY].ns, 20000);
	assert_int_equal(got->share[CRITICAL_COMPUTE].ns, 58000);
	assert_string_equal(trace_text(r.trace, got->hot[0].name, NULL), "k");
	critical_free(got);
	c.annotation = "ProfilerStep";
	c.first = c.last = 3;
	assert_int_equal(critical_new(r.v, &c, &got, &e), -ENOENT);
	assert_non_null(strstr(e.text, "there are 1"));
	rig_done(&r);
}

/* Work on stream 9 could have run at 12 but began as work of stream 7 ended. */
static void critical_across_streams(void **state)
{
	struct critical_options c = {.annotation = ""};
	struct critical_result *got;
	struct rig r =
		rig_view(CALL("cudaLaunchKernel", "0", "5", "1") "," CALL(
				 "cudaLaunchKernel", "6", "5",
				 "2") "," WORK("kernel", "k1", "8", "200", "7",
					       "1") "," WORK("kernel", "k2", "210", "50", "9", "2"),
			 &exact);

	(void)state;
	assert_int_equal(critical_new(r.v, &c, &got, NULL), 0);
	assert_int_equal(got->inferred, 1);
	assert_int_equal(got->ns, 8000 + 200000 + 50000);
	critical_free(got);
	rig_done(&r);
}

/* ---- sequences ---------------------------------------------------------------------------- */

#define OPERATOR(ts1, ts2, c1, c2, w1, w2)                                                         \
	HOST("cpu_op", "aten::linear", ts1, "50")                                                  \
	"," CALL("cudaLaunchKernel", ts1, "5",                                                     \
		 c1) "," CALL("hipLaunchKernel", ts2, "5",                                         \
			      c2) "," WORK("kernel", "gemm", w1, "10", "7",                        \
					   c1) "," WORK("kernel", "bias", w2, "4", "7", c2)

static void sequence(void **state)
{
	struct sequences_options o = {.name = "linear", .least = 2};
	struct sequences_result *s;
	char *text;
	struct rig r = rig_view(OPERATOR("0", "10", "1", "2", "100", "120") "," OPERATOR(
					"200", "210", "3", "4", "300",
					"320") "," HOST("cpu_op", "aten::linear", "400", "50"),
				&exact);

	(void)state;
	assert_int_equal(sequences_new(r.v, &o, &s), 0);
	assert_int_equal(s->n, 1);
	assert_int_equal(s->operators, 3);
	assert_int_equal(s->short_ones, 1);
	assert_int_equal(s->items[0].count, 2);
	assert_int_equal(s->items[0].kernel_ns, 28000);
	assert_int_equal(s->items[0].operator_ns, 100000);
	text = sequences_text(r.v, &s->items[0]);
	assert_string_equal(text, "aten::linear|gemm|bias");
	free(text);
	sequences_free(s);
	o.name = "";
	assert_int_equal(sequences_new(r.v, &o, &s), -EINVAL);
	o.name = "nothing of that name";
	assert_int_equal(sequences_new(r.v, &o, &s), 0);
	assert_int_equal(s->n, 0);
	sequences_free(s);
	rig_done(&r);
}

/* ---- stacks -------------------------------------------------------------------------------- */

#define STACK_EVENTS                                                                               \
	EVENT("cpu_op", "aten::x;y", "0", "100",                                                   \
	      "\"Call stack\":\"m.py(3): inner;m.py(9): <module>\"")                               \
	"," CALL("cudaLaunchKernel", "10", "30",                                                   \
		 "1") "," WORK("kernel", "void k<1>(int)", "50", "70", "7",                        \
			       "1") "," WORK("kernel", "stray", "200", "5", "7", "99")

static void folded(void **state)
{
	struct stacks_options o = {.of = STACKS_HOST, .no_threads = true};
	struct stacks_result *s;
	struct buf out;
	struct rig r = rig_view(STACK_EVENTS, &exact);

	(void)state;
	buf_init(&out, 1 << 20);
	assert_int_equal(stacks_new(r.v, &o, &s), 0);
	stacks_folded(s, &out);
	assert_string_equal(buf_str(&out),
			    "m.py(9): <module>;m.py(3): inner;aten::x:y 70000\n"
			    "m.py(9): <module>;m.py(3): inner;aten::x:y;cudaLaunchKernel 30000\n");
	stacks_free(s);
	buf_reset(&out);
	o.of = STACKS_DEVICE;
	o.shorten = true;
	o.no_python = true;
	assert_int_equal(stacks_new(r.v, &o, &s), 0);
	assert_int_equal(s->unlaunched, 1);
	stacks_folded(s, &out);
	assert_string_equal(buf_str(&out), "aten::x:y;cudaLaunchKernel;k 70000\nstray 5000\n");
	stacks_free(s);
	buf_done(&out);
	rig_done(&r);
}

static void drawn(void **state)
{
	struct stacks_options o = {.of = STACKS_HOST};
	struct stacks_svg g = {.title = "a < b & \"c\"", .least = 0.4};
	struct stacks_result *s;
	struct buf out;
	struct rig r = rig_view(STACK_EVENTS, &exact);

	(void)state;
	buf_init(&out, 1 << 20);
	assert_int_equal(stacks_new(r.v, &o, &s), 0);
	assert_int_equal(stacks_draw(s, &g, &out), 1); /* the launch is 30 % */
	assert_non_null(strstr(buf_str(&out), "a &lt; b &amp; &quot;c&quot;"));
	assert_non_null(strstr(buf_str(&out), "1 frames narrower than 40 %"));
	assert_null(strstr(buf_str(&out), "cudaLaunchKernel"));
	assert_null(strstr(buf_str(&out), "http://www.w3.org/1999/xlink"));
	buf_reset(&out);
	stacks_speedscope(s, "title", &out);
	assert_non_null(strstr(buf_str(&out), "\"weights\":[70000,30000]"));
	assert_non_null(strstr(buf_str(&out), "\"endValue\":100000"));
	stacks_free(s);
	buf_done(&out);
	rig_done(&r);
}

/* ---- differences --------------------------------------------------------------------------- */

/* Three steps of 100 us; each has a kernel k whose length the row says. */
#define DIFF_STEP(n, ts, call, work, corr, len, name)                                              \
	STEP(n, ts, "100")                                                                         \
	"," CALL("cudaLaunchKernel", call, "5", corr) "," WORK("kernel", name, work, len, "7", corr)
#define DIFF_TRACE(a, b, c, name)                                                                  \
	DIFF_STEP("1", "0", "10", "20", "1", a, name)                                              \
	"," DIFF_STEP("2", "100", "110", "120", "2", b, name) "," DIFF_STEP("3", "200", "210",     \
									    "220", "3", c, name)

static const struct tracediff_item *item(const struct tracediff_result *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++) {
		if (!strcmp(d->items[i].name, name))
			return &d->items[i];
	}
	fail_msg("no item %s", name);
	return NULL;
}

static void diff_steps(void **state)
{
	struct rig a = rig_view(DIFF_TRACE("10", "11", "12", "k"), &exact);
	struct rig b = rig_view(
		DIFF_TRACE("30", "32", "31", "k") "," WORK("kernel", "extra", "290", "3", "7", "3"),
		&exact);
	struct tracediff_result *d;
	const struct tracediff_item *k;

	(void)state;
	assert_int_equal(tracediff_steps_new(a.v, b.v, NULL, &d), 0);
	assert_int_equal(d->steps[0], 3);
	k = item(d, "k");
	assert_ptr_equal(k, &d->items[0]);
	assert_int_equal(k->kind, TRACEDIFF_KERNEL);
	assert_true(k->side[0].per_step == 11000 && k->side[1].per_step == 31000);
	assert_true(k->delta == 20000);
	assert_int_equal(k->verdict, TRACEDIFF_SLOWER);
	assert_true(k->effect > 0);
	assert_int_equal(item(d, "extra")->verdict, TRACEDIFF_NEW);
	assert_int_equal(item(d, "cudaLaunchKernel")->verdict, TRACEDIFF_SAME);
	tracediff_steps_free(d);
	assert_int_equal(tracediff_steps_new(b.v, a.v, NULL, &d), 0);
	assert_int_equal(item(d, "k")->verdict, TRACEDIFF_FASTER);
	assert_int_equal(item(d, "extra")->verdict, TRACEDIFF_GONE);
	tracediff_steps_free(d);
	rig_done(&a);
	rig_done(&b);
}

/* 10 20 30 against 20 30 40: t = 10 / sqrt(200/3) = 1.22 of 4 degrees of freedom is no proof. */
static void diff_unsure(void **state)
{
	struct rig a = rig_view(DIFF_TRACE("10", "20", "30", "k"), &exact);
	struct rig b = rig_view(DIFF_TRACE("20", "30", "40", "k"), &exact);
	struct tracediff_limits loose = {.level = 0.5};
	struct tracediff_result *d;

	(void)state;
	assert_int_equal(tracediff_steps_new(a.v, b.v, NULL, &d), 0);
	assert_int_equal(item(d, "k")->verdict, TRACEDIFF_UNSURE);
	assert_true(item(d, "k")->side[0].spread == 10000);
	tracediff_steps_free(d);
	loose.least = 0.6; /* 10 of 20 is less */
	assert_int_equal(tracediff_steps_new(a.v, b.v, &loose, &d), 0);
	assert_int_equal(item(d, "k")->verdict, TRACEDIFF_SAME);
	tracediff_steps_free(d);
	loose.least = 0.1;
	loose.level = 0.9;
	assert_int_equal(tracediff_steps_new(a.v, b.v, &loose, &d), 0);
	assert_int_equal(item(d, "k")->verdict, TRACEDIFF_SLOWER);
	tracediff_steps_free(d);
	rig_done(&a);
	rig_done(&b);
}

static void diff_without_steps(void **state)
{
	struct rig a = rig_view(WORK("kernel", "k", "0", "5", "7", "1"), &exact);
	struct rig b = rig_view(WORK("kernel", "k", "0", "9", "7", "1"), &exact);
	struct tracediff_options o = {.step = {-1, -1}};
	struct tracediff_result *d;
	struct tracediff_table *t;
	struct err e = {0};

	(void)state;
	assert_int_equal(tracediff_steps_new(a.v, b.v, NULL, &d), 0);
	assert_false(d->has_steps[0]);
	assert_int_equal(item(d, "k")->verdict, TRACEDIFF_UNTESTED);
	assert_true(item(d, "k")->delta == 4000);
	tracediff_steps_free(d);
	assert_int_equal(tracediff_new(a.v, b.v, &o, &t, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no step to compare"));
	rig_done(&a);
	rig_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_names),
		cmocka_unit_test(welch_distribution),
		cmocka_unit_test(welch_by_hand),
		cmocka_unit_test(adjusted),
		cmocka_unit_test(nested),
		cmocka_unit_test(own_times),
		cmocka_unit_test(critical_by_hand),
		cmocka_unit_test(critical_bounds),
		cmocka_unit_test(critical_across_streams),
		cmocka_unit_test(sequence),
		cmocka_unit_test(folded),
		cmocka_unit_test(drawn),
		cmocka_unit_test(diff_steps),
		cmocka_unit_test(diff_unsure),
		cmocka_unit_test(diff_without_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_tables.c - the tables over one small trace, worked out by hand:
 *
 *	us        0    10    20    30    40    50    60 ...  100   110   120
 *	stream 7        gemm-      tri-              copy         gemm------
 *	                10.5-20.5  25.5-30           50-55        100--------120
 *	stream 20                                     nccl 52-------------110
 *	launched at     5          12                40, 45       46
 */
#include <errno.h>
#include <math.h>

#include "viewrig.h"

#include "analyse/annotated.h"
#include "analyse/annotations.h"
#include "analyse/bandwidth.h"
#include "analyse/idle.h"
#include "analyse/kernels.h"
#include "analyse/launches.h"
#include "analyse/opdelay.h"
#include "analyse/overlap.h"
#include "analyse/queue.h"
#include "analyse/temporal.h"

#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
#define ONE_TRACE                                                                                                                                                  \
	HOST("cpu_op", "aten::outer", "0", "35")                                                                                                                   \
	"," HOST("cpu_op", "aten::mm", "0", "30") "," HOST("user_annotation", "forward", "0", "35") "," HOST("user_annotation", "forward", "36", "14.5") "," CALL( \
		"cudaLaunchKernel", "5", "3",                                                                                                                      \
		"1") "," WORK("kernel", "gemm", "10.5", "10", "7",                                                                                                 \
			      "1") "," CALL("cuLaunchKernel", "12", "2",                                                                                           \
					    "2") "," WORK("kernel", "triton", "25.5", "4.5", "7",                                                                  \
							  "2") "," CALL("cudaMemcpyAsync", "40",                                                                   \
									"2",                                                                                       \
									"3") ","                                                                                   \
									     "{\"ph\":\"X\","                                                                      \
									     "\"cat\":\"gpu_"                                                                      \
									     "memcpy\",\"name\":"                                                                  \
									     "\"Memcpy HtoD "                                                                      \
									     "(Pageable -> "                                                                       \
									     "Device)\","                                                                          \
									     "\"pid\":0,\"tid\":"                                                                  \
									     "7,\"ts\":50,"                                                                        \
									     "\"dur\":5,\"args\":"                                                                 \
									     "{\"stream\":7,"                                                                      \
									     "\"correlation\":3,"                                                                  \
									     "\"bytes\":5000,"                                                                     \
									     "\"memory bandwidth "                                                                 \
									     "(GB/"                                                                                \
									     "s)\":1.0}}," CALL("cudaLaunchKernelExC", "45", "1", "4") "," WORK(                   \
										     "kernel",                                                                     \
										     NCCL, "52",                                                                   \
										     "58", "20",                                                                   \
										     "4") "," CALL("cudaLaunchKernel",                                             \
												   "46",                                                           \
												   "2",                                                            \
												   "5") "," WORK("kernel",                                         \
														 "gemm",                                           \
														 "100",                                            \
														 "20",                                             \
														 "7",                                              \
														 "5")

static struct rig one_view(enum view_rule rule)
{
	struct view_options o = {.rule = rule};

	return rig_view(ONE_TRACE, &o);
}

static void test_temporal(void **state)
{
	struct rig r = one_view(VIEW_EXACT);
	struct temporal t;

	(void)state;
	assert_int_equal(temporal_of(r.v, &t), 0);
	assert_int_equal(t.total, 109500);
	assert_int_equal(t.idle, 25000);    /* 5 + 20 us */
	assert_int_equal(t.compute, 34500); /* 10 + 4.5 + 20 */
	assert_int_equal(t.non_compute, 50000);
	assert_true(t.idle_pct == 22.83 && t.compute_pct == 31.51 && t.non_compute_pct == 45.66);
	assert_int_equal(t.rows, 5);
	assert_int_equal(t.kernels[VIEW_COMMUNICATION], 1);
	rig_done(&r);
}

/* HTA: of whole us, gemm is [11, 20] and triton [26, 30]. */
static void test_temporal_hta(void **state)
{
	struct rig r = one_view(VIEW_HTA);
	struct temporal t;

	(void)state;
	assert_int_equal(temporal_of(r.v, &t), 0);
	assert_int_equal(t.total, 109000);
	assert_int_equal(t.compute, 33000);
	assert_int_equal(t.idle, 26000);
	rig_done(&r);
}

static void test_no_device(void **state)
{
	struct view_options o = {.rule = VIEW_EXACT};
	struct rig r = rig_view(HOST("cpu_op", "aten::add", "0", "5"), &o);
	struct bandwidth b;
	struct overlap ov;
	struct temporal t;
	struct queue q;
	struct idle i;

	(void)state;
	assert_int_equal(temporal_of(r.v, &t), -ENODATA);
	assert_int_equal(idle_new(r.v, IDLE_DELAY_NS, &i), -ENODATA);
	assert_int_equal(queue_new(r.v, QUEUE_FULL, &q), -ENODATA);
	assert_int_equal(bandwidth_new(r.v, &b), -ENODATA);
	assert_int_equal(overlap_of(r.v, &ov), 0);
	assert_true(isnan(ov.pct));
	rig_done(&r);
}

static void test_overlap(void **state)
{
	struct rig r = one_view(VIEW_EXACT);
	struct overlap o;

	(void)state;
	assert_int_equal(overlap_of(r.v, &o), 0);
	assert_int_equal(o.communication, 58000);
	assert_int_equal(o.both, 10000);
	assert_true(o.pct == 17.24);
	rig_done(&r);
}

static void test_kernels(void **state)
{
	static const struct {
		unsigned classes;
		int64_t time;
		double pct;
	} wanted[] = {{2, 45000, 53.3},
		      {1, 24500, 29.0},
		      {3, 10000, 11.8},
		      {6, 3000, 3.6},
		      {4, 2000, 2.4}};
	struct aggregate_options all = {0, KERNELS_QUANTILE};
	struct rig r = one_view(VIEW_EXACT);
	const struct aggregate_row *row;
	struct kernels k;
	size_t i;

	(void)state;
	assert_int_equal(kernels_new(r.v, 1, &all, &k), 0);
	assert_int_equal(k.n_types, 5);
	for (i = 0; i < 5; i++) {
		assert_int_equal(k.types[i].classes, wanted[i].classes);
		assert_int_equal(k.types[i].time, wanted[i].time);
		assert_true(k.types[i].pct == wanted[i].pct);
	}
	assert_string_equal(kernels_type_name(6), "COMMUNICATION overlapping MEMORY");
	assert_int_equal(k.names.n, 4);
	assert_string_equal(k.names.rows[0].name, NCCL);
	row = &k.names.rows[1];
	assert_string_equal(row->name, "gemm");
	assert_int_equal(row->calls, 2);
	assert_int_equal(row->sum, 30000);
	assert_int_equal(row->max, 20000);
	assert_int_equal(row->min, 10000);
	assert_true(row->mean_us == 15);
	assert_true(fabs(row->std_us - sqrt(50)) < 1e-12);
	assert_string_equal(k.names.rows[3].name, "Memcpy HtoD (Pageable -> Device)");
	kernels_done(&k);
	rig_done(&r);
}

/* Sums 10, 6, 3, 1; running 10, 16, 19, 20; quantile 0.8 of these is 19.4: d is above it, c
 * is third of two. "others" is made of sums: 3 and 1. */
static void test_others(void **state)
{
	static const char events[] = WORK("kernel", "a", "0", "5", "7", "1") "," WORK(
		"kernel", "a", "10", "5", "7",
		"2") "," WORK("kernel", "b", "20", "6", "7",
			      "3") "," WORK("kernel", "c", "30", "3", "7",
					    "4") "," WORK("kernel", "d", "40", "1", "7", "5");
	struct aggregate_options two = {2, KERNELS_QUANTILE};
	struct view_options o = {.rule = VIEW_HTA};
	struct rig r = rig_view(events, &o);
	const struct aggregate_row *row;
	struct kernels k;

	(void)state;
	assert_int_equal(kernels_new(r.v, 1, &two, &k), 0);
	assert_int_equal(k.names.n, 3);
	assert_int_equal(k.names.rows[0].max, 10000); /* a: of its sum, not of a call */
	assert_true(k.names.rows[0].std_us == 0);
	row = &k.names.rows[2];
	assert_string_equal(row->name, "others");
	assert_int_equal(row->sum, 4000);
	assert_int_equal(row->max, 3000);
	assert_int_equal(row->min, 1000);
	assert_int_equal(row->calls, 2);
	assert_true(row->mean_us == 2);
	assert_true(fabs(row->std_us - sqrt(2)) < 1e-12);
	kernels_done(&k);
	rig_done(&r);
}

static const struct idle_stream *stream_of(const struct idle *x, int32_t stream)
{
	size_t i;

	for (i = 0; i < x->n; i++)
		if (x->streams[i].stream == stream)
			return &x->streams[i];
	fail_msg("no stream %d", stream);
	return NULL;
}

static void test_idle(void **state)
{
	struct rig r = one_view(VIEW_EXACT);
	const struct idle_stream *s;
	struct idle x;

	(void)state;
	assert_int_equal(idle_new(r.v, IDLE_DELAY_NS, &x), 0);
	assert_int_equal(x.n, 2);
	s = stream_of(&x, 7);
	assert_int_equal(s->kinds[IDLE_KERNEL_WAIT].time, 5000); /* launched long before */
	assert_int_equal(s->kinds[IDLE_HOST_WAIT].time, 20000);  /* launched 10 us too late */
	assert_int_equal(s->kinds[IDLE_OTHER].time, 45000);      /* it was there, and waited */
	assert_true(s->kinds[IDLE_OTHER].ratio == 45.0 / 70);
	assert_int_equal(s->kinds[IDLE_OTHER].gaps.count, 1);
	assert_true(s->kinds[IDLE_OTHER].gaps.mean == 45);
	s = stream_of(&x, 20);
	assert_int_equal(s->kinds[IDLE_OTHER].time, 0);
	assert_true(s->kinds[IDLE_OTHER].ratio == 0);
	idle_done(&x);
	rig_done(&r);
}

/* Two kernels that overlap: HTA looks at the row before, [5, 8], not at what still runs. */
static void test_idle_overlap(void **state)
{
	static const char events[] = CALL("cudaLaunchKernel", "0", "1", "1") "," CALL(
		"cudaLaunchKernel", "1", "1",
		"2") "," CALL("cudaLaunchKernel", "9", "1",
			      "3") "," WORK("kernel", "k1", "2", "8", "7",
					    "1") "," WORK("kernel", "k2", "5", "3", "7",
							  "2") "," WORK("kernel", "k3", "20", "5",
									"7", "3");
	struct view_options o = {.rule = VIEW_HTA};
	struct rig r = rig_view(events, &o);
	struct idle x;

	(void)state;
	assert_int_equal(idle_new(r.v, IDLE_DELAY_NS, &x), 0);
	assert_int_equal(x.streams->kinds[IDLE_HOST_WAIT].time, 12000);
	assert_int_equal(x.streams->kinds[IDLE_KERNEL_WAIT].time, -5000);
	assert_true(x.streams->kinds[IDLE_OTHER].is_there);
	assert_int_equal(x.streams->kinds[IDLE_OTHER].gaps.count, 0);
	idle_done(&x);
	rig_done(&r);
	o.rule = VIEW_EXACT;
	r = rig_view(events, &o);
	assert_int_equal(idle_new(r.v, IDLE_DELAY_NS, &x), 0);
	assert_int_equal(x.streams->kinds[IDLE_HOST_WAIT].time, 0);
	assert_int_equal(x.streams->kinds[IDLE_KERNEL_WAIT].time, 10000);
	idle_done(&x);
	rig_done(&r);
}

static void test_launch(void **state)
{
	struct rig r = one_view(VIEW_EXACT);
	struct launches l;

	(void)state;
	assert_int_equal(launches_new(r.v, false, &l), 0);
	assert_int_equal(l.n, 5);
	assert_int_equal(l.pairs[0].correlation, 1);
	assert_int_equal(l.pairs[0].delay, 2500);
	assert_int_equal(l.cpu_sum, 10000);
	assert_int_equal(l.gpu_sum, 97500);
	assert_int_equal(l.delay_sum, 80000); /* 2.5 + 11.5 + 8 + 6 + 52 */
	assert_int_equal(l.delay_max, 52000);
	assert_int_equal(l.shorter, 0);
	assert_int_equal(l.late, 0);
	launches_done(&l);
	assert_int_equal(launches_new(r.v, true, &l), 0);
	assert_int_equal(l.n, 4);
	launches_done(&l);
	rig_done(&r);

	r = one_view(VIEW_HTA_EXACT); /* no cuLaunchKernel */
	assert_int_equal(launches_new(r.v, false, &l), 0);
	assert_int_equal(l.n, 4);
	assert_int_equal(l.delay_sum, 68500);
	launches_done(&l);
	rig_done(&r);
}

/* A graph of two kernels, a launch without work, work without a launch, work before its
 * launch, and AMD's names: HTA sees none of these. */
static void test_launch_more(void **state)
{
	static const char events[] =
		CALL("cudaGraphLaunch", "0", "60", "1") "," WORK("kernel", "a", "10", "5", "7", "1") "," WORK(
			"kernel", "b", "20", "5", "7",
			"1") "," CALL("hipLaunchKernel", "70", "1",
				      "2") "," CALL("hipExtModuleLaunchKernel", "80", "1",
						    "3") "," WORK("kernel", "c", "200", "5", "7",
								  "3") "," WORK("kernel", "d",
										"300", "5", "7",
										"4") "," CALL("cuda"
											      "Laun"
											      "chKe"
											      "rne"
											      "l",
											      "410",
											      "1",
											      "5") "," WORK("kernel",
													    "e",
													    "400",
													    "5",
													    "7",
													    "5");
	struct view_options o = {.rule = VIEW_EXACT};
	struct rig r = rig_view(events, &o);
	struct launches l;

	(void)state;
	assert_int_equal(launches_new(r.v, false, &l), 0);
	assert_int_equal(l.n, 4);
	assert_int_equal(l.calls, 3);
	assert_int_equal(l.alone, 1);
	assert_int_equal(l.orphans, 1);
	assert_int_equal(l.before, 1);
	assert_int_equal(l.shorter, 2);
	assert_int_equal(l.shorter_plotted, 0);
	assert_int_equal(l.slow_calls, 2); /* pairs of the graph's 60 us */
	assert_int_equal(l.late, 1);       /* 200 - 81 */
	launches_done(&l);
	rig_done(&r);
}

static void test_queue(void **state)
{
	static const int32_t lengths[] = {1, 0, 1, 0, 1, 2, 1, 0};
	struct rig r = one_view(VIEW_EXACT);
	const struct queue_stream *s;
	struct queue q;
	size_t i;

	(void)state;
	assert_int_equal(queue_new(r.v, 2, &q), 0);
	assert_int_equal(q.n, 2);
	s = q.streams[0].stream == 7 ? &q.streams[0] : &q.streams[1];
	assert_int_equal(s->n, 8);
	for (i = 0; i < 8; i++)
		assert_int_equal(q.points[s->first + i].length, lengths[i]);
	assert_int_equal(q.points[s->first + 7].ts, 100000);
	assert_true(s->lengths.mean == 0.75 && s->lengths.max == 2);
	assert_true(fabs(s->mean_by_time - 83.0 / 95) < 1e-12);
	assert_int_equal(s->full, 4000); /* from 46 to 50 two waited */
	assert_true(s->full_share == 4.0 / 120);
	queue_done(&q);
	rig_done(&r);
}

static void test_bandwidth(void **state)
{
	static const char events[] = WORK("gpu_memset", "Memset (Device)", "0", "2", "7",
					  "1") ","
					       "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":"
					       "\"Memcpy DtoD (Device -> Device)\","
					       "\"pid\":0,\"tid\":7,\"ts\":10,\"dur\":10,\"args\":{"
					       "\"stream\":7,\"correlation\":3,"
					       "\"bytes\":20000,\"memory bandwidth (GB/s)\":2.0}},"
					       "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":"
					       "\"Memcpy DtoD (Device -> Device)\","
					       "\"pid\":0,\"tid\":8,\"ts\":15,\"dur\":0,\"args\":{"
					       "\"stream\":8,\"correlation\":4,"
					       "\"bytes\":20000,\"memory bandwidth (GB/s)\":3.5}}";
	struct view_options o = {.rule = VIEW_EXACT};
	struct rig r = rig_view(events, &o);
	struct bandwidth b;

	(void)state;
	assert_int_equal(bandwidth_new(r.v, &b), 0);
	assert_int_equal(b.n, 2);
	assert_string_equal(b.kinds[0].name, "Memcpy DtoD");
	assert_int_equal(b.kinds[0].n, 4); /* 10: 2, 15: 5.5, 16: 2, 20: 0 */
	assert_true(b.points[1].gbps == 5.5 && b.points[1].ts == 15000);
	assert_true(b.points[2].gbps == 2 && b.points[2].ts == 16000);
	assert_true(b.points[3].gbps == 0);
	assert_int_equal(b.kinds[0].gbps.count, 3);
	assert_int_equal(b.kinds[0].bytes, 40000);
	assert_int_equal(b.kinds[0].instant, 1);
	assert_string_equal(b.kinds[1].name, "Memset");
	assert_int_equal(b.kinds[1].gbps.count, 0); /* it says no bandwidth */
	bandwidth_done(&b);
	rig_done(&r);
}

static void test_annotations(void **state)
{
	struct aggregate_options o = {ANNOTATIONS_MOST, KERNELS_QUANTILE};
	struct rig r = one_view(VIEW_EXACT);
	struct aggregate a;

	(void)state;
	assert_int_equal(annotations_new(r.v, 1, true, &o, &a), -ENODATA);
	assert_int_equal(annotations_new(r.v, 1, false, &o, &a), 0);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.rows[0].name, "forward");
	assert_int_equal(a.rows[0].sum, 49500);
	assert_true(a.rows[0].mean_us == 24.75);
	aggregate_done(&a);
	rig_done(&r);
}

#define MARK(name, ts, dur, tid)                                                                   \
	"{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"" name                           \
	"\",\"pid\":0,\"tid\":" tid ",\"ts\":" ts ",\"dur\":" dur "}"

/* outer [0, 100) holds inner [20, 40) on stream 7: k1 lies before inner, k2 runs into it, k3
 * begins where it ends; k4 lies behind outer, k5 on another stream. */
static void test_annotated(void **state)
{
	static const char events[] =
		MARK("outer", "0", "100", "7") "," MARK("inner", "20", "20", "7") "," WORK(
			"kernel", "k1", "5", "5", "7",
			"1") "," WORK("kernel", "k2", "15", "10", "7",
				      "2") "," WORK("kernel", "k3", "40", "5", "7",
						    "3") "," WORK("kernel", "k4", "100", "5", "7",
								  "4") "," WORK("kernel", "k5",
										"25", "7", "8",
										"5");
	struct view_options o = {.rule = VIEW_EXACT};
	struct rig r = rig_view(events, &o);
	struct annotated a;

	(void)state;
	assert_int_equal(annotated_new(r.v, &a), 0);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.rows[0].name, 0);
	assert_int_equal(a.rows[0].kernels, 2);
	assert_int_equal(a.rows[0].time, 12000);
	assert_string_equal(trace_text(r.trace, a.rows[1].name, NULL), "inner");
	assert_int_equal(a.rows[1].time, 10000);
	assert_string_equal(trace_text(r.trace, a.rows[2].name, NULL), "outer");
	assert_int_equal(a.rows[2].kernels, 2);
	assert_int_equal(a.marks[rig_row(&r, "k4") - r.v->rows], VIEW_NO_ROW);
	annotated_done(&a);
	rig_done(&r);
}

/* exact: the innermost of the thread, aten::mm. HTA: of two that start together the first
 * in the file, aten::outer. */
static void test_opdelay(void **state)
{
	struct rig r = one_view(VIEW_EXACT);
	struct opdelay o;

	(void)state;
	assert_int_equal(opdelay_new(r.v, &o), 0);
	assert_int_equal(o.n, 1);
	assert_string_equal(trace_text(r.trace, o.rows[0].op, NULL), "aten::mm");
	assert_string_equal(o.rows[0].sequence, "gemm -> triton");
	assert_int_equal(o.rows[0].count, 1);
	assert_true(o.rows[0].delay_us == 5 && o.rows[0].wait_us == 5.5);
	assert_int_equal(o.launches, 2);
	assert_int_equal(o.outside, 2);
	opdelay_done(&o);
	rig_done(&r);

	r = one_view(VIEW_HTA);
	assert_int_equal(opdelay_new(r.v, &o), 0);
	assert_string_equal(trace_text(r.trace, o.rows[0].op, NULL), "aten::outer");
	opdelay_done(&o);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_temporal),    cmocka_unit_test(test_temporal_hta),
		cmocka_unit_test(test_no_device),   cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_kernels),     cmocka_unit_test(test_others),
		cmocka_unit_test(test_idle),        cmocka_unit_test(test_idle_overlap),
		cmocka_unit_test(test_launch),      cmocka_unit_test(test_launch_more),
		cmocka_unit_test(test_queue),       cmocka_unit_test(test_bandwidth),
		cmocka_unit_test(test_annotations), cmocka_unit_test(test_annotated),
		cmocka_unit_test(test_opdelay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

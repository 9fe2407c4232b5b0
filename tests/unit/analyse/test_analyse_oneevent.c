/* SPDX-License-Identifier: Apache-2.0
 *
 * test_analyse_oneevent.c - which rows a timeline shows and where, and one event: its own time and
 * the ends of its arrows, worked out by hand from docs/http.md, "timeline".
 */
#include "viewrig.h"

#include <errno.h>

#include "analyse/oneevent.h"
#include "base/buf.h"

#define SEQUENCE(name, tid, ts, dur, number, forward)                                              \
	SEQUENCE_IN("1", name, tid, ts, dur, number, forward)
#define SEQUENCE_IN(pid, name, tid, ts, dur, number, forward)                                      \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":" pid ",\"tid\":" tid      \
	",\"ts\":" ts ",\"dur\":" dur ",\"args\":{\"Sequence number\":" number                     \
	",\"Fwd thread id\":" forward "}}"

static struct trace *read_events(const char *events)
{
	struct trace_options o = {0};
	struct err e = {0};
	struct trace *t;
	struct buf text;

	buf_init(&text, 1 << 20);
	buf_printf(&text, "{\"traceEvents\": [%s]}", events);
	if (trace_read_bytes(text.data, text.len, &o, &t, &e))
		fail_msg("%s", e.text);
	buf_done(&text);
	return t;
}

static struct oneevent find(struct trace *t, uint32_t index)
{
	struct oneevent ret;

	assert_int_equal(oneevent_find(t, index, &ret), 0);
	return ret;
}

static void check_link(const struct oneevent *e, size_t i, enum oneevent_role role, uint32_t index)
{
	assert_true(i < e->n_links);
	assert_int_equal(e->links[i].role, role);
	assert_int_equal(e->links[i].index, index);
}

/* What the device did, what lies over it, and all the rest. */
static void kinds(void **state)
{
	static const enum trace_cat device[] = {TRACE_CAT_KERNEL, TRACE_CAT_GPU_MEMCPY,
						TRACE_CAT_GPU_MEMSET, TRACE_CAT_MTIA_CCP_EVENTS},
				    mark[] = {TRACE_CAT_GPU_USER_ANNOTATION, TRACE_CAT_CUDA_SYNC,
					      TRACE_CAT_CUDA_EVENT};
	unsigned seen[LANES_KINDS] = {0};
	int cat;
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(lanes_kind_of(device[i]), LANES_DEVICE);
	for (i = 0; i < 3; i++)
		assert_int_equal(lanes_kind_of(mark[i]), LANES_MARK);
	for (cat = 0; cat < TRACE_CATS; cat++)
		seen[lanes_kind_of((enum trace_cat)cat)]++;
	assert_int_equal(seen[LANES_DEVICE], 4);
	assert_int_equal(seen[LANES_MARK], 3);
}

/* Without a length, with one below 0, and the recording itself: none can be drawn. */
static void what_is_shown(void **state)
{
	struct trace *t = read_events(HOST("cpu_op", "a", "1", "2") "," HOST(
		"cpu_op", "b", "2",
		"0") ","
		     "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c\",\"pid\":1,\"tid\":1,\"ts\":3}"
		     "," HOST("cpu_op", "d", "4", "-1") "," HOST("Trace", "PyTorch Profiler (0)",
								 "0", "9"));
	const struct trace_block *b = trace_block(t, 0);
	uint32_t i, n = trace_block_rows(t, 0);
	char shown[8] = "";

	(void)state;
	assert_in_range(n, 3, 5);
	for (i = 0; i < n; i++)
		if (lanes_is_event(b, i))
			strncat(shown, trace_text(t, b->name[i], NULL), 1);
	assert_string_equal(shown, "ab");
	trace_free(t);
}

/* a 10..110 with b 20..50 over c 30..60, d 60..70, e of another thread: 100 - 40 - 10 us. */
static void own_time(void **state)
{
	struct trace *t = read_events(
		HOST("cpu_op", "a", "10", "100") "," HOST("cpu_op", "b", "20", "30") "," HOST(
			"cpu_op", "c", "30",
			"30") "," HOST("cpu_op", "d", "60",
				       "10") "," HOST("cpu_op", "late", "105",
						      "20") "," SEQUENCE("e", "2", "80", "10", "1",
									 "0") "," HOST("cpu_op",
										       "a", "10",
										       "100"));
	struct oneevent e = find(t, 0);

	(void)state;
	assert_string_equal(trace_text(t, e.name, NULL), "a");
	assert_int_equal(e.first, e.ts);
	assert_int_equal(e.dur, 100000);
	/* Its double lies below it, and nothing of it is its own. */
	assert_int_equal(e.self, 0);
	/* The double: 20..60, 60..70 and 105..110 are covered. */
	e = find(t, 6);
	assert_int_equal(e.self, 45000);
	assert_int_equal(find(t, 1).self, 10000); /* b without 30..50 of c */
	assert_int_equal(find(t, 5).self, 10000);
	assert_int_equal(find(t, 5).ts - find(t, 5).first, 70000);
	trace_free(t);
}

/* Of a work's calls the one that began last; all works of a call. Correlation 0 is none, and an
 * annotation over the work of a stream is no work. */
static void launches(void **state)
{
	struct trace *t = read_events(CALL("cudaLaunchKernel", "10", "5", "3") "," WORK(
		"kernel", "gemm", "40", "10", "7",
		"3") "," CALL("cudaGraphLaunch", "20", "5",
			      "3") "," WORK("gpu_memcpy", "copy", "60", "10", "7",
					    "3") "," CALL("cudaFree", "30", "5",
							  "0") "," WORK("kernel", "alone", "80",
									"10", "7",
									"0") "," WORK("gpu_user_"
										      "annotation",
										      "mark", "40",
										      "30", "7",
										      "3"));
	struct oneevent e = find(t, 1);

	(void)state;
	assert_int_equal(e.n_links, 1);
	check_link(&e, 0, ONEEVENT_LAUNCH, 2);
	e = find(t, 2);
	assert_int_equal(e.n_links, 2);
	check_link(&e, 0, ONEEVENT_WORK, 1);
	check_link(&e, 1, ONEEVENT_WORK, 3);
	assert_int_equal(e.links[1].dur, 10000);
	assert_int_equal(e.links[1].ts - e.first, 50000);
	assert_int_equal(find(t, 4).n_links, 0);
	assert_int_equal(find(t, 5).n_links, 0);
	assert_int_equal(find(t, 6).n_links, 0);
	trace_free(t);
}

static void many_works(void **state)
{
	struct trace *t;
	struct oneevent e;
	struct buf text;
	unsigned i;

	(void)state;
	buf_init(&text, 1 << 20);
	buf_puts(&text, CALL("cudaGraphLaunch", "1", "5", "3"));
	for (i = 0; i < 100; i++)
		buf_printf(&text,
			   ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,"
			   "\"ts\":%u,\"dur\":1,\"args\":{\"correlation\":3}}",
			   10 + i);
	t = read_events(buf_str(&text));
	e = find(t, 0);
	assert_int_equal(e.n_links, 64);
	assert_int_equal(e.links_left_out, 36);
	check_link(&e, 63, ONEEVENT_WORK, 64);
	buf_done(&text);
	trace_free(t);
}

/* Forward: linear 0..50 holds addmm 10..40 of the same number, which is meant: it began last. Its
 * gradient is the outermost of those with a forward thread. */
static void gradients(void **state)
{
	struct trace *t = read_events(SEQUENCE("linear", "1", "0", "50", "9", "0") "," SEQUENCE(
		"addmm", "1", "10", "30", "9",
		"0") "," SEQUENCE("inner", "2", "110", "20", "9",
				  "1") "," SEQUENCE("evaluate", "2", "100", "50", "9",
						    "1") "," SEQUENCE("other", "1", "60", "5", "8",
								      "0") "," SEQUENCE("elsewhere",
											"1", "52",
											"2", "9",
											"0"));
	struct oneevent e = find(t, 3);

	(void)state;
	assert_int_equal(e.n_links, 1);
	check_link(&e, 0, ONEEVENT_FORWARD, 5);
	e = find(t, 2);
	check_link(&e, 0, ONEEVENT_FORWARD, 5);
	e = find(t, 5);
	assert_int_equal(e.n_links, 1);
	check_link(&e, 0, ONEEVENT_BACKWARD, 3);
	/* These are not around the one that is meant. */
	assert_int_equal(find(t, 0).n_links, 0);
	assert_int_equal(find(t, 1).n_links, 0);
	assert_int_equal(find(t, 4).n_links, 0);
	trace_free(t);
	t = read_events(SEQUENCE("linear", "1", "0", "50", "9", "0") "," SEQUENCE(
		"addmm", "1", "10", "30", "9", "0") "," SEQUENCE("evaluate", "2", "100", "50", "9",
								 "1"));
	e = find(t, 0);
	assert_int_equal(e.n_links, 1);
	check_link(&e, 0, ONEEVENT_BACKWARD, 2);
	e = find(t, 2);
	check_link(&e, 0, ONEEVENT_FORWARD, 1);
	trace_free(t);
}

/* Two ranks in a file count alike; a thread that computes gradients may compute forward, too
 * (checkpointing); on the host one thread does both. */
static void whose_gradients(void **state)
{
	struct trace *t =
		read_events(SEQUENCE_IN("1", "f1", "1", "10", "5", "5", "0") "," SEQUENCE_IN(
			"1", "b1", "2", "30", "5", "5",
			"1") "," SEQUENCE_IN("2", "f2", "1", "13", "5", "5",
					     "0") "," SEQUENCE_IN("2", "b2", "2", "33", "5", "5",
								  "1"));
	struct oneevent e;
	uint32_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		e = find(t, i);
		assert_int_equal(e.n_links, 1);
		check_link(&e, 0, i % 2 ? ONEEVENT_FORWARD : ONEEVENT_BACKWARD, i ^ 1);
	}
	trace_free(t);
	t = read_events(SEQUENCE("f", "1", "10", "5", "5", "0") "," SEQUENCE(
		"anew", "2", "30", "5", "5", "0") "," SEQUENCE("b", "2", "40", "5", "5",
							       "1") "," SEQUENCE("later", "1", "60",
										 "5", "5", "0"));
	e = find(t, 2);
	assert_int_equal(e.n_links, 1);
	check_link(&e, 0, ONEEVENT_FORWARD, 0);
	trace_free(t);
	t = read_events(SEQUENCE("f", "1", "10", "5", "5", "0") "," SEQUENCE("b", "1", "40", "5",
									     "5", "1"));
	e = find(t, 1);
	check_link(&e, 0, ONEEVENT_FORWARD, 0);
	e = find(t, 0);
	check_link(&e, 0, ONEEVENT_BACKWARD, 1);
	trace_free(t);
}

static void what_is_not_there(void **state)
{
	struct trace *t = read_events(
		"{\"ph\":\"i\",\"name\":\"instant\",\"pid\":1,\"tid\":1,\"ts\":1}," HOST(
			"cpu_op", "a", "2", "3"));
	struct oneevent e;

	(void)state;
	assert_int_equal(oneevent_find(t, 0, &e), -ENOENT);
	assert_int_equal(oneevent_find(t, 2, &e), -ENOENT);
	assert_int_equal(oneevent_find(t, UINT32_MAX, &e), -ENOENT);
	assert_int_equal(find(t, 1).self, 3000);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),           cmocka_unit_test(what_is_shown),
		cmocka_unit_test(own_time),        cmocka_unit_test(launches),
		cmocka_unit_test(many_works),      cmocka_unit_test(gradients),
		cmocka_unit_test(whose_gradients), cmocka_unit_test(what_is_not_there),
	};

	return cmocka_run_group_tests_name("analyse-oneevent", tests, NULL, NULL);
}

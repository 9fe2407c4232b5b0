/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of `lapse top` without a terminal: a whole one as text, and what must hold of any:
 * it has the size of the grid, no cell has what a terminal would obey, and no size, number of
 * series or name breaks it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/topdraw.h"

#define S 1000000000LL
#define T0 (1795876269LL * S)

static uint32_t add_series(struct topmodel *m, uint32_t id, const char *role, int64_t rank,
			   enum sink_kind kind, const char *name, const char *labels,
			   const char *unit)
{
	const struct store_series s = {.host_name = "node0",
				       .id = id,
				       .process = rank < 0 ? 1 : 2 + (uint32_t)rank,
				       .rank = rank,
				       .role = role,
				       .name = name,
				       .labels = labels,
				       .unit = unit,
				       .help = "",
				       .source = "",
				       .kind = kind};

	return topmodel_add_series(m, &s);
}

static void add_point(struct topmodel *m, uint32_t series, uint64_t at, int64_t time_ns,
		      int64_t step, double v)
{
	const struct store_point p = {.time_ns = time_ns, .step = step, .value = v};

	topmodel_point(m, series, at, &p);
}

static void add_process(struct topmodel *m, uint32_t id, const char *role, int64_t pid,
			int64_t rank)
{
	const struct store_process p = {.host_name = "node0",
					.id = id,
					.pid = pid,
					.rank = rank,
					.local_rank = rank,
					.role = role,
					.program = "train.py",
					.dropped = pid == 1001 ? 7 : 0};

	topmodel_process(m, &p);
}

static void add_event(struct topmodel *m, int severity, const char *kind, const char *text)
{
	const struct store_event e = {.process = 2,
				      .time_ns = T0 + 20 * S,
				      .step = 19,
				      .severity = severity,
				      .kind = kind,
				      .text = text,
				      .attrs = ""};

	topmodel_event_add(m, &e);
}

static void add_run(struct topmodel *m, const char *name)
{
	const struct store_run run = {.id = "20261128-143109-zdv2",
				      .name = name,
				      .project = "ocr",
				      .command = "",
				      .cwd = "",
				      .user = "",
				      .tags = "",
				      .notes = "",
				      .hosts = "node0",
				      .start_ns = T0,
				      .evidence = "",
				      .stderr_tail = ""};

	topmodel_set_run(m, &run);
}

/* What is in a run of 20 steps of 100 ms. */
static void fill(struct topmodel *m)
{
	static const struct {
		const char *name, *labels;
		double v;
	} machine[] = {
		{"cpu/busy", "", 0.43},
		{"load/1m", "", 3.97},
		{"memory/total", "", 128 * 0x1p30},
		{"memory/used", "", 40 * 0x1p30},
		{"pressure/io", "", 0.125},
		{"gpu/busy", "gpu=\"0\"", 0.91},
		{"gpu/memory/used", "gpu=\"0\"", 62.5 * 0x1p30},
		{"gpu/memory/total", "gpu=\"0\"", 80 * 0x1p30},
		{"gpu/power", "gpu=\"0\"", 599},
		{"gpu/temperature", "gpu=\"0\"", 61},
		{"cpu/core/busy", "cpu=\"0\"", 0.5},
		{"cpu/core/busy", "cpu=\"1\"", 0.25},
		{"process/cpu", "role=\"trainer\",slot=\"0\"", 0.985},
		{"process/rss", "role=\"trainer\",slot=\"0\"", 24 * 0x1p30},
	};
	uint32_t step, forward, loss;
	size_t i;

	add_run(m, "baseline");
	add_process(m, 1, "host", 0, -1);
	add_process(m, 2, "trainer", 1000, 0);
	add_process(m, 3, "trainer", 1001, 1);
	for (i = 0; i < sizeof(machine) / sizeof(machine[0]); i++)
		add_point(m,
			  add_series(m, 100 + (uint32_t)i, "host", -1, SINK_GAUGE, machine[i].name,
				     machine[i].labels, "1"),
			  0, T0 + 20 * S, SINK_STEP_NONE, machine[i].v);
	step = add_series(m, 1, "trainer", 0, SINK_SPAN, "step", "", "s");
	forward = add_series(m, 2, "trainer", 0, SINK_SPAN, "forward", "", "s");
	loss = add_series(m, 3, "trainer", 0, SINK_GAUGE, "loss", "", "nat");
	topmodel_attr(m, 0, 2, "total_steps", "100");
	m->frame = 1;
	topmodel_trace(m, loss)->is_stale = false;
	topmodel_trace(m, step)->is_stale = false;
	for (i = 0; i < 20; i++) {
		int64_t t = T0 + (int64_t)i * S / 10;

		add_point(m, forward, i, t, (int64_t)i, 25e6);
		add_point(m, step, i, t, (int64_t)i, 100e6);
		add_point(m, loss, i, t, (int64_t)i, 9 - (double)i / 4);
	}
	add_event(m, 1, "checkpoint", "checkpoint-19.pt");
}

static const char *draw(struct topdraw *d)
{
	static char text[1 << 20];
	struct buf b;

	topmodel_tick(d->m, d->now_ns);
	topdraw_frame(d);
	buf_init(&b, sizeof(text) - 1);
	topgrid_print(d->g, &b, false);
	memcpy(text, buf_str(&b), b.len + 1);
	buf_done(&b);
	return text;
}

/* Every cell is something that a terminal only shows. */
static void look(const struct topgrid *g)
{
	int x, y;

	for (y = 0; y < g->h; y++) {
		for (x = 0; x < g->w; x++) {
			uint32_t c = topgrid_at(g, x, y)->c;

			assert_true(c == 0 || (c >= 0x20 && c < 0x7f) || c >= 0xa0);
			assert_false(c >= 0x200b && c <= 0x200f);
			assert_false(c >= 0x202a && c <= 0x202e);
			assert_true(topgrid_at(g, x, y)->style < TOPGRID_STYLES);
			if (c == 0)
				assert_true(x > 0 && topgrid_at(g, x - 1, y)->c > 0xff);
			if (!g->utf8)
				assert_true(c >= 0x20 && c < 0x7f);
		}
	}
}

static void test_frame(void **state)
{
	struct topmodel m;
	struct topview v;
	struct topgrid g;
	struct topdraw d = {.g = &g, .v = &v, .m = &m, .now_ns = T0 + 21 * S, .note = ""};

	(void)state;
	topmodel_init(&m);
	topview_init(&v);
	fill(&m);
	topgrid_init(&g, 80, 28, false);
	/* 20 steps in 2 s, the last ended at second 2. A quarter of each is forward: of the 65
	 * columns 16. 62.5 / 80 of 17 columns are 13.3; 91 % are 15.5. Rank 1 lost 7 records. */
	assert_string_equal(
		draw(&d),
		"* baseline  running  0:00:21  ocr  20261128-143109-zdv2           7 records lost\n"
		"step 19/100  |||............. 20 %  last step 19.0 s ago  10 steps/s\n"
		"a step 100 ms  forward 25%    |other 75%                                       |\n"
		"- 1 Training - 1 to 2 of 3 charts, whole run -----------------------------------\n"
		"loss              4.25  min 4.25  max 9  step                             100 ms\n"
		"       9 '..                               105 ms\n"
		"            '''.\n"
		"                ''.\n"
		"                   '''..\n"
		"   6.625                '...               100 ms ''''''''''''''''''''''''''''''\n"
		"                            ''.\n"
		"                               ''...\n"
		"    4.25                            '..   95.0 ms\n"
		"         0            step           19           0            step           19\n"
		"- 2 GPUs - 1, busy 91 %, 599 W -------------------------------------------------\n"
		"0  ||||||||||||||||.  91 %  |||||||||||||....  62.5/80.0 GiB      599 W   61 C\n"
		"- 3 Machine - node0 ------------------------------------------------------------\n"
		"  0 |||||||||||||||..............  50 %   1 |||||||......................  25 %\n"
		"CPU  |||||||||........... 43 %  load 3.97\n"
		"mem  ||||||.............. machine 40.0 GiB of 128 GiB\n"
		"wait for disk 12 %\n"
		"- 4 Processes - 2, 0 ended, by CPU ---------------------------------------------\n"
		"PROCESS        RANK     PID  CPU %    MEMORY   GPU MEM      READ/S  STATE\n"
		"trainer 0         0    1000   98.5  24.0 GiB         -           -  runs\n"
		"trainer           1    1001      -         -         -           -  runs\n"
		"- 5 Alerts and events - 0 alerts, 0 errors, 0 warnings, 1 event ----------------\n"
		"- 14:31:29 trainer 0         19 checkpoint checkpoint-19.pt\n"
		"q quit  ? help  1-5 pane  / filter  +- range  e smooth  x axis  s sort  l log\n");
	topgrid_done(&g);
	topmodel_done(&m);
}

/* Draw in every state that changes what is where. */
static void draw_all(struct topdraw *d)
{
	static const char *const states[] = {"",  "2",  "2",      "3",      "4",          "5",
					     "1", "1?", "?/loss", "\re]]]", "[[[[[[[[[x", "lo "};
	size_t i;

	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		const char *keys = states[i];

		for (; *keys; keys++)
			topview_key(d->v, (unsigned char)*keys);
		draw(d);
		look(d->g);
	}
}

static void test_sizes(void **state)
{
	static const int w[] = {1, 2, 3, 7, 19, 20, 33, 45, 80, 117, 118, 150, 233, 300};
	static const int h[] = {1, 2, 3, 5, 6, 9, 14, 19, 24, 25, 50, 100};
	struct topmodel m;
	struct topview v;
	struct topgrid g;
	struct topdraw d = {.g = &g, .v = &v, .m = &m, .now_ns = T0 + 21 * S, .note = "a note"};
	size_t i, k;

	(void)state;
	topmodel_init(&m);
	fill(&m);
	for (i = 0; i < sizeof(w) / sizeof(w[0]); i++) {
		for (k = 0; k < sizeof(h) / sizeof(h[0]); k++) {
			topview_init(&v);
			topgrid_init(&g, w[i], h[k], k % 2);
			d.is_once = k % 3 == 2;
			draw_all(&d);
			topgrid_done(&g);
		}
	}
	topmodel_done(&m);
}

/* Nothing is known of the run yet. */
static void test_empty(void **state)
{
	struct topmodel m;
	struct topview v;
	struct topgrid g;
	struct topdraw d = {.g = &g, .v = &v, .m = &m, .now_ns = T0, .note = ""};

	(void)state;
	topmodel_init(&m);
	topview_init(&v);
	topgrid_init(&g, 80, 24, true);
	assert_non_null(strstr(draw(&d), "no steps recorded"));
	assert_non_null(strstr(draw(&d), "nothing recorded yet"));
	draw_all(&d);
	topgrid_done(&g);
	topmodel_done(&m);
}

static void test_nan_only(void **state)
{
	struct topmodel m;
	struct topview v;
	struct topgrid g;
	struct topdraw d = {
		.g = &g, .v = &v, .m = &m, .now_ns = T0 + 60 * S, .note = "", .is_once = true};
	const char *text;
	uint32_t loss;
	int i;

	(void)state;
	topmodel_init(&m);
	topview_init(&v);
	add_run(&m, "nan");
	loss = add_series(&m, 1, "trainer", 0, SINK_GAUGE, "loss", "", "1");
	topmodel_trace(&m, loss)->is_stale = false;
	for (i = 0; i < 50; i++)
		add_point(&m, loss, (uint64_t)i, T0 + i * S, i, NAN);
	topgrid_init(&g, 80, 24, false);
	text = draw(&d);
	assert_non_null(strstr(text, "no value is a number"));
	assert_non_null(strstr(text, "50 not finite"));
	for (i = 0; *text; text++)
		i += *text == 'x';
	assert_int_equal(i, 50); /* a mark where each is: there are 71 columns */
	topgrid_done(&g);
	topmodel_done(&m);
}

/* The ones of interest come first; at most so many are held. */
static void test_many_series(void **state)
{
	struct topmodel m;
	struct topview v;
	struct topgrid g;
	struct topdraw d = {.g = &g, .v = &v, .m = &m, .now_ns = T0, .note = ""};
	char name[32];
	uint32_t i;

	(void)state;
	topmodel_init(&m);
	topview_init(&v);
	add_run(&m, "many");
	for (i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "layer/%u", i);
		add_series(&m, i + 1, "trainer", 0, SINK_GAUGE, name, "", "1");
	}
	add_series(&m, 1001, "trainer", 0, SINK_GAUGE, "train_loss", "", "1");
	topgrid_init(&g, 300, 100, true);
	assert_non_null(strstr(draw(&d), "of 1001 charts"));
	assert_ptr_equal(m.charts[m.order[0]].name,
			 m.charts[m.series[topmodel_find(&m, 0, 1001)].chart].name);
	assert_string_equal(m.charts[m.order[2]].name, "layer/1"); /* not layer/10 */
	snprintf(v.filter, sizeof(v.filter), "layer/99*");
	assert_non_null(strstr(draw(&d), "11 charts")); /* 99, 990 to 999 */
	snprintf(v.filter, sizeof(v.filter), "AYER/7");
	assert_non_null(strstr(draw(&d), "of 111 charts")); /* 7, 70 to 79, 700 to 799 */
	snprintf(v.filter, sizeof(v.filter), "nothing like it");
	assert_non_null(strstr(draw(&d), "no series has that in its name"));
	v.filter[0] = '\0';
	v.density = 6;
	draw_all(&d);
	assert_true(m.n_traces <= TOPMODEL_TRACES_MAX);
	/* What is not looked at is let go. */
	v.is_large = true;
	v.focus = TOPVIEW_EVENTS;
	for (i = 0; i < 64; i++) {
		draw(&d);
		topmodel_sweep(&m);
	}
	assert_int_equal(m.n_traces, 0);
	topgrid_done(&g);
	topmodel_done(&m);
}

static void test_hostile_names(void **state)
{
	static const char evil[] = "\033]0;owned\007\033[2J\xff\xfe<script>\u202eabc\u200f\u6f22"
				   "\u05d0\u05d1 %s%n {a=\"b\"}\n\r\t";
	char *longest = malloc(10241);
	struct topmodel m;
	struct topview v;
	struct topgrid g;
	struct topdraw d = {.g = &g, .v = &v, .m = &m, .now_ns = T0 + S, .note = evil};
	int i;

	(void)state;
	memset(longest, 'x', 10240);
	longest[10240] = '\0';
	topmodel_init(&m);
	topview_init(&v);
	add_run(&m, evil);
	add_process(&m, 2, evil, 5, 0);
	add_point(&m, add_series(&m, 1, "trainer", 0, SINK_GAUGE, evil, evil, evil), 0, T0, 0, 1);
	add_point(&m, add_series(&m, 2, "trainer", 0, SINK_SPAN, "step", "", "s"), 0, T0, 0, 1e8);
	add_point(&m, add_series(&m, 3, "trainer", 0, SINK_SPAN, longest, "", "s"), 0, T0, 0, 5e7);
	add_point(&m, add_series(&m, 4, "trainer", 0, SINK_GAUGE, longest, longest, longest), 0, T0,
		  0, 1);
	longest[10239] = 'y'; /* another series all the same */
	add_series(&m, 5, "trainer", 0, SINK_GAUGE, longest, "", "1");
	add_point(&m,
		  add_series(&m, 6, "host", -1, SINK_GAUGE, "gpu/busy", "gpu=\"\033[31m\"", "1"), 0,
		  T0, SINK_STEP_NONE, 1);
	add_point(&m, add_series(&m, 7, "host", -1, SINK_GAUGE, "cpu/busy", "", "1"), 0, T0,
		  SINK_STEP_NONE, INFINITY);
	for (i = 0; i < 9; i++)
		add_event(&m, i, evil, longest);
	assert_int_equal(m.n_charts, 7);
	for (i = 20; i <= 160; i += 70) {
		topgrid_init(&g, i, 40, true);
		draw_all(&d);
		topgrid_done(&g);
	}
	free(longest);
	topmodel_done(&m);
}

/* More events than are kept: the newest stay, all are counted. */
static void test_many_events(void **state)
{
	struct topmodel m;
	char text[32];
	uint32_t i;

	(void)state;
	topmodel_init(&m);
	for (i = 0; i < TOPMODEL_EVENTS + 100; i++) {
		snprintf(text, sizeof(text), "%u", i);
		add_event(&m, 2, "warned", text);
	}
	add_event(&m, 2, "warned", text); /* told once more */
	assert_int_equal(m.by_severity[2], TOPMODEL_EVENTS + 100);
	assert_string_equal(topmodel_event(&m, 0)->text, text);
	assert_string_equal(topmodel_event(&m, TOPMODEL_EVENTS - 1)->text, "100");
	assert_null(topmodel_event(&m, TOPMODEL_EVENTS));
	topmodel_done(&m);
}

/* Of several ranks the lowest is looked at, in whatever order they come. */
static void test_ranks(void **state)
{
	uint32_t two, zero;
	struct topmodel m;

	(void)state;
	topmodel_init(&m);
	two = add_series(&m, 1, "trainer", 2, SINK_SPAN, "step", "", "s");
	add_point(&m, two, 0, T0, 0, 1e8);
	assert_int_equal(m.main_step, two);
	zero = add_series(&m, 2, "trainer", 0, SINK_SPAN, "step", "", "s");
	add_series(&m, 3, "trainer", 1, SINK_SPAN, "step", "", "s");
	assert_int_equal(m.main_step, zero);
	assert_int_equal(m.n_charts, 1);
	assert_int_equal(m.charts[0].n, 3);
	assert_int_equal(m.charts[0].series[0], zero);
	assert_int_equal(m.charts[0].series[2], two);
	assert_int_equal(m.mark.steps, 0);
	topmodel_done(&m);
}

/* A stored run comes series by series, each whole: the newest steps still find their spans. */
static void test_split_of_many(void **state)
{
	static const struct {
		const char *name;
		int64_t at_ms, long_ms;
	} spans[] = {{"forward", 0, 7}, {"backward", 7, 12}, {"step", 0, 20}};
	int permille[STEPSPLIT_PARTS_MAX];
	struct stepsplit split;
	struct topmodel m;
	uint32_t ids[3];
	size_t k, i;

	(void)state;
	topmodel_init(&m);
	add_run(&m, "many");
	add_process(&m, 2, "trainer", 1000, 0);
	ids[2] = add_series(&m, 1, "trainer", 0, SINK_SPAN, "step", "", "s");
	ids[0] = add_series(&m, 2, "trainer", 0, SINK_SPAN, "forward", "", "s");
	ids[1] = add_series(&m, 3, "trainer", 0, SINK_SPAN, "backward", "", "s");
	for (k = 0; k < 3; k++)
		for (i = 0; i < 5000; i++)
			add_point(&m, ids[k], i, T0 + ((int64_t)i * 20 + spans[k].at_ms) * S / 1000,
				  (int64_t)i, (double)spans[k].long_ms * 1e6);
	assert_true(topmodel_split(&m, &split));
	stepsplit_permille(&split, permille);
	assert_int_equal(split.n, 200);
	assert_string_equal(m.parts[0], "forward");
	assert_int_equal(permille[0], 350);
	assert_int_equal(permille[1], 600);
	assert_int_equal(permille[m.n_parts], 50); /* other */
	stepsplit_done(&split);
	topmodel_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_of_many), cmocka_unit_test(test_frame),
		cmocka_unit_test(test_sizes),         cmocka_unit_test(test_empty),
		cmocka_unit_test(test_nan_only),      cmocka_unit_test(test_many_series),
		cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_many_events),
		cmocka_unit_test(test_ranks),
	};

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 77;
	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The status line's text for given values, its speed from given marks, and the bytes
 * that draw it. Expected values are worked out by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/statusbar.h"
#include "cli/statusline.h"
#include "wire/sink.h"

#define S 1000000000LL

static struct statusline full(void)
{
	struct statusline s;

	statusline_init(&s);
	s.elapsed_s = 3725.9;
	s.step = 120;
	s.total = 1000;
	s.loss = 2.31049;
	s.steps_s = 12.5;
	s.samples_s = 400;
	s.eta_s = 70.4;
	s.gpus = 2;
	s.gpu_busy = 0.934;
	s.gpu_used = 61.2 * 0x1p30;
	s.gpu_total = 80 * 0x1p30;
	s.rss = 3.5 * 0x1p30;
	s.limit = 16 * 0x1p30;
	s.cpu_busy = 0.5;
	return s;
}

static void test_all_fields(void **state)
{
	struct statusline s = full();
	char out[STATUSLINE_MAX];

	(void)state;
	assert_string_equal(statusline_text(out, &s, 200),
			    "1:02:05  step 120/1000  loss 2.31  12.5 steps/s  400 samples/s  ETA "
			    "1 min 10 s  2 GPU 93 % 61.2/80.0 GiB  mem 3.50/16.0 GiB");
	s.lost = 7;
	s.tokens_s = 123456;
	s.gpus = 1;
	s.limit = NAN;
	s.gpu_total = 0x1p40;
	assert_string_equal(statusline_text(out, &s, 200),
			    "1:02:05  step 120/1000  loss 2.31  12.5 steps/s  123 k tokens/s  ETA "
			    "1 min 10 s  GPU 93 % 61.2 GiB/1.00 TiB  mem 3.50 GiB  7 records lost");
}

/* What matters least goes first; nothing is cut in half unless one field is too long. */
static void test_narrow(void **state)
{
	struct statusline s = full();
	char out[STATUSLINE_MAX];

	(void)state;
	assert_string_equal(statusline_text(out, &s, 90),
			    "step 120/1000  loss 2.31  12.5 steps/s  ETA 1 min 10 s  2 GPU 93 % "
			    "61.2/80.0 GiB");
	assert_string_equal(statusline_text(out, &s, 60),
			    "step 120/1000  loss 2.31  12.5 steps/s  ETA 1 min 10 s");
	assert_string_equal(statusline_text(out, &s, 30), "step 120/1000  loss 2.31");
	assert_string_equal(statusline_text(out, &s, 10), "step 120/1");
}

static void test_little_known(void **state)
{
	struct statusline s;
	char out[STATUSLINE_MAX];

	(void)state;
	statusline_init(&s);
	assert_string_equal(statusline_text(out, &s, 80), "0:00:00  waiting for data");
	s.elapsed_s = 9;
	s.cpu_busy = 0.071;
	assert_string_equal(statusline_text(out, &s, 80), "0:00:09  CPU 7 %");
	s.step = 0;
	assert_string_equal(statusline_text(out, &s, 80), "0:00:09  step 0  CPU 7 %");
	s.steps_s = 2;
	s.samples_s = 64;
	s.quiet_s = 40;
	assert_string_equal(statusline_text(out, &s, 80),
			    "0:00:09  step 0  last step 40.0 s ago  CPU 7 %");
}

static void add(struct statusline_speed *v, struct statusline *s, int64_t end_s, uint64_t steps,
		double samples, int64_t step, int64_t total, int64_t now_s)
{
	const struct statusline_mark m = {end_s * S, steps, samples, NAN};

	statusline_init(s);
	s->step = step;
	s->total = total;
	statusline_add(v, &m, 0, now_s * S, s);
}

static void test_speed(void **state)
{
	struct statusline_speed v = {0};
	struct statusline s;

	(void)state;
	add(&v, &s, 100, 10, 320, 9, 100, 100);
	assert_true(isnan(s.steps_s) && isnan(s.eta_s) && isnan(s.quiet_s));
	/* 10 steps in 2 s; 80 of 100 steps are left. */
	add(&v, &s, 102, 20, 640, 19, 100, 102);
	assert_true(s.steps_s == 5 && s.samples_s == 160 && s.eta_s == 16);
	assert_true(isnan(s.tokens_s));
	/* Out of the last 10 s falls what is older: from 102 on. */
	add(&v, &s, 112, 30, 960, 29, 0, 112);
	assert_true(s.steps_s == 1 && isnan(s.eta_s));
	/* No step since: the speed is what it was, the silence is told after 5 s. */
	add(&v, &s, 112, 30, 960, 29, 100, 117);
	assert_true(s.steps_s == 1 && isnan(s.quiet_s));
	add(&v, &s, 112, 30, 960, 29, 100, 118);
	assert_true(s.quiet_s == 6 && isnan(s.eta_s));
	/* It began again. */
	add(&v, &s, 130, 4, 128, 3, 100, 130);
	assert_true(isnan(s.steps_s));
	add(&v, &s, 131, 8, 256, 7, 8, 131);
	assert_true(s.steps_s == 4 && s.eta_s == 0);
}

/* Of steps that take longer than the window the last two count. */
static void test_slow_steps(void **state)
{
	struct statusline_speed v = {0};
	struct statusline s;

	(void)state;
	add(&v, &s, 1000, 1, NAN, 0, 11, 1000);
	add(&v, &s, 1060, 2, NAN, 1, 11, 1061);
	add(&v, &s, 1140, 3, NAN, 2, 11, 1141);
	assert_true(s.steps_s == 1 / 80.0 && s.eta_s == 8 * 80.0);
	/* 3 usual steps without one are remarkable. */
	add(&v, &s, 1140, 3, NAN, 2, 11, 1140 + 240);
	assert_true(isnan(s.quiet_s));
	add(&v, &s, 1140, 3, NAN, 2, 11, 1140 + 241);
	assert_true(s.quiet_s == 241);
}

/* Steps numbered from 1, and from where a checkpoint stopped. */
static void test_first_step(void **state)
{
	struct statusline_mark a = {10 * S, 1, NAN, NAN}, b = {20 * S, 11, NAN, NAN};
	struct statusline_speed v = {0};
	struct statusline s;

	(void)state;
	statusline_init(&s);
	statusline_add(&v, &a, 1, 20 * S, &s);
	s.step = 11;
	s.total = 100;
	statusline_add(&v, &b, 1, 20 * S, &s);
	assert_true(s.steps_s == 1 && s.eta_s == 89);
	s.step = 510;
	s.total = 600;
	statusline_add(&v, &b, 500, 20 * S, &s);
	assert_true(s.eta_s == 89);
}

static void test_frames(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	statusbar_frame(&b, 24, true, true, "text");
	assert_string_equal(buf_str(&b), "\033D\0337\033[1;23r\0338\033[A"
					 "\0337\033[1;23r\033[24;1H\033[0m\033[2K\033[7mtext\033[0m"
					 "\0338");
	buf_reset(&b);
	statusbar_frame(&b, 10, false, false, "text");
	assert_string_equal(buf_str(&b), "\0337\033[1;9r\033[10;1H\033[0m\033[2Ktext\0338");
	buf_reset(&b);
	statusbar_unframe(&b, 10);
	assert_string_equal(buf_str(&b), "\0337\033[r\033[10;1H\033[2K\0338");
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_fields),   cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_little_known), cmocka_unit_test(test_speed),
		cmocka_unit_test(test_slow_steps),   cmocka_unit_test(test_first_step),
		cmocka_unit_test(test_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

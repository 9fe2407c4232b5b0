/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - a program that the browser tests watch: hostile names of everything that has
 * a name, or steps until it is ended.
 *
 *     browser-trainer hostile           record once and end
 *     browser-trainer live PERIOD_MS    a step and a loss each period until it is killed
 *     browser-trainer stall PERIOD_MS   20 such steps, then it hangs
 *     browser-trainer clock PERIOD_MS   each period the time, in ms modulo 90 s, as a gauge
 */
#include <lapse/lapse.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRAINER_LONG 10000

static const char *const trainer_hostile[] = {
	"<script>document.title='owned'</script>",
	"<img src=x onerror=\"document.title='owned'\">",
	"\"><svg onload=document.title='owned'>",
	"javascript:document.title='owned'",
	"\xe2\x80\xae"
	"drowkcab \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", /* right to left */
	"a{b=\"c\",d=*}/[?]&series=x#y%00",
	"'; DROP TABLE runs; --",
	"\xf0\x9f\x98\x80\xf0\x9f\x98\x80 \xcc\x81\xcc\x81\xcc\x81\xcc\x81",
};

static void trainer_wait(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static void trainer_record(const char *text, const char *longest, int64_t step)
{
	const char *labels[] = {"label", text, NULL};

	lapse_set(lapse_gauge(text, text, text, NULL), (double)step);
	lapse_set(lapse_gauge("labelled", "1", NULL, labels), (double)step);
	lapse_add(lapse_counter(text, "1", longest, labels), 1);
	lapse_event(LAPSE_WARNING, text, text, "{\"key\": \"<b>value</b>\"}");
	lapse_attr(text, longest);
}

static int trainer_hostile_run(void)
{
	static char longest[TRAINER_LONG + 1];
	size_t i;
	int64_t step;

	memset(longest, 'W', TRAINER_LONG);
	for (step = 0; step < 20; step++) {
		lapse_step_begin(step);
		lapse_set(lapse_gauge("loss", "nat", NULL, NULL), 1.0 / (double)(step + 1));
		for (i = 0; i < sizeof(trainer_hostile) / sizeof(*trainer_hostile); i++) {
			struct lapse_span s = lapse_span_begin(lapse_name(trainer_hostile[i]));

			trainer_record(trainer_hostile[i], longest, step);
			lapse_span_end(s);
		}
		lapse_step_end(1, 1);
		trainer_wait(5);
	}
	lapse_event(LAPSE_ERROR, "long", longest, NULL);
	return 0;
}

static __attribute__((noreturn)) int trainer_live(long period_ms, int64_t steps)
{
	struct lapse_metric loss = lapse_gauge("loss", "nat", "training loss", NULL);
	int64_t step;

	lapse_attr("total_steps", "100000");
	for (step = 0; step < steps; step++) {
		lapse_step_begin(step);
		trainer_wait(period_ms);
		lapse_set(loss, 2 + sin((double)step / 10));
		lapse_step_end(32, 1024);
	}
	for (;;)
		pause();
}

static __attribute__((noreturn)) int trainer_clock(long period_ms)
{
	struct lapse_metric now = lapse_gauge("clock", "", "when it was recorded", NULL);
	struct timespec t;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &t);
		lapse_set(now, (double)((t.tv_sec * 1000 + t.tv_nsec / 1000000) % 90000));
		trainer_wait(period_ms);
	}
}

int main(int argc, char **argv)
{
	lapse_open(NULL);
	if (argc == 2 && !strcmp(argv[1], "hostile"))
		return trainer_hostile_run();
	if (argc == 3 && !strcmp(argv[1], "live"))
		return trainer_live(atol(argv[2]), INT64_MAX);
	if (argc == 3 && !strcmp(argv[1], "stall"))
		return trainer_live(atol(argv[2]), 20);
	if (argc == 3 && !strcmp(argv[1], "clock"))
		return trainer_clock(atol(argv[2]));
	fprintf(stderr, "usage: browser-trainer hostile | live PERIOD_MS | stall PERIOD_MS | clock "
			"PERIOD_MS\n");
	return 2;
}

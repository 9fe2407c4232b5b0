/* SPDX-License-Identifier: Apache-2.0
 *
 * sick.c - a trainer for the end-to-end tests of alerts: sick WHAT [SECONDS]. 40 steps of
 * 20 ms with a loss; then what WHAT says: healthy, nan, stall (SECONDS without a step, then
 * some more; SIGUSR1 ends it earlier), evaluation (the same within a span), exit (status 3),
 * broken (NaN to the end), duel (a loss of two that play against each other).
 */
#include <lapse/lapse.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void wake(int sig)
{
	(void)sig;
}

static void pause_s(double s)
{
	struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

	nanosleep(&t, NULL);
}

static const char *name = "loss";

static void train(int from, int to, double value)
{
	static struct lapse_metric loss;
	int i;

	if (!from)
		loss = lapse_gauge(name, "nat", NULL, NULL);
	for (i = from; i < to; i++) {
		lapse_step_begin(i);
		pause_s(0.02);
		lapse_set(loss, value);
		lapse_step_end(-1, -1);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "healthy";
	double seconds = argc > 2 ? atof(argv[2]) : 3;
	struct lapse_span span;

	signal(SIGUSR1, wake);
	if (lapse_open(NULL) < 0) {
		fprintf(stderr, "sick: %s\n", lapse_error());
		return 1;
	}
	if (strcmp(what, "duel") == 0)
		name = "d_loss";
	train(0, 40, 2);
	if (strcmp(what, "nan") == 0)
		train(40, 60, NAN);
	if (strcmp(what, "stall") == 0)
		pause_s(seconds);
	if (strcmp(what, "evaluation") == 0) {
		span = lapse_span_begin(lapse_name("evaluation"));
		pause_s(seconds);
		lapse_span_end(span);
	}
	train(60, 100, strcmp(what, "broken") == 0 ? NAN : 2);
	if (strcmp(what, "exit") == 0)
		exit(3);
	lapse_close();
	return 0;
}

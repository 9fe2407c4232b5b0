/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c - a client's whole life, to be watched by valgrind: every kind of
 * record, threads, a fork, signals, closing and opening again. Runs without an
 * agent, in a rendezvous folder of its own.
 */
#include <lapse/lapse.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENT_THREADS 4
#define CLIENT_STEPS 200

static struct lapse_metric loss, tokens, latency;

static void client_expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "client: %s; lapse_error(): \"%s\"\n", what, lapse_error());
	exit(1);
}

static void client_define(void)
{
	static const char *const labels[] = {"layer", "3", "part", "attention", NULL};

	loss = lapse_gauge("loss", "nat", "training loss", labels);
	tokens = lapse_counter("tokens", "1", "tokens seen", NULL);
	latency = lapse_histogram("latency", "s", NULL, NULL);
	client_expect(loss.id && tokens.id && latency.id, "a metric was refused");
}

static void client_step(int64_t step)
{
	struct lapse_value frame[20];
	size_t i;

	lapse_step_begin(step);
	{
		LAPSE_SCOPE("forward");
		lapse_set(loss, 1.0 / (double)(step + 1));
		lapse_add(tokens, 512);
	}
	for (i = 0; i < 20; i++)
		frame[i] = (struct lapse_value){(double)i, i % 2 ? loss : tokens};
	lapse_log(frame, 20);
	lapse_observe(latency, 0.001 * (double)step);
	lapse_set_at(loss, (double)NAN, step - 1, LAPSE_NOW);
	lapse_span_at(lapse_name("kernel"), lapse_now(), lapse_now() + 1000, LAPSE_STEP_CURRENT);
	lapse_step_end(32, 16384);
}

static void client_life(int64_t from)
{
	char text[LAPSE_TEXT_MAX + 100];
	int64_t step;

	memset(text, 't', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	lapse_epoch_begin(0);
	for (step = from; step < from + CLIENT_STEPS; step++)
		client_step(step);
	lapse_epoch_end();
	lapse_attr("optimizer", "adamw");
	lapse_event(LAPSE_INFO, "checkpoint", "written", "{\"bytes\": 12}");
	lapse_event(LAPSE_WARNING, "long", text, NULL); /* is cut */
	lapse_set_rank(0, 0, 1);
	lapse_heartbeat();
}

static void *client_thread(void *arg)
{
	struct lapse_span span = lapse_span_begin(lapse_name("thread"));
	int i;

	(void)arg;
	for (i = 0; i < 1000; i++)
		lapse_set(loss, i);
	lapse_span_end(span);
	return NULL;
}

static void client_handler(int sig)
{
	(void)sig;
	lapse_set(loss, 2);
}

static void client_threads(void)
{
	pthread_t threads[CLIENT_THREADS];
	int i;

	for (i = 0; i < CLIENT_THREADS; i++)
		client_expect(pthread_create(&threads[i], NULL, client_thread, NULL) == 0,
			      "no thread");
	for (i = 0; i < CLIENT_THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void client_fork(void)
{
	int status;
	pid_t pid = fork();

	client_expect(pid >= 0, "no fork");
	if (pid == 0) {
		client_life(5000);
		exit(0); /* through atexit, as a worker does */
	}
	client_expect(waitpid(pid, &status, 0) == pid && status == 0, "the child failed");
}

static void client_remove(const char *folder)
{
	char command[512];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (system(command) != 0)
		fprintf(stderr, "client: %s is left behind\n", folder);
}

int main(void)
{
	struct lapse_options options = {.size = sizeof(options), .name = "client", .lanes = 8};
	char folder[] = "/dev/shm/lapse-client-XXXXXX";
	struct lapse_stats stats;

	lapse_set(loss, 1); /* before anything: does nothing */
	if (!mkdtemp(folder)) {
		printf("skipped: no /dev/shm: %s\n", strerror(errno));
		return 77;
	}
	setenv("LAPSE_RENDEZVOUS", folder, 1);
	signal(SIGUSR1, client_handler);
	client_expect(lapse_open(&options) == 0, "cannot open");
	client_define();
	client_life(0);
	client_threads();
	raise(SIGUSR1);
	client_fork();
	lapse_stats(&stats);
	client_expect(stats.attempts == stats.accepted + stats.dropped && stats.accepted > 5000,
		      "the counts do not add up");
	lapse_close();
	lapse_set(loss, 3);
	client_expect(lapse_open(NULL) == 0, "cannot open again");
	client_life(1000);
	lapse_close();
	client_remove(folder);
	return 0;
}

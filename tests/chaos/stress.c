/* SPDX-License-Identifier: Apache-2.0
 *
 * stress - a program that records as fast as it is told to and counts, in a file
 * of its own (calls.h), each call that has returned. Ends on SIGTERM, after
 * --seconds, or when it is killed.
 */
#include <lapse/lapse.h>

#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STRESS_BATCH_NS 1000000 /* between batches when paced */
#define STRESS_FULL_BATCH 256   /* calls between two looks at the clock */
#define STRESS_HANDLER_US 500   /* between signals */

static struct {
	unsigned threads, children;
	double rate; /* calls a second and thread; 0: no pauses */
	double seconds;
	bool handler, leave, start_agent;
} opt = {.threads = 1};

static struct calls *calls;
static struct calls_process *self;
static struct lapse_metric seq[CALLS_SLOTS], frame[CALLS_SLOTS][3];
static struct lapse_name at_name[CALLS_SLOTS], hot_name[CALLS_SLOTS];
static size_t kinds;
static volatile sig_atomic_t stopped;

static int64_t stress_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void stress_on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

static bool stress_goes_on(void)
{
	return !stopped && !__atomic_load_n(&calls->stop, __ATOMIC_RELAXED);
}

/* One call that records; then it is counted. */
static void stress_call(struct calls_slot *slot, unsigned who)
{
	uint64_t i = slot->returned;
	struct lapse_value v[3] = {
		{(double)i, frame[who][0]}, {(double)i, frame[who][1]}, {(double)i, frame[who][2]}};
	int64_t now;

	switch (calls->kinds[i % kinds]) {
	case CALLS_FRAME:
		lapse_log(v, 3);
		break;
	case CALLS_SPAN:
		now = lapse_now();
		lapse_span_at(at_name[who], now, now + (int64_t)i, LAPSE_STEP_CURRENT);
		break;
	case CALLS_HOT:
		lapse_span_end(lapse_span_begin(hot_name[who]));
		break;
	case CALLS_STEP:
		if (who == 0) {
			lapse_step_begin((int64_t)i);
			lapse_step_end(-1, -1);
			break;
		}
		/* fallthrough */
	default:
		lapse_set(seq[who], (double)i);
	}
	/* A store that the compiler may not move over the call, nor may the
	 * processor on any machine that orders stores. */
	__atomic_store_n(&slot->returned, i + 1, __ATOMIC_RELEASE);
}

/* The handler interrupts calls of the first thread, so it is its own sequence. */
static void stress_on_alarm(int sig)
{
	(void)sig;
	stress_call(&self->slot[CALLS_HANDLER], CALLS_HANDLER);
}

static void stress_batch(struct calls_slot *slot, unsigned who, uint64_t n)
{
	int64_t begin = stress_now(), took;

	for (; n > 0; n--)
		stress_call(slot, who);
	took = stress_now() - begin;
	if ((uint64_t)took > slot->worst_ns)
		slot->worst_ns = (uint64_t)took;
}

static void stress_record(unsigned who)
{
	struct calls_slot *slot = &self->slot[who];
	struct timespec pause = {0, STRESS_BATCH_NS};
	/* What a stopped or crowded machine missed beyond this is not made up for. */
	double due, most = opt.rate > 100 ? opt.rate * 0.01 : 1;
	int64_t begin = stress_now();

	while (stress_goes_on()) {
		if (opt.rate == 0) {
			stress_batch(slot, who, STRESS_FULL_BATCH);
			continue;
		}
		due = (double)(stress_now() - begin) * 1e-9 * opt.rate - (double)slot->returned;
		if (due > most) {
			begin += (int64_t)((due - most) / opt.rate * 1e9);
			due = most;
		}
		if (due >= 1)
			stress_batch(slot, who, (uint64_t)due);
		nanosleep(&pause, NULL);
	}
}

static void *stress_thread(void *who)
{
	sigset_t alarm_only;

	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	if (opt.handler && (uintptr_t)who == 0) {
		stress_batch(&self->slot[0], 0, 1);
		pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
	}
	stress_record((unsigned)(uintptr_t)who);
	if (opt.handler && (uintptr_t)who == 0)
		pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
	return NULL;
}

static void stress_define(void)
{
	char label[2] = "", name[16];
	const char *const labels[] = {"thread", label, NULL};
	unsigned who, k;

	for (who = 0; who < CALLS_SLOTS; who++) {
		label[0] = (char)('0' + who);
		seq[who] = lapse_gauge("seq", "1", "number of the call", labels);
		for (k = 0; k < 3; k++) {
			snprintf(name, sizeof(name), "f%u", k);
			frame[who][k] = lapse_gauge(name, "1", "number of the call", labels);
		}
		snprintf(name, sizeof(name), "at/%u", who);
		at_name[who] = lapse_name(name);
		snprintf(name, sizeof(name), "hot/%u", who);
		hot_name[who] = lapse_name(name);
	}
}

static void stress_begin_process(unsigned threads)
{
	uint64_t n = __atomic_fetch_add(&calls->processes, 1, __ATOMIC_SEQ_CST);
	unsigned i;

	if (n >= CALLS_PROCESSES)
		_exit(1);
	self = &calls->process[n];
	for (i = 0; i < threads; i++)
		self->slot[i].used = 1;
	__atomic_store_n(&self->state, CALLS_RUNS, __ATOMIC_SEQ_CST);
	__atomic_store_n(&self->pid, (uint64_t)getpid(), __ATOMIC_SEQ_CST);
}

static void stress_end_process(void)
{
	lapse_close();
	__atomic_store_n(&self->state, CALLS_CLOSED, __ATOMIC_SEQ_CST);
}

static _Noreturn void stress_child(void)
{
	stress_begin_process(1);
	stress_record(0);
	stress_end_process();
	_exit(0);
}

static void stress_fork(void)
{
	struct timespec pause = {0, 5000000};
	unsigned i;

	for (i = 0; i < opt.children; i++) {
		nanosleep(&pause, NULL);
		if (fork() == 0)
			stress_child();
	}
}

static void stress_signals(void)
{
	struct sigaction term = {.sa_handler = stress_on_term};
	struct sigaction again = {.sa_handler = stress_on_alarm, .sa_flags = SA_RESTART};
	sigset_t alarm_only;

	sigaction(SIGTERM, &term, NULL);
	sigaction(SIGALRM, &again, NULL);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
}

static void stress_wait(void)
{
	struct timespec pause = {0, 2000000};
	int64_t until = stress_now() + (int64_t)(opt.seconds * 1e9);

	while (stress_goes_on() && (opt.seconds == 0 || stress_now() < until))
		nanosleep(&pause, NULL);
	__atomic_store_n(&calls->stop, 1, __ATOMIC_SEQ_CST);
}

static void stress_run(void)
{
	struct itimerval timer = {{0, STRESS_HANDLER_US}, {0, STRESS_HANDLER_US}},
			 off = {{0, 0}, {0, 0}};
	pthread_t thread[CALLS_HANDLER];
	unsigned i;

	if (opt.handler)
		self->slot[CALLS_HANDLER].used = 1;
	for (i = 0; i < opt.threads; i++)
		pthread_create(&thread[i], NULL, stress_thread, (void *)(uintptr_t)i);
	if (opt.handler)
		setitimer(ITIMER_REAL, &timer, NULL);
	stress_fork();
	stress_wait();
	for (i = 0; i < opt.threads; i++)
		pthread_join(thread[i], NULL);
	setitimer(ITIMER_REAL, &off, NULL);
	stress_end_process();
	while (!opt.leave && wait(NULL) > 0)
		;
}

static int stress_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(*calls)) < 0)
		return -errno;
	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return calls == MAP_FAILED ? -errno : 0;
}

static const char *stress_options(int argc, char **argv)
{
	static const struct option rows[] = {{"threads", required_argument, NULL, 't'},
					     {"rate", required_argument, NULL, 'r'},
					     {"kinds", required_argument, NULL, 'k'},
					     {"children", required_argument, NULL, 'c'},
					     {"seconds", required_argument, NULL, 's'},
					     {"handler", no_argument, NULL, 'a'},
					     {"leave", no_argument, NULL, 'l'},
					     {"start-agent", no_argument, NULL, 'g'},
					     {NULL, 0, NULL, 0}};
	const char *list = "s";
	int c;

	while ((c = getopt_long(argc, argv, "", rows, NULL)) != -1) {
		if (c == 't')
			opt.threads = (unsigned)atoi(optarg);
		else if (c == 'r')
			opt.rate = atof(optarg);
		else if (c == 'k')
			list = optarg;
		else if (c == 'c')
			opt.children = (unsigned)atoi(optarg);
		else if (c == 's')
			opt.seconds = atof(optarg);
		else if (c == 'a')
			opt.handler = true;
		else if (c == 'l')
			opt.leave = true;
		else if (c == 'g')
			opt.start_agent = true;
		else
			return NULL;
	}
	if (optind + 1 != argc || opt.threads < 1 || opt.threads > CALLS_HANDLER ||
	    opt.children >= CALLS_PROCESSES || strlen(list) < 1 ||
	    strlen(list) >= sizeof(calls->kinds) || strspn(list, "sfaht") != strlen(list))
		return NULL;
	return list;
}

int main(int argc, char **argv)
{
	struct lapse_options o = {.size = sizeof(o), .name = "stress"};
	const char *list = stress_options(argc, argv);

	if (!list) {
		fprintf(stderr,
			"usage: stress [--threads 1..3] [--rate CALLS_A_SECOND] [--kinds sfaht]\n"
			"              [--children 0..7] [--seconds S] [--handler] [--leave]\n"
			"              [--start-agent] FILE\n"
			"FILE counts the calls that have returned (calls.h).\n");
		return 2;
	}
	if (stress_map(argv[optind]) < 0) {
		perror(argv[optind]);
		return 1;
	}
	strcpy(calls->kinds, list);
	kinds = strlen(list);
	stress_signals();
	o.start_agent = opt.start_agent;
	if (lapse_open(&o) < 0)
		fprintf(stderr, "stress: not recorded: %s\n", lapse_error());
	stress_define();
	stress_begin_process(opt.threads);
	__atomic_store_n(&calls->magic, CALLS_MAGIC, __ATOMIC_SEQ_CST);
	stress_run();
	return lapse_is_open() || lapse_error()[0] ? 3 : 0;
}

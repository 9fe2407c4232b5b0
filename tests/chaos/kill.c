/* SPDX-License-Identifier: Apache-2.0
 *
 * kill ROUNDS SEED [-j N] [-r ROUND] - the kill test: in each round a program
 * records under `lapse run`, and trainer, launcher, agent or several of them are
 * killed at a random moment. Nothing that was accepted may be lost, doubled or
 * out of order. A failure names seed and round: `kill 1 SEED -r ROUND` plays it
 * again. The program is $LAPSE_BIN; stress lies beside this one.
 */
#include "round.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILL_JOBS_MAX 64
#define KILL_ROUND_S 170 /* a round that takes longer has failed */
#define KILL_TEXT_MAX (1u << 20)

/* Shared by all rounds. */
struct kill_totals {
	atomic_ullong returned, stored, dropped, overwritten, in_flight, began;
};

static struct kill_totals *totals;
static unsigned rounds, passed, failed, jobs = 2, first;
static uint64_t seed;
static char stress[4096];
static const char *lapse;

static void kill_say(unsigned number, const struct round_plan *p, const char *problems)
{
	struct buf text;

	buf_init(&text, KILL_TEXT_MAX);
	buf_printf(&text, "FAILED: seed %" PRIu64 " round %u: ", seed, number);
	round_describe(p, &text);
	buf_printf(&text, "\n%s", problems);
	fprintf(stderr, "%s%s", isatty(STDERR_FILENO) ? "\r" : "", buf_str(&text));
	buf_done(&text);
}

/* In a process of its own. */
static int kill_round(unsigned number)
{
	struct round_figures f;
	struct round_plan plan;
	struct buf problems;
	char name[64];

	/* Without a handler: the round ends and counts as failed. */
	alarm(KILL_ROUND_S);
	buf_init(&problems, KILL_TEXT_MAX);
	round_draw(seed, number, &plan);
	snprintf(name, sizeof(name), "%d-%" PRIu64 "-%u", (int)getppid(), seed, number);
	round_play(&plan, lapse, stress, name, &f, &problems);
	atomic_fetch_add(&totals->returned, f.returned);
	atomic_fetch_add(&totals->stored, f.stored);
	atomic_fetch_add(&totals->dropped, f.dropped);
	atomic_fetch_add(&totals->overwritten, f.overwritten);
	atomic_fetch_add(&totals->in_flight, f.in_flight);
	atomic_fetch_add(&totals->began, f.began);
	if (problems.len == 0)
		return 0;
	kill_say(number, &plan, buf_str(&problems));
	return 1;
}

static void kill_one_ended(void)
{
	int status;
	pid_t pid = waitpid(-1, &status, 0);

	if (pid <= 0)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		passed++;
	} else {
		failed++;
		if (WIFSIGNALED(status))
			fprintf(stderr, "FAILED: seed %" PRIu64 ": a round died of signal %d\n",
				seed, WTERMSIG(status));
	}
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%u of %u rounds, %u failed ", passed + failed, rounds, failed);
}

static void kill_all_rounds(void)
{
	unsigned i, running = 0;
	pid_t pid;

	for (i = 0; i < rounds; i++) {
		if (running == jobs) {
			kill_one_ended();
			running--;
		}
		pid = fork();
		if (pid == 0)
			_exit(kill_round(first + i));
		if (pid < 0)
			failed++;
		else
			running++;
	}
	for (; running > 0; running--)
		kill_one_ended();
}

static bool kill_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "j:r:")) != -1) {
		if (c == 'j')
			jobs = (unsigned)atoi(optarg);
		else if (c == 'r')
			first = (unsigned)atoi(optarg);
		else
			return false;
	}
	if (optind + 2 != argc || jobs < 1 || jobs > KILL_JOBS_MAX)
		return false;
	rounds = (unsigned)atoi(argv[optind]);
	seed = strtoull(argv[optind + 1], NULL, 10);
	return rounds > 0;
}

int main(int argc, char **argv)
{
	char self[4000];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	lapse = getenv("LAPSE_BIN");
	if (!kill_options(argc, argv) || !lapse || n <= 0) {
		fprintf(stderr, "usage: LAPSE_BIN=PROGRAM kill ROUNDS SEED [-j N] [-r ROUND]\n");
		return 2;
	}
	self[n] = '\0';
	snprintf(stress, sizeof(stress), "%s/stress", dirname(self));
	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (totals == MAP_FAILED)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	kill_all_rounds();
	if (isatty(STDERR_FILENO))
		fputc('\n', stderr);
	printf("%llu of %u programs began; %llu calls returned; stored %llu, dropped %llu, "
	       "overwritten %llu; %llu of them stored before the call returned\n",
	       atomic_load(&totals->began), rounds, atomic_load(&totals->returned),
	       atomic_load(&totals->stored), atomic_load(&totals->dropped),
	       atomic_load(&totals->overwritten), atomic_load(&totals->in_flight));
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? 1 : 0;
}

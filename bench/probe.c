/* SPDX-License-Identifier: Apache-2.0
 *
 * probe.c - what one round of readings costs: the machine and a run of 20 processes,
 * with at least 300 processes on the machine, beside the bare system calls (the files of
 * the system and five of each process, kept open, read and not looked at). Then how
 * CPUs and GPUs scale: a made-up /proc of 128 CPUs; 64 GPUs of the tests' NVML if
 * LAPSE_NVML names it.
 *
 * Rounds are read as fast as possible, each a second after the last for the readers, so
 * that what is read every ten seconds is in every tenth round.
 */
#include "bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/groups.h"
#include "probe/runner.h"
#include "probe/linux/tree.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#define PROBE_MACHINE 300
#define PROBE_TREE_OF 20
#define PROBE_ROUNDS 120
#define PROBE_CPUS 128
#define PROBE_SECOND 1000000000

static const char *const bare_files[] = {
	"/proc/stat",        "/proc/meminfo",         "/proc/vmstat",         "/proc/loadavg",
	"/proc/diskstats",   "/proc/net/dev",         "/proc/net/snmp",       "/proc/pressure/cpu",
	"/proc/pressure/io", "/proc/pressure/memory", "/proc/sys/fs/file-nr",
};
static const char *const bare_of_process[] = {"stat", "statm", "status", "io", "schedstat"};

/* ---- processes ----------------------------------------------------------------------- */

static pid_t probe_sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return pid;
}

/* A process with n - 1 children. */
static pid_t probe_family(int n)
{
	pid_t pid = fork();
	int i;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (i = 1; i < n; i++)
			probe_sleeper();
		pause();
		_exit(0);
	}
	return pid;
}

static int probe_processes(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	if (d)
		closedir(d);
	return n;
}

/* ---- the bare calls ---------------------------------------------------------------------- */

struct probe_bare {
	int fds[512], n;
};

static void probe_bare_add(struct probe_bare *b, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && b->n < 512)
		b->fds[b->n++] = fd;
}

static void probe_bare_open(struct probe_bare *b, const struct probe_tree *t)
{
	char path[64];
	size_t i, k;

	b->n = 0;
	for (i = 0; i < sizeof(bare_files) / sizeof(bare_files[0]); i++)
		probe_bare_add(b, bare_files[i]);
	for (i = 0; i < t->len; i++)
		for (k = 0; k < sizeof(bare_of_process) / sizeof(bare_of_process[0]); k++) {
			snprintf(path, sizeof(path), "/proc/%ld/%s", t->procs[i].pid,
				 bare_of_process[k]);
			probe_bare_add(b, path);
		}
}

static void probe_bare_read(const struct probe_bare *b)
{
	static char text[65536];
	int i;

	for (i = 0; i < b->n; i++)
		if (pread(b->fds[i], text, sizeof(text), 0) < 0)
			continue;
}

/* ---- rounds -------------------------------------------------------------------------------- */

static double probe_thread_cpu(void)
{
	return (double)clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1e9;
}

static void probe_print_group(void *arg, const struct runner_group *g)
{
	char name[96];

	(void)arg;
	if (!g->open || !g->readings)
		return;
	snprintf(name, sizeof(name), "probe: a reading of %s (every %g s), CPU", g->group->name,
		 (double)g->period_ns / 1e9);
	bench_print(name, g->cpu_s * 1e6, "us", NULL, 0, BENCH_NONE, 0);
}

static void probe_rounds(struct runner *machine, struct runner *run, const struct probe_tree *tree)
{
	static const struct probe_taker nobody;
	double ours[PROBE_ROUNDS], wall[PROBE_ROUNDS], bare[PROBE_ROUNDS], begin, mean = 0;
	struct probe_now now = {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_BOOTTIME)};
	static struct probe_bare b;
	int i;

	for (i = 0; i < PROBE_ROUNDS; i++) {
		now.mono_ns += PROBE_SECOND;
		now.boot_ns += PROBE_SECOND;
		if (i == 1)
			probe_bare_open(&b, tree);
		wall[i] = bench_now();
		begin = probe_thread_cpu();
		runner_tick(machine, &now);
		runner_tick(run, &now);
		ours[i] = probe_thread_cpu() - begin;
		wall[i] = bench_now() - wall[i];
		runner_take(machine, &nobody);
		runner_take(run, &nobody);
		begin = probe_thread_cpu();
		probe_bare_read(&b);
		bare[i] = probe_thread_cpu() - begin;
		if (i)
			mean += ours[i] / (PROBE_ROUNDS - 1);
	}
	bench_print("probe: a round, 20 processes of 300, median CPU",
		    bench_median(ours + 1, PROBE_ROUNDS - 1) * 1e3, "ms", "bare reads",
		    bench_median(bare + 1, PROBE_ROUNDS - 1) * 1e3, BENCH_VALUE_MAX, 2);
	bench_print("probe: a round, mean CPU", mean * 1e3, "ms", NULL, 0, BENCH_VALUE_MAX, 2);
	bench_print("probe: a round, median", bench_median(wall + 1, PROBE_ROUNDS - 1) * 1e3, "ms",
		    NULL, 0, BENCH_VALUE_MAX, 2);
	bench_print("probe: a round, the longest of 119", wall[PROBE_ROUNDS - 1] * 1e3, "ms", NULL,
		    0, BENCH_NONE, 0);
}

/* ---- scale ---------------------------------------------------------------------------------- */

/* One group alone, read n times a second apart; seconds of CPU of a reading, median. */
static double probe_one(const struct probe_group *g, const char *root, int n)
{
	struct probe_env env = {.root = root};
	struct probe_now now = {PROBE_SECOND, PROBE_SECOND};
	struct probe_set *s = probe_set_new();
	static const struct probe_taker nobody;
	double cost[64], begin;
	void *state;
	int i;

	if (!s || g->open(&env, s, &state, NULL) < 0) {
		probe_set_free(s);
		return -1;
	}
	for (i = 0; i < n; i++) {
		now.mono_ns += PROBE_SECOND;
		now.boot_ns += PROBE_SECOND;
		begin = probe_thread_cpu();
		probe_set_begin(s, &now);
		g->read(state, s, &now);
		probe_set_end(s);
		cost[i] = probe_thread_cpu() - begin;
		probe_set_take(s, &nobody);
	}
	g->close(state);
	probe_set_free(s);
	return bench_median(cost + 1, n - 1);
}

static void probe_many_cpus(void)
{
	char root[] = "/tmp/lapse-bench-XXXXXX", path[64];
	double cost;
	FILE *f;
	int i;

	if (!mkdtemp(root))
		return;
	snprintf(path, sizeof(path), "%s/proc", root);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/proc/stat", root);
	f = fopen(path, "we");
	for (i = -1; f && i < PROBE_CPUS; i++) {
		fprintf(f, i < 0 ? "cpu " : "cpu%d", i);
		fprintf(f, " %d 3357 4313333 1362393%02d 88822 0 %d 17 0 0\n", 10132153 + i,
			i < 0 ? 0 : i % 100, 34512 + i);
	}
	if (f) {
		fprintf(f, "intr 114930548 113199788 3\nctxt 1990473\nbtime 1062191376\n"
			   "processes 2915\nprocs_running 1\nprocs_blocked 0\n");
		fclose(f);
	}
	cost = probe_one(&probe_cpu, root, 41);
	if (cost >= 0)
		bench_print("probe: CPU figures of 128 CPUs", cost * 1e6, "us", NULL, 0, BENCH_NONE,
			    0);
	unlink(path);
	snprintf(path, sizeof(path), "%s/proc", root);
	rmdir(path);
	rmdir(root);
}

static void probe_many_gpus(void)
{
	double cost = getenv("LAPSE_NVML") ? probe_one(&probe_nvidia, "", 41) : -1;

	if (cost >= 0)
		bench_print("probe: GPU figures by the NVML that LAPSE_NVML names", cost * 1e6,
			    "us", NULL, 0, BENCH_NONE, 0);
}

int main(void)
{
	struct probe_env env = {.root = ""};
	struct runner_pace pace = {0};
	struct runner *machine, *run;
	struct probe_tree tree;
	pid_t family = probe_family(PROBE_TREE_OF), sleeper = 0;
	int i, more = PROBE_MACHINE - probe_processes();

	for (i = 0; i < more; i++)
		sleeper = probe_sleeper();
	usleep(200000);
	if (probe_tree_init(&tree, "", family, rendezvous_start_time(family)) < 0 ||
	    runner_new(&env, &pace, &machine) < 0)
		return 1;
	env.pid = family;
	env.tree = &tree;
	if (runner_new(&env, &pace, &run) < 0)
		return 1;
	usleep(1500000); /* the threads read too */
	probe_rounds(machine, run, &tree);
	runner_each(machine, probe_print_group, NULL);
	runner_each(run, probe_print_group, NULL);
	runner_free(run);
	runner_free(machine);
	probe_tree_done(&tree);
	probe_many_cpus();
	probe_many_gpus();
	(void)sleeper;
	kill(family, SIGKILL);
	waitpid(family, NULL, 0);
	return 0;
}

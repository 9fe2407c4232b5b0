/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent can take: records a second from a full ring through decoding to
 * COMMIT, beside one row a sample into SQLite; then a real agent under a million
 * records a second for 20 s (BENCH_SECONDS): drops, CPU, bytes a sample.
 */
#include "agent/client.h"
#include "bench.h"
#include "store/store.h"
#include "wire/clock.h"

#include <lapse/lapse.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAPS 5
#define PEER_ROWS 500000

static char shm[] = "/dev/shm/bench-agent-XXXXXX";
static char disk[] = "/var/tmp/bench-agent-XXXXXX";
static unsigned char buf[WIRE_REC_SLOTS_MAX * WIRE_SLOT * 16] __attribute__((aligned(64)));

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench agent: %s: %s\n", what, why);
	exit(1);
}

static void rings_name(char out[256], int *ret_fd)
{
	char path[300];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/rings", shm);
	*ret_fd = open(path, O_RDONLY | O_DIRECTORY);
	d = opendir(path);
	out[0] = '\0';
	while (d && (e = readdir(d)))
		if (strstr(e->d_name, ".ring"))
			snprintf(out, 256, "%s", e->d_name);
	if (d)
		closedir(d);
	if (!out[0])
		die("rings", "no ring");
}

/* All that waits, in commits of at most a million records; records stored. */
static uint64_t drain_all(struct client *c, struct store *s)
{
	uint64_t before = c->reader.lane[0].stored;
	bool more = true;

	while (more) {
		if (client_drain(c, buf, sizeof(buf), 1u << 20, &more) < 0 ||
		    client_before_commit(c) < 0 || c->sink->ops->commit(c->sink) < 0)
			die("commit", store_error(s)->text);
		client_after_commit(c, 0);
	}
	return c->reader.lane[0].stored - before;
}

/* Peer: the same samples as rows of a table, one transaction, prepared. */
static double rows_per_s(void)
{
	sqlite3_stmt *st;
	char path[300];
	sqlite3 *db;
	double t;
	int i;

	snprintf(path, sizeof(path), "%s/rows.db", disk);
	if (sqlite3_open(path, &db) != SQLITE_OK ||
	    sqlite3_exec(db,
			 "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
			 "DROP TABLE IF EXISTS s; CREATE TABLE s(series, time, step, value);",
			 NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, "INSERT INTO s VALUES (?,?,?,?)", -1, &st, NULL) != SQLITE_OK)
		die("peer", sqlite3_errmsg(db));
	t = bench_now();
	sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
	for (i = 0; i < PEER_ROWS; i++) {
		sqlite3_bind_int(st, 1, 1);
		sqlite3_bind_int64(st, 2, 1700000000000000000 + i * 1000LL);
		sqlite3_bind_int(st, 3, i / 10);
		sqlite3_bind_double(st, 4, i * 0.1);
		sqlite3_step(st);
		sqlite3_reset(st);
	}
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	t = bench_now() - t;
	sqlite3_finalize(st);
	sqlite3_close(db);
	return PEER_ROWS / t;
}

static void bench_commit(void)
{
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 140u << 20, .lanes = 1};
	struct client_epoch epoch = {clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_BOOTTIME)};
	struct store_options so = {.dir = disk, .host = "bench"};
	double rate[LAPS], rows[LAPS], fold[LAPS], t;
	struct lapse_metric m[4];
	struct store *store;
	struct client *c;
	struct err e = {0};
	char ring[256], why[128];
	uint64_t n;
	int fd, i, lap;

	if (lapse_open(&o) < 0)
		die("lapse_open", lapse_error());
	m[0] = lapse_gauge("a", "1", "", NULL);
	m[1] = lapse_gauge("b", "1", "", NULL);
	m[2] = lapse_gauge("c", "1", "", NULL);
	m[3] = lapse_counter("d", "1", "", NULL);
	rings_name(ring, &fd);
	if (store_open(&so, &e, &store) < 0)
		die("store", e.text);
	if (client_open(&c, fd, ring, &epoch, store_sink(store), why) < 0)
		die("client", why);
	for (lap = 0; lap < LAPS; lap++) {
		for (i = 0; i < 4000000; i++)
			lapse_set(m[i & 3], (double)(i >> 2) * 0.001);
		t = bench_now();
		n = drain_all(c, store);
		rate[lap] = (double)n / (bench_now() - t);
		t = bench_now();
		if (store_fold(store, true, &e) < 0)
			die("fold", e.text);
		fold[lap] = (double)n / (bench_now() - t);
		rows[lap] = rows_per_s();
	}
	bench_print("agent/ring-to-commit", bench_median(rate, LAPS), "records/s", "SQLite rows",
		    bench_median(rows, LAPS), BENCH_VALUE_MIN, 5e6);
	bench_print("agent/fold", bench_median(fold, LAPS), "samples/s", NULL, 0, BENCH_NONE, 0);
	client_free(c);
	store_close(store, &e);
	lapse_close();
}

/* ---- a real agent under load --------------------------------------------------------------- */

static pid_t start_agent(const char *self)
{
	char lapse[4096];
	pid_t pid;

	snprintf(lapse, sizeof(lapse), "%.*s/../lapse", (int)(strrchr(self, '/') - self), self);
	pid = fork();
	if (pid == 0) {
		execl(lapse, "lapse", "agent", "--rendezvous", shm, (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* CPU seconds of a process. */
static double cpu_of(pid_t pid)
{
	struct timespec t;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &t) < 0)
		return 0;
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Bytes that a process gave to write(). */
static double written_by(pid_t pid)
{
	char path[64], line[128];
	unsigned long long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "wchar: %llu", &n) == 1)
			break;
	if (f)
		fclose(f);
	return (double)n;
}

/* A million records a second: 1,000 each millisecond, late ones made up for. */
static uint64_t train_flat_out(double seconds)
{
	struct lapse_metric loss = lapse_gauge("loss", "nat", "", NULL);
	struct lapse_metric norm = lapse_gauge("norm", "1", "", NULL);
	uint64_t n = 0;
	double t0, due;
	int i;

	for (t0 = bench_now(); (due = bench_now() - t0) < seconds;) {
		for (; n < (uint64_t)(due * 1e6); n += 1000) {
			lapse_step_begin((int64_t)(n / 1000));
			for (i = 0; i < 500; i++) {
				lapse_set(loss, 2.0 + (double)((n + (unsigned)i) % 977) * 0.001);
				lapse_set(norm, 1.0);
			}
		}
		usleep(500);
	}
	return n;
}

/* A usual loop: 50 steps a second, 20 metrics in a frame and 5 spans a step. */
static uint64_t train_usual(double seconds)
{
	struct lapse_value v[20];
	char name[32];
	double t0 = bench_now();
	int i, step;

	for (i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "metric/%d", i);
		v[i].metric = lapse_gauge(name, "1", "", NULL);
	}
	for (step = 0; bench_now() - t0 < seconds; step++) {
		lapse_step_begin(step);
		for (i = 0; i < 5; i++) {
			snprintf(name, sizeof(name), "phase/%d", i);
			struct lapse_span s = lapse_span_begin(lapse_name(name));

			usleep(3500);
			lapse_span_end(s);
		}
		for (i = 0; i < 20; i++)
			v[i].value = (float)rand() / (float)RAND_MAX;
		lapse_log(v, 20);
		lapse_step_end(32, 32768);
	}
	/* Samples: 20 values, 5 spans, the step's own span and two counters. */
	return (uint64_t)step * 28;
}

struct trained {
	struct lapse_stats stats;
	uint64_t samples;
};

static void trainer(uint64_t (*train)(double seconds), double seconds, int out)
{
	struct trained t;

	if (lapse_open(NULL) < 0)
		_exit(1);
	t.samples = train(seconds);
	lapse_close();
	lapse_stats(&t.stats);
	if (write(out, &t, sizeof(t)) != sizeof(t))
		_exit(1);
	_exit(0);
}

static int64_t folder_bytes(const char *root)
{
	char command[400];
	long long bytes = 0;
	FILE *p;

	snprintf(command, sizeof(command), "du -sb '%s' | cut -f1", root);
	p = popen(command, "r");
	if (!p || fscanf(p, "%lld", &bytes) != 1)
		bytes = -1;
	if (p)
		pclose(p);
	return bytes;
}

/* One trainer under a real agent, until its run is folded and closed. */
static void run_agent(const char *self, const char *name, uint64_t (*train)(double), double seconds,
		      struct trained *ret)
{
	double cpu, written, bytes = -1;
	pid_t agent, child;
	char runs[300], text[64];
	int out[2], i;

	snprintf(runs, sizeof(runs), "%s/%s", disk, name);
	setenv("LAPSE_DIR", runs, 1);
	agent = start_agent(self);
	usleep(300000);
	if (pipe(out) < 0)
		die("pipe", "failed");
	child = fork();
	if (child == 0)
		trainer(train, seconds, out[1]);
	if (read(out[0], ret, sizeof(*ret)) != sizeof(*ret))
		die("trainer", "no figures");
	waitpid(child, NULL, 0);
	for (i = 0; i < 100 && (double)folder_bytes(runs) != bytes; i++) {
		bytes = (double)folder_bytes(runs);
		usleep(2500000);
	}
	cpu = cpu_of(agent);
	written = written_by(agent);
	kill(agent, SIGTERM);
	waitpid(agent, NULL, 0);
	snprintf(text, sizeof(text), "agent/%s-cpu", name);
	bench_print(text, cpu / seconds, "cores", NULL, 0, BENCH_NONE, 0);
	snprintf(text, sizeof(text), "agent/%s-bytes-written", name);
	bench_print(text, written / (double)ret->samples, "B/sample", NULL, 0, BENCH_NONE, 0);
	snprintf(text, sizeof(text), "agent/%s-bytes-kept", name);
	bench_print(text, bytes / (double)ret->samples, "B/sample",
		    "time, step and value as they are", 24, BENCH_NONE, 0);
}

static void bench_real(const char *self, double seconds)
{
	struct trained t;

	run_agent(self, "usual", train_usual, seconds / 2, &t);
	run_agent(self, "million", train_flat_out, seconds, &t);
	bench_print("agent/million-rate", (double)t.stats.attempts / seconds, "records/s", NULL, 0,
		    BENCH_VALUE_MIN, 0.99e6);
	bench_print("agent/million-dropped", (double)t.stats.dropped, "records", NULL, 0,
		    BENCH_VALUE_MAX, 0);
}

int main(int argc, char **argv)
{
	const char *text = getenv("BENCH_SECONDS");
	double seconds = text ? atof(text) : 20;
	char command[256];

	(void)argc;
	if (!mkdtemp(shm) || !mkdtemp(disk) || setenv("LAPSE_RENDEZVOUS", shm, 1) < 0)
		die("folders", "cannot be made");
	/* First: its trainer is a child that must not inherit an open ring. */
	bench_real(argv[0], seconds);
	bench_commit();
	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", shm, disk);
	return system(command) != 0;
}

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
		execl(lapse, "lapse", "agent", "--foreground", "--rendezvous", shm, (char *)NULL);
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

/* A million records a second: 1,000 each millisecond, late ones made up for. */
static void trainer(double seconds, int out)
{
	struct lapse_metric loss, norm;
	struct lapse_stats s;
	double t0, due;
	uint64_t n = 0;
	int i;

	if (lapse_open(NULL) < 0)
		_exit(1);
	loss = lapse_gauge("loss", "nat", "", NULL);
	norm = lapse_gauge("norm", "1", "", NULL);
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
	lapse_close();
	lapse_stats(&s);
	if (write(out, &s, sizeof(s)) != sizeof(s))
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

static void bench_sustained(const char *self, double seconds)
{
	pid_t agent = start_agent(self), child;
	struct lapse_stats s = {0};
	double cpu, cpu_end, t;
	int out[2], i;
	char runs[300];

	snprintf(runs, sizeof(runs), "%s/runs", disk);
	setenv("LAPSE_DIR", runs, 1);
	usleep(300000);
	if (pipe(out) < 0)
		die("pipe", "failed");
	cpu = cpu_of(agent);
	child = fork();
	if (child == 0)
		trainer(seconds, out[1]);
	if (read(out[0], &s, sizeof(s)) != sizeof(s))
		die("trainer", "no figures");
	waitpid(child, NULL, 0);
	/* Until the run is folded and its file closed. */
	for (i = 0, t = -1; i < 100 && folder_bytes(runs) != t; i++) {
		t = (double)folder_bytes(runs);
		usleep(2500000);
	}
	cpu_end = cpu_of(agent);
	kill(agent, SIGTERM);
	waitpid(agent, NULL, 0);
	bench_print("agent/sustained-rate", (double)s.attempts / seconds, "records/s", NULL, 0,
	            BENCH_VALUE_MIN, 0.99e6);
	bench_print("agent/sustained-dropped", (double)s.dropped, "records", NULL, 0, BENCH_VALUE_MAX,
	            0);
	bench_print("agent/sustained-cpu", (cpu_end - cpu) / seconds, "cores", NULL, 0, BENCH_NONE, 0);
	bench_print("agent/bytes-on-disk", t / (double)s.accepted, "B/sample",
	            "time, step and value as they are", 24, BENCH_NONE, 0);
}

int main(int argc, char **argv)
{
	const char *text = getenv("BENCH_SECONDS");
	double seconds = text ? atof(text) : 20;
	char command[256];

	(void)argc;
	if (!mkdtemp(shm) || !mkdtemp(disk) || setenv("LAPSE_RENDEZVOUS", shm, 1) < 0)
		die("folders", "cannot be made");
	bench_commit();
	bench_sustained(argv[0], seconds);
	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", shm, disk);
	return system(command) != 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent can take: records a second from a full ring through decoding to
 * COMMIT, beside one row a sample into SQLite; then a real agent for 20 s
 * (BENCH_SECONDS) under a thousand series at 1 and at 100 Hz, an hour at 1 Hz in 18 s
 * (60 minutes, or BENCH_MINUTES), a usual loop, and a million records a second: drops,
 * CPU, memory, bytes written and kept. BENCH_LOAD names one of these loads; "cpu" leaves
 * out the start, "cpu-all" has start and close.
 */
#include "agent/client.h"
#include "bench.h"
#include "simulate/mixed.h"
#include "store/store.h"
#include "wire/clock.h"

#include <lapse/lapse.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
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
#define THOUSAND 1000
#define SETTLE 3 /* seconds */
#define HOUR_SPEED 200
#define HOUR_EXTRA 24
#define LOOK_MS 5 /* between two looks at an agent's memory */

static char shm[] = "/dev/shm/bench-agent-XXXXXX";
static char disk[] = "/var/tmp/bench-agent-XXXXXX";
static unsigned char buf[WIRE_REC_SLOTS_MAX * WIRE_SLOT * 16] __attribute__((aligned(64)));

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
		bench_die("rings", "no ring");
}

/* All that waits, in commits of at most a million records; records stored. */
static uint64_t drain_all(struct client *c, struct store *s)
{
	uint64_t before = c->reader.lane[0].stored;
	uint64_t slots;

	do {
		slots = 1u << 20;
		if (client_drain(c, buf, sizeof(buf), &slots) < 0 || client_before_commit(c) < 0 ||
		    c->sink->ops->commit(c->sink) < 0)
			bench_die("commit", store_error(s)->text);
		client_after_commit(c, 0);
	} while (slots == 0);
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
		bench_die("peer", sqlite3_errmsg(db));
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
		bench_die("lapse_open", lapse_error());
	m[0] = lapse_gauge("a", "1", "", NULL);
	m[1] = lapse_gauge("b", "1", "", NULL);
	m[2] = lapse_gauge("c", "1", "", NULL);
	m[3] = lapse_counter("d", "1", "", NULL);
	rings_name(ring, &fd);
	if (store_open(&so, &e, &store) < 0)
		bench_die("store", e.text);
	if (client_open(&c, fd, ring, &epoch, store_sink(store), why) < 0)
		bench_die("client", why);
	for (lap = 0; lap < LAPS; lap++) {
		for (i = 0; i < 4000000; i++)
			lapse_set(m[i & 3], (double)(i >> 2) * 0.001);
		t = bench_now();
		n = drain_all(c, store);
		rate[lap] = (double)n / (bench_now() - t);
		t = bench_now();
		if (store_fold(store, true, &e) < 0)
			bench_die("fold", e.text);
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

/* What a process has used. */
struct usage {
	double at;       /* bench_now() */
	double cpu;      /* s, all threads */
	double written;  /* bytes given to write() */
	double device;   /* bytes that the kernel had to write for it, so far */
	double rss_peak; /* bytes of it in memory at most, so far */
	double sleeps;   /* times that it let go of a CPU by itself */
};

/* The number behind `key` in /proc/PID/file, 0 if it is not there. */
static double proc_number(pid_t pid, const char *file, const char *key)
{
	char path[64], line[256];
	unsigned long long n = 0;
	size_t len = strlen(key);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, len) == 0 && sscanf(line + len, "%llu", &n) == 1)
			break;
	if (f)
		fclose(f);
	return (double)n;
}

static struct usage usage_of(pid_t pid)
{
	struct usage u = {.at = bench_now()};
	struct timespec t;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) == 0 && clock_gettime(id, &t) == 0)
		u.cpu = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
	u.written = proc_number(pid, "io", "wchar:");
	u.device = proc_number(pid, "io", "write_bytes:");
	u.rss_peak = proc_number(pid, "status", "VmHWM:") * 1024;
	u.sleeps = proc_number(pid, "status", "voluntary_ctxt_switches:");
	return u;
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

/* A thousand series with values of the mixed set, all in one frame, `hz` times a second;
 * in front of it a frame of `extra` more, and a sample behind it, if there are some. */
static uint64_t train_thousand(double seconds, double hz, unsigned extra)
{
	static struct lapse_value v[THOUSAND + HOUR_EXTRA];
	struct lapse_metric end = {0};
	double t0, wait, *values = malloc(sizeof(double) * MIXED_SERIES * MIXED_POINTS);
	char name[32];
	uint64_t step, i;

	if (!values)
		bench_die("memory", "none");
	for (i = 0; i < MIXED_SERIES; i++)
		mixed_values(1, (unsigned)i, values + i * MIXED_POINTS, MIXED_POINTS);
	for (i = 0; i < THOUSAND + extra; i++) {
		snprintf(name, sizeof(name), "metric/%d", (int)i);
		v[i].metric = lapse_gauge(name, "1", "", NULL);
	}
	if (extra)
		end = lapse_counter("end", "1", "", NULL);
	t0 = bench_now();
	for (step = 0; (double)step < seconds * hz; step++) {
		for (i = 0; i < THOUSAND + extra; i++)
			v[i].value = values[i % MIXED_SERIES * MIXED_POINTS +
					    (step + 1009 * (i / MIXED_SERIES)) % MIXED_POINTS];
		if (extra)
			lapse_log(v + THOUSAND, extra);
		lapse_log(v, THOUSAND);
		if (extra)
			lapse_set(end, (double)step);
		wait = t0 + (double)(step + 1) / hz - bench_now();
		if (wait > 0)
			usleep((useconds_t)(wait * 1e6));
	}
	free(values);
	return step * (THOUSAND + (extra ? extra + 1 : 0));
}

static uint64_t train_1hz(double seconds)
{
	return train_thousand(seconds, 1, 0);
}

static uint64_t train_100hz(double seconds)
{
	return train_thousand(seconds, 100, 0);
}

struct hour {
	double seconds;
	uint64_t samples;
};

static void *hour_main(void *arg)
{
	struct hour *h = arg;

	h->samples = train_thousand(h->seconds, HOUR_SPEED, HOUR_EXTRA);
	return NULL;
}

/* What 1 Hz does in 200 times as long: each round is a commit, since with a few series
 * more it fills more than a quarter of its lane, which is small: that of a second thread
 * in a small ring of six lanes. The sample behind finds that, and rings. */
static uint64_t train_hour(double seconds)
{
	struct hour h = {.seconds = seconds};
	pthread_t thread;

	lapse_set(lapse_gauge("first", "1", "", NULL), 1);
	if (pthread_create(&thread, NULL, hour_main, &h) != 0)
		bench_die("thread", "cannot be started");
	pthread_join(thread, NULL);
	return h.samples;
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
	struct lapse_options o = {.size = sizeof(o)};
	struct trained t;

	if (train == train_hour) {
		o.ring_bytes = 1 << 20;
		o.lanes = 6;
	}
	if (lapse_open(&o) < 0)
		_exit(1);
	t.samples = train(seconds);
	lapse_close();
	lapse_stats(&t.stats);
	if (write(out, &t, sizeof(t)) != sizeof(t))
		_exit(1);
	_exit(0);
}

static double files_bytes;

static int add_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)at;
	files_bytes += type == FTW_F ? (double)st->st_size : 0;
	return 0;
}

/* Bytes of all files under root. */
static double folder_bytes(const char *root)
{
	files_bytes = 0;
	nftw(root, add_file, 8, FTW_PHYS);
	return files_bytes;
}

/* The most that a look at an agent's memory showed, in bytes: of its own, of files. */
struct peaks {
	double anon, file;
};

static void look_at(pid_t pid, struct peaks *p)
{
	double anon = proc_number(pid, "status", "RssAnon:") * 1024;
	double file = proc_number(pid, "status", "RssFile:") * 1024;

	p->anon = anon > p->anon ? anon : p->anon;
	p->file = file > p->file ? file : p->file;
}

/* Look until there is something to read, or for `ms`. */
static void look_until(pid_t pid, int fd, int ms, struct peaks *p)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	double end = bench_now() + ms * 1e-3;

	do
		look_at(pid, p);
	while (poll(&poll_fd, 1, LOOK_MS) == 0 && (ms < 0 || bench_now() < end));
}

/* One trainer under a real agent, until its run is folded and closed. What was used
 * from SETTLE seconds after the trainer's start (definitions are stored then) to its
 * end is *ret_steady, over all *ret_all. */
static double run_agent(const char *self, const char *name, uint64_t (*train)(double),
			double seconds, struct trained *ret, struct usage *ret_steady,
			struct usage *ret_all, struct peaks *ret_peaks)
{
	double bytes = -1;
	struct usage u;
	pid_t agent, child;
	char runs[300];
	int out[2], i;

	snprintf(runs, sizeof(runs), "%s/%s", disk, name);
	setenv("LAPSE_DIR", runs, 1);
	agent = start_agent(self);
	usleep(300000);
	if (pipe(out) < 0)
		bench_die("pipe", "failed");
	child = fork();
	if (child == 0)
		trainer(train, seconds, out[1]);
	*ret_peaks = (struct peaks){0};
	look_until(agent, -1, SETTLE * 1000, ret_peaks);
	u = usage_of(agent);
	look_until(agent, out[0], -1, ret_peaks);
	if (read(out[0], ret, sizeof(*ret)) != sizeof(*ret))
		bench_die("trainer", "no figures");
	*ret_steady = usage_of(agent);
	waitpid(child, NULL, 0);
	for (i = 0; i < 100 && folder_bytes(runs) != bytes; i++) {
		bytes = folder_bytes(runs);
		look_until(agent, -1, 2500, ret_peaks);
	}
	*ret_all = usage_of(agent);
	kill(agent, SIGTERM);
	waitpid(agent, NULL, 0);
	close(out[0]);
	close(out[1]);
	ret_steady->at -= u.at;
	ret_steady->cpu -= u.cpu;
	ret_steady->written -= u.written;
	ret_steady->device -= u.device;
	ret_steady->sleeps -= u.sleeps;
	return bytes;
}

static void print_figure(const char *name, const char *what, double value, const char *unit,
			 enum bench_goal kind, double goal)
{
	char text[64];

	snprintf(text, sizeof(text), "agent/%s-%s", name, what);
	bench_print(text, value, unit, NULL, 0, kind, goal);
}

static void bench_load(const char *self, const char *name, uint64_t (*train)(double),
		       double seconds, double cpu_goal, double own_goal)
{
	struct usage steady, all;
	struct peaks peaks;
	struct trained t;
	double bytes = run_agent(self, name, train, seconds, &t, &steady, &all, &peaks);
	double n = (double)t.samples, n_steady = n * steady.at / seconds;
	char text[64];

	print_figure(name, "cpu", 100 * steady.cpu / steady.at, "% of a core",
		     cpu_goal > 0 ? BENCH_VALUE_MAX : BENCH_NONE, cpu_goal);
	print_figure(name, "cpu-all", 100 * all.cpu / seconds, "% of a core", BENCH_NONE, 0);
	print_figure(name, "sleeps", steady.sleeps / steady.at, "1/s", BENCH_NONE, 0);
	if (train == train_hour)
		print_figure(name, "cpu-at-1hz", 100 * steady.cpu / steady.at / HOUR_SPEED,
			     "% of a core", BENCH_VALUE_MAX, 0.3);
	print_figure(name, "memory", all.rss_peak / (1 << 20), "MiB", BENCH_VALUE_MAX, 12);
	print_figure(name, "memory-own", peaks.anon / (1 << 20), "MiB",
		     own_goal > 0 ? BENCH_VALUE_MAX : BENCH_NONE, own_goal);
	print_figure(name, "memory-files", peaks.file / (1 << 20), "MiB", BENCH_NONE, 0);
	print_figure(name, "bytes-given", steady.written / n_steady, "B/sample", BENCH_NONE, 0);
	print_figure(name, "bytes-to-device", all.device / n, "B/sample", BENCH_NONE, 0);
	snprintf(text, sizeof(text), "agent/%s-bytes-kept", name);
	bench_print(text, bytes / n, "B/sample", "time, step and value as they are", 24, BENCH_NONE,
		    0);
	print_figure(name, "rate", n / seconds, "samples/s", BENCH_NONE, 0);
	print_figure(name, "dropped", (double)t.stats.dropped, "records", BENCH_VALUE_MAX, 0);
}

static void bench_real(const char *self, double seconds)
{
	const char *only = getenv("BENCH_LOAD"), *minutes = getenv("BENCH_MINUTES");
	const double hour = (minutes ? atof(minutes) : 60) * 60 / HOUR_SPEED;
	const struct {
		const char *name;
		uint64_t (*train)(double seconds);
		double seconds, cpu_goal, own_goal;
	} rows[] = {
		{"1000x1hz", train_1hz, seconds, 0.3, 6},
		{"hour", train_hour, hour, 0, 6},
		{"1000x100hz", train_100hz, seconds, 0, 0},
		{"usual", train_usual, seconds / 2, 0, 6},
		{"million", train_flat_out, seconds, 0, 0},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!only || strcmp(only, rows[i].name) == 0)
			bench_load(self, rows[i].name, rows[i].train, rows[i].seconds,
				   rows[i].cpu_goal, rows[i].own_goal);
}

int main(int argc, char **argv)
{
	const char *text = getenv("BENCH_SECONDS");
	double seconds = text ? atof(text) : 20;
	char command[256];

	(void)argc;
	if (!mkdtemp(shm) || !mkdtemp(disk) || setenv("LAPSE_RENDEZVOUS", shm, 1) < 0)
		bench_die("folders", "cannot be made");
	/* First: its trainer is a child that must not inherit an open ring. */
	bench_real(argv[0], seconds);
	if (!getenv("BENCH_LOAD"))
		bench_commit();
	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", shm, disk);
	return system(command) != 0;
}

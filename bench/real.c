/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded real run: examples/charlm under `lapse run` for 60 s (BENCH_SECONDS). What
 * its closed file has for each sample (gauges, counters, spans, observations), all in,
 * and where that goes: times and durations beside an estimate of their entropy, values,
 * summaries, and the rest (tables, pages). These parts add up.
 */
#include "bench.h"
#include "store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERIES_MAX 256

static char shm[] = "/dev/shm/bench-real-XXXXXX";
static char disk[] = "/var/tmp/bench-real-XXXXXX";
static char run_dir[512], db_path[1024];

/* Moments of the command's thread: starts and ends of spans, times of values. */
struct moment {
	int64_t time;
	uint32_t what; /* 2 * series, one more for an end */
};

/* Time from a moment to the next of its thread. */
struct gap {
	uint64_t what; /* of both moments */
	double ns;
};

static struct moment *moments;
static struct gap *gaps;
static double *sorted;
static size_t n_moments, cap_moments;
static double samples;

static struct {
	uint32_t id;
	enum sink_kind kind;
	bool recorded; /* by the command, not by the agent */
} series[SERIES_MAX];
static size_t n_series;

/* ---- the run ---------------------------------------------------------------------- */

static int find_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
	const char *dot = strrchr(path, '.');

	(void)st;
	if (type != FTW_F || !dot || strcmp(dot, ".db") != 0)
		return 0;
	snprintf(db_path, sizeof(db_path), "%s", path);
	snprintf(run_dir, sizeof(run_dir), "%.*s", at->base - 1, path);
	return 1;
}

static void record(const char *self, const char *seconds)
{
	char lapse[600], program[600];
	int len = (int)(strrchr(self, '/') - self), status, null;
	pid_t pid;

	snprintf(lapse, sizeof(lapse), "%.*s/../lapse", len, self);
	snprintf(program, sizeof(program), "%.*s/../examples/charlm/charlm", len, self);
	pid = fork();
	if (pid == 0) {
		null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		execl(lapse, "lapse", "run", "--quiet", "--", program, "--seconds", seconds,
		      (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		bench_die(program, "failed under lapse run");
}

/* Until the agent has closed the file, for at most 30 s; then the agent is ended. */
static void wait_closed(void)
{
	char path[1100], text[32] = "";
	FILE *f;
	int i;

	for (i = 0; i < 300; i++) {
		usleep(100000);
		if (!db_path[0] && nftw(disk, find_file, 8, FTW_PHYS) != 1)
			continue;
		snprintf(path, sizeof(path), "%s.lock", db_path);
		if (access(path, F_OK) < 0)
			break;
	}
	snprintf(path, sizeof(path), "%s/agent.lock", shm);
	f = fopen(path, "r");
	if (f && fgets(text, sizeof(text), f) && atoi(text) > 1)
		kill(atoi(text), SIGTERM);
	if (f)
		fclose(f);
	if (i == 300)
		bench_die("agent", "the run is not closed after 30 s");
}

/* ---- what is in it ------------------------------------------------------------------- */

static int on_series(void *arg, const struct store_series *s)
{
	(void)arg;
	if (n_series == SERIES_MAX)
		bench_die("series", "too many");
	series[n_series].id = s->id;
	series[n_series].kind = s->kind;
	series[n_series++].recorded = strcmp(s->source, "record") == 0;
	return 0;
}

static void add_moment(int64_t time, uint32_t what)
{
	if (n_moments == cap_moments) {
		cap_moments = cap_moments ? 2 * cap_moments : 4096;
		moments = realloc(moments, cap_moments * sizeof(*moments));
		if (!moments)
			bench_die("memory", "none");
	}
	moments[n_moments++] = (struct moment){time, what};
}

static int on_point(void *arg, const struct store_point *p)
{
	size_t k = *(size_t *)arg;

	samples += p->hist ? (double)(p->hist->count + p->hist->nan) : 1;
	if (!series[k].recorded)
		return 0;
	add_moment(p->time_ns, 2 * (uint32_t)k);
	if (series[k].kind == SINK_SPAN)
		add_moment(p->time_ns + (int64_t)p->value, 2 * (uint32_t)k + 1);
	return 0;
}

static void read_run(void)
{
	const struct store_range all = {.all_segments = true};
	struct store_reader *r;
	struct err e = {0};
	size_t k;

	if (store_reader_open(run_dir, &e, &r) < 0 ||
	    store_reader_series(r, on_series, NULL, &e) < 0)
		bench_die("reader", e.text);
	for (k = 0; k < n_series; k++)
		if (store_reader_points(r, 0, series[k].id, &all, on_point, &k, &e) < 0)
			bench_die("points", e.text);
	store_reader_close(r);
}

/* ---- entropy --------------------------------------------------------------------------- */

static int order_moments(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->time != y->time)
		return (x->time > y->time) - (x->time < y->time);
	return (x->what > y->what) - (x->what < y->what);
}

static int order_gaps(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	if (x->what != y->what)
		return (x->what > y->what) - (x->what < y->what);
	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Bits a number of n sorted ones, whole: Vasicek's estimate from spacings, or, where
 * most come often, from how often (with Miller's and Madow's correction). */
static double entropy(const double *v, size_t n)
{
	size_t m = (size_t)(sqrt((double)n) + 0.5), i, from = 0, distinct = 0;
	double often = 0, spaced = 0, p, d;

	for (i = 1; i <= n; i++) {
		if (i < n && v[i] == v[from])
			continue;
		p = (double)(i - from) / (double)n;
		often -= p * log2(p);
		distinct++;
		from = i;
	}
	often += (double)(distinct - 1) / (2 * (double)n * M_LN2);
	if (distinct < n / 8 || m == 0)
		return often;
	for (i = 0; i < n; i++) {
		d = v[i + m < n ? i + m : n - 1] - v[i > m ? i - m : 0];
		spaced += log2((double)n / (2 * (double)m) * (d > 1 ? d : 1));
	}
	return spaced / (double)n;
}

/* Bytes that the times of all moments take at least, if what follows what is known and
 * gaps of one sort are independent of each other. Values of one call have one time. */
static double entropy_of_times(void)
{
	double bits = 0;
	size_t i, n = 0, from = 0, k;

	qsort(moments, n_moments, sizeof(*moments), order_moments);
	gaps = calloc(n_moments, sizeof(*gaps));
	sorted = calloc(n_moments, sizeof(*sorted));
	if (!gaps || !sorted)
		bench_die("memory", "none");
	for (i = 1; i < n_moments; i++)
		if (moments[i].time != moments[i - 1].time)
			gaps[n++] =
				(struct gap){(uint64_t)moments[i - 1].what << 32 | moments[i].what,
					     (double)(moments[i].time - moments[i - 1].time)};
	qsort(gaps, n, sizeof(*gaps), order_gaps);
	for (i = 1; i <= n; i++) {
		if (i < n && gaps[i].what == gaps[from].what)
			continue;
		for (k = from; k < i; k++)
			sorted[k - from] = gaps[k].ns;
		bits += (double)(i - from) * entropy(sorted, i - from);
		from = i;
	}
	return bits / 8;
}

/* ---- where the bytes are ------------------------------------------------------------------ */

static double number(sqlite3 *db, const char *text)
{
	sqlite3_stmt *st;
	double n;

	if (sqlite3_prepare_v2(db, text, -1, &st, NULL) != SQLITE_OK ||
	    sqlite3_step(st) != SQLITE_ROW)
		bench_die(text, sqlite3_errmsg(db));
	n = sqlite3_column_double(st, 0);
	sqlite3_finalize(st);
	return n;
}

static void print_parts(void)
{
	double file, times, values, summaries;
	struct stat st;
	sqlite3 *db;

	if (stat(db_path, &st) < 0 ||
	    sqlite3_open_v2(db_path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		bench_die(db_path, "cannot be read");
	file = (double)st.st_size / samples;
	times = number(db, "SELECT (SELECT coalesce(sum(length(blob)), 0) FROM axis) +"
			   " (SELECT coalesce(sum(len), 0) FROM chunk JOIN series ON series = id"
			   " WHERE kind = 4)") /
		samples;
	values = number(db, "SELECT coalesce(sum(len), 0) FROM chunk JOIN series ON series = id"
			    " WHERE kind <> 4") /
		 samples;
	summaries = number(db, "SELECT coalesce(sum(length(blob)), 0) FROM summary") / samples;
	sqlite3_close(db);
	bench_print("real/charlm-samples", samples, "samples", NULL, 0, BENCH_NONE, 0);
	bench_print("real/charlm-file", file, "B/sample", NULL, 0, BENCH_VALUE_MAX, 1.75);
	bench_print("real/charlm-times", times, "B/sample", "entropy of the gaps between them",
		    entropy_of_times() / samples, BENCH_NONE, 0);
	bench_print("real/charlm-values", values, "B/sample", NULL, 0, BENCH_NONE, 0);
	bench_print("real/charlm-summaries", summaries, "B/sample", NULL, 0, BENCH_NONE, 0);
	bench_print("real/charlm-rest", file - times - values - summaries, "B/sample", NULL, 0,
		    BENCH_NONE, 0);
}

int main(int argc, char **argv)
{
	const char *seconds = getenv("BENCH_SECONDS");
	char command[256];

	(void)argc;
	if (!mkdtemp(shm) || !mkdtemp(disk) || setenv("LAPSE_RENDEZVOUS", shm, 1) < 0 ||
	    setenv("LAPSE_DIR", disk, 1) < 0)
		bench_die("folders", "cannot be made");
	record(argv[0], seconds ? seconds : "60");
	wait_closed();
	read_run();
	print_parts();
	free(moments);
	free(gaps);
	free(sorted);
	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", shm, disk);
	return system(command) != 0;
}

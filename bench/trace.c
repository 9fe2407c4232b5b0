/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - traces: bytes of JSON a second of one core, beside simdjson on the same file, for
 * reading and for all that `lapse trace summary` does; of gzip and zstd with a second core that
 * decompresses; memory an event; and a long trace through a pipe within a budget.
 *
 *     bench_trace                  all of it, with a trace of 1 GB and a pipe of 2 GB
 *     bench_trace --pipe GB        only the pipe
 *     bench_trace --write COPIES   the multiplied trace to stdout
 *
 * The trace that is multiplied comes from the folder LAPSE_TRACE_DATA, else
 * ../shared/data.
 */
#include <errno.h>
#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "bench.h"
#include "multiply.h"
#include "trace/source.h"
#include "trace/trace.h"
#ifdef HAVE_SIMDJSON
#include "trace_simdjson.h"
#endif

#define ROUNDS 5
#define GB 1000000000ull
#define SEED "traces/hta-df-index/rank1.pt.trace.json.gz"

static char *seed_text(size_t *ret_len)
{
	const char *folder = getenv("LAPSE_TRACE_DATA");
	char path[4096], *text = NULL;
	struct source *s;
	struct err e = {0};
	size_t len = 0, got;
	int rc;

	snprintf(path, sizeof(path), "%s/%s", folder ? folder : "../shared/data", SEED);
	if (source_open(path, &s, &e)) {
		fprintf(stderr, "%s; set LAPSE_TRACE_DATA\n", e.text);
		return NULL;
	}
	do {
		text = realloc(text, len + (1u << 20));
		if (!text)
			abort();
		rc = source_read(s, text + len, 1u << 20, &got);
		len += got;
	} while (rc == -EAGAIN || (!rc && got));
	source_close(s);
	*ret_len = len;
	return text;
}

/* A file without a name; its path in /proc. */
static FILE *new_file(char path[64])
{
	const char *folder = getenv("TMPDIR");
	int fd = open(folder ? folder : "/var/tmp", O_TMPFILE | O_RDWR, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");

	if (!f) {
		perror("bench_trace: a temporary file");
		exit(1);
	}
	setvbuf(f, NULL, _IOFBF, 1u << 20);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return f;
}

static void write_gzip(const char *from, FILE *to)
{
	unsigned char in[1 << 16], out[1 << 16], level[ISAL_DEF_LVL1_DEFAULT];
	FILE *f = fopen(from, "r");
	struct isal_zstream z;

	isal_deflate_init(&z);
	z.level = 1;
	z.level_buf = level;
	z.level_buf_size = sizeof(level);
	z.gzip_flag = IGZIP_GZIP;
	do {
		z.next_in = in;
		z.avail_in = (uint32_t)fread(in, 1, sizeof(in), f);
		z.end_of_stream = (uint16_t)feof(f);
		do {
			z.next_out = out;
			z.avail_out = sizeof(out);
			isal_deflate(&z);
			fwrite(out, 1, sizeof(out) - z.avail_out, to);
		} while (!z.avail_out);
	} while (z.internal_state.state != ZSTATE_END);
	fclose(f);
	fflush(to);
}

static void write_zstd(const char *from, FILE *to)
{
	char in[1 << 16], out[1 << 16];
	FILE *f = fopen(from, "r");
	ZSTD_CCtx *z = ZSTD_createCCtx();
	size_t left;

	do {
		ZSTD_inBuffer a = {in, fread(in, 1, sizeof(in), f), 0};
		ZSTD_EndDirective end = feof(f) ? ZSTD_e_end : ZSTD_e_continue;

		do {
			ZSTD_outBuffer b = {out, sizeof(out), 0};

			left = ZSTD_compressStream2(z, &b, &a, end);
			fwrite(out, 1, b.pos, to);
		} while (end == ZSTD_e_end ? left : a.pos < a.size);
	} while (!feof(f));
	ZSTD_freeCCtx(z);
	fclose(f);
	fflush(to);
}

/* Seconds to read a trace; bytes of JSON and events in *bytes and *events. */
static double read_once(const char *path, uint64_t memory, uint64_t *bytes, uint64_t *events)
{
	struct trace_options o = {.memory = memory};
	struct trace *t;
	struct err e = {0};
	uint64_t resident, spilled;
	double begin = bench_now();

	if (trace_read(path, &o, &t, &e)) {
		fprintf(stderr, "bench_trace: %s\n", e.text);
		exit(1);
	}
	begin = bench_now() - begin;
	trace_sizes(t, bytes, &resident, &spilled);
	*events = 0;
	for (int c = 0; c < 256; c++)
		*events += trace_phase_count(t, (char)c);
	trace_free(t);
	return begin;
}

static void one_core(cpu_set_t *before)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	sched_getaffinity(0, sizeof(*before), before);
	CPU_ZERO(&one);
	CPU_SET((size_t)(cpu < 0 ? 0 : cpu), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* `lapse trace summary` of this build, as a person runs it. */
static bool summary_path(char path[4096])
{
	ssize_t n = readlink("/proc/self/exe", path, 4000);

	for (int i = 0; i < 2 && n > 0; i++) /* BUILD/bench/bench_trace */
		while (--n > 0 && path[n] != '/')
			;
	if (n <= 0)
		return false;
	strcpy(path + n, "/lapse");
	return !access(path, X_OK);
}

/* CPU seconds of a whole run; its peak of resident bytes in *peak. */
static double summary_once(const char *lapse, const char *path, double *peak)
{
	struct rusage u = {0};
	int status = -1;
	pid_t child = fork();

	if (!child) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(127);
		execl(lapse, "lapse", "trace", "summary", "--quiet", path, (char *)NULL);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &u) < 0 || status) {
		fprintf(stderr, "bench_trace: %s trace summary failed\n", lapse);
		exit(1);
	}
	*peak = (double)u.ru_maxrss * 1024;
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* GB/s of what was done since begin. */
static double rate(uint64_t bytes, double begin)
{
	return (double)bytes / GB / (bench_cpu() - begin);
}

/* By the time that the core worked for it, file reading included, so that other work on the
 * machine counts for neither. */
static void bench_json(const char *path)
{
	double ours[ROUNDS], summary[ROUNDS], demand[ROUNDS] = {0}, dom[ROUNDS] = {0}, peak = 0;
	uint64_t bytes = 0, events = 0;
	cpu_set_t before;
	bool peer = false;
	char lapse[4096];
	bool is_built = summary_path(lapse);

	one_core(&before);
	for (int i = 0; i < ROUNDS; i++) {
		double begin = bench_cpu();

		read_once(path, 0, &bytes, &events);
		ours[i] = rate(bytes, begin);
		if (is_built)
			summary[i] = (double)bytes / GB / summary_once(lapse, path, &peak);
#ifdef HAVE_SIMDJSON
		begin = bench_cpu();
		peer = simdjson_on_demand(path) == events;
		demand[i] = rate(bytes, begin);
		begin = bench_cpu();
		simdjson_dom(path);
		dom[i] = rate(bytes, begin);
#endif
	}
	sched_setaffinity(0, sizeof(before), &before);
	bench_print("trace.read", bench_median(ours, ROUNDS), "GB/s",
		    peer ? "simdjson On-Demand" : NULL, bench_median(demand, ROUNDS),
		    BENCH_VALUE_MIN, 1);
	if (peer)
		bench_print("trace.read_dom", bench_median(ours, ROUNDS), "GB/s", "simdjson DOM",
			    bench_median(dom, ROUNDS), BENCH_RATIO_MIN, 1);
	if (!is_built) {
		fprintf(stderr, "bench_trace: no lapse beside it: no row trace.summary\n");
		return;
	}
	bench_print("trace.summary", bench_median(summary, ROUNDS), "GB/s",
		    peer ? "simdjson On-Demand" : NULL, bench_median(demand, ROUNDS),
		    BENCH_VALUE_MIN, 1);
	if (peer)
		bench_print("trace.summary_dom", bench_median(summary, ROUNDS), "GB/s",
			    "simdjson DOM", bench_median(dom, ROUNDS), BENCH_NONE, 0);
	bench_print("trace.summary_memory", peak / (double)events, "bytes/event", NULL, 0,
		    BENCH_VALUE_MAX, 120);
}

static void bench_packed(const char *name, const char *path, enum bench_goal goal)
{
	double v[ROUNDS];
	uint64_t bytes, events;

	for (int i = 0; i < ROUNDS; i++) {
		v[i] = 1 / read_once(path, 0, &bytes, &events);
		v[i] *= (double)bytes / GB;
	}
	bench_print(name, bench_median(v, ROUNDS), "GB/s", NULL, 0, goal, 0.8);
}

/* Peak resident bytes of a process that only reads the trace; of events in *events. */
static double peak_of(const char *path, uint64_t memory, uint64_t *bytes, uint64_t *events)
{
	int ends[2];
	uint64_t got[2] = {0};
	struct rusage u = {0};
	pid_t child;

	if (pipe(ends))
		exit(1);
	child = fork();
	if (!child) {
		read_once(path, memory, &got[0], &got[1]);
		_exit(write(ends[1], got, sizeof(got)) != sizeof(got));
	}
	close(ends[1]);
	if (read(ends[0], got, sizeof(got)) != sizeof(got))
		fprintf(stderr, "bench_trace: the reading process failed\n");
	close(ends[0]);
	wait4(child, NULL, 0, &u);
	*bytes = got[0];
	*events = got[1];
	return (double)u.ru_maxrss * 1024;
}

static void bench_memory(const char *path)
{
	uint64_t bytes, events;
	double peak = peak_of(path, 0, &bytes, &events);

	bench_print("trace.memory", peak / (double)events, "bytes/event", NULL, 0, BENCH_VALUE_MAX,
		    60);
}

/* So many GB through a pipe, with the default budget. */
static void bench_pipe(const struct multiply *m, size_t seed, double gb)
{
	const uint64_t budget = 1ull << 30;
	int ends[2];
	uint64_t bytes, events;
	double seconds = bench_now(), peak;
	pid_t writer;
	char path[64];

	if (pipe(ends))
		exit(1);
	fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
	writer = fork();
	if (!writer) {
		FILE *f = fdopen(ends[1], "w");

		close(ends[0]);
		setvbuf(f, NULL, _IOFBF, 1 << 20);
		_exit(!multiply_write(m, (unsigned)(gb * GB / (double)seed) + 1, f));
	}
	close(ends[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	peak = peak_of(path, budget, &bytes, &events);
	close(ends[0]);
	waitpid(writer, NULL, 0);
	seconds = bench_now() - seconds;
	bench_print("trace.pipe_memory", peak / (1 << 20), "MiB", NULL, 0, BENCH_VALUE_MAX,
		    (double)(budget >> 20));
	bench_print("trace.pipe", (double)bytes / GB / seconds, "GB/s", NULL, 0, BENCH_NONE, 0);
	fprintf(stderr, "pipe: %.2f GB, %llu events\n", (double)bytes / GB,
		(unsigned long long)events);
}

int main(int argc, char **argv)
{
	size_t len;
	char *text = seed_text(&len), path[64], gz[64], zst[64];
	struct multiply *m = text ? multiply_new(text, len) : NULL;
	FILE *f;

	if (!m)
		return 0; /* the reason has been told */
	if (argc == 3 && !strcmp(argv[1], "--write"))
		return !multiply_write(m, (unsigned)strtoul(argv[2], NULL, 10), stdout);
	if (argc == 3 && !strcmp(argv[1], "--pipe")) {
		bench_pipe(m, len, strtod(argv[2], NULL));
		return 0;
	}
	f = new_file(path);
	multiply_write(m, (unsigned)(GB / len) + 1, f);
	write_gzip(path, new_file(gz));
	write_zstd(path, new_file(zst));
	bench_memory(path);
	bench_json(path);
	bench_packed("trace.read_gzip", gz, BENCH_VALUE_MIN);
	bench_packed("trace.read_zstd", zst, BENCH_NONE);
	bench_pipe(m, len, 2);
	multiply_free(m);
	free(text);
	return 0;
}

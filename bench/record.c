/* SPDX-License-Identifier: Apache-2.0
 *
 * What a record costs the training program: lapse_set() against a bare loop that
 * reads the counter and stores 32 bytes into the same kind of mapping; spans,
 * frames, an inert handle, two threads. No agent runs: lanes wrap.
 */
#include "bench.h"
#include "wire/clock.h"

#include <lapse/lapse.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CALLS 2000000
#define LANE_SLOTS 131072u /* of lane 0, by default: the bare loop's mapping is as large */

struct slot {
	uint64_t a, time;
	double value;
	int64_t step;
};

static char dir[] = "/dev/shm/bench-record-XXXXXX";
static uint32_t kind;

static struct slot *bare_map(void)
{
	char path[128];
	size_t bytes = LANE_SLOTS * sizeof(struct slot);
	void *p;
	int fd;

	snprintf(path, sizeof(path), "%s/bare-XXXXXX", dir);
	fd = mkstemp(path);
	if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0)
		exit(1);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	unlink(path);
	close(fd);
	if (p == MAP_FAILED)
		exit(1);
	return p;
}

static double bare_loop(struct slot *map, int n)
{
	double t = bench_now();
	int i;

	for (i = 0; i < n; i++) {
		volatile struct slot *s = &map[(unsigned)i & (LANE_SLOTS - 1)];

		s->a = 3;
		s->time = clock_ticks(kind);
		s->value = i;
		s->step = 7;
	}
	return (bench_now() - t) / n * 1e9;
}

static double set_loop(struct lapse_metric m, int n)
{
	double t = bench_now();
	int i;

	for (i = 0; i < n; i++)
		lapse_set(m, i);
	return (bench_now() - t) / n * 1e9;
}

static double span_loop(struct lapse_name name, int n)
{
	double t = bench_now();
	int i;

	for (i = 0; i < n; i++)
		lapse_span_end(lapse_span_begin(name));
	return (bench_now() - t) / n * 1e9;
}

static double frame_loop(const struct lapse_value *v, int n)
{
	double t = bench_now();
	int i;

	for (i = 0; i < n; i++)
		lapse_log(v, 20);
	return (bench_now() - t) / n / 20 * 1e9;
}

static void bench_single(struct lapse_metric m, struct slot *bare)
{
	double set[BENCH_ROUNDS], raw[BENCH_ROUNDS], inert[BENCH_ROUNDS], span[BENCH_ROUNDS];
	double frame[BENCH_ROUNDS], set_ns, raw_ns;
	struct lapse_value v[20];
	int i;

	for (i = 0; i < 20; i++)
		v[i] = (struct lapse_value){i, m};
	for (i = 0; i < BENCH_ROUNDS; i++) {
		raw[i] = bare_loop(bare, CALLS);
		set[i] = set_loop(m, CALLS);
		inert[i] = set_loop((struct lapse_metric){0}, CALLS);
		span[i] = span_loop(lapse_name("span"), CALLS);
		frame[i] = frame_loop(v, CALLS / 20);
	}
	set_ns = bench_median(set, BENCH_ROUNDS);
	raw_ns = bench_median(raw, BENCH_ROUNDS);
	bench_print("record/set", set_ns, "ns", "counter read and 32-byte store", raw_ns,
		    BENCH_RATIO_MAX, 1.5);
	bench_print("record/inert", bench_median(inert, BENCH_ROUNDS), "ns", NULL, 0,
		    BENCH_VALUE_MAX, 2);
	bench_print("record/span-pair", bench_median(span, BENCH_ROUNDS), "ns", "lapse_set", set_ns,
		    BENCH_RATIO_MAX, 2.5);
	bench_print("record/frame-20", bench_median(frame, BENCH_ROUNDS), "ns/value", NULL, 0,
		    BENCH_VALUE_MAX, 3);
}

/* The first lap over fresh pages: nothing was touched but by the allocation. */
static void bench_first_lap(void)
{
	double set[BENCH_ROUNDS], raw[BENCH_ROUNDS];
	struct lapse_metric m;
	int i;

	for (i = 0; i < BENCH_ROUNDS; i++) {
		struct slot *fresh = bare_map();

		raw[i] = bare_loop(fresh, LANE_SLOTS);
		munmap(fresh, LANE_SLOTS * sizeof(*fresh));
		lapse_open(NULL);
		m = lapse_gauge("first", "1", "", NULL);
		lapse_set(m, 0);
		set[i] = set_loop(m, LANE_SLOTS - 100);
		lapse_close();
	}
	bench_print("record/set-first-lap", bench_median(set, BENCH_ROUNDS), "ns",
		    "bare loop, fresh mapping", bench_median(raw, BENCH_ROUNDS), BENCH_NONE, 0);
}

/* ---- two threads -------------------------------------------------------------------- */

struct worker {
	struct lapse_metric m;
	struct slot *bare; /* NULL: lapse_set() */
	pthread_barrier_t *barrier;
	double ns;
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	if (!w->bare)
		lapse_set(w->m, 0);
	pthread_barrier_wait(w->barrier);
	w->ns = w->bare ? bare_loop(w->bare, CALLS) : set_loop(w->m, CALLS);
	return NULL;
}

/* Calls a second of both threads together, in units of calls/ns. */
static double two_threads(struct lapse_metric m, struct slot *const bare[2])
{
	pthread_barrier_t barrier;
	struct worker w[2];
	pthread_t t[2];
	int i;

	pthread_barrier_init(&barrier, NULL, 2);
	for (i = 0; i < 2; i++) {
		w[i] = (struct worker){m, bare ? bare[i] : NULL, &barrier, 0};
		if (pthread_create(&t[i], NULL, worker_main, &w[i]) != 0)
			exit(1);
	}
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&barrier);
	return 1 / w[0].ns + 1 / w[1].ns;
}

static void bench_threads(struct lapse_metric m, struct slot *bare)
{
	double ours[BENCH_ROUNDS], raw[BENCH_ROUNDS];
	struct slot *const maps[2] = {bare, bare_map()};
	int i;

	for (i = 0; i < BENCH_ROUNDS; i++) {
		ours[i] = two_threads(m, NULL) * set_loop(m, CALLS);
		raw[i] = two_threads(m, maps) * bare_loop(bare, CALLS);
	}
	bench_print("record/two-threads", bench_median(ours, BENCH_ROUNDS), "x one thread",
		    "bare loop's scaling", bench_median(raw, BENCH_ROUNDS), BENCH_RATIO_MIN, 0.95);
}

int main(void)
{
	char command[128];
	struct lapse_metric m;
	struct slot *bare;

	if (!mkdtemp(dir) || setenv("LAPSE_RENDEZVOUS", dir, 1) < 0)
		return 1;
	kind = clock_kind();
	if (lapse_open(NULL) < 0) {
		fprintf(stderr, "bench record: %s\n", lapse_error());
		return 1;
	}
	bare = bare_map();
	m = lapse_gauge("value", "1", "", NULL);
	bench_single(m, bare);
	bench_threads(m, bare);
	lapse_close();
	bench_first_lap();
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command) != 0;
}

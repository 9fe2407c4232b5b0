/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring's two ends against each other and against a plain list: order,
 * wrap, KEEP, WRAP, rewind, two threads, hostile files.
 */
#include "ring/reader.h"
#include "ring/ring.h"
#include "ring/writer.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
	char dir[64];
	int dirfd;
	struct ring_map map;
	struct wire_ctl *ctl;
	struct ring_writer *w;
	struct reader r;
};

static unsigned char drain_buf[WIRE_REC_SLOTS_MAX * WIRE_SLOT * 2];

static void fixture_ctl(struct fixture *f)
{
	struct wire_ctl ctl = {
		.magic = WIRE_MAGIC_CTL, .major = WIRE_MAJOR, .step = WIRE_STEP_NONE};
	int fd = openat(f->dirfd, "x.ctl", O_RDWR | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &ctl, sizeof(ctl)), sizeof(ctl));
	f->ctl = mmap(NULL, WIRE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(f->ctl, MAP_FAILED);
	close(fd);
}

static void fixture_make(struct fixture *f, uint64_t bytes, uint32_t lanes)
{
	struct ring_shape shape = {bytes, lanes, WIRE_PAGE};

	memset(f, 0, sizeof(*f));
	strcpy(f->dir, "/tmp/test-ring-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY);
	fixture_ctl(f);
	assert_int_equal(ring_create(f->dirfd, "x.ring", &shape, &f->map), 0);
	strcpy(f->map.ring->ctl, "x.ctl");
	f->map.ring->clock = WIRE_CLOCK_MONOTONIC;
	f->map.ring->ticks_per_s = 1000000000;
	f->w = aligned_alloc(64, sizeof(*f->w));
	memset(f->w, 0, sizeof(*f->w));
	ring_writer_init(f->w, f->map.base, &f->map.lanes[0], f->ctl);
}

static void fixture_attach(struct fixture *f)
{
	char why[128] = "";

	assert_int_equal(reader_open(f->dirfd, "x.ring", &f->r, why), 0);
}

static void fixture_done(struct fixture *f)
{
	reader_done(&f->r);
	munmap(f->ctl, WIRE_PAGE);
	ring_unmap(&f->map);
	unlinkat(f->dirfd, "x.ring", 0);
	unlinkat(f->dirfd, "x.ctl", 0);
	close(f->dirfd);
	rmdir(f->dir);
	free(f->w);
}

/* Write one record of n slots carrying the number i; 0 or the reason not. */
static int put(struct ring_writer *w, uint32_t n, uint64_t i)
{
	struct wire_rec *r;
	uint64_t hold;
	bool behind;
	int err;

	while (!(r = ring_begin(w, n, &hold))) {
		err = ring_make_room(w, n, (uint64_t)clock_ns(CLOCK_MONOTONIC), &behind);
		if (err)
			return err;
	}
	memset(r, 0, n * sizeof(*r));
	r->type = n == 1 ? WIRE_SET : WIRE_FRAME;
	r->slots = (uint16_t)n;
	r->time = i;
	r->end = i * 3;
	ring_commit(w, n, 1, hold);
	return 0;
}

static void keep_on(struct fixture *f)
{
	f->ctl->keep_span = 10000000000;
	f->ctl->keep_until = (uint64_t)clock_ns(CLOCK_MONOTONIC) + 10000000000;
}

/* Drain once; numbers go to out; returns how many. */
static size_t take(struct fixture *f, uint64_t *out, size_t cap)
{
	const struct wire_rec *r, *end;
	uint64_t n;
	size_t k = 0;

	assert_int_equal(reader_drain(&f->r, 0, drain_buf, sizeof(drain_buf), &r, &n), 0);
	if (n == 0)
		return 0;
	for (end = r + n; r < end; r += r->slots) {
		if (r->type == WIRE_PAD)
			continue;
		assert_int_equal(r->end, r->time * 3);
		assert_true(k < cap);
		out[k++] = r->time;
	}
	return k;
}

static void test_order_and_wrap(void **state)
{
	struct fixture f;
	uint64_t out[4096], next = 0, i = 0;
	size_t n, k;
	unsigned seed = 1;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 2);
	fixture_attach(&f);
	keep_on(&f);
	while (i < 200000) {
		uint32_t slots = rand_r(&seed) % 4 ? 1 : 1 + rand_r(&seed) % 100;

		if (put(f.w, slots, i) == 0)
			i++;
		if (rand_r(&seed) % 300 == 0) {
			while ((n = take(&f, out, 4096)) > 0)
				for (k = 0; k < n; k++)
					assert_int_equal(out[k], next++);
			reader_ack(&f.r);
		}
	}
	while ((n = take(&f, out, 4096)) > 0)
		for (k = 0; k < n; k++)
			assert_int_equal(out[k], next++);
	assert_int_equal(next, i);
	assert_int_equal(f.r.lane[0].stored, i);
	assert_int_equal(f.r.lane[0].rec, i);
	assert_int_equal(f.r.lane[0].overwritten, 0);
	assert_false(f.r.lane[0].quarantined);
	fixture_done(&f);
}

static void test_keep_drops_new(void **state)
{
	struct fixture f;
	uint64_t out[8192], accepted = 0, dropped = 0, i;
	size_t n, got = 0;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 1);
	fixture_attach(&f);
	keep_on(&f);
	for (i = 0; i < 20000; i++) {
		int err = put(f.w, 1, i);

		if (err == 0)
			accepted++;
		else if (err == -ENOBUFS)
			dropped++;
	}
	assert_int_equal(accepted, f.map.lanes[0].slots);
	assert_int_equal(accepted + dropped, 20000);
	/* The oldest are there, in order. */
	while ((n = take(&f, out, 8192)) > 0) {
		for (i = 0; i < n; i++)
			assert_int_equal(out[i], got + i);
		got += n;
	}
	assert_int_equal(got, accepted);
	/* Room again only after the ack. */
	assert_int_equal(put(f.w, 1, 1), -ENOBUFS);
	reader_ack(&f.r);
	assert_int_equal(put(f.w, 1, 1), 0);
	fixture_done(&f);
}

static void test_wrap_keeps_end(void **state)
{
	struct fixture f;
	uint64_t out[8192], i, slots, first = 0, last = 0, total = 0;
	const uint64_t count = 50000;
	size_t n;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 1);
	slots = f.map.lanes[0].slots;
	for (i = 0; i < count; i++)
		assert_int_equal(put(f.w, i % 7 == 0 ? 5 : 1, i), 0);
	fixture_attach(&f);
	while ((n = take(&f, out, 8192)) > 0) {
		if (total == 0)
			first = out[0];
		for (i = 0; i < n; i++)
			assert_int_equal(out[i], first + total + i);
		total += n;
		last = out[n - 1];
	}
	assert_int_equal(last, count - 1);
	/* The flight recorder keeps at least three quarters of the lane. */
	assert_true(f.w->head - f.w->floor >= slots * 3 / 4);
	assert_int_equal(f.r.lane[0].overwritten, first);
	assert_int_equal(f.r.lane[0].overwritten + f.r.lane[0].stored, count);
	assert_int_equal(f.r.lane[0].rec, count);
	fixture_done(&f);
}

/* Reads, rewinds, agents that come and go, KEEP and WRAP in random order: every
 * record is acked once, in order, or counted as overwritten or dropped. */
static void test_random_life(void **state)
{
	struct fixture f;
	uint64_t *acked = calloc(400000, sizeof(*acked)), n_acked = 0, n_read;
	uint64_t attempts = 0, dropped = 0, i, overwritten;
	unsigned seed = 7;
	size_t n;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 1);
	fixture_attach(&f);
	while (attempts < 300000) {
		for (i = rand_r(&seed) % 3000; i > 0; i--)
			if (put(f.w, rand_r(&seed) % 5 ? 1 : 1 + rand_r(&seed) % 40, attempts++) <
			    0)
				dropped++;
		if (rand_r(&seed) % 8 == 0)
			f.ctl->keep_until = 0;
		if (rand_r(&seed) % 8 == 0)
			keep_on(&f);
		n_read = n_acked;
		for (i = rand_r(&seed) % 6; i > 0; i--) {
			n = take(&f, acked + n_read, 400000 - n_read);
			n_read += n;
		}
		switch (rand_r(&seed) % 4) {
		case 0:
			reader_rewind(&f.r);
			break;
		case 1:
			/* Killed before the ack: a new agent begins at the tail. */
			overwritten = f.r.lane[0].acked.overwritten;
			i = f.r.lane[0].acked.stored;
			reader_done(&f.r);
			fixture_attach(&f);
			assert_true(reader_resume(&f.r, 0, f.r.lane[0].pos, f.r.lane[0].rec, i,
						  overwritten, 0));
			break;
		default:
			reader_ack(&f.r);
			n_acked = n_read;
		}
	}
	reader_rewind(&f.r);
	while ((n = take(&f, acked + n_acked, 400000 - n_acked)) > 0)
		n_acked += n;
	assert_int_equal(f.r.lane[0].stored, n_acked);
	assert_int_equal(attempts, n_acked + dropped + f.r.lane[0].overwritten);
	assert_true(dropped > 0 && f.r.lane[0].overwritten > 0);
	for (i = 1; i < n_acked; i++)
		assert_true(acked[i] > acked[i - 1]);
	free(acked);
	fixture_done(&f);
}

/* ---- two threads ---------------------------------------------------------------- */

struct writer_thread {
	struct fixture *f;
	uint64_t count, dropped;
	int done;
};

static void *writer_main(void *arg)
{
	struct writer_thread *t = arg;
	uint64_t i;

	for (i = 0; i < t->count; i++)
		if (put(t->f->w, i % 16 == 0 ? 9 : 1, i) < 0)
			t->dropped++;
	__atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void run_two_threads(bool keep)
{
	struct fixture f;
	struct writer_thread t = {.f = &f, .count = 1000000};
	uint64_t *out = calloc(WIRE_REC_SLOTS_MAX * 2, sizeof(*out)), next = 0, i;
	uint64_t waiting = 1;
	pthread_t thread;
	double share;
	size_t n;
	int done;

	fixture_make(&f, RING_BYTES_MIN, 1);
	fixture_attach(&f);
	if (keep)
		keep_on(&f);
	assert_int_equal(pthread_create(&thread, NULL, writer_main, &t), 0);
	do {
		done = __atomic_load_n(&t.done, __ATOMIC_ACQUIRE);
		n = take(&f, out, WIRE_REC_SLOTS_MAX * 2);
		for (i = 0; i < n; i++) {
			assert_true(out[i] >= next);
			next = out[i] + 1;
		}
		reader_ack(&f.r);
		assert_false(f.r.lane[0].quarantined);
		waiting = reader_waiting(&f.r, 0, &share);
	} while (!done || waiting);
	pthread_join(thread, NULL);
	assert_int_equal(t.count, f.r.lane[0].stored + f.r.lane[0].overwritten + t.dropped);
	if (keep)
		assert_int_equal(f.r.lane[0].overwritten, 0);
	else
		assert_int_equal(t.dropped, 0);
	free(out);
	fixture_done(&f);
}

static void test_two_threads_keep(void **state)
{
	(void)state;
	run_two_threads(true);
}

static void test_two_threads_wrap(void **state)
{
	(void)state;
	run_two_threads(false);
}

/* ---- hostile files ------------------------------------------------------------------ */

static void test_hostile_header(void **state)
{
	struct {
		size_t offset;
		uint64_t value;
		size_t width;
	} rows[] = {
		{offsetof(struct wire_ring, magic), 1, 8},
		{offsetof(struct wire_ring, major), WIRE_MAJOR + 1, 2},
		{offsetof(struct wire_ring, file_bytes), 1, 8},
		{offsetof(struct wire_ring, lanes), 0, 4},
		{offsetof(struct wire_ring, lanes), 0xffffffff, 4},
		{offsetof(struct wire_ring, lanes_offset), 8, 8},
		{offsetof(struct wire_ring, registry_offset), UINT64_MAX - 100, 8},
		{offsetof(struct wire_ring, registry_bytes), UINT64_MAX, 8},
		{offsetof(struct wire_ring, clock), 77, 4},
		{WIRE_PAGE + offsetof(struct wire_lane, slots), 3000, 8},
		{WIRE_PAGE + offsetof(struct wire_lane, slots), 1ull << 62, 8},
		{WIRE_PAGE + offsetof(struct wire_lane, slots_offset), 0, 8},
		{WIRE_PAGE + offsetof(struct wire_lane, slots_offset), UINT64_MAX - 31, 8},
	};
	struct fixture f;
	struct reader r;
	char why[128];
	size_t i;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 1);
	fixture_attach(&f);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned char saved[8];

		memcpy(saved, f.map.base + rows[i].offset, rows[i].width);
		memcpy(f.map.base + rows[i].offset, &rows[i].value, rows[i].width);
		why[0] = '\0';
		assert_true(reader_open(f.dirfd, "x.ring", &r, why) < 0);
		assert_true(why[0] != '\0');
		memcpy(f.map.base + rows[i].offset, saved, rows[i].width);
	}
	assert_int_equal(reader_open(f.dirfd, "x.ring", &r, why), 0);
	reader_done(&r);
	fixture_done(&f);
}

static void test_hostile_links(void **state)
{
	struct fixture f;
	struct reader r;
	char why[128];

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 1);
	fixture_attach(&f);
	assert_int_equal(symlinkat("x.ring", f.dirfd, "y.ring"), 0);
	assert_int_equal(reader_open(f.dirfd, "y.ring", &r, why), -EPERM);
	unlinkat(f.dirfd, "y.ring", 0);
	assert_int_equal(mkfifoat(f.dirfd, "y.ring", 0600), 0);
	assert_int_equal(reader_open(f.dirfd, "y.ring", &r, why), -EPERM);
	unlinkat(f.dirfd, "y.ring", 0);
	fixture_done(&f);
}

static void spoil(struct fixture *f, const struct wire_rec *bad)
{
	const struct wire_rec *r;
	uint64_t n, i;

	for (i = 0; i < 10; i++)
		assert_int_equal(put(f->w, 1, i), 0);
	memcpy(f->map.base + f->map.lanes[0].slots_offset + 5 * WIRE_SLOT, bad, sizeof(*bad));
	assert_int_equal(reader_drain(&f->r, 0, drain_buf, sizeof(drain_buf), &r, &n), 0);
	assert_int_equal(n, 5);
	assert_true(f->r.lane[0].quarantined);
	assert_true(f->r.lane[0].why[0] != '\0');
	assert_int_equal(reader_drain(&f->r, 0, drain_buf, sizeof(drain_buf), &r, &n), 0);
	assert_int_equal(n, 0);
}

static void test_hostile_records(void **state)
{
	const struct wire_rec bad[] = {
		{.type = 0, .slots = 1},
		{.type = WIRE_SET, .slots = 0},
		{.type = WIRE_SET, .slots = 2},
		{.type = WIRE_SET, .slots = 60000},
		{.type = WIRE_STEP, .slots = 6},
		{.type = WIRE_FRAME, .slots = 2, .id = 3},
		{.type = WIRE_FRAME, .slots = 2, .id = 0xffffffff},
		{.type = WIRE_EVENT, .slots = 1},
		{.type = 200, .slots = 1025},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fixture f;

		fixture_make(&f, RING_BYTES_MIN, 1);
		fixture_attach(&f);
		spoil(&f, &bad[i]);
		fixture_done(&f);
	}
}

static void test_unknown_type_is_skipped(void **state)
{
	struct fixture f;
	const struct wire_rec *r;
	struct wire_rec *at;
	uint64_t n, i;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 1);
	fixture_attach(&f);
	for (i = 0; i < 10; i++)
		put(f.w, 1, i);
	at = (struct wire_rec *)(f.map.base + f.map.lanes[0].slots_offset);
	at[4].type = 99;
	assert_int_equal(reader_drain(&f.r, 0, drain_buf, sizeof(drain_buf), &r, &n), 0);
	assert_int_equal(n, 10);
	assert_int_equal(f.r.lane[0].stored, 9);
	assert_int_equal(f.r.lane[0].broken, 1);
	assert_int_equal(f.r.lane[0].rec, 10);
	fixture_done(&f);
}

static void test_hostile_positions(void **state)
{
	const struct {
		uint64_t head, tail, floor_pos, floor_rec;
	} rows[] = {{UINT64_MAX, 0, 0, 0}, {5, 100, 0, 0}, {100, 0, 200, 10}, {1u << 20, 0, 0, 0}};
	const struct wire_rec *r;
	uint64_t n;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;
		struct wire_lane *l;

		fixture_make(&f, RING_BYTES_MIN, 1);
		l = f.map.lanes;
		l->head = rows[i].head;
		l->tail = rows[i].tail;
		l->floor[0].pos = rows[i].floor_pos;
		l->floor[0].rec = rows[i].floor_rec;
		fixture_attach(&f);
		assert_int_equal(reader_drain(&f.r, 0, drain_buf, sizeof(drain_buf), &r, &n), 0);
		assert_int_equal(n, 0);
		assert_true(f.r.lane[0].quarantined);
		fixture_done(&f);
	}
}

static void test_hostile_tail_is_not_believed(void **state)
{
	struct fixture f;
	uint64_t i, slots;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 1);
	keep_on(&f);
	slots = f.map.lanes[0].slots;
	f.map.lanes[0].tail = UINT64_MAX / 2;
	for (i = 0; i < slots; i++)
		assert_int_equal(put(f.w, 1, i), 0);
	assert_int_equal(put(f.w, 1, i), -ENOBUFS);
	f.map.lanes[0].tail = 0;
	fixture_attach(&f);
	fixture_done(&f);
}

static void test_truncated_underneath(void **state)
{
	struct fixture f;
	const struct wire_rec *r;
	uint64_t n;
	int fd;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 1);
	put(f.w, 1, 1);
	fixture_attach(&f);
	assert_true(reader_is_whole(&f.r));
	fd = openat(f.dirfd, "x.ring", O_RDWR);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	reader_drain(&f.r, 0, drain_buf, sizeof(drain_buf), &r, &n);
	reader_ack(&f.r);
	reader_keep(&f.r, 1, 1);
	assert_false(reader_is_whole(&f.r));
	/* The writer's mapping is as dead as the file: do not touch it. */
	fixture_done(&f);
}

static void test_too_large(void **state)
{
	struct fixture f;
	bool behind;

	(void)state;
	fixture_make(&f, RING_BYTES_MIN, 6);
	assert_int_equal(ring_make_room(f.w, (uint32_t)(f.w->mask + 1) / 4 + 1, 1, &behind),
			 -EMSGSIZE);
	assert_int_equal(ring_make_room(f.w, WIRE_REC_SLOTS_MAX + 1, 1, &behind), -EMSGSIZE);
	fixture_attach(&f);
	fixture_done(&f);
}

static void test_shapes(void **state)
{
	static const struct ring_shape shapes[] = {
		{RING_BYTES_MIN, 1, WIRE_PAGE},
		{RING_BYTES_MIN, 256, 65536},
		{4 << 20, 16, 256 << 10},
		{512 << 10, 4, 32 << 10},
		{(4 << 20) + 12345, 7, 3 * WIRE_PAGE},
		{64 << 20, 256, 1 << 20},
	};
	size_t i;
	uint32_t k;

	(void)state;
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct fixture f;

		fixture_make(&f, shapes[i].bytes, shapes[i].lanes);
		assert_true(f.map.bytes <= shapes[i].bytes);
		assert_true(f.map.ring->lanes >= 1 && f.map.ring->lanes <= shapes[i].lanes);
		for (k = 0; k < f.map.ring->lanes; k++)
			assert_true(f.map.lanes[k].slots >= WIRE_LANE_SLOTS_MIN);
		fixture_attach(&f);
		fixture_done(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_wrap),
		cmocka_unit_test(test_keep_drops_new),
		cmocka_unit_test(test_wrap_keeps_end),
		cmocka_unit_test(test_random_life),
		cmocka_unit_test(test_two_threads_keep),
		cmocka_unit_test(test_two_threads_wrap),
		cmocka_unit_test(test_hostile_header),
		cmocka_unit_test(test_hostile_links),
		cmocka_unit_test(test_hostile_records),
		cmocka_unit_test(test_unknown_type_is_skipped),
		cmocka_unit_test(test_hostile_positions),
		cmocka_unit_test(test_hostile_tail_is_not_believed),
		cmocka_unit_test(test_truncated_underneath),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring that somebody has spoiled: headers, links, records and positions that are not true, files
 * that are cut or too large. It costs its owner, nobody else.
 */
#include "ringtest.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

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
	struct ringtest f;
	struct reader r;
	char why[128];
	size_t i;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 1);
	ringtest_attach(&f);
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
	ringtest_done(&f);
}

static void test_hostile_links(void **state)
{
	struct ringtest f;
	struct reader r;
	char why[128];

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 1);
	ringtest_attach(&f);
	assert_int_equal(symlinkat("x.ring", f.dirfd, "y.ring"), 0);
	assert_int_equal(reader_open(f.dirfd, "y.ring", &r, why), -EPERM);
	unlinkat(f.dirfd, "y.ring", 0);
	assert_int_equal(mkfifoat(f.dirfd, "y.ring", 0600), 0);
	assert_int_equal(reader_open(f.dirfd, "y.ring", &r, why), -EPERM);
	unlinkat(f.dirfd, "y.ring", 0);
	ringtest_done(&f);
}

static void spoil(struct ringtest *f, const struct wire_rec *bad)
{
	const struct wire_rec *r;
	uint64_t n, i;

	for (i = 0; i < 10; i++)
		assert_int_equal(ringtest_put(f->w, 1, i), 0);
	memcpy(f->map.base + f->map.lanes[0].slots_offset + 5 * WIRE_SLOT, bad, sizeof(*bad));
	assert_int_equal(reader_drain(&f->r, 0, ringtest_buf, sizeof(ringtest_buf), &r, &n), 0);
	assert_int_equal(n, 5);
	assert_true(f->r.lane[0].quarantined);
	assert_true(f->r.lane[0].why[0] != '\0');
	assert_int_equal(reader_drain(&f->r, 0, ringtest_buf, sizeof(ringtest_buf), &r, &n), 0);
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
		struct ringtest f;

		ringtest_make(&f, RING_BYTES_MIN, 1);
		ringtest_attach(&f);
		spoil(&f, &bad[i]);
		ringtest_done(&f);
	}
}

static void test_unknown_type_is_skipped(void **state)
{
	struct ringtest f;
	const struct wire_rec *r;
	struct wire_rec *at;
	uint64_t n, i;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 1);
	ringtest_attach(&f);
	for (i = 0; i < 10; i++)
		ringtest_put(f.w, 1, i);
	at = (struct wire_rec *)(f.map.base + f.map.lanes[0].slots_offset);
	at[4].type = 99;
	assert_int_equal(reader_drain(&f.r, 0, ringtest_buf, sizeof(ringtest_buf), &r, &n), 0);
	assert_int_equal(n, 10);
	assert_int_equal(f.r.lane[0].stored, 9);
	assert_int_equal(f.r.lane[0].broken, 1);
	assert_int_equal(f.r.lane[0].rec, 10);
	ringtest_done(&f);
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
		struct ringtest f;
		struct wire_lane *l;

		ringtest_make(&f, RING_BYTES_MIN, 1);
		l = f.map.lanes;
		l->head = rows[i].head;
		l->tail = rows[i].tail;
		l->floor[0].pos = rows[i].floor_pos;
		l->floor[0].rec = rows[i].floor_rec;
		ringtest_attach(&f);
		assert_int_equal(reader_drain(&f.r, 0, ringtest_buf, sizeof(ringtest_buf), &r, &n),
				 0);
		assert_int_equal(n, 0);
		assert_true(f.r.lane[0].quarantined);
		ringtest_done(&f);
	}
}

static void test_hostile_tail_is_not_believed(void **state)
{
	struct ringtest f;
	uint64_t i, slots;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 1);
	ringtest_keep(&f);
	slots = f.map.lanes[0].slots;
	f.map.lanes[0].tail = UINT64_MAX / 2;
	for (i = 0; i < slots; i++)
		assert_int_equal(ringtest_put(f.w, 1, i), 0);
	assert_int_equal(ringtest_put(f.w, 1, i), -ENOBUFS);
	f.map.lanes[0].tail = 0;
	ringtest_attach(&f);
	ringtest_done(&f);
}

static void test_truncated_underneath(void **state)
{
	struct ringtest f;
	const struct wire_rec *r;
	uint64_t n;
	int fd;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 1);
	ringtest_put(f.w, 1, 1);
	ringtest_attach(&f);
	assert_true(reader_is_whole(&f.r));
	fd = openat(f.dirfd, "x.ring", O_RDWR);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	reader_drain(&f.r, 0, ringtest_buf, sizeof(ringtest_buf), &r, &n);
	reader_ack(&f.r);
	reader_keep(&f.r, 1, 1);
	assert_false(reader_is_whole(&f.r));
	/* The writer's mapping is as dead as the file: do not touch it. */
	ringtest_done(&f);
}

static void test_too_large(void **state)
{
	struct ringtest f;
	bool behind;

	(void)state;
	ringtest_make(&f, RING_BYTES_MIN, 6);
	assert_int_equal(ring_make_room(f.w, (uint32_t)(f.w->mask + 1) / 4 + 1, 1, &behind),
			 -EMSGSIZE);
	assert_int_equal(ring_make_room(f.w, WIRE_REC_SLOTS_MAX + 1, 1, &behind), -EMSGSIZE);
	ringtest_attach(&f);
	ringtest_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_header),
		cmocka_unit_test(test_hostile_links),
		cmocka_unit_test(test_hostile_records),
		cmocka_unit_test(test_unknown_type_is_skipped),
		cmocka_unit_test(test_hostile_positions),
		cmocka_unit_test(test_hostile_tail_is_not_believed),
		cmocka_unit_test(test_truncated_underneath),
		cmocka_unit_test(test_too_large),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}

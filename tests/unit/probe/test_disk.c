/* SPDX-License-Identifier: Apache-2.0
 *
 * The group disk on stored trees of two kernels and a container, and on this machine.
 */
#include "probe/linux/disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/groups.h"
#include "probe/linux/slots.h"
#include "reading.h"
#include "stored.h"
#include "taken.h"

#define NVME "device=\"nvme0n1\""

static struct reading r;
static struct taken t;

static int near(double a, double b)
{
	return fabs(a - b) < 1e-12;
}

/* One disk, nvme0n1, with these figures. */
static void one(const char *root, const char *figures)
{
	char text[512];

	snprintf(text, sizeof(text), " 259 0 nvme0n1 %s\n", figures);
	stored_write(root, "proc/diskstats", text);
}

static void test_which(void **state)
{
	(void)state;
	/* Not the loop device, the partition, the hidden path, zram, nor what never worked. */
	assert_int_equal(reading_open(&r, &probe_disk, stored_path("storage6")), 0);
	reading_at(&r, 10);
	assert_int_equal(probe_points(r.set), 2 * 8);
	assert_true(reading_has(&r, "disk/read", NVME));
	assert_true(reading_has(&r, "disk/read", "device=\"md0\""));
	reading_close(&r);

	assert_int_equal(reading_open(&r, &probe_disk, stored_path("storage_el7")), 0);
	reading_at(&r, 10);
	assert_int_equal(probe_points(r.set), 3 * 8);
	assert_true(reading_has(&r, "disk/busy", "device=\"sda\""));
	assert_true(reading_has(&r, "disk/busy", "device=\"dm-0\""));
	assert_true(reading_has(&r, "disk/busy", "device=\"cciss/c0d0\""));
	reading_close(&r);

	/* No /sys: by name. */
	assert_int_equal(reading_open(&r, &probe_disk, stored_path("storage_docker")), 0);
	reading_at(&r, 10);
	assert_int_equal(probe_points(r.set), 2 * 8);
	assert_true(reading_has(&r, "disk/queue", "device=\"sda\""));
	assert_true(reading_has(&r, "disk/queue", NVME));
	reading_close(&r);

	assert_int_equal(reading_open(&r, &probe_disk, stored_path("missing")), -ENODEV);
	assert_non_null(strstr(r.err.text, "/proc/diskstats"));
}

static void test_figures(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_disk, root), 0);
	reading_at(&r, 10);
	assert_string_equal(reading_why(&r, "disk/read", NVME), "needs a second reading");
	assert_string_equal(reading_why(&r, "disk/busy", NVME), "needs a second reading");

	/* In 2 s: 100 reads of 8000 sectors in 50 ms, no write, busy for 500 ms, 3000 ms of
	 * requests. */
	one(root, "1100 0 16000 300 500 0 4000 1000 0 1100 4250 0 0 0 0 10 5");
	reading_at(&r, 12);
	assert_true(reading_value(&r, "disk/read", NVME) == 8000 * 512);
	assert_true(reading_value(&r, "disk/written", NVME) == 0);
	assert_true(reading_value(&r, "disk/reads", NVME) == 100);
	assert_true(reading_value(&r, "disk/writes", NVME) == 0);
	assert_true(near(reading_value(&r, "disk/busy", NVME), 0.25));
	assert_true(near(reading_value(&r, "disk/queue", NVME), 1.5));
	assert_true(near(reading_value(&r, "disk/latency/read", NVME), 0.0005));
	assert_non_null(strstr(reading_why(&r, "disk/latency/write", NVME), "none was completed"));

	/* Nothing in 8 s (missed ticks), then 40 writes of 320 sectors in 20 ms, busy for
	 * longer than the time: the kernel counts in ticks. */
	one(root, "1100 0 16000 300 500 0 4000 1000 0 1100 4250");
	reading_at(&r, 20);
	assert_true(reading_value(&r, "disk/busy", NVME) == 0);
	one(root, "1100 0 16000 300 540 0 4320 1020 0 1604 4270");
	reading_at(&r, 20.5);
	assert_true(reading_value(&r, "disk/written", NVME) == 320 * 512);
	assert_true(reading_value(&r, "disk/busy", NVME) == 1);
	assert_true(near(reading_value(&r, "disk/queue", NVME), 0.04));
	assert_true(near(reading_value(&r, "disk/latency/write", NVME), 0.0005));
	reading_close(&r);
	stored_remove(root, "");
}

static void test_wrap(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_disk, root), 0);
	one(root, "10 0 80 4294967290 10 0 80 4294967200 0 4294967000 4294966296");
	reading_at(&r, 100);
	/* 4294967296 is 0: 6 + 24 ms of 10 reads, 96 ms of 4 writes, 296 + 204 ms busy, 1000 +
	 * 500 ms of requests. */
	one(root, "20 0 160 24 14 0 160 0 0 204 500");
	reading_at(&r, 101);
	assert_true(near(reading_value(&r, "disk/latency/read", NVME), 0.003));
	assert_true(near(reading_value(&r, "disk/latency/write", NVME), 0.024));
	assert_true(near(reading_value(&r, "disk/busy", NVME), 0.5));
	assert_true(near(reading_value(&r, "disk/queue", NVME), 1.5));

	/* Begun anew: neither negative nor huge. */
	one(root, "1 0 8 1 1 0 8 1 0 1 1");
	reading_at(&r, 102);
	assert_string_equal(reading_why(&r, "disk/read", NVME), "the counter began anew");
	assert_string_equal(reading_why(&r, "disk/busy", NVME), "the counter began anew");
	assert_string_equal(reading_why(&r, "disk/latency/read", NVME), "the counter began anew");
	one(root, "3 0 24 2 1 0 8 1 0 101 1");
	reading_at(&r, 103);
	assert_true(reading_value(&r, "disk/read", NVME) == 16 * 512);
	assert_true(near(reading_value(&r, "disk/busy", NVME), 0.1));
	reading_close(&r);
	stored_remove(root, "");
}

static void test_gone(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_disk, root), 0);
	reading_at(&r, 1);
	stored_edit(root, "proc/diskstats", " nvme0n1 ", " nvme9n1 ");
	reading_at(&r, 2);
	assert_string_equal(reading_why(&r, "disk/read", NVME), "the device is gone");
	assert_string_equal(reading_why(&r, "disk/busy", NVME), "the device is gone");
	assert_true(reading_value(&r, "disk/reads", "device=\"md0\"") == 0);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_string_equal(t.events[0].kind, "disk-gone");
	assert_string_equal(t.events[0].text, "the disk nvme0n1 is gone");

	/* Back, as a new one; its partition stays out, and so does an unknown name. */
	stored_edit(root, "proc/diskstats", " nvme9n1 ", " nvme0n1 ");
	reading_at(&r, 3);
	assert_string_equal(reading_why(&r, "disk/busy", NVME), "needs a second reading");
	reading_at(&r, 4);
	assert_true(reading_value(&r, "disk/busy", NVME) == 0);
	assert_int_equal(probe_points(r.set), 2 * 8);

	/* A disk that was never used, now is. */
	stored_edit(root, "proc/diskstats", "nvme1n1 0 0 0 0", "nvme1n1 5 0 40 1");
	reading_at(&r, 5);
	assert_true(reading_has(&r, "disk/read", "device=\"nvme1n1\""));
	reading_close(&r);
	stored_remove(root, "");
}

/* Lines that no kernel writes leave the others alone; an unreadable file leaves a hole
 * that the next reading spans. */
static void test_malformed(void **state)
{
	static char huge[1200000];
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_disk, root), 0);
	stored_write(root, "proc/diskstats",
		     "\n 1 2\n x y z\n 8 0 sda 1 2 3\n 8 0 sdb 1 2 3 4 5 6 7 8 9 "
		     "99999999999999999999999 1\n 259 0 nvme0n1 1 0 8 1 1 0 8 1 0 1 1\n");
	reading_at(&r, 1);
	assert_int_equal(probe_points(r.set), 8);
	memset(huge, '\n', sizeof(huge) - 1);
	stored_write(root, "proc/diskstats", huge);
	reading_at(&r, 2);
	assert_non_null(strstr(reading_why(&r, "disk/read", NVME), "cannot be read"));
	one(root, "2 0 16 2 1 0 8 1 0 401 1");
	reading_at(&r, 3);
	assert_true(reading_value(&r, "disk/read", NVME) == 8 * 512);
	assert_true(near(reading_value(&r, "disk/busy", NVME), 0.2));
	reading_close(&r);
	stored_remove(root, "");
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		int yes;
	} rows[] = {{"sda1", 1},      {"sda", 0},       {"vdb12", 1}, {"xvda1", 1}, {"nvme0n1", 0},
		    {"nvme0n1p3", 1}, {"mmcblk0p1", 1}, {"md127", 0}, {"md0p1", 1}, {"dm-3", 0},
		    {"", 0},          {"7", 0},         {"p1", 0}};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(disk_is_partition_name(rows[i].name), rows[i].yes);
}

struct item {
	struct slot slot;
	int number;
};

static void count(void *arg, void *item)
{
	*(int *)arg += ((struct item *)item)->number;
}

static void test_slots(void **state)
{
	struct slots l;
	struct item *p;
	char name[16];
	int i, gone = 0;
	bool is_new;

	(void)state;
	slots_init(&l, sizeof(struct item), 100);
	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		p = slots_get(&l, name, strlen(name), &is_new);
		assert_non_null(p);
		assert_true(is_new && p->number == 0);
		p->number = i + 1;
	}
	assert_null(slots_get(&l, "more", 4, &is_new));
	/* A name is not the beginning of another one. */
	p = slots_get(&l, "n1x", 2, &is_new);
	assert_false(is_new);
	assert_int_equal(p->number, 2);
	/* Every third comes again, backwards. */
	slots_begin(&l);
	for (i = 99; i >= 0; i -= 3) {
		snprintf(name, sizeof(name), "n%d", i);
		p = slots_get(&l, name, strlen(name), &is_new);
		assert_false(is_new);
		assert_int_equal(p->number, i + 1);
	}
	slots_end(&l, count, &gone);
	assert_int_equal(l.len, 34);
	assert_int_equal(gone, 5050 - (1 + 100) * 34 / 2);
	for (i = 0; i < 34; i++)
		assert_int_equal(((struct item *)slots_at(&l, (size_t)i))->number, 3 * i + 1);
	slots_done(&l, NULL);
}

static void test_real(void **state)
{
	struct probe_view v;
	uint32_t i;

	(void)state;
	if (reading_open(&r, &probe_disk, "") != 0)
		skip();
	reading_at(&r, 1);
	reading_at(&r, 2);
	for (i = 0; i < probe_points(r.set); i++) {
		probe_point_at(r.set, i, &v);
		if (v.known)
			assert_true(v.value >= 0);
	}
	reading_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which), cmocka_unit_test(test_figures),
		cmocka_unit_test(test_wrap),  cmocka_unit_test(test_gone),
		cmocka_unit_test(test_names), cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_slots), cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

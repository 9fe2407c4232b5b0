/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups network and link on stored trees, and that disk and network each have
 * a time base of their own.
 */
#include "probe/linux/network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "probe/groups.h"
#include "reading.h"
#include "stored.h"
#include "taken.h"

#define ETH0 "interface=\"eth0\""
#define ENS "interface=\"ens1f0np0\""

static struct reading r;
static struct taken t;

static void test_which(void **state)
{
	(void)state;
	assert_int_equal(reading_open(&r, &probe_network, stored_path("storage_el7")), 0);
	reading_at(&r, 1);
	assert_int_equal(probe_points(r.set), 2 + 2 * 6);
	assert_true(reading_has(&r, "network/received", ETH0));
	assert_true(reading_has(&r, "network/received", "interface=\"ib0\""));
	assert_string_equal(reading_why(&r, "network/sent", ETH0), "needs a second reading");
	reading_close(&r);

	assert_int_equal(reading_open(&r, &probe_network, stored_path("storage6")), 0);
	reading_at(&r, 1);
	assert_int_equal(probe_points(r.set), 2 + 2 * 6);
	assert_true(reading_has(&r, "network/received", ENS));
	assert_true(reading_has(&r, "network/received", "interface=\"bond0\""));
	reading_close(&r);

	/* In a container, without /proc/net/snmp. */
	assert_int_equal(reading_open(&r, &probe_network, stored_path("storage_docker")), 0);
	reading_at(&r, 1);
	assert_int_equal(probe_points(r.set), 2 + 6);
	assert_non_null(strstr(reading_why(&r, "network/tcp/retransmits", ""), "snmp"));
	reading_close(&r);

	assert_int_equal(reading_open(&r, &probe_network, stored_path("missing")), -ENODEV);
}

static void test_figures(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage_el7", root);
	assert_int_equal(reading_open(&r, &probe_network, root), 0);
	reading_at(&r, 1);
	/* Received 4294967000 to 704: 296 + 704 bytes. Errors 1 + 3 to 2 + 5, drops 2 + 4 to
	 * 12 + 4. TCP 90000 to 90100 and 120 to 123. */
	stored_edit(root, "proc/net/dev",
		    "  eth0:4294967000 3000000    1    2    0     0          0         7 1000000 "
		    "10000    3    4",
		    "  eth0:704 3000010 2 12 0 0 0 7 1500000 10400 5 4");
	stored_edit(root, "proc/net/snmp", "90000 120", "90100 123");
	reading_at(&r, 2);
	assert_true(reading_value(&r, "network/received", ETH0) == 1000);
	assert_true(reading_value(&r, "network/sent", ETH0) == 500000);
	assert_true(reading_value(&r, "network/packets/received", ETH0) == 10);
	assert_true(reading_value(&r, "network/packets/sent", ETH0) == 400);
	assert_true(reading_value(&r, "network/errors", ETH0) == 3);
	assert_true(reading_value(&r, "network/drops", ETH0) == 10);
	assert_true(reading_value(&r, "network/received", "interface=\"ib0\"") == 0);
	assert_true(reading_value(&r, "network/tcp/segments", "") == 100);
	assert_true(reading_value(&r, "network/tcp/retransmits", "") == 3);

	/* The driver was loaded anew. */
	stored_edit(root, "proc/net/dev", "eth0:704 3000010 2 12 0 0 0 7 1500000 10400 5 4",
		    "eth0:100 1 0 0 0 0 0 0 100 1 0 0");
	reading_at(&r, 3);
	assert_string_equal(reading_why(&r, "network/received", ETH0), "the counter began anew");
	assert_string_equal(reading_why(&r, "network/errors", ETH0), "the counter began anew");

	stored_edit(root, "proc/net/dev", "eth0:100", "eth9:100");
	reading_at(&r, 4);
	assert_string_equal(reading_why(&r, "network/received", ETH0), "the interface is gone");
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_string_equal(t.events[0].kind, "network-gone");
	assert_true(reading_has(&r, "network/sent", "interface=\"eth9\""));
	reading_close(&r);
	stored_remove(root, "");
}

/* 64-bit counters and their sum of 32 bits of TCP. */
static void test_wide(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_network, root), 0);
	reading_at(&r, 1);
	stored_edit(root, "proc/net/dev", "ens1f0np0: 20000000000", "ens1f0np0: 45000000000");
	stored_edit(root, "proc/net/snmp", "4294967290 7", "10 7");
	reading_at(&r, 2);
	assert_true(reading_value(&r, "network/received", ENS) == 25e9);
	assert_true(reading_value(&r, "network/tcp/segments", "") == 16);
	reading_close(&r);
	stored_remove(root, "");
}

static void test_lines(void **state)
{
	static const char *const bad[] = {"",
					  ":",
					  "eth0",
					  " face |bytes packets",
					  "eth0: 1 2 3",
					  "eth0: 1 2 3 4 5 6 7 8 9 10 11",
					  "eth0: 1 2 3 4 5 6 7 8 9 10 11 99999999999999999999",
					  "eth0: 1 2 18446744073709551615 4 5 6 7 8 9 10 1 2"};
	static const char alias[] = "  eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 0";
	struct network_line l;
	uint64_t sent = 7, again = 7;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(network_parse(bad[i], bad[i] + strlen(bad[i]), &l), -EBADMSG);
	assert_int_equal(network_parse(alias, alias + strlen(alias), &l), 0);
	assert_int_equal(l.len, 6);
	assert_int_equal(l.received, 1);
	assert_int_equal(l.sent, 9);
	assert_int_equal(l.errors, 14);
	assert_int_equal(l.drops, 16);

	assert_int_equal(network_parse_tcp("Tcp: OutSegs\nTcp: 5\n", 20, &sent, &again), -ENOENT);
	assert_int_equal(network_parse_tcp("Tcp: OutSegs RetransSegs\nTcp: 5\n", 32, &sent, &again),
			 -EBADMSG);
	assert_int_equal(
		network_parse_tcp("Tcp: OutSegs RetransSegs\nTcp: 5 -1\n", 35, &sent, &again),
		-EBADMSG);
	assert_int_equal(network_parse_tcp("Tcp: OutSegs RetransSegs\n", 25, &sent, &again),
			 -ENOENT);
	assert_int_equal(sent, 7);
	assert_int_equal(network_parse_tcp("Tcp: RetransSegs OutSegs\nTcp: 5 6", 33, &sent, &again),
			 0);
	assert_int_equal(sent, 6);
	assert_int_equal(again, 5);
}

static void read_both(void *disk, void *network, struct probe_set *s, double at_s)
{
	const struct probe_now now = {(int64_t)(at_s * 1e9), (int64_t)(at_s * 1e9) + 5};

	probe_set_begin(s, &now);
	if (disk)
		probe_disk.read(disk, s, &now);
	if (network)
		probe_network.read(network, s, &now);
	probe_set_end(s);
}

static double value_at(const char *name, const char *labels, int64_t boot_ns)
{
	size_t i;

	for (i = 0; i < t.n_values; i++)
		if (strcmp(t.values[i].name, name) == 0 &&
		    strcmp(t.values[i].labels, labels) == 0 && t.values[i].boot_ns == boot_ns)
			return t.values[i].value;
	fail_msg("no value of %s", name);
	return 0;
}

/* Disk and network in one set, read at times that have nothing to do with each other: a
 * share is of the disk's own time, and amounts carry the time of their own reading. */
static void test_times(void **state)
{
	struct probe_env env = {0};
	struct probe_set *s = probe_set_new();
	void *disk, *network;
	char root[STORED_PATH];
	struct err e = {0};

	(void)state;
	stored_copy("storage6", root);
	env.root = root;
	assert_int_equal(probe_disk.open(&env, s, &disk, &e), 0);
	assert_int_equal(probe_network.open(&env, s, &network, &e), 0);
	read_both(disk, NULL, s, 10);
	read_both(NULL, network, s, 13.5);
	/* 2 s of 5 busy; 1000 bytes in 0.5 s */
	stored_edit(root, "proc/diskstats", "nvme0n1 1000 0 8000 250 500 0 4000 1000 0 600",
		    "nvme0n1 1000 0 8000 250 500 0 4000 1000 0 2600");
	stored_edit(root, "proc/net/dev", "ens1f0np0: 20000000000", "ens1f0np0: 20000001000");
	read_both(NULL, network, s, 14);
	read_both(disk, NULL, s, 15);
	taken_take(&t, s);
	assert_true(value_at("network/received", ENS, 14000000005) == 1000);
	assert_true(fabs(value_at("disk/busy", "device=\"nvme0n1\"", 15000000005) - 0.4) < 1e-12);
	probe_disk.close(disk);
	probe_network.close(network);
	probe_set_free(s);
	stored_remove(root, "");
}

static void test_link(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_link, root), 0);
	reading_at(&r, 1);
	assert_int_equal(probe_points(r.set), 3 * 2); /* not lo, not docker0 */
	assert_true(reading_value(&r, "network/speed", ENS) == 25e9);
	assert_true(reading_value(&r, "network/up", ENS) == 1);
	assert_true(reading_value(&r, "network/speed", "interface=\"bond0\"") == 25e9);
	assert_true(reading_value(&r, "network/up", "interface=\"eno2\"") == 0);
	assert_non_null(
		strstr(reading_why(&r, "network/speed", "interface=\"eno2\""), "does not tell"));
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 0);

	stored_write(root, "sys/class/net/ens1f0np0/operstate", "down\n");
	stored_write(root, "sys/class/net/eno2/operstate", "testing\n");
	stored_remove(root, "sys/class/net/bond0");
	reading_at(&r, 11);
	assert_true(reading_value(&r, "network/up", ENS) == 0);
	assert_non_null(
		strstr(reading_why(&r, "network/up", "interface=\"eno2\""), "does not tell"));
	assert_string_equal(reading_why(&r, "network/up", "interface=\"bond0\""),
			    "the interface is gone");
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_string_equal(t.events[0].kind, "network-link");
	assert_int_equal(t.events[0].severity, 3);
	stored_write(root, "sys/class/net/ens1f0np0/operstate", "up\n");
	reading_at(&r, 21);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_int_equal(t.events[0].severity, 1);
	reading_close(&r);
	stored_remove(root, "");
	assert_int_equal(reading_open(&r, &probe_link, stored_path("missing")), -ENODEV);
}

static void test_real(void **state)
{
	struct probe_view v;
	uint32_t i;

	(void)state;
	if (reading_open(&r, &probe_network, "") != 0)
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
		cmocka_unit_test(test_wide),  cmocka_unit_test(test_lines),
		cmocka_unit_test(test_times), cmocka_unit_test(test_link),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

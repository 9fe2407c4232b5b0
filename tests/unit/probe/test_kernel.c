/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of the kernel's log as drivers write them, and the groups kernel and files on
 * a stored tree whose log grows.
 */
#include "probe/linux/kmsg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "probe/groups.h"
#include "reading.h"
#include "stored.h"
#include "taken.h"

static struct reading r;
static struct taken t;

/* ---- records -------------------------------------------------------------------- */

static const char *match(const char *line, long pid, uint64_t since_us)
{
	return kmsg_match(line, line + strlen(line), pid, since_us);
}

static void test_kills(void **state)
{
	static const char modern[] =
		"3,2003,50000200,-,caller=T4242;Memory cgroup out of memory: Killed process 4242 "
		"(python) total-vm:9000000kB, anon-rss:8000000kB";

	(void)state;
	assert_ptr_equal(match(modern, 4242, 0), strchr(modern, ';') + 1);
	assert_non_null(match(modern, 4242, 50000200));
	assert_null(match(modern, 4242, 50000201));
	assert_null(match(modern, 424, 0));
	assert_null(match(modern, 42420, 0));
	assert_null(match(modern, -1, 0));
	assert_non_null(
		match("3,2005,6,-;Out of memory: Killed process 777 (my (odd) name) t", 777, 0));
	/* before Linux 5.1: chosen, but a child was sacrificed */
	assert_null(
		match("4,100,9,-;Out of memory: Kill process 55 (python) score 901 or sacrifice "
		      "child",
		      55, 0));
	assert_non_null(match("3,101,9,-;Killed process 56 (worker) total-vm:100kB", 56, 0));
	assert_non_null(
		match("3,102,9,-;Killed process 57, UID 1000, (worker) total-vm:1kB", 57, 0));
	/* written by a program, or not at the start of a message */
	assert_null(match("12,2006,7,-;Out of memory: Killed process 888 (forged) total-vm:1kB",
			  888, 0));
	assert_null(match("4,2007,7,-;wlan: Out of memory: Killed process 888 (no)", 888, 0));
	assert_null(match(" SUBSYSTEM=cpu", 1, 0));
	assert_null(match("", 1, 0));
	assert_null(match("3,1,1", 1, 0));
	assert_null(match("3,1,99999999999999999999,-;Killed process 1 (x)", 1, 0));
}

struct news_row {
	const char *text;
	const char *kind; /* NULL: of no concern */
	int severity;
	enum kmsg_count count;
	const char *pci;
	int xid, pid;
	const char *name;
};

static const struct news_row news_rows[] = {
	/* NVIDIA, XID Errors r555, and older forms */
	{"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
	 "bus.",
	 "xid", 3, KMSG_COUNT_XID, "0000:3b:00", 79, -1, ""},
	{"NVRM: Xid (PCI:0000:03:00): 31, pid=1234, name=python, Ch 00000010, intr 10000000.",
	 "xid", 3, KMSG_COUNT_XID, "0000:03:00", 31, 1234, ""},
	{"NVRM: Xid (PCI:0000:03:00): 13, pid='4321', name=python, Graphics Exception", "xid", 3,
	 KMSG_COUNT_XID, "0000:03:00", 13, 4321, ""},
	{"NVRM: Xid (0000:03:00): 8, Channel 00000001", "xid", 3, KMSG_COUNT_XID, "0000:03:00", 8,
	 -1, ""},
	{"NVRM: Xid (PCI:0000:03:00", "xid", 3, KMSG_COUNT_XID, "", -1, -1, ""},
	{"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 44 sourcetrack timeout "
	 "error",
	 "sxid", 3, KMSG_COUNT_NONE, "0000:c1:00.0", 24007, -1, ""},
	{"NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", "gpu-lost", 3, KMSG_COUNT_NONE, "",
	 -1, -1, ""},
	{"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", NULL, 0, 0, "", -1, -1, ""},
	/* memory */
	{"Memory cgroup out of memory: Killed process 42 (pt_data_worker) total-vm:9kB, UID:0",
	 "kernel-oom", 3, KMSG_COUNT_OOM, "", -1, 42, "pt_data_worker"},
	{"Out of memory: Killed process 777 (my (odd) name) total-vm:1kB", "kernel-oom", 3,
	 KMSG_COUNT_OOM, "", -1, 777, "my (odd) name"},
	{"Killed process 57, UID 1000, (worker) total-vm:100kB", "kernel-oom", 3, KMSG_COUNT_OOM,
	 "", -1, 57, "worker"},
	{"Out of memory: Kill process 55 (python) score 901 or sacrifice child", NULL, 0, 0, "", -1,
	 -1, ""},
	{"oom_reaper: reaped process 4242 (python), now anon-rss:0kB", NULL, 0, 0, "", -1, -1, ""},
	{"INFO: task python:1234 blocked for more than 122 seconds.", "hung-task", 3,
	 KMSG_COUNT_HUNG, "", -1, 1234, "python"},
	{"INFO: task kworker/u8:2:345 blocked for more than 120 seconds.", "hung-task", 3,
	 KMSG_COUNT_HUNG, "", -1, 345, "kworker/u8:2"},
	{"INFO: task a b:7 blocked in I/O wait for more than 120 seconds.", "hung-task", 3,
	 KMSG_COUNT_HUNG, "", -1, 7, "a b"},
	{"INFO: task a:7 is blocked on a mutex likely owned by task b:8.", NULL, 0, 0, "", -1, -1,
	 ""},
	{"mce: [Hardware Error]: Machine check events logged", "machine-check", 3,
	 KMSG_COUNT_MACHINE_CHECK, "", -1, -1, ""},
	{"mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: be00000000800400", "machine-check",
	 3, KMSG_COUNT_NONE, "", -1, -1, ""},
	{"{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0",
	 "machine-check", 3, KMSG_COUNT_MACHINE_CHECK, "", -1, -1, ""},
	{"EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0", "memory-error", 2,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"EDAC MC0: 1 UE memory scrubbing error on CPU_SrcID#0", "memory-error", 3, KMSG_COUNT_NONE,
	 "", -1, -1, ""},
	{"EDAC MC: Ver: 3.0.0", NULL, 0, 0, "", -1, -1, ""},
	{"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:123]", "lockup", 3,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"rcu: INFO: rcu_sched self-detected stall on CPU", "lockup", 3, KMSG_COUNT_NONE, "", -1,
	 -1, ""},
	{"BUG: unable to handle page fault for address: ffffc90000000000", "kernel-bug", 3,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)",
	 "thermal", 2, KMSG_COUNT_NONE, "", -1, -1, ""},
	/* programs */
	{"python[1234]: segfault at 0 ip 00007f01 sp 00007ffd error 4 in libtorch.so[7f00+1000]",
	 "segfault", 2, KMSG_COUNT_NONE, "", -1, 1234, "python"},
	{"a[1] b[x][77]: segfault at 8 ip 0 sp 0 error 6", "segfault", 2, KMSG_COUNT_NONE, "", -1,
	 1, "a"},
	{"traps: python[99] general protection fault ip:7f sp:7f error:0 in libc.so.6[7f+1]",
	 "segfault", 2, KMSG_COUNT_NONE, "", -1, 99, "python"},
	{"traps: python[98] trap divide error ip:7f sp:7f error:0 in x[7f+1]", "segfault", 2,
	 KMSG_COUNT_NONE, "", -1, 98, "python"},
	/* a name that looks like another message */
	{"x Link is Down[5]: segfault at 0 ip 0 sp 0 error 4", "segfault", 2, KMSG_COUNT_NONE, "",
	 -1, 5, "x Link is Down"},
	/* disks and file systems */
	{"nvme nvme0: I/O 123 QID 4 timeout, aborting", "nvme", 2, KMSG_COUNT_NONE, "", -1, -1, ""},
	{"nvme nvme0: I/O 123 QID 4 timeout, reset controller", "nvme", 3, KMSG_COUNT_NONE, "", -1,
	 -1, ""},
	{"nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10", "nvme", 3,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"nvme nvme0: 8/0/0 default/read/poll queues", NULL, 0, 0, "", -1, -1, ""},
	{"blk_update_request: I/O error, dev sda, sector 8", "disk-error", 3, KMSG_COUNT_NONE, "",
	 -1, -1, ""},
	{"Buffer I/O error on dev dm-0, logical block 1, async page read", "disk-error", 3,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"critical medium error, dev nvme0n1, sector 7 op 0x0:(READ)", "disk-error", 3,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"EXT4-fs error (device sda1): ext4_lookup:1706: inode #2: comm ls: deleted inode",
	 "filesystem-error", 3, KMSG_COUNT_NONE, "", -1, -1, ""},
	{"EXT4-fs (sda1): Remounting filesystem read-only", "filesystem-error", 3, KMSG_COUNT_NONE,
	 "", -1, -1, ""},
	{"EXT4-fs (sda1): mounted filesystem with ordered data mode", NULL, 0, 0, "", -1, -1, ""},
	{"XFS (dm-0): Metadata corruption detected at xfs_agf_verify+0x70", "filesystem-error", 3,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"XFS (sdb1): Mounting V5 Filesystem", NULL, 0, 0, "", -1, -1, ""},
	{"BTRFS error (device sda1): bdev /dev/sda1 errs: wr 1, rd 0", "filesystem-error", 3,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"nfs: server filer not responding, still trying", "nfs", 3, KMSG_COUNT_NONE, "", -1, -1,
	 ""},
	{"nfs: server filer OK", "nfs", 1, KMSG_COUNT_NONE, "", -1, -1, ""},
	{"Lustre: scratch-OST0001-osc: Connection to scratch-OST0001 (at 10.0.0.1@o2ib) was lost",
	 "lustre", 3, KMSG_COUNT_NONE, "", -1, -1, ""},
	/* links */
	{"e1000e 0000:00:1f.6 eth0: NIC Link is Down", "link-down", 2, KMSG_COUNT_NONE, "", -1, -1,
	 ""},
	{"mlx5_core 0000:3b:00.0 ens1f0np0: Link down", "link-down", 2, KMSG_COUNT_NONE, "", -1, -1,
	 ""},
	{"bond0: (slave eth1): link status definitely down, disabling slave", "link-down", 2,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"mlx5_core 0000:3b:00.0 ens1f0np0: Link up", "link-up", 1, KMSG_COUNT_NONE, "", -1, -1,
	 ""},
	{"ata5: SATA link down (SStatus 0 SControl 300)", NULL, 0, 0, "", -1, -1, ""},
	{"IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready", NULL, 0, 0, "", -1, -1, ""},
	{"pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0",
	 "pcie-error", 3, KMSG_COUNT_NONE, "", -1, -1, ""},
	{"mlx5_core 0000:3b:00.0: mlx5_health_report: device's health compromised - reached miss "
	 "count",
	 "nic-error", 3, KMSG_COUNT_NONE, "", -1, -1, ""},
	{"amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "gpu-reset", 3, KMSG_COUNT_NONE, "", -1,
	 -1, ""},
	{"cgroup: fork rejected by pids controller in /user.slice", "pids-limit", 3,
	 KMSG_COUNT_NONE, "", -1, -1, ""},
	{"", NULL, 0, 0, "", -1, -1, ""},
};

static void test_news(void **state)
{
	struct kmsg_record record;
	struct kmsg_news n;
	char line[256];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(news_rows); i++) {
		const struct news_row *row = &news_rows[i];
		int err;

		snprintf(line, sizeof(line), "4,7,100,-;%s", row->text);
		assert_int_equal(kmsg_parse(line, line + strlen(line), &record), 0);
		err = kmsg_classify(&record, &n);
		if (err != (row->kind ? 0 : -ENOENT))
			fail_msg("%s: %d", row->text, err);
		if (err)
			continue;
		if (strcmp(n.kind, row->kind) != 0 || n.severity != row->severity ||
		    n.count != row->count || n.xid != row->xid || n.pid != row->pid ||
		    strcmp(n.pci, row->pci) != 0 || strcmp(n.name, row->name) != 0)
			fail_msg("%s: %s %d %d %s %d %d %s", row->text, n.kind, n.severity,
				 (int)n.count, n.pci, (int)n.xid, (int)n.pid, n.name);
		/* The same from a program is not believed. */
		record.facility = 1;
		assert_int_equal(kmsg_classify(&record, &n), -ENOENT);
	}
}

/* ---- the group ------------------------------------------------------------------ */

static uint64_t seq;

static void say(const char *root, const char *text)
{
	char path[STORED_PATH + 16], line[512];
	int fd, n;

	snprintf(path, sizeof(path), "%s/dev/kmsg", root);
	n = snprintf(line, sizeof(line), "4,%llu,100,-;%s\n DEVICE=+pci:0000:3b:00.0\n",
		     (unsigned long long)seq++, text);
	fd = open(path, O_WRONLY | O_APPEND);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, line, (size_t)n), 0);
	close(fd);
}

#define PCI "pci=\"0000:3b:00\""

static void test_group(void **state)
{
	char root[STORED_PATH];

	(void)state;
	seq = 3;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_kernel, root), 0);
	reading_at(&r, 1);
	/* What was said before is not counted. */
	assert_true(reading_value(&r, "kernel/oom_kills", "") == 0);
	assert_true(reading_value(&r, "kernel/machine_checks", "") == 0);
	assert_false(reading_has(&r, "kernel/xid", PCI));
	assert_string_equal(reading_why(&r, "kernel/hung_tasks", ""), "needs a second reading");
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 0);

	say(root, "NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=python, Ch 10 \"x\"");
	say(root, "NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=python, Ch 11");
	say(root, "Out of memory: Killed process 55 (py\ttrain) total-vm:1kB");
	say(root, "usb 1-1: new device");
	say(root, "mce: [Hardware Error]: Machine check events logged");
	stored_write(root, "proc/sys/kernel/hung_task_detect_count", "5\n");
	reading_at(&r, 2);
	assert_true(reading_value(&r, "kernel/xid", PCI) == 2);
	assert_true(reading_value(&r, "kernel/oom_kills", "") == 1);
	assert_true(reading_value(&r, "kernel/machine_checks", "") == 1);
	assert_true(reading_value(&r, "kernel/hung_tasks", "") == 2);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 4);
	assert_string_equal(t.events[0].kind, "xid");
	assert_int_equal(t.events[0].severity, 3);
	assert_string_equal(t.events[0].attrs,
			    "{\"pci\":\"0000:3b:00\",\"xid\":31,\"pid\":1234,"
			    "\"text\":\"pid=1234, name=python, Ch 10 \\\"x\\\"\"}");
	assert_string_equal(t.events[2].kind, "kernel-oom");
	assert_string_equal(t.events[2].text,
			    "Out of memory: Killed process 55 (py?train) total-vm:1kB");
	assert_string_equal(t.events[2].attrs, "{\"pid\":55,\"name\":\"py?train\"}");

	reading_at(&r, 3);
	assert_true(reading_value(&r, "kernel/xid", PCI) == 0);
	assert_true(reading_value(&r, "kernel/oom_kills", "") == 0);

	/* Records that were overwritten are told. */
	seq += 7;
	say(root, "usb 1-1: new device");
	reading_at(&r, 4);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_string_equal(t.events[0].kind, "kernel-lost");
	assert_memory_equal(t.events[0].text, "7 records", 9);
	reading_close(&r);
	stored_remove(root, "");
}

/* Corrected 5 + 7, uncorrected 0 + 1; read again after 10 s. */
static void test_memory(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_kernel, root), 0);
	reading_at(&r, 1);
	stored_write(root, "sys/devices/system/edac/mc/mc1/ce_count", "11\n");
	reading_at(&r, 5);
	assert_string_equal(reading_why(&r, "kernel/memory_errors/corrected", ""),
			    "needs a second reading");
	reading_at(&r, 11);
	assert_true(reading_value(&r, "kernel/memory_errors/corrected", "") == 4);
	assert_true(reading_value(&r, "kernel/memory_errors/uncorrected", "") == 0);
	stored_remove(root, "sys/devices/system/edac/mc/mc0");
	reading_at(&r, 21);
	assert_non_null(
		strstr(reading_why(&r, "kernel/memory_errors/corrected", ""), "cannot be read"));
	reading_close(&r);
	stored_remove(root, "");
}

/* All is counted, a few are told, the rest as one; other kinds are not held up. */
static void test_burst(void **state)
{
	char root[STORED_PATH];
	const struct taken_event *e;
	double counted = 0;
	int i;

	(void)state;
	seq = 3;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_kernel, root), 0);
	for (i = 0; i < 300; i++)
		say(root, "Killed process 55 (x) total-vm:1kB");
	say(root, "nfs: server filer not responding, still trying");
	/* 500 lines at most in a reading: a record has two here. A file is read in larger
	 * pieces than the log. */
	for (i = 0; i < 3; i++) {
		reading_at(&r, 1 + i);
		counted += reading_value(&r, "kernel/oom_kills", "");
	}
	assert_true(counted == 300);
	taken_take(&t, r.set);
	assert_int_equal(taken_count(&t, "kernel-oom"), 5);
	assert_int_equal(taken_count(&t, "nfs"), 1);
	assert_int_equal(taken_count(&t, "kernel-burst"), 0);
	reading_at(&r, 11);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	e = taken_event(&t, "kernel-burst");
	assert_non_null(e);
	assert_int_equal(e->severity, 3);
	assert_string_equal(e->attrs, "{\"kind\":\"kernel-oom\",\"count\":295}");
	/* One each 10 s from then on. */
	say(root, "Killed process 56 (x) total-vm:1kB");
	say(root, "Killed process 57 (x) total-vm:1kB");
	reading_at(&r, 12);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_string_equal(t.events[0].attrs, "{\"pid\":56,\"name\":\"x\"}");
	reading_close(&r);
	stored_remove(root, "");
}

/* A line that is longer than any record, and no line feeds at all. */
static void test_long(void **state)
{
	static char text[60000];
	char root[STORED_PATH];

	(void)state;
	seq = 3;
	stored_copy("storage6", root);
	stored_write(root, "dev/kmsg", "");
	assert_int_equal(reading_open(&r, &probe_kernel, root), 0);
	memset(text, 'x', 40000);
	strcpy(text + 40000, "\n4,3,100,-;nfs: server a OK\n");
	stored_write(root, "dev/kmsg", text);
	reading_at(&r, 1);
	reading_at(&r, 2);
	taken_take(&t, r.set);
	assert_int_equal(taken_count(&t, "nfs"), 1);
	reading_close(&r);
	stored_remove(root, "");
}

static void test_unreadable(void **state)
{
	(void)state;
	assert_int_equal(reading_open(&r, &probe_kernel, stored_path("storage_el7")), 0);
	reading_at(&r, 1);
	assert_non_null(strstr(reading_why(&r, "kernel/oom_kills", ""), "--device /dev/kmsg"));
	assert_non_null(strstr(reading_why(&r, "kernel/hung_tasks", ""), "--device /dev/kmsg"));
	assert_non_null(strstr(reading_why(&r, "kernel/memory_errors/corrected", ""), "EDAC"));
	reading_close(&r);
}

static void test_files(void **state)
{
	(void)state;
	assert_int_equal(reading_open(&r, &probe_files, stored_path("storage_docker")), 0);
	reading_at(&r, 1);
	assert_true(reading_value(&r, "files/open", "") == 594);
	assert_true(reading_value(&r, "files/limit", "") == 2466170);
	reading_close(&r);
	assert_int_equal(reading_open(&r, &probe_files, stored_path("storage6")), 0);
	reading_at(&r, 1);
	assert_true(reading_value(&r, "files/open", "") == 4300);
	assert_string_equal(reading_why(&r, "files/limit", ""), "no limit is set");
	reading_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kills), cmocka_unit_test(test_news),
		cmocka_unit_test(test_group), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_burst), cmocka_unit_test(test_long),
		cmocka_unit_test(test_files), cmocka_unit_test(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

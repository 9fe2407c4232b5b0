/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of the kernel's log. Format of a record: the kernel's
 * Documentation/ABI/testing/dev-kmsg; of the messages: mm/oom_kill.c, kernel/hung_task.c,
 * NVIDIA's "XID Errors", the drivers named in the table.
 */
#include "probe/linux/kmsg.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "probe/linux/proc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- records -------------------------------------------------------------------- */

/* The next number of a record's header; the comma behind it is skipped. */
static int kmsg_header(const char **p, const char *eol, uint64_t *ret)
{
	if (proc_number(p, eol, ret) || *p == eol || **p != ',')
		return -EBADMSG;
	(*p)++;
	return 0;
}

int kmsg_parse(const char *line, const char *eol, struct kmsg_record *ret)
{
	struct kmsg_record r;
	const char *p = line;
	uint64_t priority;

	if (kmsg_header(&p, eol, &priority) || kmsg_header(&p, eol, &r.seq) ||
	    kmsg_header(&p, eol, &r.us) || priority > UINT32_MAX)
		return -EBADMSG;
	p = memchr(p, ';', (size_t)(eol - p));
	if (!p)
		return -EBADMSG;
	r.level = priority & 7;
	r.facility = (unsigned)(priority >> 3);
	r.text = p + 1;
	r.end = eol;
	*ret = r;
	return 0;
}

/* ---- kills for memory ----------------------------------------------------------- */

static const char *const kmsg_kills[] = {
	"Out of memory: Killed process ",
	"Memory cgroup out of memory: Killed process ",
	"Out of memory (oom_kill_allocating_task): Killed process ",
	/* before Linux 5.1, after a line "Kill process ... or sacrifice child" */
	"Killed process ",
};

/* The pid of a message that tells of a kill, and *ret_rest behind it. -1: it does not. */
static int64_t kmsg_killed(const char *p, const char *end, const char **ret_rest)
{
	uint64_t pid;
	size_t i;

	for (i = 0; i < ARRAY_LEN(kmsg_kills); i++)
		if (proc_begins(p, end, kmsg_kills[i]))
			break;
	if (i == ARRAY_LEN(kmsg_kills))
		return -1;
	p += strlen(kmsg_kills[i]);
	/* "1234 (python)", and "1234, UID 1000, (python)" in some versions. */
	if (proc_number(&p, end, &pid) || p == end || (*p != ' ' && *p != ',') || pid > INT32_MAX)
		return -1;
	*ret_rest = p;
	return (int64_t)pid;
}

const char *kmsg_match(const char *line, const char *eol, long pid, uint64_t since_us)
{
	struct kmsg_record r;
	const char *rest;

	/* Facility 0 is the kernel: nobody else can write it. */
	if (kmsg_parse(line, eol, &r) || r.facility != 0 || r.us < since_us)
		return NULL;
	return pid >= 0 && kmsg_killed(r.text, r.end, &rest) == pid ? r.text : NULL;
}

/* ---- what a message says -------------------------------------------------------- */

static void kmsg_copy(char *out, size_t cap, const char *p, const char *end)
{
	size_t n = p && end > p ? (size_t)(end - p) : 0;

	if (n >= cap)
		n = cap - 1;
	memcpy(out, n ? p : "", n);
	out[n] = '\0';
	utf8_clean(out, n);
}

static const char *kmsg_find(const char *p, const char *end, const char *words)
{
	return memmem(p, (size_t)(end - p), words, strlen(words));
}

/* "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, text", without "PCI:" in old
 * drivers; a pid may stand in quotes, or be '<unknown>'. Likewise SXid of NVSwitches. */
static void kmsg_read_xid(const struct kmsg_record *r, struct kmsg_news *n)
{
	const char *p = kmsg_find(r->text, r->end, "Xid ("), *close;
	uint64_t v;

	if (!p)
		return;
	p += strlen("Xid (");
	if (proc_begins(p, r->end, "PCI:"))
		p += 4;
	close = memchr(p, ')', (size_t)(r->end - p));
	if (!close)
		return;
	kmsg_copy(n->pci, sizeof(n->pci), p, close);
	p = close + 1;
	if (!proc_begins(p, r->end, ": "))
		return;
	p += 2;
	if (proc_number(&p, r->end, &v) || v > INT32_MAX)
		return;
	n->xid = (int64_t)v;
	n->detail = proc_begins(p, r->end, ", ") ? p + 2 : p;
	p = kmsg_find(p, r->end, "pid=");
	if (!p)
		return;
	p += 4;
	if (p < r->end && *p == '\'')
		p++;
	if (!proc_number(&p, r->end, &v) && v <= INT32_MAX)
		n->pid = (int64_t)v;
}

static void kmsg_read_kill(const struct kmsg_record *r, struct kmsg_news *n)
{
	const char *rest, *open, *close;

	n->pid = kmsg_killed(r->text, r->end, &rest);
	if (n->pid < 0)
		return;
	/* A name may have parentheses in it; what follows the line's name has none. */
	open = memchr(rest, '(', (size_t)(r->end - rest));
	close = open ? memrchr(open, ')', (size_t)(r->end - open)) : NULL;
	if (close)
		kmsg_copy(n->name, sizeof(n->name), open + 1, close);
}

/* "INFO: task NAME:PID blocked for more than 120 seconds." */
static void kmsg_read_hung(const struct kmsg_record *r, struct kmsg_news *n)
{
	const char *p = r->text + strlen("INFO: task "), *end, *colon, *digits;
	uint64_t v;

	end = kmsg_find(p, r->end, " blocked");
	colon = end ? memrchr(p, ':', (size_t)(end - p)) : NULL;
	if (!colon)
		return;
	digits = colon + 1;
	if (proc_number(&digits, end, &v) || v > INT32_MAX)
		return;
	n->pid = (int64_t)v;
	kmsg_copy(n->name, sizeof(n->name), p, colon);
}

/* "python[1234]: segfault at ...", "traps: python[1234] general protection fault ..." */
static void kmsg_read_fault(const struct kmsg_record *r, struct kmsg_news *n)
{
	const char *p = r->text, *open, *digits;
	uint64_t v;

	if (proc_begins(p, r->end, "traps: "))
		p += strlen("traps: ");
	for (open = p; open && (open = memchr(open, '[', (size_t)(r->end - open))); open++) {
		digits = open + 1;
		if (proc_number(&digits, r->end, &v) || v > INT32_MAX ||
		    !proc_begins(digits, r->end, "]"))
			continue;
		n->pid = (int64_t)v;
		kmsg_copy(n->name, sizeof(n->name), p, open);
		return;
	}
}

struct kmsg_rule {
	const char *begins;   /* NULL: anything */
	const char *contains; /* NULL: anything */
	const char *kind;     /* NULL: of no concern, and no other rule is tried */
	int severity;
	enum kmsg_count count;
	void (*read)(const struct kmsg_record *r, struct kmsg_news *n);
};

/* The first that holds counts. A fault's message begins with the name of a process, 15
 * bytes that it chose: its rule stands before all that look for words anywhere. */
/* clang-format off */
static const struct kmsg_rule kmsg_rules[] = {
	{"NVRM: Xid (", NULL, "xid", 3, KMSG_COUNT_XID, kmsg_read_xid},
	{"nvidia-nvswitch", "SXid (", "sxid", 3, KMSG_COUNT_NONE, kmsg_read_xid},
	{"NVRM:", "fallen off the bus", "gpu-lost", 3, KMSG_COUNT_NONE, NULL},
	{"Out of memory", "Killed process ", "kernel-oom", 3, KMSG_COUNT_OOM, kmsg_read_kill},
	{"Memory cgroup out of memory: Killed process ", NULL, "kernel-oom", 3, KMSG_COUNT_OOM,
		kmsg_read_kill},
	{"Killed process ", NULL, "kernel-oom", 3, KMSG_COUNT_OOM, kmsg_read_kill},
	{"INFO: task ", "for more than", "hung-task", 3, KMSG_COUNT_HUNG, kmsg_read_hung},
	{"traps: ", "] general protection", "segfault", 2, KMSG_COUNT_NONE, kmsg_read_fault},
	{"traps: ", "] trap ", "segfault", 2, KMSG_COUNT_NONE, kmsg_read_fault},
	{NULL, "]: segfault at ", "segfault", 2, KMSG_COUNT_NONE, kmsg_read_fault},
	/* memory and processors */
	{"EDAC ", " UE ", "memory-error", 3, KMSG_COUNT_NONE, NULL},
	{"EDAC ", " CE ", "memory-error", 2, KMSG_COUNT_NONE, NULL},
	{"Memory failure: ", NULL, "memory-error", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "Machine check events logged", "machine-check", 3, KMSG_COUNT_MACHINE_CHECK, NULL},
	{NULL, "[Hardware Error]: CPU ", "machine-check", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "Hardware error from APEI", "machine-check", 3, KMSG_COUNT_MACHINE_CHECK, NULL},
	{NULL, "BUG: soft lockup", "lockup", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "hard LOCKUP", "lockup", 3, KMSG_COUNT_NONE, NULL},
	{"rcu: INFO: ", " stall", "lockup", 3, KMSG_COUNT_NONE, NULL},
	{"BUG: ", NULL, "kernel-bug", 3, KMSG_COUNT_NONE, NULL},
	{"kernel BUG at ", NULL, "kernel-bug", 3, KMSG_COUNT_NONE, NULL},
	{"Oops: ", NULL, "kernel-bug", 3, KMSG_COUNT_NONE, NULL},
	{"Kernel panic ", NULL, "kernel-bug", 3, KMSG_COUNT_NONE, NULL},
	{"CPU", "temperature above threshold", "thermal", 2, KMSG_COUNT_NONE, NULL},
	/* disks and file systems */
	{"nvme ", "controller is down", "nvme", 3, KMSG_COUNT_NONE, NULL},
	{"nvme ", "reset controller", "nvme", 3, KMSG_COUNT_NONE, NULL},
	{"nvme ", "Device not ready", "nvme", 3, KMSG_COUNT_NONE, NULL},
	{"nvme ", "Removing after probe failure", "nvme", 3, KMSG_COUNT_NONE, NULL},
	{"nvme ", "resetting controller", "nvme", 2, KMSG_COUNT_NONE, NULL},
	{"nvme ", " timeout", "nvme", 2, KMSG_COUNT_NONE, NULL},
	{NULL, "I/O error, dev ", "disk-error", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "I/O error on dev ", "disk-error", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "medium error, dev ", "disk-error", 3, KMSG_COUNT_NONE, NULL},
	{"EXT4-fs error", NULL, "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"EXT4-fs (", "Remounting filesystem read-only", "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"Aborting journal on device ", NULL, "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"XFS (", "orruption", "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"XFS (", "I/O error", "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"XFS (", "has been shut down", "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"XFS (", "Shutting down filesystem", "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"BTRFS error", NULL, "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"BTRFS critical", NULL, "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"BTRFS: error", NULL, "filesystem-error", 3, KMSG_COUNT_NONE, NULL},
	{"nfs: server ", " not responding", "nfs", 3, KMSG_COUNT_NONE, NULL},
	{"nfs: server ", " OK", "nfs", 1, KMSG_COUNT_NONE, NULL},
	{"Lustre: ", "was lost", "lustre", 3, KMSG_COUNT_NONE, NULL},
	{"Lustre: ", "Connection restored", "lustre", 1, KMSG_COUNT_NONE, NULL},
	{"ceph: ", " hung", "ceph", 3, KMSG_COUNT_NONE, NULL},
	{"libceph: ", "session lost", "ceph", 3, KMSG_COUNT_NONE, NULL},
	{"CIFS: ", "has not responded", "cifs", 3, KMSG_COUNT_NONE, NULL},
	/* cards and links */
	{NULL, "device's health compromised", "nic-error", 3, KMSG_COUNT_NONE, NULL},
	{"NETDEV WATCHDOG: ", NULL, "nic-error", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "AER: Uncorrect", "pcie-error", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "AER: Multiple Uncorrect", "pcie-error", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "PCIe Bus Error: severity=Uncorrect", "pcie-error", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "PCIe Bus Error: severity=Correct", "pcie-error", 2, KMSG_COUNT_NONE, NULL},
	{"amdgpu ", "GPU reset", "gpu-reset", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "*ERROR* ring ", "gpu-reset", 3, KMSG_COUNT_NONE, NULL},
	{NULL, "GPU HANG: ", "gpu-reset", 3, KMSG_COUNT_NONE, NULL},
	{"ata", "link ", NULL, 0, KMSG_COUNT_NONE, NULL}, /* of a disk, mostly an empty place */
	{NULL, "ink is Down", "link-down", 2, KMSG_COUNT_NONE, NULL},
	{NULL, "ink is down", "link-down", 2, KMSG_COUNT_NONE, NULL},
	{NULL, "Link down", "link-down", 2, KMSG_COUNT_NONE, NULL},
	{NULL, "link status definitely down", "link-down", 2, KMSG_COUNT_NONE, NULL},
	{NULL, "ink is Up", "link-up", 1, KMSG_COUNT_NONE, NULL},
	{NULL, "ink is up", "link-up", 1, KMSG_COUNT_NONE, NULL},
	{NULL, "Link up", "link-up", 1, KMSG_COUNT_NONE, NULL},
	{NULL, "link status definitely up", "link-up", 1, KMSG_COUNT_NONE, NULL},
	{NULL, "fork rejected by pids controller", "pids-limit", 3, KMSG_COUNT_NONE, NULL},
};
/* clang-format on */

int kmsg_classify(const struct kmsg_record *r, struct kmsg_news *ret)
{
	const struct kmsg_rule *rule = NULL;
	struct kmsg_news n = {.xid = -1, .pid = -1, .detail = r->text, .end = r->end};
	size_t i;

	if (r->facility != 0)
		return -ENOENT;
	for (i = 0; i < ARRAY_LEN(kmsg_rules) && !rule; i++) {
		const struct kmsg_rule *k = &kmsg_rules[i];

		if ((!k->begins || proc_begins(r->text, r->end, k->begins)) &&
		    (!k->contains || kmsg_find(r->text, r->end, k->contains)))
			rule = k;
	}
	if (!rule || !rule->kind)
		return -ENOENT;
	n.kind = rule->kind;
	n.severity = rule->severity;
	n.count = rule->count;
	if (rule->read)
		rule->read(r, &n);
	/* "Out of memory: Kill process 55 or sacrifice child" is not a kill yet. */
	if (n.count == KMSG_COUNT_OOM && n.pid < 0)
		return -ENOENT;
	*ret = n;
	return 0;
}

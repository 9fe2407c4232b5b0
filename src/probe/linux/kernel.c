/* SPDX-License-Identifier: Apache-2.0
 *
 * The group kernel: what the kernel says in its log from now on, hung tasks and memory
 * errors that it counts.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "probe/groups.h"
#include "probe/linux/kmsg.h"
#include "probe/linux/proc.h"
#include "probe/linux/slots.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_PATH (PROBE_ROOT_MAX + 64)
#define KERNEL_RECORDS_MAX 500 /* of a reading; the rest waits for the next */
#define KERNEL_PCI_MAX 64      /* GPUs that have a count of Xids */
#define KERNEL_KINDS_MAX 48    /* kinds of events */
/* Of a kind so many events at once, then one in so long; the rest is told as a number. */
#define KERNEL_BURST 5
#define KERNEL_REFILL_NS 10000000000
#define KERNEL_TEXT_MAX 500  /* bytes of an event's text */
#define KERNEL_MEMORY_MAX 32 /* memory controllers */
#define KERNEL_MEMORY_NS 10000000000
#define KERNEL_SMALL 4096 /* of /proc/sys: the kernel makes a buffer as large as is asked for */

enum {
	KERNEL_OOM,
	KERNEL_MACHINE_CHECKS,
	KERNEL_OF_LOG, /* rows above, and Xids, come from the log alone */
	KERNEL_HUNG = KERNEL_OF_LOG,
	KERNEL_CORRECTED,
	KERNEL_UNCORRECTED,
	KERNEL_POINTS, /* rows above have one point each */
	KERNEL_XID = KERNEL_POINTS,
	KERNEL_METRICS
};

/* clang-format off */
static const struct probe_metric kernel_metrics[KERNEL_METRICS] = {
	[KERNEL_OOM] = {"kernel/oom_kills", "1",
		"processes that the kernel killed for memory, by its log: on the whole machine, also "
		"for a cgroup's limit",
		"/dev/kmsg", SINK_COUNTER, PROBE_COST_LOW, NULL},
	[KERNEL_MACHINE_CHECKS] = {"kernel/machine_checks", "1",
		"reports of hardware errors of CPUs, memory and buses in the kernel's log",
		"/dev/kmsg", SINK_COUNTER, PROBE_COST_LOW, NULL},
	[KERNEL_HUNG] = {"kernel/hung_tasks", "1",
		"tasks found blocked for 2 minutes or more (kernel.hung_task_timeout_secs): a file "
		"system or driver does not answer",
		"/proc/sys/kernel/hung_task_detect_count, else /dev/kmsg",
		SINK_COUNTER, PROBE_COST_LOW, NULL},
	[KERNEL_CORRECTED] = {"kernel/memory_errors/corrected", "1",
		"memory errors that ECC corrected; read every 10 s",
		"/sys/devices/system/edac/mc/*/ce_count", SINK_COUNTER, PROBE_COST_RARE, NULL},
	[KERNEL_UNCORRECTED] = {"kernel/memory_errors/uncorrected", "1",
		"memory errors that ECC could not correct; read every 10 s",
		"/sys/devices/system/edac/mc/*/ue_count", SINK_COUNTER, PROBE_COST_RARE, NULL},
	[KERNEL_XID] = {"kernel/xid", "1",
		"errors (Xid) that NVIDIA's driver wrote into the kernel's log about the GPU at a PCI "
		"address; absent before the first one",
		"/dev/kmsg", SINK_COUNTER, PROBE_COST_LOW, "pci"},
};
/* clang-format on */

struct kernel_pci {
	struct slot slot; /* named by the address; never forgotten */
	uint32_t point;
	uint64_t count; /* in this reading */
};

/* Events of one kind: a bucket of tokens that fills with time. */
struct kernel_kind {
	const char *kind;
	unsigned tokens;
	int64_t filled_ns; /* CLOCK_MONOTONIC */
	uint64_t held;     /* messages that were not told */
	int64_t held_ns;   /* when the first of them came */
	int severity;      /* the highest of them */
	char last[160];
};

struct kernel {
	char root[PROBE_ROOT_MAX];
	int kmsg;               /* -1: may not be read */
	const char *unreadable; /* why */
	char buf[KMSG_RECORD_MAX];
	size_t len;
	bool has_seq;
	uint64_t next_seq, lost;
	uint64_t counts[KMSG_COUNT_MACHINE_CHECK + 1]; /* in this reading */
	struct slots pcis;
	struct kernel_kind kinds[KERNEL_KINDS_MAX];
	size_t n_kinds;
	struct textfile hung;
	bool has_hung;
	struct textbuf small;
	unsigned n_memory; /* memory controllers */
	int64_t memory_ns; /* CLOCK_MONOTONIC of their last reading; 0 none */
	uint32_t points[KERNEL_POINTS];
	struct probe_set *set; /* during a reading */
	int64_t mono_ns;
};

/* ---- events --------------------------------------------------------------------- */

static void kernel_attrs(const struct kmsg_news *n, struct buf *out)
{
	char text[KERNEL_TEXT_MAX / 2 + 1];
	struct json j;

	json_init(&j, out);
	json_object(&j);
	if (n->pci[0])
		json_kstr(&j, "pci", n->pci);
	if (n->xid >= 0)
		json_kint(&j, "xid", n->xid);
	if (n->pid >= 0)
		json_kint(&j, "pid", n->pid);
	if (n->name[0])
		json_kstr(&j, "name", n->name);
	if (n->xid >= 0) {
		snprintf(text, sizeof(text), "%.*s", (int)(n->end - n->detail), n->detail);
		utf8_clean(text, strlen(text));
		json_kstr(&j, "text", text);
	}
	json_object_end(&j);
}

static struct kernel_kind *kernel_kind(struct kernel *k, const char *kind)
{
	size_t i;

	for (i = 0; i < k->n_kinds; i++)
		if (strcmp(k->kinds[i].kind, kind) == 0)
			return &k->kinds[i];
	if (k->n_kinds == KERNEL_KINDS_MAX)
		return NULL;
	k->kinds[k->n_kinds] =
		(struct kernel_kind){.kind = kind, .tokens = KERNEL_BURST, .filled_ns = k->mono_ns};
	return &k->kinds[k->n_kinds++];
}

static bool kernel_may_tell(struct kernel *k, struct kernel_kind *kind)
{
	while (kind->tokens < KERNEL_BURST && k->mono_ns - kind->filled_ns >= KERNEL_REFILL_NS) {
		kind->tokens++;
		kind->filled_ns += KERNEL_REFILL_NS;
	}
	if (kind->tokens == KERNEL_BURST)
		kind->filled_ns = k->mono_ns;
	if (kind->tokens == 0)
		return false;
	kind->tokens--;
	return true;
}

static void kernel_tell(struct kernel *k, const struct kmsg_record *r, const struct kmsg_news *n)
{
	struct kernel_kind *kind = kernel_kind(k, n->kind);
	char text[KERNEL_TEXT_MAX + 1];
	struct buf attrs;

	if (!kind)
		return;
	snprintf(text, sizeof(text), "%.*s", (int)(r->end - r->text), r->text);
	utf8_clean(text, strlen(text));
	if (!kernel_may_tell(k, kind)) {
		if (kind->held++ == 0) {
			kind->held_ns = k->mono_ns;
			kind->severity = n->severity;
		}
		if (n->severity > kind->severity)
			kind->severity = n->severity;
		snprintf(kind->last, sizeof(kind->last), "%s", text);
		utf8_clean(kind->last, strlen(kind->last));
		return;
	}
	buf_init(&attrs, 1000);
	kernel_attrs(n, &attrs);
	probe_event(k->set, n->severity, n->kind, text, attrs.error ? "" : buf_str(&attrs));
	buf_done(&attrs);
}

/* One event for those that were held back. */
static void kernel_tell_held(struct kernel *k)
{
	char text[400], attrs[100];
	size_t i;

	for (i = 0; i < k->n_kinds; i++) {
		struct kernel_kind *kind = &k->kinds[i];

		if (!kind->held || k->mono_ns - kind->held_ns < KERNEL_REFILL_NS)
			continue;
		snprintf(text, sizeof(text),
			 "%llu more messages of the kernel of the kind %s in %.0f s, the last: %s",
			 (unsigned long long)kind->held, kind->kind,
			 (double)(k->mono_ns - kind->held_ns) / 1e9, kind->last);
		snprintf(attrs, sizeof(attrs), "{\"kind\":\"%s\",\"count\":%llu}", kind->kind,
			 (unsigned long long)kind->held);
		probe_event(k->set, kind->severity, "kernel-burst", text, attrs);
		kind->held = 0;
	}
	if (k->lost) {
		snprintf(text, sizeof(text),
			 "%llu records of the kernel's log were overwritten before they were read",
			 (unsigned long long)k->lost);
		probe_event(k->set, 2, "kernel-lost", text, "");
		k->lost = 0;
	}
}

/* ---- the log -------------------------------------------------------------------- */

static void kernel_count_xid(struct kernel *k, const struct kmsg_news *n)
{
	char labels[PROBE_LABELS_MAX] = "";
	struct kernel_pci *pci;
	bool is_new;

	pci = slots_get(&k->pcis, n->pci, strlen(n->pci), &is_new);
	if (!pci)
		return;
	if (is_new) {
		probe_label(labels, sizeof(labels), "pci", n->pci);
		pci->point = probe_point(k->set, &kernel_metrics[KERNEL_XID], labels);
	}
	pci->count++;
}

static void kernel_record(struct kernel *k, const char *line, const char *eol)
{
	struct kmsg_record r;
	struct kmsg_news n;

	if (kmsg_parse(line, eol, &r) < 0)
		return;
	if (k->has_seq && r.seq > k->next_seq)
		k->lost += r.seq - k->next_seq;
	k->has_seq = true;
	k->next_seq = r.seq + 1;
	if (kmsg_classify(&r, &n) < 0)
		return;
	k->counts[n.count]++;
	if (n.count == KMSG_COUNT_XID)
		kernel_count_xid(k, &n);
	kernel_tell(k, &r, &n);
}

/* Whole lines of buf; the rest is moved to its start, or dropped if it fills half of the
 * buffer (a file that is no log). */
static size_t kernel_lines(struct kernel *k)
{
	const char *p = k->buf, *end = k->buf + k->len, *lf;
	size_t n = 0;

	while (p < end && (lf = memchr(p, '\n', (size_t)(end - p)))) {
		kernel_record(k, p, lf);
		p = lf + 1;
		n++;
	}
	k->len = (size_t)(end - p);
	if (k->len > KMSG_RECORD_MAX / 2)
		k->len = 0;
	memmove(k->buf, p, k->len);
	return n;
}

static void kernel_read_log(struct kernel *k)
{
	size_t records = 0;
	int tries = 0;
	ssize_t n;

	while (k->kmsg >= 0 && records < KERNEL_RECORDS_MAX && tries < KERNEL_RECORDS_MAX) {
		n = read(k->kmsg, k->buf + k->len, KMSG_RECORD_MAX - k->len);
		/* EPIPE: records were overwritten before we came, the next is there. */
		if (n < 0 && (errno == EPIPE || errno == EINTR)) {
			tries++;
			continue;
		}
		if (n <= 0)
			break;
		k->len += (size_t)n;
		records += kernel_lines(k);
	}
}

static void kernel_put_log(struct kernel *k, struct probe_set *s)
{
	struct kernel_pci *pci;
	size_t i;

	if (k->kmsg < 0)
		return;
	probe_put(s, k->points[KERNEL_OOM], (double)k->counts[KMSG_COUNT_OOM]);
	probe_put(s, k->points[KERNEL_MACHINE_CHECKS], (double)k->counts[KMSG_COUNT_MACHINE_CHECK]);
	for (i = 0; i < k->pcis.len; i++) {
		pci = slots_at(&k->pcis, i);
		probe_put(s, pci->point, (double)pci->count);
		pci->count = 0;
	}
}

/* ---- what the kernel counts ------------------------------------------------------- */

static void kernel_read_hung(struct kernel *k, struct probe_set *s)
{
	uint32_t at = k->points[KERNEL_HUNG];
	const char *p;
	uint64_t v;

	if (k->has_hung) {
		if (textfile_read(&k->hung, &k->small, KERNEL_SMALL) < 0)
			k->small.len = 0;
		p = k->small.text;
		if (k->small.len && proc_number(&p, p + k->small.len, &v) == 0)
			probe_count(s, at, v, 0, 1);
		else
			probe_absent(s, at, "hung_task_detect_count cannot be read");
	} else if (k->kmsg >= 0) {
		probe_put(s, at, (double)k->counts[KMSG_COUNT_HUNG]);
	}
}

/* Sum of a file over all memory controllers. */
static int kernel_memory_sum(const struct kernel *k, const char *file, uint64_t *ret)
{
	uint64_t sum = 0, v;
	char path[96];
	unsigned i;
	int err;

	for (i = 0; i < k->n_memory; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/edac/mc/mc%u/%s", i, file);
		err = textfile_u64(k->root, path, &v);
		if (err)
			return err;
		sum += v;
	}
	*ret = sum;
	return 0;
}

static void kernel_read_memory(struct kernel *k, struct probe_set *s)
{
	static const char *const files[] = {"ce_count", "ue_count"};
	uint64_t v = 0;
	uint32_t at;
	int i;

	if (!k->n_memory || (k->memory_ns && k->mono_ns - k->memory_ns < KERNEL_MEMORY_NS))
		return;
	k->memory_ns = k->mono_ns;
	for (i = 0; i < 2; i++) {
		at = k->points[KERNEL_CORRECTED + i];
		if (kernel_memory_sum(k, files[i], &v) < 0)
			probe_absent(s, at, "a memory controller's count cannot be read");
		else
			probe_count(s, at, v, 0, 1);
	}
}

/* ---- the group -------------------------------------------------------------------- */

static void kernel_close(void *state)
{
	struct kernel *k = state;

	if (k->kmsg >= 0)
		close(k->kmsg);
	slots_done(&k->pcis, NULL);
	textfile_done(&k->hung);
	textbuf_done(&k->small);
	free(k);
}

/* From its end: what was said before this run is not its own. */
static void kernel_open_log(struct kernel *k)
{
	char path[KERNEL_PATH];

	snprintf(path, sizeof(path), "%s/dev/kmsg", k->root);
	k->kmsg = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (k->kmsg < 0 && errno == ENOENT)
		k->unreadable = "/dev/kmsg is not here: a container gets it by --device /dev/kmsg "
				"and --cap-add SYSLOG";
	else if (k->kmsg < 0)
		k->unreadable = "the kernel's log may not be read: it needs CAP_SYSLOG (setcap "
				"cap_syslog+ep on the lapse program, or root), or "
				"kernel.dmesg_restrict=0";
	if (k->kmsg >= 0 && lseek(k->kmsg, 0, SEEK_END) < 0) {
		close(k->kmsg);
		k->kmsg = -1;
		k->unreadable = "/dev/kmsg is no log here";
	}
}

static void kernel_look(struct kernel *k)
{
	char path[KERNEL_PATH];

	snprintf(path, sizeof(path), "%s/proc/sys/kernel/hung_task_detect_count", k->root);
	k->has_hung = access(path, R_OK) == 0;
	for (k->n_memory = 0; k->n_memory < KERNEL_MEMORY_MAX; k->n_memory++) {
		snprintf(path, sizeof(path), "%s/sys/devices/system/edac/mc/mc%u/ce_count", k->root,
			 k->n_memory);
		if (access(path, R_OK) < 0)
			break;
	}
}

static int kernel_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		       struct err *e)
{
	struct kernel *k = calloc(1, sizeof(*k));
	int i;

	(void)e;
	if (!k)
		return -ENOMEM;
	k->kmsg = -1;
	slots_init(&k->pcis, sizeof(struct kernel_pci), KERNEL_PCI_MAX);
	snprintf(k->root, sizeof(k->root), "%s", env->root);
	if (textfile_init(&k->hung, env->root, "/proc/sys/kernel/hung_task_detect_count") < 0) {
		kernel_close(k);
		return -ENOMEM;
	}
	kernel_open_log(k);
	kernel_look(k);
	for (i = 0; i < KERNEL_POINTS; i++)
		k->points[i] = probe_point(s, &kernel_metrics[i], "");
	for (i = 0; k->kmsg < 0 && i < KERNEL_OF_LOG; i++)
		probe_absent(s, k->points[i], k->unreadable);
	if (k->kmsg < 0 && !k->has_hung)
		probe_absent(s, k->points[KERNEL_HUNG], k->unreadable);
	for (i = KERNEL_CORRECTED; !k->n_memory && i <= KERNEL_UNCORRECTED; i++)
		probe_absent(s, k->points[i],
			     "no EDAC driver counts them: the memory has no ECC, or firmware or a "
			     "hypervisor keeps it");
	*ret_state = k;
	return 0;
}

static void kernel_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct kernel *k = state;

	k->set = s;
	k->mono_ns = now->mono_ns;
	memset(k->counts, 0, sizeof(k->counts));
	kernel_read_log(k);
	kernel_tell_held(k);
	kernel_put_log(k, s);
	kernel_read_hung(k, s);
	kernel_read_memory(k, s);
}

const struct probe_group probe_kernel = {
	.name = "kernel",
	.metrics = kernel_metrics,
	.n_metrics = KERNEL_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.open = kernel_open,
	.read = kernel_read,
	.close = kernel_close,
};

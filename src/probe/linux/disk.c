/* SPDX-License-Identifier: Apache-2.0
 *
 * The group disk. Format: the kernel's Documentation/admin-guide/iostats.rst.
 */
#include "probe/linux/disk.h"

#include "base/mem.h"
#include "probe/groups.h"
#include "probe/linux/proc.h"
#include "probe/linux/slots.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DISK_FILE_MAX (1u << 20) /* bytes of /proc/diskstats */
#define DISK_LINES_MAX 4096      /* of it */
#define DISK_MAX 256             /* disks that have figures */
#define DISK_PATH (PROBE_ROOT_MAX + 128)
/* What the kernel counts in an unsigned long, and what it prints as unsigned int. */
#define DISK_LONG_BITS (sizeof(long) == 4 ? 32 : 0)
#define DISK_MS_RANGE (UINT64_C(1) << 32)

enum {
	DISK_READ,
	DISK_WRITTEN,
	DISK_READS,
	DISK_WRITES,
	DISK_BUSY,
	DISK_QUEUE,
	DISK_LATENCY_READ,
	DISK_LATENCY_WRITE,
	DISK_METRICS
};

/* clang-format off */
static const struct probe_metric disk_metrics[DISK_METRICS] = {
	[DISK_READ] = {"disk/read", "By", "bytes read from the disk",
		"/proc/diskstats field 6, in sectors of 512 bytes",
		SINK_COUNTER, PROBE_COST_LOW, "device"},
	[DISK_WRITTEN] = {"disk/written", "By", "bytes written to the disk",
		"/proc/diskstats field 10, in sectors of 512 bytes",
		SINK_COUNTER, PROBE_COST_LOW, "device"},
	[DISK_READS] = {"disk/reads", "1", "reads that were completed",
		"/proc/diskstats field 4", SINK_COUNTER, PROBE_COST_LOW, "device"},
	[DISK_WRITES] = {"disk/writes", "1", "writes that were completed",
		"/proc/diskstats field 8", SINK_COUNTER, PROBE_COST_LOW, "device"},
	[DISK_BUSY] = {"disk/busy", "1",
		"share of the time since the last reading in which the disk had at least one request; "
		"1 is not the limit of a disk that serves many at once (NVMe, RAID)",
		"/proc/diskstats field 13", SINK_GAUGE, PROBE_COST_LOW, "device"},
	[DISK_QUEUE] = {"disk/queue", "1",
		"requests waiting or being served, mean since the last reading",
		"/proc/diskstats field 14", SINK_GAUGE, PROBE_COST_LOW, "device"},
	[DISK_LATENCY_READ] = {"disk/latency/read", "s",
		"time from request to completion, mean of the reads completed since the last "
		"reading; absent when there were none",
		"/proc/diskstats fields 7 and 4", SINK_GAUGE, PROBE_COST_LOW, "device"},
	[DISK_LATENCY_WRITE] = {"disk/latency/write", "s",
		"time from request to completion, mean of the writes completed since the last "
		"reading; absent when there were none",
		"/proc/diskstats fields 11 and 8", SINK_GAUGE, PROBE_COST_LOW, "device"},
};
/* clang-format on */

struct disk_slot {
	struct slot slot;
	bool skip; /* partitions, loop devices and the like */
	bool made; /* has points */
	bool has;  /* was and mono_ns hold the last reading */
	uint32_t points[DISK_METRICS];
	struct disk_line was;
	int64_t mono_ns;
};

struct disk {
	char root[PROBE_ROOT_MAX];
	bool has_sys;
	struct textfile file;
	struct textbuf buf;
	struct slots slots;
	size_t disks;
	struct probe_set *set; /* during a reading */
};

/* ---- the text ------------------------------------------------------------------- */

static int disk_field(const char **p, const char *end, uint64_t *ret)
{
	while (*p < end && **p == ' ')
		(*p)++;
	return proc_number(p, end, ret);
}

int disk_parse(const char *p, const char *end, struct disk_line *ret)
{
	struct disk_line d;
	uint64_t f[11], number; /* fields 4 to 14 */
	size_t i;

	if (disk_field(&p, end, &number) || disk_field(&p, end, &number))
		return -EBADMSG;
	while (p < end && *p == ' ')
		p++;
	for (d.name = p; p < end && *p != ' ';)
		p++;
	d.len = (size_t)(p - d.name);
	if (!d.len)
		return -EBADMSG;
	for (i = 0; i < ARRAY_LEN(f); i++)
		if (disk_field(&p, end, &f[i]))
			return -EBADMSG;
	d.reads = f[0];
	d.read_sectors = f[2];
	d.read_ms = f[3];
	d.writes = f[4];
	d.written_sectors = f[6];
	d.written_ms = f[7];
	d.busy_ms = f[9];
	d.weighted_ms = f[10];
	*ret = d;
	return 0;
}

/* ---- which disks ---------------------------------------------------------------- */

static const char *disk_before_digits(const char *name)
{
	const char *end = name + strlen(name);

	while (end > name && end[-1] >= '0' && end[-1] <= '9')
		end--;
	return end;
}

bool disk_is_partition_name(const char *name)
{
	static const char *const letters[] = {"sd", "hd", "vd", "xvd"};
	const char *base = disk_before_digits(name);
	size_t i;

	if (*base == '\0' || base == name)
		return false;
	for (i = 0; i < ARRAY_LEN(letters); i++)
		if (proc_begins(name, base, letters[i]))
			return true;
	return base - name >= 2 && base[-1] == 'p' && base[-2] >= '0' && base[-2] <= '9';
}

/* Memory, images and drives that no training reads from, by name and number. */
static bool disk_is_other(const char *name)
{
	static const char *const others[] = {"loop", "ram", "zram", "sr", "fd"};
	const char *base = disk_before_digits(name);
	size_t i;

	for (i = 0; i < ARRAY_LEN(others); i++)
		if ((size_t)(base - name) == strlen(others[i]) &&
		    proc_begins(name, base, others[i]))
			return true;
	return false;
}

/* /sys/block has whole disks only. A disk that is hidden is one path of another. */
static bool disk_is_whole(const struct disk *d, const char *name)
{
	char path[DISK_PATH], *p;
	uint64_t hidden;
	int n;

	if (!d->has_sys)
		return !disk_is_partition_name(name);
	n = snprintf(path, sizeof(path), "%s/sys/block/%s", d->root, name);
	if (n < 0 || (size_t)n >= sizeof(path) - sizeof("/hidden"))
		return false;
	/* "cciss/c0d0" is cciss!c0d0 there. */
	for (p = path + n - strlen(name); (p = strchr(p, '/'));)
		*p = '!';
	if (access(path, F_OK) < 0)
		return false;
	strcat(path, "/hidden");
	return textfile_u64("", path, &hidden) < 0 || hidden == 0;
}

static bool disk_is_idle(const struct disk_line *l)
{
	return l->reads == 0 && l->writes == 0 && l->busy_ms == 0;
}

static void disk_make(struct disk *d, struct disk_slot *slot)
{
	char labels[PROBE_LABELS_MAX] = "";
	int i;

	slot->made = true;
	d->disks++;
	if (probe_label(labels, sizeof(labels), "device", slot->slot.name) < 0)
		slot->skip = true;
	for (i = 0; i < DISK_METRICS; i++)
		slot->points[i] =
			slot->skip ? PROBE_NONE : probe_point(d->set, &disk_metrics[i], labels);
}

/* ---- figures -------------------------------------------------------------------- */

/* Milliseconds between two readings. They are printed in 32 bits and wrap each 50
 * days, the weighted ones sooner; a large step forward is a counter that began anew. */
static bool disk_ms(uint64_t was, uint64_t is, double *ret)
{
	uint64_t step = is - was;

	if (is < was) {
		step = is + DISK_MS_RANGE - was;
		if (was >= DISK_MS_RANGE || step >= DISK_MS_RANGE / 4)
			return false;
	}
	*ret = (double)step;
	return true;
}

static void disk_put_latency(struct probe_set *s, uint32_t point, uint64_t ms_was, uint64_t ms,
			     uint64_t n_was, uint64_t n)
{
	double step;

	if (n < n_was || !disk_ms(ms_was, ms, &step))
		probe_absent(s, point, "the counter began anew");
	else if (n == n_was)
		probe_absent(s, point, "none was completed since the last reading");
	else
		probe_put(s, point, step / 1000 / (double)(n - n_was));
}

static void disk_put_differences(struct probe_set *s, const struct disk_slot *slot,
				 const struct disk_line *l, const struct probe_now *now)
{
	double elapsed_ms = (double)(now->mono_ns - slot->mono_ns) / 1e6, step;
	const struct disk_line *was = &slot->was;
	const uint32_t *at = slot->points;
	double share;

	if (disk_ms(was->busy_ms, l->busy_ms, &step)) {
		share = step / elapsed_ms;
		probe_put(s, at[DISK_BUSY], share > 1 ? 1 : share);
	} else {
		probe_absent(s, at[DISK_BUSY], "the counter began anew");
	}
	if (disk_ms(was->weighted_ms, l->weighted_ms, &step))
		probe_put(s, at[DISK_QUEUE], step / elapsed_ms);
	else
		probe_absent(s, at[DISK_QUEUE], "the counter began anew");
	disk_put_latency(s, at[DISK_LATENCY_READ], was->read_ms, l->read_ms, was->reads, l->reads);
	disk_put_latency(s, at[DISK_LATENCY_WRITE], was->written_ms, l->written_ms, was->writes,
			 l->writes);
}

static void disk_put(struct probe_set *s, struct disk_slot *slot, const struct disk_line *l,
		     const struct probe_now *now)
{
	const uint32_t *at = slot->points;
	int i;

	probe_count(s, at[DISK_READ], l->read_sectors, DISK_LONG_BITS, DISK_SECTOR);
	probe_count(s, at[DISK_WRITTEN], l->written_sectors, DISK_LONG_BITS, DISK_SECTOR);
	probe_count(s, at[DISK_READS], l->reads, DISK_LONG_BITS, 1);
	probe_count(s, at[DISK_WRITES], l->writes, DISK_LONG_BITS, 1);
	if (!slot->has)
		for (i = DISK_BUSY; i < DISK_METRICS; i++)
			probe_absent(s, at[i], "needs a second reading");
	else if (now->mono_ns > slot->mono_ns)
		disk_put_differences(s, slot, l, now);
	else
		return;
	slot->was = *l;
	slot->mono_ns = now->mono_ns;
	slot->has = true;
}

static void disk_line(struct disk *d, const struct disk_line *l, const struct probe_now *now)
{
	struct disk_slot *slot;
	bool is_new;

	slot = slots_get(&d->slots, l->name, l->len, &is_new);
	if (!slot)
		return;
	if (is_new)
		slot->skip = disk_is_other(slot->slot.name) || !disk_is_whole(d, slot->slot.name);
	/* Kernels make devices in advance (nbd0 to nbd15) that nobody uses. */
	if (slot->skip || (!slot->made && (disk_is_idle(l) || d->disks >= DISK_MAX)))
		return;
	if (!slot->made)
		disk_make(d, slot);
	disk_put(d->set, slot, l, now);
}

static void disk_absent(struct probe_set *s, const struct disk_slot *slot, const char *why)
{
	int i;

	for (i = 0; slot->made && i < DISK_METRICS; i++)
		probe_absent(s, slot->points[i], why);
}

static void disk_gone(void *arg, void *item)
{
	const struct disk_slot *slot = item;
	struct disk *d = arg;
	char text[200];

	if (!slot->made)
		return;
	d->disks--;
	disk_absent(d->set, slot, "the device is gone");
	snprintf(text, sizeof(text), "the disk %.100s is gone", slot->slot.name);
	probe_event(d->set, 2, "disk-gone", text, "");
}

/* ---- the group -------------------------------------------------------------------- */

static void disk_close(void *state)
{
	struct disk *d = state;

	slots_done(&d->slots, NULL);
	textfile_done(&d->file);
	textbuf_done(&d->buf);
	free(d);
}

static int disk_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		     struct err *e)
{
	struct disk *d = calloc(1, sizeof(*d));
	char path[DISK_PATH];
	int err;

	(void)s;
	if (!d)
		return -ENOMEM;
	slots_init(&d->slots, sizeof(struct disk_slot), DISK_LINES_MAX);
	snprintf(d->root, sizeof(d->root), "%s", env->root);
	snprintf(path, sizeof(path), "%s/sys/block", env->root);
	d->has_sys = access(path, F_OK) == 0;
	err = textfile_init(&d->file, env->root, "/proc/diskstats");
	if (!err)
		err = textfile_read(&d->file, &d->buf, DISK_FILE_MAX);
	if (err == -ENOMEM) {
		disk_close(d);
		return err;
	}
	if (err) {
		disk_close(d);
		return err_errno(e, -ENODEV, "/proc/diskstats cannot be read");
	}
	*ret_state = d;
	return 0;
}

static void disk_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct disk *d = state;
	const char *next, *end, *line, *eol;
	struct disk_line l;
	size_t i;

	d->set = s;
	if (textfile_read(&d->file, &d->buf, DISK_FILE_MAX) < 0) {
		for (i = 0; i < d->slots.len; i++)
			disk_absent(s, slots_at(&d->slots, i), "/proc/diskstats cannot be read");
		return;
	}
	slots_begin(&d->slots);
	next = d->buf.text;
	end = next + d->buf.len;
	while ((line = proc_line(&next, end, &eol)))
		if (disk_parse(line, eol, &l) == 0)
			disk_line(d, &l, now);
	slots_end(&d->slots, disk_gone, d);
}

const struct probe_group probe_disk = {
	.name = "disk",
	.metrics = disk_metrics,
	.n_metrics = DISK_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.open = disk_open,
	.read = disk_read,
	.close = disk_close,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Energy counters. Format: the kernel's power/powercap/powercap.rst.
 */
#include "probe/linux/rapl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/linux/sysfs.h"

struct rapl_search {
	struct rapl *r;
	struct probe_set *s;
	const struct probe_metric *m;
};

/* "intel-rapl:0" is a zone whose name is "package-0", or "psys" (the whole board). Below
 * it are its parts ("intel-rapl:0:0"), which are in it. */
static int rapl_found(void *arg, int entry_fd, const char *name, uint32_t number)
{
	static const char package[] = "package-";
	struct rapl_search *a = arg;
	struct rapl *r = a->r;
	char path[160], zone[64], labels[PROBE_LABELS_MAX] = "";
	struct rapl_package *p;
	int64_t range;

	(void)number;
	snprintf(path, sizeof(path), "%s/name", name);
	if (sysfs_text(entry_fd, path, zone, sizeof(zone)) ||
	    strncmp(zone, package, sizeof(package) - 1) != 0 || r->n == RAPL_PACKAGES_MAX)
		return 0;
	p = &r->packages[r->n];
	*p = (struct rapl_package){0};
	snprintf(path, sizeof(path), "%s/max_energy_range_uj", name);
	if (!sysfs_number(entry_fd, path, &range) && range > 0)
		p->range = (uint64_t)range;
	snprintf(p->path, sizeof(p->path), "%.40s/energy_uj", name);
	probe_label(labels, sizeof(labels), "package", zone + sizeof(package) - 1);
	p->point = probe_point(a->s, a->m, labels);
	r->n++;
	return 0;
}

void rapl_open(struct rapl *r, const char *root, struct probe_set *s, const struct probe_metric *m)
{
	struct rapl_search a = {r, s, m};

	r->n = 0;
	r->dir_fd = sysfs_dir(root, "/sys/class/powercap");
	if (r->dir_fd >= 0)
		sysfs_each(r->dir_fd, ".", "intel-rapl:", "", rapl_found, &a);
}

void rapl_close(struct rapl *r)
{
	if (r->dir_fd >= 0)
		close(r->dir_fd);
	r->dir_fd = -1;
}

static void rapl_put(struct rapl_package *p, struct probe_set *s, uint64_t raw, int64_t mono_ns)
{
	bool lower = p->has && raw < p->raw;
	bool anew = lower && p->raw > p->range; /* or the range is unknown */

	/* 1,000 W go through the range in so many ns as it has microjoules: it may have
	 * gone round more than once. */
	anew |= p->has && p->range && mono_ns - p->mono_ns > (int64_t)p->range;
	if (anew) {
		probe_absent(s, p->point, "the counter began anew");
	} else {
		if (p->has)
			p->sum += lower ? raw + (p->range - p->raw) : raw - p->raw;
		probe_count(s, p->point, p->sum, 0, 1e-6);
	}
	p->raw = raw;
	p->mono_ns = mono_ns;
	p->has = true;
}

void rapl_read(struct rapl *r, struct probe_set *s, const struct probe_now *now)
{
	int64_t raw;
	size_t i;
	int err;

	for (i = 0; i < r->n; i++) {
		struct rapl_package *p = &r->packages[i];

		err = sysfs_number(r->dir_fd, p->path, &raw);
		if (!err && raw >= 0)
			rapl_put(p, s, (uint64_t)raw, now->mono_ns);
		else if (err == -EACCES || err == -EPERM)
			probe_absent(
				s, p->point,
				"energy_uj may be read by root only: run the agent as root, or "
				"chmod o+r /sys/class/powercap/intel-rapl:*/energy_uj");
		else
			probe_absent(s, p->point, "energy_uj cannot be read");
	}
}

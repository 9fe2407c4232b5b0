/* SPDX-License-Identifier: Apache-2.0
 *
 * topdraw_machine.c - of topdraw.h the machine: CPUs, memory, what is waited for, disks and
 * network.
 */
#include "cli/topdraw_priv.h"

#include "base/fmt.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TOPDRAW_CORE_W 19   /* of a core with its bar */
#define TOPDRAW_CORE_ROWS 4 /* more than so many: a sign for each core */
#define TOPDRAW_LABEL 5

static const struct topmodel_item *topdraw_host(const struct topdraw *d)
{
	return topmodel_item(d->m, TOP_HOST, d->v->host);
}

static int topdraw_count(const struct topdraw *d, enum topmodel_group g)
{
	size_t i;
	int n = 0;

	for (i = 0; i < d->m->items[g].n; i++)
		n += d->m->items[g].all[i].host == d->v->host;
	return n;
}

/* ---- CPUs --------------------------------------------------------------------------------- */

static bool topdraw_is_dense(int n, int w)
{
	int per_row = w / TOPDRAW_CORE_W;

	return per_row < 1 || (n + per_row - 1) / per_row > TOPDRAW_CORE_ROWS;
}

static int topdraw_core_rows(int n, int w)
{
	int per_row = topdraw_is_dense(n, w) ? w - TOPDRAW_LABEL : w / TOPDRAW_CORE_W;

	return per_row < 1 ? 0 : (n + per_row - 1) / per_row;
}

static void topdraw_core(struct topdraw *d, const struct topgrid_rect *r,
			 const struct topmodel_item *i)
{
	double busy = i->v[TOP_CORE_BUSY];
	char text[16];

	topgrid_right(d->g, r->x, r->y, 3, TOPGRID_DIM, i->name);
	topgrid_bar(d->g, r->x + 4, r->y, r->w - 11, busy, TOPGRID_PLAIN);
	if (isnan(busy))
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%.0f %%", busy * 100);
	topgrid_right(d->g, r->x + r->w - 7, r->y, 6, TOPGRID_PLAIN, text);
}

/* A block as high as the load. */
static void topdraw_core_sign(struct topdraw *d, int x, int y, double busy)
{
	static const char ascii[] = " .:-=+*%#";
	int level = isnan(busy) ? 0 : (int)(busy * 8 + 0.5);

	level = level < 0 ? 0 : level > 8 ? 8 : level;
	if (level == 0)
		topgrid_put(d->g, x, y, TOPGRID_RULE, 0xb7, '_');
	else
		topgrid_put(d->g, x, y, topgrid_load(busy), 0x2580 + (uint32_t)level, ascii[level]);
}

/* Returns the rows it took. */
static int topdraw_cores(struct topdraw *d, const struct topgrid_rect *r)
{
	const struct topmodel_items *cores = &d->m->items[TOP_CORE];
	int n = topdraw_count(d, TOP_CORE), at = 0, per_row;
	bool dense = topdraw_is_dense(n, r->w);
	size_t i;

	per_row = dense ? r->w - TOPDRAW_LABEL : r->w / TOPDRAW_CORE_W;
	if (per_row < 1 || n == 0)
		return 0;
	if (!dense && n < per_row)
		per_row = n;
	for (i = 0; i < cores->n && at / per_row < r->h; i++) {
		int x = at % per_row, y = r->y + at / per_row;

		if (cores->all[i].host != d->v->host)
			continue;
		if (dense) {
			if (at == 0)
				topgrid_text(d->g, r->x, y, TOPDRAW_LABEL, TOPGRID_DIM, "core");
			topdraw_core_sign(d, r->x + TOPDRAW_LABEL + x, y,
					  cores->all[i].v[TOP_CORE_BUSY]);
		} else {
			struct topgrid_rect cell = {r->x + x * r->w / per_row, y, r->w / per_row,
						    1};

			topdraw_core(d, &cell, &cores->all[i]);
		}
		at++;
	}
	return (at + per_row - 1) / per_row;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* A line of a label, a bar (share NaN: none) and texts that fit whole. */
struct topdraw_row {
	struct topdraw *d;
	int x, y, end;
};

static void topdraw_begin(struct topdraw_row *l, const char *label, double share, bool bar)
{
	int w = (l->end - l->x) / 4;

	topgrid_text(l->d->g, l->x, l->y, TOPDRAW_LABEL, TOPGRID_DIM, label);
	l->x += TOPDRAW_LABEL;
	if (!bar)
		return;
	topgrid_bar(l->d->g, l->x, l->y, w, share, TOPGRID_PLAIN);
	l->x += w + 1;
}

static void topdraw_add(struct topdraw_row *l, int style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void topdraw_add(struct topdraw_row *l, int style, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (l->x + topgrid_width(l->d->g, text) <= l->end)
		l->x += topgrid_text(l->d->g, l->x, l->y, l->end - l->x, style, text) + 2;
}

static void topdraw_share_of(struct topdraw_row *l, const char *name, double share, double warn,
			     double bad)
{
	if (!isnan(share))
		topdraw_add(l,
			    share >= bad    ? TOPGRID_BAD
			    : share >= warn ? TOPGRID_WARN
					    : TOPGRID_PLAIN,
			    "%s %.*f %%", name, share < 0.0995 ? 1 : 0, share * 100);
}

static void topdraw_cpu(struct topdraw_row l, const struct topmodel_item *h)
{
	double busy = h->v[TOP_CPU_BUSY];

	topdraw_begin(&l, "CPU", busy, true);
	if (!isnan(busy))
		topdraw_add(&l, TOPGRID_PLAIN, "%.0f %%", busy * 100);
	if (!isnan(h->v[TOP_TREE_CPU]))
		topdraw_add(&l, TOPGRID_BOLD, "run %.3g CPUs", h->v[TOP_TREE_CPU]);
	if (!isnan(h->v[TOP_CPU_QUOTA]))
		topdraw_add(&l,
			    h->v[TOP_TREE_CPU] > 0.95 * h->v[TOP_CPU_QUOTA] ? TOPGRID_WARN
									    : TOPGRID_PLAIN,
			    "quota %.3g", h->v[TOP_CPU_QUOTA]);
	if (!isnan(h->v[TOP_LOAD]))
		topdraw_add(&l, TOPGRID_PLAIN, "load %.3g", h->v[TOP_LOAD]);
	topdraw_share_of(&l, "system", h->v[TOP_CPU_SYSTEM], 0.3, 2);
	topdraw_share_of(&l, "steal", h->v[TOP_CPU_STEAL] > 0.001 ? h->v[TOP_CPU_STEAL] : NAN, 0.05,
			 0.2);
}

/* What the run may take: of the cgroup's limit if there is one, else of the machine. */
static void topdraw_memory(struct topdraw_row l, const struct topmodel_item *h)
{
	char a[FMT_MAX], b[FMT_MAX];
	double total = h->v[TOP_MEM_TOTAL], used = h->v[TOP_MEM_USED], rss = h->v[TOP_TREE_RSS],
	       limit = h->v[TOP_MEM_LIMIT];
	bool limited = !isnan(limit) && limit < total && !isnan(rss);

	topdraw_begin(&l, "mem", limited ? rss / limit : used / total, true);
	if (!isnan(rss))
		topdraw_add(&l, TOPGRID_BOLD, "run %s", fmt_bytes(a, rss));
	if (limited)
		topdraw_add(&l, rss > 0.9 * limit ? TOPGRID_BAD : TOPGRID_PLAIN, "limit %s",
			    fmt_bytes(a, limit));
	if (!isnan(used))
		topdraw_add(&l, used > 0.9 * total ? TOPGRID_WARN : TOPGRID_PLAIN,
			    "machine %s of %s", fmt_bytes(a, used), fmt_bytes(b, total));
	if (h->v[TOP_SWAP_USED] > 0)
		topdraw_add(&l, TOPGRID_WARN, "swap %s", fmt_bytes(a, h->v[TOP_SWAP_USED]));
	if (h->v[TOP_SHM_USED] > 0.5 * h->v[TOP_SHM_TOTAL])
		topdraw_add(&l, TOPGRID_WARN, "/dev/shm %s of %s", fmt_bytes(a, h->v[TOP_SHM_USED]),
			    fmt_bytes(b, h->v[TOP_SHM_TOTAL]));
}

static void topdraw_waits(struct topdraw_row l, const struct topmodel_item *h)
{
	topdraw_begin(&l, "wait", NAN, false);
	topdraw_share_of(&l, "for CPU", h->v[TOP_PSI_CPU], 0.3, 0.7);
	topdraw_share_of(&l, "for disk", h->v[TOP_PSI_IO], 0.1, 0.4);
	topdraw_share_of(&l, "for memory", h->v[TOP_PSI_MEMORY], 0.05, 0.2);
	topdraw_share_of(&l, "iowait", h->v[TOP_CPU_IOWAIT], 0.1, 0.4);
}

static double topdraw_known(double v)
{
	return isnan(v) ? 0 : v;
}

/* The busiest disks and interfaces, as many as fit; then the fullest file system. */
static void topdraw_io(struct topdraw_row l)
{
	const struct topmodel *m = l.d->m;
	char a[FMT_MAX], b[FMT_MAX];
	const struct topmodel_item *full = NULL;
	double most = 0;
	size_t i;

	topdraw_begin(&l, "I/O", NAN, false);
	for (i = 0; i < m->items[TOP_DISK].n; i++) {
		const struct topmodel_item *k = &m->items[TOP_DISK].all[i];

		if (k->host == l.d->v->host)
			topdraw_add(&l, k->v[TOP_DISK_BUSY] > 0.9 ? TOPGRID_WARN : TOPGRID_PLAIN,
				    "%.16s read %s/s write %s/s", k->name,
				    fmt_bytes(a, topdraw_known(k->v[TOP_DISK_READ])),
				    fmt_bytes(b, topdraw_known(k->v[TOP_DISK_WRITTEN])));
	}
	for (i = 0; i < m->items[TOP_NET].n; i++) {
		const struct topmodel_item *k = &m->items[TOP_NET].all[i];

		if (k->host == l.d->v->host)
			topdraw_add(&l, TOPGRID_PLAIN, "%.16s in %s/s out %s/s", k->name,
				    fmt_bytes(a, topdraw_known(k->v[TOP_NET_RECEIVED])),
				    fmt_bytes(b, topdraw_known(k->v[TOP_NET_SENT])));
	}
	for (i = 0; i < m->items[TOP_FS].n; i++) {
		const struct topmodel_item *k = &m->items[TOP_FS].all[i];
		double share = k->v[TOP_FS_USED] / (k->v[TOP_FS_USED] + k->v[TOP_FS_AVAILABLE]);

		if (k->host == l.d->v->host && share > most) {
			most = share;
			full = k;
		}
	}
	if (full)
		topdraw_add(&l, most >= 0.9 ? TOPGRID_BAD : TOPGRID_PLAIN, "%.24s %.0f %% full",
			    full->name, most * 100);
}

/* ---- the pane ---------------------------------------------------------------------------------
 */

static bool topdraw_has_io(const struct topdraw *d)
{
	return topdraw_count(d, TOP_DISK) + topdraw_count(d, TOP_NET) + topdraw_count(d, TOP_FS) >
	       0;
}

int topdraw_machine_want(const struct topdraw *d, int w)
{
	if (!topdraw_host(d))
		return 0;
	return 4 + topdraw_core_rows(topdraw_count(d, TOP_CORE), w) + topdraw_has_io(d);
}

void topdraw_machine(struct topdraw *d, struct topgrid_rect r)
{
	const struct topmodel_item *h = topdraw_host(d);
	struct topgrid_rect cores;
	char text[160];
	int y;

	snprintf(text, sizeof(text), "%s%s",
		 d->v->host < d->m->n_hosts ? d->m->hosts[d->v->host] : "",
		 d->m->n_hosts > 1 ? " (h: next host)" : "");
	topdraw_title(d, &r, TOPVIEW_MACHINE, text);
	topdraw_scroll(d, TOPVIEW_MACHINE, 0, r.h);
	if (!h) {
		if (r.h > 0)
			topgrid_text(d->g, r.x + 1, r.y, r.w - 1, TOPGRID_DIM, "not sampled");
		return;
	}
	/* Where there is no room for all, the sums matter more than single cores. */
	cores = (struct topgrid_rect){r.x, r.y, r.w, r.h - 3 - topdraw_has_io(d)};
	y = r.y + (cores.h > 0 ? topdraw_cores(d, &cores) : 0);
	if (y < r.y + r.h)
		topdraw_cpu((struct topdraw_row){d, r.x, y, r.x + r.w}, h);
	if (y + 1 < r.y + r.h)
		topdraw_memory((struct topdraw_row){d, r.x, y + 1, r.x + r.w}, h);
	if (y + 2 < r.y + r.h)
		topdraw_waits((struct topdraw_row){d, r.x, y + 2, r.x + r.w}, h);
	if (y + 3 < r.y + r.h && topdraw_has_io(d))
		topdraw_io((struct topdraw_row){d, r.x, y + 3, r.x + r.w});
}

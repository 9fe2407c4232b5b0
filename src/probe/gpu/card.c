/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/gpu/card.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/linux/sysfs.h"

#define CARD_MAX 64
#define CARD_LOOK_NS 60000000000 /* between looks for cards that came */
#define CARD_TEXT 1024

struct card {
	char pci[64];    /* "0000:03:00.0": who it is */
	unsigned number; /* label gpu: vendor and number, kept for this card */
	int fd;          /* cardN; -1: gone */
	char hwmon[32];  /* "device/hwmon/hwmon3"; "" none */
	bool known, told, absent;
	uint32_t point[CARD_SOURCES_MAX];
	bool use[CARD_SOURCES_MAX];
	double raw[CARD_SOURCES_MAX]; /* of CARD_MEAN_POWER */
	int64_t raw_ns;               /* CLOCK_MONOTONIC of the last reading; 0 */
};

struct cards {
	const struct card_vendor *v;
	const char *root;
	struct card *cards;
	size_t n;
	int64_t look_ns;
	bool seen[CARD_MAX];
	struct probe_set *s; /* while looking; NULL at the start */
};

/* ---- texts ----------------------------------------------------------------------------- */

static int card_plain(const char *text, double *ret)
{
	char *end;
	double v;

	text += strspn(text, " \t");
	if (!(*text >= '0' && *text <= '9') && *text != '-')
		return -EBADMSG;
	errno = 0;
	v = strtod(text, &end);
	if (end == text || errno || !isfinite(v))
		return -EBADMSG;
	*ret = v;
	return 0;
}

static int card_generation(const char *text, double *ret)
{
	static const double speeds[] = {2.5, 5, 8, 16, 32, 64, 128};
	double v;
	size_t i;

	if (card_plain(text, &v))
		return -EBADMSG;
	for (i = 0; i < ARRAY_LEN(speeds); i++) {
		if (fabs(v - speeds[i]) > 0.01)
			continue;
		*ret = (double)i + 1;
		return 0;
	}
	return -EBADMSG;
}

static int card_chosen(const char *text, double *ret)
{
	const char *line = text, *end, *colon;

	for (; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		colon = memchr(line, ':', (size_t)(end - line));
		if (colon && memchr(colon, '*', (size_t)(end - colon)))
			return card_plain(colon + 1, ret);
	}
	return -EBADMSG;
}

static int card_errors(const char *text, const char *key, double *ret)
{
	const char *at = strstr(text, key);

	return at ? card_plain(at + strlen(key), ret) : -EBADMSG;
}

int card_number(const char *text, enum card_how how, double *ret)
{
	switch (how) {
	case CARD_SPEED:
		return card_generation(text, ret);
	case CARD_CHOSEN:
		return card_chosen(text, ret);
	case CARD_CORRECTED:
		return card_errors(text, "ce:", ret);
	case CARD_UNCORRECTED:
		return card_errors(text, "ue:", ret);
	case CARD_NEVER:
		return -EBADMSG;
	default:
		return card_plain(text, ret);
	}
}

static int card_text(const struct card *c, const char *path, char text[CARD_TEXT])
{
	char full[128];
	ssize_t n;
	int fd;

	if (path[0] == '@') {
		if (!c->hwmon[0])
			return -ENOENT;
		snprintf(full, sizeof(full), "%s%s", c->hwmon, path + 1);
		path = full;
	}
	fd = openat(c->fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, CARD_TEXT - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	return 0;
}

static int card_value(const struct card *c, const struct card_source *source, double *ret)
{
	char text[CARD_TEXT];
	int err = card_text(c, source->path, text);

	return err ? err : card_number(text, source->how, ret);
}

/* The first line of a file as a string; "" if it cannot be read. */
static void card_line(const struct card *c, const char *path, char *out, size_t cap)
{
	if (sysfs_text(c->fd, path, out, cap))
		out[0] = '\0';
}

/* ---- finding ----------------------------------------------------------------------------- */

static int card_hwmon(void *arg, int entry_fd, const char *name, uint32_t number)
{
	struct card *c = arg;

	(void)entry_fd;
	(void)number;
	snprintf(c->hwmon, sizeof(c->hwmon), "device/hwmon/%.16s", name);
	return 1;
}

/* Who is behind cardN? Its PCI name, else (no link) the name of the card. */
static void card_pci(int fd, const char *name, char out[64])
{
	char link[PATH_MAX];
	ssize_t n = readlinkat(fd, "device", link, sizeof(link) - 1);
	const char *slash;

	if (n > 0) {
		link[n] = '\0';
		slash = strrchr(link, '/');
		name = slash ? slash + 1 : link;
	}
	snprintf(out, 64, "%.63s", name);
}

static void card_back(struct cards *w, const struct card *c)
{
	char text[200], attrs[96];

	if (!w->s)
		return;
	snprintf(text, sizeof(text), "GPU %s%u (%s) is back", w->v->name, c->number, c->pci);
	snprintf(attrs, sizeof(attrs), "{\"gpu\":\"%s%u\"}", w->v->name, c->number);
	probe_event(w->s, 1, "gpu-back", text, attrs);
}

static int card_found(void *arg, int entry_fd, const char *name, uint32_t number)
{
	struct cards *w = arg;
	char vendor[32], pci[64];
	struct card *c = NULL;
	int fd;
	size_t i;

	(void)number;
	fd = openat(entry_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (sysfs_text(fd, "device/vendor", vendor, sizeof(vendor)) ||
	    strtoul(vendor, NULL, 16) != w->v->id)
		goto not_ours;
	card_pci(fd, name, pci);
	for (i = 0; i < w->n && !c; i++)
		if (strcmp(w->cards[i].pci, pci) == 0 && !w->seen[i])
			c = &w->cards[i];
	if (c && c->fd >= 0) {
		w->seen[c - w->cards] = true;
		goto not_ours;
	}
	if (c) {
		c->fd = fd;
		card_back(w, c);
	} else if (w->n < CARD_MAX) {
		c = &w->cards[w->n];
		*c = (struct card){.fd = fd, .number = (unsigned)w->n};
		snprintf(c->pci, sizeof(c->pci), "%s", pci);
		w->n++;
	} else {
		goto not_ours;
	}
	w->seen[c - w->cards] = true;
	c->hwmon[0] = '\0';
	sysfs_each(fd, "device/hwmon", "hwmon", "", card_hwmon, c);
	return 0;
not_ours:
	close(fd);
	return 0;
}

static void card_look(struct cards *w, struct probe_set *s)
{
	int dir = sysfs_dir(w->root, "/sys/class/drm");

	if (dir < 0)
		return;
	memset(w->seen, 0, sizeof(w->seen));
	w->s = s;
	sysfs_each(dir, ".", "card", "", card_found, w);
	w->s = NULL;
	close(dir);
}

/* ---- facts ------------------------------------------------------------------------------- */

static void card_fact(const struct cards *w, const struct card *c, struct probe_set *s,
		      const char *key, const char *value)
{
	char name[64];

	if (!value[0])
		return;
	snprintf(name, sizeof(name), "gpu/%s%u/%s", w->v->name, c->number, key);
	probe_fact(s, name, value);
}

static void card_facts(const struct cards *w, struct card *c, struct probe_set *s)
{
	char text[128], id[32];
	int64_t node;

	c->told = true;
	card_line(c, "device/product_name", text, sizeof(text));
	if (!text[0]) {
		card_line(c, "device/device", id, sizeof(id));
		snprintf(text, sizeof(text), "%s %s", w->v->title, id);
	}
	card_fact(w, c, s, "name", text);
	card_fact(w, c, s, "vendor", w->v->name);
	card_fact(w, c, s, "pci", c->pci);
	card_line(c, "device/unique_id", text, sizeof(text));
	card_fact(w, c, s, "uuid", text);
	card_line(c, "device/mem_info_vram_total", text, sizeof(text));
	card_fact(w, c, s, "memory", text);
	if (!sysfs_number(c->fd, "device/numa_node", &node) && node >= 0) {
		snprintf(text, sizeof(text), "%lld", (long long)node);
		card_fact(w, c, s, "numa", text);
	}
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Is there one before that gives the same? */
static bool card_is_spare(const struct cards *w, const struct card *c, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (c->use[k] && w->v->sources[k].row == w->v->sources[i].row)
			return true;
	return false;
}

static void card_know(const struct cards *w, struct card *c, struct probe_set *s)
{
	char labels[PROBE_LABELS_MAX] = "", name[32];
	double v;
	size_t i;

	snprintf(name, sizeof(name), "%s%u", w->v->name, c->number);
	probe_label(labels, sizeof(labels), "gpu", name);
	for (i = 0; i < w->v->n; i++) {
		const struct card_source *source = &w->v->sources[i];

		c->point[i] = PROBE_NONE;
		c->use[i] = false;
		if (card_is_spare(w, c, i))
			continue;
		if (source->how == CARD_NEVER) {
			c->point[i] = probe_point(s, &gpu_rows[source->row], labels);
			probe_absent(s, c->point[i], source->path);
			continue;
		}
		c->use[i] = card_value(c, source, &v) == 0;
		if (c->use[i])
			c->point[i] = probe_point(s, &gpu_rows[source->row], labels);
	}
	c->known = true;
}

static void card_absent(const struct cards *w, struct card *c, struct probe_set *s, const char *why)
{
	size_t i;

	for (i = 0; i < w->v->n; i++)
		if (c->use[i])
			probe_absent(s, c->point[i], why);
	c->raw_ns = 0;
	c->absent = true;
}

static void card_put_power(struct card *c, size_t i, double v, struct probe_set *s, double scale,
			   int64_t mono_ns)
{
	double passed = (double)(mono_ns - c->raw_ns) / 1e9;

	if (!c->raw_ns || v < c->raw[i] || passed <= 0)
		probe_absent(s, c->point[i], "needs a second reading");
	else
		probe_put(s, c->point[i], (v - c->raw[i]) * scale / passed);
	c->raw[i] = v;
}

static int card_put(const struct cards *w, struct card *c, size_t i, struct probe_set *s,
		    const struct probe_now *now)
{
	const struct card_source *source = &w->v->sources[i];
	double v;
	int err = card_value(c, source, &v);

	if (err == -EBADMSG)
		probe_absent(s, c->point[i], "the driver's file holds no number");
	else if (err)
		probe_absent(s, c->point[i], "the driver's file cannot be read");
	else if (source->how == CARD_MEAN_POWER)
		card_put_power(c, i, v, s, source->scale, now->mono_ns);
	else if (source->how == CARD_COUNT || source->how == CARD_CORRECTED ||
		 source->how == CARD_UNCORRECTED)
		probe_count(s, c->point[i], v < 0 ? 0 : (uint64_t)v, 0, source->scale);
	else
		probe_put(s, c->point[i], v * source->scale);
	return err;
}

static void card_lost(const struct cards *w, struct card *c, struct probe_set *s)
{
	char text[200], attrs[96];

	close(c->fd);
	c->fd = -1;
	snprintf(text, sizeof(text), "GPU %s%u (%s) is lost: the kernel took it away", w->v->name,
		 c->number, c->pci);
	snprintf(attrs, sizeof(attrs), "{\"gpu\":\"%s%u\"}", w->v->name, c->number);
	probe_event(s, 3, "gpu-lost", text, attrs);
	card_absent(w, c, s, "the GPU is gone");
}

static void card_one(const struct cards *w, struct card *c, struct probe_set *s,
		     const struct probe_now *now)
{
	char text[32];
	size_t i;

	if (c->fd < 0)
		return;
	if (sysfs_text(c->fd, "device/vendor", text, sizeof(text))) {
		card_lost(w, c, s);
		return;
	}
	card_line(c, "device/power/runtime_status", text, sizeof(text));
	if (strcmp(text, "suspended") == 0) {
		card_absent(w, c, s, "the GPU sleeps, and reading would wake it");
		return;
	}
	if (!c->known)
		card_know(w, c, s);
	if (!c->told)
		card_facts(w, c, s);
	c->absent = false;
	for (i = 0; i < w->v->n; i++)
		if (c->use[i])
			card_put(w, c, i, s, now);
	c->raw_ns = now->mono_ns;
}

void card_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct cards *w = state;
	size_t i;

	if (!w->look_ns) {
		w->look_ns = now->mono_ns + CARD_LOOK_NS;
	} else if (now->mono_ns >= w->look_ns) {
		w->look_ns = now->mono_ns + CARD_LOOK_NS;
		card_look(w, s);
	}
	for (i = 0; i < w->n; i++)
		card_one(w, &w->cards[i], s, now);
}

void card_close(void *state)
{
	struct cards *w = state;
	size_t i;

	for (i = 0; i < w->n; i++)
		if (w->cards[i].fd >= 0)
			close(w->cards[i].fd);
	free(w->cards);
	free(w);
}

int card_open(const struct probe_env *env, const struct card_vendor *v, void **ret_state,
	      struct err *e)
{
	struct cards *w = calloc(1, sizeof(*w));

	if (w)
		w->cards = calloc(CARD_MAX, sizeof(*w->cards));
	if (!w || !w->cards) {
		free(w);
		return -ENOMEM;
	}
	w->v = v;
	w->root = env->root;
	card_look(w, NULL);
	if (w->n == 0) {
		card_close(w);
		return err_set(e, -ENODEV,
			       "no %s below /sys/class/drm: none here, or its kernel driver is not "
			       "loaded",
			       v->title);
	}
	*ret_state = w;
	return 0;
}

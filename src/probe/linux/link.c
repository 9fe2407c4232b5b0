/* SPDX-License-Identifier: Apache-2.0
 *
 * The group link: how fast the network interfaces are and whether they have a
 * connection. Drivers may ask the card's firmware for it, which takes milliseconds.
 */
#include "probe/groups.h"
#include "probe/linux/network.h"
#include "probe/linux/slots.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK_PATH (PROBE_ROOT_MAX + 320)
#define LINK_TEXT_MAX 4096
#define LINK_SPEED 125000.0 /* bytes/s of 1 Mbit/s, the unit of the file */

enum {
	LINK_SPEED_ROW,
	LINK_UP,
	LINK_METRICS
};

/* clang-format off */
static const struct probe_metric link_metrics[LINK_METRICS] = {
	[LINK_SPEED_ROW] = {"network/speed", "By/s",
		"speed in each direction that the interface and its peer have agreed on",
		"/sys/class/net/X/speed", SINK_GAUGE, PROBE_COST_RARE, "interface"},
	[LINK_UP] = {"network/up", "1",
		"1 if the interface has a connection, 0 if not; an event tells each change",
		"/sys/class/net/X/operstate", SINK_GAUGE, PROBE_COST_EACH, "interface"},
};
/* clang-format on */

struct link_slot {
	struct slot slot;
	bool skip;
	int up; /* -1 unknown */
	uint32_t points[LINK_METRICS];
};

struct link {
	char root[PROBE_ROOT_MAX];
	struct textbuf buf;
	struct slots slots;
	struct probe_set *set; /* during a reading */
};

static void link_make(struct link *k, struct link_slot *slot)
{
	char labels[PROBE_LABELS_MAX] = "", path[LINK_PATH];
	int i;

	slot->up = -1;
	/* What has no device is made of others, or of nothing. In a container the virtual
	 * interface is all there is. */
	snprintf(path, sizeof(path), "%s/sys/class/net/%.255s/device", k->root, slot->slot.name);
	slot->skip = network_is_skipped(slot->slot.name) ||
		     (access(path, F_OK) < 0 && strncmp(slot->slot.name, "bond", 4) != 0 &&
		      strncmp(slot->slot.name, "eth", 3) != 0) ||
		     probe_label(labels, sizeof(labels), "interface", slot->slot.name) < 0;
	for (i = 0; !slot->skip && i < LINK_METRICS; i++)
		slot->points[i] = probe_point(k->set, &link_metrics[i], labels);
}

static void link_read_speed(struct link *k, const struct link_slot *slot)
{
	char path[LINK_PATH];
	uint64_t v;
	int err;

	snprintf(path, sizeof(path), "/sys/class/net/%.255s/speed", slot->slot.name);
	err = textfile_u64(k->root, path, &v);
	/* Unknown is -1, 0 with some drivers, an error, or all bits of 32. */
	if (err || v == 0 || v >= INT32_MAX)
		probe_absent(k->set, slot->points[LINK_SPEED_ROW],
			     "the driver does not tell: the interface is virtual or has no "
			     "connection");
	else
		probe_put(k->set, slot->points[LINK_SPEED_ROW], (double)v * LINK_SPEED);
}

/* 1 up, 0 down, -1 unknown. */
static int link_state(struct link *k, const char *name)
{
	char path[LINK_PATH];
	size_t n;

	snprintf(path, sizeof(path), "/sys/class/net/%.255s/operstate", name);
	if (textfile_once(k->root, path, &k->buf, LINK_TEXT_MAX) < 0)
		return -1;
	for (n = k->buf.len; n && k->buf.text[n - 1] == '\n';)
		n--;
	if (n == 2 && memcmp(k->buf.text, "up", 2) == 0)
		return 1;
	if ((n == 4 && memcmp(k->buf.text, "down", 4) == 0) ||
	    (n == 14 && memcmp(k->buf.text, "lowerlayerdown", 14) == 0))
		return 0;
	return -1;
}

static void link_read_state(struct link *k, struct link_slot *slot)
{
	int up = link_state(k, slot->slot.name);
	char text[200];

	if (up < 0) {
		probe_absent(k->set, slot->points[LINK_UP], "the driver does not tell");
		return;
	}
	probe_put(k->set, slot->points[LINK_UP], up);
	if (slot->up >= 0 && up != slot->up) {
		snprintf(text, sizeof(text), "the network interface %.100s %s its connection",
			 slot->slot.name, up ? "has" : "lost");
		probe_event(k->set, up ? 1 : 3, "network-link", text, "");
	}
	slot->up = up;
}

static void link_gone(void *arg, void *item)
{
	const struct link_slot *slot = item;
	struct link *k = arg;
	int i;

	for (i = 0; !slot->skip && i < LINK_METRICS; i++)
		probe_absent(k->set, slot->points[i], "the interface is gone");
}

static void link_close(void *state)
{
	struct link *k = state;

	slots_done(&k->slots, NULL);
	textbuf_done(&k->buf);
	free(k);
}

static int link_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		     struct err *e)
{
	struct link *k = calloc(1, sizeof(*k));
	char path[LINK_PATH];

	(void)s;
	if (!k)
		return -ENOMEM;
	slots_init(&k->slots, sizeof(struct link_slot), NETWORK_MAX);
	snprintf(k->root, sizeof(k->root), "%s", env->root);
	snprintf(path, sizeof(path), "%s/sys/class/net", k->root);
	if (access(path, R_OK) < 0) {
		link_close(k);
		return err_errno(e, -ENODEV, "/sys/class/net cannot be read");
	}
	*ret_state = k;
	return 0;
}

static void link_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct link *k = state;
	struct link_slot *slot;
	struct dirent *entry;
	char path[LINK_PATH];
	bool is_new;
	DIR *dir;

	(void)now;
	k->set = s;
	snprintf(path, sizeof(path), "%s/sys/class/net", k->root);
	dir = opendir(path);
	slots_begin(&k->slots);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || network_is_skipped(entry->d_name))
			continue;
		slot = slots_get(&k->slots, entry->d_name, strlen(entry->d_name), &is_new);
		if (slot && is_new)
			link_make(k, slot);
		if (!slot || slot->skip)
			continue;
		link_read_speed(k, slot);
		link_read_state(k, slot);
	}
	if (dir)
		closedir(dir);
	slots_end(&k->slots, link_gone, k);
}

const struct probe_group probe_link = {
	.name = "link",
	.metrics = link_metrics,
	.n_metrics = LINK_METRICS,
	.place = PROBE_SLOW,
	.period_ns = 10000000000,
	.open = link_open,
	.read = link_read,
	.close = link_close,
};

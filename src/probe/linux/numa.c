/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of each NUMA node, and how often the kernel took a page from another node
 * than it wanted to. Nothing on machines of one node.
 */
#include "probe/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/sysfs.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#define NUMA_NODES_MAX 1024 /* the kernel's */
#define NUMA_TEXT_MAX 65536
#define NUMA_SCAN_NS 60000000000 /* memory may be plugged in */

enum {
	NUMA_TOTAL,
	NUMA_FREE,
	NUMA_USED,
	NUMA_MISS,
	NUMA_FOREIGN,
	NUMA_METRICS
};

/* clang-format off */
#define NUMA_MEMORY(line) "/sys/devices/system/node/nodeN/meminfo " line, SINK_GAUGE, \
	PROBE_COST_EACH, "node"
#define NUMA_COUNT(line) "/sys/devices/system/node/nodeN/numastat " line, SINK_COUNTER, \
	PROBE_COST_EACH, "node"
static const struct probe_metric numa_metrics[NUMA_METRICS] = {
	[NUMA_TOTAL] = {"numa/memory/total", "By", "memory of a node", NUMA_MEMORY("MemTotal")},
	[NUMA_FREE] = {"numa/memory/free", "By", "memory of a node that nothing uses",
		NUMA_MEMORY("MemFree")},
	[NUMA_USED] = {"numa/memory/used", "By",
		"numa/memory/total less numa/memory/free: caches are in it", NUMA_MEMORY("MemUsed")},
	[NUMA_MISS] = {"numa/miss", "1",
		"pages that a node gave although another was wanted", NUMA_COUNT("numa_miss")},
	[NUMA_FOREIGN] = {"numa/foreign", "1",
		"pages that were wanted from a node and came from another: it was full",
		NUMA_COUNT("numa_foreign")},
};

static const struct hosttext_key numa_keys[] = {
	HOSTTEXT_KEY("MemTotal", NUMA_TOTAL),
	HOSTTEXT_KEY("MemFree", NUMA_FREE),
	HOSTTEXT_KEY("numa_miss", NUMA_MISS),
	HOSTTEXT_KEY("numa_foreign", NUMA_FOREIGN),
};
/* clang-format on */

struct numa_node {
	uint32_t id;
	struct textfile meminfo, numastat;
	uint32_t points[NUMA_METRICS];
};

struct numa_state {
	const struct probe_env *env;
	struct textbuf buf;
	struct numa_node *nodes;
	size_t len, cap;
	int64_t scan_ns; /* CLOCK_MONOTONIC of the last search */
};

static bool numa_knows(const struct numa_state *n, uint32_t id)
{
	size_t i;

	for (i = 0; i < n->len; i++)
		if (n->nodes[i].id == id)
			return true;
	return false;
}

static int numa_add(struct numa_state *n, struct probe_set *s, uint32_t id)
{
	size_t cap = n->cap ? n->cap * 2 : 8;
	char path[96], labels[PROBE_LABELS_MAX];
	struct numa_node *node;
	int i, err;

	if (n->len == n->cap) {
		node = realloc(n->nodes, cap * sizeof(*node));
		if (!node)
			return -ENOMEM;
		n->nodes = node;
		n->cap = cap;
	}
	node = &n->nodes[n->len];
	node->id = id;
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", id);
	err = textfile_init(&node->meminfo, n->env->root, path);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/numastat", id);
	err = textfile_init(&node->numastat, n->env->root, path);
	if (err) {
		textfile_done(&node->meminfo);
		return err;
	}
	snprintf(labels, sizeof(labels), "node=\"%u\"", id);
	for (i = 0; i < NUMA_METRICS; i++)
		node->points[i] = probe_point(s, &numa_metrics[i], labels);
	n->len++;
	return 0;
}

/* Nodes that have memory: some machines list many that wait for a device's. */
static int numa_list(struct numa_state *n)
{
	static const char has[] = "/sys/devices/system/node/has_memory"; /* since Linux 3.8 */
	int err = textfile_once(n->env->root, has, &n->buf, NUMA_TEXT_MAX);

	return err ? textfile_once(n->env->root, "/sys/devices/system/node/online", &n->buf,
				   NUMA_TEXT_MAX)
		   : 0;
}

/* Make out what nodes there are; s NULL only counts them. */
static int numa_scan(struct numa_state *n, struct probe_set *s, size_t *ret_count)
{
	uint32_t first, last;
	const char *p, *end;
	size_t count = 0;
	int err;

	err = numa_list(n);
	p = n->buf.text;
	end = err ? p : p + n->buf.len;
	while (!err && !hosttext_range(&p, end, &first, &last))
		for (; !err && first <= last && first < NUMA_NODES_MAX; first++) {
			count++;
			if (s && !numa_knows(n, first))
				err = numa_add(n, s, first);
		}
	*ret_count = count;
	return err;
}

static void numa_read_node(struct numa_state *n, struct probe_set *s, struct numa_node *node)
{
	uint64_t v[NUMA_METRICS];
	uint32_t found = 0;
	int i;

	if (!textfile_read(&node->meminfo, &n->buf, NUMA_TEXT_MAX))
		found = hosttext_pairs(n->buf.text, n->buf.text + n->buf.len, numa_keys,
				       ARRAY_LEN(numa_keys), v, NUMA_METRICS);
	if ((found >> NUMA_TOTAL & 1) && (found >> NUMA_FREE & 1) &&
	    v[NUMA_FREE] <= v[NUMA_TOTAL]) {
		v[NUMA_USED] = v[NUMA_TOTAL] - v[NUMA_FREE];
		found |= 1u << NUMA_USED;
	}
	for (i = NUMA_TOTAL; i <= NUMA_USED; i++) {
		if (found >> i & 1)
			probe_put(s, node->points[i], (double)v[i]);
		else
			probe_absent(s, node->points[i], "the node's meminfo does not tell");
	}
	found = 0;
	if (!textfile_read(&node->numastat, &n->buf, NUMA_TEXT_MAX))
		found = hosttext_pairs(n->buf.text, n->buf.text + n->buf.len, numa_keys,
				       ARRAY_LEN(numa_keys), v, NUMA_METRICS);
	for (i = NUMA_MISS; i <= NUMA_FOREIGN; i++) {
		if (found >> i & 1)
			probe_count(s, node->points[i], v[i], sizeof(long) == 4 ? 32 : 0, 1);
		else
			probe_absent(s, node->points[i], "the node's numastat does not tell");
	}
}

static void numa_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct numa_state *n = state;
	size_t i, count;

	if (!n->scan_ns || now->mono_ns - n->scan_ns >= NUMA_SCAN_NS) {
		numa_scan(n, s, &count);
		n->scan_ns = now->mono_ns;
	}
	for (i = 0; i < n->len; i++)
		numa_read_node(n, s, &n->nodes[i]);
}

static void numa_close(void *state)
{
	struct numa_state *n = state;
	size_t i;

	for (i = 0; i < n->len; i++) {
		textfile_done(&n->nodes[i].meminfo);
		textfile_done(&n->nodes[i].numastat);
	}
	free(n->nodes);
	textbuf_done(&n->buf);
	free(n);
}

static int numa_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		     struct err *e)
{
	struct numa_state *n = calloc(1, sizeof(*n));
	size_t count = 0;
	int err;

	if (!n)
		return -ENOMEM;
	n->env = env;
	err = numa_scan(n, NULL, &count);
	if (!err && count > 1)
		err = numa_scan(n, s, &count);
	if (err == -ENOMEM || (!err && count > 1)) {
		*ret_state = n;
		if (err)
			numa_close(n);
		return err;
	}
	numa_close(n);
	if (err)
		err_errno(e, err, "/sys/devices/system/node cannot be read");
	else
		err_set(e, -ENODEV, "the machine has one NUMA node: see the figures of memory");
	return -ENODEV;
}

const struct probe_group probe_numa = {
	.name = "numa",
	.metrics = numa_metrics,
	.n_metrics = NUMA_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 10000000000,
	.open = numa_open,
	.read = numa_read,
	.close = numa_close,
};

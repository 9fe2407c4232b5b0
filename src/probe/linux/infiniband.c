/* SPDX-License-Identifier: Apache-2.0
 *
 * The group infiniband: ports of InfiniBand and RoCE cards, and of Amazon's EFA. Files:
 * the kernel's Documentation/ABI/stable/sysfs-class-infiniband. Reading one may ask the
 * card's firmware, so it has no place in the agent's thread.
 */
#include "base/mem.h"
#include "probe/groups.h"
#include "probe/linux/proc.h"
#include "probe/linux/slots.h"
#include "probe/linux/textfile.h"
#include "wire/sink.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INFINIBAND_DIR "/sys/class/infiniband"
#define INFINIBAND_MAX 128 /* ports */
#define INFINIBAND_PATH 640
#define INFINIBAND_TEXT_MAX 4096
#define INFINIBAND_RARE_NS 10000000000 /* between looks at states, errors and new ports */

enum {
	INFINIBAND_RECEIVED,
	INFINIBAND_SENT,
	INFINIBAND_DATA, /* rows above are read each time */
	INFINIBAND_SYMBOL = INFINIBAND_DATA,
	INFINIBAND_RECEIVE,
	INFINIBAND_DOWNED,
	INFINIBAND_ORDER,
	INFINIBAND_SEQUENCE,
	INFINIBAND_ACK,
	INFINIBAND_RNR,
	INFINIBAND_CNP_SENT,
	INFINIBAND_CNP_HANDLED,
	INFINIBAND_COUNTERS, /* rows above are counters */
	INFINIBAND_UP = INFINIBAND_COUNTERS,
	INFINIBAND_RATE,
	INFINIBAND_METRICS
};

/* clang-format off */
static const struct probe_metric infiniband_metrics[INFINIBAND_METRICS] = {
	[INFINIBAND_RECEIVED] = {"infiniband/received", "By", "bytes received by the port",
		"counters/port_rcv_data times 4; hw_counters/rx_bytes of EFA",
		SINK_COUNTER, PROBE_COST_EACH, "device,port"},
	[INFINIBAND_SENT] = {"infiniband/sent", "By", "bytes sent by the port",
		"counters/port_xmit_data times 4; hw_counters/tx_bytes of EFA",
		SINK_COUNTER, PROBE_COST_EACH, "device,port"},
	[INFINIBAND_SYMBOL] = {"infiniband/errors/symbol", "1",
		"symbols that could not be understood: a bad cable or connector if they go on",
		"counters/symbol_error", SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_RECEIVE] = {"infiniband/errors/received", "1",
		"packets received with an error", "counters/port_rcv_errors",
		SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_DOWNED] = {"infiniband/errors/link_downed", "1",
		"times that the port lost its connection", "counters/link_downed",
		SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_ORDER] = {"infiniband/errors/out_of_sequence", "1",
		"packets that came out of order: some were lost or took another way",
		"hw_counters/out_of_sequence", SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_SEQUENCE] = {"infiniband/errors/packet_seq", "1",
		"requests to send packets again, since some were lost",
		"hw_counters/packet_seq_err", SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_ACK] = {"infiniband/errors/ack_timeout", "1",
		"packets that nobody acknowledged in time",
		"hw_counters/local_ack_timeout_err", SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_RNR] = {"infiniband/errors/receiver_not_ready", "1",
		"sends given up since the receiver had no buffer too often",
		"hw_counters/rnr_nak_retry_err", SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_CNP_SENT] = {"infiniband/congestion/sent", "1",
		"congestion notices that the port sent: a switch marked packets that it received",
		"hw_counters/np_cnp_sent", SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_CNP_HANDLED] = {"infiniband/congestion/handled", "1",
		"congestion notices that made the port send more slowly",
		"hw_counters/rp_cnp_handled", SINK_COUNTER, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_UP] = {"infiniband/up", "1",
		"1 if the port is active, 0 if not; an event tells each change",
		"state", SINK_GAUGE, PROBE_COST_RARE, "device,port"},
	[INFINIBAND_RATE] = {"infiniband/rate", "By/s",
		"speed in each direction that the port and its peer have agreed on",
		"rate", SINK_GAUGE, PROBE_COST_RARE, "device,port"},
};

/* Files of the counters below the port's folder; the second one where the first is not.
 * Old cards' counters stay at their end once they are there; newer ones are wider. */
static const struct infiniband_source {
	const char *file, *other;
	double scale, other_scale;
	uint64_t end;
} infiniband_sources[INFINIBAND_COUNTERS] = {
	[INFINIBAND_RECEIVED] = {"counters/port_rcv_data", "hw_counters/rx_bytes", 4, 1,
		UINT32_MAX},
	[INFINIBAND_SENT] = {"counters/port_xmit_data", "hw_counters/tx_bytes", 4, 1,
		UINT32_MAX},
	[INFINIBAND_SYMBOL] = {"counters/symbol_error", NULL, 1, 1, UINT16_MAX},
	[INFINIBAND_RECEIVE] = {"counters/port_rcv_errors", NULL, 1, 1, UINT16_MAX},
	[INFINIBAND_DOWNED] = {"counters/link_downed", NULL, 1, 1, UINT8_MAX},
	[INFINIBAND_ORDER] = {"hw_counters/out_of_sequence", NULL, 1, 1, UINT32_MAX},
	[INFINIBAND_SEQUENCE] = {"hw_counters/packet_seq_err", NULL, 1, 1, UINT32_MAX},
	[INFINIBAND_ACK] = {"hw_counters/local_ack_timeout_err", NULL, 1, 1, UINT32_MAX},
	[INFINIBAND_RNR] = {"hw_counters/rnr_nak_retry_err", NULL, 1, 1, UINT32_MAX},
	[INFINIBAND_CNP_SENT] = {"hw_counters/np_cnp_sent", NULL, 1, 1, UINT32_MAX},
	[INFINIBAND_CNP_HANDLED] = {"hw_counters/rp_cnp_handled", NULL, 1, 1, UINT32_MAX},
};
/* clang-format on */

struct infiniband_port {
	struct slot slot; /* "mlx5_0/ports/1" */
	int up;           /* -1 unknown */
	double scale[INFINIBAND_DATA];
	bool absent[INFINIBAND_COUNTERS]; /* the card has no such counter */
	struct textfile data[INFINIBAND_DATA];
	uint32_t points[INFINIBAND_METRICS];
};

struct infiniband {
	char root[PROBE_ROOT_MAX];
	struct textbuf buf;
	struct slots ports;
	int64_t looked_ns; /* CLOCK_MONOTONIC; 0 never */
	struct probe_set *set;
};

/* ---- ports ---------------------------------------------------------------------- */

static void infiniband_path(const struct infiniband_port *p, const char *file,
			    char path[INFINIBAND_PATH])
{
	snprintf(path, INFINIBAND_PATH, INFINIBAND_DIR "/%s/%s", p->slot.name, file);
}

static bool infiniband_has(const struct infiniband *b, const char *path)
{
	char full[PROBE_ROOT_MAX + INFINIBAND_PATH];

	snprintf(full, sizeof(full), "%s%s", b->root, path);
	return access(full, F_OK) == 0;
}

static void infiniband_make(struct infiniband *b, struct infiniband_port *p)
{
	char labels[PROBE_LABELS_MAX] = "", device[256], path[INFINIBAND_PATH];
	const char *port = strrchr(p->slot.name, '/') + 1;
	int i;

	p->up = -1;
	snprintf(device, sizeof(device), "%.*s", (int)strcspn(p->slot.name, "/"), p->slot.name);
	probe_label(labels, sizeof(labels), "device", device);
	probe_label(labels, sizeof(labels), "port", port);
	for (i = 0; i < INFINIBAND_METRICS; i++)
		p->points[i] = probe_point(b->set, &infiniband_metrics[i], labels);
	for (i = 0; i < INFINIBAND_COUNTERS; i++) {
		const struct infiniband_source *from = &infiniband_sources[i];
		double scale = from->scale;

		infiniband_path(p, from->file, path);
		if (!infiniband_has(b, path) && from->other) {
			infiniband_path(p, from->other, path);
			scale = from->other_scale;
		}
		p->absent[i] = !infiniband_has(b, path);
		if (p->absent[i])
			probe_absent(b->set, p->points[i], "the card has no such counter");
		if (i >= INFINIBAND_DATA)
			continue;
		p->scale[i] = scale;
		if (textfile_init(&p->data[i], b->root, path) < 0)
			p->absent[i] = true;
	}
}

static void infiniband_port_done(void *item)
{
	struct infiniband_port *p = item;
	int i;

	for (i = 0; i < INFINIBAND_DATA; i++)
		if (p->data[i].path)
			textfile_done(&p->data[i]);
}

static void infiniband_gone(void *arg, void *item)
{
	struct infiniband_port *p = item;
	struct infiniband *b = arg;
	char text[200];
	int i;

	for (i = 0; i < INFINIBAND_METRICS; i++)
		probe_absent(b->set, p->points[i], "the port is gone");
	snprintf(text, sizeof(text), "the InfiniBand port %.100s is gone", p->slot.name);
	probe_event(b->set, 3, "infiniband-gone", text, "");
	infiniband_port_done(p);
}

static void infiniband_look_at(struct infiniband *b, const char *device)
{
	char path[PROBE_ROOT_MAX + INFINIBAND_PATH], name[560];
	struct infiniband_port *p;
	struct dirent *entry;
	bool is_new;
	DIR *dir;
	int n;

	snprintf(path, sizeof(path), "%s" INFINIBAND_DIR "/%.255s/ports", b->root, device);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		n = snprintf(name, sizeof(name), "%.255s/ports/%.255s", device, entry->d_name);
		p = slots_get(&b->ports, name, (size_t)n, &is_new);
		if (p && is_new)
			infiniband_make(b, p);
	}
	if (dir)
		closedir(dir);
}

static void infiniband_look(struct infiniband *b)
{
	char path[PROBE_ROOT_MAX + INFINIBAND_PATH];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s" INFINIBAND_DIR, b->root);
	dir = opendir(path);
	slots_begin(&b->ports);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			infiniband_look_at(b, entry->d_name);
	if (dir)
		closedir(dir);
	slots_end(&b->ports, infiniband_gone, b);
}

/* ---- figures -------------------------------------------------------------------- */

static void infiniband_count(struct infiniband *b, const struct infiniband_port *p, int i, int err,
			     uint64_t v, double scale)
{
	uint32_t at = p->points[i];

	if (err)
		probe_absent(b->set, at, "the counter cannot be read");
	else if (v == infiniband_sources[i].end)
		probe_absent(b->set, at,
			     "the counter may have reached its end and stand still: perfquery -R "
			     "sets it back");
	else
		probe_count(b->set, at, v, 0, scale);
}

static void infiniband_read_data(struct infiniband *b, struct infiniband_port *p)
{
	const char *text, *end;
	uint64_t v;
	int i, err;

	for (i = 0; i < INFINIBAND_DATA; i++) {
		if (p->absent[i])
			continue;
		v = 0;
		err = textfile_read(&p->data[i], &b->buf, INFINIBAND_TEXT_MAX);
		if (!err) {
			text = b->buf.text;
			end = text + b->buf.len;
			err = proc_number(&text, end, &v);
		}
		infiniband_count(b, p, i, err, v, p->scale[i]);
	}
}

static void infiniband_read_errors(struct infiniband *b, const struct infiniband_port *p)
{
	char path[INFINIBAND_PATH];
	uint64_t v;
	int i, err;

	for (i = INFINIBAND_DATA; i < INFINIBAND_COUNTERS; i++) {
		if (p->absent[i])
			continue;
		v = 0;
		infiniband_path(p, infiniband_sources[i].file, path);
		err = textfile_u64(b->root, path, &v);
		infiniband_count(b, p, i, err, v, infiniband_sources[i].scale);
	}
}

/* "4: ACTIVE" */
static void infiniband_read_state(struct infiniband *b, struct infiniband_port *p)
{
	char path[INFINIBAND_PATH], text[200];
	size_t len;
	int up;

	infiniband_path(p, "state", path);
	if (textfile_once(b->root, path, &b->buf, INFINIBAND_TEXT_MAX) < 0 || b->buf.len < 2 ||
	    b->buf.text[1] != ':') {
		probe_absent(b->set, p->points[INFINIBAND_UP], "the port's state cannot be read");
		return;
	}
	up = b->buf.text[0] == '4';
	probe_put(b->set, p->points[INFINIBAND_UP], up);
	if (p->up >= 0 && p->up != up) {
		for (len = b->buf.len; len && b->buf.text[len - 1] == '\n';)
			len--;
		snprintf(text, sizeof(text), "the InfiniBand port %.100s is %s (state %.*s)",
			 p->slot.name, up ? "active" : "not active", len > 40 ? 40 : (int)len,
			 b->buf.text);
		probe_event(b->set, up ? 1 : 3, "infiniband-link", text, "");
	}
	p->up = up;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static int infiniband_rate(const char *p, const char *end, double *ret)
{
	uint64_t whole, tenth = 0;

	if (proc_number(&p, end, &whole))
		return -EBADMSG;
	if (p < end && *p == '.') {
		p++;
		if (p >= end || *p < '0' || *p > '9')
			return -EBADMSG;
		tenth = (uint64_t)(*p++ - '0');
	}
	if (!proc_begins(p, end, " Gb/sec"))
		return -EBADMSG;
	*ret = ((double)whole * 10 + (double)tenth) * 1e8 / 8;
	return 0;
}

static void infiniband_read_rate(struct infiniband *b, const struct infiniband_port *p)
{
	char path[INFINIBAND_PATH];
	double rate;

	infiniband_path(p, "rate", path);
	if (textfile_once(b->root, path, &b->buf, INFINIBAND_TEXT_MAX) < 0 ||
	    infiniband_rate(b->buf.text, b->buf.text + b->buf.len, &rate) < 0 || rate <= 0)
		probe_absent(b->set, p->points[INFINIBAND_RATE], "the port does not tell");
	else
		probe_put(b->set, p->points[INFINIBAND_RATE], rate);
}

/* ---- the group -------------------------------------------------------------------- */

static void infiniband_close(void *state)
{
	struct infiniband *b = state;

	slots_done(&b->ports, infiniband_port_done);
	textbuf_done(&b->buf);
	free(b);
}

static int infiniband_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			   struct err *e)
{
	struct infiniband *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	slots_init(&b->ports, sizeof(struct infiniband_port), INFINIBAND_MAX);
	snprintf(b->root, sizeof(b->root), "%s", env->root);
	b->set = s;
	if (!infiniband_has(b, INFINIBAND_DIR)) {
		infiniband_close(b);
		return err_set(e, -ENODEV,
			       "no InfiniBand or RoCE card with a driver: " INFINIBAND_DIR
			       " is not there");
	}
	*ret_state = b;
	return 0;
}

static void infiniband_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct infiniband *b = state;
	bool rare = !b->looked_ns || now->mono_ns - b->looked_ns >= INFINIBAND_RARE_NS;
	struct infiniband_port *p;
	size_t i;

	b->set = s;
	if (rare) {
		infiniband_look(b);
		b->looked_ns = now->mono_ns;
	}
	for (i = 0; i < b->ports.len; i++) {
		p = slots_at(&b->ports, i);
		infiniband_read_data(b, p);
		if (!rare)
			continue;
		infiniband_read_errors(b, p);
		infiniband_read_state(b, p);
		infiniband_read_rate(b, p);
	}
}

const struct probe_group probe_infiniband = {
	.name = "infiniband",
	.metrics = infiniband_metrics,
	.n_metrics = INFINIBAND_METRICS,
	.place = PROBE_SLOW,
	.period_ns = 1000000000,
	.open = infiniband_open,
	.read = infiniband_read,
	.close = infiniband_close,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The group network: interfaces of this network namespace and TCP. Formats: proc(5),
 * RFC 4022 for the names of /proc/net/snmp.
 */
#include "probe/linux/network.h"

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

#define NETWORK_FILE_MAX (1u << 20) /* bytes of a file */
#define NETWORK_LINES_MAX 4096
#define NETWORK_BITS 32 /* some drivers count in so many */

enum {
	NETWORK_RECEIVED,
	NETWORK_SENT,
	NETWORK_PACKETS_RECEIVED,
	NETWORK_PACKETS_SENT,
	NETWORK_ERRORS,
	NETWORK_DROPS,
	NETWORK_OF_INTERFACE,
	NETWORK_TCP_SEGMENTS = NETWORK_OF_INTERFACE,
	NETWORK_TCP_RETRANSMITS,
	NETWORK_METRICS
};

/* clang-format off */
static const struct probe_metric network_metrics[NETWORK_METRICS] = {
	[NETWORK_RECEIVED] = {"network/received", "By", "bytes received by the interface",
		"/proc/net/dev", SINK_COUNTER, PROBE_COST_LOW, "interface"},
	[NETWORK_SENT] = {"network/sent", "By", "bytes sent by the interface",
		"/proc/net/dev", SINK_COUNTER, PROBE_COST_LOW, "interface"},
	[NETWORK_PACKETS_RECEIVED] = {"network/packets/received", "1",
		"packets received by the interface",
		"/proc/net/dev", SINK_COUNTER, PROBE_COST_LOW, "interface"},
	[NETWORK_PACKETS_SENT] = {"network/packets/sent", "1", "packets sent by the interface",
		"/proc/net/dev", SINK_COUNTER, PROBE_COST_LOW, "interface"},
	[NETWORK_ERRORS] = {"network/errors", "1",
		"packets that were broken, received and sent ones together",
		"/proc/net/dev errs", SINK_COUNTER, PROBE_COST_LOW, "interface"},
	[NETWORK_DROPS] = {"network/drops", "1",
		"packets dropped for lack of room or of somebody who wants them, received and sent "
		"ones together",
		"/proc/net/dev drop", SINK_COUNTER, PROBE_COST_LOW, "interface"},
	[NETWORK_TCP_SEGMENTS] = {"network/tcp/segments", "1",
		"TCP segments sent, without repetitions, loopback included",
		"/proc/net/snmp Tcp OutSegs", SINK_COUNTER, PROBE_COST_LOW, NULL},
	[NETWORK_TCP_RETRANSMITS] = {"network/tcp/retransmits", "1",
		"TCP segments sent once more since no answer came: the network loses packets or is "
		"too full",
		"/proc/net/snmp Tcp RetransSegs", SINK_COUNTER, PROBE_COST_LOW, NULL},
};
/* clang-format on */

struct network_slot {
	struct slot slot;
	bool skip, made;
	uint32_t points[NETWORK_OF_INTERFACE];
};

struct network {
	struct textfile dev, snmp;
	struct textbuf buf;
	struct slots slots;
	size_t interfaces;
	uint32_t tcp[2];
	struct probe_set *set; /* during a reading */
};

/* ---- the texts ------------------------------------------------------------------ */

int network_parse(const char *p, const char *end, struct network_line *ret)
{
	struct network_line l;
	uint64_t f[12]; /* up to tx drop */
	const char *colon;
	size_t i;

	proc_skip_space(&p, end);
	/* The name of an alias has a colon in it ("eth0:1"); no number has. */
	colon = p < end ? memrchr(p, ':', (size_t)(end - p)) : NULL;
	if (!colon || colon == p)
		return -EBADMSG;
	l.name = p;
	l.len = (size_t)(colon - p);
	p = colon + 1;
	for (i = 0; i < ARRAY_LEN(f); i++) {
		proc_skip_space(&p, end);
		if (proc_number(&p, end, &f[i]))
			return -EBADMSG;
	}
	l.received = f[0];
	l.packets_received = f[1];
	l.sent = f[8];
	l.packets_sent = f[9];
	if (__builtin_add_overflow(f[2], f[10], &l.errors) ||
	    __builtin_add_overflow(f[3], f[11], &l.drops))
		return -EBADMSG;
	*ret = l;
	return 0;
}

/* The next word of a line. */
static const char *network_word(const char **p, const char *end, size_t *len)
{
	const char *word;

	proc_skip_space(p, end);
	for (word = *p; *p < end && **p != ' ';)
		(*p)++;
	*len = (size_t)(*p - word);
	return *len ? word : NULL;
}

/* A line of names and the line of numbers under it. */
static int network_pair(const char *names, const char *names_end, const char *p, const char *end,
			uint64_t *ret_sent, uint64_t *ret_again)
{
	static const char sent[] = "OutSegs", again[] = "RetransSegs";
	uint64_t v[2] = {0};
	bool found[2] = {false, false};
	const char *name, *text;
	size_t len, text_len;
	int k;

	while ((name = network_word(&names, names_end, &len))) {
		text = network_word(&p, end, &text_len);
		if (!text)
			return -EBADMSG;
		if (len == sizeof(sent) - 1 && memcmp(name, sent, len) == 0)
			k = 0;
		else if (len == sizeof(again) - 1 && memcmp(name, again, len) == 0)
			k = 1;
		else
			continue;
		if (proc_number(&text, p, &v[k]) || text != p)
			return -EBADMSG;
		found[k] = true;
	}
	if (!found[0] || !found[1])
		return -ENOENT;
	*ret_sent = v[0];
	*ret_again = v[1];
	return 0;
}

int network_parse_tcp(const char *text, size_t len, uint64_t *ret_sent, uint64_t *ret_again)
{
	const char *next = text, *end = text + len, *line, *eol, *names = NULL, *names_end = NULL;

	while ((line = proc_line(&next, end, &eol))) {
		if (!proc_begins(line, eol, "Tcp: "))
			continue;
		line += 5;
		if (names)
			return network_pair(names, names_end, line, eol, ret_sent, ret_again);
		names = line;
		names_end = eol;
	}
	return -ENOENT;
}

bool network_is_skipped(const char *name)
{
	/* cali, lxc: of Calico and Cilium; ifb sees what another interface has seen */
	static const char *const begins[] = {"veth", "cali", "lxc", "ifb"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(begins); i++)
		if (strncmp(name, begins[i], strlen(begins[i])) == 0)
			return true;
	return strcmp(name, "lo") == 0;
}

/* ---- figures -------------------------------------------------------------------- */

static void network_make(struct network *n, struct network_slot *slot)
{
	char labels[PROBE_LABELS_MAX] = "";
	int i;

	slot->made = true;
	n->interfaces++;
	if (probe_label(labels, sizeof(labels), "interface", slot->slot.name) < 0)
		slot->skip = true;
	for (i = 0; i < NETWORK_OF_INTERFACE; i++)
		slot->points[i] =
			slot->skip ? PROBE_NONE : probe_point(n->set, &network_metrics[i], labels);
}

static void network_line(struct network *n, const struct network_line *l)
{
	struct network_slot *slot;
	const uint32_t *at;
	bool is_new;

	slot = slots_get(&n->slots, l->name, l->len, &is_new);
	if (!slot)
		return;
	if (is_new)
		slot->skip = network_is_skipped(slot->slot.name);
	/* Kernels make tunnels in advance (sit0, gre0) that nobody uses. */
	if (slot->skip || (!slot->made && ((l->packets_received == 0 && l->packets_sent == 0) ||
					   n->interfaces >= NETWORK_MAX)))
		return;
	if (!slot->made)
		network_make(n, slot);
	at = slot->points;
	probe_count(n->set, at[NETWORK_RECEIVED], l->received, NETWORK_BITS, 1);
	probe_count(n->set, at[NETWORK_SENT], l->sent, NETWORK_BITS, 1);
	probe_count(n->set, at[NETWORK_PACKETS_RECEIVED], l->packets_received, NETWORK_BITS, 1);
	probe_count(n->set, at[NETWORK_PACKETS_SENT], l->packets_sent, NETWORK_BITS, 1);
	probe_count(n->set, at[NETWORK_ERRORS], l->errors, 0, 1);
	probe_count(n->set, at[NETWORK_DROPS], l->drops, 0, 1);
}

static void network_absent(struct probe_set *s, const struct network_slot *slot, const char *why)
{
	int i;

	for (i = 0; slot->made && i < NETWORK_OF_INTERFACE; i++)
		probe_absent(s, slot->points[i], why);
}

static void network_gone(void *arg, void *item)
{
	const struct network_slot *slot = item;
	struct network *n = arg;
	char text[200];

	if (!slot->made)
		return;
	n->interfaces--;
	network_absent(n->set, slot, "the interface is gone");
	snprintf(text, sizeof(text), "the network interface %.100s is gone", slot->slot.name);
	probe_event(n->set, 2, "network-gone", text, "");
}

static void network_read_dev(struct network *n)
{
	const char *next, *end, *line, *eol;
	struct network_line l;
	size_t i;

	if (textfile_read(&n->dev, &n->buf, NETWORK_FILE_MAX) < 0) {
		for (i = 0; i < n->slots.len; i++)
			network_absent(n->set, slots_at(&n->slots, i),
				       "/proc/net/dev cannot be read");
		return;
	}
	slots_begin(&n->slots);
	next = n->buf.text;
	end = next + n->buf.len;
	while ((line = proc_line(&next, end, &eol)))
		if (network_parse(line, eol, &l) == 0)
			network_line(n, &l);
	slots_end(&n->slots, network_gone, n);
}

static void network_read_tcp(struct network *n)
{
	uint64_t sent, again;

	if (textfile_read(&n->snmp, &n->buf, NETWORK_FILE_MAX) < 0 ||
	    network_parse_tcp(n->buf.text, n->buf.len, &sent, &again) < 0) {
		probe_absent(n->set, n->tcp[0], "/proc/net/snmp does not tell");
		probe_absent(n->set, n->tcp[1], "/proc/net/snmp does not tell");
		return;
	}
	probe_count(n->set, n->tcp[0], sent, NETWORK_BITS, 1);
	probe_count(n->set, n->tcp[1], again, NETWORK_BITS, 1);
}

/* ---- the group -------------------------------------------------------------------- */

static void network_close(void *state)
{
	struct network *n = state;

	slots_done(&n->slots, NULL);
	textfile_done(&n->dev);
	textfile_done(&n->snmp);
	textbuf_done(&n->buf);
	free(n);
}

static int network_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
			struct err *e)
{
	struct network *n = calloc(1, sizeof(*n));
	int err, more;

	if (!n)
		return -ENOMEM;
	slots_init(&n->slots, sizeof(struct network_slot), NETWORK_LINES_MAX);
	err = textfile_init(&n->dev, env->root, "/proc/net/dev");
	more = textfile_init(&n->snmp, env->root, "/proc/net/snmp");
	if (err || more) {
		network_close(n);
		return -ENOMEM;
	}
	err = textfile_read(&n->dev, &n->buf, NETWORK_FILE_MAX);
	if (err) {
		network_close(n);
		return err == -ENOMEM ? err : err_errno(e, -ENODEV, "/proc/net/dev cannot be read");
	}
	n->tcp[0] = probe_point(s, &network_metrics[NETWORK_TCP_SEGMENTS], "");
	n->tcp[1] = probe_point(s, &network_metrics[NETWORK_TCP_RETRANSMITS], "");
	*ret_state = n;
	return 0;
}

static void network_read(void *state, struct probe_set *s, const struct probe_now *now)
{
	struct network *n = state;

	(void)now;
	n->set = s;
	network_read_dev(n);
	network_read_tcp(n);
}

const struct probe_group probe_network = {
	.name = "network",
	.metrics = network_metrics,
	.n_metrics = NETWORK_METRICS,
	.place = PROBE_INLINE,
	.period_ns = 1000000000,
	.open = network_open,
	.read = network_read,
	.close = network_close,
};

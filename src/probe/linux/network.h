/* SPDX-License-Identifier: Apache-2.0
 *
 * network.h - the texts of /proc/net/dev and /proc/net/snmp, and which interfaces are
 * looked at.
 */
#ifndef PROBE_LINUX_NETWORK_H
#define PROBE_LINUX_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETWORK_MAX 256 /* interfaces that have figures */

struct network_line {
	const char *name; /* not ended by NUL */
	size_t len;
	uint64_t received, packets_received, sent, packets_sent;
	uint64_t errors, drops; /* of both directions */
};

/* A line of /proc/net/dev without its line feed; "eth0:123" as old kernels write too. 0;
 * -EBADMSG, as for the two lines of headings. */
int network_parse(const char *p, const char *end, struct network_line *ret);

/* Segments of TCP in the text of /proc/net/snmp. 0; -ENOENT it does not say; -EBADMSG. */
int network_parse_tcp(const char *text, size_t len, uint64_t *ret_sent, uint64_t *ret_again);

/* Loopback, and ends of containers' virtual cables: the traffic shows elsewhere too. */
bool network_is_skipped(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/peer.h"

#include "base/buf.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEER_OVERFLOW 65534 /* a user who has no id in this namespace */
#define PEER_MAP_MAX 65536

struct peer_ask {
	struct nlmsghdr head;
	struct inet_diag_req_v2 ask;
};

/* The socket at the other end: its address is our peer's, its peer's is ours. */
static int peer_describe(int fd, struct inet_diag_req_v2 *ask)
{
	struct sockaddr_in6 from = {0}, to = {0};
	const struct sockaddr_in *from4 = (const void *)&from, *to4 = (const void *)&to;
	socklen_t n = sizeof(from), m = sizeof(to);

	if (getpeername(fd, (struct sockaddr *)&from, &n) < 0 ||
	    getsockname(fd, (struct sockaddr *)&to, &m) < 0)
		return -errno;
	ask->sdiag_family = (uint8_t)from.sin6_family;
	ask->sdiag_protocol = IPPROTO_TCP;
	ask->idiag_states = UINT32_MAX;
	ask->id.idiag_sport = from.sin6_port; /* at the same place in both families */
	ask->id.idiag_dport = to.sin6_port;
	ask->id.idiag_cookie[0] = ask->id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (from.sin6_family == AF_INET) {
		memcpy(ask->id.idiag_src, &from4->sin_addr, 4);
		memcpy(ask->id.idiag_dst, &to4->sin_addr, 4);
	} else {
		memcpy(ask->id.idiag_src, &from.sin6_addr, 16);
		memcpy(ask->id.idiag_dst, &to.sin6_addr, 16);
	}
	return 0;
}

int64_t peer_told(uint32_t uid, const char *map)
{
	unsigned inside = 1, outside = 1, n = 0;

	if (uid != PEER_OVERFLOW)
		return uid;
	if (sscanf(map, "%u %u %u", &inside, &outside, &n) == 3 && !inside && !outside &&
	    n == UINT32_MAX)
		return uid;
	return PEER_UNKNOWN;
}

static int64_t peer_look_up(uint32_t uid)
{
	struct buf map;
	int64_t user;

	if (uid != PEER_OVERFLOW)
		return uid;
	buf_init(&map, PEER_MAP_MAX);
	user = peer_told(uid,
			 file_read(AT_FDCWD, "/proc/self/uid_map", &map) < 0 ? "" : buf_str(&map));
	buf_done(&map);
	return user;
}

static int64_t peer_answer(const void *data, size_t len)
{
	const struct nlmsghdr *head = data;
	const struct inet_diag_msg *told;

	if (len < NLMSG_LENGTH(sizeof(*told)) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return PEER_UNKNOWN;
	told = NLMSG_DATA(head);
	return peer_look_up(told->idiag_uid);
}

int64_t peer_user(int fd)
{
	struct peer_ask ask = {
		.head = {.nlmsg_len = sizeof(ask),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
	};
	union {
		struct nlmsghdr head;
		char room[1024];
	} answer;
	int64_t user = PEER_UNKNOWN;
	ssize_t n;
	int diag;

	if (peer_describe(fd, &ask.ask) < 0)
		return PEER_UNKNOWN;
	diag = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (diag < 0)
		return PEER_UNKNOWN;
	/* The kernel answers within send(). */
	if (send(diag, &ask, sizeof(ask), 0) == (ssize_t)sizeof(ask)) {
		n = recv(diag, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n > 0)
			user = peer_answer(&answer, (size_t)n);
	}
	close(diag);
	return user;
}

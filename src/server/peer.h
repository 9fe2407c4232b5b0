/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.h - whose process is at the other end of a connection on this machine.
 */
#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include <stdint.h>
#include <sys/types.h>

#define PEER_UNKNOWN (-1)

/* User id of who connected to us from this machine (a loopback address, over fd), as the
 * kernel tells it; PEER_UNKNOWN: it does not, or knows no such user here. */
int64_t peer_user(int fd);

/* The same of an id that the kernel told, in a namespace with this table of users (the text
 * of /proc/self/uid_map): in the first one 65534 is a user, elsewhere it may stand for
 * others who have no id. */
int64_t peer_told(uint32_t uid, const char *map);

#endif

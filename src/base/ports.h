/* SPDX-License-Identifier: Apache-2.0
 *
 * ports.h - who listens on a TCP port of this machine, as /proc tells it.
 */
#ifndef BASE_PORTS_H
#define BASE_PORTS_H

#include <stdbool.h>
#include <stddef.h>

/* Does somebody listen on the port? Then out (cap bytes) is "python3, process 123", or
 * "another user's process" where /proc does not show whose it is. */
bool ports_listener(int port, char *out, size_t cap);

#endif

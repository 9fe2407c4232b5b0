/* SPDX-License-Identifier: Apache-2.0
 *
 * sdnotify.h - tells the service manager how we are, by systemd's protocol
 * (sd_notify(3)): a datagram to the socket that $NOTIFY_SOCKET names. Without one
 * nothing is sent. One thread.
 */
#ifndef BASE_SDNOTIFY_H
#define BASE_SDNOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Take NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no
 * process that we start speaks in our name. True if somebody listens. */
bool sdnotify_open(void);

/* Lines like "READY=1\nSTATUS=waiting". Never blocks; errors are nobody's business. */
void sdnotify_send(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Say that we are alive, if the manager wants to know and two fifths of its patience are over.
 * now_ns is CLOCK_MONOTONIC. */
void sdnotify_watchdog(int64_t now_ns);

#endif

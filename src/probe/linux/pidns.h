/* SPDX-License-Identifier: Apache-2.0
 *
 * pidns.h - whose pids are ours?
 */
#ifndef PROBE_LINUX_PIDNS_H
#define PROBE_LINUX_PIDNS_H

#include <stdbool.h>

/* Are we in the machine's first pid namespace, so that our pids are those that the kernel
 * logs and that GPU drivers tell? False if it cannot be known. */
bool pidns_is_first(void);

#endif

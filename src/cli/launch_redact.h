/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_redact.h - a command line as it may be stored: quoted for a shell, and
 * the values of arguments that look like secrets replaced (docs/launcher.md,
 * Secrets).
 */
#ifndef CLI_LAUNCH_REDACT_H
#define CLI_LAUNCH_REDACT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define LAUNCH_REDACTED "REDACTED"

/* Does a value of this name (len bytes) look like a secret? */
bool launch_redact_is_secret(const char *name, size_t len);

/* Append argv, ended by NULL, to out: redacted, quoted, parted by spaces. */
void launch_redact_command(char *const argv[], struct buf *out);

#endif

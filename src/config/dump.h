/* SPDX-License-Identifier: Apache-2.0
 *
 * dump.h - a configuration as JSON, with the table: what `lapse config --json`
 * prints and the Python package reads (docs/config.md).
 */
#ifndef CONFIG_DUMP_H
#define CONFIG_DUMP_H

#include "base/buf.h"
#include "base/json.h"
#include "config/config.h"

/* Write one object: file, keys, notes. */
void dump_json(const struct config *c, struct json *j);

/* A value as people read it; "" none. */
void dump_text(const struct config *c, const struct config_key *k, struct buf *out);

#endif

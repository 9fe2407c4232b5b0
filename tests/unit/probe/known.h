/* SPDX-License-Identifier: Apache-2.0
 *
 * known.h - points of a set by name and labels; what is not as it must be ends the test.
 */
#ifndef TEST_PROBE_KNOWN_H
#define TEST_PROBE_KNOWN_H

#include "probe/probe.h"

bool known_find(const struct probe_set *s, const char *name, const char *labels,
		struct probe_view *ret);
/* The value that must be there; the reason of one that must not. */
double known_value(const struct probe_set *s, const char *name, const char *labels);
const char *known_why(const struct probe_set *s, const char *name, const char *labels);

#endif

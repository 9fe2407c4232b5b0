/* SPDX-License-Identifier: Apache-2.0 */
#include "known.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

bool known_find(const struct probe_set *s, const char *name, const char *labels,
		struct probe_view *ret)
{
	uint32_t i;

	for (i = 0; i < probe_points(s); i++) {
		probe_point_at(s, i, ret);
		if (strcmp(ret->metric->name, name) == 0 && strcmp(ret->labels, labels) == 0)
			return true;
	}
	return false;
}

double known_value(const struct probe_set *s, const char *name, const char *labels)
{
	struct probe_view v;

	if (!known_find(s, name, labels, &v))
		fail_msg("no %s{%s}", name, labels);
	if (!v.known)
		fail_msg("%s{%s} is absent: %s", name, labels, v.why);
	return v.value;
}

const char *known_why(const struct probe_set *s, const char *name, const char *labels)
{
	struct probe_view v;

	if (!known_find(s, name, labels, &v))
		fail_msg("no %s{%s}", name, labels);
	if (v.known)
		fail_msg("%s{%s} is %g, but must be absent", name, labels, v.value);
	return v.why;
}

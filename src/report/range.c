/* SPDX-License-Identifier: Apache-2.0
 *
 * range.c - a part of a run, as people type it.
 */
#include "report/range.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/number.h"

static int range_time(const char *command, const char *option, const char *text,
		      const struct store_run *run, int64_t *ret)
{
	int64_t end = run->end_ns ? run->end_ns : now_read(CLOCK_REALTIME);

	if (!text)
		return 0;
	if (when_parse(text, run->start_ns, end, ret) == 0)
		return 0;
	fprintf(stderr, "lapse %s: --%s: \"%s\" is not a time: %s\n", command, option, text,
		WHEN_HELP);
	return -EINVAL;
}

static int range_steps(const char *command, const char *text, struct store_range *r)
{
	const char *colon = strchr(text, ':');
	char *first = xstrndup(text, colon ? (size_t)(colon - text) : strlen(text));
	const char *second = colon ? colon + 1 : first;
	int err = 0;

	r->by_step = true;
	r->step_min = INT64_MIN + 1;
	r->step_max = INT64_MAX;
	if (first[0] != '\0')
		err = number_int(first, &r->step_min);
	if (!err && second[0] != '\0')
		err = number_int(second, &r->step_max);
	if (!err && (text[0] == '\0' || r->step_min > r->step_max))
		err = -EINVAL;
	free(first);
	if (err)
		fprintf(stderr,
			"lapse %s: --steps: \"%s\" is not a range of steps like "
			"100:200, 100: or :200\n",
			command, text);
	return err;
}

int range_parse(const struct range_text *t, const char *command, const struct store_run *run,
		struct store_range *ret)
{
	struct store_range r = {.by_time = t->from || t->until,
				.time_min = INT64_MIN,
				.time_max = INT64_MAX,
				.all_segments = t->all};

	if ((t->steps && range_steps(command, t->steps, &r) != 0) ||
	    range_time(command, "from", t->from, run, &r.time_min) != 0 ||
	    range_time(command, "until", t->until, run, &r.time_max) != 0)
		return -EINVAL;
	if (r.by_time && r.time_min > r.time_max) {
		fprintf(stderr, "lapse %s: --until is before --from\n", command);
		return -EINVAL;
	}
	*ret = r;
	return 0;
}

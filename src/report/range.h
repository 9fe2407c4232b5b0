/* SPDX-License-Identifier: Apache-2.0
 *
 * range.h - which part of a run a command looks at: --from, --until, --steps and
 * --all-attempts, the same in every command.
 */
#ifndef REPORT_RANGE_H
#define REPORT_RANGE_H

#include <stdbool.h>

#include "report/when.h"
#include "store/store.h"

#define RANGE_HELP_FROM "nothing before this moment: " WHEN_HELP
#define RANGE_HELP_UNTIL "nothing after this moment"
#define RANGE_HELP_STEPS "only steps A to B, both included; A: and :B are open ranges"
#define RANGE_HELP_ALL "also points of steps that a resumed attempt did again"

/* What was typed; NULL: nothing. */
struct range_text {
	const char *from, *until, *steps;
	bool all;
};

/* Into *ret. 0, or -EINVAL after printing "lapse COMMAND: why". */
int range_parse(const struct range_text *t, const char *command, const struct store_run *run,
		struct store_range *ret);

#endif

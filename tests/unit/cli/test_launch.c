/* SPDX-License-Identifier: Apache-2.0
 *
 * test_launch.c - the parts of the launcher that need no process: when an agent
 * may be started again, and what a run's id looks like.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/launch_agent.h"
#include "cli/launch_files.h"

#define SECOND 1000000000LL

static void start(struct launch_agent *a, int64_t now)
{
	a->starts[a->started++ % LAUNCH_AGENT_STARTS] = now;
}

/* Back-off after a start that came to nothing: 1, 2, 4, 8 s. */
static void test_backoff(void **state)
{
	struct launch_agent a = {.dirfd = -1};
	int64_t wait = SECOND;

	(void)state;
	assert_true(launch_agent_may_start(&a, 0));
	start(&a, 100);
	for (a.failed = 1; a.failed <= 4; a.failed++, wait *= 2) {
		assert_false(launch_agent_may_start(&a, 100 + wait - 1));
		assert_true(launch_agent_may_start(&a, 100 + wait));
	}
	a.failed = 0;
	assert_true(launch_agent_may_start(&a, 101));
}

/* Never a sixth start within 60 s, however healthy they looked. */
static void test_window(void **state)
{
	struct launch_agent a = {.dirfd = -1};
	int i;

	(void)state;
	for (i = 0; i < LAUNCH_AGENT_STARTS; i++) {
		assert_true(launch_agent_may_start(&a, (10 + i) * SECOND));
		start(&a, (10 + i) * SECOND);
	}
	assert_false(launch_agent_may_start(&a, 69 * SECOND));
	assert_true(launch_agent_may_start(&a, 70 * SECOND));
	start(&a, 70 * SECOND);
	assert_false(launch_agent_may_start(&a, 70 * SECOND + 1));
	assert_true(launch_agent_may_start(&a, 71 * SECOND));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backoff),
		cmocka_unit_test(test_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

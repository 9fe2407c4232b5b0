/* SPDX-License-Identifier: Apache-2.0
 *
 * test_launch.c - the parts of the launcher that need no process: when an agent
 * may be started again, and what the kernel's log tells without a status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/launch_agent.h"
#include "cli/launch_files.h"
#include "cli/launch_oom.h"
#include "wire/clock.h"

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

/* Where nobody tells the status, only a line about the command itself counts. */
static void test_killed_for_memory_without_a_status(void **state)
{
	int64_t now = clock_ns(CLOCK_BOOTTIME);
	struct launch_oom o = {.kmsg = -1, .child_ns = now, .line = "Killed process 7 (x)"};
	char evidence[64] = "";

	(void)state;
	assert_true(launch_oom_says_child(&o, evidence, sizeof(evidence)));
	assert_string_equal(evidence, "kernel log: Killed process 7 (x)");
	o.child_ns = now - LAUNCH_OOM_NEAR_NS - 1;
	assert_false(launch_oom_says_child(&o, evidence, sizeof(evidence)));
	o.child_ns = 0;
	o.descendant_ns = o.rise_ns = now;
	assert_false(launch_oom_says_child(&o, evidence, sizeof(evidence)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backoff),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_killed_for_memory_without_a_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

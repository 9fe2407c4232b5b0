/* SPDX-License-Identifier: Apache-2.0
 *
 * test_memories.c - memory events come back as they were put in, packed or from the temporary
 * file, whatever their values are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/memories.h"

#define EVENTS 20001u

/* Small differences, as traces have them; every 5000th event is as far out as it can be. */
static struct trace_memory event(uint32_t i)
{
	uint64_t mixed = i * UINT64_C(0x9e3779b97f4a7c15);
	struct trace_memory far = {INT64_MIN, INT64_MAX, UINT64_MAX, INT64_MAX,
				   INT64_MIN, INT32_MIN, INT32_MAX,  UINT16_MAX};

	if (i % 5000 == 4999)
		return far;
	return (struct trace_memory){.ts = 1700000000000000000 + (int64_t)(mixed >> 24),
				     .bytes = (int64_t)(mixed >> 50) - 8192,
				     .address = 0x7f0000000000 + (mixed >> 40),
				     .allocated = i % 3 ? (int64_t)(mixed >> 32) : TRACE_NONE,
				     .reserved = TRACE_NONE,
				     .device_type = (int32_t)(i % 2),
				     .device = (int32_t)(i % 7) - 1,
				     .track = (uint16_t)(i % 11)};
}

static void same(const struct trace_memory *a, uint32_t i)
{
	struct trace_memory b = event(i);

	assert_non_null(a);
	assert_int_equal(a->ts, b.ts);
	assert_int_equal(a->bytes, b.bytes);
	assert_true(a->address == b.address);
	assert_int_equal(a->allocated, b.allocated);
	assert_int_equal(a->reserved, b.reserved);
	assert_int_equal(a->device_type, b.device_type);
	assert_int_equal(a->device, b.device);
	assert_int_equal(a->track, b.track);
}

static void test_come_back(void **state)
{
	struct spill spill;
	struct memories m;
	struct trace_memory e;
	uint32_t i, round;
	uint64_t packed;

	(void)state;
	spill_init(&spill, "/tmp");
	memories_init(&m, &spill);
	assert_null(memories_get(&m, 0));
	for (i = 0; i < EVENTS; i++) {
		e = event(i);
		assert_int_equal(memories_add(&m, &e), 0);
		if (i == EVENTS / 2)
			assert_int_equal(memories_spill(&m, 0), 0);
	}
	assert_true(m.spilled > 0 && m.spilled < m.n_places);
	packed = m.bytes;
	for (round = 0; round < 2; round++) {
		for (i = 0; i < EVENTS; i++)
			same(memories_get(&m, i), i);
		/* Anywhere too. */
		for (i = 0; i < 50; i++)
			same(memories_get(&m, i * 7919 % EVENTS), i * 7919 % EVENTS);
		assert_null(memories_get(&m, EVENTS));
		assert_int_equal(memories_spill(&m, 0), 0);
	}
	assert_int_equal(m.spilled, m.n_places);
	assert_true(m.bytes < packed);
	assert_true(m.spilled_bytes < (uint64_t)EVENTS * sizeof(e));
	/* What is not there any more is not made up. */
	spill_done(&spill);
	assert_null(memories_get(&m, 0));
	same(memories_get(&m, EVENTS - 1), EVENTS - 1);
	memories_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * test_map.c - the map against a plain array as reference, through growth,
 * deletion and reuse; the hash spreads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"

#define KEYS 100000

static size_t make_key(char out[24], unsigned i)
{
	return (size_t)sprintf(out, "series/%u", i);
}

static void test_empty(void **state)
{
	uint64_t v = 7;
	struct map m;

	(void)state;
	map_init(&m);
	assert_false(map_get(&m, "a", 1, &v));
	assert_int_equal(v, 7); /* not written */
	assert_false(map_del(&m, "a", 1));
	map_done(&m);
	map_done(&m);
}

static void test_keys_are_bytes(void **state)
{
	char key[4] = "key";
	uint64_t v = 0;
	struct map m;

	(void)state;
	map_init(&m);
	map_put(&m, key, 3, 1);
	map_put(&m, "a\0b", 3, 2);
	map_put(&m, "a\0c", 3, 3);
	map_put(&m, "a", 1, 4);
	map_put(&m, "", 0, 5);
	key[0] = 'X'; /* the map has a copy */
	assert_true(map_get(&m, "key", 3, &v) && v == 1);
	assert_true(map_get(&m, "a\0b", 3, &v) && v == 2);
	assert_true(map_get(&m, "a\0c", 3, &v) && v == 3);
	assert_true(map_get(&m, "a", 1, &v) && v == 4);
	assert_true(map_get(&m, "", 0, &v) && v == 5);
	assert_false(map_get(&m, "ke", 2, &v));
	assert_int_equal(m.len, 5);
	map_put(&m, "a", 1, UINT64_MAX);
	assert_true(map_get(&m, "a", 1, &v) && v == UINT64_MAX);
	assert_int_equal(m.len, 5);
	map_done(&m);
}

static void check_all(const struct map *m, const uint64_t *reference, size_t live)
{
	char key[24];
	unsigned i;

	assert_int_equal(m->len, live);
	for (i = 0; i < KEYS; i++) {
		uint64_t v = 0;
		size_t len = make_key(key, i);

		if (map_get(m, key, len, &v) != (reference[i] != 0) || v != reference[i])
			fail_msg("%s: %llu, expected %llu", key, (unsigned long long)v,
				 (unsigned long long)reference[i]);
	}
}

/* reference[i] is the value of key i, 0: not there. */
static void test_against_reference(void **state)
{
	uint64_t *reference = calloc(KEYS, sizeof(*reference)), random = 42;
	size_t live = 0, len;
	struct map m;
	char key[24];
	unsigned i, n;

	(void)state;
	assert_non_null(reference);
	map_init(&m);
	for (i = 0; i < KEYS; i++) {
		map_put(&m, key, make_key(key, i), reference[i] = i + 1u);
		live++;
	}
	check_all(&m, reference, live);
	for (n = 0; n < 5 * KEYS; n++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		i = (unsigned)(random >> 33) % KEYS;
		len = make_key(key, i);
		if (random >> 63) {
			live += reference[i] == 0;
			map_put(&m, key, len, reference[i] = n + 1u);
		} else {
			assert_int_equal(map_del(&m, key, len), reference[i] != 0);
			live -= reference[i] != 0;
			reference[i] = 0;
		}
	}
	check_all(&m, reference, live);
	for (i = 0; i < KEYS; i++) {
		map_del(&m, key, make_key(key, i));
		reference[i] = 0;
	}
	check_all(&m, reference, 0);
	map_done(&m);
	free(reference);
}

/* Putting and deleting for ever must not grow the table. */
static void test_churn_is_bounded(void **state)
{
	struct map m;
	char key[24];
	unsigned i;

	(void)state;
	map_init(&m);
	for (i = 0; i < KEYS; i++) {
		map_put(&m, key, make_key(key, i), i);
		assert_true(map_del(&m, key, make_key(key, i)));
	}
	assert_int_equal(m.len, 0);
	assert_true(m.cap <= 64);
	map_done(&m);
}

/* Equal bytes hash alike, the length counts, and one bit of input changes about
 * half of the result, so that low bits may pick the slot. */
static void test_hash(void **state)
{
	unsigned bits = 0, i;

	(void)state;
	assert_true(map_hash("foobar", 6) == map_hash("foobarx", 6));
	assert_true(map_hash("foobar", 6) != map_hash("foobar", 5));
	assert_true(map_hash("", 0) != map_hash("\0", 1));
	for (i = 0; i < 256; i++) {
		unsigned char a = (unsigned char)i, b = (unsigned char)(i ^ 1);

		bits += (unsigned)__builtin_popcountll(map_hash(&a, 1) ^ map_hash(&b, 1));
	}
	assert_in_range(bits / 256, 20, 44);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_keys_are_bytes),
		cmocka_unit_test(test_against_reference),
		cmocka_unit_test(test_churn_is_bounded),
		cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

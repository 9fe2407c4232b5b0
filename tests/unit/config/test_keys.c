/* SPDX-License-Identifier: Apache-2.0
 *
 * test_keys.c - what the code takes for granted of the table: every row is
 * complete, every default reads, every other name leads somewhere.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/keys.h"
#include "config/value.h"

static const struct config_key *find(const char *path)
{
	const struct config_key *k;

	for (k = config_keys; k->path; k++)
		if (strcmp(k->path, path) == 0)
			return k;
	return NULL;
}

static void test_rows(void **state)
{
	const struct config_key *k;
	const char *p;

	(void)state;
	for (k = config_keys; k->path; k++) {
		assert_ptr_equal(find(k->path), k); /* there once */
		assert_non_null(k->help);
		assert_true(strlen(k->path) < 128);
		for (p = k->path; *p; p++)
			assert_true(islower((unsigned char)*p) || isdigit((unsigned char)*p) ||
				    *p == '_' || *p == '.');
		assert_true(k->type != CONFIG_CHOICES || k->choices);
		assert_true(!k->python || (k->readers & CONFIG_READ_PYTHON));
	}
}

static void test_defaults(void **state)
{
	const struct config_key *k;
	struct value v = {0};
	char why[VALUE_WHY_MAX];

	(void)state;
	for (k = config_keys; k->path; k++)
		if (k->preset)
			assert_int_equal(value_of_text(k, k->preset, &v, why), 0);
	value_done(&v);
}

static void test_other_names(void **state)
{
	const struct config_key *k, *other;
	char block[128];

	(void)state;
	for (k = config_keys; k->path; k++) {
		if (!k->same_as)
			continue;
		assert_false(k->readers || k->env || k->preset);
		if (k->type == CONFIG_BLOCK) {
			strcpy(block, k->same_as);
			strcat(block, ".");
			for (other = config_keys; other->path; other++)
				if (strncmp(other->path, block, strlen(block)) == 0)
					break;
			assert_non_null(other->path);
			continue;
		}
		other = find(k->same_as);
		assert_non_null(other);
		/* A number may be in another unit; a whole one then. */
		assert_int_equal(k->scale > 0 ? CONFIG_NUMBER : other->type, k->type);
		assert_null(other->same_as);
	}
}

/* The blocks of the monitors whose files are taken as they stand. */
static void test_blocks(void **state)
{
	static const char *const blocks[] = {
		"monitoring.",         "dashboard.",          "alert_system.",
		"performance_tuning.", "metrics_collection.", "gradient_monitoring.",
		"analysis.",           "visualization.",      "alerting."};
	const struct config_key *k;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		for (k = config_keys; k->path; k++)
			if (strncmp(k->path, blocks[i], strlen(blocks[i])) == 0)
				break;
		assert_non_null(k->path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_other_names),
		cmocka_unit_test(test_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

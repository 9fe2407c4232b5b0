/* SPDX-License-Identifier: Apache-2.0
 *
 * test_settings.c - the file of a command: by option, by variable, none; and
 * that the table's limits are those of the rings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/settings.h"
#include "wire/wire.h"

static char good[] = "/tmp/lapse-settings-XXXXXX", bad[] = "/tmp/lapse-settings-XXXXXX";

static int make(char *path, const char *text)
{
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return -1;
	failed = write(fd, text, strlen(text)) != (ssize_t)strlen(text);
	close(fd);
	return failed ? -1 : 0;
}

static int begin(void **state)
{
	(void)state;
	unsetenv("LAPSE_CONFIG");
	unsetenv("LAPSE_NAME");
	unsetenv("LAPSE_LANES");
	return make(good, "run: {name: n}\n") < 0 || make(bad, "run: {nmae: n}\n") < 0 ? -1 : 0;
}

static int end(void **state)
{
	(void)state;
	unlink(good);
	unlink(bad);
	return 0;
}

static void test_none(void **state)
{
	struct settings s;

	(void)state;
	assert_int_equal(settings_load(&s, "run", NULL), 0);
	assert_null(s.path);
	assert_null(settings_note(&s, 0));
	assert_false(config_given(s.config, "run.name"));
	settings_done(&s);
}

static void test_good(void **state)
{
	struct settings s;

	(void)state;
	setenv("LAPSE_CONFIG", bad, 1);
	assert_int_equal(settings_load(&s, "run", good), 0);
	assert_string_equal(s.path, good);
	assert_string_equal(config_text(s.config, "run.name"), "n");
	assert_null(settings_note(&s, 0));
	settings_done(&s);
}

static void test_bad(void **state)
{
	struct settings s;

	(void)state;
	assert_int_equal(settings_load(&s, "run", bad), 2);
	settings_done(&s);
	setenv("LAPSE_CONFIG", bad, 1);
	setenv("LAPSE_NAME", "environment", 1);
	setenv("LAPSE_LANES", "many", 1);
	assert_int_equal(settings_load(&s, "run", NULL), 0);
	assert_null(s.path);
	assert_non_null(strstr(settings_note(&s, 0), ":1:7: unknown key \"run.nmae\""));
	assert_non_null(strstr(settings_note(&s, 0), "; the file is left out"));
	assert_non_null(strstr(settings_note(&s, 1), "LAPSE_LANES: \"many\""));
	assert_null(settings_note(&s, 2));
	assert_string_equal(config_text(s.config, "run.name"), "environment");
	settings_done(&s);
}

static void test_limits(void **state)
{
	const struct config_key *k;

	(void)state;
	for (k = config_keys; k->path; k++) {
		if (strcmp(k->path, "record.ring_kib") == 0)
			assert_true((uint64_t)k->hi == WIRE_RING_BYTES_MAX >> 10);
		if (strcmp(k->path, "record.lanes") == 0)
			assert_int_equal(k->hi, WIRE_LANES_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

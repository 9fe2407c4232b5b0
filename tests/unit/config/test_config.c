/* SPDX-License-Identifier: Apache-2.0
 *
 * test_config.c - settings by layer (default, file, environment), by type, by
 * other names; errors with their place and the nearest name.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/config.h"
#include "config/dump.h"

static struct config *c;
static struct err e;

static int begin(void **state)
{
	(void)state;
	unsetenv("LAPSE_DIR");
	unsetenv("LAPSE_PROJECT");
	unsetenv("LAPSE_CAPTURE");
	unsetenv("LAPSE_RING_KIB");
	unsetenv("LAPSE_START_AGENT");
	err_clear(&e);
	c = config_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	config_free(c);
	return 0;
}

static void taken(const char *text)
{
	config_free(c);
	c = config_new();
	err_clear(&e);
	if (config_parse(c, "f", text, strlen(text), &e) != 0)
		fail_msg("%s", e.text);
}

static void refused(const char *text, const char *why)
{
	config_free(c);
	c = config_new();
	err_clear(&e);
	assert_int_equal(config_parse(c, "f", text, strlen(text), &e), -EINVAL);
	assert_string_equal(e.text, why);
}

static void test_defaults(void **state)
{
	(void)state;
	assert_string_equal(config_text(c, "run.dir"), "lapse-runs");
	assert_false(config_given(c, "run.project"));
	assert_null(config_text(c, "run.project"));
	assert_true(config_flag(c, "run.agent"));
	assert_int_equal(config_number(c, "run.stall_after", -1), -1);
	assert_string_equal(config_text(c, "python.capture"),
			    "environment,git,exceptions,warnings,faulthandler,exit");
	assert_null(config_file(c));
	assert_null(config_note(c, 0));
}

static void test_types(void **state)
{
	(void)state;
	taken("run:\n"
	      "  dir: /data/runs\n"
	      "  name: 123\n"
	      "  notes: |\n    two\n    lines\n"
	      "  tags: [a, 'b c', \"d,e\"]\n"
	      "  quiet: Yes\n"
	      "  agent: off\n"
	      "  stall_after: 1h30m\n"
	      "agent: {idle_exit: 90}\n"
	      "record: {ring_kib: 4096}\n"
	      "python:\n  capture: [git, exit]\n");
	assert_string_equal(config_text(c, "run.dir"), "/data/runs");
	assert_string_equal(config_text(c, "run.name"), "123");
	assert_string_equal(config_text(c, "run.notes"), "two\nlines\n");
	assert_string_equal(config_text(c, "run.tags"), "a,b c,d,e");
	assert_true(config_flag(c, "run.quiet"));
	assert_false(config_flag(c, "run.agent"));
	assert_true(config_number(c, "run.stall_after", -1) == 5400000000000);
	assert_true(config_number(c, "agent.idle_exit", -1) == 90000000000);
	assert_int_equal(config_number(c, "record.ring_kib", -1), 4096);
	assert_string_equal(config_text(c, "python.capture"), "git,exit");
	assert_string_equal(config_file(c), "f");
	taken("run: {tags: 'a, b ,,c'}\npython: {capture: false}\n");
	assert_string_equal(config_text(c, "run.tags"), "a,b,c");
	assert_string_equal(config_text(c, "python.capture"), "");
}

/* null and a block without keys are as if they were not there. */
static void test_null(void **state)
{
	(void)state;
	taken("run:\n  project:\n  dir: ~\nagent:\n");
	assert_false(config_given(c, "run.project"));
	assert_string_equal(config_text(c, "run.dir"), "lapse-runs");
	assert_int_equal(config_from(c, "run.dir", NULL), CONFIG_FROM_DEFAULT);
	taken("");
	taken("# nothing\n");
}

static void test_layers(void **state)
{
	unsigned line = 0;

	(void)state;
	assert_int_equal(config_from(c, "run.project", NULL), CONFIG_FROM_DEFAULT);
	taken("\nrun:\n  project: file\n");
	assert_int_equal(config_from(c, "run.project", &line), CONFIG_FROM_FILE);
	assert_int_equal(line, 3);
	setenv("LAPSE_PROJECT", "", 1); /* as if it were not set */
	config_environment(c);
	assert_string_equal(config_text(c, "run.project"), "file");
	setenv("LAPSE_PROJECT", "environment", 1);
	config_environment(c);
	assert_string_equal(config_text(c, "run.project"), "environment");
	assert_int_equal(config_from(c, "run.project", NULL), CONFIG_FROM_ENVIRONMENT);
}

static void test_environment(void **state)
{
	(void)state;
	taken("record: {ring_kib: 512}\n");
	setenv("LAPSE_RING_KIB", "many", 1);
	setenv("LAPSE_CAPTURE", "git,tig", 1);
	setenv("LAPSE_START_AGENT", "0", 1);
	config_environment(c);
	assert_int_equal(config_number(c, "record.ring_kib", -1), 512);
	assert_false(config_flag(c, "python.start_agent"));
	assert_string_equal(config_note(c, 0),
			    "LAPSE_RING_KIB: \"many\" is not a whole number; it is left out");
	assert_string_equal(config_note(c, 1),
			    "LAPSE_CAPTURE: \"tig\" is none of environment, git, exceptions, "
			    "warnings, faulthandler, exit; did you mean git?; it is left out");
	assert_null(config_note(c, 2));
	setenv("LAPSE_CAPTURE", "1", 1);
	config_environment(c);
	assert_int_equal(config_from(c, "python.capture", NULL), CONFIG_FROM_ENVIRONMENT);
}

static void test_unknown(void **state)
{
	(void)state;
	refused("run:\n  projet: x\n",
		"f:2:3: unknown key \"run.projet\"; did you mean \"run.project\"?");
	refused("rnu: {}\n", "f:1:1: unknown key \"rnu\"; did you mean \"run\"?");
	refused("\nproject: x\n", "f:2:1: unknown key \"project\"; did you mean \"run.project\"?");
	refused("config: {}\n", "f:1:1: unknown key \"config\"; did you mean \"python.config\"?");
	refused("run: {frobnicate: 1}\n", "f:1:7: unknown key \"run.frobnicate\"; `lapse config` "
					  "lists those that there are");
	refused("run.project: x\n",
		"f:1:1: unknown key \"run.project\"; `lapse config` lists those that there are");
	refused("monitoring:\n  visualization:\n    tensorbord: true\n",
		"f:3:5: unknown key \"visualization.tensorbord\"; did you mean "
		"\"visualization.tensorboard\"?");
	refused("dashboard:\n  prot: 80\n",
		"f:2:3: unknown key \"dashboard.prot\"; did you mean \"dashboard.port\"?");
}

static void test_wrong(void **state)
{
	(void)state;
	refused("- a\n", "f:1:1: a configuration is a mapping: begin with a line like \"run:\"");
	refused("run: yes\n", "f:1:6: run: wants a mapping of settings: indent them below it");
	refused("run:\n  quiet: perhaps\n",
		"f:2:10: run.quiet: \"perhaps\" is neither true nor false");
	refused("run:\n  quiet: \"true\"\n", "f:2:10: run.quiet: \"true\" in quotes is text; write "
					     "true or false without quotes");
	refused("run: {stall_after: soon}\n", "f:1:20: run.stall_after: \"soon\" is not a "
					      "duration like 90, 1.5s, 10m, 2h or 1d");
	refused("run: {stall_after: -5}\n", "f:1:20: run.stall_after: \"-5\" is not a duration "
					    "like 90, 1.5s, 10m, 2h or 1d");
	refused("record: {lanes: 257}\n",
		"f:1:17: record.lanes: 257 is out of range: at least 0, at most 256");
	refused("record: {lanes: 1.5}\n", "f:1:17: record.lanes: \"1.5\" is not a whole number");
	refused("run: {name: [a]}\n", "f:1:13: run.name: here stands a list; write text (name of "
				      "the run; none: the program or Python script)");
	refused("run: {tags: [a, {b: c}]}\n",
		"f:1:13: run.tags: a list of words cannot hold a mapping");
	refused("python: {config: 5}\n",
		"f:1:18: python.config: here stands a single value; write mapping "
		"(hyperparameters, freely nested: each leaf becomes the attribute config/PATH)");
	refused("alert_system: {thresholds: {cpu_usage_percent: high}}\n",
		"f:1:48: alert_system.thresholds.cpu_usage_percent: \"high\" is not a number");
	refused("dashboard: {port: 70000}\n",
		"f:1:19: dashboard.port: 70000 is out of range: at least 1, at most 65535");
}

static void test_other_names(void **state)
{
	(void)state;
	taken("save_dir: ./monitoring_logs\nperformance_tuning:\n  buffer_size: 1000\n");
	assert_string_equal(config_text(c, "run.dir"), "./monitoring_logs");
	/* 1000 records of 32 bytes in half a ring: 64000 bytes are 62.5 KiB */
	assert_int_equal(config_number(c, "record.ring_kib", -1), 63);
	assert_null(config_note(c, 0));
	assert_int_equal(config_number(c, "store.max_size", -1), -1);
	assert_true(config_flag(c, "store.cleanup"));
	taken("performance_tuning: {max_database_size_gb: 1.5, auto_cleanup: false}\n");
	assert_int_equal(config_number(c, "store.max_size", -1), 1610612736);
	assert_false(config_flag(c, "store.cleanup"));
	assert_null(config_note(c, 0));
	refused("metrics_collection: {auto_cleanup: true}\nstore: {cleanup: true}\n",
		"f:2:9: \"store.cleanup\" and \"metrics_collection.auto_cleanup\" in line 1 say "
		"the "
		"same; keep one");
	refused("run: {dir: a}\nsave_dir: b\n",
		"f:2:1: \"save_dir\" and \"run.dir\" in line 1 say the same; keep one");
	refused("visualization: {grafana: true}\nmonitoring:\n  visualization: {grafana: true}\n",
		"f:3:19: \"visualization.grafana\" and \"visualization.grafana\" in line 1 say the "
		"same; keep one");
}

static void test_notes(void **state)
{
	(void)state;
	taken("monitoring:\n"
	      "  enabled: true\n"
	      "  alerting: {email_notifications: true}\n"
	      "  visualization:\n"
	      "    tensorboard: true\n"
	      "    prometheus: false\n"
	      "metrics_collection:\n"
	      "  save_interval: 10\n"
	      "performance_tuning: {flush_interval: 1.0}\n");
	assert_string_equal(config_note(c, 0), "f:3:14: alerting.email_notifications: has no "
					       "effect in this version, where it is false");
	assert_string_equal(config_note(c, 1), "f:5:5: visualization.tensorboard: has no effect in "
					       "this version, where it is false");
	assert_string_equal(config_note(c, 2),
			    "f:8:3: metrics_collection.save_interval: has no effect in this "
			    "version");
	assert_null(config_note(c, 3));
}

/* The value of python.config as JSON. */
static void check_value(const char *yaml, const char *json)
{
	static const char begin_text[] = "{\"path\":\"python.config\"", value[] = "\"value\":";
	char *text = xasprintf("python: {config: {x: %s}}\n", yaml);
	char *want = xasprintf("{\"x\":%s},\"from\"", json);
	const char *at;
	struct buf b;
	struct json j;

	taken(text);
	buf_init(&b, 1 << 20);
	json_init(&j, &b);
	dump_json(c, &j);
	at = strstr(buf_str(&b), begin_text);
	assert_non_null(at);
	at = strstr(at, value) + strlen(value);
	if (strncmp(at, want, strlen(want)) != 0)
		fail_msg("%s: %.80s, not %s", yaml, at, want);
	buf_done(&b);
	free(want);
	free(text);
}

static void test_free_values(void **state)
{
	(void)state;
	check_value("1", "1");
	check_value("-12", "-12");
	check_value("+7", "7");
	check_value("010", "10");
	check_value("-0", "-0");
	check_value("123456789012345678901234567890", "123456789012345678901234567890");
	check_value("0x1F", "31");
	check_value("0o17", "15");
	check_value("0x", "\"0x\"");
	check_value("1e-3", "0.001");
	check_value("2.5", "2.5");
	check_value(".5", "0.5");
	check_value("1e999", "\"1e999\"");
	check_value(".inf", "\"Infinity\"");
	check_value("-.INF", "\"-Infinity\"");
	check_value(".nan", "\"NaN\"");
	check_value("True", "true");
	check_value("FALSE", "false");
	check_value("yes", "\"yes\"");
	check_value("~", "null");
	check_value("null", "null");
	check_value("'1'", "\"1\"");
	check_value("\"true\"", "\"true\"");
	check_value("1.2.3", "\"1.2.3\"");
	check_value("2026-11-28", "\"2026-11-28\"");
	check_value("[1, [a, {b: c}], []]", "[1,[\"a\",{\"b\":\"c\"}],[]]");
	check_value("{}", "{}");
}

static void item_told(void *arg, const char *key, const char *text)
{
	buf_printf(arg, "%s=%s;", key, text);
}

static void check_item(size_t i, const char *want)
{
	struct buf b;

	buf_init(&b, 4096);
	config_item(c, "run.scrape", i, item_told, &b);
	assert_string_equal(buf_str(&b), want);
	buf_done(&b);
}

static void test_items(void **state)
{
	struct buf b;
	struct json j;

	(void)state;
	assert_int_equal(config_items(c, "run.scrape"), 0);
	taken("run:\n  scrape: h:1\n");
	assert_int_equal(config_items(c, "run.scrape"), 1);
	check_item(0, "url=h:1;");
	taken("run:\n  scrape:\n  - a\n  - {interval: 2s, url: b, buckets: yes, keep: [x, y], "
	      "ca_file: ~}\n");
	assert_int_equal(config_items(c, "run.scrape"), 2);
	check_item(0, "url=a;");
	check_item(1, "url=b;interval=2000000000ns;keep=x,y;buckets=true;");
	buf_init(&b, 1 << 20);
	json_init(&j, &b);
	dump_json(c, &j);
	assert_non_null(strstr(buf_str(&b), "\"value\":[{\"url\":\"a\"},{\"url\":\"b\","
					    "\"interval\":2,\"keep\":[\"x\",\"y\"],"
					    "\"buckets\":true}],\"from\":\"file\""));
	buf_done(&b);
	refused("run:\n  scrape:\n  - {url: a}\n  - {urll: b}\n",
		"f:3:3: run.scrape: entry 2: unknown key \"urll\"; did you mean \"url\"?");
	refused("run: {scrape: [{url: a, interval: 10ms}]}\n",
		"f:1:15: run.scrape: entry 1: interval: 10ms is out of range: at least 1.00 s, at "
		"most 1 d 00 h");
	refused("run: {scrape: [[a]]}\n",
		"f:1:15: run.scrape: entry 1: here stands a list in the list");
}

static void test_files(void **state)
{
	char path[] = "/tmp/lapse-config-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "run: {name: n}\n", 15), 15);
	close(fd);
	assert_int_equal(config_load(c, path, &e), 0);
	assert_string_equal(config_text(c, "run.name"), "n");
	config_free(c);
	c = config_new();
	unlink(path);
	assert_int_equal(config_load(c, path, &e), -ENOENT);
	assert_non_null(strstr(e.text, "cannot open /tmp/lapse-config-"));
	err_clear(&e);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(config_load(c, path, &e), -EINVAL); /* and does not wait */
	assert_non_null(strstr(e.text, "is no regular file"));
	unlink(path);
	err_clear(&e);
	assert_int_equal(config_load(c, "/tmp", &e), -EINVAL);
	assert_string_equal(e.text, "/tmp is no regular file");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_defaults),    TEST(test_types),       TEST(test_null),
		TEST(test_layers),      TEST(test_environment), TEST(test_unknown),
		TEST(test_wrong),       TEST(test_other_names), TEST(test_notes),
		TEST(test_free_values), TEST(test_items),       TEST(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * test_scrape.c - targets as people write them, and what of a text becomes which
 * figure: names, units, labels, counters' gains, limits.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/groups.h"
#include "probe/scrape/collect.h"
#include "probe/scrape/preset.h"
#include "probe/scrape/target.h"
#include "wire/sink.h"

/* ---- targets ------------------------------------------------------------------------------ */

static void test_targets(void **state)
{
	static const struct {
		const char *line, *url, *name, *preset;
	} good[] = {
		{"url=http://a:1/metrics", "http://a:1/metrics", "a:1", ""},
		{"url=a:1", "http://a:1/metrics", "a:1", ""},
		{"url=a:1/", "http://a:1/metrics", "a:1", ""},
		{"url=https://a/x?token=s", "https://a/x?token=s", "a/x", ""},
		{"url=dcgm=gpu7", "http://gpu7:9400/metrics", "gpu7:9400", "dcgm"},
		{"url=node=http://[::1]", "http://[::1]:9100/metrics", "[::1]:9100", "node"},
		{"url=b:2\tpreset=vllm\tname=judge", "http://b:2/metrics", "judge", "vllm"},
		{"url=unix:///run/x.sock:/m", "unix:///run/x.sock:/m", "/run/x.sock:/m", ""},
		{"url=file:///tmp/x.prom", "file:///tmp/x.prom", "/tmp/x.prom", ""},
	};
	static const struct {
		const char *line, *why;
	} bad[] = {
		{"preset=ray", "the address (url) is missing"},
		{"url=ray=", "this is no address"},
		{"url=rai=h:1", "no preset \"rai\"; did you mean ray?"},
		{"url=http://u:p@h:1/", "name and password do not belong into an address"},
		{"url=ftp://h/x", "only http://, https://, unix:// and file:// are known"},
		{"url=file://x", "file:// wants an absolute path"},
		{"url=h:1\tinterval=5ms", "\"5ms\" is not a duration"},
		{"url=h:1\tbuckets=maybe", "neither true nor false"},
		{"url=h:1\tcolour=red", "unknown key \"colour\""},
	};
	struct scrape_targets list = {.n = 0};
	struct err e;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		err_clear(&e);
		assert_int_equal(target_add(&list, good[i].line, strlen(good[i].line), &e), 0);
		assert_string_equal(list.t[0].url, good[i].url);
		assert_string_equal(list.t[0].name, good[i].name);
		assert_string_equal(list.t[0].preset->name, good[i].preset);
		target_done(&list);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err_clear(&e);
		assert_int_equal(target_add(&list, bad[i].line, strlen(bad[i].line), &e), -EINVAL);
		if (!strstr(e.text, bad[i].why))
			fail_msg("%s: %s", bad[i].line, e.text);
	}
	target_add_all(&list, "url=ray=a\nurl=ray=b\nnonsense\nurl=c\nurl=ray=a\nurl=ray=d\n");
	assert_int_equal(list.n, 4); /* one is nonsense, one there already */
	assert_int_equal(list.t[1].number, 1);
	assert_int_equal(list.t[2].number, 0);
	assert_int_equal(list.t[3].number, 2);
	target_done(&list);
}

/* ---- figures ------------------------------------------------------------------------------ */

struct rig {
	struct scrape_targets targets;
	struct collect_rows rows;
	struct collect *collect;
	struct probe_set *set;
	struct collect_result result;
};

static void rig_init(struct rig *r, const char *line)
{
	*r = (struct rig){.set = probe_set_new()};
	assert_int_equal(target_add(&r->targets, line, strlen(line), NULL), 0);
	collect_rows_init(&r->rows);
	r->collect = collect_new(&r->targets.t[0], &r->rows);
}

static void rig_done(struct rig *r)
{
	probe_set_free(r->set);
	collect_free(r->collect);
	collect_rows_done(&r->rows);
	target_done(&r->targets);
}

static void rig_read(struct rig *r, const char *text)
{
	struct probe_now now = {1, 1};

	probe_set_begin(r->set, &now);
	collect_read(r->collect, r->set, text, strlen(text), false, &r->result);
	probe_set_end(r->set);
}

static double value(struct rig *r, const char *name, const char *labels)
{
	double v = -1e99;

	if (probe_value(r->set, name, labels, &v) < 0)
		fail_msg("no value of %s{%s}", name, labels);
	return v;
}

static void absent(struct rig *r, const char *name, const char *labels)
{
	double v;

	assert_int_equal(probe_value(r->set, name, labels, &v), -ENODATA);
}

static void unknown(struct rig *r, const char *name, const char *labels)
{
	double v;

	assert_int_equal(probe_value(r->set, name, labels, &v), -ENOENT);
}

static const struct probe_metric *row_of(struct rig *r, const char *name)
{
	struct probe_view v;
	uint32_t i;

	for (i = 0; i < probe_points(r->set); i++) {
		probe_point_at(r->set, i, &v);
		if (strcmp(v.metric->name, name) == 0)
			return v.metric;
	}
	fail_msg("no row %s", name);
	return NULL;
}

static void test_names_and_kinds(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, "url=h:1");
	rig_read(&r, "# HELP temp_celsius How \\\\ warm\n# TYPE temp_celsius gauge\n"
		     "temp_celsius{b=\"2\",a=\"1\",empty=\"\"} 21.5\n"
		     "# TYPE sent_bytes_total counter\nsent_bytes_total 1000\n"
		     "untyped_total 5\nplain 7\njob:load:mean 0.5\n"
		     "# TYPE wait_seconds histogram\nwait_seconds_bucket{le=\"1\"} 2\n"
		     "wait_seconds_sum 3.5\nwait_seconds_count 2\n"
		     "# TYPE q summary\nq{quantile=\"0.5\"} 9\n"
		     "same{target=\"x\"} 1\n");
	assert_int_equal(r.result.left_out, 0);
	assert_true(value(&r, "scrape/temp_celsius", "a=\"1\",b=\"2\",target=\"h:1\"") == 21.5);
	assert_string_equal(row_of(&r, "scrape/temp_celsius")->unit, "Cel");
	assert_string_equal(row_of(&r, "scrape/temp_celsius")->help, "How \\ warm");
	assert_int_equal(row_of(&r, "scrape/sent_bytes_total")->kind, SINK_COUNTER);
	assert_string_equal(row_of(&r, "scrape/sent_bytes_total")->unit, "By");
	assert_int_equal(row_of(&r, "scrape/untyped_total")->kind, SINK_COUNTER);
	assert_int_equal(row_of(&r, "scrape/plain")->kind, SINK_GAUGE);
	assert_string_equal(row_of(&r, "scrape/plain")->unit, "");
	assert_true(value(&r, "scrape/job/load/mean", "target=\"h:1\"") == 0.5);
	unknown(&r, "scrape/wait_seconds_bucket", "le=\"1\",target=\"h:1\"");
	assert_int_equal(row_of(&r, "scrape/wait_seconds_sum")->kind, SINK_COUNTER);
	assert_string_equal(row_of(&r, "scrape/wait_seconds_sum")->unit, "s");
	assert_string_equal(row_of(&r, "scrape/wait_seconds_count")->unit, "1");
	assert_int_equal(row_of(&r, "scrape/q")->kind, SINK_GAUGE);
	assert_true(value(&r, "scrape/same", "exported_target=\"x\",target=\"h:1\"") == 1);
	rig_done(&r);
}

static void test_counters(void **state)
{
	static const char l[] = "target=\"h:1\"";
	struct rig r;

	(void)state;
	rig_init(&r, "url=h:1\tbuckets=true");
	rig_read(&r, "a_total 10.5\n# TYPE h histogram\nh_bucket{le=\"1\"} 4\n");
	absent(&r, "scrape/a_total", l); /* needs a second one */
	rig_read(&r, "a_total 12\n# TYPE h histogram\nh_bucket{le=\"1\"} 9\n");
	assert_true(value(&r, "scrape/a_total", l) == 1.5);
	assert_true(value(&r, "scrape/h_bucket", "le=\"1\",target=\"h:1\"") == 5);
	rig_read(&r, "a_total 12\n");
	assert_true(value(&r, "scrape/a_total", l) == 0);
	absent(&r, "scrape/h_bucket", "le=\"1\",target=\"h:1\""); /* told no longer */
	rig_read(&r, "a_total 3\n");
	absent(&r, "scrape/a_total", l); /* began anew */
	rig_read(&r, "a_total NaN\n");
	absent(&r, "scrape/a_total", l);
	rig_read(&r, "a_total 4\n");
	assert_true(value(&r, "scrape/a_total", l) == 1);
	collect_absent(r.collect, r.set, "away");
	absent(&r, "scrape/a_total", l);
	rig_read(&r, "a_total 40\n");
	assert_true(value(&r, "scrape/a_total", l) == 36);
	rig_done(&r);
}

static void test_special_values(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, "url=h:1");
	rig_read(&r, "a NaN\nb +Inf\nc -Inf\n");
	assert_true(isnan(value(&r, "scrape/a", "target=\"h:1\"")));
	assert_true(value(&r, "scrape/b", "target=\"h:1\"") == (double)INFINITY);
	assert_true(value(&r, "scrape/c", "target=\"h:1\"") == (double)-INFINITY);
	rig_done(&r);
}

static void test_filters(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, "url=node=h:1\tdrop=node_a*\tdrop_labels=pod,ns");
	rig_read(&r, "node_ab 1\nnode_b{pod=\"p\",x=\"y\"} 2\ngo_c 3\nother 4\n");
	unknown(&r, "node/ab", "target=\"h:1\"");
	unknown(&r, "scrape/go_c", "target=\"h:1\"");
	assert_true(value(&r, "node/b", "target=\"h:1\",x=\"y\"") == 2);
	assert_true(value(&r, "scrape/other", "target=\"h:1\"") == 4);
	rig_done(&r);
	rig_init(&r, "url=node=h:1\tkeep=go_*,x?\tdrop=xy");
	rig_read(&r, "node_b 1\ngo_c 3\nxy 1\nxz 2\n");
	unknown(&r, "node/b", "target=\"h:1\"");
	assert_true(value(&r, "scrape/go_c", "target=\"h:1\"") == 3);
	unknown(&r, "scrape/xy", "target=\"h:1\"");
	assert_true(value(&r, "scrape/xz", "target=\"h:1\"") == 2);
	assert_int_equal(r.result.left_out, 0); /* what nobody wants is not left out */
	rig_done(&r);
}

/* Lines of dcgm-exporter 3.3, ray 2.9 and vllm 0.6. */
static void test_presets(void **state)
{
	static const char gpu[] = "gpu=\"1\",target=\"g:9400\"";
	struct rig r;

	(void)state;
	rig_init(&r, "url=dcgm=g");
#define DCGM_LABELS                                                                                \
	"{gpu=\"1\",UUID=\"GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52\",device=\"nvidia1\","         \
	"modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-17\",DCGM_FI_DRIVER_VERSION="         \
	"\"535.104.05\",container=\"train\",namespace=\"default\",pod=\"a-very-long-name-of-"      \
	"a-pod-0123456789\"}"
	rig_read(&r, "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL" DCGM_LABELS " 97\n"
		     "DCGM_FI_DEV_FB_USED" DCGM_LABELS " 4096\n"
		     "DCGM_FI_DEV_SM_CLOCK" DCGM_LABELS " 1980\n"
		     "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"
		     "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" DCGM_LABELS " 1000000\n"
		     "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",GPU_I_ID=\"3\"} 10\n"
		     "DCGM_FI_DEV_FAN_SPEED{gpu=\"1\",UUID=\"u\"} 30\n");
	assert_int_equal(r.result.left_out, 0);
	assert_true(fabs(value(&r, "gpu/busy", gpu) - 0.97) < 1e-12);
	assert_true(value(&r, "gpu/memory/used", gpu) == 4294967296.0);
	assert_true(value(&r, "gpu/clock/sm", gpu) == 1.98e9);
	assert_true(fabs(value(&r, "gpu/busy", "gpu=\"0\",mig=\"3\",target=\"g:9400\"") - 0.1) <
		    1e-12);
	assert_true(value(&r, "dcgm/DEV_FAN_SPEED", gpu) == 30);
	rig_read(&r, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" DCGM_LABELS " 1250500\n");
	assert_true(fabs(value(&r, "gpu/energy", gpu) - 250.5) < 1e-9);
	rig_done(&r);

	rig_init(&r, "url=ray=10.0.0.7:54321");
	rig_read(&r, "ray_node_gpus_utilization{GpuDeviceName=\"H100\",GpuIndex=\"2\",Session"
		     "Name=\"s\",Version=\"2.9.0\",ip=\"10.0.0.7\"} 50\n"
		     "ray_node_gram_used{GpuDeviceName=\"H100\",GpuIndex=\"2\",SessionName=\"s\","
		     "Version=\"2.9.0\",ip=\"10.0.0.7\"} 1024\n"
		     "ray_node_mem_total{SessionName=\"s\",Version=\"2.9.0\",ip=\"10.0.0.7\"} "
		     "68719476736\n"
		     "ray_node_disk_usage{SessionName=\"s\",ip=\"10.0.0.7\"} 5\n"
		     "ray_component_cpu_percentage{pid=\"17\",Component=\"raylet\"} 3\n");
	assert_true(value(&r, "ray/gpu/busy", "gpu=\"2\",node=\"0\",target=\"10.0.0.7:54321\"") ==
		    0.5);
	assert_true(value(&r, "ray/gpu/memory/used",
			  "gpu=\"2\",node=\"0\",target=\"10.0.0.7:54321\"") == 1073741824.0);
	assert_true(value(&r, "ray/memory/total", "node=\"0\",target=\"10.0.0.7:54321\"") ==
		    68719476736.0);
	assert_true(value(&r, "ray/node_disk_usage", "ip=\"10.0.0.7\",target=\"10.0.0.7:54321\"") ==
		    5);
	assert_int_equal(probe_points(r.set), 4); /* nothing of a component, with its pid */
	rig_done(&r);

	rig_init(&r, "url=vllm=h");
	rig_read(&r, "# TYPE vllm:num_requests_running gauge\n"
		     "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3\n"
		     "python_info{version=\"3\"} 1\nprocess_open_fds 7\n");
	assert_true(value(&r, "vllm/num_requests_running",
			  "engine=\"0\",model_name=\"m\",target=\"h:8000\"") == 3);
	assert_int_equal(probe_points(r.set), 1);
	rig_done(&r);
}

static void test_left_out(void **state)
{
	char text[1024], value_text[300];
	struct rig r;

	(void)state;
	memset(value_text, 'x', sizeof(value_text));
	value_text[sizeof(value_text) - 1] = '\0';
	snprintf(text, sizeof(text), "good 1\nlong{a=\"%s\"} 1\n", value_text);
	rig_init(&r, "url=h:1\tdrop_labels=pod");
	rig_read(&r, text);
	rig_read(&r, text); /* counted each time */
	assert_int_equal(r.result.left_out, 1);
	rig_read(&r, "d{pod=\"1\"} 1\nd{pod=\"2\"} 2\ne 1\ne 2\nf{a=\"1\",a=\"2\"} 1\n");
	assert_int_equal(r.result.left_out, 3);
	assert_true(strstr(r.result.why, "the same labels twice (drop_labels), first of d") !=
		    NULL);
	assert_true(value(&r, "scrape/d", "target=\"h:1\"") == 1);
	assert_true(value(&r, "scrape/e", "target=\"h:1\"") == 1);
	/* The same series with its labels in another order. */
	rig_read(&r, "g{a=\"1\",b=\"2\"} 1\n");
	rig_read(&r, "g{b=\"2\",a=\"1\"} 2\n");
	assert_int_equal(r.result.left_out, 0);
	assert_true(value(&r, "scrape/g", "a=\"1\",b=\"2\",target=\"h:1\"") == 2);
	rig_done(&r);
}

static void test_many_series(void **state)
{
	size_t i, cap = 12000 * 32, n = 0;
	char *text = malloc(cap);
	struct rig r;

	(void)state;
	assert_non_null(text);
	for (i = 0; i < 12000; i++)
		n += (size_t)snprintf(text + n, cap - n, "m{i=\"%zu\"} %zu\n", i, i);
	rig_init(&r, "url=h:1");
	rig_read(&r, text);
	assert_int_equal(r.result.text.samples, 12000);
	assert_int_equal(r.result.left_out, 2000);
	assert_int_equal(probe_points(r.set), COLLECT_SERIES_MAX);
	assert_true(value(&r, "scrape/m", "i=\"9999\",target=\"h:1\"") == 9999);
	rig_read(&r, text);
	assert_int_equal(r.result.left_out, 2000);
	rig_done(&r);
	free(text);
}

/* ---- the group ----------------------------------------------------------------------------- */

struct events {
	char text[8][256];
	size_t n;
};

static void on_event(void *arg, int64_t boot_ns, int severity, const char *kind, const char *text,
		     const char *attrs)
{
	struct events *e = arg;

	(void)boot_ns;
	(void)severity;
	(void)attrs;
	assert_true(e->n < 8);
	snprintf(e->text[e->n++], sizeof(e->text[0]), "%s: %s", kind, text);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* By a file: no network, no libcurl. */
static void test_group(void **state)
{
	char path[] = "/tmp/test_scrape_XXXXXX", line[128], labels[128], want[256];
	struct probe_set *set = probe_set_new();
	struct scrape_targets list = {.n = 0};
	struct probe_env env = {.root = "", .pid = 1};
	struct probe_now now = {1000000000, 1000000000};
	struct events events = {.n = 0};
	struct probe_taker taker = {NULL, on_event, NULL, &events};
	struct err e = {0};
	void *group;
	double v;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_non_null(probe_scrape.idle(&env));
	assert_int_equal(probe_scrape.open(&env, set, &group, &e), -ENODEV);
	snprintf(line, sizeof(line), "url=file://%s\tinterval=10s", path);
	assert_int_equal(target_add(&list, line, strlen(line), NULL), 0);
	env.scrape = list.t;
	env.n_scrape = list.n;
	assert_null(probe_scrape.idle(&env));
	assert_int_equal(probe_scrape.open(&env, set, &group, &e), 0);
	target_done(&list); /* the group has its own */
	snprintf(labels, sizeof(labels), "target=\"%s\"", path);

	write_file(path, "a 1\nb 2\nwrong\n");
	probe_set_begin(set, &now);
	probe_scrape.read(group, set, &now);
	probe_set_end(set);
	assert_int_equal(probe_value(set, "scrape/up", labels, &v), 0);
	assert_true(v == 1);
	assert_int_equal(probe_value(set, "scrape/samples", labels, &v), 0);
	assert_true(v == 2);
	assert_int_equal(probe_value(set, "scrape/left_out", labels, &v), 0);
	assert_true(v == 1);
	assert_int_equal(probe_value(set, "scrape/b", labels, &v), 0);
	assert_true(v == 2);

	/* Not due yet. */
	unlink(path);
	now.mono_ns += 8000000000;
	probe_set_begin(set, &now);
	probe_scrape.read(group, set, &now);
	probe_set_end(set);
	assert_int_equal(probe_value(set, "scrape/b", labels, &v), 0);

	now.mono_ns += 1000000000; /* 10 s: a multiple of the interval */
	probe_set_begin(set, &now);
	probe_scrape.read(group, set, &now);
	probe_set_end(set);
	assert_int_equal(probe_value(set, "scrape/up", labels, &v), 0);
	assert_true(v == 0);
	assert_int_equal(probe_value(set, "scrape/b", labels, &v), -ENODATA);

	write_file(path, "b 3\n");
	now.mono_ns += 10000000000;
	probe_set_begin(set, &now);
	probe_scrape.read(group, set, &now);
	probe_set_end(set);
	assert_int_equal(probe_value(set, "scrape/b", labels, &v), 0);
	assert_true(v == 3);

	probe_set_take(set, &taker);
	assert_int_equal(events.n, 3);
	snprintf(want, sizeof(want),
		 "scrape-left-out: %s: 1 of its samples are left out: line 3: no number behind "
		 "the name",
		 path);
	assert_string_equal(events.text[0], want);
	snprintf(want, sizeof(want),
		 "scrape-down: %s cannot be scraped: %s: No such file or directory", path, path);
	assert_string_equal(events.text[1], want);
	snprintf(want, sizeof(want), "scrape-up: %s can be scraped again", path);
	assert_string_equal(events.text[2], want);
	probe_scrape.close(group);
	probe_set_free(set);
	unlink(path);
}

/* docs/scrape.md names each row of the presets. */
static void test_page(void **state)
{
	const struct scrape_preset *p;
	const struct preset_row *row;
	static char page[1 << 16];
	char want[128];
	size_t i, n;
	FILE *f = fopen(TEST_SCRAPE_DOC, "r");

	(void)state;
	assert_non_null(f);
	n = fread(page, 1, sizeof(page) - 1, f);
	fclose(f);
	page[n] = '\0';
	for (i = 0; (p = preset_at(i)); i++) {
		snprintf(want, sizeof(want), "| `%s` |", p->name);
		if (!strstr(page, want))
			fail_msg("docs/scrape.md: no preset %s", want);
		for (row = p->rows; row && row->from; row++) {
			snprintf(want, sizeof(want), "| `%s` | `%s` | %s |", row->from,
				 row->metric.name, row->metric.unit);
			if (!strstr(page, want))
				fail_msg("docs/scrape.md: no row %s", want);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),  cmocka_unit_test(test_names_and_kinds),
		cmocka_unit_test(test_counters), cmocka_unit_test(test_special_values),
		cmocka_unit_test(test_filters),  cmocka_unit_test(test_presets),
		cmocka_unit_test(test_left_out), cmocka_unit_test(test_many_series),
		cmocka_unit_test(test_group),    cmocka_unit_test(test_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

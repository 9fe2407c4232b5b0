/* SPDX-License-Identifier: Apache-2.0
 *
 * test_run.c - the run file and the outcome file: exact text, what is read
 * back, and which damage is refused where.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "wire/run.h"

static const char start_text[] = "lapse-run 1\n"
				 "id=20261128-010203-abcd\n"
				 "dir=/home/a b/lapse-runs/x\n"
				 "name=50%25%0A\n"
				 "project=\n"
				 "command=python3 'a=b.py'\n"
				 "cwd=/\n"
				 "host=h\n"
				 "user=\xc3\xa4\n"
				 "tags=a,b\n"
				 "notes=two%0Alines%09tab%7F\n"
				 "launcher_pid=7\n"
				 "launcher_start=18446744073709551615\n"
				 "child_pid=8\n"
				 "child_start=99\n"
				 "start_ns=1795827723000000001\n"
				 "start_boot_ns=12\n"
				 "stall_after_ms=-1\n"
				 "exports=tensorboard=%0Aprometheus=/x.prom%0A\n"
				 "scrape=url=h:1%09name=n%0Aurl=ray=h:2%0A\n"
				 "alerts=off=nan,stall%0A\n"
				 "end\n";

static void fill_start(struct run_start *r)
{
	memset(r, 0, sizeof(*r));
	strcpy(r->id, "20261128-010203-abcd");
	strcpy(r->dir, "/home/a b/lapse-runs/x");
	strcpy(r->name, "50%\n");
	strcpy(r->command, "python3 'a=b.py'");
	strcpy(r->cwd, "/");
	strcpy(r->host, "h");
	strcpy(r->user, "\xc3\xa4");
	strcpy(r->tags, "a,b");
	strcpy(r->notes, "two\nlines\ttab\x7f");
	r->launcher_pid = 7;
	r->launcher_start = UINT64_MAX;
	r->child_pid = 8;
	r->child_start = 99;
	r->start_ns = 1795827723000000001;
	r->start_boot_ns = 12;
	r->stall_after_ms = -1;
	strcpy(r->exports, "tensorboard=\nprometheus=/x.prom\n");
	strcpy(r->scrape, "url=h:1\tname=n\nurl=ray=h:2\n");
	strcpy(r->alerts, "off=nan,stall\n");
}

static void test_start_text(void **state)
{
	static char out[RUN_FILE_MAX];
	static struct run_start r, back;
	size_t len = 0;
	char why[128] = "";

	(void)state;
	fill_start(&r);
	assert_int_equal(run_start_format(&r, out, sizeof(out), &len), 0);
	assert_int_equal(len, sizeof(start_text) - 1);
	assert_memory_equal(out, start_text, len);
	assert_int_equal(run_start_parse(start_text, len, &back, why), 0);
	assert_memory_equal(&r, &back, sizeof(r));
}

static void test_outcome(void **state)
{
	static const char text[] = "lapse-outcome 1\nid=x\nkind=oom\ncode=-1\nsignal=9\ncore=0\n"
				   "end_ns=5\nuser_s=1.250000\nsystem_s=0.000001\n"
				   "max_rss=4096\nevidence=e\nstderr_tail=a%00b%25\nend\n";
	static char out[RUN_FILE_MAX];
	static struct run_outcome o, back;
	char why[128] = "";
	size_t len = 0;

	(void)state;
	assert_int_equal(run_outcome_parse(text, sizeof(text) - 1, &o, why), 0);
	assert_string_equal(o.id, "x");
	assert_int_equal(o.kind, RUN_OOM);
	assert_int_equal(o.code, -1);
	assert_int_equal(o.signal, 9);
	assert_int_equal(o.end_ns, 5);
	assert_true(o.user_s == 1.25);
	assert_true(o.system_s == 0.000001);
	assert_int_equal(o.max_rss, 4096);
	assert_string_equal(o.evidence, "e");
	assert_int_equal(o.stderr_len, 4);
	assert_memory_equal(o.stderr_tail, "a\0b%", 4);
	assert_int_equal(run_outcome_format(&o, out, sizeof(out), &len), 0);
	assert_int_equal(len, sizeof(text) - 1);
	assert_memory_equal(out, text, len);
	assert_int_equal(run_outcome_parse(out, len, &back, why), 0);
	assert_memory_equal(&o, &back, sizeof(o));
}

/* Every prefix is refused: a reader can tell a file that is still being written. */
static void test_cut_short(void **state)
{
	static struct run_start r;
	char why[128];
	size_t len;

	(void)state;
	for (len = 0; len < sizeof(start_text) - 1; len++) {
		r.launcher_pid = -5;
		why[0] = '\0';
		assert_int_equal(run_start_parse(start_text, len, &r, why), -EBADMSG);
		assert_int_equal(r.launcher_pid, -5);
		assert_int_not_equal(why[0], '\0');
	}
}

static void test_damage(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"lapse-run 2\nend\n", "line 1: not \"lapse-run 1\""},
		{"lapse-outcome 1\nend\n", "line 1: not \"lapse-run 1\""},
		{"lapse-run 1\nchild_pid=1x\nend\n", "line 2: bad value of child_pid"},
		{"lapse-run 1\nchild_pid=\nend\n", "line 2: bad value of child_pid"},
		{"lapse-run 1\nchild_start=-1\nend\n", "line 2: bad value of child_start"},
		{"lapse-run 1\nchild_start=18446744073709551616\nend\n",
		 "line 2: bad value of child_start"},
		{"lapse-run 1\nstart_ns=9223372036854775808\nend\n",
		 "line 2: bad value of start_ns"},
		{"lapse-run 1\nid=a\nname=%4\nend\n", "line 3: bad value of name"},
		{"lapse-run 1\nname=%zz\nend\n", "line 2: bad value of name"},
		{"lapse-run 1\nnonsense\nend\n", "line 2: neither key=value nor \"end\""},
		{"lapse-run 1\nend\nid=a\n", "line 3: something behind \"end\""},
		{"lapse-run 1\nid=../x\nend\n", "bad value of id"},
		{"lapse-run 1\nid=a/b\nend\n", "bad value of id"},
	};
	static struct run_start r;
	char why[128];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		why[0] = '\0';
		assert_int_equal(run_start_parse(rows[i].text, strlen(rows[i].text), &r, why),
				 -EBADMSG);
		assert_string_equal(why, rows[i].why);
	}
}

/* A newer writer: unknown keys are skipped, missing ones are zero, the last of
 * two holds, extremes fit. */
static void test_tolerant(void **state)
{
	static const char text[] = "lapse-run 1\nfuture=%zz\nname=longer name\nname=n\n"
				   "start_ns=-9223372036854775808\nend\n";
	static struct run_start r;
	char why[128] = "";

	(void)state;
	assert_int_equal(run_start_parse(text, sizeof(text) - 1, &r, why), 0);
	assert_string_equal(r.name, "n");
	assert_true(r.start_ns == INT64_MIN);
	assert_int_equal(r.child_pid, 0);
	assert_string_equal(r.id, "");
}

/* Too long values are cut, and the largest legal structs fit RUN_FILE_MAX even
 * when every byte must be escaped. */
static void test_limits(void **state)
{
	static char out[RUN_FILE_MAX + 1], small[64];
	static struct run_start r, back;
	static struct run_outcome o, oback;
	char why[128] = "", id[400];
	size_t len = 0;

	(void)state;
	memset(id, 'x', sizeof(id));
	len = (size_t)snprintf(out, sizeof(out), "lapse-run 1\nid=%.*s\nend\n", 300, id);
	assert_int_equal(run_start_parse(out, len, &r, why), 0);
	assert_int_equal(strlen(r.id), RUN_ID_MAX);

	memset(&r, '\n', sizeof(r));
	memset(r.id, 0, sizeof(r.id));
	r.dir[4095] = r.name[255] = r.project[255] = r.command[65535] = r.cwd[4095] = '\0';
	r.host[255] = r.user[63] = r.tags[1023] = r.notes[4095] = r.exports[4095] = '\0';
	r.scrape[16383] = r.alerts[4095] = '\0';
	assert_int_equal(run_start_format(&r, out, RUN_FILE_MAX, &len), 0);
	assert_int_equal(run_start_parse(out, len, &back, why), 0);
	assert_memory_equal(&r, &back, sizeof(r));
	assert_int_equal(run_start_format(&r, small, sizeof(small), &len), -ENOSPC);

	memset(&o, 0, sizeof(o));
	memset(o.stderr_tail, 1, sizeof(o.stderr_tail));
	memset(o.evidence, 2, sizeof(o.evidence) - 1);
	o.stderr_len = sizeof(o.stderr_tail);
	assert_int_equal(run_outcome_format(&o, out, RUN_FILE_MAX, &len), 0);
	assert_int_equal(run_outcome_parse(out, len, &oback, why), 0);
	assert_memory_equal(&o, &oback, sizeof(o));
	memset(out, 'x', sizeof(out));
	assert_int_equal(run_outcome_parse(out, sizeof(out), &oback, why), -EBADMSG);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(run_outcome_name(RUN_RUNNING), "running");
	assert_string_equal(run_outcome_name(RUN_EXITED), "exited");
	assert_string_equal(run_outcome_name(RUN_SIGNALED), "signaled");
	assert_string_equal(run_outcome_name(RUN_OOM), "oom");
	assert_string_equal(run_outcome_name(RUN_HUNG), "hung");
	assert_string_equal(run_outcome_name(RUN_LOST), "lost");
	assert_string_equal(run_outcome_name((enum run_outcome_kind)77), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_text), cmocka_unit_test(test_outcome),
		cmocka_unit_test(test_cut_short),  cmocka_unit_test(test_damage),
		cmocka_unit_test(test_tolerant),   cmocka_unit_test(test_limits),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

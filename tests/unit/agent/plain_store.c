/* SPDX-License-Identifier: Apache-2.0 */
#include "plain_store.h"

#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

int plain_start(void *handle, const struct run_start *r, struct err *e)
{
	(void)handle;
	(void)r;
	(void)e;
	return 0;
}

int plain_tend(void *handle, struct err *e)
{
	(void)handle;
	(void)e;
	return 0;
}

int plain_end(void *handle, const struct run_outcome *o, struct err *e)
{
	(void)handle;
	(void)o;
	(void)e;
	return 0;
}

int plain_leave(void *handle, struct err *e)
{
	(void)handle;
	(void)e;
	return raise(SIGTERM);
}

const char *plain_why(void *handle)
{
	(void)handle;
	return "told to fail";
}

static void plain_write(const char *dir, const char *id, const char *suffix, const char *text,
			size_t len)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/runs/%s%s", dir, id, suffix);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

void plain_write_start(const char *dir, struct run_start *r, pid_t child)
{
	static char text[RUN_FILE_MAX];
	size_t len;

	snprintf(r->dir, sizeof(r->dir), "%s/%s", dir, r->id);
	r->child_pid = child;
	r->child_start = rendezvous_start_time(child);
	r->start_ns = clock_ns(CLOCK_REALTIME);
	r->start_boot_ns = clock_ns(CLOCK_BOOTTIME);
	assert_int_equal(run_start_format(r, text, sizeof(text), &len), 0);
	plain_write(dir, r->id, ".run", text, len);
}

void plain_write_outcome(const char *dir, const struct run_outcome *o)
{
	static char text[RUN_FILE_MAX];
	size_t len;

	assert_int_equal(run_outcome_format(o, text, sizeof(text), &len), 0);
	plain_write(dir, o->id, ".outcome", text, len);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/groups.h"

char machine_heard[8192];

static void machine_hear(const char *kind, const char *text, const char *attrs)
{
	size_t n = strlen(machine_heard);

	snprintf(machine_heard + n, sizeof(machine_heard) - n, "%s|%s|%s\n", kind, text, attrs);
}

static void machine_hear_event(void *arg, int64_t boot_ns, int severity, const char *kind,
			       const char *text, const char *attrs)
{
	(void)arg;
	(void)boot_ns;
	(void)severity;
	machine_hear(kind, text, attrs);
}

static void machine_hear_fact(void *arg, const char *key, const char *value)
{
	(void)arg;
	machine_hear(key, value, "");
}

const char *machine_listen(struct machine *m)
{
	struct probe_taker t = {NULL, machine_hear_event, machine_hear_fact, NULL};

	machine_heard[0] = '\0';
	probe_set_take(m->s, &t);
	return machine_heard;
}

void machine_at(struct machine *m, double seconds)
{
	m->at = seconds;
	m->time((int64_t)(seconds * 1e9));
}

int machine_try(struct machine *m, const char *lib, const char *script, struct err *e)
{
	struct probe_env env = {.root = ""};
	int err;

	memset(m, 0, sizeof(*m));
	setenv("LAPSE_NVML", lib, 1);
	setenv(FAKE_NVML_ENV, script, 1);
	m->lib = dlopen(lib, RTLD_NOW);
	assert_non_null(m->lib);
	*(void **)&m->time = dlsym(m->lib, "fake_nvml_time");
	*(void **)&m->calls = dlsym(m->lib, "fake_nvml_calls");
	if (m->time)
		machine_at(m, 0);
	m->s = probe_set_new();
	assert_non_null(m->s);
	err = probe_nvidia.open(&env, m->s, &m->fast, e);
	if (err)
		return err;
	assert_int_equal(probe_nvidia_slow.open(&env, m->s, &m->slow, e), 0);
	return 0;
}

void machine_done(struct machine *m)
{
	if (m->fast)
		probe_nvidia.close(m->fast);
	if (m->slow)
		probe_nvidia_slow.close(m->slow);
	probe_set_free(m->s);
	dlclose(m->lib);
}

void machine_init(struct machine *m, const char *script)
{
	struct err e = {0};

	assert_int_equal(machine_try(m, FAKE_NVML, script, &e), 0);
	assert_string_equal(e.text, "");
}

void machine_read(struct machine *m, double seconds, bool slow)
{
	struct probe_now now = {(int64_t)((seconds + 1000) * 1e9),
				(int64_t)((seconds + 2000) * 1e9)};

	machine_at(m, seconds);
	probe_set_begin(m->s, &now);
	probe_nvidia.read(m->fast, m->s, &now);
	if (slow)
		probe_nvidia_slow.read(m->slow, m->s, &now);
	probe_set_end(m->s);
}

void machine_expect(struct machine *m, const char *name, const char *labels, double want)
{
	double v = NAN;

	if (probe_value(m->s, name, labels, &v) || fabs(v - want) > 1e-9 * (1 + fabs(want)))
		fail_msg("%s{%s} is %.17g, not %.17g", name, labels, v, want);
}

void machine_expect_absent(struct machine *m, const char *name, const char *labels, const char *why)
{
	struct probe_view v;
	size_t i;

	for (i = 0; i < probe_points(m->s); i++) {
		probe_point_at(m->s, (uint32_t)i, &v);
		if (strcmp(v.metric->name, name) != 0 || strcmp(v.labels, labels) != 0)
			continue;
		if (v.known || !v.why || !strstr(v.why, why))
			fail_msg("%s{%s} is %s %g, %s", name, labels, v.known ? "known" : "absent",
				 v.value, v.why ? v.why : "no reason");
		return;
	}
	fail_msg("no point %s{%s}", name, labels);
}

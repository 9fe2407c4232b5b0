/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_task.c - the parsers of a process's and a cgroup's files on any bytes. The first
 * byte, '0' to '9', picks the parser; the rest is the text.
 */
#include "probe/linux/task.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/linux/cgrouptext.h"
#include "probe/linux/proc.h"
#include "probe/linux/role.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_require(bool ok)
{
	if (!ok)
		abort();
}

static void fuzz_stat(const char *text, size_t len)
{
	struct proc_stat s;

	if (proc_parse_stat(text, len, &s) == 0)
		fuzz_require(strlen(s.name) < sizeof(s.name));
}

static void fuzz_status(const char *text, size_t len)
{
	struct task_status s;
	int i;

	if (task_parse_status(text, len, &s) != 0)
		return;
	fuzz_require(s.has < 1u << TASK_STATUS_FIELDS);
	for (i = 0; i < TASK_STATUS_FIELDS; i++)
		fuzz_require((s.has >> i & 1) || s.value[i] == 0);
	fuzz_require(s.value[TASK_STATUS_PEAK] % 1024 == 0);
}

static void fuzz_io(const char *text, size_t len)
{
	struct task_io io;

	if (task_parse_io(text, len, &io) == 0)
		fuzz_require(memmem(text, len, "rchar:", 6) && memmem(text, len, "syscw:", 6));
}

static void fuzz_schedstat(const char *text, size_t len)
{
	struct task_schedstat s;

	if (task_parse_schedstat(text, len, &s) == 0)
		fuzz_require(len >= 3);
}

static void fuzz_pss(const char *text, size_t len)
{
	uint64_t pss;

	if (task_parse_pss(text, len, &pss) == 0)
		fuzz_require(pss % 1024 == 0);
}

static void fuzz_memory_stat(const char *text, size_t len)
{
	struct cgrouptext_stat s;
	int version, i;

	for (version = 1; version <= 2; version++) {
		if (cgrouptext_memory_stat(text, len, version, &s) != 0)
			continue;
		for (i = 0; i < CGROUPTEXT_MEMORY_FIELDS; i++)
			fuzz_require((s.has >> i & 1) || s.value[i] == 0);
	}
}

static void fuzz_memory_events(const char *text, size_t len)
{
	struct cgrouptext_events e;

	cgrouptext_memory_events(text, len, &e);
	fuzz_require(e.has < 1u << CGROUPTEXT_EVENTS);
}

static void fuzz_cpu_stat(const char *text, size_t len)
{
	struct cgrouptext_cpu_stat s;

	if (cgrouptext_cpu_stat(text, len, &s) == 0)
		fuzz_require(s.has && s.has < 1u << CGROUPTEXT_CPU_FIELDS &&
			     s.value[CGROUPTEXT_USAGE_NS] % 1000 == 0);
}

static void fuzz_cgroup_io(const char *text, size_t len)
{
	uint64_t r = 1, w = 2;
	int err = cgrouptext_io(text, len, &r, &w);

	fuzz_require(err == 0 || (err == -EBADMSG && r == 1 && w == 2));
}

static void fuzz_cmdline(const char *text, size_t len)
{
	if (role_is_spawned(text, len))
		fuzz_require(memmem(text, len, "multiprocessing", 15));
}

static void (*const fuzz_parsers[])(const char *text, size_t len) = {
	fuzz_stat,        fuzz_status,        fuzz_io,       fuzz_schedstat, fuzz_pss,
	fuzz_memory_stat, fuzz_memory_events, fuzz_cpu_stat, fuzz_cgroup_io, fuzz_cmdline,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy;

	if (size == 0 || data[0] < '0' || data[0] - '0' >= (int)ARRAY_LEN(fuzz_parsers))
		return 0;
	/* A copy of the exact size: reading one byte past it is then seen. */
	copy = malloc(size > 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	fuzz_parsers[data[0] - '0'](copy, size - 1);
	free(copy);
	return 0;
}

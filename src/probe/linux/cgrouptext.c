/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers of cgroup files. Formats: the kernel's cgroup-v2.rst, and memory.rst and
 * blkio-controller.rst of cgroup-v1.
 */
#include "probe/linux/cgrouptext.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "probe/linux/hosttext.h"
#include "probe/linux/proc.h"

int cgrouptext_memory_stat(const char *text, size_t len, int version, struct cgrouptext_stat *ret)
{
	static const struct hosttext_key v2[] = {
		HOSTTEXT_KEY("anon", CGROUPTEXT_ANON),
		HOSTTEXT_KEY("file", CGROUPTEXT_FILE),
		HOSTTEXT_KEY("shmem", CGROUPTEXT_SHMEM),
		HOSTTEXT_KEY("inactive_file", CGROUPTEXT_INACTIVE_FILE),
		HOSTTEXT_KEY("kernel_stack", CGROUPTEXT_KERNEL),
		HOSTTEXT_KEY("pagetables", CGROUPTEXT_KERNEL),
		HOSTTEXT_KEY("slab_unreclaimable", CGROUPTEXT_KERNEL),
	};
	static const struct hosttext_key v1[] = {
		HOSTTEXT_KEY("total_rss", CGROUPTEXT_ANON),
		HOSTTEXT_KEY("total_cache", CGROUPTEXT_FILE),
		HOSTTEXT_KEY("total_shmem", CGROUPTEXT_SHMEM),
		HOSTTEXT_KEY("total_inactive_file", CGROUPTEXT_INACTIVE_FILE),
		HOSTTEXT_KEY("total_swap", CGROUPTEXT_SWAP),
	};
	struct cgrouptext_stat s = {0};

	s.has = hosttext_pairs(text, text + len, version == 2 ? v2 : v1,
			       version == 2 ? ARRAY_LEN(v2) : ARRAY_LEN(v1), s.value,
			       CGROUPTEXT_MEMORY_FIELDS);
	if (!s.has)
		return -EBADMSG;
	*ret = s;
	return 0;
}

void cgrouptext_memory_events(const char *text, size_t len, struct cgrouptext_events *ret)
{
	static const struct hosttext_key keys[] = {
		HOSTTEXT_KEY("low", CGROUPTEXT_LOW),
		HOSTTEXT_KEY("high", CGROUPTEXT_HIGH),
		HOSTTEXT_KEY("max", CGROUPTEXT_MAX),
		HOSTTEXT_KEY("oom", CGROUPTEXT_OOM),
		HOSTTEXT_KEY("oom_kill", CGROUPTEXT_OOM_KILL),
	};
	struct cgrouptext_events e = {0};

	e.has = hosttext_pairs(text, text + len, keys, ARRAY_LEN(keys), e.value, CGROUPTEXT_EVENTS);
	*ret = e;
}

int cgrouptext_cpu_stat(const char *text, size_t len, struct cgrouptext_cpu_stat *ret)
{
	enum {
		USAGE_US = CGROUPTEXT_CPU_FIELDS,
		THROTTLED_US,
		SLOTS
	};
	static const struct hosttext_key keys[] = {
		HOSTTEXT_KEY("usage_usec", USAGE_US),
		HOSTTEXT_KEY("nr_periods", CGROUPTEXT_PERIODS),
		HOSTTEXT_KEY("nr_throttled", CGROUPTEXT_THROTTLED),
		HOSTTEXT_KEY("throttled_usec", THROTTLED_US),
		HOSTTEXT_KEY("throttled_time", CGROUPTEXT_THROTTLED_NS),
	};
	struct cgrouptext_cpu_stat s = {0};
	uint64_t value[SLOTS];
	static const int us[][2] = {{USAGE_US, CGROUPTEXT_USAGE_NS},
				    {THROTTLED_US, CGROUPTEXT_THROTTLED_NS}};
	size_t i;

	s.has = hosttext_pairs(text, text + len, keys, ARRAY_LEN(keys), value, SLOTS);
	for (i = 0; i < ARRAY_LEN(us); i++) {
		if (!(s.has >> us[i][0] & 1))
			continue;
		if (__builtin_mul_overflow(value[us[i][0]], 1000, &value[us[i][1]]))
			return -EBADMSG;
		s.has |= 1u << us[i][1];
	}
	s.has &= (1u << CGROUPTEXT_CPU_FIELDS) - 1;
	if (!s.has)
		return -EBADMSG;
	memcpy(s.value, value, sizeof(s.value));
	*ret = s;
	return 0;
}

/* The number behind the word in a line, added to *sum. */
static int cgrouptext_add(const char *line, const char *eol, const char *word, uint64_t *sum)
{
	const char *p = memmem(line, (size_t)(eol - line), word, strlen(word));
	uint64_t v;

	if (!p)
		return 0;
	p += strlen(word);
	if (proc_number(&p, eol, &v) || (p < eol && *p != ' ') ||
	    __builtin_add_overflow(*sum, v, sum))
		return -EBADMSG;
	return 0;
}

int cgrouptext_io(const char *text, size_t len, uint64_t *ret_read, uint64_t *ret_written)
{
	const char *next = text, *end = text + len, *line, *eol;
	uint64_t read = 0, written = 0;

	while ((line = proc_line(&next, end, &eol)))
		if (cgrouptext_add(line, eol, " rbytes=", &read) ||
		    cgrouptext_add(line, eol, " wbytes=", &written) ||
		    cgrouptext_add(line, eol, " Read ", &read) ||
		    cgrouptext_add(line, eol, " Write ", &written))
			return -EBADMSG;
	*ret_read = read;
	*ret_written = written;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_proc.c - the parsers of /proc, cgroup and kernel log texts on any bytes.
 * The first byte, '0' to '4', picks the parser; the rest is the text.
 */
#include "probe/linux/proc.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/linux/kmsg.h"
#include "probe/linux/mounts.h"

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
		fuzz_require(s.pid >= 0 && s.ppid >= 0 && memrchr(text, ')', len));
}

static void fuzz_statm(const char *text, size_t len)
{
	struct proc_statm m;

	if (proc_parse_statm(text, len, &m) == 0)
		fuzz_require(len >= 5);
}

static void fuzz_cgroup(const char *text, size_t len)
{
	char path[64];
	bool v2;

	if (mounts_cgroup(text, len, &v2, path, sizeof(path)) == 0)
		fuzz_require(path[0] == '/' && strlen(path) < sizeof(path));
}

static void fuzz_mountinfo(const char *text, size_t len)
{
	char dir[128];
	size_t top;
	int v2;

	for (v2 = 0; v2 < 2; v2++)
		if (mounts_find(text, len, v2, "/a/b", dir, sizeof(dir), &top) == 0)
			fuzz_require(strlen(dir) < sizeof(dir) && top <= strlen(dir));
}

static void fuzz_kmsg(const char *text, size_t len)
{
	const char *message = kmsg_match(text, text + len, 4242, 1000);

	if (message)
		fuzz_require(message > text && message < text + len &&
			     memmem(message, (size_t)(text + len - message), "4242", 4));
}

static void (*const fuzz_parsers[])(const char *text, size_t len) = {
	fuzz_stat, fuzz_statm, fuzz_cgroup, fuzz_mountinfo, fuzz_kmsg,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t which;
	char *copy;

	if (size == 0 || data[0] < '0' || data[0] - '0' >= (int)ARRAY_LEN(fuzz_parsers))
		return 0;
	which = data[0] - '0';
	/* A copy of the exact size: reading one byte past it is then seen. */
	copy = malloc(size > 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	fuzz_parsers[which](copy, size - 1);
	free(copy);
	return 0;
}

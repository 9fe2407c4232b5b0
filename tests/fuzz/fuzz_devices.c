/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_devices.c - texts about disks, interfaces, mounts and the kernel's log, on any
 * bytes. The first byte, '0' to '4', picks the parser; the rest is the text.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "probe/linux/disk.h"
#include "probe/linux/filesystem.h"
#include "probe/linux/kmsg.h"
#include "probe/linux/network.h"
#include "probe/linux/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_require(bool ok)
{
	if (!ok)
		abort();
}

static void fuzz_disk(const char *text, size_t len)
{
	const char *next = text, *end = text + len, *line, *eol;
	struct disk_line d;
	char name[64];

	while ((line = proc_line(&next, end, &eol))) {
		if (disk_parse(line, eol, &d) < 0)
			continue;
		fuzz_require(d.len > 0 && d.name > line && d.name + d.len < eol);
		if (d.len >= sizeof(name) || memchr(d.name, '\0', d.len))
			continue;
		memcpy(name, d.name, d.len);
		name[d.len] = '\0';
		disk_is_partition_name(name);
	}
}

static void fuzz_network(const char *text, size_t len)
{
	const char *next = text, *end = text + len, *line, *eol;
	struct network_line n;

	while ((line = proc_line(&next, end, &eol)))
		if (network_parse(line, eol, &n) == 0)
			fuzz_require(n.len > 0 && n.name >= line && n.name[n.len] == ':');
}

static void fuzz_tcp(const char *text, size_t len)
{
	uint64_t sent, again;

	if (network_parse_tcp(text, len, &sent, &again) == 0)
		fuzz_require(memmem(text, len, "RetransSegs", 11) &&
			     memmem(text, len, "OutSegs", 7));
}

static void fuzz_mounts(const char *text, size_t len)
{
	static struct filesystem_mount m[FILESYSTEM_MAX];
	size_t n = filesystem_list(text, len, "/data/runs", m), i, k;
	bool remote = false;

	fuzz_require(n <= FILESYSTEM_MAX);
	for (i = 0; i < n; i++) {
		fuzz_require(m[i].point[0] == '/' && m[i].source[0]);
		fuzz_require(m[i].remote || !remote);
		remote = m[i].remote;
		for (k = 0; k < i; k++)
			fuzz_require(strcmp(m[i].point, m[k].point) != 0 &&
				     strcmp(m[i].device, m[k].device) != 0);
	}
}

static void fuzz_kmsg(const char *text, size_t len)
{
	const char *next = text, *end = text + len, *line, *eol;
	struct kmsg_record r;
	struct kmsg_news n;
	size_t i;

	while ((line = proc_line(&next, end, &eol))) {
		if (kmsg_parse(line, eol, &r) < 0)
			continue;
		fuzz_require(r.text > line && r.text <= r.end && r.end == eol);
		if (kmsg_classify(&r, &n) < 0)
			continue;
		fuzz_require(r.facility == 0 && n.kind && n.severity >= 1 && n.severity <= 3);
		fuzz_require(n.detail >= r.text && n.detail <= n.end && n.end == r.end);
		fuzz_require(n.xid >= -1 && n.pid >= -1);
		for (i = 0; n.name[i];) {
			size_t k =
				utf8_valid((const unsigned char *)n.name + i, strlen(n.name + i));

			fuzz_require(k > 0);
			i += k;
		}
	}
}

static void (*const fuzz_parsers[])(const char *text, size_t len) = {
	fuzz_disk, fuzz_network, fuzz_tcp, fuzz_mounts, fuzz_kmsg,
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_repair.c - broken JSON: what repair_value() says is mended is JSON to the letter and
 * stays as it is when mended again; what is JSON already is never refused. As a file: each
 * event is JSON to the letter, and going over its members reads nothing behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/member.h"
#include "trace/repair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text ends where its memory does, so that a sanitizer sees a byte too many. */
static void walk(const char *text, size_t len)
{
	struct member_part key, value;
	char *copy = malloc(len);
	const char *at = copy;
	int64_t n;

	if (!copy)
		return;
	memcpy(copy, text, len);
	while (member_next(&at, &key, &value)) {
		if (value.p + value.len > copy + len)
			abort();
		member_number(&value, 3, &n);
		if (*value.p == '{')
			walk(value.p, value.len);
	}
	if (at >= copy + len)
		abort();
	free(copy);
}

static bool event(void *arg, const void *text, size_t len)
{
	(void)arg;
	if (text && !repair_is_json(text, len))
		abort();
	if (text)
		walk(text, len);
	return true;
}

static void as_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz_repair", MFD_CLOEXEC);
	struct err e = {0};
	char path[32];

	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, data, size) == (ssize_t)size)
		repair_each(path, event, NULL, &e);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct repair_result r = {0};
	struct buf out, again;
	unsigned char *copy = malloc(size + 1);
	bool is_json;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	buf_init(&out, 1u << 24);
	buf_init(&again, 1u << 24);
	is_json = repair_is_json(copy, size);
	if (repair_value(copy, size, 0, &out, &r)) {
		if (!repair_is_json(out.data, out.len))
			abort();
		if (!repair_value(out.data, out.len, 0, &again, &r) || again.len != out.len ||
		    memcmp(again.data, out.data, out.len))
			abort();
	} else if (is_json) {
		abort();
	}
	buf_done(&out);
	buf_done(&again);
	free(copy);
	as_file(data, size);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tar.c - the reader of archives: whatever comes, in whatever pieces, it gives
 * harmless names only, as many bytes of a file as it announced, and the same for
 * other pieces.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t left, hash;
	int open;
};

static void see(struct seen *s, const void *data, size_t len)
{
	const unsigned char *p = data;

	while (len--)
		s->hash = (s->hash ^ *p++) * 0x100000001b3u;
}

static int begin(void *arg, const struct tar_entry *entry, char why[256])
{
	struct seen *s = arg;

	(void)why;
	if (s->open || tar_name_is_bad(entry->name) || (entry->is_dir && entry->size))
		abort();
	s->open = !entry->is_dir;
	s->left = entry->size;
	see(s, entry->name, strlen(entry->name) + 1);
	return 0;
}

static int take(void *arg, const void *data, size_t len, char why[256])
{
	struct seen *s = arg;

	(void)why;
	if (!s->open || len > s->left || len == 0)
		abort();
	s->left -= len;
	see(s, data, len);
	return 0;
}

static int end(void *arg, char why[256])
{
	struct seen *s = arg;

	(void)why;
	if (!s->open || s->left)
		abort();
	s->open = 0;
	return 0;
}

static uint64_t run(const uint8_t *data, size_t size, size_t piece, int *ret)
{
	struct seen s = {.hash = 0xcbf29ce484222325};
	const struct tar_taker taker = {begin, take, end, &s};
	struct tar_reader *r = malloc(sizeof(*r));
	size_t at, n;
	char *copy;

	*ret = 0;
	if (!r)
		return 0;
	tar_reader_init(r, &taker);
	for (at = 0; at < size && *ret == 0; at += n) {
		n = size - at < piece ? size - at : piece;
		copy = malloc(n);
		if (!copy)
			break;
		memcpy(copy, data + at, n);
		*ret = tar_reader_feed(r, copy, n);
		free(copy);
	}
	if (*ret == 0)
		*ret = tar_reader_end(r);
	if (*ret && r->why[0] == '\0')
		abort();
	tar_reader_done(r);
	free(r);
	return s.hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int a, b;
	uint64_t whole = run(data, size, size ? size : 1, &a), parts = run(data, size, 97, &b);

	if (a != b || whole != parts)
		abort();
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tar.c - see tar.h.
 */
#include "cli/tar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAR_EXTENDED_MAX (64u << 10) /* bytes of a pax header or a long name */

/* Fields of a header: where, and how long. */
enum {
	TAR_NAME = 0,
	TAR_NAME_LEN = 100,
	TAR_MODE = 100,
	TAR_SIZE = 124,
	TAR_SIZE_LEN = 12,
	TAR_MTIME = 136,
	TAR_SUM = 148,
	TAR_SUM_LEN = 8,
	TAR_TYPE = 156,
	TAR_MAGIC = 257,
	TAR_PREFIX = 345,
	TAR_PREFIX_LEN = 155
};

static unsigned tar_sum(const unsigned char block[TAR_BLOCK])
{
	unsigned sum = 0, i;

	for (i = 0; i < TAR_BLOCK; i++)
		sum += i >= TAR_SUM && i < TAR_SUM + TAR_SUM_LEN ? ' ' : block[i];
	return sum;
}

/* ---- writing ------------------------------------------------------------------------ */

size_t tar_padding(uint64_t size)
{
	return (size_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

static void tar_put_block(struct buf *b, const char *name, char type, uint64_t size, int64_t mtime)
{
	unsigned char block[TAR_BLOCK] = {0};
	char *p = (char *)block;

	memcpy(p + TAR_NAME, name, strnlen(name, TAR_NAME_LEN));
	snprintf(p + TAR_MODE, 8, "%07o", 0600);
	snprintf(p + TAR_MODE + 8, 8, "%07o", 0);
	snprintf(p + TAR_MODE + 16, 8, "%07o", 0);
	snprintf(p + TAR_SIZE, TAR_SIZE_LEN, "%011llo",
		 (unsigned long long)(size <= 077777777777 ? size : 0));
	snprintf(p + TAR_MTIME, 12, "%011llo",
		 (unsigned long long)(mtime < 0 ? 0 : mtime & 077777777777));
	p[TAR_TYPE] = type;
	memcpy(p + TAR_MAGIC, "ustar\00000", 8);
	snprintf(p + TAR_SUM, TAR_SUM_LEN, "%06o", tar_sum(block));
	p[TAR_SUM + 7] = ' ';
	buf_append(b, block, sizeof(block));
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
static void tar_put_record(struct buf *b, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, len = rest;
	char digits[24];
	size_t n;

	do {
		n = (size_t)snprintf(digits, sizeof(digits), "%zu", len);
		len = n + rest;
	} while ((size_t)snprintf(digits, sizeof(digits), "%zu", len) != n);
	buf_printf(b, "%zu %s=%s\n", len, key, value);
}

void tar_put_header(struct buf *b, const char *name, uint64_t size, int64_t mtime)
{
	static const char zeros[TAR_BLOCK];
	struct buf extended;
	char text[24];

	buf_init(&extended, TAR_EXTENDED_MAX);
	if (strlen(name) > TAR_NAME_LEN)
		tar_put_record(&extended, "path", name);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
	if (size > 077777777777)
		tar_put_record(&extended, "size", text);
	if (extended.len) {
		tar_put_block(b, "pax-header", 'x', extended.len, mtime);
		buf_append(b, extended.data, extended.len);
		buf_append(b, zeros, tar_padding(extended.len));
	}
	tar_put_block(b, name, '0', size, mtime);
	buf_done(&extended);
}

/* ---- names ---------------------------------------------------------------------------- */

static const char *tar_part_is_bad(const char *part, size_t n)
{
	if (n == 0 || (n == 1 && *part == '.'))
		return "a part of it is empty or \".\"";
	if (n == 2 && part[0] == '.' && part[1] == '.')
		return "it leads out of its folder (..)";
	return n > 255 ? "a part of it is too long" : NULL;
}

const char *tar_name_is_bad(const char *name)
{
	const char *part = name, *p, *bad;
	unsigned depth;
	size_t n;

	if (*name == '\0')
		return "it is empty";
	if (*name == '/')
		return "it is an absolute path";
	if (strlen(name) > TAR_NAME_MAX)
		return "it is too long";
	for (p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\')
			return "it has control characters or backslashes";
	for (depth = 0; depth < TAR_DEPTH_MAX; depth++, part += n + 1) {
		n = strcspn(part, "/");
		bad = tar_part_is_bad(part, n);
		if (bad || part[n] == '\0')
			return bad;
	}
	return "it is too deep";
}

/* ---- reading ---------------------------------------------------------------------------- */

void tar_reader_init(struct tar_reader *r, const struct tar_taker *taker)
{
	*r = (struct tar_reader){.taker = taker};
	buf_init(&r->extended, TAR_EXTENDED_MAX);
}

void tar_reader_done(struct tar_reader *r)
{
	buf_done(&r->extended);
}

static int tar_bad(struct tar_reader *r, int code, const char *what)
{
	snprintf(r->why, sizeof(r->why), "%s", what);
	return code;
}

static int tar_refuse(struct tar_reader *r, const char *name, const char *what)
{
	char clean[121];
	size_t i;

	snprintf(clean, sizeof(clean), "%s", name);
	for (i = 0; clean[i]; i++)
		if ((unsigned char)clean[i] < 0x20 || (unsigned char)clean[i] >= 0x7f)
			clean[i] = '?';
	snprintf(r->why, sizeof(r->why), "\"%s\": %s", clean, what);
	return -EPERM;
}

/* Octal digits, or base 256 as GNU tar writes large ones. */
static bool tar_number(const unsigned char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if (*p & 0x80) {
		for (v = *p & 0x7f, i = 1; i < n; i++) {
			if (v >> 56)
				return false;
			v = v << 8 | p[i];
		}
		*ret = v;
		return true;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
		if (v >> 60)
			return false;
		v = v << 3 | (uint64_t)(p[i] - '0');
	}
	for (; i < n; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return false;
	*ret = v;
	return true;
}

/* Prefix and name, or the longer name that came before. */
static void tar_take_name(struct tar_reader *r, char out[TAR_NAME_MAX + 1])
{
	const char *p = (const char *)r->block;
	size_t prefix = memcmp(p + TAR_MAGIC, "ustar\0", 6) == 0
				? strnlen(p + TAR_PREFIX, TAR_PREFIX_LEN)
				: 0;
	const char *name;
	char text[TAR_NAME_MAX + 1];
	size_t n;

	if (r->name[0])
		snprintf(text, sizeof(text), "%s", r->name);
	else if (prefix)
		snprintf(text, sizeof(text), "%.*s/%.*s", (int)prefix, p + TAR_PREFIX,
			 (int)TAR_NAME_LEN, p + TAR_NAME);
	else
		snprintf(text, sizeof(text), "%.*s", (int)TAR_NAME_LEN, p + TAR_NAME);
	r->name[0] = '\0';
	name = text;
	while (name[0] == '.' && name[1] == '/')
		name += 2;
	n = strlen(name);
	while (n > 1 && name[n - 1] == '/')
		n--;
	memcpy(out, name, n);
	out[n] = '\0';
}

static int tar_begin_file(struct tar_reader *r, char type, uint64_t size)
{
	struct tar_entry *entry = &r->entry;
	const char *bad;
	int err;

	tar_take_name(r, entry->name);
	entry->is_dir = type == '5';
	entry->size = entry->is_dir ? 0 : r->has_size ? r->size : size;
	r->has_size = false;
	if (strcmp(entry->name, ".") == 0 && entry->is_dir)
		return 0;
	bad = tar_name_is_bad(entry->name);
	if (bad)
		return tar_refuse(r, entry->name, bad);
	if (++r->files > TAR_FILES_MAX)
		return tar_refuse(r, entry->name, "more than 100000 files");
	r->left = entry->size;
	r->skip = tar_padding(entry->size);
	err = r->taker->begin(r->taker->arg, entry, r->why);
	if (!err && !entry->is_dir && entry->size == 0)
		err = r->taker->end(r->taker->arg, r->why);
	return err;
}

/* A header is whole. 1: the end of the archive. */
static int tar_header(struct tar_reader *r)
{
	static const unsigned char zeros[TAR_BLOCK];
	char type = (char)r->block[TAR_TYPE];
	uint64_t size, sum;
	char name[TAR_NAME_LEN + 1];

	if (memcmp(r->block, zeros, TAR_BLOCK) == 0)
		return ++r->zeros == 2;
	r->zeros = 0;
	if (!tar_number(r->block + TAR_SUM, TAR_SUM_LEN, &sum) || sum != tar_sum(r->block) ||
	    !tar_number(r->block + TAR_SIZE, TAR_SIZE_LEN, &size))
		return tar_bad(r, -EBADMSG, "no tar archive, or damaged");
	snprintf(name, sizeof(name), "%.*s", (int)TAR_NAME_LEN, (const char *)r->block);
	r->type = 0;
	if (type == '0' || type == '\0' || type == '5')
		return tar_begin_file(r, type, size);
	if (type == 'g' || type == 'x' || type == 'L') {
		if (size > TAR_EXTENDED_MAX)
			return tar_refuse(r, name, "a header of more than 64 KiB");
		r->type = type;
		r->left = size;
		r->skip = tar_padding(size);
		buf_reset(&r->extended);
		return 0;
	}
	if (type == '1' || type == '2')
		return tar_refuse(r, name, "it is a link; only files and folders are taken");
	return tar_refuse(r, name, "it is neither a file nor a folder");
}

/* What a pax header says of the next file; false: nonsense. */
static bool tar_keyword(struct tar_reader *r, const char *key, size_t key_len, const char *value,
			size_t len)
{
	uint64_t v = 0;
	size_t i;

	if (key_len == 4 && memcmp(key, "path", 4) == 0) {
		if (len > TAR_NAME_MAX || memchr(value, '\0', len))
			return false;
		snprintf(r->name, sizeof(r->name), "%.*s", (int)len, value);
	} else if (key_len == 4 && memcmp(key, "size", 4) == 0) {
		for (i = 0; i < len; i++) {
			if (value[i] < '0' || value[i] > '9' || v > UINT64_MAX / 16)
				return false;
			v = v * 10 + (uint64_t)(value[i] - '0');
		}
		r->size = v;
		r->has_size = true;
	}
	return true;
}

/* One record of a pax header, "LENGTH KEY=VALUE\n", at *p; false: it is damaged. */
static bool tar_record(struct tar_reader *r, const char **p, const char *end)
{
	const char *key = *p, *eq, *line_end;
	uint64_t len = 0;

	while (key < end && *key >= '0' && *key <= '9' && len < TAR_EXTENDED_MAX)
		len = len * 10 + (uint64_t)(*key++ - '0');
	if (key == end || *key++ != ' ' || len > (uint64_t)(end - *p) || *p + len <= key)
		return false;
	*p += len;
	line_end = *p - 1;
	eq = memchr(key, '=', (size_t)(line_end - key));
	return *line_end == '\n' && eq &&
	       tar_keyword(r, key, (size_t)(eq - key), eq + 1, (size_t)(line_end - eq - 1));
}

static int tar_extended(struct tar_reader *r)
{
	const char *p = buf_str(&r->extended), *end = p + r->extended.len;

	if (r->extended.error)
		return tar_bad(r, -ENOMEM, "no memory");
	if (r->type == 'L') {
		if (strnlen(p, r->extended.len) > TAR_NAME_MAX)
			return tar_refuse(r, p, "its name is too long");
		snprintf(r->name, sizeof(r->name), "%s", p);
		return 0;
	}
	while (r->type == 'x' && p < end)
		if (!tar_record(r, &p, end))
			return tar_bad(r, -EBADMSG, "a pax header is damaged");
	return 0;
}

/* Bytes of what the header announced; *ret_n of them were taken. */
static int tar_content(struct tar_reader *r, const unsigned char *data, size_t len, size_t *ret_n)
{
	size_t n = r->left < len ? (size_t)r->left : len;
	int err = 0;

	if (r->left) {
		if (r->type)
			buf_append(&r->extended, data, n);
		else
			err = r->taker->data(r->taker->arg, data, n, r->why);
		r->left -= n;
		if (!err && r->left == 0)
			err = r->type ? tar_extended(r) : r->taker->end(r->taker->arg, r->why);
	} else {
		n = r->skip < len ? (size_t)r->skip : len;
		r->skip -= n;
	}
	*ret_n = n;
	return err;
}

int tar_reader_feed(struct tar_reader *r, const void *data, size_t len)
{
	const unsigned char *p = data, *end = p + len;
	size_t n;
	int err = 0;

	while (p < end && err == 0 && r->zeros < 2) {
		if (r->left || r->skip) {
			err = tar_content(r, p, (size_t)(end - p), &n);
			p += n;
			continue;
		}
		n = TAR_BLOCK - r->have;
		n = n < (size_t)(end - p) ? n : (size_t)(end - p);
		memcpy(r->block + r->have, p, n);
		r->have += n;
		p += n;
		if (r->have < TAR_BLOCK)
			break;
		r->have = 0;
		err = tar_header(r);
	}
	return err < 0 ? err : 0;
}

int tar_reader_end(struct tar_reader *r)
{
	if (r->left || r->skip || r->have || r->zeros == 0 || r->type)
		return tar_bad(r, -EBADMSG, "it is cut short");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * outstate.c - the state file of an exporter as bytes: "LAPSEXP1", the body,
 * CRC-32C of all before it. Strings are length and bytes.
 */
#include "export/exporter.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/codec.h"

static const char outstate_magic[8] = "LAPSEXP1";

#define OUTSTATE_NAME_MAX 4096u
#define OUTSTATE_BYTES_MAX (1u << 30)

void outstate_init(struct outstate *s)
{
	*s = (struct outstate){0};
	buf_init(&s->cursor, OUTSTATE_BYTES_MAX);
	buf_init(&s->own, OUTSTATE_BYTES_MAX);
}

void outstate_done(struct outstate *s)
{
	size_t i;

	for (i = 0; i < s->n_files; i++) {
		free(s->files[i].name);
		buf_done(&s->files[i].pending);
	}
	free(s->files);
	free(s->run);
	free(s->format);
	buf_done(&s->cursor);
	buf_done(&s->own);
	*s = (struct outstate){0};
}

struct outstate_file *outstate_add(struct outstate *s, const char *name)
{
	struct outstate_file *f;

	s->files = xgrow(s->files, s->n_files, &s->cap_files, sizeof(*s->files));
	f = &s->files[s->n_files++];
	*f = (struct outstate_file){.name = xstrdup(name)};
	buf_init(&f->pending, EXPORTER_OUT_MAX);
	return f;
}

static void outstate_put(struct buf *b, const void *data, size_t len)
{
	buf_uvarint(b, len);
	buf_append(b, data, len);
}

void outstate_encode(const struct outstate *s, struct buf *b)
{
	size_t start = b->len, i;
	uint32_t crc;

	buf_append(b, outstate_magic, sizeof(outstate_magic));
	outstate_put(b, s->run, strlen(s->run));
	outstate_put(b, s->format, strlen(s->format));
	outstate_put(b, buf_str(&s->cursor), s->cursor.len);
	buf_uvarint(b, s->n_files);
	for (i = 0; i < s->n_files; i++) {
		outstate_put(b, s->files[i].name, strlen(s->files[i].name));
		buf_uvarint(b, s->files[i].size);
		outstate_put(b, buf_str(&s->files[i].pending), s->files[i].pending.len);
	}
	outstate_put(b, buf_str(&s->own), s->own.len);
	if (b->error)
		return;
	crc = htole32(crc32c(0, b->data + start, b->len - start));
	buf_append(b, &crc, sizeof(crc));
}

/* Bytes of a string, or NULL and c->error set. */
static const void *outstate_get(struct cur *c, size_t max, size_t *ret_len)
{
	uint64_t len = cur_uvarint(c);

	if (len > max)
		c->error = -EBADMSG;
	*ret_len = c->error ? 0 : (size_t)len;
	return c->error ? NULL : cur_bytes(c, (size_t)len);
}

static char *outstate_get_str(struct cur *c)
{
	size_t len;
	const char *p = outstate_get(c, OUTSTATE_NAME_MAX, &len);

	if (p && memchr(p, '\0', len))
		c->error = -EBADMSG;
	return p && !c->error ? xstrndup(p, len) : xstrdup("");
}

static void outstate_get_buf(struct cur *c, size_t max, struct buf *b)
{
	size_t len;
	const void *p = outstate_get(c, max, &len);

	if (p)
		buf_append(b, p, len);
}

/* A path that stays in the folder: no "..", not absolute. */
static bool outstate_is_inside(const char *name)
{
	const char *p = name;

	if (name[0] == '/')
		return false;
	while (*p) {
		if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == '\0'))
			return false;
		p = strchrnul(p, '/');
		p += *p == '/';
	}
	return true;
}

static void outstate_get_file(struct outstate *s, struct cur *c)
{
	char *name = outstate_get_str(c);
	struct outstate_file *f;

	if (!outstate_is_inside(name))
		c->error = -EBADMSG;
	f = outstate_add(s, name);
	free(name);
	f->size = cur_uvarint(c);
	if (f->size > INT64_MAX / 2)
		c->error = -EBADMSG;
	outstate_get_buf(c, EXPORTER_OUT_MAX, &f->pending);
}

int outstate_decode(struct outstate *s, const void *data, size_t len)
{
	struct cur c = {.p = data};
	uint64_t n, i;
	uint32_t crc;

	if (len < sizeof(outstate_magic) + sizeof(crc) ||
	    memcmp(data, outstate_magic, sizeof(outstate_magic)) != 0)
		return -EUCLEAN;
	c.end = c.p + len - sizeof(crc);
	memcpy(&crc, c.end, sizeof(crc));
	if (le32toh(crc) != crc32c(0, data, len - sizeof(crc)))
		return -EUCLEAN;
	c.p += sizeof(outstate_magic);
	s->run = outstate_get_str(&c);
	s->format = outstate_get_str(&c);
	outstate_get_buf(&c, OUTSTATE_BYTES_MAX, &s->cursor);
	n = cur_uvarint(&c);
	if (n > EXPORTER_FILES_MAX)
		c.error = -EBADMSG;
	for (i = 0; i < n && !c.error; i++)
		outstate_get_file(s, &c);
	outstate_get_buf(&c, OUTSTATE_BYTES_MAX, &s->own);
	if (!c.error && c.p == c.end)
		return 0;
	outstate_done(s);
	outstate_init(s);
	return -EUCLEAN;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * blob.c - the envelope of a blob: 16 bytes of header, a checksum that also
 * covers the row's key, the body as it is or compressed by zstd.
 */
#include "store/codec.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define BLOB_F_ZSTD 1u
#define BLOB_TRY_BYTES 1024u /* smaller bodies are not worth compressing */
#define BLOB_LEVEL 1
#define BLOB_TRIM_BYTES (256u << 10) /* larger buffers are given back */
#define BLOB_BACKOFF_MAX 16u

/* Little endian, as stored. */
struct blob_header {
	uint8_t format;
	uint8_t flags;
	uint16_t zero;
	uint32_t crc;
	uint32_t body_len;
	uint32_t count;
};
_Static_assert(sizeof(struct blob_header) == BLOB_HEADER, "layout");

int blob_bad(const struct blob_id *id, struct err *e, size_t offset, const char *what)
{
	/* What decoders say: it is not the blob that is bad, nor is the file set aside. */
	if (strcmp(what, BLOB_NO_MEMORY) == 0)
		return err_set(e, -ENOMEM, "%s: table %s, %llu %llu: %s", id->path, id->table,
			       (unsigned long long)id->a, (unsigned long long)id->b, what);
	if (strcmp(id->table, "chunk") != 0)
		return err_set(e, -EUCLEAN, "%s: table %s, %s %llu, byte %zu: %s", id->path,
			       id->table, strcmp(id->table, "tail") == 0 ? "seq" : "id",
			       (unsigned long long)id->a, offset, what);
	return err_set(e, -EUCLEAN, "%s: table %s, series %llu, ordinal %llu, byte %zu: %s",
		       id->path, id->table, (unsigned long long)id->a, (unsigned long long)id->b,
		       offset, what);
}

void blob_codec_init(struct blob_codec *c)
{
	*c = (struct blob_codec){0};
	buf_init(&c->out, BLOB_HEADER + BLOB_BODY_MAX + (BLOB_BODY_MAX >> 7));
	buf_init(&c->body, BLOB_BODY_MAX);
}

void blob_codec_done(struct blob_codec *c)
{
	ZSTD_freeCCtx(c->cctx);
	ZSTD_freeDCtx(c->dctx);
	buf_done(&c->out);
	buf_done(&c->body);
	c->cctx = c->dctx = NULL;
}

static uint32_t blob_crc(const struct blob_id *id, const struct blob_header *h, const void *payload,
			 size_t len)
{
	struct blob_header zeroed = *h;
	uint64_t key[2] = {htole64(id->a), htole64(id->b)};
	uint32_t crc;

	zeroed.crc = 0;
	crc = crc32c(0, &zeroed, sizeof(zeroed));
	crc = crc32c(crc, key, sizeof(key));
	return crc32c(crc, payload, len);
}

/* Compress behind the header's place; true if it pays. After failures it is
 * tried less often: 1 of 2, 1 of 3, ... 1 of 17 blobs. */
static bool blob_compress(struct blob_codec *c, const struct buf *body)
{
	size_t cap = ZSTD_compressBound(body->len), n;
	char *to;

	if (body->len < BLOB_TRY_BYTES)
		return false;
	if (c->skip) {
		c->skip--;
		return false;
	}
	if (!c->cctx)
		c->cctx = ZSTD_createCCtx();
	to = buf_reserve(&c->out, cap);
	if (!c->cctx || !to)
		return false;
	n = ZSTD_compressCCtx(c->cctx, to, cap, body->data, body->len, BLOB_LEVEL);
	if (ZSTD_isError(n) || n > body->len - body->len / 8) {
		if (c->backoff < BLOB_BACKOFF_MAX)
			c->backoff++;
		c->skip = c->backoff;
		return false;
	}
	c->backoff = 0;
	c->out.len += n;
	return true;
}

struct buf *blob_begin(struct blob_codec *c)
{
	static const struct blob_header empty;

	buf_reset(&c->out);
	buf_append(&c->out, &empty, sizeof(empty));
	return &c->out;
}

/* The header over what lies behind its place in c->out. */
static int blob_head(struct blob_codec *c, const struct blob_id *id, struct blob_header *h,
		     uint32_t count, size_t body_len)
{
	if (c->out.error)
		return c->out.error;
	h->body_len = htole32((uint32_t)body_len);
	h->count = htole32(count);
	h->crc = htole32(blob_crc(id, h, c->out.data + sizeof(*h), c->out.len - sizeof(*h)));
	memcpy(c->out.data, h, sizeof(*h));
	return 0;
}

int blob_end(struct blob_codec *c, const struct blob_id *id, enum blob_format format,
	     uint32_t count)
{
	struct blob_header h = {.format = (uint8_t)format};

	return blob_head(c, id, &h, count, c->out.len - sizeof(h));
}

int blob_seal(struct blob_codec *c, const struct blob_id *id, enum blob_format format,
	      uint32_t count, const struct buf *body)
{
	struct blob_header h = {.format = (uint8_t)format};

	if (body->error)
		return body->error;
	blob_begin(c);
	if ((format == BLOB_TAIL || format == BLOB_HISTS) && blob_compress(c, body))
		h.flags |= BLOB_F_ZSTD;
	else if (body->len)
		buf_append(&c->out, body->data, body->len);
	return blob_head(c, id, &h, count, body->len);
}

void blob_trim(struct blob_codec *c)
{
	if (c->out.cap > BLOB_TRIM_BYTES)
		buf_done(&c->out);
	if (c->body.cap > BLOB_TRIM_BYTES)
		buf_done(&c->body);
}

static int blob_expand(struct blob_codec *c, const struct blob_id *id, const void *payload,
		       size_t len, size_t body_len, struct err *e)
{
	char *to;
	size_t n;

	if (!c->dctx)
		c->dctx = ZSTD_createDCtx();
	buf_reset(&c->body);
	to = buf_reserve(&c->body, body_len);
	if (!c->dctx || !to)
		return err_set(e, -ENOMEM, "%s: no memory for a blob of %zu bytes", id->path,
			       body_len);
	n = ZSTD_decompressDCtx(c->dctx, to, body_len, payload, len);
	if (ZSTD_isError(n) || n != body_len)
		return blob_bad(id, e, BLOB_HEADER, "does not decompress to the stated length");
	c->body.len = body_len;
	return 0;
}

int blob_open(struct blob_codec *c, const struct blob_id *id, const void *data, size_t len,
	      struct err *e, struct blob *ret)
{
	const unsigned char *payload = (const unsigned char *)data + BLOB_HEADER;
	struct blob_header h;
	size_t body_len;
	int r;

	if (len < BLOB_HEADER)
		return blob_bad(id, e, len, "cut short");
	memcpy(&h, data, sizeof(h));
	len -= BLOB_HEADER;
	if (le32toh(h.crc) != blob_crc(id, &h, payload, len))
		return blob_bad(id, e, 4, "wrong checksum");
	if (h.format < BLOB_TAIL || h.format > BLOB_AT_MOMENTS || (h.flags & ~BLOB_F_ZSTD))
		return err_set(e, -EPROTO,
			       "%s: a blob of table %s has format %u: use a newer lapse", id->path,
			       id->table, h.format);
	body_len = le32toh(h.body_len);
	if (body_len > BLOB_BODY_MAX)
		return blob_bad(id, e, 8, "body longer than allowed");
	*ret = (struct blob){h.format, le32toh(h.count), payload, body_len};
	if (h.flags & BLOB_F_ZSTD) {
		r = blob_expand(c, id, payload, len, body_len, e);
		if (r < 0)
			return r;
		ret->body = (const unsigned char *)c->body.data;
	} else if (len != body_len) {
		return blob_bad(id, e, 8, "length differs from the stated one");
	}
	return 0;
}

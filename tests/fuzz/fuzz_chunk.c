/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_chunk.c - chunk blobs from any bytes, the checksum made right; both
 * decoders, whatever the format says. Figures are computed over what comes out.
 */
#include "store/codec.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct blob_id fuzz_id = {"fuzz", "chunk", 1, 0};

static void fuzz_seal(uint8_t *blob, size_t size)
{
	static const uint8_t key[16] = {1};
	uint32_t crc;

	memset(blob + 4, 0, 4);
	crc = crc32c(0, blob, BLOB_HEADER);
	crc = crc32c(crc, key, sizeof(key));
	crc = crc32c(crc, blob + BLOB_HEADER, size - BLOB_HEADER);
	memcpy(blob + 4, &crc, 4);
}

static void fuzz_points(const struct blob *blob)
{
	struct err e = {0};
	struct points_view v;
	struct chunk c = {0};
	struct points p;

	points_init(&p);
	if (chunk_decode_points(&fuzz_id, blob, &e, &p) < 0) {
		if (!e.code || !e.text[0])
			abort();
	} else {
		v = points_slice(&p, 0, p.n);
		chunk_sum_points(&c, &v);
		if (p.n != blob->count || c.nan + c.observed != p.n)
			abort();
	}
	points_done(&p);
}

static void fuzz_hists(const struct blob *blob)
{
	struct err e = {0};
	struct chunk c = {0};
	struct hists h;
	struct buf b;

	hists_init(&h);
	if (chunk_decode_hists(&fuzz_id, blob, &e, &h) < 0) {
		if (!e.code || !e.text[0])
			abort();
	} else {
		chunk_sum_hists(&c, &h);
		buf_init(&b, BLOB_BODY_MAX);
		if (h.n != blob->count || chunk_encode_hists(&b, &h) < 0)
			abort();
		buf_done(&b);
	}
	hists_done(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct blob_codec codec;
	struct blob blob;
	uint8_t *copy;

	if (size < BLOB_HEADER)
		return 0;
	copy = malloc(size); /* exact: reading one byte past it is then seen */
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (copy[11] > 1) /* claims of more than 32 MiB only cost time here */
		copy[11] = 1;
	fuzz_seal(copy, size);
	blob_codec_init(&codec);
	if (blob_open(&codec, &fuzz_id, copy, size, NULL, &blob) == 0) {
		fuzz_points(&blob);
		fuzz_hists(&blob);
	}
	blob_codec_done(&codec);
	free(copy);
	return 0;
}

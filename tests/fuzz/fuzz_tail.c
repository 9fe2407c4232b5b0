/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tail.c - tail rows from any bytes: the checksum is made right, so that
 * envelope, compression and body are all reached. What is decoded must survive
 * being encoded and decoded again.
 */
#include "store/codec.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct blob_id fuzz_id = {"fuzz", "tail", 1, 0};

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

static void fuzz_again(const struct points *p)
{
	struct points_view v = points_slice(p, 0, p->n);
	struct points_base base = {v.time[0], 3};
	struct points_block block = {0};
	struct points again;
	struct buf b;
	struct cur c;

	points_init(&again);
	buf_init(&b, BLOB_BODY_MAX);
	points_encode(&b, &v, NULL, &base);
	c = (struct cur){.p = (uint8_t *)b.data, .end = (uint8_t *)b.data + b.len};
	if (b.error || points_parse(&c, v.n, &block) || c.p != c.end ||
	    points_decode(&block, &base, &again) || again.n != p->n ||
	    memcmp(again.time, p->time, p->n * 8) != 0 ||
	    memcmp(again.step, p->step, p->n * 8) != 0 ||
	    memcmp(again.thread, p->thread, p->n * 8) != 0 ||
	    memcmp(again.value, p->value, p->n * 8) != 0)
		abort();
	points_done(&again);
	buf_done(&b);
}

static void fuzz_walk(const struct blob *blob)
{
	struct err e = {0};
	struct sink_position pos;
	struct tail_block block;
	struct points p;
	struct hists h;
	struct tail_walk w;
	int r;

	points_init(&p);
	hists_init(&h);
	r = tail_begin(&w, &fuzz_id, blob, &e);
	while (r == 0 && (r = tail_position(&w, &pos)) > 0)
		r = 0;
	while (r == 0 && (r = tail_block(&w, &block)) > 0) {
		p.n = 0;
		hists_reset(&h);
		r = block.is_hist ? tail_hists(&w, &block, &h) : tail_points(&w, &block, &p);
		if (r == 0 && !block.is_hist)
			fuzz_again(&p);
	}
	if (r < 0 && (!e.code || !e.text[0]))
		abort();
	points_done(&p);
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
	if (blob_open(&codec, &fuzz_id, copy, size, NULL, &blob) == 0)
		fuzz_walk(&blob);
	blob_codec_done(&codec);
	free(copy);
	return 0;
}

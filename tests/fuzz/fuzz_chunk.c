/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_chunk.c - blobs of chunks, axes and summaries from any bytes, the checksum
 * made right; every decoder, whatever the format says. What comes out is
 * summed up, and survives being encoded and decoded again.
 */
#include "store/codec.h"
#include "store/summary.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct blob_id fuzz_id = {"fuzz", "chunk", 1, 0};
static struct column_codec columns;

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

/* Chunks of version 1. */
static void fuzz_points(const struct blob *b)
{
	struct points_view v;
	struct summary s;
	struct points p;

	points_init(&p);
	if (!points_get_body(b->body, b->len, b->count, &p)) {
		v = points_slice(&p, 0, p.n);
		summary_points(&s, &v, 0);
		if (p.n != b->count || s.n != p.n || s.nan + s.observed != p.n)
			abort();
	}
	points_done(&p);
}

static void fuzz_hists(const struct blob *b)
{
	struct hists h, again;
	struct summary s;
	struct buf body;

	hists_init(&h);
	hists_init(&again);
	buf_init(&body, BLOB_BODY_MAX);
	if (!hists_get_body(b->body, b->len, b->count, &h)) {
		summary_hists(&s, &h, 0, h.n, 0);
		hists_put_body(&body, &h, 0, h.n);
		if (h.n != b->count || body.error ||
		    hists_get_body((unsigned char *)body.data, body.len, h.n, &again) ||
		    again.n_bins != h.n_bins)
			abort();
	}
	buf_done(&body);
	hists_done(&h);
	hists_done(&again);
}

static void fuzz_axis(const struct blob *b)
{
	struct axis a, again;
	struct buf body;

	axis_init(&a);
	axis_init(&again);
	buf_init(&body, BLOB_BODY_MAX);
	if (!axis_decode(&columns, b->body, b->len, b->count, &a)) {
		if (a.n != b->count || axis_encode(&columns, &body, &a) < 0 ||
		    axis_decode(&columns, (unsigned char *)body.data, body.len, a.n, &again) ||
		    memcmp(a.time, again.time, a.n * 8) != 0 ||
		    memcmp(a.step, again.step, a.n * 8) != 0 ||
		    memcmp(a.thread, again.thread, a.n * 8) != 0)
			abort();
	}
	buf_done(&body);
	axis_done(&a);
	axis_done(&again);
}

/* Moments: what comes out, told by itself, comes out again. */
static void fuzz_moments(const struct blob *b)
{
	struct moments_in in = {.rows = b->count};
	struct buf body, shared;
	struct axis a, again;
	const int64_t *t;
	size_t i, steps;

	axis_init(&a);
	axis_init(&again);
	buf_init(&body, BLOB_BODY_MAX);
	buf_init(&shared, BLOB_BODY_MAX);
	if (!moments_decode(&columns, b->body, b->len, b->count, &a)) {
		for (i = 0; i < moments_count(&a); i++)
			if (!moments_time(&columns, &a, moments_count(&a) - 1 - i, &t))
				in.times[in.n++] = t;
		column_put_ints(&columns, &shared, a.step, a.n);
		steps = shared.len;
		column_put_ints(&columns, &shared, a.thread, a.n);
		in.steps = (struct moments_bytes){(unsigned char *)shared.data, steps};
		in.threads = (struct moments_bytes){(unsigned char *)shared.data + steps,
						    shared.len - steps};
		for (i = 1; i < in.n; i++)
			in.from[i] = (struct moments_source){(unsigned)i, (int)(i % 3) - 1};
		if (in.n &&
		    (moments_encode(&columns, &body, &in) < 0 ||
		     moments_decode(&columns, (unsigned char *)body.data, body.len, a.n, &again) ||
		     memcmp(a.step, again.step, a.n * 8) != 0))
			abort();
		for (i = 0; i < in.n; i++)
			if (moments_time(&columns, &again, i, &t) ||
			    memcmp(t, in.times[i], a.n * 8) != 0)
				abort();
	}
	buf_done(&body);
	buf_done(&shared);
	axis_done(&a);
	axis_done(&again);
}

/* Values at moments: two columns of times. */
static void fuzz_at_moments(const struct blob *b)
{
	int64_t *times = calloc(b->count, sizeof(*times));
	struct moments_in in = {.rows = b->count, .n = 2, .from = {{0}, {1, -1}}};
	struct points_view v;
	struct points p, q;
	struct buf body, one;
	struct axis a;

	axis_init(&a);
	points_init(&p);
	points_init(&q);
	buf_init(&body, BLOB_BODY_MAX);
	buf_init(&one, BLOB_BODY_MAX);
	in.times[0] = in.times[1] = times;
	column_put_ints(&columns, &one, times, b->count);
	in.steps = in.threads = (struct moments_bytes){(unsigned char *)one.data, one.len};
	if (times && moments_encode(&columns, &body, &in) == 0 &&
	    !moments_decode(&columns, (unsigned char *)body.data, body.len, b->count, &a) &&
	    !moments_points(&columns, b->body, b->len, b->count, &a, &p)) {
		if (p.n != b->count ||
		    moments_view(&columns, b->body, b->len, b->count, &a, &q, &v) || v.n != p.n ||
		    memcmp(v.value, p.value, p.n * 8) != 0)
			abort();
	}
	free(times);
	buf_done(&body);
	buf_done(&one);
	axis_done(&a);
	points_done(&p);
	points_done(&q);
}

/* Values on an axis of as many rows as the envelope says, and on one with more. */
static void fuzz_values(const struct blob *b, size_t rows)
{
	int64_t *columns3 = calloc(3 * rows, sizeof(*columns3));
	struct presence *where = malloc(sizeof(*where));
	struct points_view v = {rows, columns3, columns3 + rows, columns3 + 2 * rows, NULL};
	struct axis a;
	struct points p;
	size_t i;

	axis_init(&a);
	points_init(&p);
	for (i = 0; columns3 && i < rows; i++)
		columns3[i] = (int64_t)i;
	if (columns3 && where && axis_set(&a, &v) == 0 &&
	    !values_points(&columns, b->body, b->len, b->count, &a, &p)) {
		if (p.n != b->count)
			abort();
		v = points_slice(&p, 0, p.n);
		if (2 * p.n >= rows && axis_match(&a, &v, where) != p.n)
			abort();
	}
	free(columns3);
	free(where);
	axis_done(&a);
	points_done(&p);
}

static void fuzz_summary(const struct blob *b)
{
	struct summary nodes[SUMMARY_PAGE], again[SUMMARY_PAGE];
	struct buf body;
	size_t i;

	if (summary_decode(&columns, b->body, b->len, b->count, nodes))
		return;
	buf_init(&body, BLOB_BODY_MAX);
	if (summary_encode(&columns, &body, nodes, b->count) < 0 ||
	    summary_decode(&columns, (unsigned char *)body.data, body.len, b->count, again))
		abort();
	for (i = 0; i < b->count; i++)
		if (nodes[i].n != again[i].n || memcmp(&nodes[i].sum, &again[i].sum, 40) != 0 ||
		    nodes[i].step_max != again[i].step_max)
			abort();
	buf_done(&body);
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
		fuzz_axis(&blob);
		fuzz_summary(&blob);
		if (blob.count && blob.count <= CHUNK_POINTS_MAX) {
			fuzz_moments(&blob);
			fuzz_at_moments(&blob);
			fuzz_values(&blob, blob.count);
			fuzz_values(&blob, blob.count * 3 / 2);
		}
	}
	blob_codec_done(&codec);
	free(copy);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_merged.c - merged tail rows from any bytes behind an envelope: directory,
 * axes, values, histograms. What the directory says is written again to the same.
 */
#include "store/codec.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct blob_id fuzz_id = {"fuzz", "tail", 1, 0};
static struct column_codec columns;

static int fuzz_entry(const struct merged *m, const struct merged_entry *x)
{
	struct axis axis;
	struct points p;
	struct hists h;
	int r;

	axis_init(&axis);
	points_init(&p);
	hists_init(&h);
	if (x->is_hist) {
		r = merged_hists(m, x, &h);
	} else {
		r = merged_axis(m, x->axis, &columns, &axis);
		if (r == 0)
			r = merged_points(m, x, &columns, &axis, &p);
	}
	if (r == 0 && p.n + h.n != x->n)
		abort();
	axis_done(&axis);
	points_done(&p);
	hists_done(&h);
	return r;
}

static void fuzz_again(const struct merged *m, const struct blob *blob,
		       const struct merged_entry *entries, size_t n)
{
	struct blob twice = *blob;
	struct merged_entry x;
	struct merged again;
	struct buf b;
	size_t i;

	buf_init(&b, BLOB_BODY_MAX);
	if (merged_encode(&b, m->first, m->axes, m->n_axes, entries, n) < 0)
		abort();
	twice.body = (unsigned char *)b.data;
	twice.len = b.len;
	if (merged_begin(&again, &fuzz_id, &twice, NULL) < 0)
		abort();
	for (i = 0; i < n; i++)
		if (merged_next(&again, &x) != 1 || x.series != entries[i].series ||
		    x.axis != entries[i].axis || x.n != entries[i].n || x.len != entries[i].len ||
		    memcmp(x.p, entries[i].p, x.len) != 0)
			abort();
	if (merged_next(&again, &x) != 0)
		abort();
	merged_done(&again);
	buf_done(&b);
}

static void fuzz_walk(const struct blob *blob)
{
	struct merged_entry entries[ENTRIES], x;
	struct err e = {0};
	struct merged m;
	size_t n = 0;
	int r = merged_begin(&m, &fuzz_id, blob, &e);

	if (r < 0) {
		if (!e.code || !e.text[0])
			abort();
		return;
	}
	while ((r = merged_next(&m, &x)) > 0) {
		if (x.p < blob->body || x.p + x.len > blob->body + blob->len)
			abort();
		fuzz_entry(&m, &x);
		if (n < ENTRIES)
			entries[n] = x;
		n++;
	}
	if (r < 0) /* the directory was checked */
		abort();
	if (n <= ENTRIES)
		fuzz_again(&m, blob, entries, n);
	merged_done(&m);
}

/* The first two bytes are the number of points, the rest is the body. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct blob blob = {.format = BLOB_MERGED};
	uint8_t *copy;

	if (size < 2)
		return 0;
	copy = malloc(size - 2 ? size - 2 : 1); /* exact: reading past it is then seen */
	if (!copy)
		return 0;
	memcpy(copy, data + 2, size - 2);
	blob.count = data[0] | (uint32_t)data[1] << 8;
	blob.body = copy;
	blob.len = size - 2;
	fuzz_walk(&blob);
	free(copy);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tail.c - the body of a tail row, which is one commit: lane positions, blocks
 * of points by series, blocks of histogram points by series.
 */
#include "store/codec.h"

#include <errno.h>
#include <string.h>

#define TAIL_SERIES_MAX UINT32_MAX

enum tail_stage {
	TAIL_POSITIONS,
	TAIL_BLOCKS,
	TAIL_HISTS,
	TAIL_END
};

static void tail_put_positions(struct buf *b, const struct tail_in *in)
{
	size_t i;

	buf_uvarint(b, in->n_positions);
	for (i = 0; i < in->n_positions; i++) {
		const struct sink_position *p = &in->positions[i];

		buf_append(b, p->ring, sizeof(p->ring));
		buf_uvarint(b, p->lane);
		buf_uvarint(b, p->process);
		buf_uvarint(b, p->pos);
		buf_uvarint(b, p->rec);
		buf_uvarint(b, p->stored);
		buf_uvarint(b, p->overwritten);
		buf_uvarint(b, p->broken);
		buf_uvarint(b, p->dropped);
	}
}

static void tail_put_blocks(struct buf *b, const struct tail_in *in, const struct points_base *base)
{
	struct points_view v, prev;
	uint32_t series = 0;
	size_t i, at = 0;

	buf_uvarint(b, in->n_blocks);
	for (i = 0; i < in->n_blocks; i++) {
		v = points_slice(in->points, at, in->lengths[i]);
		buf_uvarint(b, in->series[i] - series);
		buf_uvarint(b, v.n);
		points_encode(b, &v, i ? &prev : NULL, base);
		series = in->series[i];
		prev = v;
		at += v.n;
	}
}

/* One block: rows that follow each other in hist_order and share a series. */
static void tail_put_hists(struct buf *b, const struct tail_in *in, const struct points_base *base)
{
	const struct hists *h = in->hists;
	struct buf rows;
	uint32_t series = 0;
	size_t i, n, blocks = 0;

	for (i = 0; i < h->n; i++)
		blocks += i == 0 || h->rows[in->hist_order[i]].series !=
					    h->rows[in->hist_order[i - 1]].series;
	buf_uvarint(b, blocks);
	buf_init(&rows, BLOB_BODY_MAX);
	for (i = 0; i < h->n; i += n) {
		uint32_t now = h->rows[in->hist_order[i]].series;

		for (n = 1; i + n < h->n && h->rows[in->hist_order[i + n]].series == now; n++)
			;
		buf_reset(&rows);
		hists_encode(&rows, h, in->hist_order + i, 0, n, base);
		buf_uvarint(b, now - series);
		buf_uvarint(b, n);
		buf_uvarint(b, rows.len);
		buf_append(b, rows.data, rows.len);
		if (rows.error && !b->error)
			b->error = rows.error;
		series = now;
	}
	buf_done(&rows);
}

static struct points_base tail_base(const struct tail_in *in)
{
	struct points_base base = {0, 0};

	if (in->n_blocks) {
		base.time = in->points->time[0];
		base.step = in->points->step[0];
	} else if (in->hists->n) {
		base.time = in->hists->rows[in->hist_order[0]].time;
		base.step = in->hists->rows[in->hist_order[0]].step;
	}
	if (base.step == SINK_STEP_NONE)
		base.step = 0;
	return base;
}

int tail_encode(struct buf *b, const struct tail_in *in)
{
	struct points_base base = tail_base(in);

	buf_reset(b);
	buf_svarint(b, base.time);
	buf_svarint(b, base.step);
	tail_put_positions(b, in);
	tail_put_blocks(b, in, &base);
	tail_put_hists(b, in, &base);
	return b->error;
}

static int tail_bad(const struct tail_walk *w, const char *what)
{
	return blob_bad(w->id, w->e, (size_t)(w->c.p - w->start), what);
}

/* Begin the next stage: its number of entries, each at least `smallest` bytes. */
static int tail_stage(struct tail_walk *w, int stage, uint64_t max, size_t smallest)
{
	w->left = cur_uvarint(&w->c);
	w->stage = stage;
	w->series = 0;
	if (w->c.error || w->left > max || w->left > (size_t)(w->c.end - w->c.p) / smallest)
		return tail_bad(w, "impossible number of entries");
	return 0;
}

int tail_begin(struct tail_walk *w, const struct blob_id *id, const struct blob *b, struct err *e)
{
	*w = (struct tail_walk){.id = id, .e = e, .start = b->body, .samples = b->count};
	w->c = (struct cur){.p = b->body, .end = b->body + b->len};
	if (b->format != BLOB_TAIL)
		return tail_bad(w, "not a tail row");
	if (b->count > TAIL_SAMPLES_MAX + TAIL_HISTS_MAX)
		return tail_bad(w, "too many points");
	w->base.time = cur_svarint(&w->c);
	w->base.step = cur_svarint(&w->c);
	return tail_stage(w, TAIL_POSITIONS, TAIL_POSITIONS_MAX, 24);
}

int tail_position(struct tail_walk *w, struct sink_position *ret)
{
	const void *ring;
	uint64_t lane, process;

	if (w->stage != TAIL_POSITIONS || w->left == 0)
		return 0;
	ring = cur_bytes(&w->c, sizeof(ret->ring));
	lane = cur_uvarint(&w->c);
	process = cur_uvarint(&w->c);
	ret->pos = cur_uvarint(&w->c);
	ret->rec = cur_uvarint(&w->c);
	ret->stored = cur_uvarint(&w->c);
	ret->overwritten = cur_uvarint(&w->c);
	ret->broken = cur_uvarint(&w->c);
	ret->dropped = cur_uvarint(&w->c);
	if (w->c.error || lane > UINT32_MAX || process > UINT32_MAX)
		return tail_bad(w, "a lane position is cut short");
	memcpy(ret->ring, ring, sizeof(ret->ring));
	ret->lane = (uint32_t)lane;
	ret->process = (uint32_t)process;
	w->left--;
	return 1;
}

/* Series and number of points, in front of either kind of block. */
static int tail_block_head(struct tail_walk *w, uint64_t max, struct tail_block *ret)
{
	uint64_t step = cur_uvarint(&w->c), n = cur_uvarint(&w->c);

	if (w->c.error || step == 0 || step > TAIL_SERIES_MAX - w->series)
		return tail_bad(w, "series are out of order");
	if (n == 0 || n > w->samples || n > max)
		return tail_bad(w, "more points than stated");
	w->series += (uint32_t)step;
	w->samples -= n;
	w->left--;
	ret->series = w->series;
	ret->n = (uint32_t)n;
	return 1;
}

static int tail_points_block(struct tail_walk *w, struct tail_block *ret)
{
	const char *why;
	int r = tail_block_head(w, TAIL_SAMPLES_MAX, ret);

	if (r < 0)
		return r;
	why = points_parse(&w->c, ret->n, &w->last);
	if (why)
		return tail_bad(w, why);
	ret->is_hist = false;
	ret->points = w->last;
	return 1;
}

static int tail_hists_block(struct tail_walk *w, struct tail_block *ret)
{
	const unsigned char *rows;
	uint64_t len;
	int r = tail_block_head(w, TAIL_HISTS_MAX, ret);

	if (r < 0)
		return r;
	len = cur_uvarint(&w->c);
	rows = len > BLOB_BODY_MAX ? NULL : cur_bytes(&w->c, (size_t)len);
	if (!rows)
		return tail_bad(w, "histograms are cut short");
	ret->is_hist = true;
	ret->rows = (struct cur){.p = rows, .end = rows + len};
	return 1;
}

int tail_block(struct tail_walk *w, struct tail_block *ret)
{
	struct sink_position skipped;
	int r;

	while ((r = tail_position(w, &skipped)) > 0)
		;
	if (r == 0 && w->stage == TAIL_POSITIONS)
		r = tail_stage(w, TAIL_BLOCKS, TAIL_SAMPLES_MAX, 11);
	if (r == 0 && w->stage == TAIL_BLOCKS && w->left == 0)
		r = tail_stage(w, TAIL_HISTS, TAIL_HISTS_MAX, 32);
	if (r < 0)
		return r;
	if (w->stage == TAIL_BLOCKS)
		return tail_points_block(w, ret);
	if (w->stage == TAIL_HISTS && w->left)
		return tail_hists_block(w, ret);
	if (w->stage != TAIL_END && (w->c.p != w->c.end || w->samples))
		return tail_bad(w,
				w->samples ? "fewer points than stated" : "bytes behind the end");
	w->stage = TAIL_END;
	return 0;
}

int tail_points(const struct tail_walk *w, const struct tail_block *b, struct points *p)
{
	const char *why = points_decode(&b->points, &w->base, p);

	return why ? tail_bad(w, why) : 0;
}

int tail_hists(const struct tail_walk *w, const struct tail_block *b, struct hists *h)
{
	struct cur c = b->rows;
	const char *why = hists_decode(&c, b->n, &w->base, h);

	if (!why && c.p != c.end)
		why = "bytes behind the histograms of a series";
	return why ? tail_bad(w, why) : 0;
}

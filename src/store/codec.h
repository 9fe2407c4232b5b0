/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.h - the blobs of the store (docs/schema.md): checksum and compression,
 * blocks of points, rows of histograms, tail rows, axes and values. Pure
 * functions over memory; every decoder takes hostile bytes and answers -EUCLEAN.
 */
#ifndef STORE_CODEC_H
#define STORE_CODEC_H

#include "base/buf.h"
#include "base/err.h"
#include "store/column.h"
#include "wire/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of the format; docs/schema.md states them. */
#define BLOB_BODY_MAX (160u << 20)  /* bytes of a body before compression */
#define TAIL_SAMPLES_MAX (2u << 20) /* samples in a tail row */
#define TAIL_HISTS_MAX (256u << 10) /* histogram points in a tail row */
#define TAIL_BINS_MAX (2u << 20)    /* bins of them */
#define TAIL_POSITIONS_MAX (64u << 10)
#define CHUNK_POINTS_MAX COLUMN_MAX /* samples in a chunk; rows of an axis */
#define CHUNK_HISTS_MAX 1024u       /* histogram points in a chunk */
#define CHUNK_BINS_MAX (128u << 10) /* bins at which a chunk is sealed */
#define SEGMENTS_MAX 1024u          /* segments of a series */

/* ---- crc32c.c ----------------------------------------------------------- */

/* CRC-32C (Castagnoli) of len bytes; crc is 0 or that of the bytes before. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The same without the processor's instruction. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len);

/* ---- blob.c: envelope --------------------------------------------------- */

#define BLOB_HEADER 16u

enum blob_format {
	BLOB_TAIL = 1,   /* plain tail row */
	BLOB_POINTS = 2, /* chunk of points of version 1 */
	BLOB_HISTS = 3,  /* chunk of histogram points */
	BLOB_MERGED = 4, /* merged tail row */
	BLOB_AXIS = 5,
	BLOB_VALUES = 6,     /* chunk of points on an axis */
	BLOB_SUMMARY = 7,    /* page of a summary tree */
	BLOB_MOMENTS = 8,    /* axes whose times follow from each other */
	BLOB_AT_MOMENTS = 9, /* chunk of points at some of them */
};

/* Which blob: for the checksum and for error messages. */
struct blob_id {
	const char *path;  /* of the database */
	const char *table; /* "tail", "chunk", "axis" or "summary" */
	uint64_t a, b;     /* tail: seq, 0; chunk: series, ordinal; others: id, 0 */
};

/* What decoders say when malloc() fails. */
#define BLOB_NO_MEMORY "out of memory"

/* Say that a blob is bad: "PATH: table tail, seq 7, byte 12: ...". Returns
 * -EUCLEAN, or -ENOMEM for BLOB_NO_MEMORY. e may be NULL. */
int blob_bad(const struct blob_id *id, struct err *e, size_t offset, const char *what);

/* Contexts of compression, made when first used; one per thread. */
struct blob_codec {
	void *cctx, *dctx;
	struct buf out;  /* the last sealed blob */
	struct buf body; /* the last opened body, if it was compressed */
	unsigned skip;   /* seals to go without trying to compress */
	unsigned backoff;
};
void blob_codec_init(struct blob_codec *c);
void blob_codec_done(struct blob_codec *c);

/* Put body into its envelope: c->out, valid until the next call. Plain tail rows
 * and histograms are compressed if it pays; the others are columns, and small
 * already. 0, -ENOMEM or -EFBIG. */
int blob_seal(struct blob_codec *c, const struct blob_id *id, enum blob_format format,
	      uint32_t count, const struct buf *body);

/* The same without a copy, never compressed: append the body to what blob_begin()
 * returns, then c->out is the blob. */
struct buf *blob_begin(struct blob_codec *c);
int blob_end(struct blob_codec *c, const struct blob_id *id, enum blob_format format,
	     uint32_t count);

/* Give back buffers that a large blob needed. */
void blob_trim(struct blob_codec *c);

/* What blob_open() finds. */
struct blob {
	enum blob_format format;
	uint32_t count;            /* points */
	const unsigned char *body; /* in data, or in c->body until the next open */
	size_t len;
};

/* Check and open an envelope. 0, -EUCLEAN, -EPROTO (format of a newer lapse),
 * -ENOMEM. */
int blob_open(struct blob_codec *c, const struct blob_id *id, const void *data, size_t len,
	      struct err *e, struct blob *ret);

/* ---- points.c: columns -------------------------------------------------- */

/* What first times and steps are written relative to. */
struct points_base {
	int64_t time, step;
};

/* Points as columns; one allocation. */
struct points {
	size_t n, cap;
	int64_t *time, *step, *thread;
	double *value;
};
void points_init(struct points *p);
void points_done(struct points *p);
/* Room for n points in all. 0 or -ENOMEM. */
int points_reserve(struct points *p, size_t n);
/* Append n points of another, from `at` on. 0 or -ENOMEM. */
int points_append(struct points *p, const struct points *from, size_t at, size_t n);

/* Columns of somebody else's points. */
struct points_view {
	size_t n;
	const int64_t *time, *step, *thread;
	const double *value;
};
struct points_view points_slice(const struct points *p, size_t from, size_t n);

/* Append the columns of v to b. Columns that equal those of prev (NULL: none;
 * the block before, as given to the last call) are only mentioned. */
void points_encode(struct buf *b, const struct points_view *v, const struct points_view *prev,
		   const struct points_base *base);

/* An encoded column, and a block of them. */
struct points_column {
	const unsigned char *p, *end;
	unsigned mode;
};
struct points_block {
	size_t n;
	struct points_column time, step, thread;
	const unsigned char *value;
	bool constant; /* one value for all */
};

/* Take the block of n points at c; *b is the block before (n 0: none) and
 * becomes the new one, pointing into c's bytes. NULL or what is wrong. */
const char *points_parse(struct cur *c, size_t n, struct points_block *b);

/* A block on its way to points, piece by piece. */
struct points_stream {
	size_t left; /* points not taken yet */
	struct points_column column[3];
	int64_t at[3], stride[3];
	const unsigned char *value;
	bool constant;
};

/* Begin to decode a block. NULL or what is wrong. */
const char *points_start(const struct points_block *b, const struct points_base *base,
			 struct points_stream *s);
/* Append the next n points (at most s->left) to out. NULL or what is wrong ("out
 * of memory" included: bad input asks for at most the stated maxima). */
const char *points_take(struct points_stream *s, size_t n, struct points *out);
/* All at once. */
const char *points_decode(const struct points_block *b, const struct points_base *base,
			  struct points *out);

/* Append the n points of a chunk's body of version 1 (format 2): its bases, then one
 * block. NULL or what is wrong. */
const char *points_get_body(const unsigned char *p, size_t len, size_t n, struct points *out);

/* ---- hists.c: histogram points ------------------------------------------ */

struct hists_row {
	uint32_t series; /* only while waiting for a commit */
	uint32_t n_bins;
	size_t bins; /* index of the first */
	int64_t time, step;
	uint64_t count, nan;
	double sum, min, max;
};
struct hists {
	size_t n, cap, n_bins, cap_bins;
	struct hists_row *rows;
	struct sink_bin *bins;
};
void hists_init(struct hists *h);
void hists_done(struct hists *h);
void hists_reset(struct hists *h);
/* Append a copy. 0 or -ENOMEM. */
int hists_add(struct hists *h, const struct hists_row *row, const struct sink_bin *bins);
/* Row i as a histogram of a series; its bins stay h's. Returns the mean, NaN if there is
 * none. */
double hists_get(const struct hists *h, size_t i, uint32_t series, struct sink_hist *ret);

/* Append rows index[0..n) of h (NULL: rows [from, from + n)) to b. */
void hists_encode(struct buf *b, const struct hists *h, const uint32_t *index, size_t from,
		  size_t n, const struct points_base *base);

/* Append n rows at c to out. NULL or what is wrong. */
const char *hists_decode(struct cur *c, size_t n, const struct points_base *base,
			 struct hists *out);

/* The body of a chunk of histogram points (format 3): its bases, then rows
 * [from, from + n) of h, n > 0. Appended to b. */
void hists_put_body(struct buf *b, const struct hists *h, size_t from, size_t n);
/* Append its n rows to out. NULL or what is wrong. */
const char *hists_get_body(const unsigned char *p, size_t len, size_t n, struct hists *out);

/* ---- segment.c ---------------------------------------------------------- */

/* Where a series stands: which attempt, its highest step, when that was first
 * reached. */
struct segment {
	uint32_t no;
	int64_t step; /* SINK_STEP_NONE before the first */
	int64_t time;
};

/* The next point of the series; true if a new segment begins with it. time is
 * that of the record: for spans, their end. */
bool segment_next(struct segment *s, int64_t time, int64_t step);

/* End of a span, clamped; its start if the duration is no number. */
int64_t segment_span_end(int64_t start, double duration);

/* ---- tail.c -------------------------------------------------------------- */

/* What one commit holds; columns sorted by series. */
struct tail_in {
	const struct sink_position *positions;
	size_t n_positions;
	const struct points *points;
	const uint32_t *series;  /* of each block, ascending */
	const uint32_t *lengths; /* points of each block */
	size_t n_blocks;
	const struct hists *hists;
	const uint32_t *hist_order; /* rows of hists, by series then arrival */
};

/* Write the body of a tail row into b (emptied first). 0, -EFBIG, -ENOMEM. */
int tail_encode(struct buf *b, const struct tail_in *in);

/* Walking a body: tail_begin(), tail_position() until 0, tail_block() until 0. */
struct tail_walk {
	const struct blob_id *id;
	struct err *e;
	const unsigned char *start;
	struct cur c;
	struct points_base base;
	struct points_block last;
	uint64_t left;    /* positions or blocks left in the stage */
	uint64_t samples; /* points that may still come, by the header's count */
	uint32_t series;  /* of the block before */
	int stage;
};
struct tail_block {
	uint32_t series;
	uint32_t n;
	bool is_hist;
	struct points_block points;
	struct cur rows;
};

/* id and e must outlive the walk. Each: 1 (begin: 0) and *ret, 0 at the end,
 * or -EUCLEAN. Positions not asked for are skipped. */
int tail_begin(struct tail_walk *w, const struct blob_id *id, const struct blob *b, struct err *e);
int tail_position(struct tail_walk *w, struct sink_position *ret);
int tail_block(struct tail_walk *w, struct tail_block *ret);

/* Append a block's points to p or h. 0 or -EUCLEAN. */
int tail_points(const struct tail_walk *w, const struct tail_block *b, struct points *p);
int tail_hists(const struct tail_walk *w, const struct tail_block *b, struct hists *h);

/* ---- axis.c: points as rows of a shared axis and a column of values --------- */

/* Times, steps and threads of points of one or several series. */
struct moments;
struct axis {
	size_t n, cap;
	int64_t *time, *step, *thread;
	int64_t *runs;           /* scratch of values_points() */
	bool sorted;             /* times do not fall */
	struct moments *moments; /* of a row that has several columns of times; time is none then */
};
void axis_init(struct axis *a);
void axis_done(struct axis *a);
/* Room for n rows, whose columns are lost. 0 or -ENOMEM. */
int axis_reserve(struct axis *a, size_t n);
/* Take over the columns of v, at most CHUNK_POINTS_MAX. 0 or -ENOMEM. */
int axis_set(struct axis *a, const struct points_view *v);

/* Append the body of an axis (format 5). 0, -ENOMEM, -EFBIG. */
int axis_encode(struct column_codec *c, struct buf *b, const struct axis *a);
/* The axis of n rows. NULL or what is wrong. */
const char *axis_decode(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			struct axis *ret);

/* Which rows of an axis a series has: runs of rows that are there and are not, in
 * turn; the last is left out. */
struct presence {
	size_t n; /* 0: all rows */
	int64_t runs[CHUNK_POINTS_MAX];
};

/* How many of v's first points are rows of a, in order: all of v, or as many as a
 * has if a is full (CHUNK_POINTS_MAX rows) and v goes on behind it. 0: neither,
 * or a has more than twice as many rows. Says which rows. */
size_t axis_match(const struct axis *a, const struct points_view *v, struct presence *ret);

/* Append the body of values (format 6). 0, -ENOMEM, -EFBIG. */
int values_encode(struct column_codec *c, struct buf *b, const struct presence *rows,
		  const double *v, size_t n);
/* Append the n points that a body has on an axis. NULL or what is wrong. */
const char *values_points(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			  struct axis *a, struct points *out);
/* The same, where the axis' own columns serve if the series has all its rows; out is
 * emptied and holds the rest. */
const char *values_view(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			struct axis *a, struct points *out, struct points_view *ret);

/* Only the n values, without a look at the axis. */
const char *values_only(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			double *ret);

/* ---- moments.c: several axes as one row, their times told by each other -------- */

#define MOMENTS_MAX 16u /* columns of times */

/* What a column of times is told by. */
struct moments_source {
	unsigned from; /* 0: itself; else 1 + an earlier column */
	int shift;     /* of which it is the same row, the one before (-1) or after (1) */
};

/* A column that is encoded already; p NULL: it is not. */
struct moments_bytes {
	const unsigned char *p;
	size_t len;
};
struct moments_in {
	size_t rows, n; /* n: columns of times */
	struct moments_bytes steps, threads;
	const int64_t *times[MOMENTS_MAX];
	struct moments_source from[MOMENTS_MAX];
	struct moments_bytes own[MOMENTS_MAX]; /* of those that are told by themselves */
};
/* Append the body of moments (format 8). 0, -ENOMEM, -EFBIG. */
int moments_encode(struct column_codec *c, struct buf *b, const struct moments_in *in);
/* The axis of n rows, with ret->moments. Columns of times are decoded when they are
 * needed first. NULL or what is wrong. */
const char *moments_decode(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			   struct axis *ret);
void moments_free(struct moments *m);

/* How many columns of times; number i, valid as long as the axis. NULL or what is wrong. */
size_t moments_count(const struct axis *a);
const char *moments_time(struct column_codec *c, struct axis *a, uint64_t i, const int64_t **ret);

/* values_points() and values_view() for a body of format 9. */
const char *moments_points(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			   struct axis *a, struct points *out);
const char *moments_view(struct column_codec *c, const unsigned char *p, size_t len, size_t n,
			 struct axis *a, struct points *out, struct points_view *ret);

/* Are a body's values no durations, but as in format 6? Then those are what is left of it. */
bool moments_has_values(const unsigned char **p, size_t *len);

/* ---- merged.c: several commits as one row ------------------------------------- */

#define MERGED_AXES_MAX (1u << 20)
#define MERGED_ENTRIES_MAX (4u << 20)

/* What a merged row has of a series: up to CHUNK_POINTS_MAX points on an axis, or
 * up to CHUNK_HISTS_MAX histogram points. A series may have several. */
struct merged_entry {
	uint32_t series, axis, n;
	bool is_hist;
	const unsigned char *p; /* body of values, or of histogram points */
	size_t len;
};
struct merged_axis {
	uint32_t n;
	const unsigned char *p;
	size_t len;
};

/* Append the body of a merged row whose first commit is `first`. Entries by
 * series, those of histograms last. 0, -ENOMEM, -EFBIG. */
int merged_encode(struct buf *b, uint64_t first, const struct merged_axis *axes, size_t n_axes,
		  const struct merged_entry *entries, size_t n_entries);

/* Walking a body: merged_begin() checks the directory, merged_next() until 0. */
struct merged {
	const struct blob_id *id;
	struct err *e;
	uint64_t first;
	struct merged_axis *axes; /* owned */
	size_t n_axes;
	struct cur dir;
	const unsigned char *data;
	uint64_t left, left_hists, points;
	uint32_t series;
	bool is_hist;
};
/* id and e must outlive the walk, b's body too. 0, -EUCLEAN, -ENOMEM; on failure
 * there is nothing to be freed. */
int merged_begin(struct merged *m, const struct blob_id *id, const struct blob *b, struct err *e);
void merged_done(struct merged *m);
/* 1 and *ret, or 0 at the end. */
int merged_next(struct merged *m, struct merged_entry *ret);

/* Decode axis number i; append an entry's points, `axis` being the entry's. 0,
 * -EUCLEAN. */
int merged_axis(const struct merged *m, size_t i, struct column_codec *c, struct axis *ret);
int merged_points(const struct merged *m, const struct merged_entry *x, struct column_codec *c,
		  struct axis *axis, struct points *out);
int merged_hists(const struct merged *m, const struct merged_entry *x, struct hists *out);

/* ---- chunk.c ------------------------------------------------------------------- */

/* A row of the table chunk. */
struct chunk {
	uint32_t series, ordinal;
	uint64_t start;
	uint32_t n;
	struct segment segment; /* after its last point */
	int64_t axis;           /* row of axis; 0: histogram points */
	int64_t pack;           /* row of pack */
	uint32_t at, len;       /* its blob in it */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stored number costs: the column codec against doubles through zstd,
 * Gorilla's XOR encoding, and decimals or floats as differences in varints through
 * zstd, on the mixed set of src/simulate, in chunks of 8,192. Bytes a value by
 * shape and on the whole, and speed; goals by shape are what the best of such
 * encodings took in an earlier study of data of these shapes.
 */
#include "bench.h"
#include "simulate/mixed.h"
#include "store/column.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define SEED 1
#define ROUNDS 7
#define CHUNK COLUMN_MAX
#define ROOM (32 * CHUNK)

static struct column_codec codec;
static struct buf out;
static ZSTD_CCtx *cctx;
static ZSTD_DCtx *dctx;
static unsigned char scratch[ROOM];
static int64_t ints[CHUNK];

/* Encode n values to p (ROOM bytes), the length returned; decode them again. */
struct engine {
	const char *name;
	size_t (*put)(const double *v, size_t n, unsigned char *p);
	void (*get)(const unsigned char *p, size_t len, size_t n, double *v);
};

static size_t ours_put(const double *v, size_t n, unsigned char *p)
{
	buf_reset(&out);
	if (column_put_values(&codec, &out, v, n) < 0)
		bench_die("column_put_values", NULL);
	memcpy(p, out.data, out.len);
	return out.len;
}

static void ours_get(const unsigned char *p, size_t len, size_t n, double *v)
{
	const char *why = column_get_values(&codec, p, len, n, v);

	if (why)
		bench_die(why, NULL);
}

static size_t zstd_put(const double *v, size_t n, unsigned char *p)
{
	return ZSTD_compressCCtx(cctx, p, ROOM, v, 8 * n, 3);
}

static void zstd_get(const unsigned char *p, size_t len, size_t n, double *v)
{
	if (ZSTD_decompressDCtx(dctx, v, 8 * n, p, len) != 8 * n)
		bench_die("zstd", NULL);
}

/* ---- Gorilla: XOR with the value before, window of meaningful bits ------------------- */

struct bits {
	unsigned char *p;
	uint64_t acc;  /* writing: the last `fill` bits */
	size_t at;     /* reading: bit */
	unsigned fill; /* below 8 */
};

static void bits_put(struct bits *b, uint64_t v, unsigned n)
{
	if (n > 32) {
		bits_put(b, v >> 32, n - 32);
		v &= 0xffffffff;
		n = 32;
	}
	b->acc = b->acc << n | v;
	for (b->fill += n; b->fill >= 8; b->fill -= 8)
		*b->p++ = (unsigned char)(b->acc >> (b->fill - 8));
}

static uint64_t bits_get(struct bits *b, unsigned n)
{
	uint64_t v, high = 0;

	if (n > 32) {
		high = bits_get(b, n - 32) << 32;
		n = 32;
	}
	memcpy(&v, b->p + b->at / 8, 8);
	v = be64toh(v) << b->at % 8 >> (64 - n);
	b->at += n;
	return high | v;
}

static size_t gorilla_put(const double *v, size_t n, unsigned char *p)
{
	unsigned lead = 65, trail = 0, l, t;
	struct bits b = {.p = p};
	uint64_t now, last, x;
	size_t i;

	memcpy(&last, v, 8);
	bits_put(&b, last, 64);
	for (i = 1; i < n; i++, last = now) {
		memcpy(&now, v + i, 8);
		x = now ^ last;
		bits_put(&b, x != 0, 1);
		if (!x)
			continue;
		l = (unsigned)__builtin_clzll(x);
		l = l > 31 ? 31 : l;
		t = (unsigned)__builtin_ctzll(x);
		bits_put(&b, lead > 64 || l < lead || t < trail, 1);
		if (lead > 64 || l < lead || t < trail) {
			lead = l;
			trail = t;
			bits_put(&b, lead, 5);
			bits_put(&b, 63 - lead - trail, 6);
		}
		bits_put(&b, x >> trail, 64 - lead - trail);
	}
	bits_put(&b, 0, 7);
	return (size_t)(b.p - p);
}

static void gorilla_get(const unsigned char *p, size_t len, size_t n, double *v)
{
	struct bits b = {.p = (unsigned char *)(uintptr_t)p};
	uint64_t now = bits_get(&b, 64);
	unsigned lead = 0, trail = 0;
	size_t i;

	(void)len;
	memcpy(v, &now, 8);
	for (i = 1; i < n; i++) {
		if (bits_get(&b, 1)) {
			if (bits_get(&b, 1)) {
				lead = (unsigned)bits_get(&b, 5);
				trail = 63 - lead - (unsigned)bits_get(&b, 6);
			}
			now ^= bits_get(&b, 64 - lead - trail) << trail;
		}
		memcpy(v + i, &now, 8);
	}
}

/* ---- decimals or floats, differences, varints, zstd ------------------------------------ */

static const double powers[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};

/* Integers of v by decimals of `kind` digits, floats (10) or doubles (11). */
static bool varint_map(const double *v, size_t n, unsigned kind)
{
	size_t i;

	for (i = 0; i < n; i++) {
		float f = (float)v[i];
		int32_t bits;

		if (kind < 10) {
			if (fabs(v[i]) * powers[kind] > 1e15)
				return false;
			ints[i] = llrint(v[i] * powers[kind]);
			if ((double)ints[i] / powers[kind] != v[i])
				return false;
		} else if (kind == 10) {
			if ((double)f != v[i])
				return false;
			memcpy(&bits, &f, 4);
			ints[i] = bits;
		} else {
			memcpy(&ints[i], &v[i], 8);
		}
	}
	return true;
}

static size_t varint_bytes(size_t n, unsigned order)
{
	int64_t last = 0, step = 0, d;
	unsigned char *to = scratch;
	uint64_t u;
	size_t i;

	for (i = 0; i < n; i++) {
		d = (int64_t)((uint64_t)ints[i] - (uint64_t)last - (uint64_t)(order ? step : 0));
		step = (int64_t)((uint64_t)ints[i] - (uint64_t)last);
		last = ints[i];
		for (u = (uint64_t)d << 1 ^ (uint64_t)(d >> 63); u >= 128; u >>= 7)
			*to++ = (unsigned char)(u | 128);
		*to++ = (unsigned char)u;
	}
	return (size_t)(to - scratch);
}

static size_t varint_put(const double *v, size_t n, unsigned char *p)
{
	unsigned kind = 0, order;
	size_t len;

	while (!varint_map(v, n, kind))
		kind++;
	order = varint_bytes(n, 1) < varint_bytes(n, 0);
	len = varint_bytes(n, order);
	p[0] = (unsigned char)(kind << 1 | order);
	return 1 + ZSTD_compressCCtx(cctx, p + 1, ROOM - 1, scratch, len, 3);
}

static void varint_get(const unsigned char *p, size_t len, size_t n, double *v)
{
	unsigned kind = p[0] >> 1, shift;
	int64_t last = 0, step = 0, d;
	const unsigned char *from = scratch;
	int32_t bits;
	uint64_t u;
	size_t i;
	float f;

	if (ZSTD_isError(ZSTD_decompressDCtx(dctx, scratch, ROOM, p + 1, len - 1)))
		bench_die("varint", NULL);
	for (i = 0; i < n; i++) {
		for (u = 0, shift = 0;; shift += 7) {
			u |= (uint64_t)(*from & 127) << shift;
			if (*from++ < 128)
				break;
		}
		d = (int64_t)(u >> 1 ^ (0 - (u & 1)));
		step = p[0] & 1 ? (int64_t)((uint64_t)step + (uint64_t)d) : d;
		last = (int64_t)((uint64_t)last + (uint64_t)step);
		if (kind < 10) {
			v[i] = (double)last / powers[kind];
		} else if (kind == 10) {
			bits = (int32_t)last;
			memcpy(&f, &bits, 4);
			v[i] = f;
		} else {
			memcpy(&v[i], &last, 8);
		}
	}
}

static const struct engine engines[] = {
	{"columns", ours_put, ours_get},
	{"varint differences + zstd-3", varint_put, varint_get},
	{"zstd-3 of doubles", zstd_put, zstd_get},
	{"Gorilla", gorilla_put, gorilla_get},
};
#define ENGINES (sizeof(engines) / sizeof(engines[0]))

/* ---- measuring -------------------------------------------------------------------------- */

/* Bytes, seconds to encode and to decode, of each shape. */
struct sums {
	double values, bytes, put, get;
};

static size_t chunk_of(size_t at)
{
	return MIXED_POINTS - at < CHUNK ? MIXED_POINTS - at : CHUNK;
}

/* All series by one engine, first there, then back; [MIXED_SHAPES] is the whole. */
static void measure(const struct engine *e, const double *all, unsigned char *bytes,
		    struct sums *sums)
{
	static size_t len[MIXED_SERIES][MIXED_POINTS / CHUNK + 1];
	static double back[MIXED_POINTS];
	unsigned char *to = bytes;
	unsigned series, shape;
	const double *v;
	size_t at;
	double t;

	for (series = 0; series < MIXED_SERIES; series++) {
		v = all + (size_t)series * MIXED_POINTS;
		shape = mixed_shape_of(series);
		for (t = bench_now(), at = 0; at < MIXED_POINTS; at += CHUNK) {
			to += len[series][at / CHUNK] = e->put(v + at, chunk_of(at), to);
			sums[shape].bytes += (double)len[series][at / CHUNK];
		}
		sums[shape].put += bench_now() - t;
		sums[shape].values += MIXED_POINTS;
	}
	for (to = bytes, series = 0; series < MIXED_SERIES; series++) {
		v = all + (size_t)series * MIXED_POINTS;
		for (t = bench_now(), at = 0; at < MIXED_POINTS; at += CHUNK) {
			e->get(to, len[series][at / CHUNK], chunk_of(at), back + at);
			to += len[series][at / CHUNK];
		}
		sums[mixed_shape_of(series)].get += bench_now() - t;
		if (memcmp(v, back, sizeof(back)) != 0)
			bench_die(e->name, NULL);
	}
	for (shape = 0; shape < MIXED_SHAPES; shape++) {
		sums[MIXED_SHAPES].values += sums[shape].values;
		sums[MIXED_SHAPES].bytes += sums[shape].bytes;
		sums[MIXED_SHAPES].put += sums[shape].put;
		sums[MIXED_SHAPES].get += sums[shape].get;
	}
}

static void print_bytes(struct sums sums[ENGINES][MIXED_SHAPES + 1])
{
	static const double goal[MIXED_SHAPES] = {
		[MIXED_POWER] = 2.30,         [MIXED_UTILISATION] = 0.47,
		[MIXED_CPU_SECONDS] = 0.52,   [MIXED_STEP_SECONDS] = 3.38,
		[MIXED_LOSS] = 2.62,          [MIXED_GRADIENT_NORM] = 3.13,
		[MIXED_LEARNING_RATE] = 2.84, [MIXED_CONSTANT] = 0.003};
	char name[64];
	unsigned k;

	for (k = 0; k < MIXED_SHAPES; k++) {
		snprintf(name, sizeof(name), "codec/%s", mixed_shape_name((enum mixed_shape)k));
		bench_print(name, sums[0][k].bytes / sums[0][k].values, "B/value", engines[1].name,
			    sums[1][k].bytes / sums[1][k].values,
			    goal[k] > 0 ? BENCH_VALUE_MAX : BENCH_NONE, goal[k]);
	}
	for (k = 1; k < ENGINES; k++)
		bench_print("codec/mixed",
			    sums[0][MIXED_SHAPES].bytes / sums[0][MIXED_SHAPES].values, "B/value",
			    engines[k].name,
			    sums[k][MIXED_SHAPES].bytes / sums[k][MIXED_SHAPES].values,
			    BENCH_RATIO_MAX, 1);
}

static double speed(const struct sums *s, bool put)
{
	return s->values / (put ? s->put : s->get) * 1e-6;
}

static void print_speed(struct sums sums[ROUNDS][ENGINES][MIXED_SHAPES + 1], bool put)
{
	double ours[ROUNDS], peer[ROUNDS];
	unsigned k, i;

	for (k = 1; k < ENGINES; k++) {
		for (i = 0; i < ROUNDS; i++) {
			ours[i] = speed(&sums[i][0][MIXED_SHAPES], put);
			peer[i] = speed(&sums[i][k][MIXED_SHAPES], put);
		}
		bench_print(put ? "codec/encode" : "codec/decode", bench_median(ours, ROUNDS),
			    "M values/s", engines[k].name, bench_median(peer, ROUNDS),
			    BENCH_VALUE_MIN, put ? 20 : 300);
	}
}

/* The times that all series share: evenly distributed, so log2 of the range at best. */
static void print_times(void)
{
	static int64_t t[MIXED_POINTS], back[CHUNK];

	mixed_times(SEED, 1700000000000000000, t, MIXED_POINTS);
	buf_reset(&out);
	if (column_put_ints(&codec, &out, t, CHUNK) < 0 ||
	    column_get_ints(&codec, (unsigned char *)out.data, out.len, CHUNK, back) ||
	    memcmp(t, back, sizeof(back)) != 0)
		bench_die("times", NULL);
	bench_print("codec/times", (double)out.len / CHUNK, "B/value", "entropy of the jitter",
		    log2(2 * MIXED_JITTER_NS + 1) / 8, BENCH_RATIO_MAX, 1.01);
}

int main(void)
{
	static struct sums sums[ROUNDS][ENGINES][MIXED_SHAPES + 1];
	double *all = malloc(MIXED_SERIES * MIXED_POINTS * sizeof(*all));
	unsigned char *bytes = malloc(MIXED_SERIES * MIXED_POINTS * 16 + ROOM);
	unsigned k, i;

	cctx = ZSTD_createCCtx();
	dctx = ZSTD_createDCtx();
	if (!all || !bytes || !cctx || !dctx)
		bench_die("out of memory", NULL);
	column_codec_init(&codec);
	buf_init(&out, 1 << 20);
	for (k = 0; k < MIXED_SERIES; k++)
		mixed_values(SEED, k, all + (size_t)k * MIXED_POINTS, MIXED_POINTS);
	for (i = 0; i < ROUNDS; i++)
		for (k = 0; k < ENGINES; k++)
			measure(&engines[k], all, bytes, sums[i][k]);
	print_bytes(sums[0]);
	print_times();
	print_speed(sums, true);
	print_speed(sums, false);
	column_codec_done(&codec);
	buf_done(&out);
	ZSTD_freeCCtx(cctx);
	ZSTD_freeDCtx(dctx);
	free(all);
	free(bytes);
	return 0;
}

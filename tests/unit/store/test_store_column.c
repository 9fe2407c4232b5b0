/* SPDX-License-Identifier: Apache-2.0
 *
 * test_store_column.c - the column codec: awkward numbers bit for bit, sizes against
 * entropies, damaged bytes, memory that runs out. With AVX2 and without, which must agree.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/column.h"
#include "storetest.h"

static struct column_codec fast, plain = {.portable = true};
static struct buf out, other;
static uint64_t state;

static int setup(void **unused)
{
	(void)unused;
	column_codec_init(&fast);
	buf_init(&out, 1 << 20);
	buf_init(&other, 1 << 20);
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	column_codec_done(&fast);
	column_codec_done(&plain);
	buf_done(&out);
	buf_done(&other);
	return 0;
}

/* ---- memory that runs out ------------------------------------------------------------ */

static int alloc_left = -1; /* allocations that still work; -1: all */

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool alloc_fails(void)
{
	if (alloc_left < 0)
		return false;
	return alloc_left-- == 0 ? (alloc_left = 0, true) : false;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return alloc_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return alloc_fails() ? NULL : __real_realloc(p, size);
}

static void test_no_memory(void **unused)
{
	static const double v[] = {1, 2, 4, 8, 16};
	struct column_codec c;
	double back[5];
	struct buf b;
	int left, worked = 0;

	(void)unused;
	for (left = 0; left < 8 && !worked; left++) {
		column_codec_init(&c);
		buf_init(&b, 1 << 20);
		alloc_left = left;
		if (column_put_values(&c, &b, v, 5) == 0)
			worked = 1;
		else
			assert_int_equal(b.len, 0);
		alloc_left = -1;
		column_codec_done(&c);
		buf_done(&b);
	}
	assert_true(worked && left > 2);
	buf_reset(&out);
	assert_int_equal(column_put_values(&fast, &out, v, 5), 0);
	column_codec_init(&c);
	alloc_left = 0;
	assert_string_equal(column_get_values(&c, (unsigned char *)out.data, out.len, 5, back),
			    "out of memory");
	alloc_left = -1;
	column_codec_done(&c);
}

static void test_no_room(void **unused)
{
	double v[1000];
	struct buf b;
	size_t i;

	(void)unused;
	for (i = 0; i < 1000; i++)
		v[i] = (double)(i * i % 977) / 7;
	buf_init(&b, 100);
	buf_append(&b, "before", 6);
	assert_int_equal(column_put_values(&fast, &b, v, 1000), -EFBIG);
	assert_int_equal(b.len, 6);
	assert_int_equal(column_put_values(&fast, &b, v, 0), -EINVAL);
	assert_int_equal(column_put_values(&fast, &b, v, COLUMN_MAX + 1), -EINVAL);
	assert_int_equal(column_put_ints(&fast, &b, (int64_t *)v, 0), -EINVAL);
	assert_int_equal(column_put_ints(&fast, &b, (int64_t *)v, COLUMN_MAX + 1), -EINVAL);
	assert_memory_equal(b.data, "before", 6);
	buf_done(&b);
}

/* ---- round trips ----------------------------------------------------------------------- */

static uint64_t random64(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double random_unit(void)
{
	return (double)(random64() >> 11) * 0x1p-53;
}

static double random_normal(void)
{
	return sqrt(-2 * log(1 - random_unit())) * cos(6.283185307179586 * random_unit());
}

/* Streams of doubles, taken as integers too: kind, position, number before. */
#define KINDS 34

static double stream_odd(unsigned kind, size_t i, double last)
{
	static const uint64_t odd[] = {0x7ff8000000000000, 0xfff8000000000000,
				       0x7ff0000000000001, 0x7ff0000000000000,
				       0xfff0000000000000, 0x8000000000000000,
				       0x7ff0000000000002, 1,
				       0x8000000000000001, 0};

	switch (kind) {
	case 0: /* any bits */
		return storetest_double(random64());
	case 1: /* odd ones only */
		return storetest_double(odd[random64() % 10]);
	case 2: /* decimals with odd ones between */
		return random64() % 20 ? (double)(random64() % 1000) / 100
				       : storetest_double(odd[i % 10]);
	case 3: /* floats likewise */
		return random64() % 20 ? (double)(float)random_normal()
				       : storetest_double(odd[i % 8]);
	case 4: /* NaN in long runs */
		return i / 300 % 2 ? storetest_double(odd[i / 600 % 3]) : 0.25 * (double)i;
	case 5: /* denormals */
		return storetest_double(random64() >> 13 | (random64() & 1ull << 63));
	case 6: /* NaN payloads that count */
		return storetest_double(0x7ff8000000000000 + i);
	case 7: /* both zeros */
		return random64() % 2 ? 0.0 : -0.0;
	case 8: /* far apart */
		return ldexp(random_normal(), (int)(random64() % 2000) - 1000);
	case 9: /* nearly constant */
		return random64() % 500 ? 3.14 : last + 1e300;
	default: /* constant but for the last bit of one */
		return storetest_double(0x4000000000000000 + (i == 77));
	}
}

static double stream_even(unsigned kind, size_t i, double last)
{
	switch (kind) {
	case 11:
		return (double)i;
	case 12:
		return last + rint(1000 * random_normal());
	case 13:
		return rint(1e6 * random_normal()) / 1e3;
	case 14:
		return (double)(random64() % 4096);
	case 15: /* magnitudes around the limits of decimals */
		return ldexp(1, 50 + (int)(i % 4)) - (double)(random64() % 8) / 2;
	case 16:
		return (double)(i % 97) * 0.1;
	case 17: /* arbitrary numbers that repeat */
		return sqrt((double)(2 + i % 200));
	case 18: /* likewise, more than a dictionary holds */
		return sqrt((double)(2 + i % 700));
	case 19: /* likewise, at random */
		return sqrt((double)(2 + random64() % 250));
	case 20: /* steps */
		return i % 37 ? last : random_normal();
	case 21: /* one in 100 differs */
		return random64() % 100 == 0;
	case 22:
		return 1e-4 * (0.5 + 0.5 * cos(3.14159265 * (double)i / 8192));
	case 23: /* bfloat16, both signs */
		return (double)(float)storetest_double((uint64_t)(random64() % 1000) << 45 |
						       (random64() & 1) << 63 | 0x3fe0000000000000);
	default:
		return 4096 * rint(100 * random_normal());
	}
}

static double stream_int(unsigned kind, size_t i, uint64_t last)
{
	switch (kind) {
	case 25: /* times of a timer */
		return storetest_double(1700000000000000000u + i * 1000000000 +
					random64() % 8000000);
	case 26: /* steps, some none */
		return storetest_double(random64() % 3 ? i : 1ull << 63);
	case 27: /* none at both ends */
		return storetest_double(i < 5 || i > 90 ? 1ull << 63 : 1000 + i);
	case 28: /* extremes */
		return storetest_double(random64() % 2 ? (uint64_t)INT64_MAX : 1 + (1ull << 63));
	case 29: /* of a few threads */
		return storetest_double(40000 + random64() % 4);
	case 30: /* a walk with jumps */
		return storetest_double(last + random64() % 64 +
					(random64() % 256 ? 0 : random64() >> 9));
	case 31: /* every width */
		return storetest_double(random64() >> random64() % 64);
	case 32: /* a cycle of large ones */
		return storetest_double((i % 50) * 0x123456789abcdefu);
	default: /* steps that begin anew */
		return storetest_double(i < 60 ? i : i - 50);
	}
}

static void make_stream(unsigned kind, double *v, size_t n)
{
	uint64_t bits;
	size_t i;

	state = kind * 1000003u + n;
	for (i = 0; i < n; i++) {
		memcpy(&bits, i ? &v[i - 1] : &(double){0}, 8);
		if (kind < 11)
			v[i] = stream_odd(kind, i, i ? v[i - 1] : 0);
		else if (kind < 25)
			v[i] = stream_even(kind, i, i ? v[i - 1] : 0);
		else
			v[i] = stream_int(kind, i, bits);
	}
}

/* There and back by each path; what is in the buffer before stays. */
static void round_trip(const double *v, size_t n)
{
	static double back[COLUMN_MAX];
	const unsigned char *p;
	unsigned char *exact;
	size_t len;
	int ints;

	for (ints = 0; ints < 2; ints++) {
		buf_reset(&out);
		buf_reset(&other);
		buf_append(&out, "x", 1);
		assert_int_equal(ints ? column_put_ints(&fast, &out, (const int64_t *)v, n)
				      : column_put_values(&fast, &out, v, n),
				 0);
		assert_int_equal(ints ? column_put_ints(&plain, &other, (const int64_t *)v, n)
				      : column_put_values(&plain, &other, v, n),
				 0);
		len = out.len - 1;
		p = (unsigned char *)out.data + 1;
		assert_true(out.data[0] == 'x' && len <= 1 + 8 * n);
		assert_int_equal(len, other.len);
		assert_memory_equal(p, other.data, len);
		exact = malloc(len);
		assert_non_null(exact);
		memcpy(exact, p, len);
		memset(back, 0xa5, sizeof(back));
		assert_null(ints ? column_get_ints(&fast, exact, len, n, (int64_t *)back)
				 : column_get_values(&fast, exact, len, n, back));
		assert_memory_equal(back, v, n * 8);
		memset(back, 0xa5, sizeof(back));
		assert_null(ints ? column_get_ints(&plain, exact, len, n, (int64_t *)back)
				 : column_get_values(&plain, exact, len, n, back));
		assert_memory_equal(back, v, n * 8);
		free(exact);
		buf_append(&out, "", 1); /* a byte more is not a column */
		p = (unsigned char *)out.data + 1;
		assert_non_null(ints ? column_get_ints(&fast, p, len + 1, n, (int64_t *)back)
				     : column_get_values(&fast, p, len + 1, n, back));
	}
}

static void test_round_trips(void **unused)
{
	static const size_t sizes[] = {1,    2,    3,    4,    5,    6,   7,   8,   9,
				       15,   16,   17,   31,   33,   63,  64,  65,  100,
				       127,  255,  256,  257,  511,  768, 769, 800, 1023,
				       1024, 1025, 2000, 4095, 8191, 8192};
	static double v[COLUMN_MAX];
	unsigned kind;
	size_t i;

	(void)unused;
	for (kind = 0; kind < KINDS; kind++) {
		for (i = 0; i < ARRAY_LEN(sizes); i++) {
			make_stream(kind, v, sizes[i]);
			round_trip(v, sizes[i]);
		}
	}
}

/* ---- sizes ------------------------------------------------------------------------------ */

static double bits_each(const double *v, size_t n)
{
	buf_reset(&out);
	assert_int_equal(column_put_values(&fast, &out, v, n), 0);
	return 8 * (double)out.len / (double)n;
}

/* Within little of the entropy, which is known for these. */
static void test_sizes(void **unused)
{
	static double v[COLUMN_MAX];
	size_t i;

	(void)unused;
	state = 1;
	for (i = 0; i < COLUMN_MAX; i++)
		v[i] = (double)(random64() % 4096) / 1000;
	assert_true(bits_each(v, COLUMN_MAX) < 12.02); /* log2 4096 */
	for (i = 0; i < COLUMN_MAX; i++)
		v[i] = (double)(random64() % 3000);
	assert_true(bits_each(v, COLUMN_MAX) < 11.551 * 1.01); /* log2 3000 */
	for (i = 0; i < COLUMN_MAX; i++)
		v[i] = random64() % 100 == 0;
	assert_true(bits_each(v, COLUMN_MAX) < 0.0808 * 1.3); /* one in 100: 0.0808 */
	for (i = 0; i < COLUMN_MAX; i++)
		v[i] = rint(1000 * random_normal());
	assert_true(bits_each(v, COLUMN_MAX) < 12.013 * 1.01); /* log2(1000 sqrt(2 pi e)) */
	for (i = 0; i < COLUMN_MAX; i++)
		v[i] = (i ? v[i - 1] : 0) + 0.125 + rint(random_normal()) / 8;
	assert_true(bits_each(v, COLUMN_MAX) < 2.105 * 1.04); /* normal, rounded to whole */
	for (i = 0; i < COLUMN_MAX; i++) /* slow trend and noise: not doubled by differences */
		v[i] = 100 * (double)i + 4000 * sin((double)i / 1500) + rint(250 * random_normal());
	for (i = 0; i < COLUMN_MAX; i++)
		v[i] = rint(v[i]);
	assert_true(bits_each(v, COLUMN_MAX) < 10.013 + 0.25); /* of the noise: 10.013 */
	for (i = 0; i < COLUMN_MAX; i++)
		v[i] = (double)(i * i * i);
	assert_true(out.len > 0 && bits_each(v, COLUMN_MAX) * COLUMN_MAX < 8 * 32);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void decode_damaged(const unsigned char *p, size_t len, size_t n)
{
	static uint64_t a[COLUMN_MAX], b[COLUMN_MAX];
	const char *x, *y;

	x = column_get_values(&fast, p, len, n, (double *)a);
	y = column_get_values(&plain, p, len, n, (double *)b);
	assert_true(!x == !y);
	if (!x)
		assert_memory_equal(a, b, n * 8);
	x = column_get_ints(&fast, p, len, n, (int64_t *)a);
	y = column_get_ints(&plain, p, len, n, (int64_t *)b);
	assert_true(!x == !y);
	if (!x)
		assert_memory_equal(a, b, n * 8);
}

static void damage(const double *v, size_t n, unsigned kind)
{
	unsigned char *copy;
	size_t i, len, at;

	buf_reset(&out);
	if (kind < 25)
		assert_int_equal(column_put_values(&fast, &out, v, n), 0);
	else
		assert_int_equal(column_put_ints(&fast, &out, (const int64_t *)v, n), 0);
	for (i = 0; i < 400; i++) {
		len = i % 4 ? out.len : random64() % out.len + 1;
		copy = malloc(len); /* exact: a sanitizer sees what is read past it */
		assert_non_null(copy);
		memcpy(copy, out.data, len);
		at = random64() % 3 ? random64() % (len < 40 ? len : 40) : random64() % len;
		copy[at] ^= (unsigned char)(i % 2 ? 1u << random64() % 8 : random64());
		decode_damaged(copy, len, n);
		if (i % 16 == 0)
			decode_damaged(copy, len, 1 + random64() % COLUMN_MAX);
		free(copy);
	}
}

static void test_damage(void **unused)
{
	static double v[COLUMN_MAX];
	int64_t one;
	unsigned kind;

	(void)unused;
	for (kind = 0; kind < KINDS; kind++) {
		make_stream(kind, v, 100);
		damage(v, 100, kind);
		make_stream(kind, v, 1100);
		damage(v, 1100, kind);
	}
	assert_non_null(column_get_ints(&fast, (unsigned char *)"", 0, 1, &one));
	assert_non_null(column_get_ints(&fast, (unsigned char *)"", 1, 0, &one));
}

/* 2,000 numbers of 10 bits, most of them of 8: symbols would save some, less than a
 * fifth; an encoder for fast decoding writes the 10 bits, one for few bytes does not. */
static void test_fast_to_decode(void **unused)
{
	struct column_codec c = {.plain = true};
	static int64_t v[2000], back[2000];
	const unsigned char *p = NULL;
	unsigned kind;
	size_t i;

	(void)unused;
	for (i = 0; i < 2000; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		v[i] = (int64_t)(state >> (i % 8 ? 56 : 54));
	}
	v[0] = 0;
	v[8] = 1023;
	for (kind = 0; kind < 2; kind++) {
		buf_reset(&out);
		assert_int_equal(column_put_ints(kind ? &c : &fast, &out, v, 2000), 0);
		p = (const unsigned char *)out.data;
		assert_true(p[0] == 5 && p[1] == 0); /* integers as they are */
		assert_int_equal(p[2] & 64, kind ? 0 : 64);
		assert_null(column_get_ints(&fast, p, out.len, 2000, back));
		assert_memory_equal(v, back, sizeof(v));
	}
	assert_true(p[2] == 10 && p[3] == 0); /* 10 bits each, from 0 */
	assert_int_equal(out.len, 4 + 2000 * 10 / 8);
	column_codec_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips), cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_damage),      cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_no_room),     cmocka_unit_test(test_fast_to_decode),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

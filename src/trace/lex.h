/* SPDX-License-Identifier: Apache-2.0
 *
 * lex.h - the few searches in JSON text that run over every byte, by vectors
 * of what the translation unit is compiled for: AVX2, SSE2, NEON or plain words.
 * All may read up to LEX_PAD bytes past the place that they stop at.
 */
#ifndef TRACE_LEX_H
#define TRACE_LEX_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LEX_PAD 64 /* zero bytes that lie behind every text that is scanned */

#if defined(LEX_PORTABLE)
#define LEX_STEP 8
#elif defined(__AVX2__)
#include <immintrin.h>
#define LEX_STEP 32
#elif defined(__SSE2__)
#include <emmintrin.h>
#define LEX_STEP 16
#elif defined(__aarch64__)
#include <arm_neon.h>
#define LEX_STEP 16
#else
#define LEX_STEP 8
#endif

#define LEX_ALL ((uint32_t)((1ull << LEX_STEP) - 1))

static inline uint64_t lex_load64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

#if LEX_STEP == 8
/* High bit of each byte of v that equals c; exact for every byte. */
static inline uint64_t lex_word_eq(uint64_t v, unsigned char c)
{
	uint64_t x = v ^ (0x0101010101010101u * c);
	uint64_t low = (x & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu;

	return ~(low | x | 0x7f7f7f7f7f7f7f7fu);
}

/* One bit a byte, lowest first, from one high bit a byte. */
static inline uint32_t lex_word_bits(uint64_t m)
{
	return (uint32_t)(((m >> 7) * 0x0102040810204080u) >> 56);
}
#endif

#if LEX_STEP == 16 && defined(__aarch64__) && !defined(LEX_PORTABLE)
static inline uint32_t lex_neon_bits(uint8x16_t m)
{
	static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128,
					    1, 2, 4, 8, 16, 32, 64, 128};
	uint8x16_t v = vandq_u8(m, vld1q_u8(weights));

	return vaddv_u8(vget_low_u8(v)) | (uint32_t)vaddv_u8(vget_high_u8(v)) << 8;
}
#endif

/* Bits of the LEX_STEP bytes at a and b that are equal. */
static inline uint32_t lex_same(const unsigned char *a, const unsigned char *b)
{
#if LEX_STEP == 32
	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(
		_mm256_loadu_si256((const void *)a), _mm256_loadu_si256((const void *)b)));
#elif LEX_STEP == 16 && defined(__SSE2__)
	return (uint32_t)_mm_movemask_epi8(
		_mm_cmpeq_epi8(_mm_loadu_si128((const void *)a), _mm_loadu_si128((const void *)b)));
#elif LEX_STEP == 16
	return lex_neon_bits(vceqq_u8(vld1q_u8(a), vld1q_u8(b)));
#else
	uint64_t differ = lex_load64(a) ^ lex_load64(b);

	return lex_word_bits(lex_word_eq(differ, 0));
#endif
}

/* Bits of the LEX_STEP bytes at p that are " or \. */
static inline uint32_t lex_quotes(const unsigned char *p)
{
#if LEX_STEP == 32
	__m256i v = _mm256_loadu_si256((const void *)p);
	__m256i m = _mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')),
				    _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\')));

	return (uint32_t)_mm256_movemask_epi8(m);
#elif LEX_STEP == 16 && defined(__SSE2__)
	__m128i v = _mm_loadu_si128((const void *)p);
	__m128i m = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
				 _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));

	return (uint32_t)_mm_movemask_epi8(m);
#elif LEX_STEP == 16
	uint8x16_t v = vld1q_u8(p);

	return lex_neon_bits(vorrq_u8(vceqq_u8(v, vdupq_n_u8('"')), vceqq_u8(v, vdupq_n_u8('\\'))));
#else
	uint64_t v = lex_load64(p);

	return lex_word_bits(lex_word_eq(v, '"') | lex_word_eq(v, '\\'));
#endif
}

/* Bits of the LEX_STEP bytes at p that are " [ ] { or }. */
static inline uint32_t lex_brackets(const unsigned char *p)
{
	/* '[' and '{', ']' and '}' differ by 0x20. */
#if LEX_STEP == 32
	__m256i v = _mm256_loadu_si256((const void *)p);
	__m256i w = _mm256_or_si256(v, _mm256_set1_epi8(0x20));
	__m256i m = _mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')),
				    _mm256_or_si256(_mm256_cmpeq_epi8(w, _mm256_set1_epi8('{')),
						    _mm256_cmpeq_epi8(w, _mm256_set1_epi8('}'))));

	return (uint32_t)_mm256_movemask_epi8(m);
#elif LEX_STEP == 16 && defined(__SSE2__)
	__m128i v = _mm_loadu_si128((const void *)p);
	__m128i w = _mm_or_si128(v, _mm_set1_epi8(0x20));
	__m128i m = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
				 _mm_or_si128(_mm_cmpeq_epi8(w, _mm_set1_epi8('{')),
					      _mm_cmpeq_epi8(w, _mm_set1_epi8('}'))));

	return (uint32_t)_mm_movemask_epi8(m);
#elif LEX_STEP == 16
	uint8x16_t v = vld1q_u8(p);
	uint8x16_t w = vorrq_u8(v, vdupq_n_u8(0x20));

	return lex_neon_bits(
		vorrq_u8(vceqq_u8(v, vdupq_n_u8('"')),
			 vorrq_u8(vceqq_u8(w, vdupq_n_u8('{')), vceqq_u8(w, vdupq_n_u8('}')))));
#else
	uint64_t v = lex_load64(p);
	uint64_t w = v | 0x2020202020202020u;

	return lex_word_bits(lex_word_eq(v, '"') | lex_word_eq(w, '{') | lex_word_eq(w, '}'));
#endif
}

/* Are n bytes equal? Reads up to LEX_STEP - 1 bytes behind both. */
static inline bool lex_equal(const unsigned char *a, const unsigned char *b, size_t n)
{
	for (; n >= LEX_STEP; n -= LEX_STEP, a += LEX_STEP, b += LEX_STEP)
		if (lex_same(a, b) != LEX_ALL)
			return false;
	return !(~lex_same(a, b) & ((1u << n) - 1));
}

/* The first " or \ at p or later; end or later if there is none before. */
static inline const unsigned char *lex_string(const unsigned char *p, const unsigned char *end)
{
	for (; p < end; p += LEX_STEP) {
		uint32_t m = lex_quotes(p);

		if (m)
			return p + __builtin_ctz(m);
	}
	return end;
}

static inline bool lex_is_space(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* A character of a number, or of a word without quotes such as N/A. */
static inline bool lex_is_word(unsigned char c)
{
	static const bool words[256] = {
		['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['-'] = true,
		['+'] = true,         ['.'] = true,         ['/'] = true,         ['_'] = true,
	};

	return words[c];
}

static inline const unsigned char *lex_space(const unsigned char *p)
{
	while (lex_is_space(*p))
		p++;
	return p;
}

#endif

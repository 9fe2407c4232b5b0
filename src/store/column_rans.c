/* SPDX-License-Identifier: Apache-2.0
 *
 * column_rans.c - an entropy coder for the symbols of a column: range asymmetric
 * numeral systems (Duda), static frequencies, states of 32 bits that give off 16
 * at a time, eight interleaved so that the processor can work on all at once.
 */
#include "store/column_priv.h"

#define RANS_LOW 65536u  /* states are in [2^16, 2^32) */
#define RANS_SMALL 1024u /* fewer symbols: one lane, coarser frequencies */
#define RANS_LEVELS 57u  /* 0: does not occur; l: about 2^((l - 1) / 4) times */
#define RANS_GOLOMB_MAX 3u

static inline unsigned rans_bits(size_t n)
{
	return n < RANS_SMALL ? COLUMN_RANS_BITS - 2 : COLUMN_RANS_BITS;
}

/* ---- frequencies ----------------------------------------------------------- */

static uint32_t rans_weight(unsigned level)
{
	static const uint32_t quarter[4] = {16, 19, 23, 27};

	return level ? quarter[(level - 1) % 4] << (level - 1) / 4 : 0;
}

/* The level whose weight is nearest to 16 * count. */
static unsigned rans_level(uint32_t count)
{
	unsigned level;

	if (!count)
		return 0;
	level = 4 * (31 - (unsigned)__builtin_clz(count)) + 1;
	while (level < RANS_LEVELS - 1 && rans_weight(level) + rans_weight(level + 1) <= 32 * count)
		level++;
	return level;
}

/* Frequencies that add up to 2^bits, at least 1 for what occurs; both sides do the
 * same. False unless two symbols or more occur. */
static bool rans_normalise(const uint8_t *level, unsigned bits, uint32_t *freq)
{
	uint64_t total = 0;
	uint32_t sum = 0, goal = 1u << bits, floor, before;
	unsigned i, kinds = 0;

	for (i = 0; i < COLUMN_SYMBOLS; i++) {
		total += rans_weight(level[i]);
		kinds += level[i] != 0;
	}
	if (kinds < 2)
		return false;
	for (i = 0; i < COLUMN_SYMBOLS; sum += freq[i++]) {
		freq[i] = 0;
		if (!level[i])
			continue;
		freq[i] =
			(uint32_t)((((uint64_t)rans_weight(level[i]) << bits) + total / 2) / total);
		freq[i] = freq[i] ? freq[i] : 1;
	}
	/* Rounding is evened out by those at or above the average. */
	for (floor = goal / kinds; sum != goal; floor = sum == before ? 1 : floor) {
		before = sum;
		for (i = 0; i < COLUMN_SYMBOLS && sum != goal; i++) {
			if (freq[i] < floor || freq[i] == 0)
				continue;
			freq[i] += sum < goal ? 1u : (uint32_t)-1;
			sum += sum < goal ? 1u : (uint32_t)-1;
		}
	}
	return true;
}

/* ---- table of levels: Golomb codes of the changes ---------------------------- */

struct rans_writer {
	unsigned char *p;
	uint64_t acc;
	unsigned fill;
};

static void rans_write(struct rans_writer *w, uint32_t v, unsigned bits)
{
	w->acc |= (uint64_t)v << w->fill;
	for (w->fill += bits; w->fill >= 8; w->fill -= 8) {
		*w->p++ = (unsigned char)w->acc;
		w->acc >>= 8;
	}
}

/* v of exponential Golomb code k: how many bits follow the leading zeros and the 1. */
static inline unsigned rans_golomb(uint32_t v, unsigned k)
{
	return 31 - (unsigned)__builtin_clz(v + (1u << k));
}

static inline uint32_t rans_change(unsigned now, unsigned before)
{
	int d = (int)now - (int)before;

	return (uint32_t)(d < 0 ? -2 * d - 1 : 2 * d);
}

static void rans_put_levels(struct buf *b, const uint8_t *level)
{
	unsigned char bytes[2 + COLUMN_SYMBOLS * 3];
	unsigned first = 0, last = COLUMN_SYMBOLS - 1, i, k, n, best = 0, prev;
	unsigned cost[RANS_GOLOMB_MAX + 1] = {0};
	struct rans_writer w = {bytes + 2, 0, 0};
	uint32_t v;

	while (!level[first])
		first++;
	while (!level[last])
		last--;
	for (k = 0; k <= RANS_GOLOMB_MAX; k++) {
		for (i = first, prev = 1; i <= last; prev = level[i++])
			cost[k] += 2 * rans_golomb(rans_change(level[i], prev), k) + 1 - k;
		best = cost[k] < cost[best] ? k : best;
	}
	bytes[0] = (unsigned char)first;
	bytes[1] = (unsigned char)last;
	rans_write(&w, best, 2);
	for (i = first, prev = 1; i <= last; prev = level[i++]) {
		v = rans_change(level[i], prev) + (1u << best);
		n = rans_golomb(v - (1u << best), best);
		rans_write(&w, 1u << (n - best), n - best + 1);
		rans_write(&w, v & ((1u << n) - 1), n);
	}
	rans_write(&w, 0, 7);
	buf_append(b, bytes, (size_t)(w.p - bytes));
}

/* Next bits of a table that is not read past its end; -1 at the end. */
struct rans_reader {
	struct cur *c;
	unsigned byte, left;
};

static int rans_bit(struct rans_reader *r)
{
	int bit;

	if (!r->left) {
		if (r->c->p == r->c->end)
			return -1;
		r->byte = *r->c->p++;
		r->left = 8;
	}
	bit = (int)(r->byte & 1);
	r->byte >>= 1;
	r->left--;
	return bit;
}

static int rans_number(struct rans_reader *r, unsigned bits)
{
	unsigned i;
	int bit, v = 0;

	for (i = 0; i < bits; i++) {
		bit = rans_bit(r);
		if (bit < 0)
			return -1;
		v |= bit << i;
	}
	return v;
}

static int rans_get_golomb(struct rans_reader *r, unsigned k)
{
	unsigned zeros = 0;
	int bit, v;

	while ((bit = rans_bit(r)) == 0)
		if (++zeros > 7)
			return -1;
	if (bit < 0)
		return -1;
	v = rans_number(r, zeros + k);
	return v < 0 ? -1 : v + (1 << (zeros + k)) - (1 << k);
}

static const char *rans_get_levels(struct cur *c, uint8_t *level)
{
	const unsigned char *ends = cur_bytes(c, 2);
	struct rans_reader r = {c, 0, 0};
	int k, v, now = 1;
	unsigned i;

	if (!ends || ends[0] > ends[1] || ends[1] >= COLUMN_SYMBOLS)
		return "the symbols of a column are impossible";
	memset(level, 0, COLUMN_SYMBOLS);
	k = rans_number(&r, 2);
	for (i = ends[0]; i <= ends[1]; i++) {
		v = k < 0 ? -1 : rans_get_golomb(&r, (unsigned)k);
		if (v < 0)
			return "the frequencies of a column are cut short";
		now += v & 1 ? -((v + 1) / 2) : v / 2;
		if (now < 0 || now >= (int)RANS_LEVELS)
			return "the frequencies of a column are impossible";
		level[i] = (uint8_t)now;
	}
	return NULL;
}

/* ---- encoder ------------------------------------------------------------------ */

/* One symbol: dividing by its frequency is multiplying by rcp and taking the upper
 * 64 bits; a frequency of 1 gives the quotient less 1, which bias makes good. */
struct rans_symbol {
	uint64_t rcp;
	uint32_t bias, rest, max;
};

static void rans_symbols(const uint32_t *freq, unsigned bits, struct rans_symbol *sym)
{
	uint32_t start = 0, i;

	for (i = 0; i < COLUMN_SYMBOLS; start += freq[i++]) {
		if (!freq[i])
			continue;
		sym[i].max = freq[i] << (32 - bits);
		sym[i].rest = (1u << bits) - freq[i];
		sym[i].rcp = freq[i] == 1 ? UINT64_MAX : UINT64_MAX / freq[i] + 1;
		sym[i].bias = start + (freq[i] == 1 ? sym[i].rest : 0);
	}
}

static inline uint32_t rans_encode(const struct rans_symbol *s, uint32_t x, uint16_t **to)
{
	uint64_t q;
	bool full = x >= s->max;

	(*to)[-1] = htole16((uint16_t)x);
	*to -= full;
	x = full ? x >> 16 : x;
	q = (uint64_t)(((unsigned __int128)x * s->rcp) >> 64);
	return x + s->bias + (uint32_t)q * s->rest;
}

/* Encode from the last symbol to the first; returns the first word. */
static uint16_t *rans_encode_all(struct column_work *w, const struct rans_symbol *sym, size_t n,
				 uint32_t *x)
{
	uint16_t *to = w->words + sizeof(w->words) / sizeof(w->words[0]);
	const uint8_t *s = w->sym;
	size_t i = n, k;

	for (k = 0; k < COLUMN_RANS_LANES; k++)
		x[k] = RANS_LOW;
	for (; n < RANS_SMALL && i > 0; i--)
		x[0] = rans_encode(&sym[s[i - 1]], x[0], &to);
	for (; i % COLUMN_RANS_LANES; i--)
		x[(i - 1) % COLUMN_RANS_LANES] =
			rans_encode(&sym[s[i - 1]], x[(i - 1) % COLUMN_RANS_LANES], &to);
	for (; i > 0; i -= COLUMN_RANS_LANES)
		for (k = COLUMN_RANS_LANES; k-- > 0;)
			x[k] = rans_encode(&sym[s[i - COLUMN_RANS_LANES + k]], x[k], &to);
	return to;
}

void column_rans_put(struct column_work *w, struct buf *b, size_t n)
{
	size_t lanes = n < RANS_SMALL ? 1 : COLUMN_RANS_LANES, i, words;
	uint32_t freq[COLUMN_SYMBOLS], x[COLUMN_RANS_LANES];
	struct rans_symbol sym[COLUMN_SYMBOLS];
	uint8_t level[COLUMN_SYMBOLS];
	const uint16_t *from;

	for (i = 0; i < COLUMN_SYMBOLS; i++)
		level[i] = (uint8_t)rans_level(w->hist[i]);
	rans_normalise(level, rans_bits(n), freq);
	rans_symbols(freq, rans_bits(n), sym);
	from = rans_encode_all(w, sym, n, x);
	words = (size_t)(w->words + sizeof(w->words) / sizeof(w->words[0]) - from);
	rans_put_levels(b, level);
	buf_uvarint(b, words);
	for (i = 0; i < lanes; i++)
		x[i] = htole32(x[i]);
	buf_append(b, x, lanes * sizeof(x[0]));
	buf_append(b, from, words * sizeof(*from));
}

/* ---- decoder ------------------------------------------------------------------ */

static void rans_slots(const uint32_t *freq, uint32_t *slot)
{
	uint32_t i, k;

	for (i = 0; i < COLUMN_SYMBOLS; i++)
		for (k = 0; k < freq[i]; k++)
			*slot++ = freq[i] << 20 | k << 8 | i;
}

struct rans_words {
	const unsigned char *p, *end;
	bool over; /* more words were asked for than there are */
};

static inline uint32_t rans_step(uint32_t x, uint32_t slot, unsigned bits)
{
	return (slot >> 20) * (x >> bits) + (slot >> 8 & 0xfff);
}

/* One symbol, at the end of the words. */
static uint32_t rans_decode_one(const struct column_work *w, uint32_t x, unsigned bits,
				struct rans_words *in, uint8_t *out)
{
	uint32_t slot = w->slots[x & ((1u << bits) - 1)];

	*out = (uint8_t)slot;
	x = rans_step(x, slot, bits);
	if (x >= RANS_LOW)
		return x;
	if (in->end - in->p < 2) {
		in->over = true;
		return x;
	}
	x = x << 16 | in->p[0] | (uint32_t)in->p[1] << 8;
	in->p += 2;
	return x;
}

/* Symbols by eights while there are words for all of them; returns how many. */
static size_t rans_decode_lanes(struct column_work *w, struct rans_words *in, size_t n,
				uint32_t *lanes)
{
	const uint32_t *slots = w->slots;
	const unsigned char *p = in->p, *stop = in->end - 2 * COLUMN_RANS_LANES;
	uint32_t x[COLUMN_RANS_LANES], slot, take;
	uint8_t *out = w->sym;
	uint16_t word;
	size_t i, k;

	memcpy(x, lanes, sizeof(x));
	for (i = 0; i + COLUMN_RANS_LANES <= n && p <= stop; i += COLUMN_RANS_LANES) {
#pragma GCC unroll 8
		for (k = 0; k < COLUMN_RANS_LANES; k++) {
			slot = slots[x[k] & ((1u << COLUMN_RANS_BITS) - 1)];
			out[i + k] = (uint8_t)slot;
			x[k] = rans_step(x[k], slot, COLUMN_RANS_BITS);
			memcpy(&word, p, 2);
			/* Without a branch, which nobody could foresee. */
			take = x[k] < RANS_LOW;
			x[k] = x[k] << 16 * take | (le16toh(word) & (0 - take));
			p += 2 * take;
		}
	}
	memcpy(lanes, x, sizeof(x));
	in->p = p;
	return i;
}

const char *column_rans_get(struct column_work *w, struct cur *c, size_t n)
{
	size_t lanes = n < RANS_SMALL ? 1 : COLUMN_RANS_LANES, i;
	uint32_t freq[COLUMN_SYMBOLS], x[COLUMN_RANS_LANES];
	uint8_t level[COLUMN_SYMBOLS];
	struct rans_words in = {0};
	const char *why = rans_get_levels(c, level);
	unsigned bits = rans_bits(n);
	const void *states;
	uint64_t words;

	if (why)
		return why;
	words = cur_uvarint(c);
	states = cur_bytes(c, lanes * sizeof(x[0]));
	if (c->error || words > n || !rans_normalise(level, bits, freq))
		return "the symbols of a column are impossible";
	in.p = cur_bytes(c, (size_t)words * 2);
	if (!in.p)
		return "the symbols of a column are cut short";
	in.end = in.p + words * 2;
	memcpy(x, states, lanes * sizeof(x[0]));
	for (i = 0; i < lanes; i++)
		x[i] = le32toh(x[i]);
	rans_slots(freq, w->slots);
	i = lanes > 1 && words >= lanes ? rans_decode_lanes(w, &in, n, x) : 0;
	for (; i < n; i++)
		x[i % lanes] = rans_decode_one(w, x[i % lanes], bits, &in, &w->sym[i]);
	for (i = 0; i < lanes; i++)
		in.over |= x[i] != RANS_LOW;
	return in.over || in.p != in.end ? "the symbols of a column do not come out even" : NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * view_sort.c - a radix sort of 64-bit keys: stable, and linear where traces have tens of
 * millions of rows. Bytes that are equal in all keys cost one look.
 */
#include "trace/view_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"

#define DIGIT_MOST 12u /* bits: destinations of one pass stay in the cache */

static void count_bytes(const struct view_key *keys, size_t n, size_t count[8][256])
{
	size_t i;
	int b;

	memset(count, 0, 8 * 256 * sizeof(count[0][0]));
	for (i = 0; i < n; i++)
		for (b = 0; b < 8; b++)
			count[b][keys[i].key >> (8 * b) & 255]++;
}

static bool is_sorted(const struct view_key *keys, size_t n)
{
	size_t i;

	for (i = 1; i < n; i++)
		if (keys[i].key < keys[i - 1].key)
			return false;
	return true;
}

void view_sort(struct view_key *keys, struct view_key *spare, size_t n)
{
	struct view_key *from = keys, *to = spare, *swap;
	size_t count[8][256], i, at, c;
	int b, d;

	if (is_sorted(keys, n))
		return;
	count_bytes(keys, n, count);
	for (b = 0; b < 8; b++) {
		if (count[b][from[0].key >> (8 * b) & 255] == n)
			continue;
		for (d = 0, at = 0; d < 256; d++) {
			c = count[b][d];
			count[b][d] = at;
			at += c;
		}
		for (i = 0; i < n; i++)
			to[count[b][from[i].key >> (8 * b) & 255]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	if (from != keys)
		memcpy(keys, from, n * sizeof(*keys));
}

/* ---- order by numbers ---------------------------------------------------------------- */

static unsigned bits_of(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

/* Sort by the bits from low on, of which there are so many. Returns v or spare. */
static uint64_t *sort_words(uint64_t *v, uint64_t *spare, size_t n, unsigned low, unsigned bits)
{
	unsigned passes = (bits + DIGIT_MOST - 1) / DIGIT_MOST;
	unsigned digit = (bits + passes - 1) / passes;
	uint64_t mask = (1u << digit) - 1, *swap;
	uint32_t count[1u << DIGIT_MOST], at, c;

	for (unsigned p = 0; p < passes; p++, low += digit) {
		memset(count, 0, sizeof(count));
		for (size_t i = 0; i < n; i++)
			count[v[i] >> low & mask]++;
		at = 0;
		for (uint64_t d = 0; d <= mask; d++) {
			c = count[d];
			count[d] = at;
			at += c;
		}
		for (size_t i = 0; i < n; i++)
			spare[count[v[i] >> low & mask]++] = v[i];
		swap = v;
		v = spare;
		spare = swap;
	}
	return v;
}

static inline void set_order(uint32_t *order, size_t place, size_t which, bool places)
{
	if (places)
		order[which] = (uint32_t)place;
	else
		order[place] = (uint32_t)which;
}

/* Where a key and its number fit one word: the case but for odd ones. */
static int order_words(uint64_t *v, uint64_t *spare, size_t n, unsigned low, unsigned bits,
		       bool places, uint32_t *order)
{
	uint64_t mask = (1ull << low) - 1, *own = spare ? NULL : bigmem_alloc(n * sizeof(*own));
	const uint64_t *sorted;

	if (!spare && !own)
		return -ENOMEM;
	sorted = sort_words(v, spare ? spare : own, n, low, bits);
	for (size_t i = 0; i < n; i++)
		set_order(order, i, sorted[i] & mask, places);
	free(own);
	return 0;
}

static int order_keys(const int64_t *k, size_t n, bool places, uint32_t *order)
{
	struct view_key *keys = bigmem_alloc(2 * n * sizeof(*keys));

	if (!keys)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		keys[i] = (struct view_key){view_key_of(k[i]), (uint32_t)i};
	view_sort(keys, keys + n, n);
	for (size_t i = 0; i < n; i++)
		set_order(order, i, keys[i].id, places);
	free(keys);
	return 0;
}

int view_order(int64_t *keys, size_t n, bool places, uint32_t **ret_order)
{
	return view_order_with(keys, NULL, n, places, ret_order);
}

int view_order_with(int64_t *keys, int64_t *spare, size_t n, bool places, uint32_t **ret_order)
{
	int64_t least = n ? keys[0] : 0, most = least;
	uint64_t differ = 0, *v = (uint64_t *)keys;
	unsigned down, bits, low = bits_of(n);
	bool sorted = true;
	uint32_t *order;
	size_t i;
	int rc;

	*ret_order = NULL;
	for (i = 1; i < n; i++) {
		sorted = sorted && keys[i] >= keys[i - 1];
		differ |= (uint64_t)keys[i] ^ (uint64_t)keys[0];
		least = keys[i] < least ? keys[i] : least;
		most = keys[i] > most ? keys[i] : most;
	}
	if (sorted)
		return 0;
	order = bigmem_alloc(n * sizeof(*order));
	if (!order)
		return -ENOMEM;
	down = (unsigned)__builtin_ctzll(differ); /* whole microseconds end in zeros */
	bits = bits_of((uint64_t)most - (uint64_t)least) - down;
	if (bits + low <= 64) {
		for (i = 0; i < n; i++)
			v[i] = ((uint64_t)keys[i] - (uint64_t)least) >> down << low | i;
		rc = order_words(v, (uint64_t *)spare, n, low, bits, places, order);
	} else {
		rc = order_keys(keys, n, places, order);
	}
	if (rc)
		free(order);
	else
		*ret_order = order;
	return rc;
}

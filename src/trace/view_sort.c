/* SPDX-License-Identifier: Apache-2.0
 *
 * view_sort.c - a radix sort of 64-bit keys: stable, and linear where traces have tens of
 * millions of rows. Bytes that are equal in all keys cost one look.
 */
#include "trace/view_priv.h"

#include <string.h>

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

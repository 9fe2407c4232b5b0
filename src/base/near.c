/* SPDX-License-Identifier: Apache-2.0
 *
 * near.c - see near.h. Three rows of the usual table are enough, as a swap
 * looks back two.
 */
#include "base/near.h"

#include <string.h>

static size_t near_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t near_distance(const char *a, const char *b)
{
	size_t rows[3][NEAR_LEN_MAX + 1];
	size_t la = strlen(a), lb = strlen(b), i, j;

	if (la > NEAR_LEN_MAX || lb > NEAR_LEN_MAX)
		return NEAR_LEN_MAX;
	for (j = 0; j <= lb; j++)
		rows[0][j] = j;
	for (i = 1; i <= la; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

		row[0] = i;
		for (j = 1; j <= lb; j++) {
			row[j] = near_min(above[j - 1] + (a[i - 1] != b[j - 1]),
					  near_min(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = near_min(row[j], above2[j - 2] + 1);
		}
	}
	return rows[la % 3][lb];
}

void near_try(struct near *n, const char *word, const char *name)
{
	size_t len = strlen(word);
	size_t d = near_distance(word, name);
	size_t limit = len < 3 ? 1 : len / 3 + (len < 6);

	/* Two letters are one typing slip away from almost anything. */
	if (len >= 2 && strncmp(word, name, len) == 0)
		d = 0;
	if (d > limit || (n->best && d >= n->distance))
		return;
	n->best = name;
	n->distance = d;
}

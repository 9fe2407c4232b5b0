/* SPDX-License-Identifier: Apache-2.0
 *
 * near.h - the name that somebody meant: edit distance, for "did you mean".
 */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

#include <stddef.h>

#define NEAR_LEN_MAX 64 /* longer words are near to nothing */

/* Insertions, deletions, replacements and swaps of neighbours that make b of a
 * (optimal string alignment); NEAR_LEN_MAX if either is longer than that. */
size_t near_distance(const char *a, const char *b);

/* Feed names one by one: *best becomes the nearest to word so far if it is near
 * enough to be meant (one edit in three letters, or word begins it). Start with
 * a zeroed struct; best stays NULL if nothing is near. */
struct near {
	const char *best; /* the caller's string */
	size_t distance;
};
void near_try(struct near *n, const char *word, const char *name);

#endif

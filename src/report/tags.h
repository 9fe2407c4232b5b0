/* SPDX-License-Identifier: Apache-2.0
 *
 * tags.h - a run's tags: words with commas between.
 */
#ifndef REPORT_TAGS_H
#define REPORT_TAGS_H

#include <stdbool.h>
#include <stddef.h>

/* Change tags as `how` says: "a,b" are the new ones, "+a,-b" adds a and removes b;
 * blanks around a word and words that are there already are left out. 0 and out
 * (cap bytes), or -EINVAL, -ENOSPC and why. */
int tags_change(const char *tags, const char *how, char *out, size_t cap, char why[128]);

/* Is the word one of the tags? */
bool tags_has(const char *tags, const char *word);

#endif

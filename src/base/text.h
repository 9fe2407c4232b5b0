/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - how a text begins and ends: names of files by what stands behind their dot,
 * names of kernels and metrics by what stands in front.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool text_begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* With something in front of the end: ".db" alone is no database's name. */
static inline bool text_ends(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n > k && strcmp(text + n - k, end) == 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * shortname.c - brackets are dropped with what they hold, then the last word stays.
 */
#include "analyse/shortname.h"

#include <stdbool.h>
#include <string.h>

/* HTA's pattern of memory work: (^(hip)?Memcpy)|(^(hip)?Memset)|(^dma). */
static bool is_memory(const char *s, size_t len)
{
	size_t skip = len >= 3 && !memcmp(s, "hip", 3) ? 3 : 0;

	if (len - skip >= 6 && (!memcmp(s + skip, "Memcpy", 6) || !memcmp(s + skip, "Memset", 6)))
		return true;
	return len >= 3 && !memcmp(s, "dma", 3);
}

/* Drop what was kept since the opening bracket, and it. Without one everything goes. */
static size_t drop_to(const char *kept, size_t n, char open)
{
	while (n && kept[n - 1] != open)
		n--;
	return n ? n - 1 : 0;
}

size_t shortname_of(const char *name, size_t len, char *ret)
{
	size_t n = 0, word;

	if (is_memory(name, len) || (!memchr(name, '<', len) && !memchr(name, '(', len))) {
		memcpy(ret, name, len);
		ret[len] = '\0';
		return len;
	}
	for (size_t i = 0; i < len; i++) {
		if (name[i] == '-' && i + 1 < len && name[i + 1] == '>') {
			i++;
			continue;
		}
		if (name[i] == '>')
			n = drop_to(ret, n, '<');
		else if (name[i] == ')')
			n = drop_to(ret, n, '(');
		else
			ret[n++] = name[i];
	}
	for (word = n; word && ret[word - 1] != ' '; word--)
		;
	memmove(ret, ret + word, n - word);
	ret[n - word] = '\0';
	return n - word;
}

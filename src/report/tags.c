/* SPDX-License-Identifier: Apache-2.0
 *
 * tags.c - see tags.h.
 */
#include "report/tags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The next word of *p without blanks around it; its length, 0: none is left. */
static size_t tags_next(const char **p, const char **ret)
{
	const char *end;

	*p += strspn(*p, ", \t\n");
	*ret = *p;
	*p += strcspn(*p, ",");
	for (end = *p; end > *ret && strchr(" \t\n", end[-1]);)
		end--;
	return (size_t)(end - *ret);
}

static bool tags_find(const char *tags, const char *word, size_t len)
{
	const char *one;
	size_t n;

	while ((n = tags_next(&tags, &one)))
		if (n == len && memcmp(one, word, len) == 0)
			return true;
	return false;
}

bool tags_has(const char *tags, const char *word)
{
	return tags_find(tags, word, strlen(word));
}

static int tags_add(char *out, size_t cap, const char *word, size_t len, char why[128])
{
	size_t n = strlen(out);

	if (len == 0 || tags_find(out, word, len))
		return 0;
	if (n + (n > 0) + len + 1 > cap) {
		snprintf(why, 128, "more than %zu bytes of tags", cap - 1);
		return -ENOSPC;
	}
	snprintf(out + n, cap - n, "%s%.*s", n ? "," : "", (int)len, word);
	return 0;
}

/* All of `tags` but one. */
static void tags_remove(char *tags, const char *word, size_t len)
{
	char *copy = xstrdup(tags), none[128];
	const char *p = copy, *one;
	size_t n, cap = strlen(tags) + 2;

	*tags = '\0';
	while ((n = tags_next(&p, &one)))
		if (n != len || memcmp(one, word, len) != 0)
			tags_add(tags, cap, one, n, none);
	free(copy);
}

int tags_change(const char *tags, const char *how, char *out, size_t cap, char why[128])
{
	bool by_sign = how[strspn(how, " ")] == '+' || how[strspn(how, " ")] == '-';
	const char *p, *one;
	size_t n;
	int r = 0;

	*out = '\0';
	for (p = tags; by_sign && r == 0 && (n = tags_next(&p, &one));)
		r = tags_add(out, cap, one, n, why);
	for (p = how; r == 0 && (n = tags_next(&p, &one));) {
		if (by_sign != (*one == '+' || *one == '-')) {
			snprintf(why, 128, "\"%.*s\": either all with + or - before them, or none",
				 (int)(n < 40 ? n : 40), one);
			return -EINVAL;
		}
		if (by_sign && *one == '-')
			tags_remove(out, one + 1, n - 1);
		else
			r = tags_add(out, cap, one + by_sign, n - by_sign, why);
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonwalk.c - see jsonwalk.h. A value is skipped by counting brackets outside
 * of strings, which is enough as the text is known to be well-formed.
 */
#include "report/jsonwalk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Behind the string at p. */
static const char *jsonwalk_skip_string(const char *p)
{
	for (p++; *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p + 1;
}

/* Behind the value at p. */
static const char *jsonwalk_skip(const char *p)
{
	int depth = 0;

	do {
		if (*p == '"') {
			p = jsonwalk_skip_string(p);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		p++;
		/* A number or a word of its own ends before the next of these. */
	} while (*p && (depth > 0 || !strchr(",}]", *p)));
	return p;
}

const char *jsonwalk_get(const char *p, const char *key)
{
	size_t len = strlen(key);
	const char *name, *end;

	if (!p || *p != '{')
		return NULL;
	for (p++; *p == '"'; p += *p == ',') {
		name = p + 1;
		end = jsonwalk_skip_string(p);
		p = end + 1; /* the colon */
		if ((size_t)(end - 1 - name) == len && memcmp(name, key, len) == 0)
			return p;
		p = jsonwalk_skip(p);
	}
	return NULL;
}

const char *jsonwalk_first(const char *p)
{
	return p && *p == '[' && p[1] != ']' ? p + 1 : NULL;
}

const char *jsonwalk_next(const char *item)
{
	item = jsonwalk_skip(item);
	return *item == ',' ? item + 1 : NULL;
}

static char jsonwalk_escape(const char **p, bool lines)
{
	char c = *++*p;

	if (c == 'u')
		*p += 4;
	if (lines && (c == 'n' || c == 't'))
		return c == 'n' ? '\n' : '\t';
	return c == '"' || c == '\\' || c == '/' ? c : '?';
}

static char *jsonwalk_copy(const char *p, char *out, size_t cap, bool lines)
{
	size_t n = 0;

	if (p && *p == '"')
		for (p++; *p != '"' && n + 1 < cap; p++)
			out[n++] = *p == '\\' ? jsonwalk_escape(&p, lines) : *p;
	out[n] = '\0';
	return out;
}

char *jsonwalk_string(const char *p, char *out, size_t cap)
{
	return jsonwalk_copy(p, out, cap, false);
}

char *jsonwalk_text(const char *p, char *out, size_t cap)
{
	return jsonwalk_copy(p, out, cap, true);
}

int64_t jsonwalk_int(const char *p, int64_t missing)
{
	char *end;
	long long v;

	if (!p || !strchr("-0123456789", *p))
		return missing;
	errno = 0;
	v = strtoll(p, &end, 10);
	return errno || end == p || strchr(".eE", *end) ? missing : v;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * shapes.c - small scanners over lists. Numbers beyond int64 are cut by strtoll().
 */
#include "analyse/shapes.h"

#include <stdlib.h>
#include <string.h>

static const char *shapes_blank(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r' || *p == ',')
		p++;
	return p;
}

/* One input at p ('['); returns what is behind it. */
static const char *shapes_input(const char *p, struct shapes_one *to)
{
	int depth = 0;
	char *end;
	long long v;

	memset(to, 0, sizeof(*to));
	for (; *p; p = shapes_blank(p)) {
		if (*p == '[') {
			to->is_list = to->is_list || depth > 0;
			depth++;
			p++;
			continue;
		}
		if (*p == ']') {
			p++;
			if (!--depth)
				return p;
			continue;
		}
		v = strtoll(p, &end, 10);
		if (end == p)
			return p + strlen(p);
		if (to->n < SHAPES_DIMS)
			to->dim[to->n++] = v;
		p = end;
	}
	return p;
}

void shapes_parse(const char *text, struct shapes *ret)
{
	struct shapes_one more;
	const char *p = shapes_blank(text);

	ret->n = 0;
	if (*p != '[')
		return;
	for (p = shapes_blank(p + 1); *p == '['; p = shapes_blank(p)) {
		if (ret->n == SHAPES_INPUTS)
			p = shapes_input(p, &more);
		else
			p = shapes_input(p, &ret->of[ret->n++]);
	}
}

double shapes_elements(const struct shapes *s, size_t i)
{
	double product = 1;
	size_t k;

	if (i >= s->n)
		return 0;
	for (k = 0; k < s->of[i].n; k++)
		product *= (double)s->of[i].dim[k];
	return product;
}

/* Behind the entry at p. */
static const char *shapes_skip(const char *p)
{
	int depth = 0;

	if (*p == '"') {
		for (p++; *p && *p != '"'; p++) {
			if (*p == '\\' && p[1])
				p++;
		}
		return *p ? p + 1 : p;
	}
	for (; *p; p++) {
		if (*p == '[') {
			depth++;
		} else if (*p == ']') {
			if (!depth)
				return p;
			if (!--depth)
				return p + 1;
		} else if (*p == ',' && !depth) {
			return p;
		}
	}
	return p;
}

const char *shapes_text(const char *list, size_t i, size_t *ret_len)
{
	const char *p = shapes_blank(list), *end;

	if (*p != '[')
		return NULL;
	for (p = shapes_blank(p + 1); *p && *p != ']'; p = shapes_blank(end)) {
		end = shapes_skip(p);
		if (i--)
			continue;
		if (*p == '"') {
			p++;
			*ret_len = (size_t)(end - p) - (end > p && end[-1] == '"');
		} else {
			*ret_len = (size_t)(end - p);
		}
		return p;
	}
	return NULL;
}

size_t shapes_numbers(const char *list, size_t i, int64_t *ret, size_t max)
{
	size_t len, n = 0;
	const char *p = shapes_text(list, i, &len), *end;
	char *next;

	if (!p)
		return 0;
	end = p + len;
	while (p < end && n < max) {
		if (*p == '[' || *p == ']' || *p == ',' || *p == ' ') {
			p++;
			continue;
		}
		ret[n] = strtoll(p, &next, 10);
		if (next == p)
			return 0;
		n++;
		p = next;
	}
	return n;
}

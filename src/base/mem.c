/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void __attribute__((noreturn)) mem_die(size_t n, size_t size)
{
	fprintf(stderr, "lapse: out of memory asking for %zu x %zu bytes\n", n, size);
	abort();
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		mem_die(n, size);
	return p;
}

void *xrealloc(void *p, size_t n, size_t size)
{
	void *q;

	if (size && n > SIZE_MAX / size)
		mem_die(n, size);
	q = realloc(p, n && size ? n * size : 1);
	if (!q)
		mem_die(n, size);
	return q;
}

char *xstrdup(const char *s)
{
	return s ? xstrndup(s, strlen(s)) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
	char *p = xcalloc(n + 1, 1);

	memcpy(p, s, n);
	return p;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0)
		mem_die(1, strlen(fmt));
	return p;
}

void *xgrow(void *items, size_t len, size_t *cap, size_t size)
{
	if (len < *cap)
		return items;
	*cap = *cap ? *cap * 2 : 16;
	return xrealloc(items, *cap, size);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int err_vset(struct err *e, int code, int with_errno, const char *fmt, va_list ap)
{
	size_t n;

	if (!e || e->code)
		return code;
	e->code = code;
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	n = strlen(e->text);
	if (with_errno)
		snprintf(e->text + n, sizeof(e->text) - n, ": %s", strerror(-code));
	return code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vset(e, code, 0, fmt, ap);
	va_end(ap);
	return code;
}

int err_errno(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vset(e, code, 1, fmt, ap);
	va_end(ap);
	return code;
}

void err_clear(struct err *e)
{
	e->code = 0;
	e->text[0] = '\0';
}

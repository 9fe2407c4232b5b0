/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_export.c - see launch_export.h.
 */
#include "cli/launch_export.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "export/exporter.h"

#define LAUNCH_EXPORT_MAX 8

static struct {
	const struct exporter_ops *ops;
	const char *path; /* NULL: its own place */
} launch_exports[LAUNCH_EXPORT_MAX];
static size_t launch_exports_n;

int launch_export_add(const char *arg, void *to)
{
	size_t len = strcspn(arg, "=");
	const char *path = arg[len] ? arg + len + 1 : NULL;
	char *name = xstrndup(arg, len);
	const struct exporter_ops *ops = exporter_find(name);

	(void)to;
	free(name);
	if (!ops)
		fprintf(stderr,
			"lapse run: --export: \"%.*s\" is no format; use tensorboard[=DIR] or "
			"prometheus=FILE\n",
			(int)len, arg);
	else if ((path && !path[0]) || (!path && !ops->folder))
		fprintf(stderr, "lapse run: --export: %s needs a path: --export %s=PATH\n",
			ops->name, ops->name);
	else if (path && strchr(path, '\n'))
		fprintf(stderr, "lapse run: --export: a path with a line end cannot be used\n");
	else if (launch_exports_n == LAUNCH_EXPORT_MAX)
		fprintf(stderr, "lapse run: --export: at most %d\n", LAUNCH_EXPORT_MAX);
	else {
		launch_exports[launch_exports_n].ops = ops;
		launch_exports[launch_exports_n++].path = path;
		return 0;
	}
	return -EINVAL;
}

void launch_export_describe(struct run_start *r)
{
	size_t i, at = 0;
	int n;

	for (i = 0; i < launch_exports_n; i++) {
		const char *path = launch_exports[i].path ? launch_exports[i].path : "";
		bool relative = path[0] && path[0] != '/';

		n = snprintf(r->exports + at, sizeof(r->exports) - at, "%s=%s%s%s\n",
			     launch_exports[i].ops->name, relative ? r->cwd : "",
			     relative ? "/" : "", path);
		/* One that does not fit is left out whole. */
		if (n < 0 || at + (size_t)n >= sizeof(r->exports)) {
			r->exports[at] = '\0';
			return;
		}
		at += (size_t)n;
	}
}

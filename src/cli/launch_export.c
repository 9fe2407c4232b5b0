/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_export.c - see launch_export.h.
 */
#include "cli/launch_export.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "export/exporter.h"

#define LAUNCH_EXPORT_MAX 8

/* What goes into the run file, as far as it has come. */
static char launch_export_text[sizeof(((struct run_start *)0)->exports)];
static unsigned launch_export_n;

/* NULL, or what is wrong with it. */
static const char *launch_export_check(const struct exporter_ops *ops, const char *path)
{
	if (!ops)
		return "no such format; use tensorboard[=DIR] or prometheus=FILE";
	if ((path && !path[0]) || (!path && !ops->folder))
		return "a path is needed: FORMAT=PATH";
	if (path && strchr(path, '\n'))
		return "a path with a line end cannot be used";
	return launch_export_n == LAUNCH_EXPORT_MAX ? "at most 8 exports of a run" : NULL;
}

int launch_export_add(const char *arg, void *to)
{
	size_t len = strcspn(arg, "="), used = strlen(launch_export_text);
	const char *path = arg[len] ? arg + len + 1 : NULL;
	char *name = xstrndup(arg, len), cwd[PATH_MAX] = "", *line;
	const char *wrong = launch_export_check(exporter_find(name), path);

	(void)to;
	/* The agent works in another folder. */
	if (path && path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		wrong = wrong ? wrong : "where we are cannot be found out: give an absolute path";
	line = xasprintf("%s=%s%s%s\n", name, cwd, cwd[0] ? "/" : "", path ? path : "");
	if (!wrong && used + strlen(line) >= sizeof(launch_export_text))
		wrong = "the paths are too long together (4,095 bytes)";
	if (wrong) {
		fprintf(stderr, "lapse run: --export %s: %s\n", arg, wrong);
	} else {
		memcpy(launch_export_text + used, line, strlen(line) + 1);
		launch_export_n++;
	}
	free(line);
	free(name);
	return wrong ? -EINVAL : 0;
}

void launch_export_describe(struct run_start *r)
{
	memcpy(r->exports, launch_export_text, sizeof(r->exports));
}

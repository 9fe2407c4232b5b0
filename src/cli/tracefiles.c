/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracefiles.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"

#define TRACEFILES_DEPTH 4

static bool tracefiles_is_json(const char *name)
{
	return text_ends(name, ".json") || text_ends(name, ".json.gz") ||
	       text_ends(name, ".json.zst");
}

static void tracefiles_add(struct tracefiles *f, size_t *cap, const char *path, bool from_folder)
{
	struct stat st;

	if (f->n >= TRACEFILES_MAX)
		return;
	f->list = xgrow(f->list, f->n, cap, sizeof(*f->list));
	f->list[f->n++] = (struct tracefiles_one){
		.path = xstrdup(path),
		.bytes = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0,
		.from_folder = from_folder,
	};
}

/* Take the files of a folder for which named() is true. */
static size_t tracefiles_take(struct tracefiles *f, size_t *cap, const char *dir,
			      struct dirent **names, int n, bool only_named)
{
	size_t before = f->n;
	struct stat st;
	char *path;
	int i;

	for (i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		if (name[0] == '.' || !tracefiles_is_json(name) ||
		    (only_named && !strstr(name, "trace")))
			continue;
		path = xasprintf("%s/%s", dir, name);
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
			tracefiles_add(f, cap, path, true);
		free(path);
	}
	return f->n - before;
}

static int tracefiles_folder(struct tracefiles *f, size_t *cap, const char *dir, int depth)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, NULL, versionsort), i;
	struct stat st;
	char *path;

	if (n < 0)
		return -errno;
	if (!tracefiles_take(f, cap, dir, names, n, true) &&
	    !tracefiles_take(f, cap, dir, names, n, false) && depth < TRACEFILES_DEPTH) {
		for (i = 0; i < n; i++) {
			if (names[i]->d_name[0] == '.')
				continue;
			path = xasprintf("%s/%s", dir, names[i]->d_name);
			if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
				tracefiles_folder(f, cap, path, depth + 1);
			free(path);
		}
	}
	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return 0;
}

int tracefiles_find(const char *command, int argc, char **argv, struct tracefiles *ret)
{
	struct tracefiles f = {0};
	size_t cap = 0, before;
	struct stat st;
	int i, err;

	if (argc == 0) {
		fprintf(stderr,
			"lapse %s: this needs a trace: a file or a folder of them (\"-\" is stdin)"
			"\nTry: lapse %s --help\n",
			command, command);
		return 2;
	}
	for (i = 0; i < argc; i++) {
		if (strcmp(argv[i], "-") == 0 || stat(argv[i], &st) || !S_ISDIR(st.st_mode)) {
			tracefiles_add(&f, &cap, argv[i], false);
			continue;
		}
		before = f.n;
		err = tracefiles_folder(&f, &cap, argv[i], 0);
		if (err)
			fprintf(stderr, "lapse %s: %s: %s\n", command, argv[i], strerror(-err));
		else if (f.n == before)
			fprintf(stderr,
				"lapse %s: %s: no trace in this folder (files *.json, *.json.gz, "
				"*.json.zst)\n",
				command, argv[i]);
	}
	if (f.n == 0)
		return 1;
	*ret = f;
	return 0;
}

void tracefiles_done(struct tracefiles *f)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		free(f->list[i].path);
	free(f->list);
	*f = (struct tracefiles){0};
}

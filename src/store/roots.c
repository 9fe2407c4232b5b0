/* SPDX-License-Identifier: Apache-2.0
 *
 * roots.c - the folder that holds the runs, and finding one in it.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOTS_LISTED 8u /* runs named when a beginning fits several */

/* Absolute form of path, which need not exist: links are left as they are. */
static int roots_absolute(const char *path, char *out, size_t cap)
{
	char cwd[PATH_MAX];
	int n;

	if (*path == '/') {
		n = snprintf(out, cap, "%s", path);
	} else {
		if (!getcwd(cwd, sizeof(cwd)))
			return -errno;
		while (path[0] == '.' && path[1] == '/')
			path += 2;
		n = snprintf(out, cap, "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path);
	}
	if (n < 0 || (size_t)n >= cap)
		return -ENAMETOOLONG;
	while (n > 1 && out[n - 1] == '/')
		out[--n] = '\0';
	return 0;
}

int store_root(const char *explicit_dir, char *out, size_t cap)
{
	const char *env = getenv("LAPSE_DIR");

	if (!explicit_dir)
		explicit_dir = env && *env ? env : "lapse-runs";
	return *explicit_dir ? roots_absolute(explicit_dir, out, cap) : -EINVAL;
}

static bool roots_is_folder(const char *root, const char *name)
{
	char *path = xasprintf("%s/%s", root, name);
	struct stat st;
	bool is = stat(path, &st) == 0 && S_ISDIR(st.st_mode);

	free(path);
	return is;
}

static int roots_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void store_runs_free(char **runs)
{
	size_t i;

	for (i = 0; runs && runs[i]; i++)
		free(runs[i]);
	free(runs);
}

int store_runs(const char *root, char ***ret, struct err *e)
{
	DIR *d = opendir(root);
	size_t n = 0, cap = 0;
	char **runs = NULL;
	struct dirent *one;

	if (!d && errno == ENOENT)
		return err_set(e, -ENOENT, "%s: no runs there yet", root);
	if (!d)
		return err_errno(e, -errno, "cannot read the folder %s", root);
	while ((one = readdir(d))) {
		if (one->d_name[0] == '.' || !roots_is_folder(root, one->d_name))
			continue;
		runs = xgrow(runs, n, &cap, sizeof(*runs));
		runs[n++] = xstrdup(one->d_name);
	}
	closedir(d);
	if (n)
		qsort(runs, n, sizeof(*runs), roots_order);
	runs = xgrow(runs, n, &cap, sizeof(*runs));
	runs[n] = NULL;
	*ret = runs;
	return 0;
}

/* The one run whose id begins with `what`; an equal id wins. */
static int roots_match(const char *root, char *const *runs, const char *what, struct err *e,
		       const char **ret)
{
	size_t i, found = 0, len = strlen(what);
	struct buf list;

	buf_init(&list, 4096);
	for (i = 0; runs[i]; i++) {
		if (strcmp(runs[i], what) == 0) {
			*ret = runs[i];
			found = 1;
			break;
		}
		if (strncmp(runs[i], what, len) != 0)
			continue;
		*ret = runs[i];
		if (found++ < ROOTS_LISTED)
			buf_printf(&list, " %s", runs[i]);
	}
	if (found > 1)
		err_set(e, -EEXIST, "%s: %zu runs begin with \"%.128s\":%s%s", root, found, what,
			buf_str(&list), found > ROOTS_LISTED ? " ..." : "");
	else if (found == 0)
		err_set(e, -ENOENT, "%s: no run begins with \"%.128s\"; `lapse ls` lists them",
			root, what);
	buf_done(&list);
	return found == 1 ? 0 : found ? -EEXIST : -ENOENT;
}

static int roots_copy(const char *root, const char *name, char *out, size_t cap)
{
	int n = snprintf(out, cap, "%s/%s", root, name);

	return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}

int store_find(const char *root, const char *what, char *out, size_t cap, struct err *e)
{
	const char *name = NULL;
	struct stat st;
	size_t n = 0;
	char **runs;
	int r;

	if (!*what)
		return err_set(e, -EINVAL, "an empty name of a run");
	if (strchr(what, '/') || strcmp(what, ".") == 0 || strcmp(what, "..") == 0) {
		if (stat(what, &st) < 0 || !S_ISDIR(st.st_mode))
			return err_set(e, -ENOENT, "%s: no such folder", what);
		r = roots_absolute(what, out, cap);
		return r < 0 ? err_errno(e, r, "%s", what) : 0;
	}
	r = store_runs(root, &runs, e);
	if (r < 0)
		return r;
	while (runs[n])
		n++;
	if (strcmp(what, "last") == 0 && n)
		name = runs[n - 1];
	else if (strcmp(what, "last") == 0)
		r = err_set(e, -ENOENT, "%s: no runs there yet", root);
	else
		r = roots_match(root, runs, what, e, &name);
	if (r == 0) {
		r = roots_copy(root, name, out, cap);
		if (r < 0)
			err_errno(e, r, "%s/%s", root, name);
	}
	store_runs_free(runs);
	return r;
}

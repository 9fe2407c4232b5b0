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

#define ROOTS_LISTED 8u  /* runs named when a beginning fits several */
#define ROOTS_SECOND 15u /* characters of an id that are its start, to the second */

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

/* Other folders may lie beside the runs. */
static bool roots_is_id(const char *name)
{
	size_t i;

	for (i = 0; i < ROOTS_SECOND; i++) {
		if (i == 8 ? name[i] != '-' : name[i] < '0' || name[i] > '9')
			return false;
	}
	return name[i] == '-';
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
		/* Not every file system tells the type; a link may lead to a folder. */
		if (one->d_name[0] == '.' ||
		    (one->d_type != DT_DIR && !roots_is_folder(root, one->d_name)))
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

/* When the run began, as it is stored; 0: cannot be read. */
static int64_t roots_start(const char *root, const char *name)
{
	char *path = xasprintf("%s/%s", root, name);
	struct store_reader *r = NULL;
	struct store_run run = {0};
	struct err e = {0};

	if (store_reader_open(path, &e, &r) < 0 || store_reader_run(r, &run, &e) < 0)
		run.start_ns = 0;
	store_reader_close(r);
	free(path);
	return run.start_ns;
}

/* The newest run. Ids tell the second only: of those that share the newest one, the
 * run that began last by what is stored in it. NULL: there is none. */
static const char *roots_last(const char *root, char *const *runs)
{
	const char *last = NULL;
	int64_t start, newest = -1;
	size_t i, n = 0, first;

	for (i = 0; runs[i]; i++) {
		if (roots_is_id(runs[i]))
			n = i + 1;
	}
	if (n == 0)
		return i ? runs[i - 1] : NULL;
	for (first = n - 1; first > 0; first--) {
		if (strncmp(runs[first - 1], runs[n - 1], ROOTS_SECOND) != 0)
			break;
	}
	if (first == n - 1)
		return runs[first];
	for (i = first; i < n; i++) {
		start = roots_start(root, runs[i]);
		if (start >= newest) {
			newest = start;
			last = runs[i];
		}
	}
	return last;
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
	if (strcmp(what, "last") != 0)
		r = roots_match(root, runs, what, e, &name);
	else if (!(name = roots_last(root, runs)))
		r = err_set(e, -ENOENT, "%s: no runs there yet", root);
	if (r == 0) {
		r = roots_copy(root, name, out, cap);
		if (r < 0)
			err_errno(e, r, "%s/%s", root, name);
	}
	store_runs_free(runs);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a cgroup lies. Formats: cgroups(7), proc(5) mountinfo.
 */
#include "probe/linux/mounts.h"

#include "probe/linux/proc.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The next field up to the separator, which is skipped. */
static struct mounts_span mounts_field(const char **p, const char *end, char separator)
{
	struct mounts_span f = {*p, NULL};

	if (*p >= end)
		return (struct mounts_span){NULL, NULL};
	f.end = memchr(f.p, separator, (size_t)(end - f.p));
	if (!f.end)
		f.end = end;
	*p = f.end < end ? f.end + 1 : end;
	return f;
}

bool mounts_is(struct mounts_span f, const char *word)
{
	return f.p && (size_t)(f.end - f.p) == strlen(word) && proc_begins(f.p, f.end, word);
}

bool mounts_has(struct mounts_span f, const char *word)
{
	while (f.p && f.p < f.end)
		if (mounts_is(mounts_field(&f.p, f.end, ','), word))
			return true;
	return false;
}

int mounts_copy(struct mounts_span f, char *out, size_t cap)
{
	size_t n = 0;

	if (!f.p)
		return -EBADMSG;
	for (; f.p < f.end; f.p++) {
		char c = *f.p;

		if (c == '\\' && f.end - f.p >= 4 && f.p[1] >= '0' && f.p[1] <= '3' &&
		    f.p[2] >= '0' && f.p[2] <= '7' && f.p[3] >= '0' && f.p[3] <= '7') {
			c = (char)((f.p[1] - '0') * 64 + (f.p[2] - '0') * 8 + (f.p[3] - '0'));
			f.p += 3;
		}
		if (n + 1 >= cap)
			return -ENAMETOOLONG;
		if (c == '\0')
			return -EBADMSG;
		out[n++] = c;
	}
	out[n] = '\0';
	return 0;
}

/* A path with ".." leads out of the cgroup namespace: nothing there has a name
 * that we could open. */
static bool mounts_leaves(const char *path)
{
	const char *p;

	for (p = path; (p = strstr(p, "/..")); p += 3)
		if (p[3] == '\0' || p[3] == '/')
			return true;
	return false;
}

int mounts_cgroup(const char *text, size_t len, bool *ret_v2, char *path, size_t cap)
{
	return mounts_cgroup_of(text, len, "memory", ret_v2, path, cap);
}

int mounts_cgroup_of(const char *text, size_t len, const char *controller, bool *ret_v2, char *path,
		     size_t cap)
{
	const char *next = text, *end = text + len, *line, *eol;
	struct mounts_span found = {NULL, NULL};
	bool v2 = false;
	size_t n;

	while ((line = proc_line(&next, end, &eol))) {
		struct mounts_span id = mounts_field(&line, eol, ':');
		struct mounts_span controllers = mounts_field(&line, eol, ':');

		if (line >= eol || *line != '/')
			continue;
		if (mounts_has(controllers, controller)) {
			found = (struct mounts_span){line, eol};
			v2 = false;
			break;
		}
		if (mounts_is(id, "0") && controllers.p == controllers.end) {
			found = (struct mounts_span){line, eol};
			v2 = true;
		}
	}
	if (!found.p)
		return -ENOENT;
	n = (size_t)(found.end - found.p);
	if (n >= cap)
		return -ENAMETOOLONG;
	memcpy(path, found.p, n);
	path[n] = '\0';
	if (mounts_leaves(path))
		return -ENOENT;
	*ret_v2 = v2;
	return 0;
}

/* What of the cgroup path lies below a mount whose root is `root`: "" for the
 * mount point itself, NULL when the path is not below it. */
static const char *mounts_below(const char *root, const char *path)
{
	size_t len = strlen(root);

	if (mounts_leaves(root))
		return NULL;
	if (len == 1) /* "/" */
		len = 0;
	if (strncmp(root, path, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	path += len;
	return strcmp(path, "/") == 0 ? "" : path;
}

int mounts_parse(const char *line, const char *eol, struct mounts_line *ret)
{
	struct mounts_line l;
	struct mounts_span f;

	mounts_field(&line, eol, ' '); /* mount id */
	mounts_field(&line, eol, ' '); /* parent id */
	l.device = mounts_field(&line, eol, ' ');
	l.root = mounts_field(&line, eol, ' ');
	l.point = mounts_field(&line, eol, ' ');
	do { /* options and optional fields, up to a lone "-" */
		f = mounts_field(&line, eol, ' ');
	} while (f.p && !mounts_is(f, "-"));
	l.type = mounts_field(&line, eol, ' ');
	l.source = mounts_field(&line, eol, ' ');
	l.options = mounts_field(&line, eol, ' ');
	if (!l.options.p)
		return -EBADMSG;
	*ret = l;
	return 0;
}

/* Is it the file system looked for? */
static bool mounts_wanted(const struct mounts_line *l, bool v2, const char *controller)
{
	if (v2)
		return mounts_is(l->type, "cgroup2");
	return mounts_is(l->type, "cgroup") && mounts_has(l->options, controller);
}

int mounts_find(const char *text, size_t len, bool v2, const char *path, char *dir, size_t cap,
		size_t *ret_top)
{
	return mounts_find_of(text, len, v2, "memory", path, dir, cap, ret_top);
}

int mounts_find_of(const char *text, size_t len, bool v2, const char *controller, const char *path,
		   char *dir, size_t cap, size_t *ret_top)
{
	const char *next = text, *end = text + len, *line, *eol, *below;
	char root_text[PATH_MAX], point_text[PATH_MAX];
	size_t best = SIZE_MAX;
	struct mounts_line l;

	while ((line = proc_line(&next, end, &eol))) {
		if (mounts_parse(line, eol, &l) || !mounts_wanted(&l, v2, controller))
			continue;
		if (mounts_copy(l.root, root_text, sizeof(root_text)) ||
		    mounts_copy(l.point, point_text, sizeof(point_text)))
			continue;
		below = mounts_below(root_text, path);
		if (!below || strlen(root_text) >= best)
			continue;
		if (strlen(point_text) + strlen(below) >= cap)
			return -ENAMETOOLONG;
		snprintf(dir, cap, "%s%s", point_text, below);
		*ret_top = strlen(point_text);
		best = strlen(root_text);
	}
	return best == SIZE_MAX ? -ENOENT : 0;
}

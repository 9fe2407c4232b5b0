/* SPDX-License-Identifier: Apache-2.0
 *
 * artifacts.c - see artifacts.h. What lies outside of the run's folder is given only if the run
 * lists it and it is the kind of file that people look at: a run that came from elsewhere
 * could list anything.
 */
#include "server/artifacts.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "report/attrs.h"
#include "report/jsonwalk.h"
#include "server/beneath.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ARTIFACTS_ATTRS_MAX 65536u

/* ---- what a file is ------------------------------------------------------------------ */

static const char *const artifacts_names[ARTIFACTS_KINDS] = {
	"trace", "profile", "flamegraph", "csv", "report", "log", "other",
};

const char *artifacts_kind_name(enum artifacts_kind kind)
{
	return artifacts_names[(unsigned)kind < ARTIFACTS_KINDS ? kind : ARTIFACTS_OTHER];
}

/* The first row whose end and word the name has. */
static const struct {
	const char *end, *word;
	enum artifacts_kind kind;
} artifacts_rows[] = {
	{".speedscope.json", "", ARTIFACTS_PROFILE},
	{".analysis.json", "", ARTIFACTS_REPORT},
	{".pt.trace.json", "", ARTIFACTS_TRACE},
	{".pt.trace.json.gz", "", ARTIFACTS_TRACE},
	{".json", "trace", ARTIFACTS_TRACE},
	{".json.gz", "trace", ARTIFACTS_TRACE},
	{".json.zst", "trace", ARTIFACTS_TRACE},
	{".json", "report", ARTIFACTS_REPORT},
	{".json", "summary", ARTIFACTS_REPORT},
	{".svg", "", ARTIFACTS_FLAMEGRAPH},
	{".folded", "", ARTIFACTS_PROFILE},
	{".collapsed", "", ARTIFACTS_PROFILE},
	{".pstats", "", ARTIFACTS_PROFILE},
	{".prof", "", ARTIFACTS_PROFILE},
	{".nsys-rep", "", ARTIFACTS_PROFILE},
	{".ncu-rep", "", ARTIFACTS_PROFILE},
	{".sqlite", "", ARTIFACTS_PROFILE},
	{".pickle", "", ARTIFACTS_PROFILE},
	{".csv", "", ARTIFACTS_CSV},
	{".tsv", "", ARTIFACTS_CSV},
	{".md", "", ARTIFACTS_REPORT},
	{".html", "", ARTIFACTS_REPORT},
	{".pdf", "", ARTIFACTS_REPORT},
	{".png", "", ARTIFACTS_REPORT},
	{".txt", "report", ARTIFACTS_REPORT},
	{".txt", "stacks", ARTIFACTS_PROFILE},
	{".log", "", ARTIFACTS_LOG},
	{".txt", "", ARTIFACTS_LOG},
	{".out", "", ARTIFACTS_LOG},
	{".err", "", ARTIFACTS_LOG},
};

static bool artifacts_ends(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && strcasecmp(name + n - m, end) == 0;
}

enum artifacts_kind artifacts_kind_of(const char *name)
{
	const char *file = strrchr(name, '/');
	size_t i;

	file = file ? file + 1 : name;
	for (i = 0; i < ARRAY_LEN(artifacts_rows); i++)
		if (artifacts_ends(file, artifacts_rows[i].end) &&
		    strcasestr(file, artifacts_rows[i].word))
			return artifacts_rows[i].kind;
	return ARTIFACTS_OTHER;
}

/* The number behind a word, and what stands behind it; -1: none. */
static int64_t artifacts_number(const char *name, const char *word, const char **behind)
{
	const char *p;
	int64_t n;

	for (p = strcasestr(name, word); p; p = strcasestr(p + 1, word)) {
		const char *q = p + strlen(word);

		if (p > name && isalpha((unsigned char)p[-1]))
			continue;
		q += strspn(q, "_-.=");
		if (!isdigit((unsigned char)*q))
			continue;
		for (n = 0; isdigit((unsigned char)*q) && n < INT64_MAX / 20; q++)
			n = 10 * n + (*q - '0');
		*behind = q;
		return n;
	}
	return -1;
}

void artifacts_parse(const char *name, int64_t *rank, int64_t *first, int64_t *last)
{
	const char *behind = "", *file = strrchr(name, '/');
	int64_t n;

	file = file ? file + 1 : name;
	*rank = artifacts_number(file, "rank", &behind);
	n = artifacts_number(file, "steps", &behind);
	if (n < 0)
		n = artifacts_number(file, "step", &behind);
	*first = *last = n;
	if (n >= 0 && *behind == '-' && isdigit((unsigned char)behind[1]))
		*last = strtoll(behind + 1, NULL, 10);
}

/* Files that are lapse's own. */
static bool artifacts_is_own(const char *name)
{
	static const char *const ends[] = {
		".db",   ".db-wal", ".db-shm", ".db-journal", ".live",
		".lock", ".edit",   ".ack",    ".tmp",        ".part",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(ends); i++)
		if (artifacts_ends(name, ends[i]))
			return true;
	return name[0] == '.' || strstr(name, ".db.") || strncmp(name, "alerts.", 7) == 0;
}

/* Any part of a path. */
static bool artifacts_has_own(const char *path)
{
	const char *part;

	for (part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (artifacts_is_own(part))
			return true;
	}
	return false;
}

/* ---- the folder ---------------------------------------------------------------------- */

static struct artifacts_one *artifacts_add(struct artifacts *a, const char *name,
					   const struct stat *st)
{
	struct artifacts_one *one;

	if (a->n >= ARTIFACTS_MAX) {
		a->is_cut = true;
		return NULL;
	}
	a->list = xgrow(a->list, a->n, &a->cap, sizeof(*a->list));
	one = &a->list[a->n++];
	*one = (struct artifacts_one){.name = xstrdup(name), .kind = artifacts_kind_of(name)};
	artifacts_parse(name, &one->rank, &one->step_first, &one->step_last);
	if (st) {
		one->bytes = (uint64_t)st->st_size;
		one->mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
	}
	return one;
}

static void artifacts_walk(struct artifacts *a, int dirfd, const char *under, int deep)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sub;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char name[PATH_MAX];
	struct dirent *one;
	struct stat st;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (!a->is_cut && (one = readdir(d))) {
		if (artifacts_is_own(one->d_name) ||
		    fstatat(fd, one->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    snprintf(name, sizeof(name), "%s%s", under, one->d_name) >=
			    (int)sizeof(name) - 1)
			continue;
		if (S_ISREG(st.st_mode))
			artifacts_add(a, name, &st);
		if (!S_ISDIR(st.st_mode) || deep >= ARTIFACTS_DEEP)
			continue;
		sub = openat(fd, one->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (sub < 0)
			continue;
		strcat(name, "/");
		artifacts_walk(a, sub, name, deep + 1);
		close(sub);
	}
	closedir(d);
}

/* ---- what the run lists -------------------------------------------------------------- */

#define ARTIFACTS_KIND_WHY                                                                         \
	"outside of the run's folder only traces, profiles, pictures, tables, reports and logs "   \
	"are given"

/* May what lies at the path be given? Its descriptor and real path, or -ENOENT and why. */
static int artifacts_elsewhere(const char *path, char real[PATH_MAX], struct stat *st,
			       const char **why)
{
	const char *part;
	int root, fd;

	*why = "it is not there (any more), or not on this machine";
	if (path[0] != '/' || !realpath(path, real))
		return -ENOENT;
	*why = "a part of its path begins with a dot";
	for (part = real; part; part = strchr(part + 1, '/'))
		if (part[1] == '.')
			return -ENOENT;
	*why = ARTIFACTS_KIND_WHY;
	if (artifacts_kind_of(real) == ARTIFACTS_OTHER)
		return -ENOENT;
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = root < 0 ? -errno : beneath_open(root, real + 1, false, st);
	if (root >= 0)
		close(root);
	*why = "it cannot be read, or is a folder";
	if (fd < 0)
		return -ENOENT;
	*why = "it belongs to another user";
	if (st->st_uid != geteuid()) {
		close(fd);
		return -ENOENT;
	}
	*why = NULL;
	return fd;
}

static void artifacts_name_of(const char *path, char *out, size_t cap)
{
	const char *file = strrchr(path, '/');

	snprintf(out, cap, "@%016" PRIx64 "/%s", map_hash(path, strlen(path)),
		 file ? file + 1 : path);
}

struct artifacts_events {
	struct artifacts *a;
	char folder[PATH_MAX]; /* of the run, real, with a slash behind it; "" not known */
	struct map names;      /* place in the list */
	const char *find;      /* only look for this name, */
	char found[PATH_MAX];  /* whose path this is */
};

static struct artifacts_one *artifacts_of_path(struct artifacts_events *ev, const char *path)
{
	size_t n = strlen(ev->folder);
	char name[PATH_MAX + 32], real[PATH_MAX];
	struct artifacts_one *one;
	const char *why = NULL;
	struct stat st = {0};
	uint64_t at;
	int fd;

	if (n > 0 && strncmp(path, ev->folder, n) == 0)
		snprintf(name, sizeof(name), "%s", path + n);
	else
		artifacts_name_of(path, name, sizeof(name));
	if (map_get(&ev->names, name, strlen(name), &at))
		return &ev->a->list[at];
	if (name[0] != '@')
		return NULL; /* gone, or lapse's own */
	fd = artifacts_elsewhere(path, real, &st, &why);
	if (fd >= 0)
		close(fd);
	else if (stat(path, &st) != 0)
		st = (struct stat){0};
	one = artifacts_add(ev->a, name, st.st_nlink ? &st : NULL);
	if (!one)
		return NULL;
	one->path = xstrdup(path);
	one->why = why;
	map_put(&ev->names, name, strlen(name), ev->a->n - 1);
	return one;
}

static enum artifacts_kind artifacts_kind_said(const char *said, enum artifacts_kind otherwise)
{
	size_t i;

	if (strcmp(said, "trace-summary") == 0)
		return ARTIFACTS_REPORT;
	if (strcmp(said, "memory-snapshot") == 0)
		return ARTIFACTS_PROFILE;
	for (i = 0; i < ARTIFACTS_OTHER; i++)
		if (strcmp(said, artifacts_names[i]) == 0)
			return (enum artifacts_kind)i;
	return otherwise;
}

static int artifacts_event(void *arg, const struct store_event *e)
{
	struct artifacts_events *ev = arg;
	bool is_profile = strcmp(e->kind, "profile") == 0;
	char path[PATH_MAX], said[64], name[PATH_MAX + 32];
	struct artifacts_one *one;
	struct buf attrs;
	const char *json;

	if (!is_profile && strcmp(e->kind, "artifact") != 0)
		return 0;
	buf_init(&attrs, ARTIFACTS_ATTRS_MAX);
	if (attrs_compact(e->attrs, &attrs) == 0) {
		json = buf_str(&attrs);
		jsonwalk_text(jsonwalk_get(json, "path"), path, sizeof(path));
		jsonwalk_string(jsonwalk_get(json, "kind"), said, sizeof(said));
		if (path[0] == '/' && ev->find) {
			artifacts_name_of(path, name, sizeof(name));
			if (strcmp(name, ev->find) == 0)
				snprintf(ev->found, sizeof(ev->found), "%s", path);
		} else if (path[0] == '/' && !ev->find) {
			one = artifacts_of_path(ev, path);
			if (one && is_profile) {
				one->step_first =
					jsonwalk_int(jsonwalk_get(json, "first_step"), -1);
				one->step_last = jsonwalk_int(jsonwalk_get(json, "last_step"), -1);
				one->rank = jsonwalk_int(jsonwalk_get(json, "rank"), one->rank);
			} else if (one) {
				one->is_listed = true;
				one->kind = artifacts_kind_said(said, one->kind);
			}
		}
	}
	buf_done(&attrs);
	return ev->found[0] != '\0';
}

static int artifacts_newest(const void *a, const void *b)
{
	const struct artifacts_one *x = a, *y = b;

	if (x->mtime_ns != y->mtime_ns)
		return x->mtime_ns > y->mtime_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

int artifacts_read(struct artifacts *a, const struct runview *v, struct err *e)
{
	struct artifacts_events ev = {.a = a};
	int fd = open(v->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;
	size_t i;

	*a = (struct artifacts){0};
	if (fd < 0)
		return err_errno(e, -errno, "folder %s", v->dir);
	artifacts_walk(a, fd, "", 1);
	close(fd);
	map_init(&ev.names);
	for (i = 0; i < a->n; i++)
		map_put(&ev.names, a->list[i].name, strlen(a->list[i].name), i);
	if (realpath(v->dir, ev.folder) && strlen(ev.folder) + 1 < sizeof(ev.folder))
		strcat(ev.folder, "/");
	err = store_reader_events(v->reader, artifacts_event, &ev, e);
	map_done(&ev.names);
	if (err) {
		artifacts_done(a);
		return err;
	}
	if (a->n > 0)
		qsort(a->list, a->n, sizeof(*a->list), artifacts_newest);
	return 0;
}

void artifacts_done(struct artifacts *a)
{
	size_t i;

	for (i = 0; i < a->n; i++) {
		free(a->list[i].name);
		free(a->list[i].path);
	}
	free(a->list);
	*a = (struct artifacts){0};
}

/* ---- opening ------------------------------------------------------------------------- */

int artifacts_open(const struct runview *v, const char *name, bool folders, char *out, size_t cap,
		   struct stat *st)
{
	struct artifacts_events ev = {.find = name};
	struct err e = {0};
	const char *why;
	char real[PATH_MAX];
	int dirfd, fd;

	if (name[0] == '@') {
		if (store_reader_events(v->reader, artifacts_event, &ev, &e) < 0 || !ev.found[0])
			return -ENOENT;
		fd = artifacts_elsewhere(ev.found, real, st, &why);
		if (fd >= 0) /* else real may be anything */
			snprintf(out, cap, "%s", real);
		return fd;
	}
	if (!beneath_is_plain(name) || artifacts_has_own(name))
		return -ENOENT;
	dirfd = open(v->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return -errno;
	fd = beneath_open(dirfd, name, folders, st);
	close(dirfd);
	snprintf(out, cap, "%s", name);
	return fd;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - pointers to live files, and the private folders in which these are.
 */
#include "store/place.h"

#include "base/file.h"
#include "base/mem.h"
#include "store/store_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define PLACE_TEXT_MAX (64u << 10)
#define PLACE_FREE_MIN (256ull << 20) /* room that there must be, besides the file's own */

/* ---- texts: a first line, KEY=VALUE lines, the line "end" -------------------------------- */

static void place_put(struct buf *b, const char *key, const char *value)
{
	buf_printf(b, "%s=", key);
	for (; *value; value++) {
		if (*value == '%' || (unsigned char)*value < 0x20 || *value == 0x7f)
			buf_printf(b, "%%%02x", (unsigned char)*value);
		else
			buf_putc(b, *value);
	}
	buf_putc(b, '\n');
}

static char *place_unquote(const char *from, size_t len)
{
	char *out = xcalloc(len + 1, 1);
	size_t i, n = 0;
	unsigned c;

	for (i = 0; i < len; i++) {
		if (from[i] == '%' && i + 2 < len && sscanf(from + i + 1, "%2x", &c) == 1 && c) {
			out[n++] = (char)c;
			i += 2;
		} else {
			out[n++] = from[i];
		}
	}
	return out;
}

/* The value of a key; NULL: it is not there. */
static char *place_get(const char *text, const char *key)
{
	size_t n = strlen(key);
	const char *line = text;

	for (; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) == 0 && line[n] == '=')
			return place_unquote(line + n + 1, strcspn(line + n + 1, "\n"));
	}
	return NULL;
}

/* 0 and the text behind its first line; it must be whole. */
static int place_read_text(const char *path, const char *first, struct buf *b)
{
	size_t n = strlen(first);
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	r = file_read(AT_FDCWD, path, b);
	if (r < 0)
		return r == -EFBIG ? -EBADMSG : r;
	if (strlen(buf_str(b)) != b->len || strncmp(buf_str(b), first, n) != 0 || b->len < 5 ||
	    strcmp(buf_str(b) + b->len - 5, "\nend\n") != 0)
		return -EBADMSG;
	return 0;
}

static int place_write_text(const char *path, const struct buf *b, struct err *e)
{
	char *tmp = xasprintf("%s.tmp", path);
	int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : b->error;

	if (r == 0)
		r = file_write_all(fd, b->data, b->len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (fd >= 0 && close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(tmp, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(tmp);
	free(tmp);
	return r < 0 ? err_errno(e, r, "cannot write %s", path) : 0;
}

void place_pointer_done(struct place_pointer *p)
{
	free(p->host);
	free(p->boot);
	free(p->path);
	*p = (struct place_pointer){0};
}

int place_pointer_read(const char *path, struct place_pointer *ret)
{
	struct place_pointer p = {0};
	struct buf b;
	char *since;
	int r;

	buf_init(&b, PLACE_TEXT_MAX);
	r = place_read_text(path, "lapse-live 1\n", &b);
	if (r == 0) {
		p.host = place_get(buf_str(&b), "host");
		p.boot = place_get(buf_str(&b), "boot");
		p.path = place_get(buf_str(&b), "path");
		since = place_get(buf_str(&b), "since_ns");
		p.since_ns = since ? strtoll(since, NULL, 10) : 0;
		free(since);
		if (!p.host || !p.boot || !p.path || p.path[0] != '/')
			r = -EBADMSG;
	}
	buf_done(&b);
	if (r < 0)
		place_pointer_done(&p);
	else
		*ret = p;
	return r;
}

int place_pointer_write(const char *path, const struct place_pointer *p, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, PLACE_TEXT_MAX);
	buf_puts(&b, "lapse-live 1\n");
	place_put(&b, "host", p->host);
	place_put(&b, "boot", p->boot);
	place_put(&b, "path", p->path);
	buf_printf(&b, "since_ns=%lld\nend\n", (long long)p->since_ns);
	r = place_write_text(path, &b, e);
	buf_done(&b);
	return r;
}

int place_origin_write(const char *folder, const char *dir, const char *file, struct err *e)
{
	char *path = xasprintf("%s/origin", folder);
	struct buf b;
	int r;

	buf_init(&b, PLACE_TEXT_MAX);
	buf_puts(&b, "lapse-origin 1\n");
	place_put(&b, "dir", dir);
	place_put(&b, "file", file);
	buf_puts(&b, "end\n");
	r = place_write_text(path, &b, e);
	buf_done(&b);
	free(path);
	return r;
}

int place_origin_read(const char *folder, char **ret_dir, char **ret_file)
{
	char *path = xasprintf("%s/origin", folder), *dir = NULL, *file = NULL;
	struct buf b;
	int r;

	buf_init(&b, PLACE_TEXT_MAX);
	r = place_read_text(path, "lapse-origin 1\n", &b);
	if (r == 0) {
		dir = place_get(buf_str(&b), "dir");
		file = place_get(buf_str(&b), "file");
		if (!dir || !file || dir[0] != '/' || strchr(file, '/') || strlen(file) <= 3)
			r = -EBADMSG;
	}
	buf_done(&b);
	free(path);
	if (r < 0) {
		free(dir);
		free(file);
		return r;
	}
	*ret_dir = dir;
	*ret_file = file;
	return 0;
}

void place_boot(char out[40])
{
	struct buf b;

	buf_init(&b, 64);
	out[0] = '\0';
	if (file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", &b) == 0)
		snprintf(out, 40, "%.*s", (int)strcspn(buf_str(&b), "\n"), buf_str(&b));
	buf_done(&b);
}

/* ---- private folders ------------------------------------------------------------------------- */

char *place_candidate(const char *explicit_dir, size_t i)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (explicit_dir && *explicit_dir)
		return i == 0 ? xasprintf("%s", explicit_dir) : NULL;
	if (i == 0 && state && *state == '/')
		return xasprintf("%s/lapse/live", state);
	if (i == 0)
		return home && *home == '/' ? xasprintf("%s/.local/state/lapse/live", home)
					    : xasprintf("/var/tmp/lapse-%u/live", geteuid());
	return i == 1 ? xasprintf("/var/tmp/lapse-%u/live", geteuid()) : NULL;
}

/* 0, or why it cannot be used. */
static int place_look(const char *dir, uint64_t bytes, struct buf *why)
{
	struct statvfs vfs;
	struct stat st;
	int r = dir[0] == '/' ? file_mkdirs(dir, 0700) : -EINVAL;

	if (r < 0 || lstat(dir, &st) < 0)
		buf_printf(why, "; %s: %s", dir,
			   r == -EINVAL ? "not an absolute path" : strerror(r < 0 ? -r : errno));
	else if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		buf_printf(why, "; %s: not a folder that is ours alone (mode 0700)", dir);
	else if (!fstype_is_wal_safe(dir))
		buf_printf(why, "; %s: not on a local file system", dir);
	else if (access(dir, W_OK | X_OK) < 0)
		buf_printf(why, "; %s: %s", dir, strerror(errno));
	else if (statvfs(dir, &vfs) == 0 &&
		 (uint64_t)vfs.f_bavail * vfs.f_frsize < bytes + PLACE_FREE_MIN)
		buf_printf(why, "; %s: less than %llu MiB are free", dir,
			   (unsigned long long)(bytes + PLACE_FREE_MIN) >> 20);
	else
		return 0;
	return -ENOSPC;
}

int place_choose(const char *explicit_dir, uint64_t bytes, struct err *e, char **ret)
{
	struct buf why;
	char *dir;
	size_t i;
	int r = -ENOSPC;

	buf_init(&why, 4096);
	for (i = 0; r < 0 && (dir = place_candidate(explicit_dir, i)); i++) {
		r = place_look(dir, bytes, &why);
		if (r == 0)
			*ret = dir;
		else
			free(dir);
	}
	if (r < 0)
		err_set(e, r, "no private folder for the live database%s", buf_str(&why));
	buf_done(&why);
	return r;
}

void place_remove(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *one;

	while (d && (one = readdir(d)))
		unlinkat(dirfd(d), one->d_name, 0);
	if (d)
		closedir(d);
	rmdir(folder);
}

bool place_is(const char *path, const char *suffix)
{
	char *name = xasprintf("%s%s", path, suffix);
	struct stat st;
	bool is = lstat(name, &st) == 0;

	free(name);
	return is;
}

bool place_is_of(const char *folder, const char *dir, const char *file)
{
	struct stat here, there;
	char *origin, *its;
	bool is;

	if (place_origin_read(folder, &origin, &its) < 0)
		return false;
	is = strcmp(its, file) == 0 && stat(dir, &here) == 0 && stat(origin, &there) == 0 &&
	     here.st_dev == there.st_dev && here.st_ino == there.st_ino;
	free(origin);
	free(its);
	return is;
}

/* ---- readers --------------------------------------------------------------------------------- */

static void place_time(int64_t ns, char out[40])
{
	time_t s = (time_t)(ns / 1000000000);
	struct tm tm;

	if (!gmtime_r(&s, &tm) || strftime(out, 40, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
		snprintf(out, 40, "an unknown time");
}

/* The live file is not to be had from here: what there is instead. */
static void place_tell(const struct place_pointer *p, const char *home, bool denied,
		       struct buf *warning)
{
	char since[40], at[40], boot[40];
	struct stat st;

	place_boot(boot);
	place_time(p->since_ns, since);
	buf_printf(warning, "%s: live on %s since %s", home, p->host, since);
	if (denied)
		buf_printf(warning, " in %s, which only its owner may read", p->path);
	else if (*boot && strcmp(boot, p->boot) == 0)
		buf_printf(warning, ", but %s is not to be found here", p->path);
	if (stat(home, &st) < 0) {
		buf_puts(warning, "; nothing has been copied here yet\n");
		return;
	}
	place_time((int64_t)st.st_mtim.tv_sec * 1000000000, at);
	buf_printf(warning, "; this is the copy of %s\n", at);
}

/* Frozen: on a file system that other hosts may have mounted a lock would be theirs
 * too. What is written in place has a journal or a lock beside it. */
static bool place_is_frozen(const char *dir, const char *home, bool has_pointer)
{
	if (fstype_is_wal_safe(dir))
		return false;
	return has_pointer ||
	       !(place_is(home, "-journal") || place_is(home, "-wal") || place_is(home, ".lock"));
}

/* The path of the live file if it can be read here. */
static char *place_live(const struct place_pointer *p, const char *dir, const char *file,
			bool *ret_denied)
{
	char *folder = xstrndup(p->path, (size_t)(strrchr(p->path, '/') - p->path));
	bool is = place_is_of(folder, dir, file);

	*ret_denied = !is && access(p->path, F_OK) < 0 && errno == EACCES;
	free(folder);
	return is && access(p->path, R_OK) == 0 ? xasprintf("%s", p->path) : NULL;
}

void place_find(const char *dir, const char *file, struct buf *warning, struct place_view *ret)
{
	char *home = xasprintf("%s/%s", dir, file);
	char *pointer = xasprintf("%s/%.*s.live", dir, (int)strlen(file) - 3, file);
	struct place_pointer p = {0};
	bool has = place_pointer_read(pointer, &p) == 0, denied = false;

	*ret = (struct place_view){0};
	if (has)
		ret->path = place_live(&p, dir, file, &denied);
	ret->is_live = ret->path != NULL;
	if (!ret->path) {
		char *folder =
			has ? xstrndup(p.path, (size_t)(strrchr(p.path, '/') - p.path)) : NULL;

		/* It has been moved, or not begun: only the pointer was left. */
		if (has && !place_is(folder, ".done") && !place_is(folder, ".new"))
			place_tell(&p, home, denied, warning);
		ret->is_frozen = place_is_frozen(dir, home, has);
		if (!has || access(home, F_OK) == 0)
			ret->path = xasprintf("%s", home);
		free(folder);
	}
	place_pointer_done(&p);
	free(pointer);
	free(home);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * index.c - see index.h. The cache is "LAPSEIX1", the root's path, then a record a
 * run: bytes and checksum of what index_encode() wrote. It is read whole; only
 * records of runs that are asked for are decoded.
 */
#include "store/index.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/codec.h"
#include "wire/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define INDEX_FILE_MAX (512u << 20)
#define INDEX_MAGIC "LAPSEIX1" /* another one for each change of what a record holds */
/* A file that changed a moment ago may change again within its clock's step. */
#define INDEX_RACE_NS 2000000000LL

struct index_entry {
	char *id;
	const unsigned char *cached; /* its record in the cache's text; NULL: none */
	uint32_t len;
	bool loaded, keep; /* `run` holds; it may go into the cache */
	struct index_run run;
};

struct index {
	char *root, *path; /* path of the cache; NULL: there can be none */
	struct buf text;
	struct index_entry *entries;
	size_t n, reads;
	int root_fd; /* the folder; -1: none */
	bool changed;
};

/* ---- the cache's place -------------------------------------------------------- */

/* DIR/lapse, made if missing; NULL: there is no such place. */
static char *index_folder(void)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *dir;

	if (xdg && *xdg == '/')
		dir = xasprintf("%s/lapse", xdg);
	else if (home && *home == '/')
		dir = xasprintf("%s/.cache/lapse", home);
	else
		return NULL;
	if (file_mkdirs(dir, 0700) == 0)
		return dir;
	free(dir);
	return NULL;
}

static char *index_path(const char *root)
{
	char *dir = index_folder(), *path;

	if (!dir)
		return NULL;
	path = xasprintf("%s/runs-%016llx", dir, (unsigned long long)map_hash(root, strlen(root)));
	free(dir);
	return path;
}

/* ---- is it as it was ------------------------------------------------------------- */

/* Readers make and delete these, and they say nothing of what is stored. */
static bool index_is_passing(const char *name, const struct stat *st)
{
	return text_ends(name, "-shm") || text_ends(name, ".lock") ||
	       (text_ends(name, "-wal") && st->st_size == 0);
}

static uint64_t index_key_of(const char *name, const struct stat *st)
{
	const int64_t parts[] = {(int64_t)map_hash(name, strlen(name)),
				 st->st_mtim.tv_sec,
				 st->st_mtim.tv_nsec,
				 st->st_ctim.tv_sec,
				 st->st_ctim.tv_nsec,
				 st->st_size,
				 (int64_t)st->st_ino,
				 st->st_mode};

	return map_hash(parts, sizeof(parts));
}

/* The state of a folder: numbers for the folder itself, and for names, sizes, times and
 * inodes of the files in it. */
struct index_state {
	uint64_t dir_key, key; /* 0: not to be kept */
	int64_t changed;       /* the latest time among them, ns */
	struct buf files;
};

static int64_t index_ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static void index_look(const char *dir, struct index_state *ret)
{
	DIR *d = opendir(dir);
	struct dirent *one;
	bool away = false;
	struct stat st;

	ret->changed = 0;
	ret->key = d ? 1 : 0;
	ret->dir_key = d && fstat(dirfd(d), &st) == 0 ? index_key_of("", &st) : 0;
	buf_init(&ret->files, 1u << 20);
	while (d && (one = readdir(d))) {
		if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0 ||
		    fstatat(dirfd(d), one->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    index_is_passing(one->d_name, &st))
			continue;
		/* A host's live database is elsewhere. */
		away = away || text_ends(one->d_name, ".live");
		ret->key += index_key_of(one->d_name, &st);
		buf_printf(&ret->files, "%s/", one->d_name);
		if (index_ns(&st.st_ctim) > ret->changed)
			ret->changed = index_ns(&st.st_ctim);
	}
	if (d)
		closedir(d);
	if (ret->files.error || away)
		ret->key = 0;
}

/* Is all as it was? Without reading the folder, if it has not changed itself: then it
 * has the same names. */
static bool index_is_same(struct index *x, const struct index_run *r)
{
	const char *p = r->files, *end;
	char path[512];
	struct stat st;
	uint64_t key = 1;

	if (fstatat(x->root_fd, r->id, &st, 0) < 0 || index_key_of("", &st) != r->dir_key)
		return false;
	for (; *p; p = end + 1) {
		end = strchrnul(p, '/');
		if (!*end ||
		    snprintf(path, sizeof(path), "%s/%.*s", r->id, (int)(end - p), p) >=
			    (int)sizeof(path) ||
		    fstatat(x->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		key += index_key_of(path + strlen(r->id) + 1, &st);
	}
	return key == r->key;
}

/* ---- the cache's text ---------------------------------------------------------------- */

/* Records by id, the last one of an id if there are several. */
static void index_scan(struct index *x, struct cur *c, struct map *by_id)
{
	const unsigned char *at;
	struct cur inner;
	const char *id;
	uint64_t len;

	while (!c->error && c->p < c->end) {
		at = c->p;
		len = cur_uvarint(c);
		inner.p = cur_bytes(c, len > INDEX_FILE_MAX ? SIZE_MAX / 2 : (size_t)len + 4);
		if (!inner.p)
			break;
		inner.p += 4; /* checksum */
		inner.end = c->p;
		inner.error = 0;
		len = cur_uvarint(&inner);
		id = len ? cur_bytes(&inner, len > 4096 ? SIZE_MAX / 2 : (size_t)len - 1) : NULL;
		if (id)
			map_put(by_id, id, (size_t)len - 1,
				(uint64_t)(at - (const unsigned char *)x->text.data));
	}
}

static void index_match(struct index *x, struct map *by_id)
{
	struct index_entry *entry;
	uint64_t at, len;
	struct cur c;
	size_t i;

	for (i = 0; i < x->n; i++) {
		entry = &x->entries[i];
		if (!map_get(by_id, entry->id, strlen(entry->id), &at))
			continue;
		c.p = (const unsigned char *)x->text.data + at;
		c.end = (const unsigned char *)x->text.data + x->text.len;
		c.error = 0;
		len = cur_uvarint(&c);
		entry->cached = c.p;
		entry->len = (uint32_t)len;
	}
}

static void index_load(struct index *x)
{
	const char *root;
	struct map by_id;
	struct cur c;
	uint64_t len;

	if (!x->path || file_read(AT_FDCWD, x->path, &x->text) < 0 ||
	    x->text.len < strlen(INDEX_MAGIC) ||
	    memcmp(x->text.data, INDEX_MAGIC, strlen(INDEX_MAGIC)) != 0)
		return;
	c = (struct cur){.p = (const unsigned char *)x->text.data + strlen(INDEX_MAGIC),
			 .end = (const unsigned char *)x->text.data + x->text.len};
	len = cur_uvarint(&c);
	root = cur_bytes(&c, len > 4096 ? SIZE_MAX / 2 : (size_t)len);
	if (!root || len != strlen(x->root) || memcmp(root, x->root, (size_t)len) != 0)
		return;
	map_init(&by_id);
	index_scan(x, &c, &by_id);
	index_match(x, &by_id);
	map_done(&by_id);
}

static bool index_decode_entry(struct index_entry *entry)
{
	uint32_t crc;

	if (!entry->cached)
		return false;
	memcpy(&crc, entry->cached, 4);
	if (crc32c(0, entry->cached + 4, entry->len) != crc)
		return false;
	if (index_decode(entry->cached + 4, entry->len, &entry->run) < 0)
		return false;
	if (strcmp(entry->run.id, entry->id) == 0)
		return true;
	index_run_done(&entry->run);
	return false;
}

static void index_put(struct buf *out, const void *record, size_t len)
{
	uint32_t crc = crc32c(0, record, len);

	buf_uvarint(out, len);
	buf_append(out, &crc, 4);
	buf_append(out, record, len);
}

static void index_save(struct index *x)
{
	struct buf out, one;
	size_t i;

	buf_init(&out, INDEX_FILE_MAX);
	buf_init(&one, INDEX_FILE_MAX);
	buf_puts(&out, INDEX_MAGIC);
	buf_uvarint(&out, strlen(x->root));
	buf_puts(&out, x->root);
	for (i = 0; i < x->n; i++) {
		const struct index_entry *entry = &x->entries[i];

		if (entry->loaded && entry->keep) {
			buf_reset(&one);
			index_encode(&one, &entry->run);
			if (!one.error)
				index_put(&out, buf_str(&one), one.len);
		} else if (!entry->loaded && entry->cached) {
			index_put(&out, entry->cached + 4, entry->len);
		}
	}
	if (!out.error)
		file_write_atomic(AT_FDCWD, x->path, out.data, out.len, 0600);
	buf_done(&out);
	buf_done(&one);
}

/* ---- runs ------------------------------------------------------------------------------- */

int index_open(const char *root, struct err *e, struct index **ret)
{
	struct index *x;
	char **ids = NULL;
	size_t i;
	int r = store_runs(root, &ids, e);

	if (r < 0)
		return r;
	x = xcalloc(1, sizeof(*x));
	x->root = xstrdup(root);
	x->root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	x->path = index_path(root);
	buf_init(&x->text, INDEX_FILE_MAX);
	while (ids[x->n])
		x->n++;
	x->entries = xcalloc(x->n, sizeof(*x->entries));
	for (i = 0; i < x->n; i++)
		x->entries[i].id = ids[i];
	free(ids);
	index_load(x);
	*ret = x;
	return 0;
}

size_t index_count(const struct index *x)
{
	return x->n;
}

size_t index_reads(const struct index *x)
{
	return x->reads;
}

/* Take a run from the cache, if it is there and still right. */
static bool index_from_cache(struct index *x, struct index_entry *entry, struct index_state *now,
			     const char *dir)
{
	if (!index_decode_entry(entry))
		return false;
	if (index_is_same(x, &entry->run))
		return true;
	/* Readers may have come and gone. */
	index_look(dir, now);
	if (now->key && now->key == entry->run.key) {
		entry->run.dir_key = now->dir_key;
		x->changed = true;
		return true;
	}
	index_run_done(&entry->run);
	return false;
}

const struct index_run *index_get(struct index *x, size_t i)
{
	struct index_entry *entry = &x->entries[i];
	struct index_state now = {0};
	char *dir;

	if (entry->loaded)
		return &entry->run;
	dir = xasprintf("%s/%s", x->root, entry->id);
	entry->loaded = true;
	if (index_from_cache(x, entry, &now, dir)) {
		entry->keep = true;
	} else {
		buf_done(&now.files);
		index_look(dir, &now);
		index_read(dir, entry->id, &entry->run);
		entry->run.key = now.key;
		entry->run.dir_key = now.dir_key;
		free(entry->run.files);
		entry->run.files = xstrdup(buf_str(&now.files));
		/* What cannot be read may be readable a moment later. */
		entry->keep = now.key && !entry->run.error &&
			      clock_ns(CLOCK_REALTIME) - now.changed > INDEX_RACE_NS;
		x->changed |= entry->keep || entry->cached;
		x->reads++;
	}
	buf_done(&now.files);
	free(dir);
	return &entry->run;
}

const struct index_metric *index_metric(struct index *x, size_t i, const char *name)
{
	struct index_run *run;
	bool again = false;
	size_t k;
	char *dir;

	index_get(x, i);
	run = &x->entries[i].run;
	for (;;) {
		for (k = 0; k < run->n_metrics; k++)
			if (strcmp(run->metrics[k].name, name) == 0)
				return &run->metrics[k];
		if (again || !run->partial)
			return NULL;
		again = true;
		dir = xasprintf("%s/%s", x->root, run->id);
		index_read_metric(dir, name, run);
		free(dir);
	}
}

void index_close(struct index *x)
{
	size_t i;

	if (!x)
		return;
	if (x->changed && x->path)
		index_save(x);
	for (i = 0; i < x->n; i++) {
		free(x->entries[i].id);
		if (x->entries[i].loaded)
			index_run_done(&x->entries[i].run);
	}
	if (x->root_fd >= 0)
		close(x->root_fd);
	free(x->entries);
	buf_done(&x->text);
	free(x->root);
	free(x->path);
	free(x);
}

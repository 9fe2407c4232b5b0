/* SPDX-License-Identifier: Apache-2.0
 *
 * aside.c - a corrupt file is set aside, whole, and the run goes on in a new one, or
 * in the last copy of it.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Found by a writer that cannot set the file aside while it has it open. */
char *store_bad_mark(const struct store *s)
{
	return xasprintf("%s.bad", s->path);
}

char *store_aside_name(const char *path)
{
	long long at = store_utc_ns() / 1000000000;
	struct stat st;
	char *name;

	for (;; at++) {
		name = xasprintf("%s.corrupt-%lld", path, at);
		if (lstat(name, &st) < 0)
			return name;
		free(name);
	}
}

/* Into the run's folder, which may be on another file system. */
static int store_move(const char *from, const char *to, struct err *e)
{
	int r = rename(from, to) < 0 ? -errno : 0;

	if (r == -EXDEV) {
		r = filecopy_file(from, to, e);
		if (r == 0)
			unlink(from);
		return r;
	}
	return r == 0 || r == -ENOENT ? 0 : err_errno(e, r, "cannot set %s aside", from);
}

static int store_set_aside(struct store *s, struct err *e)
{
	static const char *const parts[] = {"", "-wal", "-journal"};
	char *from, *to, *mark, *aside = store_aside_name(s->home);
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ARRAY_LEN(parts); i++) {
		from = xasprintf("%s%s", s->path, parts[i]);
		to = xasprintf("%s%s", aside, parts[i]);
		r = store_move(from, to, e);
		free(from);
		free(to);
	}
	free(aside);
	from = xasprintf("%s-shm", s->path);
	unlink(from);
	free(from);
	mark = store_bad_mark(s);
	if (r == 0)
		unlink(mark);
	free(mark);
	return r;
}

/* Of a live file elsewhere there is a copy, which was made when it was sound. */
static int store_from_copy(struct store *s, bool *ret, struct err *e)
{
	int r;

	*ret = s->place.folder && place_is(s->home, "") && filecopy_file(s->home, s->path, e) == 0;
	r = store_connect(s, e);
	if (r != -EUCLEAN || !*ret)
		return r;
	*ret = false;
	err_clear(e);
	unlink(s->path);
	return store_connect(s, e);
}

/* An event of the store's own, at once. */
int store_say(struct store *s, const char *kind, const char *text, struct err *e)
{
	int r = commit_event(s, 0, 2, kind, text);

	if (r == 0)
		r = s->sink.ops->commit(&s->sink);
	if (r < 0) {
		err_set(e, r, "%s", s->err.text);
		store_disconnect(s);
	}
	return r;
}

/* Begin anew after setting the file aside, and say so in the new one. */
int store_replace(struct store *s, const struct err *why, struct err *e)
{
	bool has_copy = false;
	char *text;
	int r = store_set_aside(s, e);

	if (r == 0)
		r = store_from_copy(s, &has_copy, e);
	if (r < 0)
		return r;
	text = xasprintf("the database was corrupt and has been set aside (%.400s); what it holds "
			 "is not shown here%s",
			 why->text, has_copy ? ", but for what was in the last copy of it" : "");
	r = store_say(s, "store-corrupt", text, e);
	free(text);
	return r;
}

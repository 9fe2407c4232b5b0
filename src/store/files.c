/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - the hosts' files of a run, as names: what is there, what lives elsewhere,
 * what was set aside.
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/place.h"
#include "store/store_priv.h"
#include "wire/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Length of HOST.db, of which HOST.db.corrupt-SECONDS was set aside; 0: it is none. */
static size_t files_aside(const char *name)
{
	const char *at = strstr(name, ".db.corrupt-");

	if (!at || at == name || strspn(at + 12, "0123456789") != strlen(at + 12) || !at[12])
		return 0;
	return (size_t)(at - name) + 3;
}

static int files_is_one(const struct dirent *d)
{
	return d->d_name[0] != '.' && (text_ends(d->d_name, ".db") ||
				       text_ends(d->d_name, ".live") || files_aside(d->d_name));
}

static bool files_is_live(const char *dir, const char *file)
{
	char *lock = xasprintf("%s/%s.lock", dir, file);
	char *pointer = xasprintf("%s/%.*s.live", dir, (int)strlen(file) - 3, file);
	bool is = rendezvous_is_locked(AT_FDCWD, lock) == 1 || place_is(pointer, "");

	free(lock);
	free(pointer);
	return is;
}

static int files_host(const char *dir, const char *file,
		      int (*fn)(void *arg, const struct store_file *f), void *arg)
{
	struct store_file f = {.name = file, .is_live = files_is_live(dir, file)};
	struct place_view view;
	struct buf told;
	int r;

	buf_init(&told, 4096);
	place_find(dir, file, &told, &view);
	buf_done(&told);
	f.path = view.path;
	r = fn(arg, &f);
	free(view.path);
	return r;
}

static int files_one(const char *dir, const char *name,
		     int (*fn)(void *arg, const struct store_file *f), void *arg)
{
	struct store_file f = {.name = name, .is_aside = true};
	char *path = xasprintf("%s/%s", dir, name), *file, *home;
	int r = 0;

	if (files_aside(name)) {
		f.path = path;
		r = fn(arg, &f);
	} else if (text_ends(name, ".db")) {
		r = files_host(dir, name, fn, arg);
	} else { /* a pointer: stands for the file if there is none */
		file = xasprintf("%.*s.db", (int)strlen(name) - 5, name);
		home = xasprintf("%s/%s", dir, file);
		if (!place_is(home, ""))
			r = files_host(dir, file, fn, arg);
		free(file);
		free(home);
	}
	free(path);
	return r;
}

int store_files(const char *dir, int (*fn)(void *arg, const struct store_file *f), void *arg,
		struct err *e)
{
	struct dirent **names;
	int i, r = 0, n = scandir(dir, &names, files_is_one, alphasort);

	if (n < 0)
		return err_errno(e, -errno, "cannot read the folder %s", dir);
	for (i = 0; i < n; i++) {
		if (r == 0)
			r = files_one(dir, names[i]->d_name, fn, arg);
		free(names[i]);
	}
	free(names);
	return r;
}

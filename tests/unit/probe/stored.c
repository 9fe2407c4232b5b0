/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of stored trees. Everything that fails ends the test.
 */
#include "stored.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

const char *stored_path(const char *tree)
{
	static char path[STORED_PATH];

	snprintf(path, sizeof(path), "%s/%s", TEST_DATA, tree);
	return path;
}

static const char *stored_join(const char *root, const char *path)
{
	static char full[1024];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	return full;
}

/* nftw() takes no argument for its callback. */
static const char *copy_from, *copy_to;

static int stored_copy_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *rest = path + strlen(copy_from);
	struct buf text;

	(void)st;
	(void)ftw;
	if (type != FTW_F)
		return 0;
	buf_init(&text, 1 << 20);
	assert_int_equal(file_read(AT_FDCWD, path, &text), 0);
	stored_write_bytes(copy_to, rest + 1, buf_str(&text), text.len);
	buf_done(&text);
	return 0;
}

void stored_copy(const char *tree, char root[STORED_PATH])
{
	const char *tmp = getenv("TMPDIR");
	char from[STORED_PATH];

	/* Thousands of small files come and go: seconds on some disks. */
	if (!tmp)
		tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(root, STORED_PATH, "%s/lapse-probe-XXXXXX", tmp);
	assert_non_null(mkdtemp(root));
	snprintf(from, sizeof(from), "%s", stored_path(tree));
	copy_from = from;
	copy_to = root;
	assert_int_equal(nftw(from, stored_copy_one, 16, FTW_PHYS), 0);
	copy_from = copy_to = NULL;
}

void stored_write(const char *root, const char *path, const char *text)
{
	stored_write_bytes(root, path, text, strlen(text));
}

void stored_write_bytes(const char *root, const char *path, const char *text, size_t len)
{
	char full[1024], *slash;
	int fd;

	snprintf(full, sizeof(full), "%s", stored_join(root, path));
	slash = strrchr(full, '/');
	*slash = '\0';
	assert_int_equal(file_mkdirs(full, 0700), 0);
	*slash = '/';
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, len), 0);
	close(fd);
}

void stored_edit(const char *root, const char *path, const char *from, const char *to)
{
	char text[8192];
	struct buf old;
	char *at;

	buf_init(&old, 4096);
	assert_int_equal(file_read(AT_FDCWD, stored_join(root, path), &old), 0);
	at = strstr(buf_str(&old), from);
	assert_non_null(at);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - old.data), old.data, to,
		 at + strlen(from));
	stored_write(root, path, text);
	buf_done(&old);
}

static int stored_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void stored_remove(const char *root, const char *path)
{
	char full[1024];

	snprintf(full, sizeof(full), "%s", stored_join(root, path));
	assert_int_equal(nftw(full, stored_remove_one, 16, FTW_PHYS | FTW_DEPTH), 0);
}

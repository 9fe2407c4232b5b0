/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - reads files and folders, splits each file in training and held-out
 * characters, and cuts windows from them.
 */
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where a read in progress puts what it finds. */
struct text_reader {
	struct text *text;
	char *error;
	size_t size;
};

__attribute__((format(printf, 2, 3))) static int text_fail(const struct text_reader *r,
							   const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->error, r->size, format, args);
	va_end(args);
	return -1;
}

static int text_append(struct text_part *p, const uint8_t *from, size_t count)
{
	uint8_t *id = realloc(p->id, p->length + count + 1);

	if (!id)
		return -ENOMEM;
	memcpy(id + p->length, from, count);
	p->id = id;
	p->length += count;
	return 0;
}

/* Split one file: nine tenths to train, the rest to hold out. */
static int text_add(const struct text_reader *r, const char *path, const uint8_t *bytes,
		    size_t length)
{
	struct text *t = r->text;
	const uint8_t *zero = memchr(bytes, 0, length);
	size_t head = length - length / 10;

	if (zero)
		return text_fail(r, "%s: not text: a zero byte at offset %td", path, zero - bytes);
	if (t->train.length + t->held.length + length > TEXT_BYTES_MAX)
		return text_fail(r, "%s: more than %zu MiB of text in all; name fewer files", path,
				 TEXT_BYTES_MAX >> 20);
	if (text_append(&t->train, bytes, head) ||
	    text_append(&t->held, bytes + head, length - head))
		return text_fail(r, "%s: out of memory", path);
	t->files++;
	return 0;
}

/* Read the file behind fd, and close it. */
static int text_read_fd(const struct text_reader *r, const char *path, int fd, size_t length)
{
	uint8_t *bytes = malloc(length + 1);
	size_t have = 0;
	ssize_t got = 1;
	int result;

	while (bytes && have < length && got > 0) {
		got = read(fd, bytes + have, length - have);
		have += got > 0 ? (size_t)got : 0;
	}
	if (!bytes)
		result = text_fail(r, "%s: out of memory", path);
	else if (got < 0)
		result = text_fail(r, "%s: %s", path, strerror(errno));
	else
		result = text_add(r, path, bytes, have);
	free(bytes);
	close(fd);
	return result;
}

static int text_read_file(const struct text_reader *r, const char *path)
{
	struct stat st;
	/* O_NONBLOCK: a named pipe is refused below and not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st) < 0) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		return text_fail(r, "%s: %s", path, strerror(error));
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return text_fail(r, "%s: neither a regular file nor a folder", path);
	}
	if ((uintmax_t)st.st_size > TEXT_BYTES_MAX) {
		close(fd);
		return text_fail(r, "%s: larger than %zu MiB", path, TEXT_BYTES_MAX >> 20);
	}
	return text_read_fd(r, path, fd, (size_t)st.st_size);
}

static int text_in_order(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name); /* not alphasort(): the locale must not matter */
}

static int text_not_hidden(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static int text_read_folder(const struct text_reader *r, const char *path)
{
	struct dirent **entry;
	size_t before = r->text->files;
	int result = 0, count = scandir(path, &entry, text_not_hidden, text_in_order);

	if (count < 0)
		return text_fail(r, "%s: %s", path, strerror(errno));
	for (int i = 0; i < count; i++) {
		char *name = NULL;
		struct stat st;

		if (!result && asprintf(&name, "%s/%s", path, entry[i]->d_name) < 0)
			result = text_fail(r, "%s: out of memory", path);
		else if (!result && lstat(name, &st) == 0 && S_ISREG(st.st_mode))
			result = text_read_file(r, name);
		free(name);
		free(entry[i]);
	}
	free(entry);
	if (!result && r->text->files == before)
		return text_fail(r, "%s: no regular file in this folder", path);
	return result;
}

/* Give each byte that occurs a number, in the order of the bytes, and put the
 * numbers in the place of the bytes. */
static void text_number(struct text *t)
{
	struct text_part *part[2] = {&t->train, &t->held};
	uint8_t seen[256] = {0};

	for (size_t p = 0; p < 2; p++)
		for (size_t i = 0; i < part[p]->length; i++)
			seen[part[p]->id[i]] = 1;
	for (size_t b = 0; b < 256; b++) {
		t->number[b] = seen[b] ? (int16_t)t->vocab : -1;
		if (seen[b])
			t->symbol[t->vocab++] = (uint8_t)b;
	}
	for (size_t p = 0; p < 2; p++)
		for (size_t i = 0; i < part[p]->length; i++)
			part[p]->id[i] = (uint8_t)t->number[part[p]->id[i]];
}

int text_read(struct text *t, const char *const *paths, size_t count, size_t window, char *error,
	      size_t size)
{
	struct text_reader r = {t, error, size};
	int result = 0;

	*t = (struct text){0};
	for (size_t i = 0; i < count && !result; i++) {
		struct stat st;

		if (stat(paths[i], &st) < 0)
			result = text_fail(&r, "%s: %s; name a file or folder with --text",
					   paths[i], strerror(errno));
		else if (S_ISDIR(st.st_mode))
			result = text_read_folder(&r, paths[i]);
		else
			result = text_read_file(&r, paths[i]);
	}
	if (!result && (t->held.length <= window || t->train.length <= window))
		result = text_fail(&r,
				   "%s: text too short: %zu characters, of which %zu are held out; "
				   "more than %zu must be (--context)",
				   paths[0], t->train.length + t->held.length, t->held.length,
				   window);
	if (result)
		text_done(t);
	else
		text_number(t);
	return result;
}

void text_done(struct text *t)
{
	free(t->train.id);
	free(t->held.id);
	*t = (struct text){0};
}

static void text_window(const struct text_part *p, size_t start, uint8_t *in, uint8_t *target,
			size_t length)
{
	memcpy(in, p->id + start, length);
	memcpy(target, p->id + start + 1, length);
}

void text_random_batch(const struct text_part *p, struct random_state *random, uint8_t *in,
		       uint8_t *target, size_t n, size_t length)
{
	size_t starts = p->length - length;

	for (size_t i = 0; i < n; i++)
		text_window(p, random_bits(random) % starts, in + i * length, target + i * length,
			    length);
}

void text_even_batch(const struct text_part *p, size_t i, size_t of, uint8_t *in, uint8_t *target,
		     size_t n, size_t length)
{
	size_t last = p->length - length - 1;

	for (size_t k = 0; k < n; k++)
		text_window(p, of > 1 ? last * (i + k) / (of - 1) : 0, in + k * length,
			    target + k * length, length);
}

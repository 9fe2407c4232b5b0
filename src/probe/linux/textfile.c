/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/linux/textfile.h"

#include "probe/linux/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXTFILE_FIRST 4096 /* the kernel may allocate what is asked for: begin small */

void textbuf_done(struct textbuf *b)
{
	free(b->text);
	*b = (struct textbuf){0};
}

static char *textfile_join(const char *root, const char *path)
{
	size_t n = strlen(root), k = strlen(path) + 1;
	char *p = malloc(n + k);

	if (p) {
		memcpy(p, root, n);
		memcpy(p + n, path, k);
	}
	return p;
}

int textfile_init(struct textfile *f, const char *root, const char *path)
{
	f->fd = -1;
	f->path = textfile_join(root, path);
	return f->path ? 0 : -ENOMEM;
}

void textfile_done(struct textfile *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
	f->fd = -1;
	f->path = NULL;
}

static int textfile_grow(struct textbuf *b, size_t max)
{
	size_t cap = b->cap ? b->cap * 4 : TEXTFILE_FIRST;
	char *more;

	if (b->cap > max)
		return -EFBIG;
	more = realloc(b->text, cap);
	if (!more)
		return -ENOMEM;
	b->text = more;
	b->cap = cap;
	return 0;
}

/* Until the end. One read that leaves room to spare is the end of a small file. */
static int textfile_fill(int fd, struct textbuf *b, size_t max)
{
	ssize_t n;
	int err;

	b->len = 0;
	for (;;) {
		if (b->len == b->cap) {
			err = textfile_grow(b, max);
			if (err)
				return err;
		}
		n = pread(fd, b->text + b->len, b->cap - b->len, (off_t)b->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		b->len += (size_t)n;
		if (b->len > max)
			return -EFBIG;
		/* A record that did not fit makes a short read: go on unless it is clear. */
		if (n == 0 || b->cap - b->len >= TEXTFILE_FIRST / 2)
			return 0;
	}
}

int textfile_read(struct textfile *f, struct textbuf *b, size_t max)
{
	int err;

	if (f->fd < 0) {
		f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (f->fd < 0)
			return -errno;
	}
	err = textfile_fill(f->fd, b, max);
	if (err) {
		close(f->fd);
		f->fd = -1;
	}
	return err;
}

int textfile_once(const char *root, const char *path, struct textbuf *b, size_t max)
{
	struct textfile f;
	int err = textfile_init(&f, root, path);

	if (!err)
		err = textfile_read(&f, b, max);
	textfile_done(&f);
	return err;
}

/* One number with spaces and line ends around it. */
static int textfile_number(const char *p, const char *end, uint64_t *ret)
{
	while (end > p && (end[-1] == '\n' || end[-1] == ' '))
		end--;
	while (p < end && *p == ' ')
		p++;
	if (p == end || proc_begins(p, end, "max") || *p == '-')
		return -ENODATA;
	return proc_number(&p, end, ret) || p != end ? -EBADMSG : 0;
}

int textfile_u64(const char *root, const char *path, uint64_t *ret)
{
	struct textbuf b = {0};
	int err = textfile_once(root, path, &b, TEXTFILE_FIRST);

	if (!err)
		err = b.len ? textfile_number(b.text, b.text + b.len, ret) : -ENODATA;
	textbuf_done(&b);
	return err;
}

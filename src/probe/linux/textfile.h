/* SPDX-License-Identifier: Apache-2.0
 *
 * textfile.h - small files of /proc and /sys that are read again and again: kept
 * open, read from their start with one pread() each time, into one buffer for all.
 */
#ifndef PROBE_LINUX_TEXTFILE_H
#define PROBE_LINUX_TEXTFILE_H

#include <stddef.h>
#include <stdint.h>

/* A buffer for texts. Zero-initialise it. */
struct textbuf {
	char *text; /* what was read last; not ended by NUL */
	size_t len, cap;
};
void textbuf_done(struct textbuf *b);

/* A file. path is copied. Opened at the first reading, and anew after an error. */
struct textfile {
	char *path;
	int fd; /* -1: not open */
};
int textfile_init(struct textfile *f, const char *root, const char *path); /* 0, -ENOMEM */
void textfile_done(struct textfile *f);

/* All of the file, at most max bytes (-EFBIG beyond), into b. Files of /proc may come in
 * pieces: a file longer than b takes more than one read() once, and then b has grown.
 * 0 or -errno; b->text is then undefined. */
int textfile_read(struct textfile *f, struct textbuf *b, size_t max);

/* Once, without keeping it open. path is root and then path. */
int textfile_once(const char *root, const char *path, struct textbuf *b, size_t max);

/* A file that holds one number (decimal, spaces around it; "max" and -1 give -ENODATA),
 * read once. 0, -ENODATA, -EBADMSG, or what opening it said. */
int textfile_u64(const char *root, const char *path, uint64_t *ret);

#endif

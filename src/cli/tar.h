/* SPDX-License-Identifier: Apache-2.0
 *
 * tar.h - tar archives of plain files: headers written as POSIX says (ustar, and a pax
 * header for what does not fit), and a reader that is fed bytes as they come and
 * takes nothing but files and folders with harmless names.
 */
#ifndef CLI_TAR_H
#define CLI_TAR_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK 512u
#define TAR_NAME_MAX 1024u /* bytes of a name; of each part of it 255 */
#define TAR_DEPTH_MAX 16u  /* parts of a name */
#define TAR_FILES_MAX 100000u

/* ---- writing ------------------------------------------------------------------ */

/* Append the headers of a file of size bytes; mtime in seconds since 1970. Then come its
 * bytes and tar_padding(size) zeros; at the very end 2 * TAR_BLOCK zeros. */
void tar_put_header(struct buf *b, const char *name, uint64_t size, int64_t mtime);
size_t tar_padding(uint64_t size);

/* ---- reading ------------------------------------------------------------------- */

struct tar_entry {
	char name[TAR_NAME_MAX + 1]; /* without "./" before and '/' behind it */
	bool is_dir;
	uint64_t size; /* 0 of a folder */
};

/* Who takes what is read. Each returns 0 or -errno, which ends the reading; why[] is
 * what it says then. */
struct tar_taker {
	int (*begin)(void *arg, const struct tar_entry *entry, char why[256]);
	int (*data)(void *arg, const void *data, size_t len, char why[256]);
	int (*end)(void *arg, char why[256]); /* of a file, not of a folder */
	void *arg;
};

struct tar_reader {
	const struct tar_taker *taker;
	unsigned char block[TAR_BLOCK]; /* a header that is not whole yet */
	size_t have;
	struct tar_entry entry;
	uint64_t left, skip; /* bytes of the file, and of padding, still to come */
	uint64_t files;
	struct buf extended;         /* a pax header or a long name of GNU tar */
	char type;                   /* of the entry that is read: 0, 'x' or 'L' hold no file */
	char name[TAR_NAME_MAX + 1]; /* for the next entry; "": none */
	uint64_t size;               /* for the next entry */
	bool has_size;
	unsigned zeros; /* blocks of zeros in a row */
	char why[256];
};
void tar_reader_init(struct tar_reader *r, const struct tar_taker *taker);
void tar_reader_done(struct tar_reader *r);
/* The next bytes of the archive. 0, or -EBADMSG: no archive; -EPERM: it holds what is
 * refused; or what the taker said. r->why says what and which name. What follows the
 * end is not looked at. */
int tar_reader_feed(struct tar_reader *r, const void *data, size_t len);
/* No more comes: 0, or -EBADMSG: it was cut. */
int tar_reader_end(struct tar_reader *r);

/* Is it a relative name that leads nowhere else? NULL, or what is wrong with it. */
const char *tar_name_is_bad(const char *name);

#endif

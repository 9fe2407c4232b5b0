/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - the text to learn from: files read, characters numbered, the last
 * tenth of each file held out for validation.
 */
#ifndef CHARLM_TEXT_H
#define CHARLM_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "random.h"

/* Read when nothing else is named; there on every Debian machine. */
#define TEXT_DEFAULT "/usr/share/common-licenses"

/* Most bytes read in all. */
#define TEXT_BYTES_MAX ((size_t)256 << 20)

/* Characters, each as its number in the alphabet. */
struct text_part {
	uint8_t *id;
	size_t length;
};

struct text {
	struct text_part train, held;
	size_t files;
	size_t vocab;        /* size of the alphabet: different bytes seen */
	uint8_t symbol[256]; /* number to byte */
	int16_t number[256]; /* byte to number, -1: not in the alphabet */
};

/* Read `count` files or folders (of a folder: its regular files in the order of
 * their names; symbolic links, hidden files and sub-folders are left out).
 * Every part must hold more than `window` characters. Returns 0, or -1 and a
 * sentence in error. Free with text_done() after success. */
int text_read(struct text *t, const char *const *paths, size_t count, size_t window, char *error,
	      size_t size);

void text_done(struct text *t);

/* Write n windows from random places: in gets n x length characters, target
 * those one further. */
void text_random_batch(const struct text_part *p, struct random_state *random, uint8_t *in,
		       uint8_t *target, size_t n, size_t length);

/* The same, but window i of `of` evenly spaced ones is the first. */
void text_even_batch(const struct text_part *p, size_t i, size_t of, uint8_t *in, uint8_t *target,
		     size_t n, size_t length);

#endif /* CHARLM_TEXT_H */

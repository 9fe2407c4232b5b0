/* SPDX-License-Identifier: Apache-2.0
 *
 * intern.h - texts by number: equal bytes have equal ids. Id 0 is the empty text.
 * Texts stay where they are until intern_done().
 */
#ifndef TRACE_INTERN_H
#define TRACE_INTERN_H

#include <stddef.h>
#include <stdint.h>

struct intern_text {
	const char *text; /* NUL behind it, and LEX_PAD bytes that may be read */
	uint32_t len, hash;
};

struct intern_chunk;

struct intern {
	struct intern_text *texts;
	uint32_t n, cap;
	uint32_t *slots; /* ids; 0 is free */
	uint32_t n_slots;
	struct intern_chunk *chunk; /* the one being filled, older ones behind it */
	uint64_t bytes;             /* held in all */
};

/* 0, -ENOMEM. */
int intern_init(struct intern *in);
void intern_done(struct intern *in);

/* Id of len bytes, added if new (then *ret_new is 1, else 0). 0, -ENOMEM. */
int intern_put(struct intern *in, const void *text, size_t len, uint32_t *ret, int *ret_new);
/* As intern_put(), for a text that is wanted only if it is there: 0 if not. */
uint32_t intern_find(const struct intern *in, const void *text, size_t len);

/* Hash of bytes; reads nothing past them. */
uint64_t intern_hash(const void *data, size_t len);

#endif

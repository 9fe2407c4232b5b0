/* SPDX-License-Identifier: Apache-2.0
 *
 * intern.c - texts in chunks, ids in an open-addressed table of half load.
 */
#include "trace/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/lex.h"

#define CHUNK_BYTES (256u << 10)

static const char nothing[LEX_PAD];

struct intern_chunk {
	struct intern_chunk *next;
	size_t used, size;
	char data[];
};

static uint64_t fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide m = (wide)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint64_t load_tail(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

uint64_t intern_hash(const void *data, size_t len)
{
	const uint64_t k0 = 0xa0761d6478bd642fu, k1 = 0xe7037ed1a0b428dbu;
	const unsigned char *p = data;
	uint64_t h = len * k1;
	size_t n = len;

	for (; n > 16; n -= 16, p += 16)
		h = fold(lex_load64(p) ^ k0, lex_load64(p + 8) ^ h);
	if (n > 8)
		h = fold(lex_load64(p) ^ k0, lex_load64(p + n - 8) ^ h);
	else if (n == 8)
		h = fold(lex_load64(p) ^ k0, h ^ k1);
	else
		h = fold(load_tail(p, n) ^ k0, h ^ k1);
	return fold(h, k0);
}

int intern_init(struct intern *in)
{
	*in = (struct intern){.n = 1, .cap = 1024, .n_slots = 2048};
	in->texts = malloc(in->cap * sizeof(*in->texts));
	in->slots = calloc(in->n_slots, sizeof(*in->slots));
	if (!in->texts || !in->slots) {
		intern_done(in);
		return -ENOMEM;
	}
	in->texts[0] = (struct intern_text){.text = nothing};
	in->bytes = in->cap * sizeof(*in->texts) + in->n_slots * sizeof(*in->slots);
	return 0;
}

void intern_done(struct intern *in)
{
	struct intern_chunk *next;

	for (struct intern_chunk *c = in->chunk; c; c = next) {
		next = c->next;
		free(c);
	}
	free(in->texts);
	free(in->slots);
	*in = (struct intern){0};
}

static char *room(struct intern *in, size_t len)
{
	struct intern_chunk *c = in->chunk;

	if (!c || c->size - c->used < len) {
		size_t size = len > CHUNK_BYTES / 4 ? len : CHUNK_BYTES;
		struct intern_chunk *fresh = malloc(sizeof(*fresh) + size + LEX_PAD);

		if (!fresh)
			return NULL;
		in->bytes += sizeof(*fresh) + size;
		fresh->used = 0;
		fresh->size = size;
		/* A text with a chunk of its own goes behind the one being filled. */
		if (c && size != CHUNK_BYTES) {
			fresh->next = c->next;
			c->next = fresh;
		} else {
			fresh->next = c;
			in->chunk = fresh;
		}
		c = fresh;
	}
	c->used += len;
	return c->data + c->used - len;
}

static int grow_slots(struct intern *in)
{
	uint32_t n = in->n_slots * 2;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (uint32_t id = 1; id < in->n; id++) {
		uint32_t at = in->texts[id].hash & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = id;
	}
	free(in->slots);
	in->bytes += (uint64_t)(n - in->n_slots) * sizeof(*slots);
	in->slots = slots;
	in->n_slots = n;
	return 0;
}

static int grow_texts(struct intern *in)
{
	uint32_t cap = in->cap + in->cap / 2;
	struct intern_text *texts;

	if (in->cap > UINT32_MAX / 4)
		return -ENOMEM;
	texts = realloc(in->texts, cap * sizeof(*texts));
	if (!texts)
		return -ENOMEM;
	in->bytes += (uint64_t)(cap - in->cap) * sizeof(*texts);
	in->texts = texts;
	in->cap = cap;
	return 0;
}

/* The slot of a text: with its id, or free. */
static uint32_t *slot_of(const struct intern *in, const void *text, size_t len, uint32_t hash)
{
	uint32_t at = hash & (in->n_slots - 1);

	for (; in->slots[at]; at = (at + 1) & (in->n_slots - 1)) {
		const struct intern_text *x = &in->texts[in->slots[at]];

		if (x->hash == hash && x->len == len && !memcmp(x->text, text, len))
			break;
	}
	return &in->slots[at];
}

int intern_put(struct intern *in, const void *text, size_t len, uint32_t *ret, int *ret_new)
{
	uint32_t hash;
	uint32_t *slot;
	char *copy;

	*ret_new = 0;
	if (!len) {
		*ret = 0;
		return 0;
	}
	hash = (uint32_t)intern_hash(text, len);
	slot = slot_of(in, text, len, hash);
	if (*slot) {
		*ret = *slot;
		return 0;
	}
	if (in->n == in->cap && grow_texts(in))
		return -ENOMEM;
	copy = room(in, len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, len);
	copy[len] = '\0';
	in->texts[in->n] = (struct intern_text){.text = copy, .len = (uint32_t)len, .hash = hash};
	*slot = in->n;
	*ret = in->n++;
	*ret_new = 1;
	return in->n > in->n_slots / 2 ? grow_slots(in) : 0;
}

uint32_t intern_find(const struct intern *in, const void *text, size_t len)
{
	return len ? *slot_of(in, text, len, (uint32_t)intern_hash(text, len)) : 0;
}

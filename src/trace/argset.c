/* SPDX-License-Identifier: Apache-2.0
 *
 * argset.c - packing, keeping and unpacking of arguments.
 */
#include "trace/argset.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/intern.h"
#include "trace/spill.h"

#define CHUNK_BYTES (1u << 20)
#define ALIGN 4u
#define OWN_MAX (sizeof(((struct argset_pack *)0)->own) + 5)
#define REF_FIELD 0xff /* of own fields: 4 bytes, id of the shared ones, comes last */

struct argset_chunk {
	unsigned char *data; /* NULL: in the file */
	uint64_t offset;
};

struct argset_slot {
	uint32_t id, hash; /* id 0 is free */
};

enum kind {
	K_INT32,
	K_INT64,
	K_TEXT,
	K_DOUBLE
};

struct row {
	uint16_t offset;
	uint8_t kind;
};

#define ROW(field, kind)                                                                           \
	{                                                                                          \
		offsetof(struct trace_args, field), kind                                           \
	}
static const struct row rows[ARGSET_FIELDS] = {
	[ARGSET_DEVICE] = ROW(device, K_INT32),
	[ARGSET_CONTEXT] = ROW(context, K_INT32),
	[ARGSET_GRID] = ROW(grid[0], K_INT32),
	[ARGSET_GRID_Y] = ROW(grid[1], K_INT32),
	[ARGSET_GRID_Z] = ROW(grid[2], K_INT32),
	[ARGSET_BLOCK] = ROW(block[0], K_INT32),
	[ARGSET_BLOCK_Y] = ROW(block[1], K_INT32),
	[ARGSET_BLOCK_Z] = ROW(block[2], K_INT32),
	[ARGSET_REGISTERS] = ROW(registers, K_INT32),
	[ARGSET_SHARED_MEMORY] = ROW(shared_memory, K_INT32),
	[ARGSET_BLOCKS_PER_SM] = ROW(blocks_per_sm, K_DOUBLE),
	[ARGSET_WARPS_PER_SM] = ROW(warps_per_sm, K_DOUBLE),
	[ARGSET_OCCUPANCY] = ROW(occupancy, K_DOUBLE),
	[ARGSET_BYTES] = ROW(bytes, K_INT64),
	[ARGSET_BANDWIDTH] = ROW(bandwidth, K_DOUBLE),
	[ARGSET_WAIT_ON_STREAM] = ROW(wait_on_stream, K_INT32),
	[ARGSET_WAIT_ON_RECORD] = ROW(wait_on_record, K_INT64),
	[ARGSET_WAIT_ON_EVENT] = ROW(wait_on_event, K_INT64),
	[ARGSET_DIMS] = ROW(dims, K_TEXT),
	[ARGSET_TYPES] = ROW(types, K_TEXT),
	[ARGSET_STRIDES] = ROW(strides, K_TEXT),
	[ARGSET_CONCRETE] = ROW(concrete, K_TEXT),
	[ARGSET_STACK] = ROW(stack, K_TEXT),
	[ARGSET_KERNEL_BACKEND] = ROW(kernel_backend, K_TEXT),
	[ARGSET_KERNEL_FILE] = ROW(kernel_file, K_TEXT),
	[ARGSET_PYTHON_ID] = ROW(python_id, K_INT64),
	[ARGSET_PYTHON_PARENT] = ROW(python_parent, K_INT64),
	[ARGSET_PYTHON_MODULE] = ROW(python_module, K_INT64),
	[ARGSET_SEQUENCE] = ROW(sequence, K_INT64),
	[ARGSET_FORWARD_THREAD] = ROW(forward_thread, K_INT64),
	[ARGSET_FLOPS] = ROW(flops, K_INT64),
	[ARGSET_COLLECTIVE] = ROW(collective, K_TEXT),
	[ARGSET_GROUP_NAME] = ROW(group_name, K_TEXT),
	[ARGSET_GROUP_DESCRIPTION] = ROW(group_description, K_TEXT),
	[ARGSET_COLLECTIVE_DTYPE] = ROW(collective_dtype, K_TEXT),
	[ARGSET_IN_ELEMENTS] = ROW(in_elements, K_INT64),
	[ARGSET_OUT_ELEMENTS] = ROW(out_elements, K_INT64),
	[ARGSET_GROUP_SIZE] = ROW(group_size, K_INT64),
	[ARGSET_COMMS_ID] = ROW(comms_id, K_INT64),
};

static void set_none(struct trace_args *x)
{
	memset(x, 0, sizeof(*x));
	for (unsigned f = 1; f < ARGSET_FIELDS; f++) {
		void *at = (char *)x + rows[f].offset;

		switch (rows[f].kind) {
		case K_INT32:
			*(int32_t *)at = TRACE_NONE;
			break;
		case K_INT64:
			*(int64_t *)at = TRACE_NONE;
			break;
		case K_DOUBLE:
			*(double *)at = NAN;
			break;
		default:
			break;
		}
	}
}

int argset_init(struct argset *a, struct spill *spill)
{
	memset(a, 0, sizeof(*a));
	set_none(&a->none);
	for (unsigned i = 0; i < ARGSET_DECODED; i++)
		a->decoded[i] = a->none;
	a->shared.used = ALIGN; /* id 0 is nothing */
	a->spill = spill;
	a->n_slots = 1024;
	a->slots = calloc(a->n_slots, sizeof(*a->slots));
	a->bytes = sizeof(*a) + a->n_slots * sizeof(*a->slots);
	return a->slots ? 0 : -ENOMEM;
}

static void arena_done(struct argset_arena *x)
{
	for (uint32_t i = 0; i < x->n; i++)
		free(x->chunks[i].data);
	free(x->chunks);
}

void argset_done(struct argset *a)
{
	arena_done(&a->shared);
	arena_done(&a->own);
	free(a->slots);
	*a = (struct argset){0};
}

/* Fields that differ from event to event. */
static bool is_own(enum argset_field f)
{
	return f == ARGSET_PYTHON_ID || f == ARGSET_PYTHON_PARENT || f == ARGSET_SEQUENCE ||
	       f == ARGSET_FORWARD_THREAD;
}

void argset_int(struct argset_pack *p, enum argset_field field, int64_t v)
{
	bool own = is_own(field);
	unsigned char *out = own ? p->own : p->shared;
	unsigned *n = own ? &p->n_own : &p->n_shared;
	unsigned max = own ? sizeof(p->own) : sizeof(p->shared);
	uint64_t u = (uint64_t)v << 1 ^ (uint64_t)(v >> 63);

	if (*n + 16 > max)
		return;
	out += *n;
	*out++ = field;
	for (; u >= 0x80; u >>= 7)
		*out++ = (unsigned char)(u | 0x80);
	*out++ = (unsigned char)u;
	*n = (unsigned)(out - (own ? p->own : p->shared));
}

void argset_double(struct argset_pack *p, enum argset_field field, double v)
{
	if (p->n_shared + 16 > sizeof(p->shared))
		return;
	p->shared[p->n_shared++] = field;
	memcpy(p->shared + p->n_shared, &v, sizeof(v));
	p->n_shared += sizeof(v);
}

/* An id is the place of a set in its arena, in units of ALIGN, and one bit for the arena. */
static uint32_t id_of(uint64_t at, bool own)
{
	return (uint32_t)(at / ALIGN) << 1 | own;
}

static uint64_t place_of(uint32_t id)
{
	return (uint64_t)(id >> 1) * ALIGN;
}

static unsigned char *at_place(const struct argset_arena *x, uint64_t at)
{
	return x->chunks[at / CHUNK_BYTES].data + at % CHUNK_BYTES;
}

static int add_chunk(struct argset *a, struct argset_arena *x)
{
	unsigned char *data;

	if (x->n == x->cap) {
		uint32_t cap = x->cap * 2 + 16;
		struct argset_chunk *c = realloc(x->chunks, cap * sizeof(*c));

		if (!c)
			return -ENOMEM;
		x->chunks = c;
		x->cap = cap;
	}
	data = malloc(CHUNK_BYTES);
	if (!data)
		return -ENOMEM;
	x->chunks[x->n++] = (struct argset_chunk){.data = data};
	a->bytes += CHUNK_BYTES;
	return 0;
}

/* Room for len bytes; 0, -ENOMEM, -E2BIG. */
static int room(struct argset *a, struct argset_arena *x, unsigned len, uint64_t *ret)
{
	uint64_t at = (x->used + ALIGN - 1) / ALIGN * ALIGN;
	int rc;

	if (at % CHUNK_BYTES + len > CHUNK_BYTES)
		at = (at / CHUNK_BYTES + 1) * CHUNK_BYTES;
	if (at / ALIGN > INT32_MAX)
		return -E2BIG;
	if (at / CHUNK_BYTES >= x->n) {
		rc = add_chunk(a, x);
		if (rc)
			return rc;
	}
	x->used = at + len;
	*ret = at;
	return 0;
}

int argset_spill(struct argset *a, uint64_t bytes)
{
	struct argset_arena *x = &a->own;

	while (a->bytes > bytes && x->spilled + 1 < x->n) {
		struct argset_chunk *c = &x->chunks[x->spilled];
		int rc = spill_write(a->spill, c->data, CHUNK_BYTES, &c->offset);

		if (rc)
			return rc;
		free(c->data);
		c->data = NULL;
		x->spilled++;
		a->bytes -= CHUNK_BYTES;
		a->spilled_bytes += CHUNK_BYTES;
	}
	return 0;
}

static int grow_slots(struct argset *a)
{
	uint32_t n = a->n_slots * 2;
	struct argset_slot *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->n_slots; i++) {
		uint32_t at = a->slots[i].hash & (n - 1);

		if (!a->slots[i].id)
			continue;
		while (slots[at].id)
			at = (at + 1) & (n - 1);
		slots[at] = a->slots[i];
	}
	free(a->slots);
	a->slots = slots;
	a->bytes += (uint64_t)(n - a->n_slots) * sizeof(*slots);
	a->n_slots = n;
	return 0;
}

/* Does the shared set at a place equal p? Sets end in field 0, so that one compare tells. */
static bool is_set(const struct argset *a, uint64_t at, const struct argset_pack *p)
{
	const unsigned char *x = at_place(&a->shared, at);

	return at + p->n_shared < a->shared.used && at % CHUNK_BYTES + p->n_shared < CHUNK_BYTES &&
	       !memcmp(x, p->shared, p->n_shared) && x[p->n_shared] == ARGSET_END;
}

static int put_shared(struct argset *a, const struct argset_pack *p, uint32_t *ret)
{
	uint32_t hash = (uint32_t)intern_hash(p->shared, p->n_shared);
	uint32_t slot = hash & (a->n_slots - 1);
	unsigned char *to;
	uint64_t at;
	int rc;

	for (; a->slots[slot].id; slot = (slot + 1) & (a->n_slots - 1)) {
		if (a->slots[slot].hash == hash && is_set(a, place_of(a->slots[slot].id), p)) {
			*ret = a->slots[slot].id;
			return 0;
		}
	}
	rc = room(a, &a->shared, p->n_shared + 1, &at);
	if (rc)
		return rc;
	to = at_place(&a->shared, at);
	memcpy(to, p->shared, p->n_shared);
	to[p->n_shared] = ARGSET_END;
	*ret = id_of(at, false);
	a->slots[slot] = (struct argset_slot){.id = *ret, .hash = hash};
	return ++a->n_sets > a->n_slots / 2 ? grow_slots(a) : 0;
}

int argset_put(struct argset *a, const struct argset_pack *p, uint32_t *ret)
{
	uint32_t shared = 0;
	unsigned char *to;
	uint64_t at;
	int rc;

	*ret = 0;
	if (p->n_shared) {
		rc = put_shared(a, p, &shared);
		if (rc)
			return rc;
	}
	if (!p->n_own) {
		*ret = shared;
		return 0;
	}
	rc = room(a, &a->own, p->n_own + 5, &at);
	if (rc)
		return rc;
	to = at_place(&a->own, at);
	memcpy(to, p->own, p->n_own);
	to[p->n_own] = shared ? REF_FIELD : ARGSET_END;
	memcpy(to + p->n_own + 1, &shared, sizeof(shared));
	*ret = id_of(at, true);
	return 0;
}

static uint64_t varint(const unsigned char **p)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		unsigned char c = *(*p)++;

		v |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80))
			break;
	}
	return v;
}

static void unpack(const struct argset *a, const unsigned char *p, struct trace_args *x)
{
	while (*p != ARGSET_END) {
		uint32_t other;
		uint64_t u;
		unsigned field = *p++;
		void *at;

		if (field == REF_FIELD) {
			memcpy(&other, p, sizeof(other));
			p = at_place(&a->shared, place_of(other));
			continue;
		}
		at = (char *)x + rows[field].offset;
		if (rows[field].kind == K_DOUBLE) {
			memcpy(at, p, sizeof(double));
			p += sizeof(double);
			continue;
		}
		u = varint(&p);
		u = u >> 1 ^ (0 - (u & 1));
		if (rows[field].kind == K_INT64)
			*(int64_t *)at = (int64_t)u;
		else if (rows[field].kind == K_TEXT)
			*(uint32_t *)at = (uint32_t)u;
		else
			*(int32_t *)at = (int64_t)u > INT32_MAX   ? INT32_MAX
					 : (int64_t)u < INT32_MIN ? INT32_MIN
								  : (int32_t)u;
	}
}

static void get(const struct argset *a, uint32_t id, struct trace_args *ret)
{
	const struct argset_arena *x = id & 1 ? &a->own : &a->shared;
	unsigned char far[OWN_MAX];
	uint64_t at = place_of(id);
	const struct argset_chunk *c = &x->chunks[at / CHUNK_BYTES];
	size_t len = CHUNK_BYTES - at % CHUNK_BYTES;

	if (c->data) {
		unpack(a, c->data + at % CHUNK_BYTES, ret);
		return;
	}
	if (len > sizeof(far))
		len = sizeof(far);
	if (!spill_read(a->spill, far, len, c->offset + at % CHUNK_BYTES))
		unpack(a, far, ret);
}

const struct trace_args *argset_get(struct argset *a, uint32_t id)
{
	unsigned at;

	if (place_of(id) >= (id & 1 ? a->own.used : a->shared.used))
		id = 0;
	for (unsigned i = 0; i < ARGSET_DECODED; i++) {
		at = (a->decoded_at - i) % ARGSET_DECODED;
		if (a->decoded_ids[at] == id)
			return &a->decoded[at];
	}
	a->decoded_at = (a->decoded_at + 1) % ARGSET_DECODED;
	at = a->decoded_at;
	a->decoded_ids[at] = id;
	a->decoded[at] = a->none;
	if (id)
		get(a, id, &a->decoded[at]);
	return &a->decoded[at];
}

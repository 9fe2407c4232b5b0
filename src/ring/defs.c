/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the registry: definitions are append-only and published by count.
 */
#include "ring/reader.h"

#include "ring/safemap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Split one entry into C strings in scratch (>= entry + 4 bytes). */
static int defs_split(const unsigned char *p, uint64_t left, struct reader_def *d, char *scratch,
		      uint64_t *ret_bytes)
{
	const char **strings[4] = {&d->name, &d->unit, &d->help, &d->labels};
	struct wire_entry e;
	const unsigned char *text;
	uint64_t need;
	int i;

	if (left < sizeof(e))
		return -EBADMSG;
	memcpy(&e, p, sizeof(e));
	need = sizeof(e) + (uint64_t)e.len[0] + e.len[1] + e.len[2] + e.len[3];
	if (e.bytes > left || e.bytes < need || e.bytes % 8 || e.kind > WIRE_KIND_HISTOGRAM ||
	    e.len[0] == 0)
		return -EBADMSG;
	d->kind = e.kind;
	text = p + sizeof(e);
	for (i = 0; i < 4; i++) {
		memcpy(scratch, text, e.len[i]);
		scratch[e.len[i]] = '\0';
		*strings[i] = scratch;
		scratch += e.len[i] + 1;
		text += e.len[i];
	}
	*ret_bytes = e.bytes;
	return 0;
}

static int defs_walk(struct reader *r, const unsigned char *p, uint64_t bytes, uint32_t count,
		     int (*fn)(void *arg, const struct reader_def *d), void *arg)
{
	/* An entry holds at most 4 strings of 65,535 bytes. */
	char *scratch = malloc(4 * 65536 + 4);
	uint64_t at = 0, used = 0;
	struct reader_def d;
	int n = 0, err = scratch ? 0 : -ENOMEM;

	while (!err && r->defs_count < count) {
		err = defs_split(p + at, bytes - at, &d, scratch, &used);
		if (err) {
			r->defs_broken = true;
			break;
		}
		d.id = r->defs_count + 1;
		err = fn(arg, &d);
		if (err)
			break;
		at += used;
		r->defs_bytes += used;
		r->defs_count++;
		n++;
	}
	free(scratch);
	return err ? err : n;
}

int reader_defs(struct reader *r, int (*fn)(void *arg, const struct reader_def *d), void *arg)
{
	uint64_t published, bytes, room = r->ring.registry_bytes - sizeof(struct wire_registry);
	uint64_t at = r->ring.registry_offset;
	unsigned char *p;
	int n;

	if (r->defs_broken)
		return 0;
	published = __atomic_load_n(&r->registry->published, __ATOMIC_ACQUIRE);
	bytes = published & 0xffffffffu;
	if (bytes < r->defs_bytes || bytes > room) {
		r->defs_broken = true;
		return -EBADMSG;
	}
	if ((published >> 32) <= r->defs_count)
		return 0;
	bytes -= r->defs_bytes;
	p = malloc(bytes ? bytes : 1);
	if (!p)
		return -ENOMEM;
	at += sizeof(struct wire_registry) + r->defs_bytes;
	if (pread(r->fd, p, bytes, (off_t)at) == (ssize_t)bytes)
		n = defs_walk(r, p, bytes, (uint32_t)(published >> 32), fn, arg);
	else
		n = -EIO;
	free(p);
	return n;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cursor.c - how far a reader has come in a run, in memory and as bytes.
 */
#include "base/mem.h"
#include "store/read_priv.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CURSOR_MAGIC "LPC1"
#define CURSOR_NAME_MAX 4096u
#define CURSOR_HEAD 8u /* magic, u32 CRC-32C of what follows */

struct store_cursor *store_cursor_new(void)
{
	return xcalloc(1, sizeof(struct store_cursor));
}

void store_cursor_free(struct store_cursor *c)
{
	size_t i;

	if (!c)
		return;
	for (i = 0; i < c->n_hosts; i++) {
		free(c->hosts[i].name);
		free(c->hosts[i].series);
	}
	free(c->hosts);
	free(c);
}

static struct cursor_host *cursor_push(struct store_cursor *c, char *name)
{
	c->hosts = xgrow(c->hosts, c->n_hosts, &c->cap_hosts, sizeof(*c->hosts));
	c->hosts[c->n_hosts] = (struct cursor_host){.name = name};
	return &c->hosts[c->n_hosts++];
}

struct cursor_host *cursor_host(struct store_cursor *c, const char *name)
{
	size_t i;

	for (i = 0; i < c->n_hosts; i++)
		if (strcmp(c->hosts[i].name, name) == 0)
			return &c->hosts[i];
	return cursor_push(c, xstrdup(name));
}

void cursor_add(struct cursor_host *h, enum sink_kind kind)
{
	h->series = xgrow(h->series, h->n_series, &h->cap_series, sizeof(*h->series));
	h->series[h->n_series++] = (struct cursor_series){
		.seq = h->told, .at = {.step = SINK_STEP_NONE}, .kind = kind};
}

/* ---- bytes ------------------------------------------------------------------------- */

static void cursor_put_series(struct buf *b, const struct cursor_host *h,
			      const struct cursor_series *s)
{
	buf_uvarint(b, (uint64_t)s->kind);
	buf_uvarint(b, s->given);
	if (!s->given)
		return;
	buf_uvarint(b, s->seq > h->seq ? s->seq - h->seq : 0);
	buf_uvarint(b, (uint64_t)s->at.no * 2 + (s->at.step != SINK_STEP_NONE));
	if (s->at.step == SINK_STEP_NONE)
		return;
	buf_svarint(b, s->at.step);
	buf_svarint(b, s->at.time);
}

static void cursor_put_host(struct buf *b, const struct cursor_host *h)
{
	size_t i, n = strlen(h->name);

	buf_uvarint(b, n);
	buf_append(b, h->name, n);
	buf_svarint(b, h->born);
	buf_uvarint(b, h->seq);
	buf_uvarint(b, h->told);
	buf_uvarint(b, h->target);
	buf_uvarint(b, (uint64_t)h->partial * 2 + h->recount);
	buf_uvarint(b, h->n_series);
	for (i = 0; i < h->n_series; i++)
		cursor_put_series(b, h, &h->series[i]);
}

int store_cursor_save(const struct store_cursor *c, struct buf *b)
{
	size_t i, start = b->len;
	uint32_t crc = 0;

	buf_append(b, CURSOR_MAGIC, 4);
	buf_append(b, &crc, 4);
	buf_uvarint(b, c->n_hosts);
	for (i = 0; i < c->n_hosts; i++)
		cursor_put_host(b, &c->hosts[i]);
	if (b->error)
		return b->error;
	crc = htole32(crc32c(0, b->data + start + CURSOR_HEAD, b->len - start - CURSOR_HEAD));
	memcpy(b->data + start + 4, &crc, 4);
	return 0;
}

/* false: not what cursor_put_series() writes. */
static bool cursor_get_series(struct cur *c, struct cursor_host *h)
{
	uint64_t kind = cur_uvarint(c), no, seq;
	struct cursor_series *s;

	if (kind < SINK_GAUGE || kind > SINK_SPAN)
		return false;
	cursor_add(h, (enum sink_kind)kind);
	s = &h->series[h->n_series - 1];
	s->given = cur_uvarint(c);
	s->seq = h->seq;
	if (!s->given)
		return !c->error;
	seq = cur_uvarint(c);
	no = cur_uvarint(c);
	if (seq > INT64_MAX - h->seq || no / 2 >= SEGMENTS_MAX || s->given > INT64_MAX)
		return false;
	s->seq += seq;
	s->at.no = (uint32_t)(no / 2);
	if (no % 2) {
		s->at.step = cur_svarint(c);
		s->at.time = cur_svarint(c);
	}
	return !c->error;
}

static bool cursor_get_host(struct cur *c, struct store_cursor *to)
{
	uint64_t n = cur_uvarint(c), partial, i;
	const char *name = n && n <= CURSOR_NAME_MAX ? cur_bytes(c, (size_t)n) : NULL;
	struct cursor_host *h;

	if (!name || memchr(name, 0, (size_t)n))
		return false;
	h = cursor_push(to, xstrndup(name, (size_t)n));
	h->born = cur_svarint(c);
	h->seq = cur_uvarint(c);
	h->told = cur_uvarint(c);
	h->target = cur_uvarint(c);
	partial = cur_uvarint(c);
	n = cur_uvarint(c);
	if (c->error || h->seq > INT64_MAX || h->told > INT64_MAX || h->target > INT64_MAX ||
	    n > CATALOG_SERIES_MAX || partial / 2 > n || n > (size_t)(c->end - c->p) / 2)
		return false;
	h->partial = (uint32_t)(partial / 2);
	h->recount = partial % 2;
	for (i = 0; i < n; i++)
		if (!cursor_get_series(c, h))
			return false;
	return true;
}

int store_cursor_load(const void *data, size_t len, struct store_cursor **ret)
{
	struct cur cur = {.p = data, .end = (const unsigned char *)data + len};
	const unsigned char *head = cur_bytes(&cur, CURSOR_HEAD);
	struct store_cursor *c;
	uint64_t i, n;
	uint32_t crc;

	if (!head || memcmp(head, CURSOR_MAGIC, 4) != 0)
		return -EUCLEAN;
	memcpy(&crc, head + 4, 4);
	if (le32toh(crc) != crc32c(0, cur.p, len - CURSOR_HEAD))
		return -EUCLEAN;
	n = cur_uvarint(&cur);
	if (cur.error || n > HOSTS_MAX)
		return -EUCLEAN;
	c = store_cursor_new();
	for (i = 0; i < n && cursor_get_host(&cur, c); i++)
		;
	if (i < n || cur.p != cur.end) {
		store_cursor_free(c);
		return -EUCLEAN;
	}
	*ret = c;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * meta.c - what the top object says beside its events: devices, rank, base time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/decimal.h"
#include "trace/reading.h"

typedef const unsigned char *place;

/* The value at p, whose brackets are known to match: behind it. */
static place value_end(struct reader *r, place p)
{
	return r->set->skip(r, p);
}

/* Next key and value of an object; p at { or behind a value. False at its end. */
struct item {
	const char *key;
	size_t key_len;
	place value, end;
};

static bool next_item(struct reader *r, place *p, place end, struct item *ret)
{
	place at = *p;

	while (at < end && *at != '"' && *at != '}')
		at++;
	if (at >= end || *at == '}')
		return false;
	ret->key = (const char *)at + 1;
	at = value_end(r, at);
	if (!at || at >= end)
		return false;
	ret->key_len = (size_t)(at - 1 - (place)ret->key);
	at = lex_space(at);
	if (*at != ':')
		return false;
	ret->value = lex_space(at + 1);
	ret->end = value_end(r, ret->value);
	if (!ret->end || ret->end > end)
		return false;
	*p = ret->end;
	return true;
}

static bool is(const struct item *x, const char *key)
{
	return x->key_len == strlen(key) && !memcmp(x->key, key, x->key_len);
}

static bool number(const struct item *x, int64_t *ret)
{
	place p = x->value + (*x->value == '"');
	unsigned flags;

	if (*p == 't' || *p == 'f') { /* true, false */
		*ret = *p == 't';
		return true;
	}
	return decimal_read(p, (size_t)(x->end - p), 0, ret, &flags);
}

static uint32_t text(struct reader *r, const struct item *x)
{
	if (*x->value != '"' || x->end - x->value < 2)
		return 0;
	return words_text(r, x->value + 1, (size_t)(x->end - x->value) - 2,
			  memchr(x->value, '\\', (size_t)(x->end - x->value)));
}

static void read_device(struct reader *r, place p, place end)
{
	struct trace *t = r->t;
	struct trace_device d = {.id = TRACE_NONE}, *all;
	struct item x;
	int64_t v = 0;

	while (next_item(r, &p, end, &x)) {
		bool has = number(&x, &v);
		const struct {
			const char *key;
			int *small;
			int64_t *large;
		} rows[] = {
			{"id", NULL, &d.id},
			{"totalGlobalMem", NULL, &d.memory},
			{"computeMajor", &d.major, NULL},
			{"computeMinor", &d.minor, NULL},
			{"numSms", &d.sms, NULL},
			{"warpSize", &d.warp_size, NULL},
			{"maxThreadsPerBlock", NULL, &d.threads_per_block},
			{"maxThreadsPerMultiprocessor", NULL, &d.threads_per_sm},
			{"regsPerBlock", NULL, &d.registers_per_block},
			{"sharedMemPerBlock", NULL, &d.shared_per_block},
		};

		if (is(&x, "name"))
			d.name = text(r, &x);
		for (size_t i = 0; has && i < sizeof(rows) / sizeof(*rows); i++) {
			if (!is(&x, rows[i].key))
				continue;
			if (rows[i].large)
				*rows[i].large = v;
			else if (v >= INT32_MIN && v <= INT32_MAX)
				*rows[i].small = (int)v;
		}
	}
	all = realloc(t->devices, (t->n_devices + 1) * sizeof(*all));
	if (!all) {
		r->rc = -ENOMEM;
		return;
	}
	t->devices = all;
	all[t->n_devices++] = d;
}

static void read_devices(struct reader *r, const struct item *x)
{
	place p = x->value;

	if (*p != '[')
		return;
	for (p++; p < x->end && !r->rc;) {
		place end;

		if (*p == '{') {
			end = value_end(r, p);
			if (!end || end > x->end)
				return;
			read_device(r, p, end);
			p = end;
		} else {
			p++;
		}
	}
}

static void set_rank(struct trace *t, int64_t rank, const char *from)
{
	if (rank < 0 || t->meta.rank != TRACE_NONE)
		return;
	t->meta.rank = rank;
	snprintf(t->rank_from, sizeof(t->rank_from), "%s", from);
}

static void read_distributed(struct reader *r, const struct item *of)
{
	struct trace_meta *m = &r->t->meta;
	place p = of->value;
	struct item x;
	int64_t v;

	if (*p != '{')
		return;
	for (p++; next_item(r, &p, of->end, &x);) {
		if (is(&x, "backend"))
			m->backend = text(r, &x);
		else if (is(&x, "rank") && number(&x, &v))
			set_rank(r->t, v, "distributedInfo");
		else if (is(&x, "world_size") && number(&x, &v))
			m->world_size = v;
	}
}

void meta_value(struct reader *r, const unsigned char *key, size_t key_len, const unsigned char *p,
		const unsigned char *end)
{
	struct trace_meta *m = &r->t->meta;
	struct item x = {(const char *)key, key_len, p, end};
	const struct {
		const char *key;
		int64_t *number;
		bool *flag;
		uint32_t *text;
	} rows[] = {
		{"schemaVersion", &m->schema, NULL, NULL},
		{"baseTimeNanoseconds", &m->base_ns, NULL, NULL},
		{"cuda_driver_version", &m->cuda_driver, NULL, NULL},
		{"cuda_runtime_version", &m->cuda_runtime, NULL, NULL},
		{"cupti_version", &m->cupti, NULL, NULL},
		{"record_shapes", NULL, &m->record_shapes, NULL},
		{"with_stack", NULL, &m->with_stack, NULL},
		{"profile_memory", NULL, &m->profile_memory, NULL},
		{"with_flops", NULL, &m->with_flops, NULL},
		{"with_modules", NULL, &m->with_modules, NULL},
		{"trace_id", NULL, NULL, &m->trace_id},
		{"host_name", NULL, NULL, &m->host},
	};
	int64_t v = 0;

	if (is(&x, "deviceProperties"))
		read_devices(r, &x);
	else if (is(&x, "distributedInfo"))
		read_distributed(r, &x);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!is(&x, rows[i].key))
			continue;
		if (rows[i].text) {
			*rows[i].text = text(r, &x);
			continue;
		}
		if (!number(&x, &v)) {
			char show[64];

			notes_add(r->t, NOTES_META, reading_offset(r, p),
				  "%s is %s, expected a number", rows[i].key,
				  notes_show(p, end, show));
			continue;
		}
		if (rows[i].number)
			*rows[i].number = v;
		else
			*rows[i].flag = v != 0;
	}
}

/* N of "rankN", "rank-N", "rank_N", "workerN" in the name of the file. */
static int64_t from_name(const char *path, const char *word)
{
	const char *name = strrchr(path, '/');
	int64_t v;
	unsigned flags;

	for (name = name ? name + 1 : path; (name = strstr(name, word)); name += strlen(word)) {
		const char *p = name + strlen(word);
		size_t len;

		p += *p == '-' || *p == '_';
		len = strspn(p, "0123456789");
		if (len && len < 10 && decimal_read((place)p, len, 0, &v, &flags))
			return v;
	}
	return TRACE_NONE;
}

void meta_close(struct trace *t)
{
	set_rank(t, from_name(t->path, "rank"), "file name");
	set_rank(t, from_name(t->path, "worker"), "file name");
	t->meta.rank_from = t->rank_from;
}

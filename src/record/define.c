/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions: metrics and span names. The master copy is private memory, made
 * at the first definition; a ring gets a copy and then each new entry. Entries
 * are append-only, so an id once given holds for the life of the process.
 */
#include "record/record_priv.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEF_BYTES (256u << 10) /* of entries */
#define DEF_MAX 8192u          /* definitions */
#define DEF_HASH 16384u        /* twice that: always room to probe */
#define DEF_LABELS 32u         /* labels of one metric */

struct def_master {
	uint32_t hash[DEF_HASH];  /* id, or 0 */
	uint32_t place[DEF_MAX];  /* offset of the entry with id - 1 */
	unsigned char bytes[DEF_BYTES];
};

static struct {
	struct def_master *master;
	uint32_t count, used;
	uint64_t refused;
	struct wire_registry *shared; /* of the current ring, or NULL */
	uint64_t shared_bytes;        /* room for entries in it */
	pid_t locked_by;              /* 0: free */
} def;

/* A lock that a child of fork() may find held by its parent: it holds the pid,
 * and another process's pid means that nobody here has it. */
static void def_lock(void)
{
	pid_t self = getpid(), holder;

	for (;;) {
		holder = 0;
		if (__atomic_compare_exchange_n(&def.locked_by, &holder, self, false,
		                                __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
		if (holder != self && __atomic_compare_exchange_n(&def.locked_by, &holder, self, false,
		                                                  __ATOMIC_ACQUIRE,
		                                                  __ATOMIC_RELAXED))
			return;
		sched_yield();
	}
}

static void def_unlock(void)
{
	__atomic_store_n(&def.locked_by, 0, __ATOMIC_RELEASE);
}

static size_t def_cut(const char *s, size_t max)
{
	size_t n = s ? strnlen(s, max + 1) : 0;

	if (n <= max)
		return n;
	for (n = max; n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
		;
	return n;
}

/* Append key="value" to out if all of it fits. */
static size_t def_label(char *out, size_t at, const char *key, const char *value)
{
	char pair[LAPSE_LABELS_MAX + 1];
	size_t n = 0;
	const char *p;

	if (at > 0)
		pair[n++] = ',';
	for (p = key; *p; p++) {
		if (n + 4 >= sizeof(pair))
			return at;
		pair[n++] = *p;
	}
	pair[n++] = '=';
	pair[n++] = '"';
	for (p = value; *p; p++) {
		if (n + 3 >= sizeof(pair))
			return at;
		if (*p == '"' || *p == '\\' || *p == '\n')
			pair[n++] = '\\';
		pair[n++] = *p == '\n' ? 'n' : *p;
	}
	pair[n++] = '"';
	if (at + n > LAPSE_LABELS_MAX)
		return at;
	memcpy(out + at, pair, n);
	return at + n;
}

/* k="v",k="v" with keys sorted; of two equal keys the first stays. */
static size_t def_labels(char out[LAPSE_LABELS_MAX + 1], const char *const *labels)
{
	const char *const *order[DEF_LABELS];
	unsigned n = 0, i, k;
	size_t at = 0;

	for (; labels && labels[0] && labels[1] && n < DEF_LABELS; labels += 2) {
		for (k = n; k > 0 && strcmp(order[k - 1][0], labels[0]) > 0; k--)
			order[k] = order[k - 1];
		order[k] = labels;
		n++;
	}
	for (i = 0; i < n; i++)
		if (i == 0 || strcmp(order[i][0], order[i - 1][0]) != 0)
			at = def_label(out, at, order[i][0], order[i][1]);
	return at;
}

struct def_key {
	uint8_t kind;
	const char *text[4]; /* name, unit, help, labels */
	size_t len[4];
};

static uint32_t def_hash(const struct def_key *k)
{
	static const int parts[] = {0, 3};
	uint32_t h = 2166136261u ^ k->kind;
	size_t i, j;

	for (i = 0; i < 2; i++)
		for (j = 0; j < k->len[parts[i]]; j++)
			h = (h ^ (unsigned char)k->text[parts[i]][j]) * 16777619u;
	return (h ^ h >> 15) % DEF_HASH;
}

static bool def_same(const unsigned char *p, const struct def_key *k)
{
	struct wire_entry e;
	const unsigned char *labels;

	memcpy(&e, p, sizeof(e));
	labels = p + sizeof(e) + e.len[0] + e.len[1] + e.len[2];
	return e.kind == k->kind && e.len[0] == k->len[0] && e.len[3] == k->len[3] &&
	       memcmp(p + sizeof(e), k->text[0], k->len[0]) == 0 &&
	       memcmp(labels, k->text[3], k->len[3]) == 0;
}

static void def_publish(struct wire_registry *r)
{
	__atomic_store_n(&r->published, (uint64_t)def.count << 32 | def.used, __ATOMIC_RELEASE);
}

/* Append; 0 if there is no room in the master or in the ring. */
static uint32_t def_append(const struct def_key *k)
{
	struct wire_entry e = {0};
	unsigned char *p = def.master->bytes + def.used, *to = p + sizeof(e);
	size_t bytes = sizeof(e) + k->len[0] + k->len[1] + k->len[2] + k->len[3];
	int i;

	bytes = (bytes + 7) & ~(size_t)7;
	if (def.count == DEF_MAX || bytes > DEF_BYTES - def.used ||
	    (def.shared && def.used + bytes > def.shared_bytes))
		return 0;
	e.bytes = (uint32_t)bytes;
	e.kind = k->kind;
	for (i = 0; i < 4; i++) {
		e.len[i] = (uint16_t)k->len[i];
		if (k->len[i])
			memcpy(to, k->text[i], k->len[i]);
		to += k->len[i];
	}
	memcpy(p, &e, sizeof(e));
	if (def.shared)
		memcpy((unsigned char *)(def.shared + 1) + def.used, p, bytes);
	def.master->place[def.count] = def.used;
	def.used += (uint32_t)bytes;
	def.count++;
	if (def.shared)
		def_publish(def.shared);
	return def.count;
}

static uint32_t def_find(const struct def_key *k)
{
	uint32_t i, id;

	for (i = def_hash(k);; i = (i + 1) % DEF_HASH) {
		id = def.master->hash[i];
		if (id == 0)
			break;
		if (def_same(def.master->bytes + def.master->place[id - 1], k))
			return id;
	}
	id = def_append(k);
	def.master->hash[i] = id;
	if (id == 0)
		def.refused++;
	return id;
}

static uint32_t def_define(uint8_t kind, const char *name, const char *unit, const char *help,
                           const char *const *labels)
{
	char text[LAPSE_LABELS_MAX + 1];
	struct def_key k = {kind, {name, unit, help, text}, {0}};
	struct wire_ctl *ctl = rec_ctl();
	int saved = errno;
	uint32_t id = 0;
	void *p;

	k.len[0] = def_cut(name, LAPSE_NAME_MAX);
	if (k.len[0] == 0)
		return 0;
	k.len[1] = def_cut(unit, LAPSE_UNIT_MAX);
	k.len[2] = def_cut(help, LAPSE_HELP_MAX);
	k.len[3] = def_labels(text, labels);
	def_lock();
	if (!def.master) {
		p = mmap(NULL, sizeof(*def.master), PROT_READ | PROT_WRITE,
		         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		def.master = p == MAP_FAILED ? NULL : p;
	}
	if (def.master)
		id = def_find(&k);
	if (ctl)
		__atomic_store_n(&ctl->registry_refused, def.refused, __ATOMIC_RELAXED);
	def_unlock();
	errno = saved;
	return id;
}

uint64_t rec_registry_bytes(void)
{
	return def.used;
}

void rec_registry_attach(struct wire_registry *shared, uint64_t bytes)
{
	def_lock();
	def.shared = shared;
	def.shared_bytes = bytes - sizeof(*shared);
	if (def.used) {
		memcpy(shared + 1, def.master->bytes, def.used);
		def_publish(shared);
	}
	def_unlock();
}

void rec_registry_count(uint64_t *ret_defined, uint64_t *ret_refused)
{
	*ret_defined = def.count;
	*ret_refused = def.refused;
}

struct lapse_metric lapse_gauge(const char *name, const char *unit, const char *help,
                                const char *const *labels)
{
	return (struct lapse_metric){def_define(WIRE_KIND_GAUGE, name, unit, help, labels)};
}

struct lapse_metric lapse_counter(const char *name, const char *unit, const char *help,
                                  const char *const *labels)
{
	return (struct lapse_metric){def_define(WIRE_KIND_COUNTER, name, unit, help, labels)};
}

struct lapse_metric lapse_histogram(const char *name, const char *unit, const char *help,
                                    const char *const *labels)
{
	return (struct lapse_metric){def_define(WIRE_KIND_HISTOGRAM, name, unit, help, labels)};
}

struct lapse_name lapse_name(const char *name)
{
	return (struct lapse_name){def_define(WIRE_KIND_NAME, name, NULL, NULL, NULL)};
}

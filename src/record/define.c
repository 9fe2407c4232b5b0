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
	uint32_t hash[DEF_HASH]; /* id, or 0 */
	uint32_t place[DEF_MAX]; /* offset of the entry with id - 1 */
	unsigned char bytes[DEF_BYTES];
};

static struct {
	struct def_master *master;
	uint64_t published;           /* count << 32 | bytes, in one store: a child of
					 fork() may be made at any moment (atomic) */
	uint64_t refused;             /* (atomic) */
	uint64_t untold;              /* of them, not yet in a control page */
	struct wire_registry *shared; /* of the current ring, or NULL */
	uint64_t shared_bytes;        /* room for entries in it */
	pid_t shared_by;              /* the process that has it mapped */
	pid_t locked_by;              /* 0: free */
} def;

void rec_lock(pid_t *word)
{
	pid_t self = getpid(), holder;

	for (;;) {
		holder = 0;
		if (__atomic_compare_exchange_n(word, &holder, self, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
		if (holder != self &&
		    __atomic_compare_exchange_n(word, &holder, self, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
		sched_yield();
	}
}

void rec_unlock(pid_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

size_t rec_cut(const char *s, size_t max)
{
	size_t n = s ? strnlen(s, max + 1) : 0, back;

	if (n <= max)
		return n;
	/* What has no beginning within 4 bytes is no UTF-8: cut anywhere. */
	for (back = 0; back < 4 && back < max; back++)
		if (((unsigned char)s[max - back] & 0xc0) != 0x80)
			return max - back;
	return max;
}

/* Append key="value" to out if all of it fits. */
static size_t def_label(char out[LAPSE_LABELS_MAX + 1], size_t at, const char *key,
			const char *value)
{
	size_t n = at, keys = strnlen(key, LAPSE_LABELS_MAX);
	const char *p;

	/* A comma, an equals sign, two quotes. */
	if (n + keys + 4 > LAPSE_LABELS_MAX + (at == 0))
		return at;
	if (at > 0)
		out[n++] = ',';
	memcpy(out + n, key, keys);
	n += keys;
	out[n++] = '=';
	out[n++] = '"';
	for (p = value; *p; p++) {
		bool escape = *p == '"' || *p == '\\' || *p == '\n';

		/* With the quote behind it. */
		if (n + escape + 2 > LAPSE_LABELS_MAX)
			return at;
		if (escape)
			out[n++] = '\\';
		out[n++] = *p == '\n' ? 'n' : *p;
	}
	out[n++] = '"';
	return n;
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

/* The ring's registry, if the ring is this very process's. */
static struct wire_registry *def_shared(void)
{
	return def.shared && def.shared_by == getpid() ? def.shared : NULL;
}

/* Append; 0 if there is no room in the master or in the ring. */
static uint32_t def_append(const struct def_key *k)
{
	uint32_t count = (uint32_t)(def.published >> 32), used = (uint32_t)def.published;
	struct wire_registry *shared = def_shared();
	struct wire_entry e = {0};
	unsigned char *p = def.master->bytes + used, *to = p + sizeof(e);
	size_t bytes = sizeof(e) + k->len[0] + k->len[1] + k->len[2] + k->len[3];
	int i;

	bytes = (bytes + 7) & ~(size_t)7;
	if (count == DEF_MAX || bytes > DEF_BYTES - used ||
	    (shared && used + bytes > def.shared_bytes))
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
	if (shared)
		memcpy((unsigned char *)(shared + 1) + used, p, bytes);
	def.master->place[count] = used;
	__atomic_store_n(&def.published, (uint64_t)(count + 1) << 32 | (used + bytes),
			 __ATOMIC_RELEASE);
	if (shared)
		__atomic_store_n(&shared->published, def.published, __ATOMIC_RELEASE);
	return count + 1;
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
	return id;
}

/* Refusals for which there was no control page, told once there is one. */
static void def_tell(struct wire_ctl *ctl)
{
	if (!ctl || def.untold == 0)
		return;
	__atomic_fetch_add(&ctl->registry_refused, def.untold, __ATOMIC_RELAXED);
	def.untold = 0;
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

	k.len[0] = rec_cut(name, LAPSE_NAME_MAX);
	if (k.len[0] == 0)
		return 0;
	k.len[1] = rec_cut(unit, LAPSE_UNIT_MAX);
	k.len[2] = rec_cut(help, LAPSE_HELP_MAX);
	k.len[3] = def_labels(text, labels);
	rec_lock(&def.locked_by);
	if (!def.master) {
		p = mmap(NULL, sizeof(*def.master), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		def.master = p == MAP_FAILED ? NULL : p;
	}
	if (def.master)
		id = def_find(&k);
	if (id == 0) {
		__atomic_fetch_add(&def.refused, 1, __ATOMIC_RELAXED);
		def.untold++;
	}
	def_tell(ctl);
	rec_unlock(&def.locked_by);
	errno = saved;
	return id;
}

uint64_t rec_registry_bytes(void)
{
	return __atomic_load_n(&def.published, __ATOMIC_ACQUIRE) & 0xffffffffu;
}

int rec_registry_attach(struct wire_registry *shared, uint64_t bytes, struct wire_ctl *ctl)
{
	uint64_t used;

	rec_lock(&def.locked_by);
	used = def.published & 0xffffffffu;
	if (used + sizeof(*shared) > bytes) {
		rec_unlock(&def.locked_by);
		return -ENOSPC;
	}
	def.shared = shared;
	def.shared_bytes = bytes - sizeof(*shared);
	def.shared_by = getpid();
	if (used) {
		memcpy(shared + 1, def.master->bytes, used);
		__atomic_store_n(&shared->published, def.published, __ATOMIC_RELEASE);
	}
	def_tell(ctl);
	rec_unlock(&def.locked_by);
	return 0;
}

void rec_registry_count(uint64_t *ret_defined, uint64_t *ret_refused)
{
	*ret_defined = __atomic_load_n(&def.published, __ATOMIC_RELAXED) >> 32;
	*ret_refused = __atomic_load_n(&def.refused, __ATOMIC_RELAXED);
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

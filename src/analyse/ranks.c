/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.c - sets of ranks: texts, merging, bytes, and the steps of the result.
 */
#include "analyse/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/ranks_priv.h"
#include "analyse/room.h"

#define MAGIC "LRK1"
#define TIME_MAX (INT64_C(1) << 61) /* ns; of times in bytes from outside */
#define SPAN_MAX (INT64_C(1) << 53)

const char *const ranks_why_names[] = {
	[RANKS_HOST] = "host",
	[RANKS_COMPUTE] = "compute",
	[RANKS_UNKNOWN] = "unknown",
};

int ranks_new(struct ranks_set **ret)
{
	struct ranks_set *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	map_init(&s->ids);
	*ret = s;
	return 0;
}

void ranks_one_done(struct ranks_one *one)
{
	free(one->parts);
	free(one->coll);
	one->parts = NULL;
	one->coll = NULL;
}

void ranks_free(struct ranks_set *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		ranks_one_done(&s->ranks[i]);
	for (size_t i = 0; i < s->n_texts; i++)
		free(s->texts[i]);
	free(s->ranks);
	free(s->texts);
	map_done(&s->ids);
	free(s);
}

int ranks_text(struct ranks_set *s, const char *text, size_t len, uint32_t *ret)
{
	uint64_t known;
	char *copy;

	if (map_get(&s->ids, text, len, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	copy = malloc(len + 1);
	if (!copy || room_for(&s->texts, s->n_texts, &s->cap_texts, sizeof(*s->texts)) < 0) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	map_put(&s->ids, text, len, s->n_texts);
	s->texts[s->n_texts] = copy;
	*ret = (uint32_t)s->n_texts++;
	return 0;
}

static bool has_rank(const struct ranks_set *s, int64_t rank)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->ranks[i].rank == rank)
			return true;
	}
	return false;
}

int ranks_insert(struct ranks_set *s, struct ranks_one *one, struct err *e)
{
	size_t at = s->n;

	if (one->rank < 0) {
		one->is_guessed = true;
		for (one->rank = 0; has_rank(s, one->rank);)
			one->rank++;
	}
	if (has_rank(s, one->rank)) {
		err_set(e, -EEXIST,
			"two traces of rank %lld; leave one out (traces of several windows of one "
			"rank are compared one by one)",
			(long long)one->rank);
		return -EEXIST;
	}
	if (room_for(&s->ranks, s->n, &s->cap, sizeof(*s->ranks)) < 0)
		return -ENOMEM;
	for (; at && s->ranks[at - 1].rank > one->rank; at--)
		s->ranks[at] = s->ranks[at - 1];
	s->ranks[at] = *one;
	s->n++;
	return 0;
}

/* ---- merging --------------------------------------------------------------------------- */

static void renumber(struct ranks_one *one, const uint32_t *ids)
{
	for (size_t i = 0; i < one->n_coll; i++) {
		one->coll[i].group = ids[one->coll[i].group];
		one->coll[i].name = ids[one->coll[i].name];
	}
	for (size_t i = 0; i < one->n_parts; i++) {
		for (int k = 0; k < RANKS_NAMES; k++) {
			if (one->parts[i].host[k].ns)
				one->parts[i].host[k].name = ids[one->parts[i].host[k].name];
		}
	}
}

int ranks_merge(struct ranks_set *s, struct ranks_set *from, struct err *e)
{
	uint32_t *ids = calloc(from->n_texts + 1, sizeof(*ids));
	int r = ids ? 0 : -ENOMEM;

	for (size_t i = 0; i < from->n_texts && r == 0; i++)
		r = ranks_text(s, from->texts[i], strlen(from->texts[i]), &ids[i]);
	for (size_t i = 0; i < from->n && r == 0; i++) {
		if (!from->ranks[i].is_guessed && has_rank(s, from->ranks[i].rank))
			r = err_set(e, -EEXIST, "two traces of rank %lld; leave one out",
				    (long long)from->ranks[i].rank);
	}
	while (from->n && r == 0) {
		struct ranks_one one = from->ranks[from->n - 1];

		if (one.is_guessed && has_rank(s, one.rank))
			one.rank = -1;
		r = ranks_insert(s, &one, e);
		if (r == 0) {
			renumber(&one, ids); /* its arrays are the set's now */
			from->n--;
		}
	}
	free(ids);
	return r;
}

/* ---- bytes ------------------------------------------------------------------------------ */

static void put_part(const struct ranks_part *p, struct buf *out)
{
	const int64_t all[] = {p->s.number, p->s.ns,   p->s.compute, p->s.comm,
			       p->s.memory, p->s.idle, p->s.host};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		buf_svarint(out, all[i]);
	for (int k = 0; k < RANKS_NAMES && p->host[k].ns; k++) {
		buf_svarint(out, p->host[k].ns);
		buf_uvarint(out, p->host[k].name);
	}
	buf_svarint(out, 0);
}

void ranks_put(const struct ranks_set *s, struct buf *out)
{
	buf_puts(out, MAGIC);
	buf_uvarint(out, s->n_texts);
	for (size_t i = 0; i < s->n_texts; i++) {
		buf_uvarint(out, strlen(s->texts[i]));
		buf_puts(out, s->texts[i]);
	}
	buf_uvarint(out, s->n);
	for (size_t i = 0; i < s->n; i++) {
		const struct ranks_one *one = &s->ranks[i];
		int64_t last = 0;

		buf_svarint(out, one->rank);
		buf_uvarint(out, one->is_guessed);
		buf_uvarint(out, one->n_parts);
		for (size_t k = 0; k < one->n_parts; k++)
			put_part(&one->parts[k], out);
		buf_uvarint(out, one->n_coll);
		for (size_t k = 0; k < one->n_coll; k++) {
			const struct ranks_collective *c = &one->coll[k];

			buf_svarint(out, c->ts - last);
			buf_svarint(out, c->end - c->ts);
			buf_svarint(out, c->step);
			buf_uvarint(out, c->group);
			buf_uvarint(out, c->name);
			buf_uvarint(out, c->order);
			last = c->ts;
		}
	}
}

static uint32_t get_id(const struct ranks_set *s, struct cur *c)
{
	uint64_t id = cur_uvarint(c);

	if (id < s->n_texts)
		return (uint32_t)id;
	c->error = c->error ? c->error : -EBADMSG;
	return 0;
}

/* A number within -max and max. */
static int64_t get_within(struct cur *c, int64_t max)
{
	int64_t v = cur_svarint(c);

	if (v >= -max && v <= max)
		return v;
	c->error = c->error ? c->error : -EBADMSG;
	return 0;
}

static void get_part(const struct ranks_set *s, struct cur *c, struct ranks_part *p)
{
	int64_t *all[] = {&p->s.number, &p->s.ns,   &p->s.compute, &p->s.comm,
			  &p->s.memory, &p->s.idle, &p->s.host};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		*all[i] = get_within(c, SPAN_MAX);
	for (int k = 0; k <= RANKS_NAMES && !c->error; k++) {
		int64_t ns = get_within(c, SPAN_MAX);

		if (!ns)
			return;
		if (k == RANKS_NAMES) {
			c->error = -EBADMSG;
			return;
		}
		p->host[k].ns = ns;
		p->host[k].name = get_id(s, c);
	}
}

/* A count of things of at least one byte each. */
static size_t get_count(struct cur *c)
{
	uint64_t n = cur_uvarint(c);

	if (n <= (uint64_t)(c->end - c->p))
		return (size_t)n;
	c->error = c->error ? c->error : -EBADMSG;
	return 0;
}

static int get_one(const struct ranks_set *s, struct cur *c, struct ranks_one *one)
{
	int64_t last = 0;

	one->rank = cur_svarint(c);
	one->is_guessed = cur_uvarint(c) != 0;
	one->n_parts = get_count(c);
	one->parts = calloc(one->n_parts + 1, sizeof(*one->parts));
	if (!one->parts)
		return -ENOMEM;
	for (size_t k = 0; k < one->n_parts && !c->error; k++) {
		get_part(s, c, &one->parts[k]);
		if (k && one->parts[k].s.number <= one->parts[k - 1].s.number)
			c->error = -EBADMSG;
	}
	one->n_coll = get_count(c);
	one->coll = calloc(one->n_coll + 1, sizeof(*one->coll));
	if (!one->coll)
		return -ENOMEM;
	for (size_t k = 0; k < one->n_coll && !c->error; k++) {
		struct ranks_collective *l = &one->coll[k];

		l->ts = last + get_within(c, 2 * TIME_MAX - 1);
		if (l->ts > TIME_MAX || l->ts < -TIME_MAX) {
			c->error = -EBADMSG;
			break;
		}
		l->end = l->ts + get_within(c, SPAN_MAX);
		l->step = get_within(c, SPAN_MAX);
		l->group = get_id(s, c);
		l->name = get_id(s, c);
		l->order = (uint32_t)cur_uvarint(c);
		last = l->ts;
	}
	return c->error || one->rank < 0 ? -EBADMSG : 0;
}

static int get_all(struct ranks_set *s, struct cur *c, struct err *e)
{
	size_t n = get_count(c);
	int r = 0;

	for (size_t i = 0; i < n && r == 0 && !c->error; i++) {
		size_t len = get_count(c);
		const void *text = cur_bytes(c, len);
		uint32_t id;

		if (text)
			r = ranks_text(s, text, len, &id);
		if (r == 0 && (!text || id != i))
			r = -EBADMSG;
	}
	n = r == 0 ? get_count(c) : 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct ranks_one one = {0};

		r = get_one(s, c, &one);
		if (r == 0)
			r = ranks_insert(s, &one, e);
		if (r < 0)
			ranks_one_done(&one);
	}
	return r ? r : c->error;
}

int ranks_get(const void *bytes, size_t len, struct ranks_set **ret, struct err *e)
{
	struct cur c = {bytes, (const unsigned char *)bytes + len, 0};
	const void *magic = cur_bytes(&c, strlen(MAGIC));
	struct ranks_set *s;
	int r = ranks_new(&s);

	if (r < 0)
		return r;
	if (!magic || memcmp(magic, MAGIC, strlen(MAGIC)) != 0)
		r = -EBADMSG;
	else
		r = get_all(s, &c, e);
	if (r < 0) {
		ranks_free(s);
		return r == -EBADMSG ? err_set(e, r,
					       "no summary of ranks, or a damaged one: write it "
					       "again with the same version of lapse")
				     : r;
	}
	*ret = s;
	return 0;
}

/* ---- the result -------------------------------------------------------------------------- */

static void add_step(struct ranks_step *to, const struct ranks_step *s)
{
	to->ns += s->ns;
	to->compute += s->compute;
	to->comm += s->comm;
	to->memory += s->memory;
	to->idle += s->idle;
	to->host += s->host;
	to->wait += s->wait;
	to->late += s->late;
}

static void average(struct ranks_rank *k)
{
	struct ranks_step sum = {0};
	int64_t n = (int64_t)(k->n_steps ? k->n_steps : 1);

	for (size_t i = 0; i < k->n_steps; i++)
		add_step(&sum, &k->steps[i]);
	k->mean = (struct ranks_step){(int64_t)k->n_steps, sum.ns / n,     sum.compute / n,
				      sum.comm / n,        sum.memory / n, sum.idle / n,
				      sum.host / n,        sum.wait / n,   sum.late / n};
}

static int list_ranks(const struct ranks_set *s, struct ranks_result *r)
{
	double total = 0;
	size_t steps = 0;

	r->ranks = calloc(s->n + 1, sizeof(*r->ranks));
	if (!r->ranks)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		const struct ranks_one *one = &s->ranks[i];
		struct ranks_rank *k = &r->ranks[r->n++];

		k->rank = one->rank;
		k->is_guessed = one->is_guessed;
		k->collectives = one->n_coll;
		k->steps = calloc(one->n_parts + 1, sizeof(*k->steps));
		if (!k->steps)
			return -ENOMEM;
		for (; k->n_steps < one->n_parts; k->n_steps++) {
			k->steps[k->n_steps] = one->parts[k->n_steps].s;
			total += (double)one->parts[k->n_steps].s.ns;
			steps++;
		}
		for (size_t c = 0; c < one->n_coll; c++)
			k->comm_ns += one->coll[c].end - one->coll[c].ts;
	}
	r->reference = s->n ? s->ranks[0].rank : -1;
	r->step_ns = steps ? total / (double)steps : 0;
	return 0;
}

int ranks_result_new(const struct ranks_set *s, struct ranks_result **ret)
{
	struct ranks_result *r = calloc(1, sizeof(*r));
	struct ranks_match m = {0};
	int e = r ? list_ranks(s, r) : -ENOMEM;

	if (e == 0)
		e = ranks_match_new(s, &m);
	if (e == 0)
		e = ranks_align(&m, r);
	if (e == 0)
		e = ranks_compare(&m, r);
	ranks_match_done(&m);
	if (e < 0) {
		ranks_result_free(r);
		return e;
	}
	for (size_t i = 0; i < r->n; i++)
		average(&r->ranks[i]);
	*ret = r;
	return 0;
}

void ranks_result_free(struct ranks_result *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		free(r->ranks[i].steps);
	free(r->ranks);
	free(r->kinds);
	free(r->late);
	free(r);
}

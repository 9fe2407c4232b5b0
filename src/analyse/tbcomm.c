/* SPDX-License-Identifier: Apache-2.0
 *
 * tbcomm.c - collectives of each rank in time's order, with their kernels; then the quickest
 * rank's time of each.
 */
#include "analyse/tbcomm.h"

#include "analyse/idmap.h"
#include "analyse/shapes.h"
#include "analyse/tbnames.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One collective: its annotation's row and intervals. */
struct tbcomm_node {
	uint32_t row;
	double ts, end;
	int64_t step;
	struct tbspans parts, real;
};

struct tbcomm_list {
	struct tbcomm_node *v;
	size_t n, cap;
};

static const struct {
	const char *name;
	int bytes;
	bool plugin; /* torch-tb-profiler knows it */
} tbcomm_types[] = {
	{"long int", 8, true},
	{"float", 4, true},
	{"int", 4, true},
	{"c10::Half", 2, true},
	{"c10::BFloat16", 2, true},
	{"unsigned char", 1, true},
	{"double", 8, false},
	{"signed char", 1, false},
	{"bool", 1, false},
	{"short int", 2, false},
	{"c10::Float8_e4m3fn", 1, false},
	{"c10::Float8_e5m2", 1, false},
	{"c10::complex<float>", 8, false},
	{"c10::complex<double>", 16, false},
};

int64_t tbcomm_type_bytes(const char *type, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(tbcomm_types); i++) {
		if (strlen(tbcomm_types[i].name) == len && !memcmp(tbcomm_types[i].name, type, len))
			return tbcomm_types[i].bytes;
	}
	return 0;
}

int64_t tbcomm_bytes(const struct trace *t, const struct trace_args *a)
{
	const char *types = trace_text(t, a->types, NULL), *type;
	struct shapes s;
	int64_t bytes = 0;
	size_t i, len;

	shapes_parse(trace_text(t, a->dims, NULL), &s);
	for (i = 0; i < s.n; i++) {
		type = shapes_text(types, i, &len);
		if (type)
			bytes += (int64_t)shapes_elements(&s, i) * tbcomm_type_bytes(type, len);
	}
	return bytes;
}

static bool tbcomm_is(const struct tbrows *b, const struct tbrows_row *r)
{
	uint16_t f;

	if (r->type != TBROWS_OPERATOR && r->type != TBROWS_ANNOTATION)
		return false;
	f = tbrows_names(b, r->name);
	return f & (b->variant == TBROWS_PLUGIN ? TBNAMES_NCCL | TBNAMES_GLOO : TBNAMES_COMM_ANY);
}

static int tbcomm_by_time(const void *pa, const void *pb)
{
	const struct tbcomm_node *a = pa, *b = pb;

	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	if (a->end != b->end)
		return a->end > b->end ? -1 : 1;
	return (a->row > b->row) - (a->row < b->row);
}

static int tbcomm_part_by_time(const void *pa, const void *pb)
{
	const struct tbspan *a = pa, *b = pb;

	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	return (a->end < b->end) - (a->end > b->end);
}

/* Collectives of a rank; one external id is one collective (the last annotation of it). */
static void tbcomm_collect(const struct tbrows *b, bool with_kernels, struct tbcomm_list *l)
{
	const struct tbrows_row *r;
	struct idmap ids;
	uint32_t *at;
	size_t i;

	idmap_init(&ids);
	for (i = 0; i < b->n; i++) {
		r = &b->rows[i];
		if (!tbcomm_is(b, r))
			continue;
		at = idmap_at(&ids, r->external);
		if (*at == IDMAP_NONE) {
			*at = (uint32_t)l->n;
			if (l->n == l->cap)
				l->v = xgrow(l->v, l->n, &l->cap, sizeof(*l->v));
			memset(&l->v[l->n++], 0, sizeof(*l->v));
		}
		l->v[*at].row = (uint32_t)i;
		l->v[*at].ts = r->ts;
		l->v[*at].end = r->end;
		l->v[*at].parts.n = 0;
		tbspan_add(&l->v[*at].parts, r->ts, r->end);
	}
	for (i = 0; l->n && with_kernels && i < b->n; i++) {
		r = &b->rows[i];
		if (r->type != TBROWS_KERNEL || idmap_get(&ids, r->external) == IDMAP_NONE)
			continue;
		tbspan_add(&l->v[idmap_get(&ids, r->external)].parts, r->ts, r->end);
	}
	idmap_done(&ids);
	for (i = 0; i < l->n; i++)
		qsort(l->v[i].parts.v, l->v[i].parts.n, sizeof(struct tbspan), tbcomm_part_by_time);
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), tbcomm_by_time);
}

static void tbcomm_steps_of(struct tbcomm_list *l, const struct tbsteps *s)
{
	size_t i, k = 0;

	for (i = 0; i < l->n; i++)
		l->v[i].step = INT64_MIN;
	for (i = 0; i < l->n && k < s->n; i++) {
		while (k < s->n) {
			if (l->v[i].ts >= s->steps[k].ts && l->v[i].end <= s->steps[k].end) {
				l->v[i].step = s->steps[k].number;
				break;
			}
			if (l->v[i].ts < s->steps[k].end)
				break;
			k++;
		}
	}
}

/* Real time of part j of collective i: the quickest rank's, ending with each rank's own. */
static bool tbcomm_real(struct tbcomm_list *lists, size_t n)
{
	struct tbspan *part;
	double quickest;
	size_t i, j, k;

	for (i = 0; i < lists[0].n; i++) {
		for (j = 0; j < lists[0].v[i].parts.n; j++) {
			quickest = INFINITY;
			for (k = 0; k < n; k++) {
				if (lists[k].v[i].parts.n != lists[0].v[i].parts.n)
					return false;
				part = &lists[k].v[i].parts.v[j];
				if (part->end - part->ts < quickest)
					quickest = part->end - part->ts;
			}
			for (k = 0; k < n; k++) {
				part = &lists[k].v[i].parts.v[j];
				tbspan_add(&lists[k].v[i].real, part->end - quickest, part->end);
			}
		}
	}
	return true;
}

/* Merged lengths of the collectives that `same` holds for. */
static void tbcomm_lengths(const struct tbcomm_list *l, const struct tbrows *b, bool by_name,
			   size_t like, double *ret_total, double *ret_transfer)
{
	struct tbspans total = {0}, real = {0};
	const struct tbcomm_node *n;
	size_t i, k;

	for (i = 0; i < l->n; i++) {
		n = &l->v[i];
		if (by_name ? b->rows[n->row].name != b->rows[l->v[like].row].name
			    : n->step != l->v[like].step)
			continue;
		for (k = 0; k < n->parts.n; k++)
			tbspan_add(&total, n->parts.v[k].ts, n->parts.v[k].end);
		for (k = 0; k < n->real.n; k++)
			tbspan_add(&real, n->real.v[k].ts, n->real.v[k].end);
	}
	tbspan_merge(&total);
	tbspan_merge(&real);
	*ret_total = tbspan_sum(&total);
	*ret_transfer = tbspan_sum(&real);
	tbspan_done(&total);
	tbspan_done(&real);
}

static void tbcomm_op(struct tbcomm_rank *r, const struct tbcomm_list *l, const struct tbrows *b,
		      size_t i)
{
	const struct tbrows_row *row = &b->rows[l->v[i].row];
	struct tbcomm_op *op;
	size_t k;

	for (k = 0; k < r->n_ops && r->ops[k].name != row->name; k++)
		;
	op = &r->ops[k];
	if (k == r->n_ops) {
		r->n_ops++;
		*op = (struct tbcomm_op){.name = row->name};
		tbcomm_lengths(l, b, true, i, &op->total, &op->transfer);
	}
	op->calls++;
	op->bytes += tbcomm_bytes(b->trace, trace_args(b->trace, row->args));
}

static void tbcomm_rank(struct tbcomm_rank *r, const struct tbcomm_list *l, const struct tbrows *b)
{
	struct tbcomm_step *s;
	size_t i, k;

	r->ops = xcalloc(l->n + 1, sizeof(*r->ops));
	r->steps = xcalloc(l->n + 1, sizeof(*r->steps));
	for (i = 0; i < l->n; i++) {
		tbcomm_op(r, l, b, i);
		for (k = 0; k < r->n_steps && r->steps[k].step != l->v[i].step; k++)
			;
		if (k < r->n_steps)
			continue;
		s = &r->steps[r->n_steps++];
		s->step = l->v[i].step;
		tbcomm_lengths(l, b, false, i, &s->total, &s->transfer);
	}
}

/* NULL, or why the ranks cannot be told together. */
static const char *tbcomm_refusal(const struct tbcomm_list *lists, struct tbrows *const rows[],
				  struct tbsteps *const steps[], size_t n)
{
	size_t k;

	if (!n)
		return "there are no ranks";
	for (k = 0; k < n; k++) {
		if (rows[k]->variant == TBROWS_PLUGIN && steps[k]->has_nccl && steps[k]->has_gloo)
			return "a rank has collectives of two libraries";
		if (!lists[k].n)
			return "a rank has no collectives that are marked (nccl:... or gloo:...)";
		if (lists[k].n != lists[0].n)
			return "the ranks have different numbers of collectives";
	}
	return NULL;
}

static void tbcomm_lists_free(struct tbcomm_list *lists, size_t n)
{
	size_t i, k;

	for (k = 0; k < n; k++) {
		for (i = 0; i < lists[k].n; i++) {
			tbspan_done(&lists[k].v[i].parts);
			tbspan_done(&lists[k].v[i].real);
		}
		free(lists[k].v);
	}
	free(lists);
}

int tbcomm_new(struct tbrows *const rows[], struct tbsteps *const steps[], size_t n,
	       struct tbcomm **ret)
{
	struct tbcomm_list *lists = xcalloc(n + 1, sizeof(*lists));
	struct tbcomm *c = xcalloc(1, sizeof(*c));
	bool with_kernels;
	size_t k;

	c->n = n;
	c->ranks = xcalloc(n + 1, sizeof(*c->ranks));
	for (k = 0; k < n; k++) {
		with_kernels = rows[k]->variant == TBROWS_EXACT || steps[k]->has_nccl;
		tbcomm_collect(rows[k], with_kernels, &lists[k]);
		tbcomm_steps_of(&lists[k], steps[k]);
	}
	c->why = tbcomm_refusal(lists, rows, steps, n);
	if (!c->why && !tbcomm_real(lists, n))
		c->why = "a collective has different numbers of kernels on the ranks";
	c->is_known = !c->why;
	for (k = 0; c->is_known && k < n; k++)
		tbcomm_rank(&c->ranks[k], &lists[k], rows[k]);
	tbcomm_lists_free(lists, n);
	*ret = c;
	return 0;
}

void tbcomm_free(struct tbcomm *c)
{
	size_t k;

	if (!c)
		return;
	for (k = 0; k < c->n; k++) {
		free(c->ranks[k].ops);
		free(c->ranks[k].steps);
	}
	free(c->ranks);
	free(c);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * import_timeline.c - [time, action, bytes, category] added up in order of time.
 */
#include "trace/import_timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *import_category(unsigned i)
{
	static const char *const names[IMPORT_CATEGORIES] = {
		"Parameter",  "Optimizer state", "Input",    "Temporary",
		"Activation", "Gradient",        "Autograd", "Unknown",
	};

	return i < IMPORT_CATEGORIES ? names[i] : "";
}

struct change {
	int64_t ts, bytes;
	uint32_t category, index;
};

static int by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static size_t read_changes(const struct import_tree *t, struct change *out, uint64_t *ret_skipped)
{
	size_t n = 0;

	for (uint32_t c = import_first(t, t->root); c != IMPORT_NULL; c = import_next(t, c)) {
		import_ref x = import_item(t, c);
		int64_t category = import_int(t, import_at(t, x, 3), -1);

		if (import_count(t, x) < 4 || category < 0 || category >= IMPORT_CATEGORIES ||
		    import_type(t, import_at(t, x, 0)) != IMPORT_INT ||
		    import_type(t, import_at(t, x, 2)) != IMPORT_INT) {
			++*ret_skipped;
			continue;
		}
		out[n].ts = import_int(t, import_at(t, x, 0), 0);
		out[n].bytes = import_int(t, import_at(t, x, 2), 0);
		out[n].category = (uint32_t)category;
		out[n].index = (uint32_t)n;
		n++;
	}
	return n;
}

static int64_t plus(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b > 0 ? INT64_MAX : INT64_MIN;
	return sum;
}

/* What is new at this point goes into the extremes. */
static void close_point(struct import_timeline *r)
{
	struct import_point *p = &r->points[r->n - 1];
	bool first = r->n == 1;

	p->total = 0;
	for (unsigned i = 0; i < IMPORT_CATEGORIES; i++) {
		p->total = plus(p->total, p->bytes[i]);
		if (first || p->bytes[i] > r->categories[i].peak)
			r->categories[i].peak = p->bytes[i];
		if (first || p->bytes[i] < r->categories[i].least)
			r->categories[i].least = p->bytes[i];
		r->categories[i].last = p->bytes[i];
	}
	if (first || p->total > r->peak) {
		r->peak = p->total;
		r->peak_point = r->n - 1;
	}
}

static void add_up(struct import_timeline *r, const struct change *c, size_t n)
{
	int64_t first = 0;

	for (size_t i = 0; i < n && !first; i++)
		first = c[i].ts > 0 ? c[i].ts : 0;
	for (size_t i = 0; i < n; i++) {
		if (!i || c[i].ts != c[i - 1].ts) {
			if (i)
				close_point(r);
			r->points[r->n] = i ? r->points[r->n - 1] : (struct import_point){.ts = 0};
			r->points[r->n++].ts = c[i].ts < 0 ? first : c[i].ts;
		}
		r->points[r->n - 1].bytes[c[i].category] =
			plus(r->points[r->n - 1].bytes[c[i].category], c[i].bytes);
	}
	if (n)
		close_point(r);
}

int import_timeline(char *data, size_t len, struct import_timeline *ret, struct err *e)
{
	struct import_timeline r = {.n = 0};
	struct change *changes;
	struct import_tree t;
	size_t all, n;
	int rc = import_json(data, len, &t, e);

	if (rc)
		return rc;
	all = import_count(&t, t.root);
	changes = calloc(all + 1, sizeof(*changes));
	r.points = calloc(all + 1, sizeof(*r.points));
	if (!changes || !r.points) {
		rc = err_set(e, -ENOMEM, "out of memory");
	} else {
		n = read_changes(&t, changes, &r.skipped);
		r.events = n;
		qsort(changes, n, sizeof(*changes), by_time);
		add_up(&r, changes, n);
		if (!n)
			rc = err_set(e, -EBADMSG,
				     "no memory timeline: expected a list of [time, action, bytes, "
				     "category]");
	}
	free(changes);
	import_tree_done(&t);
	if (rc) {
		import_timeline_done(&r);
		return rc;
	}
	*ret = r;
	return 0;
}

void import_timeline_done(struct import_timeline *t)
{
	free(t->points);
	t->points = NULL;
	t->n = 0;
}

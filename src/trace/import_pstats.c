/* SPDX-License-Identifier: Apache-2.0
 *
 * import_pstats.c - a marshalled dict {(file, line, name): (primitive calls, calls, self,
 * total, callers)} as a table.
 */
#include "trace/import_pstats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int by_self(const void *a, const void *b)
{
	const struct import_function *x = a, *y = b;

	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static bool read_function(const struct import_tree *t, import_ref key, import_ref value,
			  struct import_function *f)
{
	size_t file_len, name_len;

	if (import_count(t, key) != 3 || import_count(t, value) < 4)
		return false;
	f->file = import_text(t, import_at(t, key, 0), &file_len);
	f->name = import_text(t, import_at(t, key, 2), &name_len);
	f->line = import_int(t, import_at(t, key, 1), -1);
	f->primitive = import_int(t, import_at(t, value, 0), -1);
	f->calls = import_int(t, import_at(t, value, 1), -1);
	f->self = import_float(t, import_at(t, value, 2), NAN);
	f->total = import_float(t, import_at(t, value, 3), NAN);
	f->callers = import_count(t, import_at(t, value, 4)) / 2;
	if (!f->file || !f->name || f->calls < 0 || f->primitive < 0 || !isfinite(f->self) ||
	    !isfinite(f->total))
		return false;
	f->file_len = (uint32_t)file_len;
	f->name_len = (uint32_t)name_len;
	return true;
}

int import_pstats(const void *data, size_t len, struct import_pstats *ret, struct err *e)
{
	struct import_pstats p = {.n = 0};
	struct import_tree t;
	int rc = import_marshal(data, len, &t, e);

	if (rc)
		return rc;
	if (import_type(&t, t.root) != IMPORT_DICT) {
		import_tree_done(&t);
		return err_set(e, -EBADMSG, "no cProfile output: the value is no dictionary");
	}
	p.functions = calloc(import_count(&t, t.root) / 2 + 1, sizeof(*p.functions));
	if (!p.functions)
		rc = err_set(e, -ENOMEM, "out of memory");
	for (uint32_t c = import_first(&t, t.root); c != IMPORT_NULL && !rc;
	     c = import_next(&t, c)) {
		import_ref key = import_item(&t, c);

		c = import_next(&t, c);
		if (c == IMPORT_NULL)
			break;
		if (!read_function(&t, key, import_item(&t, c), &p.functions[p.n])) {
			p.skipped++;
			continue;
		}
		p.self += p.functions[p.n].self;
		if (__builtin_add_overflow(p.calls, p.functions[p.n].calls, &p.calls))
			p.calls = INT64_MAX;
		p.n++;
	}
	import_tree_done(&t);
	if (!rc && !p.n)
		rc = err_set(e, -EBADMSG, "no cProfile output: no function in it");
	if (rc) {
		import_pstats_done(&p);
		return rc;
	}
	qsort(p.functions, p.n, sizeof(*p.functions), by_self);
	*ret = p;
	return 0;
}

void import_pstats_done(struct import_pstats *p)
{
	free(p->functions);
	p->functions = NULL;
	p->n = 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * import_tracemalloc.c - Snapshot{traces: _Traces{_traces: [(domain, bytes, ((file, line),
 * ...), frames)]}} as stacks; the file has the innermost frame first.
 */
#include "trace/import_tracemalloc.h"

#include "trace/import_value.h"

#include <errno.h>
#include <string.h>

#define FRAMES_MAX 256

static void put_frame(struct import_folded *out, const struct import_tree *t, import_ref frame)
{
	size_t len = 0;
	const char *file = import_text(t, import_at(t, frame, 0), &len);

	if (file)
		import_folded_frame(out, file, len);
	buf_printf(&out->text, ":%lld", (long long)import_int(t, import_at(t, frame, 1), 0));
}

static int put_trace(struct import_folded *f, const struct import_tree *t, import_ref trace)
{
	import_ref frames = import_at(t, trace, 2), stack[FRAMES_MAX];
	int64_t bytes = import_int(t, import_at(t, trace, 1), -1);
	size_t at = f->text.len, n = 0;

	for (uint32_t c = import_first(t, frames); c != IMPORT_NULL && n < FRAMES_MAX;
	     c = import_next(t, c))
		stack[n++] = import_item(t, c);
	if (bytes < 0 || !n) {
		f->skipped++;
		return 0;
	}
	while (n) {
		put_frame(f, t, stack[--n]);
		if (n)
			buf_putc(&f->text, ';');
	}
	return import_folded_add(f, at, (double)bytes);
}

int import_tracemalloc(const void *data, size_t len, struct import_folded *ret, struct err *e)
{
	struct import_folded f = {.unit = "bytes", .what = "tracemalloc"};
	struct import_tree t;
	import_ref traces;
	int rc = import_pickle(data, len, &t, e);

	if (rc)
		return rc;
	buf_init(&f.text, IMPORT_FILE_MAX);
	traces = import_get(&t, import_get(&t, t.root, "traces"), "_traces");
	if (import_type(&t, traces) != IMPORT_LIST)
		rc = err_set(e, -EBADMSG, "no tracemalloc snapshot: no traces in the pickle");
	for (uint32_t c = import_first(&t, traces); c != IMPORT_NULL && !rc; c = import_next(&t, c))
		rc = put_trace(&f, &t, import_item(&t, c));
	import_tree_done(&t);
	if (rc) {
		import_folded_done(&f);
		return err_set(e, rc, "the snapshot cannot be read");
	}
	*ret = f;
	return 0;
}

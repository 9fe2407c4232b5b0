/* SPDX-License-Identifier: Apache-2.0
 *
 * annotations.c - see annotations.h.
 */
#include "analyse/annotations.h"

#include <errno.h>

static int class_of(const struct view_row *r, int cat)
{
	return r->cat == cat ? VIEW_OTHER : AGGREGATE_NONE;
}

int annotations_new(const struct view *v, size_t n, bool on_device,
		    const struct aggregate_options *o, struct aggregate *ret)
{
	enum trace_cat cat = on_device ? TRACE_CAT_GPU_USER_ANNOTATION : TRACE_CAT_USER_ANNOTATION;
	struct aggregate a = {0};
	uint64_t known = 0;
	size_t i;
	int rc;

	for (i = 0; i < n; i++)
		known += trace_cat_count(v[i].trace, cat);
	if (!known)
		return -ENODATA;
	rc = aggregate_add(&a, v, n, o, false, class_of, (int)cat);
	if (rc)
		aggregate_done(&a);
	else
		*ret = a;
	return rc;
}

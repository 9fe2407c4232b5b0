/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict.c - the verdict of the traces given as one JSON object: for
 * verdict.py, which counts the shares again in its own way.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analyse/verdict_trace.h"

static int print(struct trace *traces[], size_t n)
{
	struct view_options o = {.rule = VIEW_EXACT};
	struct verdict_result *r;
	struct view *views;
	struct json j;
	struct buf b;

	if (view_new(traces, n, &o, &views) || verdict_new(views, n, &r))
		return 1;
	buf_init(&b, 64u << 20);
	json_init(&j, &b);
	json_object(&j);
	verdict_json(r, &j);
	json_object_end(&j);
	puts(buf_str(&b));
	buf_done(&b);
	verdict_free(r);
	view_free(views, n);
	return 0;
}

int main(int argc, char **argv)
{
	struct trace **traces = calloc((size_t)argc, sizeof(*traces));
	struct trace_options o = {0};
	struct err e = {0};
	int rc;

	for (int i = 1; traces && i < argc; i++)
		if (trace_read(argv[i], &o, &traces[i - 1], &e)) {
			fprintf(stderr, "%s\n", e.text);
			return 1;
		}
	rc = traces ? print(traces, (size_t)argc - 1) : 1;
	for (int i = 1; traces && i < argc; i++)
		trace_free(traces[i - 1]);
	free(traces);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_run.c - the parsers of run file and outcome file on any bytes. What they
 * accept must survive being written and read again.
 */
#include "wire/run.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char text[RUN_FILE_MAX];

static void fuzz_start(const char *data, size_t size)
{
	static struct run_start a, b;
	char why[128] = "";
	size_t len;

	if (run_start_parse(data, size, &a, why) < 0) {
		if (!why[0])
			abort();
		return;
	}
	if (run_start_format(&a, text, sizeof(text), &len) < 0 ||
	    run_start_parse(text, len, &b, why) < 0 || strcmp(a.command, b.command) != 0 ||
	    a.child_start != b.child_start)
		abort();
}

static void fuzz_outcome(const char *data, size_t size)
{
	static struct run_outcome a, b;
	char why[128] = "";
	size_t len;

	if (run_outcome_parse(data, size, &a, why) < 0) {
		if (!why[0])
			abort();
		return;
	}
	if (run_outcome_format(&a, text, sizeof(text), &len) < 0 ||
	    run_outcome_parse(text, len, &b, why) < 0 || a.stderr_len != b.stderr_len ||
	    memcmp(a.stderr_tail, b.stderr_tail, a.stderr_len) != 0)
		abort();
}

static void fuzz_edit(const char *data, size_t size)
{
	static struct run_edit a, b;
	char why[128] = "";
	size_t len;

	if (run_edit_parse(data, size, &a, why) < 0) {
		if (!why[0])
			abort();
		return;
	}
	if (run_edit_format(&a, text, sizeof(text), &len) < 0 ||
	    run_edit_parse(text, len, &b, why) < 0 || a.has_tags != b.has_tags ||
	    strcmp(a.tags, b.tags) != 0 || strcmp(a.notes, b.notes) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of the exact size: reading one byte past it is then seen. */
	char *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	fuzz_start(copy, size);
	fuzz_outcome(copy, size);
	fuzz_edit(copy, size);
	free(copy);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_nsys.c - exports of nsys and files of mprof, and the traces made of them: whatever the
 * bytes are, there is an error with a text, or counts that agree. The first byte chooses.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/import_frames.h"
#include "trace/import_mprof.h"
#include "trace/import_nsys.h"
#include "trace/import_out.h"

#define SIZE_MAX_HERE (1u << 20) /* larger inputs find nothing more */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int holds)
{
	if (!holds)
		abort();
}

static struct write_sink *sink(void)
{
	struct write_sink *s = NULL;
	struct err e = {0};

	/* It has no name until it is closed, which it never is. */
	if (write_open("/tmp/lapse-fuzz-nsys.json", &s, &e))
		abort();
	return s;
}

static int nsys(char *data, size_t size, struct err *e)
{
	struct write_sink *s = sink();
	struct import_nsys n;
	uint64_t rows = 0, counted = 0;
	int rc = import_nsys_bytes(data, size, s, &n, e);

	write_abort(s);
	if (rc)
		return rc;
	for (int k = 0; k < IMPORT_NSYS_KINDS; k++)
		rows += n.kinds[k].rows;
	for (size_t i = 0; i < n.n; i++) {
		counted += n.names[i].count;
		expect(strlen(n.names[i].name) <= n.names[i].len && n.names[i].ns >= 0);
	}
	expect(rows == n.rows && counted == n.rows && n.events == n.rows && n.first <= n.last);
	import_nsys_done(&n);
	return 0;
}

static int mprof(char *data, size_t size, struct err *e)
{
	struct import_mprof *m = malloc(sizeof(*m));
	struct write_sink *s;
	uint64_t events = 0;
	int rc;

	if (!m)
		return 0;
	rc = import_mprof(data, size, m, e);
	if (!rc) {
		s = sink();
		expect(import_out_mprof(s, m, &events, e) == 0);
		expect(events == m->n + m->n_calls);
		write_abort(s);
		import_mprof_done(m);
	}
	free(m);
	return rc;
}

static int folded(char *data, size_t size, struct err *e)
{
	struct import_frames frames;
	struct import_folded f;
	struct write_sink *s;
	uint64_t events = 0;
	int rc = import_folded(data, size, &f, e);

	if (rc)
		return rc;
	s = sink();
	if (!import_out_folded(s, &f, "collapsed", &events, e))
		expect(events % 2 == 0);
	write_abort(s);
	expect(import_frames(&f, &frames) == 0 && frames.n > 0);
	for (size_t i = 0; i < frames.n; i++)
		expect(frames.list[i].count >= 1 && frames.list[i].count <= f.n);
	import_frames_done(&frames);
	import_folded_done(&f);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const read[])(char *, size_t, struct err *) = {nsys, mprof, folded};
	struct err e = {0};
	char *copy;

	if (!size || size > SIZE_MAX_HERE)
		return 0;
	copy = malloc(size); /* exact, so that a read past the end is seen */
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (read[data[0] % 3](copy, size - 1, &e))
		expect(e.code < 0 && e.text[0]);
	free(copy);
	return 0;
}

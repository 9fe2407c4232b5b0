/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_import.c - files of other tools: whatever the bytes are, importers return an error
 * with a text or a result whose numbers are finite. The first byte chooses the importer.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/import_file.h"
#include "trace/import_folded.h"
#include "trace/import_pstats.h"
#include "trace/import_smi.h"
#include "trace/import_snapshot.h"
#include "trace/import_timeline.h"
#include "trace/import_tracemalloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void folded(const struct import_folded *f)
{
	for (size_t i = 0; i < f->n; i++)
		expect(f->lines[i].at + f->lines[i].len <= f->text.len && f->lines[i].weight >= 0);
}

static int one(int which, char *data, size_t size, struct err *e)
{
	struct import_folded f;
	struct import_pstats p;
	struct import_smi smi;
	struct import_snapshot s;
	struct import_timeline t;
	int rc;

	switch (which % 6) {
	case 0:
		rc = import_folded(data, size, &f, e);
		if (!rc) {
			folded(&f);
			import_folded_done(&f);
		}
		return rc;
	case 1:
		rc = import_pstats(data, size, &p, e);
		if (!rc) {
			for (size_t i = 0; i < p.n; i++)
				expect(isfinite(p.functions[i].self) && p.functions[i].file);
			import_pstats_done(&p);
		}
		return rc;
	case 2:
		rc = import_smi(data, size, &smi, e);
		if (!rc) {
			for (size_t i = 0; i < smi.n_rows; i++)
				expect(smi.rows[i].gpu < smi.n_gpus);
			import_smi_done(&smi);
		}
		return rc;
	case 4:
		rc = import_timeline(data, size, &t, e);
		if (!rc) {
			expect(t.n > 0 && t.peak_point < t.n);
			import_timeline_done(&t);
		}
		return rc;
	case 5:
		rc = import_tracemalloc(data, size, &f, e);
		if (!rc) {
			folded(&f);
			import_folded_done(&f);
		}
		return rc;
	default:
		rc = import_snapshot(data, size, &s, e);
		if (!rc) {
			folded(&s.live);
			import_snapshot_done(&s);
		}
		return rc;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = {0};
	char *copy;

	if (!size)
		return 0;
	copy = malloc(size); /* exact, so that a read past the end is seen */
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	expect(import_kind_name(import_detect(copy, size - 1)) != NULL);
	if (one(data[0], copy, size - 1, &e))
		expect(e.code < 0 && e.text[0]);
	free(copy);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_trace.c - the reader of traces on any bytes. The first byte says in how large pieces the
 * text comes the second time, with the plain searches: the result must be the same
 * as that of the whole text with the vectors of this processor.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reading.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_require(bool ok)
{
	if (!ok)
		abort();
}

static uint64_t fuzz_mix(uint64_t h, const void *data, size_t len)
{
	return (h ^ intern_hash(data, len)) * 0x9e3779b97f4a7c15u;
}

static uint64_t fuzz_text(uint64_t h, const struct trace *t, uint32_t id)
{
	size_t len;
	const char *text = trace_text(t, id, &len);

	return fuzz_mix(h, text, len);
}

static uint64_t fuzz_args(uint64_t h, const struct trace *t, uint32_t id)
{
	const struct trace_args *a = trace_args(t, id);
	const uint32_t texts[] = {a->dims,        a->types,      a->strides,
				  a->concrete,    a->stack,      a->kernel_backend,
				  a->kernel_file, a->collective, a->group_name};
	const int64_t numbers[] = {a->device,        a->grid[0],  a->grid[2],
				   a->block[1],      a->bytes,    a->python_id,
				   a->python_parent, a->sequence, a->comms_id};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		h = fuzz_text(h, t, texts[i]);
	h = fuzz_mix(h, &a->bandwidth, sizeof(a->bandwidth));
	return fuzz_mix(h, numbers, sizeof(numbers));
}

static uint64_t fuzz_rows(uint64_t h, struct trace *t)
{
	for (uint32_t k = 0; trace_block_rows(t, k); k++) {
		const struct trace_block *b = trace_block(t, k);

		fuzz_require(b);
		for (uint32_t i = 0; i < trace_block_rows(t, k); i++) {
			const struct trace_track *x = trace_track(t, b->track[i]);
			const int64_t numbers[] = {b->ts[i],       b->dur[i],   b->correlation[i],
						   b->external[i], b->index[i], b->stream[i],
						   b->cat[i],      b->flags[i], x->pid,
						   x->tid};

			h = fuzz_mix(h, numbers, sizeof(numbers));
			h = fuzz_text(h, t, b->name[i]);
			h = fuzz_args(h, t, b->args[i]);
		}
	}
	return h;
}

/* All that was read, as one number; the texts are those of the notes' counts too. */
static uint64_t fuzz_digest(struct trace *t)
{
	size_t n;
	const struct trace_note *notes = trace_notes(t, &n);
	const struct trace_memory *m;
	uint64_t h = trace_rows(t);

	for (size_t i = 0; i < n; i++) {
		fuzz_require(notes[i].count && notes[i].text[0] && notes[i].text[199] == '\0');
		if (notes[i].kind == NOTES_CONTROL || notes[i].kind == NOTES_NOT_UTF8)
			continue; /* once a text: an event read twice finds it known */
		h = fuzz_mix(h, &notes[i].kind, sizeof(notes[i].kind));
		h = fuzz_mix(h, &notes[i].count, sizeof(notes[i].count));
		h = fuzz_mix(h, &notes[i].offset, sizeof(notes[i].offset));
	}
	for (uint64_t i = 0; (m = trace_memory_at(t, i)) != NULL; i++)
		h = fuzz_mix(h, &m->address, sizeof(m->address));
	for (int c = 0; c < 256; c++) {
		uint64_t count = trace_phase_count(t, (char)c);

		h = fuzz_mix(h, &count, sizeof(count));
	}
	h = fuzz_mix(h, &trace_meta(t)->rank, sizeof(int64_t));
	return fuzz_rows(h, t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_options o = {.memory = 1u << 20};
	struct trace *t = NULL, *again = NULL;
	struct err e = {0}, e2 = {0};
	int rc, rc2;

	if (!size)
		return 0;
	rc = trace_read_bytes(data + 1, size - 1, &o, &t, &e);
	rc2 = reading_bytes(data + 1, size - 1, data[0], &event_plain, &o, &again, &e2);
	fuzz_require(rc == rc2 && !t == !!rc && !again == !!rc);
	if (rc) {
		fuzz_require(e.text[0]);
		return 0;
	}
	fuzz_require(fuzz_digest(t) == fuzz_digest(again));
	trace_free(t);
	trace_free(again);
	return 0;
}

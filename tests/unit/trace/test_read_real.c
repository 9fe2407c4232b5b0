/* SPDX-License-Identifier: Apache-2.0
 *
 * test_read_real.c - real traces: the number of events is that of their index, nothing is
 * noted that is not odd, and what is read does not depend on the vectors in use or on how
 * the text comes in pieces. The folder is LAPSE_TRACE_DATA, else ../shared/data beside the
 * project; without it there is nothing to do.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/reading.h"
#include "trace/source.h"

#define EACH_MAX (12u << 20) /* bytes of JSON; larger ones take too long three times over */

static const char *folder(void)
{
	const char *f = getenv("LAPSE_TRACE_DATA");

	return f ? f : "../shared/data";
}

static char *load(const char *path, size_t *ret_len)
{
	struct source *s;
	struct err e = {0};
	size_t len = 0, got = 1;
	char *text = NULL;
	int rc;

	if (source_open(path, &s, &e))
		fail_msg("%s", e.text);
	while (got) {
		text = realloc(text, len + (1u << 20));
		assert_non_null(text);
		while ((rc = source_read(s, text + len, 1u << 20, &got)) == -EAGAIN)
			;
		assert_int_equal(rc, 0);
		len += got;
	}
	source_close(s);
	*ret_len = len;
	return text;
}

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	return (h ^ intern_hash(data, len)) * 0x9e3779b97f4a7c15u;
}

static uint64_t mix_text(uint64_t h, const struct trace *t, uint32_t id)
{
	size_t len;
	const char *text = trace_text(t, id, &len);

	return mix(h, text, len);
}

/* All rows as one number. */
static uint64_t digest(struct trace *t)
{
	uint64_t h = trace_rows(t);

	for (uint32_t k = 0; trace_block_rows(t, k); k++) {
		const struct trace_block *b = trace_block(t, k);

		assert_non_null(b);
		for (uint32_t i = 0; i < trace_block_rows(t, k); i++) {
			const struct trace_args *a = trace_args(t, b->args[i]);
			const struct trace_track *x = trace_track(t, b->track[i]);
			const int64_t v[] = {b->ts[i],       b->dur[i],    b->correlation[i],
					     b->external[i], b->index[i],  b->stream[i],
					     b->cat[i],      b->flags[i],  x->pid,
					     x->tid,         a->device,    a->grid[0],
					     a->block[2],    a->bytes,     a->python_id,
					     a->sequence,    a->registers, a->python_parent};

			h = mix(h, v, sizeof(v));
			h = mix(h, &a->occupancy, sizeof(a->occupancy));
			h = mix_text(h, t, b->name[i]);
			h = mix_text(h, t, a->dims);
			h = mix_text(h, t, a->concrete);
			h = mix_text(h, t, a->stack);
			h = mix_text(h, t, x->process_name);
		}
	}
	return h;
}

static struct trace *read_as(const char *path, const char *text, size_t len, size_t piece,
			     const struct event_set *set)
{
	struct trace *t = NULL;
	struct err e = {0};

	if (reading_bytes(text, len, piece, set, NULL, &t, &e))
		fail_msg("%s: %s", path, e.text);
	return t;
}

static void check_file(const char *path, uint64_t events)
{
	size_t len, notes;
	char *text = load(path, &len);
	struct trace *t = read_as(path, text, len, 0, NULL);
	uint64_t seen = 0, first = digest(t);

	for (int c = 0; c < 256; c++)
		seen += trace_phase_count(t, (char)c);
	if (seen != events)
		fail_msg("%s: %llu events, its index says %llu", path, (unsigned long long)seen,
			 (unsigned long long)events);
	trace_notes(t, &notes);
	if (notes)
		fail_msg("%s: %s", path, trace_notes(t, &notes)->text);
	assert_true(trace_meta(t)->is_complete);
	trace_free(t);
	if (len <= EACH_MAX) {
		t = read_as(path, text, len, 4093, &event_plain);
		if (digest(t) != first)
			fail_msg("%s: not the same without vectors", path);
		trace_free(t);
		t = read_as(path, text, len, 70001, &event_base);
		if (digest(t) != first)
			fail_msg("%s: not the same with the least vectors", path);
		trace_free(t);
	}
	free(text);
}

/* INDEX.tsv: name, file, ..., bytes_json, events. */
static void test_index(void **state)
{
	char path[4096], line[8192];
	unsigned files = 0;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/traces/INDEX.tsv", folder());
	f = fopen(path, "r");
	if (!f) {
		print_message("no real traces in %s: nothing to do\n", folder());
		skip();
	}
	while (fgets(line, sizeof(line), f)) {
		char *at = line, *fields[8];
		unsigned n = 0;

		while (n < 8 && at)
			fields[n++] = strsep(&at, "\t");
		if (n < 8 || !strcmp(fields[0], "name"))
			continue;
		snprintf(path, sizeof(path), "%s/traces/%s/%s", folder(), fields[0], fields[1]);
		check_file(path, strtoull(fields[7], NULL, 10));
		files++;
	}
	fclose(f);
	assert_true(files > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_index)};

	return cmocka_run_group_tests_name("read_real", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - a trace from outside: reading it, and looking at what was read.
 */
#include "trace/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reading.h"
#include "trace/source.h"

#define DEFAULT_MEMORY (1ull << 30)

static const struct trace_options no_options;

static int trace_new(const char *path, const char *folder, struct trace **ret)
{
	struct trace *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	spill_init(&t->spill, folder);
	block_init(&t->blocks, &t->spill);
	memories_init(&t->memories, &t->spill);
	t->meta.rank = t->meta.world_size = TRACE_NONE;
	t->meta.cuda_driver = t->meta.cuda_runtime = t->meta.cupti = TRACE_NONE;
	t->meta.rank_from = t->rank_from;
	t->path = strdup(path);
	if (!t->path || intern_init(&t->texts) || argset_init(&t->args, &t->spill)) {
		trace_free(t);
		return -ENOMEM;
	}
	*ret = t;
	return 0;
}

static const struct event_set *best_set(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
		return &event_avx2;
#endif
	return &event_base;
}

static int reading_init(struct reader *r)
{
	r->guesses = calloc(READING_GUESSES, sizeof(*r->guesses));
	r->samples = calloc(READING_SAMPLES, sizeof(*r->samples));
	r->stride = 1;
	if (!r->samples || !r->guesses || intern_init(&r->raws) || stencil_init(&r->stencils))
		return -ENOMEM;
	return 0;
}

static void reading_done(struct reader *r)
{
	stencil_done(&r->stencils);
	intern_done(&r->raws);
	free(r->raw_ids);
	free(r->guesses);
	free(r->samples);
	free(r->scratch);
}

static int read_source(const char *path, struct source *s, const struct event_set *set,
		       const struct trace_options *o, struct trace **ret, struct err *e)
{
	struct reader r = {
		.o = o ? o : &no_options, .set = set, .least = INT64_MAX, .most = INT64_MIN};
	struct trace *t;
	int rc = trace_new(path, r.o->temporary, &t);

	if (rc)
		return err_errno(e, rc, "%s", path);
	r.t = t;
	r.budget = r.o->memory ? r.o->memory : DEFAULT_MEMORY;
	rc = reading_init(&r);
	if (!rc)
		r.text_memory = words_text(&r, (const unsigned char *)"[memory]", 8, false);
	if (!rc)
		rc = top_read(&r, s, e);
	if (!rc)
		rc = finish_budget(&r);
	if (!rc)
		rc = finish_trace(&r);
	pair_close(&r);
	reading_done(&r);
	if (rc && t->spill.error)
		err_errno(e, rc, "%s: cannot write a temporary file in %s ($TMPDIR)", path,
			  spill_folder(&t->spill));
	t->spill.folder = NULL;
	if (rc) {
		trace_free(t);
		return err_errno(e, rc, "%s", path);
	}
	notes_close(t);
	*ret = t;
	return 0;
}

int trace_read(const char *path, const struct trace_options *o, struct trace **ret, struct err *e)
{
	struct source *s;
	int rc = source_open(path, &s, e);

	if (rc)
		return rc;
	rc = read_source(path, s, best_set(), o, ret, e);
	source_close(s);
	return rc;
}

int reading_bytes(const void *text, size_t len, size_t piece, const struct event_set *set,
		  const struct trace_options *o, struct trace **ret, struct err *e)
{
	struct source *s;
	int rc = source_memory(text, len, piece, &s);

	if (rc)
		return err_errno(e, rc, "trace");
	rc = read_source("memory", s, set ? set : best_set(), o, ret, e);
	source_close(s);
	return rc;
}

int trace_read_bytes(const void *text, size_t len, const struct trace_options *o,
		     struct trace **ret, struct err *e)
{
	return reading_bytes(text, len, 0, NULL, o, ret, e);
}

void trace_free(struct trace *t)
{
	if (!t)
		return;
	block_done(&t->blocks);
	intern_done(&t->texts);
	argset_done(&t->args);
	memories_done(&t->memories);
	tracks_done(t);
	spill_done(&t->spill);
	free(t->devices);
	free(t->path);
	free(t);
}

uint64_t trace_rows(const struct trace *t)
{
	return t->blocks.rows;
}

const char *trace_path(const struct trace *t)
{
	return t->path;
}

const struct trace_meta *trace_meta(const struct trace *t)
{
	return &t->meta;
}

uint32_t trace_block_rows(const struct trace *t, uint32_t k)
{
	uint64_t before = (uint64_t)k * TRACE_BLOCK_ROWS;

	if (before >= t->blocks.rows)
		return 0;
	return t->blocks.rows - before < TRACE_BLOCK_ROWS ? (uint32_t)(t->blocks.rows - before)
							  : TRACE_BLOCK_ROWS;
}

const struct trace_block *trace_block(struct trace *t, uint32_t k)
{
	bool fresh;
	struct trace_block *b = block_get(&t->blocks, k, &fresh);

	if (b && fresh && t->has_rules)
		finish_block(t, b, trace_block_rows(t, k));
	return b;
}

const char *trace_text(const struct trace *t, uint32_t id, size_t *ret_len)
{
	const struct intern_text *x = &t->texts.texts[id < t->texts.n ? id : 0];

	if (ret_len)
		*ret_len = x->len;
	return x->text;
}

uint32_t trace_texts(const struct trace *t)
{
	return t->texts.n;
}

uint32_t trace_find(const struct trace *t, const char *text)
{
	return intern_find(&t->texts, text, strlen(text));
}

const struct trace_args *trace_args(const struct trace *t, uint32_t id)
{
	/* What was unpacked last is kept in the trace; nobody else sees it change. */
	return argset_get((struct argset *)&t->args, id);
}

const struct trace_track *trace_track(const struct trace *t, uint16_t id)
{
	static const struct trace_track none = {.pid = TRACE_NONE, .tid = TRACE_NONE};

	return id < t->tracks.n ? &t->tracks.tracks[id] : &none;
}

uint32_t trace_tracks(const struct trace *t)
{
	return t->tracks.n;
}

const struct trace_device *trace_devices(const struct trace *t, size_t *ret_n)
{
	*ret_n = t->n_devices;
	return t->devices;
}

uint64_t trace_memories(const struct trace *t)
{
	return t->memories.n;
}

const struct trace_memory *trace_memory_at(const struct trace *t, uint64_t i)
{
	/* As above. */
	return memories_get((struct memories *)&t->memories, i);
}

const struct trace_note *trace_notes(const struct trace *t, size_t *ret_n)
{
	*ret_n = t->n_notes;
	return t->notes;
}

uint64_t trace_phase_count(const struct trace *t, char phase)
{
	return t->phases[(unsigned char)phase];
}

uint64_t trace_cat_count(const struct trace *t, enum trace_cat cat)
{
	return cat < TRACE_CATS ? t->cats[cat] : 0;
}

uint64_t trace_broken(const struct trace *t)
{
	return t->broken;
}

bool trace_has_fractions(const struct trace *t)
{
	return t->has_fractions;
}

bool trace_has_dims(const struct trace *t)
{
	return t->text_fields & 1ull << ARGSET_DIMS;
}

bool trace_has_stacks(const struct trace *t)
{
	return t->text_fields & 1ull << ARGSET_STACK;
}

void trace_sizes(const struct trace *t, uint64_t *json, uint64_t *resident, uint64_t *spilled)
{
	*json = t->json;
	*resident = t->peak;
	*spilled = t->spilled;
}

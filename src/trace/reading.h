/* SPDX-License-Identifier: Apache-2.0
 *
 * reading.h - inside of src/trace: the trace while it is made, and what the parts
 * of the reader have in common. Nothing outside of this folder includes it.
 */
#ifndef TRACE_READING_H
#define TRACE_READING_H

#include "trace/argset.h"
#include "trace/block.h"
#include "trace/cats.h"
#include "trace/intern.h"
#include "trace/lex.h"
#include "trace/memories.h"
#include "trace/stencil.h"
#include "trace/spill.h"
#include "trace/trace.h"

#define READING_EVENT_MAX (64u << 20) /* bytes of one event; a longer one is lost, and noted */

#define READING_TRACK_TEXT 24u /* longer pids and tids are looked up each time */
#define READING_SAMPLES 4096u
#define READING_GUESSES (1u << 14)

#define NOTES_LOG 64u

enum notes_kind {
	NOTES_TRUNCATED,
	NOTES_COMPRESSION,
	NOTES_EVENT_LOST,
	NOTES_EVENT_MENDED,
	NOTES_UNESCAPED_QUOTE,
	NOTES_MISSING_QUOTE,
	NOTES_BARE_WORD,
	NOTES_NON_FINITE,
	NOTES_BAD_NUMBER,
	NOTES_NUMBER_RANGE,
	NOTES_DUPLICATE_KEY,
	NOTES_CONTROL,
	NOTES_NOT_UTF8,
	NOTES_BAD_ESCAPE,
	NOTES_COMMA,
	NOTES_BETWEEN,
	NOTES_BOM,
	NOTES_TEXT_CUT,
	NOTES_NO_TIME,
	NOTES_ZERO_EVENT,
	NOTES_FAR_TIME,
	NOTES_NEGATIVE_DUR,
	NOTES_UNPAIRED,
	NOTES_TRACKS_FULL,
	NOTES_MEMORY_FULL,
	NOTES_ROWS_FULL,
	NOTES_META,
	NOTES_KINDS
};

/* What metadata events said about a process or a thread. */
struct tracks_name {
	uint32_t pid, tid; /* texts; tid UINT32_MAX: the process */
	uint32_t name, labels;
	int64_t sort_index;
};

struct tracks_list {
	struct trace_track *tracks;
	uint32_t n, cap;
	uint32_t *slots; /* track + 1 by (pid, tid) */
	uint32_t n_slots;
	struct tracks_name *names;
	uint32_t n_names, cap_names;
	uint32_t *name_slots;
	uint32_t n_name_slots;
};

struct trace {
	char *path;
	struct trace_meta meta;
	char rank_from[64];
	struct intern texts;
	struct argset args;
	struct spill spill;
	struct block_list blocks;
	struct tracks_list tracks;
	struct trace_device *devices;
	size_t n_devices;
	struct memories memories;
	struct trace_note notes[NOTES_KINDS]; /* while reading: by kind; then those that are */
	size_t n_notes;
	uint64_t n_noted;         /* notes_add() calls */
	uint8_t noted[NOTES_LOG]; /* kinds of the last ones */
	uint64_t phases[256];
	uint64_t cats[TRACE_CATS];
	uint64_t broken;      /* rows with TRACE_BROKEN */
	bool has_fractions;   /* some row has TRACE_TS_FRACTION */
	uint64_t text_fields; /* a bit for each enum argset_field of texts that some row has */
	uint64_t json, peak, spilled;
	/* Rules for rows of the file, applied when a block comes back. */
	int64_t near_from, near_to; /* ts outside of it are far */
	bool zero_is_broken;
	bool has_rules; /* some row may be broken by them */
};

/* Times that are a row's; others are in notes. */
struct event {
	int64_t ts, dur, correlation, external;
	int64_t address, bytes, allocated, reserved, device_type, device; /* of [memory] */
	int64_t sort_index;
	int32_t stream;
	uint32_t name, cat_text;
	uint32_t label; /* of metadata: "name" or "labels" of args */
	uint16_t track;
	uint8_t cat, flags, phase;
	bool has_ts, has_track;
	struct argset_pack pack;
};

enum event_result {
	EVENT_OK,
	EVENT_MORE, /* the text ends within the event */
	EVENT_BAD   /* not JSON: reader.bad says where and why */
};

struct event_track { /* pid and tid as they stood in the text, of a known track */
	unsigned char pid[READING_TRACK_TEXT + LEX_PAD], tid[READING_TRACK_TEXT + LEX_PAD];
	uint8_t pid_len, tid_len;
	bool is_set;
	uint16_t track;
};

struct reader {
	struct trace *t;
	const struct trace_options *o;
	/* The text at hand. base: place of text[0] in the whole. LEX_PAD bytes 0 at the end. */
	const unsigned char *text, *end;
	uint64_t base;
	bool at_end; /* nothing follows */
	const unsigned char *bad_at;
	const char *bad_expected;
	int rc; /* an error that ends the reading */
	uint64_t index;
	struct event e;
	uint64_t offset;                /* of the event */
	const unsigned char *pid, *tid; /* of the event, in the text, quotes off */
	size_t pid_len, tid_len;
	uint32_t cat_ids[64]; /* texts of categories met, and which they are */
	uint8_t cat_kinds[64];
	unsigned n_cats, last_cat;
	uint32_t text_memory; /* id of "[memory]" */
	struct event_track recent[8];
	unsigned recent_at, recent_hit;
	struct pair_list *pairs;
	const struct event_set *set;
	struct stencil_tree stencils;
	uint32_t *guesses;  /* READING_GUESSES; ids of texts, places in raws */
	struct intern raws; /* values of args as they stand in the file */
	uint32_t *raw_ids;  /* what they became */
	uint32_t raw_cap;
	bool texts_full; /* no new texts of args */
	bool names_full; /* no new names either */
	uint64_t budget;
	uint64_t buffers;    /* bytes of buffers of the reading itself */
	int64_t least, most; /* ts of rows, those of ts 0 and dur 0 left out */
	bool has_zero;       /* a row of ts 0 and dur 0 */
	int64_t *samples;    /* READING_SAMPLES; ts of every `stride`-th row */
	uint64_t stride, until_sample;
	unsigned n_samples;
	unsigned char *scratch; /* of unescaping */
	size_t scratch_cap;
};

static inline uint64_t reading_offset(const struct reader *r, const unsigned char *p)
{
	return r->base + (uint64_t)(p - r->text);
}

/* notes.c */
void notes_add(struct trace *t, enum notes_kind kind, uint64_t offset, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Take back what was added since t->n_noted was `since` (NOTES_LOG at most): what was read will be
 * read again. */
void notes_undo(struct trace *t, uint64_t since);
void notes_close(struct trace *t);
/* A few bytes as text for a note: printable, in quotes, at most 40. */
const char *notes_show(const unsigned char *p, const unsigned char *end, char out[64]);

/* tracks.c */
int tracks_put(struct trace *t, uint32_t pid, uint32_t tid, uint16_t *ret, uint64_t offset);
int tracks_metadata(struct trace *t, const struct event *e, const struct trace_track *where);
void tracks_close(struct trace *t);
void tracks_done(struct trace *t);
uint64_t tracks_bytes(const struct trace *t);
/* A text as a number: "7", "stream 7" (*ret_stream); TRACE_NONE if it is none. */
int64_t tracks_number(const char *text, bool *ret_stream);

/* event.c. parse: the event that begins at p (its "{"); on EVENT_OK *ret_p is behind its "}"
 * and r->e filled; take_event() then adds it to the trace. skip: any value at p, behind it;
 * NULL: it ends early or is none (r->bad_at). */
struct event_set {
	enum event_result (*parse)(struct reader *r, const unsigned char *p,
				   const unsigned char **ret_p);
	const unsigned char *(*skip)(struct reader *r, const unsigned char *p);
};
extern const struct event_set event_plain, event_base, event_avx2;

/* take.c: 0, -errno. */
int take_event(struct reader *r);

/* words.c: id of a text of the JSON, quotes off; 0 and r->rc on -ENOMEM. words_args(): one of
 * args, which is left out (0) when only columns are wanted, or memory is short. */
uint32_t words_text(struct reader *r, const unsigned char *p, size_t len, bool escaped);
uint32_t words_args(struct reader *r, const unsigned char *p, size_t len, bool escaped);
/* A JSON value of args laid out over lines, as one line. */
uint32_t words_flat(struct reader *r, const unsigned char *p, size_t len);
/* A value as it stands in the file, with the id that it became, for guesses; false: no more
 * are kept, or r->rc. */
bool words_raw(struct reader *r, const unsigned char *p, size_t len, uint32_t id, uint32_t *ret);
/* Room for len bytes in r->scratch; false and r->rc. */
bool words_scratch(struct reader *r, size_t len);

/* trace.c, for tests: trace_read_bytes() of a text that comes in pieces of so many bytes (0: any)
 * and is parsed by these vectors (NULL: the best that run here). */
int reading_bytes(const void *text, size_t len, size_t piece, const struct event_set *set,
		  const struct trace_options *o, struct trace **ret, struct err *e);

/* pair.c: a B or E event, as a row; *ret_found: *row is now a pair's. */
int pair_event(struct reader *r, struct block_row *row, bool *ret_found);
void pair_close(struct reader *r);

/* top.c: all of a text that comes in pieces. 0, -errno with *e. */
struct source;
int top_read(struct reader *r, struct source *s, struct err *e);

/* meta.c: one key of the top object with its value. */
void meta_value(struct reader *r, const unsigned char *key, size_t key_len, const unsigned char *p,
		const unsigned char *end);
void meta_close(struct trace *t);

/* finish.c: bytes held so far; keep the budget (0 or -errno); the end of reading; rules for
 * rows of a block. */
uint64_t finish_held(const struct reader *r);
int finish_budget(struct reader *r);
int finish_trace(struct reader *r);
void finish_block(const struct trace *t, struct trace_block *b, uint32_t rows);

#endif

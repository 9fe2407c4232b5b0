/* SPDX-License-Identifier: Apache-2.0
 *
 * tensorboard_priv.h - what the files of the TensorBoard format share: event
 * records, tags and their batch, texts. Nobody else includes it but tests.
 */
#ifndef EXPORT_TENSORBOARD_PRIV_H
#define EXPORT_TENSORBOARD_PRIV_H

#include "base/buf.h"
#include "base/map.h"
#include "export/exporter.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- tbevent.c: records of an event file -------------------------------------- */

enum tbevent_kind {
	TBEVENT_SCALAR = 1,
	TBEVENT_HISTOGRAM = 2,
	TBEVENT_TEXT = 3,
	TBEVENT_HPARAMS = 4
};

/* One value of an event. */
struct tbevent_value {
	const char *tag;
	enum tbevent_kind kind;
	bool first;        /* of its tag in the file: carries metadata */
	const char *about; /* description of the tag; used with first */
	double scalar;
	const void *data; /* histogram: HistogramProto; text: its bytes; hparams:
			     HParamsPluginData */
	size_t len;
};

/* Append the first record of a file. */
void tbevent_version(struct buf *out, int64_t time_ns);

/* Append one event with n values; scratch is any buffer. */
void tbevent_append(struct buf *out, struct buf *scratch, int64_t time_ns, int64_t step,
		    const struct tbevent_value *v, size_t n);

/* Append the event that makes readers forget points with a step that is not
 * below that of the next event, for the tags of that event. */
void tbevent_restart(struct buf *out, struct buf *scratch, int64_t time_ns);

/* ---- tbhist.c: histograms -------------------------------------------------------- */

/* A sum of histogram points: bins by ascending value, not by key. */
struct tbhist {
	struct sink_bin *bins;
	size_t n, cap;
	uint64_t count;
	double sum, min, max;
};

void tbhist_done(struct tbhist *h);
void tbhist_reset(struct tbhist *h);
void tbhist_add(struct tbhist *h, const struct sink_hist *p);
/* Append a HistogramProto. */
void tbhist_proto(const struct tbhist *h, struct buf *b);
void tbhist_save(const struct tbhist *h, struct buf *b);
int tbhist_load(struct tbhist *h, struct cur *c);

/* ---- tbtags.c: tags, and what came in a step ------------------------------------- */

#define TBTAGS_MAX (1u << 20)
#define TBTAGS_TEXT_MAX (256u << 10) /* bytes of a text; the rest is cut */

/* How points of one step become one value. */
enum tbtag_join {
	TBTAG_LAST = 1,  /* gauges: the last */
	TBTAG_TOTAL = 2, /* counters: the sum of all so far */
	TBTAG_SUM = 3,   /* spans: the sum in the step */
	TBTAG_HIST = 4,  /* histograms: all observations of the step */
	TBTAG_TEXT = 5,  /* texts: the last */
	TBTAG_LINES = 6  /* events: one below the other */
};

struct tbtag {
	char *name, *about; /* owned; about may be NULL */
	unsigned file;
	enum tbtag_join join;
	bool used;                     /* there was a point: what follows holds */
	bool in_file;                  /* a value has gone to the file */
	bool described;                /* ... with the tag's metadata */
	bool written;                  /* the value of `step` has, which may still grow */
	bool again;                    /* the next one needs tbevent_restart() before it */
	uint64_t owner;                /* whose points these are; others' are another attempt */
	uint32_t batch, attempt, pass; /* attempts in this batch: come, written */
	int64_t step, time_ns;         /* the step that is open */
	double value;
	struct tbhist hist;
	struct buf text;
};

/* A point that came: of a tag, at a step. */
struct tbrow {
	uint32_t tag, attempt, seq;
	unsigned file;
	int64_t step, time_ns;
	double value;
	size_t at, len; /* histogram or text: in arena; on the way out in payload */
	bool again;
};

struct tbrows {
	struct tbrow *v;
	size_t n, cap;
};

struct tbtags {
	struct tbtag *tags;
	size_t n, cap;
	struct map by_name; /* file and name */
	struct tbrows in, out;
	struct buf arena, payload, scratch;
	uint32_t batch;
	uint64_t late; /* points left out: a later step of their tag was written, or
			  retention dropped them before they were exported */
};

void tbtags_init(struct tbtags *t);
void tbtags_done(struct tbtags *t);

/* The tag of this name in a file, made if missing. UINT32_MAX: too many. about
 * may be NULL. */
uint32_t tbtags_find(struct tbtags *t, unsigned file, const char *name, enum tbtag_join join,
		     const char *about);

/* A point of a tag: a value, a histogram or a text, by the tag's join. */
struct tbpoint {
	uint64_t owner; /* see struct tbtag */
	int64_t step, time_ns;
	double value;
	const struct sink_hist *hist;
	const char *text;
};
void tbtags_add(struct tbtags *t, uint32_t tag, const struct tbpoint *p);

/* Set the only value of a text at step 0, if it changed. */
void tbtags_set_text(struct tbtags *t, uint32_t tag, int64_t time_ns, const char *text);

/* Write all that came into the files. */
void tbtags_flush(struct tbtags *t, struct exporter *x);

void tbtags_save(const struct tbtags *t, struct buf *b);
/* files: how many the output has. 0 or -EUCLEAN. */
int tbtags_load(struct tbtags *t, struct cur *c, unsigned files);

/* ---- tbtext.c: tables and hyperparameters ---------------------------------------- */

/* What is known of the run, as a Markdown table; late points were left out. */
void tbtext_run(struct buf *b, const struct store_run *run, uint64_t late);

/* The attributes, as a Markdown table. */
int tbtext_attrs(struct buf *b, struct store_reader *r, struct err *e);

/* An event of somebody, as a Markdown paragraph. */
void tbtext_event(struct buf *b, const struct store_event *e, const char *who);

/* HParamsPluginData of a session's start: the attributes config/NAME of the first
 * process that has any; nothing is appended if none has. */
int tbtext_hparams(struct buf *b, struct store_reader *r, const struct store_run *run,
		   struct err *e);
/* ... and of its end. */
void tbtext_hparams_end(struct buf *b, const struct store_run *run);

#endif

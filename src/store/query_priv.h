/* SPDX-License-Identifier: Apache-2.0
 *
 * query_priv.h - what the files that answer store_reader_query() share: which
 * steps newer attempts hide, nodes of a summary tree, pieces of an answer.
 */
#ifndef STORE_QUERY_PRIV_H
#define STORE_QUERY_PRIV_H

#include "store/read_priv.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- cover.c: steps that several attempts have ------------------------------------ */

struct cover_span {
	int64_t min, max; /* SINK_STEP_NONE: no steps */
};
struct cover {
	struct cover_span *own;   /* of each segment */
	struct cover_span *above; /* of all later ones together */
	size_t n, cap;
};
enum cover_how {
	COVER_NONE,
	COVER_SOME,
	COVER_ALL
};
void cover_done(struct cover *c);
/* A segment has steps min to max. */
void cover_add(struct cover *c, uint32_t segment, int64_t min, int64_t max);
/* All were added. */
void cover_end(struct cover *c);
/* Does a later segment have this step? */
bool cover_hides(const struct cover *c, uint32_t segment, int64_t step);
/* Do later segments have steps of [min, max]? */
enum cover_how cover_steps(const struct cover *c, uint32_t segment, int64_t min, int64_t max);

/* ---- treewalk.c: a tree from its top down --------------------------------------------- */

/* Levels from the leaves up, each of about four of the one below. */
enum treewalk_level {
	TREEWALK_LEAF,
	TREEWALK_QUARTER,
	TREEWALK_CHUNK,
	TREEWALK_LEVELS = SUMMARY_LEVELS + 1
};
struct treewalk_node {
	uint64_t index; /* in its level; of a leaf or quarter: its chunk */
	uint64_t start; /* points of the series before it */
	uint32_t at;    /* of a leaf or quarter: points of its chunk before it */
	struct summary s;
};
struct treewalk_list {
	struct treewalk_node *v;
	size_t n, cap;
};
struct treewalk_page {
	uint64_t page;
	size_t n; /* 0: none */
	struct summary nodes[SUMMARY_PAGE];
};
struct treewalk {
	struct sumtree_db db;
	struct err *e;
	uint32_t series;
	bool is_hist;
	unsigned top;                    /* level */
	uint64_t total[TREEWALK_LEVELS]; /* nodes of each level from chunks up */
	struct treewalk_page *pages[TREEWALK_LEVELS];
};
/* Begin with a series that has so many chunks (> 0), in the transaction that is
 * open. get as in struct sumtree_db. */
void treewalk_init(struct treewalk *t, struct store_reader *r, const struct hosts_one *h,
		   sqlite3_stmt *get, struct err *e);
void treewalk_begin(struct treewalk *t, uint32_t series, bool is_hist, uint64_t chunks);
void treewalk_done(struct treewalk *t);
/* Append the nodes of level t->top; the children of a node of level >= 1. */
int treewalk_top(struct treewalk *t, struct treewalk_list *out);
int treewalk_children(struct treewalk *t, unsigned level, const struct treewalk_node *node,
		      struct treewalk_list *out);
void treewalk_push(struct treewalk_list *l, const struct treewalk_node *node);

/* ---- piece.c: what answers are joined from ----------------------------------------------- */

/* Some points of a series; positions of the first and the last. */
struct piece {
	struct store_bucket b;
	uint64_t from, to;
};
struct piece_list {
	struct piece *v;
	size_t n, cap;
};
/* A point as pieces take it. */
struct piece_point {
	uint64_t at; /* position in the series */
	int64_t time, step;
	uint64_t count, nan; /* observations; of a sample one of both is 1 */
	double sum, min, max;
	double value; /* of a sample; NaN: of a histogram point */
	uint32_t segment;
};
void piece_add(struct piece *p, const struct piece_point *x);
void piece_node(struct piece *p, uint64_t start, const struct summary *s);
void piece_join(struct piece *p, const struct piece *next);
struct store_bucket piece_bucket(const struct piece *p);
/* Room for about n pieces: what is not used costs nothing. */
void piece_reserve(struct piece_list *l, uint64_t n);
void piece_push(struct piece_list *l, const struct piece *p);
/* Middle of a piece on an axis. */
int64_t piece_middle(const struct piece *p, enum store_axis axis);
/* Sort pieces along the axis and join them to at most n buckets of as equal a
 * number of points as they allow. */
void piece_buckets(struct piece_list *l, enum store_axis axis, size_t n, struct store_result *ret);

/* ---- queryone.c: one series ------------------------------------------------------------------ */

enum query_sql {
	QUERY_TREE,
	QUERY_KIND,
	QUERY_FIRST, /* chunk of a series */
	QUERY_LAST,
	QUERY_CHUNK, /* by ordinal */
	QUERY_N
};

/* A host's file while it is asked. */
struct query_host {
	struct hosts_one *h;
	sqlite3_stmt *sql[QUERY_N];
	struct treewalk tree;
	struct chunkdata data;
	struct points points;    /* of a chunk: what is not in its axis */
	struct points_view view; /* of the chunk, all of it */
	struct hists hists;
	int64_t until;           /* end the transaction at this time; 0: none is open */
	bool synced;             /* the tail is as this transaction shows it */
	const atomic_bool *stop; /* true: give up soon; NULL: never */
};

/* A leaf that has to be looked at point by point. */
struct queryone_open {
	struct treewalk_node leaf;
	bool whole; /* all of its points are in the range */
};

/* A point that may be given as it is. */
struct queryone_raw {
	struct piece_point p;
	uint64_t leaf; /* position of its leaf */
	int64_t x;     /* on the axis */
	uint32_t thread;
};

/* A series of a query. */
struct queryone {
	struct store_reader *r;
	const struct store_query *ask;
	unsigned points;               /* buckets wanted */
	const struct store_grid *grid; /* NULL: not aligned */
	struct err *e;
	struct query_host *host;
	struct store_ref ref;
	size_t index; /* of the question's series */
	uint64_t at;  /* of queryat_point() */
	enum sink_kind kind;
	bool is_hist;
	struct points tail;
	struct hists tail_hists;
	/* as of the transaction */
	uint64_t chunks, sealed; /* and points in them */
	uint64_t kept;           /* points before this one were dropped */
	struct segment segment;  /* after the last chunk */
	/* the answer */
	struct cover cover;
	struct treewalk_list in[TREEWALK_LEVELS], cross[TREEWALK_LEVELS];
	struct treewalk_list below[TREEWALK_LEVELS]; /* children of the node at hand */
	struct queryone_open *opens;
	size_t n_opens, cap_opens;
	uint64_t whole; /* points of nodes that are in the range whole */
	uint64_t seen;  /* points that came one by one */
	uint64_t lost;
	uint64_t piece_max; /* points to be joined to one piece */
	uint64_t node_max;  /* points of a node that is not opened */
	bool one_by_one;    /* there may be so few points that they are given */
	struct queryone_raw *raw;
	size_t n_raw, cap_raw;
	struct piece_list pieces;
	struct piece now;           /* points on their way to a piece */
	uint64_t now_leaf;          /* of the last of them */
	struct piece *cells;        /* aligned */
	int64_t axis_min, axis_max; /* of what is in the range; min > max: nothing */
	uint64_t count;             /* points in it, about */
};

/* Is what is asked for in a node? */
enum queryone_how {
	QUERYONE_NONE,
	QUERYONE_SOME,
	QUERYONE_ALL
};
/* After queryone_begin(). */
enum queryone_how queryone_match(const struct queryone *x, const struct summary *s);
/* Take what the transaction shows: kind, chunks, steps of the attempts; the tail is
 * in x->tail. */
int queryone_begin(struct queryone *x);
/* axis_min, axis_max, count. */
int queryone_extent(struct queryone *x);
/* The answer. */
int queryone_answer(struct queryone *x, struct store_result *ret);
/* 1 and a row of table chunk, or 0: there is none. */
int queryone_chunk(struct queryone *x, enum query_sql which, uint64_t ordinal, struct chunk *ret);
/* Forget all but the tail. */
void queryone_reset(struct queryone *x);
void queryone_done(struct queryone *x);

/* ---- querypoint.c: points of it ------------------------------------------------------------- */

/* Do points without a step not count? */
bool querypoint_needs_steps(const struct queryone *x);
/* Is the point in the range, and not hidden by a newer attempt? */
bool querypoint_sees(const struct queryone *x, const struct piece_point *p);
/* Number i of points or hists, as a point of a series. */
struct piece_point querypoint_point(const struct queryone *x, const struct points_view *points,
				    const struct hists *hists, size_t i, uint64_t at,
				    uint32_t segment);
/* A piece, which becomes empty. */
void querypoint_emit(struct queryone *x, struct piece *p);
/* A node as a piece. */
void querypoint_give_node(struct queryone *x, struct piece *p);
/* What was kept as it is becomes pieces. */
void querypoint_spill(struct queryone *x);
/* The points of a leaf, whose chunk is in x->host. */
void querypoint_take_leaf(struct queryone *x, const struct queryone_open *o, uint32_t segment);
/* Points of the tail, segments going on from the last chunk; look: only note which
 * steps they have. */
void querypoint_tail(struct queryone *x, bool look);

/* ---- queryat.c ------------------------------------------------------------------------------ */

/* Point number x->at into *ret; its time is INT64_MIN if it is not stored. */
int queryat_point(struct queryone *x, struct store_point *ret);

/* ---- query.c: a host's file ------------------------------------------------------------------ */

/* Ask h's file, decoding with r. On failure too, query_close() ends it. */
int query_open(struct query_host *to, struct store_reader *r, struct hosts_one *h, struct err *e);
void query_close(struct query_host *h);
/* Begin a transaction, instead of the one that may be open. */
int query_begin(struct query_host *h, struct err *e);
/* If the transaction has been open for long, begin another one. -ECANCELED: stop. */
int query_breathe(struct query_host *h, struct err *e);

/* What is asked of each series: ret is the same for all, each writes a place of its own.
 * forget frees what fn gave; NULL: it gives nothing to free. */
struct query_work {
	int (*fn)(struct queryone *x, void *ret);
	void (*forget)(struct queryone *x, void *ret);
};

/* ---- crew.c: several series at once ------------------------------------------------- */

#define CREW_THREADS 8u /* each with a connection: half a MiB, and what it decodes */

struct crew_file {
	char *path; /* NULL: not on a disk */
	bool frozen;
	dev_t dev;
	ino_t ino;
};
struct crew {
	struct store_reader *r;
	struct queryone *series; /* sorted by host */
	size_t n;
	long blocks;
	const struct query_work *work;
	void *ret;
	struct crew_file *files; /* by host; constant while there are threads */
	pthread_t threads[CREW_THREADS];
	size_t n_threads;
	bool started;
	/* what threads share */
	atomic_int *states; /* of each series */
	atomic_bool stop;
};

/* The file that a reader has open, freed by crew_file_done(); and a connection of its own to
 * it for another thread. -ENOENT: it is in memory; -ESTALE: another file is there now. */
void crew_file_init(struct crew_file *f, const struct hosts_one *h);
void crew_file_done(struct crew_file *f);
int crew_connect(const struct crew_file *f, struct err *e, sqlite3 **ret);

/* 512-byte blocks that this thread has waited for from a disk; 0 if the system does not
 * count them: then nobody helps. */
long crew_blocks(void);
/* A round of questions to n series, which the caller answers too; all calls are his.
 * blocks: crew_blocks() before the first. */
void crew_init(struct crew *c, struct store_reader *r, struct queryone *series, size_t n,
	       long blocks, const struct query_work *work, void *ret);
/* Series i is the caller's now? false: another has it. Then answer it, and say so. */
bool crew_takes(struct crew *c, size_t i);
void crew_answered(struct crew *c, size_t i);
/* Series i is being read. If the disk had to be waited for, threads begin to answer those
 * behind it; those of files with a tail they only read, which brings the pages into memory. */
void crew_look(struct crew *c, size_t i);
/* Wait for the threads: what they took and did not answer can be taken again. */
void crew_end(struct crew *c);
/* The same, but they give up what they are at; free all but the answers. */
void crew_done(struct crew *c);

#endif

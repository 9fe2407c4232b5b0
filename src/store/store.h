/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - a run on disk: one SQLite file per run and host in the run's folder
 * (docs/schema.md). The agent writes through the sink of a struct store;
 * everybody else reads through a struct store_reader, which opens all hosts'
 * files of a run, read-only, while it is being written or afterwards.
 *
 * Errors: negative errno and a sentence in struct err. -EUCLEAN: the database
 * is corrupt. -ENOSPC: disk full. -EPROTO: written by a newer lapse.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "wire/run.h"
#include "wire/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- writing (agent, recover) ------------------------------------------ */

struct store;

/* Where the file is while it is written. */
enum store_live {
	STORE_LIVE_AUTO,    /* in a private folder of this host if a WAL is not safe in the
			       run's, else in place */
	STORE_LIVE_LOCAL,   /* in a private folder */
	STORE_LIVE_IN_PLACE /* in the run's folder */
};

#define STORE_COPY_NS 300000000000LL   /* between copies of a live file elsewhere */
#define STORE_PATIENCE_NS 2000000000LL /* that store_close() waits for readers */

struct store_options {
	const char *dir;  /* the run's folder; made (0700) if missing */
	const char *host; /* file name without ".db"; '/' and control characters become '_' */
	bool existing;    /* only a file that is there and sound: -ENOENT, -EUCLEAN */
	bool no_wal;      /* a rollback journal whatever the file system; default: only
			     where docs/schema.md says that a WAL is not safe */
	enum store_live live;
	const char *local_dir; /* private folder; NULL: $XDG_STATE_HOME/lapse/live or
				  ~/.local/state/lapse/live, else /var/tmp/lapse-UID/live */
	int64_t copy_every_ns; /* 0: STORE_COPY_NS */
	int64_t patience_ns;   /* 0: STORE_PATIENCE_NS; < 0: none */
	bool no_replace;       /* -EUCLEAN instead of setting a corrupt file aside */
};

/* Open or create DIR/HOST.db. A corrupt file is renamed to
 * HOST.db.corrupt-UTCSECONDS and a new one begun (a warning event tells so in
 * it); so is one in which an earlier handle met -EUCLEAN before it was closed.
 * Only one writer a file: -EBUSY. */
int store_open(const struct store_options *o, struct err *e, struct store **ret);

/* The sink; owned by the store. commit() appends one tail row. */
struct sink *store_sink(struct store *s);

/* Write or update what is known of the run. Stored at once (its own
 * transaction). store_end() also marks the end. */
int store_start(struct store *s, const struct run_start *r, struct err *e);
int store_end(struct store *s, const struct run_outcome *o, struct err *e);

/* Why the last sink call failed. */
const struct err *store_error(const struct store *s);

/* Is the file still where it was opened (not deleted, not replaced)? */
bool store_is_alive(const struct store *s);

/* Fold tail rows into chunks. all: everything. Else, if there is enough to fold,
 * one slice of some tens of milliseconds, in one transaction; 1: more slices
 * wait. Called by the agent between commits. Also looks whether the file still
 * begins like a database. On error what was not folded stays in the tail. */
int store_fold(struct store *s, bool all, struct err *e);

/* Which raw points may go. Zero-initialise: none. */
struct store_limits {
	int64_t keep_raw_ns; /* those that are older by UTC now; 0: no limit */
	uint64_t max_bytes;  /* the oldest, if the file (without its log) is larger; 0: no limit */
};

/* Retention (docs/schema.md): delete raw points that the limits do not allow, the
 * oldest first over all series, in chunks, and cut the file. Each call is a slice
 * of some tens of milliseconds; 1: more of it. Cheap if nothing is due: points are
 * looked for every 16th of keep_raw_ns (1 s to 10 min). Summaries, events, the last
 * chunk of each series and what is not folded stay, so a file may stay larger. On
 * error nothing of the slice is done; tried again after a minute. */
int store_retain(struct store *s, const struct store_limits *l, struct err *e);

/* What store_retain() deleted, by this handle. */
struct store_retained {
	uint64_t chunks, points;
	uint64_t bytes; /* of their data; of store_retain_look() with a share of the axes */
};
void store_retained(const struct store *s, struct store_retained *out);

/* What store_retain() would delete from a file, which is only read. */
int store_retain_look(const char *db_path, const struct store_limits *l, struct err *e,
		      struct store_retained *ret);

struct store_stats {
	uint64_t samples; /* samples, spans and observations committed, by this handle */
	uint64_t commits;
	uint64_t tail_bytes;  /* encoded bytes of tail blobs committed */
	uint64_t chunk_bytes; /* bytes of chunk blobs written */
	uint64_t file_bytes;  /* size of database and WAL now */
};
void store_stats(struct store *s, struct store_stats *out);

/* Before the end: make it one plain file, if nobody keeps us from it. 1: somebody has it
 * open and reads; call again later, or close it all the same. Does not wait. On error,
 * too, what is left is to close it. */
int store_settle(struct store *s, struct err *e);

/* Fold all, checkpoint, leave one plain file (no -wal, no -shm), free. It waits
 * for those who have the file open: patience_ns, after store_settle() a tenth of it; if
 * they keep it, an empty log stays. NULL is fine. What was not committed is lost. Returns the first
 * error; the handle is gone all the same. -ESTALE: the file had been deleted or replaced. */
int store_close(struct store *s, struct err *e);

/* The same, but a file that is in a private folder stays there, for
 * store_finish_leftovers(). */
int store_leave(struct store *s, struct err *e);

/* Live files in private folders of this host whose writers are dead: move each into
 * its run's folder, found() is told of it; kept: where it still is, and why (else
 * NULL and ""). Those that are written are left alone. 0, or found()'s first result
 * that is not 0. */
struct store_leftovers {
	int (*found)(void *arg, const char *dir, const char *file, const char *kept,
		     const char *why);
	void *arg;
};
int store_finish_leftovers(const char *local_dir, const struct store_leftovers *to);

/* ---- reading ----------------------------------------------------------- */

struct store_reader;

/* Open every *.db of a run's folder. -ENOENT if there is none; files that
 * cannot be read are left out and told by store_reader_warning(). */
int store_reader_open(const char *dir, struct err *e, struct store_reader **ret);
void store_reader_close(struct store_reader *r);

/* What could not be read: "" or sentences, one a line. Owned by the reader; good until
 * its next call. store_reader_run(), _processes() and _series() tell of damage here and
 * go on; the others fail. */
const char *store_reader_warning(const struct store_reader *r);

/* What is known of the run; strings are owned by the reader. */
struct store_run {
	const char *id, *name, *project, *command, *cwd, *user, *tags, *notes;
	const char *hosts;        /* comma-separated */
	int64_t start_ns, end_ns; /* UTC; end 0: not ended */
	enum run_outcome_kind outcome;
	int code, signal, core;
	double user_s, system_s;
	int64_t max_rss;
	const char *evidence, *stderr_tail;
};
int store_reader_run(struct store_reader *r, struct store_run *out, struct err *e);

/* What was changed of a run afterwards: the file "run.edit" in its folder, which
 * store_reader_run() applies. store_edit_load(): -ENOENT: there is none; -EBADMSG: it
 * is damaged. store_edit_save() replaces it in one step; it works while the run is
 * recorded, by whomever. */
int store_edit_load(const char *dir, struct err *e, struct run_edit *ret);
int store_edit_save(const char *dir, const struct run_edit *edit, struct err *e);

/* The hosts' files: how many, the name of one ("HOST.db"), and a copy of it as one plain
 * new file TO (0600), as of one moment, also while it is written. */
size_t store_reader_hosts(const struct store_reader *r);
const char *store_reader_file(const struct store_reader *r, unsigned host);
int store_reader_copy(struct store_reader *r, unsigned host, const char *to, struct err *e);

/* The id of the run that a file is of ("" none), and giving another one to a file that
 * nobody else has open. */
int store_file_id(const char *db_path, struct err *e, char ret[RUN_ID_MAX + 1]);
int store_file_set_id(const char *db_path, const char *id, struct err *e);

/* Each of these calls fn for every row, in order of id, until it returns
 * non-zero; that value is returned. Pointers in a row live during the call. fn
 * must not use the reader. */
struct store_process {
	unsigned host; /* index of the host's file */
	const char *host_name;
	uint32_t id; /* unique with host */
	int64_t pid, ppid, rank, local_rank, world_size, start_ns, end_ns;
	const char *role, *program;
	uint64_t stored, overwritten, broken, dropped, refused; /* over all lanes of the
								   ring that is its uid */
};
int store_reader_processes(struct store_reader *r,
			   int (*fn)(void *arg, const struct store_process *p), void *arg,
			   struct err *e);

struct store_series {
	unsigned host;
	const char *host_name;
	uint32_t id; /* unique with host */
	uint32_t process;
	int64_t rank;     /* of the process */
	const char *role; /* of the process */
	int64_t began_ns; /* the process; 0: nobody knows */
	const char *name, *labels, *unit, *help, *source;
	enum sink_kind kind;
	uint64_t count; /* points stored, with those that are gone by now */
	uint64_t lost;  /* of them the first so many, which retention has dropped: they are
			   known to charts and totals, but not one by one */
};
int store_reader_series(struct store_reader *r, int (*fn)(void *arg, const struct store_series *s),
			void *arg, struct err *e);

/* Which series of a name stands for all where one is told of: without labels before with, the
 * lowest rank, unknown ones last, and of a rank that began again its newest attempt: the
 * process that began last. */
struct store_standing {
	bool has_labels;
	int64_t rank, began_ns;
};
struct store_standing store_standing(const struct store_series *s);
bool store_standing_is_before(struct store_standing a, struct store_standing b);
bool store_series_is_before(const struct store_series *a, const struct store_series *b);

/* Which points. Zero-initialise, then set what you need. */
struct store_range {
	bool by_time, by_step;      /* use the limits below; both: both must hold */
	int64_t time_min, time_max; /* UTC ns, inclusive */
	int64_t step_min, step_max; /* inclusive; points without a step are left out */
	bool all_segments;          /* false: where steps were repeated by a resumed
				       attempt, only the newest attempt's points */
};

/* One point of a series. hist is NULL but for histograms. */
struct store_point {
	int64_t time_ns, step;
	double value; /* of a histogram point: its mean, NaN if it has none */
	uint32_t thread;
	uint32_t segment;             /* 0, then one more each time the steps began again */
	const struct sink_hist *hist; /* lives during the call */
};

/* Call fn for the points of a series in the order in which they arrived: those
 * committed when the call began, without those that retention dropped, or drops
 * meanwhile. As above for fn. -ENOENT: no such series. */
int store_reader_points(struct store_reader *r, unsigned host, uint32_t series,
			const struct store_range *range,
			int (*fn)(void *arg, const struct store_point *p), void *arg,
			struct err *e);

/* Points of a series that arrived one after the other, as columns. */
struct store_block {
	size_t n; /* at least 1 */
	const int64_t *time_ns, *step, *thread;
	const double *value;
	uint32_t segment; /* of all of them */
};

/* The same as store_reader_points() in blocks, several times as fast. -EINVAL: the
 * series has histograms. */
int store_reader_blocks(struct store_reader *r, unsigned host, uint32_t series,
			const struct store_range *range,
			int (*fn)(void *arg, const struct store_block *b), void *arg,
			struct err *e);

struct store_event {
	unsigned host;
	uint32_t process;
	uint64_t seq;
	int64_t time_ns, step;
	int severity;
	const char *kind, *text, *attrs;
};
int store_reader_events(struct store_reader *r, int (*fn)(void *arg, const struct store_event *e),
			void *arg, struct err *e);

/* Attributes: the last value of each key of each process. */
int store_reader_attrs(struct store_reader *r,
		       int (*fn)(void *arg, unsigned host, uint32_t process, const char *key,
				 const char *value),
		       void *arg, struct err *e);

/* ---- charts -------------------------------------------------------------- */

enum store_axis {
	STORE_BY_TIME,
	STORE_BY_STEP
};

/* One series of one host's file. */
struct store_ref {
	unsigned host;
	uint32_t series;
};

/* What is known of the points of a series that fall into a bucket. */
struct store_bucket {
	uint64_t count;             /* points; 0: empty, the rest is meaningless */
	uint64_t nan, observed;     /* values; of histograms: observations */
	double sum, min, max;       /* over values that are not NaN; NaN: there are none */
	double first, last;         /* by arrival */
	uint64_t first_at, last_at; /* indices of these points */
	uint64_t min_at, max_at;    /* index in the series (from 0, as stored) of the first
				       point that has min and max; UINT64_MAX: none */
	int64_t time_min, time_max; /* UTC ns, of its points */
	int64_t step_min, step_max; /* SINK_STEP_NONE: no point has one */
	uint32_t segment;           /* of its first point */
};

#define STORE_BUCKETS_MAX 65536u
#define STORE_REFS_MAX 4096u

/* A question. Zero-initialise, then set what you need. */
struct store_query {
	struct store_range range; /* all_segments false: of steps that were repeated only
				     the newest attempt */
	enum store_axis axis;     /* what buckets divide */
	unsigned points;          /* buckets wanted, 1 to STORE_BUCKETS_MAX; 0: 1,000 */
	bool aligned;             /* buckets of one width on the axis, the same for all
				     series: bucket i covers [x0 + i * width, x0 + (i + 1) * width).
				     Up to twice as wide as wanted. A group of consecutive points
				     that is no wider than a bucket may go whole into the bucket
				     of its middle: borders are off by less than a width */
	bool no_raw;              /* buckets even if there are no more points than wanted */
};

/* The answer for one series, in order of the axis: its points, one by one, if there
 * are no more than wanted, or buckets. On the step axis points without a step are
 * left out. Without `aligned`: between half as many and as many buckets as wanted
 * (or as there are points), of about the same number of points, none empty; where
 * points arrived late buckets may overlap. With it: grid.n buckets. */
struct store_result {
	bool raw, aligned;
	size_t n;
	struct store_point *points;   /* raw; hist is NULL, the value of a histogram its mean */
	struct store_bucket *buckets; /* else */
	uint64_t lost;                /* points in the range that retention dropped and that
					 only summaries still know; raw is false then */
};

/* The grid of `aligned`. */
struct store_grid {
	int64_t x0, width; /* ns or steps */
	size_t n;          /* buckets, at most those wanted; 0: there are no points */
};

/* Answer q for n series (at most STORE_REFS_MAX); ret has room for n and is filled
 * only on success (then store_results_free()); grid may be NULL. Reads at most about
 * 8 nodes of the summary tree a bucket, or 512 points a bucket, whatever the length
 * of the series, and the tail; holds a transaction at most about 200 ms, so several
 * series may be answered as of slightly different commits. If a file is not in the page
 * cache, up to 8 threads with connections of their own help until the call returns.
 * -ENOENT: no such series, -EINVAL: impossible question. */
int store_reader_query(struct store_reader *r, const struct store_query *q,
		       const struct store_ref *refs, size_t n, struct err *e,
		       struct store_grid *grid, struct store_result *ret);
void store_results_free(struct store_result *results, size_t n);

/* Totals of a series: one bucket over all (or the newest attempts') points. */
int store_reader_total(struct store_reader *r, const struct store_ref *ref, bool all_segments,
		       struct err *e, struct store_bucket *ret);

/* The points with these indices (min_at of a bucket and so on), at most STORE_REFS_MAX;
 * hist is NULL, a histogram point's value its mean. Time INT64_MIN: not stored (any
 * more). Threads as above. 0, -ENOENT: no such series. */
struct store_place {
	struct store_ref ref;
	uint64_t at;
};
int store_reader_at(struct store_reader *r, const struct store_place *places, size_t n,
		    struct err *e, struct store_point *ret);

/* Only the values of a series, in no particular order, many times as fast: those that are
 * stored when it is opened, without those that retention dropped. The reader must outlive
 * it. -ENOENT: no such series; -EINVAL: it has histograms; -EFBIG: there are more than max,
 * found out without listing them all. */
struct store_values;
int store_values_open(struct store_reader *r, const struct store_ref *ref,
		      const struct store_range *range, uint64_t max, struct err *e,
		      struct store_values **ret);
void store_values_close(struct store_values *v);
/* How many there are, about; at least as many. */
uint64_t store_values_count(const struct store_values *v);
/* Some of them, taken evenly (none if there are few); its own, but may be changed. */
double *store_values_sample(struct store_values *v, size_t *ret_n);

/* Called by several threads at once. */
struct store_values_to {
	/* n values, without NaN, lie in [min, max]: true: that is enough. */
	bool (*skip)(void *arg, double min, double max, uint64_t n);
	/* Values, NaN too, of which those that are not lie in [min, max]; n is at least 1. */
	void (*take)(void *arg, const double *values, size_t n, double min, double max);
	void *arg;
};
/* All of them; they may be passed over again. The caller and up to three threads with
 * connections of their own read. 0; 1: retention has dropped some meanwhile; -errno. */
int store_values_pass(struct store_values *v, const struct store_values_to *to, struct err *e);

/* Join aligned results of several series: which[i] < n_groups is the group of
 * results[i]. out has n_groups * n_buckets. */
struct store_band {
	unsigned series;               /* that have points here; 0: empty */
	double min, mean, max;         /* of the series' means, each counting once */
	unsigned min_which, max_which; /* index of the series that has it */
	double low, high;              /* smallest and greatest value of all */
};
void store_group(const struct store_result *results, const unsigned *which, size_t n,
		 size_t n_groups, size_t n_buckets, struct store_band *out);

/* Make rates of what a counter added: the answer's values become amounts a second
 * (a step on the step axis). The rate of a bucket is the sum of its amounts over the
 * distance from the last point before it to its own last point; an amount recorded
 * at a moment came since the point before. So the first amount of all counts
 * nowhere: it is not known since when it came; a bucket or point for which that
 * leaves nothing is empty (aligned) or left out. Points of one moment count as one.
 * Afterwards sum, min, max, first and last of a bucket are the rate, observed is 1. */
void store_rate(struct store_result *r, enum store_axis axis);

/* Does a series match NAME{LABEL=VALUE,...} or rate(NAME{...})? Name and values are
 * shell patterns ('*' also stands for '/'); a value may be in double quotes, with \"
 * for a quote; a label that a series lacks is "". Besides its own labels a series has
 * host, role, rank and process. Parsed once, freed with store_match_free(). -EINVAL
 * and where it is wrong. */
struct store_match;
int store_match_new(const char *pattern, struct err *e, struct store_match **ret);
bool store_match_is(const struct store_match *m, const struct store_series *s);
bool store_match_is_rate(const struct store_match *m);
void store_match_free(struct store_match *m);

/* Value of a label as patterns see it; the caller frees it. NULL: it has none. */
char *store_series_label(const struct store_series *s, const char *label);

/* ---- what is new ----------------------------------------------------------- */

/* How far a reader has come in a run: for each host the last commit and the
 * points of each series that were given. Good for one set of functions: what
 * was not wanted counts as given. */
struct store_cursor;
struct store_cursor *store_cursor_new(void); /* at the beginning */
void store_cursor_free(struct store_cursor *c);
/* As bytes (appended), to keep (with a checksum), and back. About 15 bytes a
 * series. 0 or b->error; -EUCLEAN: not such bytes. */
int store_cursor_save(const struct store_cursor *c, struct buf *b);
int store_cursor_load(const void *data, size_t len, struct store_cursor **ret);

struct store_newer {
	/* New or changed; it may come once more as it was. */
	int (*process)(void *arg, const struct store_process *p);
	/* New; count is 0. */
	int (*series)(void *arg, const struct store_series *s);
	/* s->count: points of the series before those of this call. */
	int (*point)(void *arg, const struct store_series *s, const struct store_point *p);
	/* The next n points of a series were dropped by retention. */
	int (*lost)(void *arg, const struct store_series *s, uint64_t n);
	int (*event)(void *arg, const struct store_event *e);
	/* Set; it may come once more as it was. */
	int (*attr)(void *arg, unsigned host, uint32_t process, const char *key, const char *value);
	/* The next n points of a gauge are older than its newest chunk: they are not read.
	 * NULL: they come as points, or are lost. */
	int (*older)(void *arg, const struct store_series *s, uint64_t n);
};

/* Call the functions (NULL: not wanted) for all that is newer than c, host by host:
 * processes, attributes, events, series; then points, series by series in the
 * order of ids, those of histograms last, points in order of arrival, all
 * segments. Structs and strings live during the call; no function may use the
 * reader. 0: c is where the store was, c has moved on only if all went well. A
 * function's non-zero value ends the walk and is returned, c stays; so with
 * errors. max_points (0: no limit): stop after so many points and return 1 with
 * c moved behind them: ask again; what is not a point comes in the first of
 * these calls.
 *
 * Only commits newer than c are decoded. A file that took the place of a corrupt
 * one is given from its beginning. After a loss of power (docs/schema.md) the
 * last commits that c has seen may be gone: then c goes on behind what is there,
 * if it is asked before as many new ones have come. */
int store_reader_newer(struct store_reader *r, struct store_cursor *c, const struct store_newer *f,
		       void *arg, uint64_t max_points, struct err *e);

/* Move c on to where the store is and give nothing: what comes later is new. A chunk's row
 * of each series and the tail are read, not the points in chunks. 0, or -errno: c stays. */
int store_reader_skip(struct store_reader *r, struct store_cursor *c, struct err *e);

/* Check a whole file: integrity of SQLite, of every tail row and every chunk
 * (counts, ranges, checksums). 0, or -EUCLEAN and the first thing that is wrong. */
int store_check(const char *db_path, struct err *e);

/* Something that is wrong with a file; strings live during the call. */
struct store_finding {
	const char *path;
	const char *table; /* "": the file as a whole */
	const char *row;   /* "series 3, ordinal 5"; "": the table as a whole */
	const char *what;
};

#define STORE_FINDINGS_MAX 10000u /* in a file; the check ends there */

/* Who hears of a check. Each function's non-zero value ends it and is returned. */
struct store_checker {
	int (*found)(void *arg, const struct store_finding *f);
	/* From time to time: rows looked at, and how many there are; 0: not known. NULL:
	 * not wanted. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

/* The same, all that is wrong: *ret is the number of findings. 0 whatever they
 * are, or why the check could not be made. */
int store_check_all(const char *db_path, const struct store_checker *c, struct err *e,
		    uint64_t *ret);

/* The hosts' files of a run, also those set aside, in order of their names; strings
 * live during the call. */
struct store_file {
	const char *name; /* HOST.db, or HOST.db.corrupt-SECONDS */
	const char *path; /* of what is to be read; NULL: nothing yet, it is live elsewhere */
	bool is_live;     /* it is being written on this host, or lives on another */
	bool is_aside;
};
/* 0, or fn's first result that is not 0; -errno: the folder cannot be read. */
int store_files(const char *dir, int (*fn)(void *arg, const struct store_file *f), void *arg,
		struct err *e);

/* What repairing has left and what it could not. */
struct store_repaired {
	uint64_t rows, rows_lost; /* of tables; lost: as far as it can be known */
	uint64_t points;          /* in chunks and rows of the tail that could be decoded */
	uint64_t chunks_lost, points_lost, commits_lost;
	char *kept; /* path of the old file; the caller frees it */
};

/* Write what can be read of DIR/FILE, which nobody writes, into a new file, and put
 * it in its place: rows of all tables, chunks and rows of the tail that pass their
 * checks, summaries made anew. The old one is kept as FILE.corrupt-UTCSECONDS. The
 * new one has passed store_check(). -EBUSY: it is being written, or lives on this
 * or another host. On error all is as it was. */
int store_repair(const char *dir, const char *file, const struct store_checker *c, struct err *e,
		 struct store_repaired *ret);

/* ---- runs in a folder --------------------------------------------------- */

/* Folder that holds the runs: explicit if not NULL, else $LAPSE_DIR, else
 * ./lapse-runs; absolute, into out (cap bytes). 0 or -errno. */
int store_root(const char *explicit_dir, char *out, size_t cap);

/* Names of the run folders in root, oldest first (run ids begin with their
 * start). *ret is an array ended by NULL, freed with store_runs_free(). */
int store_runs(const char *root, char ***ret, struct err *e);
void store_runs_free(char **runs);

/* Find one run by id, by the beginning of an id, by "last", or by the path of
 * its folder; its folder into out. -ENOENT none, -EEXIST several (the error
 * lists them). "last" is the newest id; of those that begin in the same second,
 * the run whose stored start is the latest. */
int store_find(const char *root, const char *what, char *out, size_t cap, struct err *e);

/* Is a write-ahead log safe in that folder: on a local file system that is known? */
bool store_wal_is_safe(const char *dir);

#endif

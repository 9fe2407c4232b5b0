/* SPDX-License-Identifier: Apache-2.0
 *
 * lapse.h - record what a training program does, for nanoseconds a record.
 *
 * Records go into shared memory; the lapse agent stores them, shows them and
 * raises alerts. Start the program with `lapse run -- PROGRAM` and call
 * lapse_open(NULL). A first use:
 *
 *     lapse_open(NULL);
 *     struct lapse_metric loss = lapse_gauge("loss", "nat", "training loss", NULL);
 *     for (int64_t step = 0; step < 1000; step++) {
 *         lapse_step_begin(step);
 *         { LAPSE_SCOPE("forward"); value = forward(batch); }
 *         lapse_set(loss, value);
 *         lapse_step_end(batch_size, batch_tokens);
 *     }
 *     lapse_close();
 *
 * Rules that hold for every function here unless it says otherwise:
 *
 * - It never exits, prints, waits for another process, or changes errno. The
 *   calls marked "hot" make no system call, take no lock and allocate nothing
 *   (a thread's first record claims a lane, which makes a few system calls;
 *   a lane that reached a quarter of its size may wake a sleeping agent).
 * - It may be called from any thread, before lapse_open() and after
 *   lapse_close(): then it does nothing.
 * - Strings are copied before the call returns. They are UTF-8, end in NUL,
 *   and are cut at the stated number of bytes.
 * - Recording ("hot") calls may be made in a signal handler. A record that a
 *   handler makes while it interrupts a recording call of the same thread is
 *   dropped and counted. Leaving such a handler by longjmp() silences the lane.
 * - After fork() the child records into a ring of its own, made at its first
 *   record; handles stay valid. The same holds for a raw clone() without
 *   CLONE_VM. Two tasks that share one thread-local storage (clone() with
 *   CLONE_VM and without CLONE_SETTLS, both running) must not both record.
 * - Handles stay valid for the life of the process, also across lapse_close()
 *   and a new lapse_open(), and past dlclose() (the library stays mapped).
 *
 * C99 and C++98 clean. Needs GCC or Clang for LAPSE_SCOPE only.
 */
#ifndef LAPSE_H
#define LAPSE_H

#include <stddef.h> /* size_t */
#include <stdint.h> /* fixed widths */

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LAPSE_API __attribute__((visibility("default")))
#else
#define LAPSE_API
#endif

/* Longest strings kept, in bytes without the NUL; longer ones are cut. */
#define LAPSE_NAME_MAX 255    /* metric and span names */
#define LAPSE_UNIT_MAX 63     /* units */
#define LAPSE_HELP_MAX 511    /* help texts */
#define LAPSE_LABELS_MAX 1023 /* all labels of a metric, written k="v",k="v" */
#define LAPSE_TEXT_MAX 16384  /* event texts, attribute values */

/* Most values in one frame; lapse_log() with more writes several frames that
 * share time and step. */
#define LAPSE_FRAME_MAX 1024

/* Special steps for the functions that take one. */
#define LAPSE_STEP_NONE INT64_MIN          /* belongs to no step */
#define LAPSE_STEP_CURRENT (INT64_MIN + 1) /* the process's current step */
#define LAPSE_STEP_NEXT (INT64_MIN + 2)    /* lapse_step_begin(): the last one plus 1 */

/* Special time for the functions that take one: the moment of the call. */
#define LAPSE_NOW INT64_MIN

/* How much an event matters. */
enum lapse_severity {
	LAPSE_DEBUG = 0,
	LAPSE_INFO = 1,
	LAPSE_WARNING = 2,
	LAPSE_ERROR = 3
};

/* Options of lapse_open(). Set the whole struct to zero, then `size`, then
 * what you need; zero means the default. All strings stay the caller's. */
struct lapse_options {
	size_t size;           /* sizeof(struct lapse_options), so that it can grow */
	const char *name;      /* name of the run; default: the program's file name */
	const char *project;   /* project the run belongs to; default: none */
	const char *role;      /* what this process is: "trainer" (default), "worker", ... */
	const char *store_dir; /* where a run without `lapse run` is stored;
				  default $LAPSE_DIR, else ./lapse-runs */
	size_t ring_bytes;     /* size of this process's ring; default 8.25 MiB, or
				  $LAPSE_RING_KIB; cut to 1/16 of what the file system
				  has free and 1/64 of the memory limit */
	unsigned lanes;        /* threads that can record at the same time;
				  default 16, at most 256 */
	int start_agent;       /* 1: start an agent (`lapse` in PATH or $LAPSE_BIN)
				  when none is running. lapse_open() then forks once. */
	int has_rank;          /* 1: rank, local_rank and world_size below hold */
	int rank;              /* global rank, 0-based */
	int local_rank;        /* rank on this host, 0-based; -1: unknown */
	int world_size;        /* number of ranks; -1: unknown */
};

/* Open the process's ring. opt may be NULL. Rank and world size come from opt,
 * else from RANK/LOCAL_RANK/WORLD_SIZE, SLURM_PROCID/SLURM_LOCALID/SLURM_NTASKS,
 * OMPI_COMM_WORLD_RANK/_LOCAL_RANK/_SIZE or PMI_RANK/PMI_SIZE, else unknown.
 *
 * Returns 0, also when the ring is open already (the options are then not
 * looked at), or a negative errno; everything stays inert then and
 * lapse_error() says why: -EFBIG the limit of file sizes (ulimit -f) is below
 * a ring, -ENOSPC no room for a ring of 192 KiB in the shared
 * memory file system, -EACCES or -EPERM the rendezvous directory is not
 * ours alone, -EINVAL bad options, -ENOSYS lapse is switched off by
 * $LAPSE_DISABLE. Not for signal handlers. Takes about a millisecond. */
LAPSE_API int lapse_open(const struct lapse_options *opt);

/* Close the ring: what was recorded is complete, and later records are dropped
 * and counted. Called at exit by itself. Other threads may still be recording;
 * their records are kept up to the moment they see the close. */
LAPSE_API void lapse_close(void);

/* 1 while records are taken, else 0. */
LAPSE_API int lapse_is_open(void);

/* Why nothing is recorded, as a sentence; "" if the last lapse_open() worked
 * or there was none. Static storage, changed by lapse_open() only. */
LAPSE_API const char *lapse_error(void);

/* Id of the run that this process records into; "" before lapse_open(). Static
 * storage. */
LAPSE_API const char *lapse_run_id(void);

/* The folder of runs that holds this one unless a launcher chose another; absolute, "" before
 * lapse_open(). Static until the next lapse_open(). */
LAPSE_API const char *lapse_store_dir(void);

/* Path of the process's evidence file into out (cap bytes). Nobody makes the
 * file; text that something writes there (a crash handler, Python's
 * faulthandler) becomes an event of kind "fatal" once the process is dead, at
 * most 64 KiB of it. 0; -ENOTCONN while nothing is open; -ENAMETOOLONG. */
LAPSE_API int lapse_evidence_path(char *out, size_t cap);

/* Say with which status the process ends, right before _exit(); exit() and
 * return from main() say so by themselves (with the GNU C library). Outside
 * `lapse run` it is the run's exit status. */
LAPSE_API void lapse_exit_status(int status);

/* Version of the library, "MAJOR.MINOR.PATCH". Static storage. */
LAPSE_API const char *lapse_version(void);

/* What became of this process's records so far. */
struct lapse_stats {
	uint64_t attempts;    /* recording calls that returned (frames count once) */
	uint64_t accepted;    /* committed to a lane */
	uint64_t dropped;     /* attempts - accepted: lane full, no lane, in a
				 handler, too large, after close */
	uint64_t definitions; /* metrics and names defined */
	uint64_t refused;     /* definitions refused: the registry is full */
	uint64_t ring_bytes;  /* size of the ring, bytes */
};

/* Fill *out. Lanes of running threads are read without a lock: exact when no
 * other thread records. */
LAPSE_API void lapse_stats(struct lapse_stats *out);

/* ---- metrics ---------------------------------------------------------- */

/* A metric, by value. id 0 is inert: recording to it does nothing. */
struct lapse_metric {
	uint32_t id;
};

/* Define a metric, or find it: the same kind, name and labels give the same
 * handle. A gauge is a value that goes up and down, a counter is a sum of
 * additions, a histogram a distribution of observations.
 *   name    "loss" or "grad/norm"; at most LAPSE_NAME_MAX bytes, not empty
 *   unit    base unit: "s", "By", "1", "nat"; NULL or "" if it has none
 *   help    one line; may be NULL
 *   labels  {"key", "value", ..., NULL} or NULL; order does not matter; at most 32;
 *           one that does not fit into LAPSE_LABELS_MAX is left out whole
 * If a name with the same labels exists with another unit or kind, the agent
 * keeps the first and says so in an event.
 * Returns id 0 if the name is NULL or empty or the registry is full (counted).
 * Takes a lock shared with other definitions; not for signal handlers. */
LAPSE_API struct lapse_metric lapse_gauge(const char *name, const char *unit, const char *help,
					  const char *const *labels);
LAPSE_API struct lapse_metric lapse_counter(const char *name, const char *unit, const char *help,
					    const char *const *labels);
LAPSE_API struct lapse_metric lapse_histogram(const char *name, const char *unit, const char *help,
					      const char *const *labels);

/* Record that a gauge has this value now, at the current step. NaN and
 * infinities are kept. Hot. */
LAPSE_API void lapse_set(struct lapse_metric gauge, double value);

/* Add to a counter now, at the current step. Hot. */
LAPSE_API void lapse_add(struct lapse_metric counter, double delta);

/* Add one observation to a histogram now, at the current step. The agent bins
 * it (16 bins an octave, docs/schema.md). Hot. */
LAPSE_API void lapse_observe(struct lapse_metric histogram, double value);

/* The same for results that arrive late. step: a step, LAPSE_STEP_CURRENT or
 * LAPSE_STEP_NONE. time_ns: nanoseconds on the scale of lapse_now(), or
 * LAPSE_NOW. Hot. */
LAPSE_API void lapse_set_at(struct lapse_metric gauge, double value, int64_t step, int64_t time_ns);
LAPSE_API void lapse_add_at(struct lapse_metric counter, double delta, int64_t step,
			    int64_t time_ns);
LAPSE_API void lapse_observe_at(struct lapse_metric histogram, double value, int64_t step,
				int64_t time_ns);

/* One value of a frame. */
struct lapse_value {
	double value;
	struct lapse_metric metric;
};

/* Record n values with one time and one step. Each value is set, added or
 * observed as its metric's kind says; values of inert metrics are left out.
 * v stays the caller's. Hot: about 1 ns a value. */
LAPSE_API void lapse_log(const struct lapse_value *v, size_t n);
LAPSE_API void lapse_log_at(const struct lapse_value *v, size_t n, int64_t step, int64_t time_ns);

/* ---- time ------------------------------------------------------------- */

/* Nanoseconds since 1970-01-01 UTC: the wall clock when the ring was opened
 * plus the time elapsed since (suspend included). Steps of the wall clock do
 * not show. 0 before lapse_open(). One clock read. */
LAPSE_API int64_t lapse_now(void);

/* ---- spans ------------------------------------------------------------ */

/* The name of a span, by value. id 0 is inert. */
struct lapse_name {
	uint32_t id;
};

/* An open span, by value. */
struct lapse_span {
	uint64_t start; /* ticks of the ring's clock; 0: inert */
	uint32_t id;    /* name */
	uint32_t slot;  /* where it is among the open spans; opaque */
};

/* Define a name, or find it. As lapse_gauge() for errors, lock and handlers. */
LAPSE_API struct lapse_name lapse_name(const char *name);

/* Begin a span of this thread. Up to 32 open spans a thread are visible from
 * outside (what was it doing when it died?); deeper ones are recorded like any
 * other when they end. Spans need not nest. Hot. */
LAPSE_API struct lapse_span lapse_span_begin(struct lapse_name name);

/* End it: one record with start, duration, thread and current step. Ending a
 * span in another thread than it began in is allowed. Hot. */
LAPSE_API void lapse_span_end(struct lapse_span span);

/* Record a span measured elsewhere: a GPU phase resolved later, say. Times on
 * the scale of lapse_now(), end_ns >= start_ns. Hot. */
LAPSE_API void lapse_span_at(struct lapse_name name, int64_t start_ns, int64_t end_ns,
			     int64_t step);

/* ---- steps, epochs, events -------------------------------------------- */

/* Begin a step of the process: records of all its threads carry it from now
 * on. One thread calls this. A step that is still open is dropped. Hot. */
LAPSE_API void lapse_step_begin(int64_t step);

/* End it: one record with its times, samples and tokens. samples and tokens
 * are what this step processed; a negative value or NaN means not known. The
 * step stays current until the next one begins. Hot. */
LAPSE_API void lapse_step_end(double samples, double tokens);

/* The current step, as records carry it now; LAPSE_STEP_NONE before the first, and where
 * nothing is recorded. For what arrives later and must keep its step. Hot. */
LAPSE_API int64_t lapse_step_now(void);

/* Begin and end an epoch (0-based). Beginning one ends an open one. Hot. */
LAPSE_API void lapse_epoch_begin(int64_t epoch);
LAPSE_API void lapse_epoch_end(void);

/* Record something that happened, at the current step.
 *   kind   a short word: "checkpoint", "eval", "oom"; at most LAPSE_NAME_MAX
 *   text   a sentence; may be NULL
 *   attrs  a JSON object as text, or NULL; stored as it is, left out if longer
 *          than LAPSE_TEXT_MAX / 2 bytes
 * Hot (cost grows with the length of the text). */
LAPSE_API void lapse_event(enum lapse_severity severity, const char *kind, const char *text,
			   const char *attrs);

/* Say something about this process that is text: lapse_attr("optimizer",
 * "adamw"). The last value of a key wins. Keys run.name, run.project, run.tags
 * (comma-separated), run.notes and run.command also change the run's own. Hot. */
LAPSE_API void lapse_attr(const char *key, const char *value);

/* Say which rank this process is; may come late and may be repeated, the last
 * call wins. -1: unknown. */
LAPSE_API void lapse_set_rank(int rank, int local_rank, int world_size);

/* Say "I am alive" in phases that neither step nor record: the agent does not
 * call the run hung. Hot. */
LAPSE_API void lapse_heartbeat(void);

/* ---- a span for the rest of the enclosing block ------------------------ */

#if defined(__GNUC__)
/* For LAPSE_SCOPE only. */
static inline struct lapse_span lapse_scope_begin_(uint32_t *cache, const char *name)
{
	struct lapse_name n;
	n.id = __atomic_load_n(cache, __ATOMIC_RELAXED);
	if (n.id == 0) {
		n = lapse_name(name);
		__atomic_store_n(cache, n.id, __ATOMIC_RELAXED);
	}
	return lapse_span_begin(n);
}

static inline void lapse_scope_end_(struct lapse_span *span)
{
	lapse_span_end(*span);
}

#define LAPSE_JOIN2_(a, b) a##b
#define LAPSE_JOIN_(a, b) LAPSE_JOIN2_(a, b)

/* LAPSE_SCOPE("forward"); - a span from here to the end of the block. The name
 * must be the same at every pass. */
#define LAPSE_SCOPE(name)                                                                          \
	static uint32_t LAPSE_JOIN_(lapse_name_, __LINE__);                                        \
	__attribute__((cleanup(lapse_scope_end_), unused)) struct lapse_span LAPSE_JOIN_(          \
		lapse_span_, __LINE__) =                                                           \
		lapse_scope_begin_(&LAPSE_JOIN_(lapse_name_, __LINE__), (name))
#endif

#ifdef __cplusplus
}
#endif

#endif /* LAPSE_H */

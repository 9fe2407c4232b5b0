/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.h - what a profiler's trace says, as columns. A trace is one file: rows are its
 * complete events (ph "X", and pairs "B"/"E"), in the order of the file; what else there
 * is (memory instants, metadata, counts of the rest) stands beside. docs/traces.md says
 * what is read from which tool; the numbers made of it are in docs/trace-numbers.md.
 *
 * Times are int64 nanoseconds as the decimal text says, never through a double; they
 * are relative to base_ns. Names and texts are interned: equal texts have equal ids.
 *
 * Rows live in blocks. Within the memory budget all blocks are resident; beyond it
 * the oldest are in a temporary file (unlinked at once) and read back when asked for.
 * A trace is read-only once trace_read() has returned; one thread at a time may use it
 * (trace_block() may move blocks), several traces may be used by several threads.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_BLOCK_ROWS 65536u
#define TRACE_NONE (-1)            /* no stream, correlation, external id, rank */
#define TRACE_TEXT_MAX (16u << 20) /* bytes of one text; longer ones are cut and noted */
#define TRACE_ROWS_MAX UINT32_MAX

/* Category of a row, of today's names and those before PyTorch 1.13. */
enum trace_cat {
	TRACE_CAT_OTHER,           /* a name that is none of these: cat_text says it */
	TRACE_CAT_CPU_OP,          /* cpu_op, Operator */
	TRACE_CAT_USER_ANNOTATION, /* user_annotation */
	TRACE_CAT_GPU_USER_ANNOTATION,
	TRACE_CAT_KERNEL,       /* kernel, Kernel */
	TRACE_CAT_GPU_MEMCPY,   /* gpu_memcpy, Memcpy */
	TRACE_CAT_GPU_MEMSET,   /* gpu_memset, Memset */
	TRACE_CAT_CUDA_RUNTIME, /* cuda_runtime, Runtime; hip calls too */
	TRACE_CAT_CUDA_DRIVER,
	TRACE_CAT_CUDA_SYNC,
	TRACE_CAT_CUDA_EVENT,
	TRACE_CAT_CUDA_PROFILER_RANGE,
	TRACE_CAT_PYTHON_FUNCTION, /* python_function, Python */
	TRACE_CAT_OVERHEAD,
	TRACE_CAT_AC2G,  /* as a complete event; seen nowhere yet */
	TRACE_CAT_TRACE, /* Trace: the window itself */
	TRACE_CAT_MTIA_RUNTIME,
	TRACE_CAT_MTIA_CCP_EVENTS,
	TRACE_CAT_MTIA_INSIGHT,
	TRACE_CAT_COLLECTIVE_COMM,
	TRACE_CAT_XPU_RUNTIME,
	TRACE_CAT_XPU_DRIVER,
	TRACE_CAT_HPU_OP,
	TRACE_CAT_PRIVATEUSE1_RUNTIME,
	TRACE_CAT_PRIVATEUSE1_DRIVER,
	TRACE_CAT_EXTERNAL_CORRELATION,
	TRACE_CAT_CPU_INSTANT_EVENT,
	TRACE_CATS
};

/* Bits of trace_block.flags. */
enum trace_flag {
	TRACE_HAS_DUR = 1, /* the event had a dur (else 0, and rows of analyses leave it out) */
	TRACE_HAS_CAT = 2,
	TRACE_TS_FRACTION = 4,  /* ts was written with a decimal point */
	TRACE_NEGATIVE_DUR = 8, /* dur was below 0: kept as it is */
	TRACE_BROKEN = 16,      /* quarantined: ts 0 and dur 0 beside real times, and the like
				   (docs/traces.md, "Broken events"); analyses leave it out */
	TRACE_PAIRED = 32       /* made of "B" and "E" */
};

/* TRACE_BLOCK_ROWS rows as columns. Row i of the trace is row i % TRACE_BLOCK_ROWS of block
 * i / TRACE_BLOCK_ROWS. */
struct trace_block {
	int64_t ts[TRACE_BLOCK_ROWS];          /* ns */
	int64_t dur[TRACE_BLOCK_ROWS];         /* ns */
	int64_t correlation[TRACE_BLOCK_ROWS]; /* args.correlation; TRACE_NONE */
	int64_t external[TRACE_BLOCK_ROWS];    /* args "External id" / "external id" */
	uint32_t index[TRACE_BLOCK_ROWS];      /* place in traceEvents, all phases count */
	uint32_t name[TRACE_BLOCK_ROWS];       /* text id */
	uint32_t args[TRACE_BLOCK_ROWS];       /* id of struct trace_args; 0: nothing of it */
	int32_t stream[TRACE_BLOCK_ROWS];      /* args.stream; TRACE_NONE, also when no number;
						  INT32_MAX: larger (4294967295: all of a context) */
	uint16_t track[TRACE_BLOCK_ROWS];      /* id of struct trace_track */
	uint8_t cat[TRACE_BLOCK_ROWS];         /* enum trace_cat */
	uint8_t flags[TRACE_BLOCK_ROWS];       /* enum trace_flag */
};

/* Where an event lies: its pid and tid, which may be numbers or texts. */
struct trace_track {
	uint32_t pid_text, tid_text; /* as written, quotes off */
	int64_t pid, tid; /* as numbers; TRACE_NONE where they are none ("stream 7": 7 and
			     tid_is_stream) */
	bool tid_is_stream;
	uint32_t name, process_name, process_labels; /* by metadata events; text ids, 0 none */
	int64_t sort_index;                          /* of the thread; TRACE_NONE none */
};

/* Arguments of a row but for those that are columns. Interned: many rows share one.
 * NaN, TRACE_NONE or text 0 where there is none. */
struct trace_args {
	int32_t device, context; /* args.device, .context */
	int32_t grid[3], block[3];
	int32_t registers, shared_memory;              /* "registers per thread"; bytes */
	double blocks_per_sm, warps_per_sm, occupancy; /* occupancy in percent, as written */
	int64_t bytes;                                 /* memcpy, memset */
	double bandwidth;                              /* "memory bandwidth (GB/s)" as written */
	int32_t wait_on_stream;                        /* cuda_sync */
	int64_t wait_on_record, wait_on_event;   /* "wait_on_cuda_event_record_corr_id", "..._id" */
	uint32_t dims, types, strides, concrete; /* JSON texts: "Input Dims", "Input type", ... */
	uint32_t stack;                          /* "Call stack" (frames parted by ';') */
	uint32_t kernel_backend, kernel_file;    /* Triton: "kernel_backend", "kernel_file" */
	int64_t python_id, python_parent, python_module; /* of python_function */
	int64_t sequence, forward_thread;                /* "Sequence number", "Fwd thread id" */
	int64_t flops;
	/* Collectives: */
	uint32_t collective, group_name, group_description, collective_dtype; /* texts */
	int64_t in_elements, out_elements, group_size, comms_id;
};

/* One "[memory]" instant. */
struct trace_memory {
	int64_t ts, bytes; /* bytes: below 0 is a release */
	uint64_t address;
	int64_t allocated, reserved; /* "Total Allocated", "Total Reserved"; TRACE_NONE */
	int32_t device_type, device; /* 0 CPU, 1 CUDA, ...; id, TRACE_NONE */
	uint16_t track;
};

struct trace_device {
	int64_t id;
	uint32_t name;    /* text */
	int64_t memory;   /* bytes, totalGlobalMem */
	int major, minor; /* compute capability */
	int sms, warp_size;
	int64_t threads_per_block, threads_per_sm, registers_per_block, shared_per_block;
};

/* What was not as it should be: counted, with the first place. The list of kinds with what is
 * done about each is trace_note_rows[] (docs/traces.md shows it). */
struct trace_note {
	uint32_t kind; /* index in trace_note_rows */
	uint64_t count;
	uint64_t offset; /* byte in the JSON where it was first */
	char text[200];  /* about the first: what was found, what was expected */
};
struct trace_note_row {
	const char *name;           /* "unescaped-quote" */
	const char *meaning, *done; /* sentences */
};
extern const struct trace_note_row trace_note_rows[]; /* ended by name NULL */

struct trace_meta {
	int64_t base_ns;                  /* baseTimeNanoseconds; 0: ts are since 1970 or unknown */
	int64_t rank, world_size;         /* TRACE_NONE unknown */
	const char *rank_from;            /* "distributedInfo", "file name", ...; "" unknown */
	uint32_t backend, trace_id, host; /* texts; 0 none */
	int64_t schema;
	bool record_shapes, with_stack, profile_memory, with_flops,
		with_modules;                     /* 1 in the file */
	int64_t cuda_driver, cuda_runtime, cupti; /* versions; TRACE_NONE */
	bool has_object;                          /* false: a bare array at the top */
	bool is_complete;                         /* the closing bracket was there */
};

struct trace; /* trace_read() makes it */

/* ---- reading --------------------------------------------------------------------- */

struct trace_progress {
	/* Called every ~100 ms: bytes of input so far, of how many (0 unknown), rows. Returns
	 * true to stop: trace_read() is then -EINTR. May be NULL. */
	bool (*fn)(void *arg, uint64_t bytes, uint64_t of, uint64_t rows);
	void *arg;
};

struct trace_options {
	uint64_t memory;       /* bytes for this trace; 0: 1 GiB; some 20 MiB in any case */
	const char *temporary; /* folder of the spill file; NULL: $TMPDIR, else /var/tmp */
	bool only_columns;     /* leave dims, stacks and the like out, not what names a
				  collective: less memory, faster */
	bool only_links;       /* of arguments that are numbers only correlation, stream, bytes and
				  bandwidth, and no "[memory]" instants: all that tables of
				  devices need */
	struct trace_progress progress;
};

/* Read PATH ("-" is stdin; .gz, .zst by content). What is wrong inside becomes notes;
 * only what leaves nothing to read is an error: -ENOENT and the like, -EBADMSG (no
 * trace: what was found at which byte, what was expected), -ENOMEM, -ENOSPC, -EINTR. */
int trace_read(const char *path, const struct trace_options *o, struct trace **ret, struct err *e);
/* The same from memory (JSON, not compressed), for tests and fuzzing. */
int trace_read_bytes(const void *text, size_t len, const struct trace_options *o,
		     struct trace **ret, struct err *e);
void trace_free(struct trace *t);

/* ---- looking ----------------------------------------------------------------------- */

uint64_t trace_rows(const struct trace *t);
const char *trace_path(const struct trace *t);
const struct trace_meta *trace_meta(const struct trace *t);

/* Block k, resident until the next call of trace_block() with another k (or longer). NULL: there
 * is none, or it cannot be read back from the temporary file. Unpacking one takes about a
 * millisecond: go over rows in order. */
const struct trace_block *trace_block(struct trace *t, uint32_t k);
/* Rows of block k. */
uint32_t trace_block_rows(const struct trace *t, uint32_t k);

/* Text of an id ("" for 0 and unknown ids); *ret_len may be NULL. Ends in NUL, may hold
 * others. */
const char *trace_text(const struct trace *t, uint32_t id, size_t *ret_len);
uint32_t trace_texts(const struct trace *t); /* ids are below this */
/* The id of a text; 0 if the trace has no such. */
uint32_t trace_find(const struct trace *t, const char *text);

/* Never NULL; stays as it is for 64 calls with other ids. */
const struct trace_args *trace_args(const struct trace *t, uint32_t id);
const struct trace_track *trace_track(const struct trace *t, uint16_t id);
uint32_t trace_tracks(const struct trace *t);
const struct trace_device *trace_devices(const struct trace *t, size_t *ret_n);
uint64_t trace_memories(const struct trace *t); /* how many "[memory]" instants */
/* Instant i, in the file's order, until the next call. NULL: there is none, or it cannot be read
 * back from the temporary file. Go over them in order. */
const struct trace_memory *trace_memory_at(const struct trace *t, uint64_t i);
const struct trace_note *trace_notes(const struct trace *t, size_t *ret_n);

/* Counts of events of the file by phase letter (all of them, not only rows), and of rows by
 * category. cat_text: name of a category as the file wrote it first. */
uint64_t trace_phase_count(const struct trace *t, char phase);
uint64_t trace_cat_count(const struct trace *t, enum trace_cat cat);
uint64_t trace_broken(const struct trace *t);    /* rows with TRACE_BROKEN */
bool trace_has_fractions(const struct trace *t); /* has any row TRACE_TS_FRACTION? */
/* Has any row an operator's shapes ("Input Dims"), a recorded stack? */
bool trace_has_dims(const struct trace *t);
bool trace_has_stacks(const struct trace *t);
const char *trace_cat_name(enum trace_cat cat); /* today's name */

/* Bytes: of the JSON, resident at the peak, spilled. */
void trace_sizes(const struct trace *t, uint64_t *json, uint64_t *resident, uint64_t *spilled);

#endif

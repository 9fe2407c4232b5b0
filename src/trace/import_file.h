/* SPDX-License-Identifier: Apache-2.0
 *
 * import_file.h - a file of another tool: which kind it is, by content, and its bytes.
 */
#ifndef TRACE_IMPORT_FILE_H
#define TRACE_IMPORT_FILE_H

#include "base/buf.h"
#include "base/err.h"

enum import_kind {
	IMPORT_FILE_UNKNOWN,
	IMPORT_FILE_TRACE,       /* Chrome or Kineto JSON: trace_read() */
	IMPORT_FILE_COLLAPSED,   /* stacks.txt, py-spy raw: import_folded() */
	IMPORT_FILE_SPEEDSCOPE,  /* import_folded() */
	IMPORT_FILE_PSTATS,      /* cProfile: import_pstats() */
	IMPORT_FILE_SMI,         /* nvidia-smi CSV: import_smi() */
	IMPORT_FILE_SNAPSHOT,    /* CUDA memory snapshot: import_snapshot() */
	IMPORT_FILE_TRACEMALLOC, /* import_tracemalloc() */
	IMPORT_FILE_TIMELINE,    /* PyTorch memory timeline, .raw.json(.gz): import_timeline() */
	IMPORT_FILE_HTML,        /* memory_timeline.html: a picture, no data in it */
	IMPORT_FILE_MPROF,       /* memory_profiler's mprof: import_mprof() */
	IMPORT_FILE_SQLITE,      /* nsys export: import_nsys() */
	IMPORT_FILE_KINDS
};

/* "trace", "collapsed stacks", ... */
const char *import_kind_name(enum import_kind kind);
/* What to do about a kind that has no importer; NULL for the others. */
const char *import_kind_advice(enum import_kind kind);

/* The word that stands for a kind in options, "pstats"; of a kind without importer NULL. */
const char *import_kind_key(enum import_kind kind);
/* The kind of a word; IMPORT_FILE_UNKNOWN: none. */
enum import_kind import_kind_of(const char *key);

/* By the first bytes; len may be a part of the file. */
enum import_kind import_detect(const void *data, size_t len);

/* The whole file, decompressed (gzip, zstd by content; "-" is stdin), at most
 * IMPORT_FILE_MAX bytes. ret is made here, the caller calls buf_done(). 0, -EFBIG, -EBADMSG
 * (damaged), what reading said. */
int import_load(const char *path, struct buf *ret, struct err *e);

#endif

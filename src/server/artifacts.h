/* SPDX-License-Identifier: Apache-2.0
 *
 * artifacts.h - files of a run besides its store: those that it lists (events "artifact")
 * and those that lie in its folder; what they are, and opening one by its name.
 */
#ifndef SERVER_ARTIFACTS_H
#define SERVER_ARTIFACTS_H

#include "base/err.h"
#include "report/runview.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define ARTIFACTS_MAX 2000u
#define ARTIFACTS_DEEP 4

enum artifacts_kind {
	ARTIFACTS_TRACE,
	ARTIFACTS_PROFILE,
	ARTIFACTS_FLAMEGRAPH,
	ARTIFACTS_CSV,
	ARTIFACTS_REPORT,
	ARTIFACTS_LOG,
	ARTIFACTS_OTHER,
	ARTIFACTS_KINDS
};
const char *artifacts_kind_name(enum artifacts_kind kind);
/* By the end of a file's name, and words in it. */
enum artifacts_kind artifacts_kind_of(const char *name);
/* Rank and steps, where a name says them ("rank_3", "steps_10-12"); -1: it does not. */
void artifacts_parse(const char *name, int64_t *rank, int64_t *first, int64_t *last);

struct artifacts_one {
	char *name; /* for the routes: below the run's folder, or "@HASH/FILE" */
	char *path; /* of what lies elsewhere; NULL: in the folder */
	enum artifacts_kind kind;
	uint64_t bytes;
	int64_t mtime_ns;                    /* 0: it is not there */
	int64_t rank, step_first, step_last; /* -1 not known */
	bool is_listed;                      /* by an event */
	const char *why;                     /* it is not given; NULL: it is */
};

struct artifacts {
	struct artifacts_one *list; /* the newest first */
	size_t n, cap;
	bool is_cut; /* there are more than ARTIFACTS_MAX */
};

/* 0, or -errno and *e. */
int artifacts_read(struct artifacts *a, const struct runview *v, struct err *e);
void artifacts_done(struct artifacts *a);

/* Open the artifact of this name (docs/http.md, "artifacts") for reading; folders: one may be
 * one. Its path into out: relative to the run's folder, or absolute of what lies elsewhere. The
 * descriptor; -ENOENT: there is none, or it is not given. */
int artifacts_open(const struct runview *v, const char *name, bool folders, char *out, size_t cap,
		   struct stat *st);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch.h - gets the texts of targets, all of them at the same time: one that does not
 * answer keeps no other waiting. By libcurl, files without it.
 */
#ifndef PROBE_SCRAPE_FETCH_H
#define PROBE_SCRAPE_FETCH_H

#include "base/err.h"
#include "probe/scrape/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FETCH_BODY_MAX (16u << 20) /* bytes of an answer, unpacked */

struct fetch;

struct fetch_answer {
	size_t target;    /* as given to fetch_begin() */
	const char *why;  /* NULL: it came; else why not, in words */
	const char *text; /* not ended by NUL; of the fetcher, until the call returns */
	size_t len;
	bool openmetrics;
	int64_t took_ns;
};

/* For n targets, which the caller keeps. NULL: no memory. */
struct fetch *fetch_new(const struct scrape_target *targets, size_t n);
void fetch_free(struct fetch *f);

/* Ask a target; nothing if it is being asked. */
void fetch_begin(struct fetch *f, size_t target);

/* Go on with all that are being asked for at most wait_ms, or until all are done. For each that
 * has ended done is called. */
void fetch_step(struct fetch *f, int wait_ms, void (*done)(void *arg, const struct fetch_answer *a),
		void *arg);

#endif

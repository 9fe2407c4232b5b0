/* SPDX-License-Identifier: Apache-2.0
 *
 * target.h - where figures of other programs are scraped from, and how they are told
 * in the run file: a line for each, KEY=VALUE parted by tabs.
 */
#ifndef PROBE_SCRAPE_TARGET_H
#define PROBE_SCRAPE_TARGET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TARGET_MAX 64 /* of a run */
#define TARGET_INTERVAL_NS 10000000000
#define TARGET_INTERVAL_MIN_NS 1000000000
#define TARGET_TIMEOUT_NS 5000000000
#define TARGET_NAME_MAX 96 /* bytes of the label `target`, NUL included */

struct scrape_preset;

/* Words of a list, ended by NULL. NULL: none. */
struct scrape_target {
	char *url;                          /* http(s)://..., unix:///SOCKET:/PATH, file:///... */
	char *name;                         /* the label `target`: HOST:PORT if not said */
	const struct scrape_preset *preset; /* never NULL (preset.h) */
	int64_t interval_ns, timeout_ns;
	char **keep, **drop;      /* patterns of names as they are exposed; no keep: all */
	char **drop_labels;       /* names of labels */
	bool buckets;             /* histograms' buckets too */
	char *token, *token_file; /* Authorization: Bearer; NULL none */
	char *ca_file;            /* who signs https certificates; NULL the system's */
	bool insecure;            /* do not check them */
	unsigned number;          /* among those of its preset, from 0 */
};

struct scrape_targets {
	struct scrape_target *t;
	size_t n, cap;
};

/* Keys: url, preset, name, interval and timeout (durations), keep, drop, drop_labels (commas
 * between), buckets, verify (true, false), token, token_file, ca_file. Without a preset url
 * may be PRESET=URL; http://, the preset's port and /metrics may be left out. Adds one and
 * returns 0; -EINVAL and *e says what is wrong, in words that can stand behind the url. */
int target_add(struct scrape_targets *list, const char *line, size_t len, struct err *e);

/* All lines of a text; those that are wrong (a newer launcher's) are left out. */
void target_add_all(struct scrape_targets *list, const char *text);

/* A copy of all of n targets; of its own memory. */
void target_copy(struct scrape_targets *to, const struct scrape_target *from, size_t n);

void target_done(struct scrape_targets *list);

#endif

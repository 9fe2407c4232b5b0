/* SPDX-License-Identifier: Apache-2.0
 *
 * index_bytes.c - a run of the index as bytes and back: numbers as varints, strings
 * with their length before them, in the order of one table.
 */
#include "store/index.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_TEXT_MAX (1u << 20) /* bytes of a string */

enum index_type {
	INDEX_TEXT, /* char *, owned */
	INDEX_U64,
	INDEX_I64,
	INDEX_INT,
	INDEX_BOOL,
	INDEX_F64
};

struct index_field {
	enum index_type type;
	size_t offset;
};

#define INDEX_RUN(type, member)                                                                    \
	{                                                                                          \
		type, offsetof(struct index_run, member)                                           \
	}
#define INDEX_METRIC(type, member)                                                                 \
	{                                                                                          \
		type, offsetof(struct index_metric, member)                                        \
	}

/* The id comes first: it is looked for without the rest. */
static const struct index_field index_run_fields[] = {
	INDEX_RUN(INDEX_TEXT, id),          INDEX_RUN(INDEX_U64, key),
	INDEX_RUN(INDEX_U64, dir_key),      INDEX_RUN(INDEX_TEXT, files),
	INDEX_RUN(INDEX_TEXT, error),       INDEX_RUN(INDEX_TEXT, warning),
	INDEX_RUN(INDEX_TEXT, run.id),      INDEX_RUN(INDEX_TEXT, run.name),
	INDEX_RUN(INDEX_TEXT, run.project), INDEX_RUN(INDEX_TEXT, run.command),
	INDEX_RUN(INDEX_TEXT, run.cwd),     INDEX_RUN(INDEX_TEXT, run.user),
	INDEX_RUN(INDEX_TEXT, run.tags),    INDEX_RUN(INDEX_TEXT, run.notes),
	INDEX_RUN(INDEX_TEXT, run.hosts),   INDEX_RUN(INDEX_TEXT, run.evidence),
	INDEX_RUN(INDEX_I64, run.start_ns), INDEX_RUN(INDEX_I64, run.end_ns),
	INDEX_RUN(INDEX_INT, run.outcome),  INDEX_RUN(INDEX_INT, run.code),
	INDEX_RUN(INDEX_INT, run.signal),   INDEX_RUN(INDEX_INT, run.core),
	INDEX_RUN(INDEX_F64, run.user_s),   INDEX_RUN(INDEX_F64, run.system_s),
	INDEX_RUN(INDEX_I64, run.max_rss),  INDEX_RUN(INDEX_U64, bytes),
	INDEX_RUN(INDEX_I64, step),         INDEX_RUN(INDEX_BOOL, partial),
};

static const struct index_field index_metric_fields[] = {
	INDEX_METRIC(INDEX_TEXT, name), INDEX_METRIC(INDEX_TEXT, unit),
	INDEX_METRIC(INDEX_INT, kind),  INDEX_METRIC(INDEX_U64, count),
	INDEX_METRIC(INDEX_F64, last),  INDEX_METRIC(INDEX_F64, min),
	INDEX_METRIC(INDEX_F64, max),   INDEX_METRIC(INDEX_F64, sum),
	INDEX_METRIC(INDEX_I64, step),
};

_Static_assert(sizeof(enum run_outcome_kind) == sizeof(int), "an enum is read as an int");
_Static_assert(sizeof(enum sink_kind) == sizeof(int), "an enum is read as an int");

/* NULL is told from "". */
static void index_put_text(struct buf *b, const char *s)
{
	size_t len = s ? strlen(s) : 0;

	if (len > INDEX_TEXT_MAX)
		len = INDEX_TEXT_MAX;
	buf_uvarint(b, s ? len + 1 : 0);
	buf_append(b, s ? s : "", len);
}

static void index_write(struct buf *b, const struct index_field *fields, size_t n, const void *from)
{
	size_t i;

	for (i = 0; i < n; i++) {
		const void *at = (const char *)from + fields[i].offset;

		switch (fields[i].type) {
		case INDEX_TEXT:
			index_put_text(b, *(char *const *)at);
			break;
		case INDEX_U64:
			buf_uvarint(b, *(const uint64_t *)at);
			break;
		case INDEX_I64:
			buf_svarint(b, *(const int64_t *)at);
			break;
		case INDEX_INT:
			buf_svarint(b, *(const int *)at);
			break;
		case INDEX_BOOL:
			buf_uvarint(b, *(const bool *)at);
			break;
		case INDEX_F64:
			buf_append(b, at, 8);
			break;
		}
	}
}

void index_encode(struct buf *b, const struct index_run *r)
{
	size_t i, n = r->n_metrics < INDEX_METRICS_MAX ? r->n_metrics : INDEX_METRICS_MAX;

	index_write(b, index_run_fields, ARRAY_LEN(index_run_fields), r);
	buf_uvarint(b, n);
	for (i = 0; i < n; i++)
		index_write(b, index_metric_fields, ARRAY_LEN(index_metric_fields), &r->metrics[i]);
}

/* ---- back ------------------------------------------------------------------------- */

static char *index_get_text(struct cur *c)
{
	uint64_t len = cur_uvarint(c);
	const char *p;

	if (c->error || len == 0)
		return NULL;
	p = cur_bytes(c, len - 1 > INDEX_TEXT_MAX ? SIZE_MAX / 2 : (size_t)len - 1);
	return p ? xstrndup(p, (size_t)len - 1) : NULL;
}

static void index_take(struct cur *c, const struct index_field *fields, size_t n, void *to)
{
	const void *p;
	size_t i;

	for (i = 0; i < n && !c->error; i++) {
		void *at = (char *)to + fields[i].offset;

		switch (fields[i].type) {
		case INDEX_TEXT:
			*(char **)at = index_get_text(c);
			break;
		case INDEX_U64:
			*(uint64_t *)at = cur_uvarint(c);
			break;
		case INDEX_I64:
			*(int64_t *)at = cur_svarint(c);
			break;
		case INDEX_INT:
			*(int *)at = (int)cur_svarint(c);
			break;
		case INDEX_BOOL:
			*(bool *)at = cur_uvarint(c) != 0;
			break;
		case INDEX_F64:
			p = cur_bytes(c, 8);
			if (p)
				memcpy(at, p, 8);
			break;
		}
	}
}

/* Strings that must be there, and numbers in range. */
static bool index_is_sane(const struct index_run *r)
{
	const char *const texts[] = {r->id,          r->files,       r->warning,     r->run.id,
				     r->run.name,    r->run.project, r->run.command, r->run.cwd,
				     r->run.user,    r->run.tags,    r->run.notes,   r->run.hosts,
				     r->run.evidence};
	size_t i;

	for (i = 0; i < ARRAY_LEN(texts); i++)
		if (!texts[i])
			return false;
	for (i = 0; i < r->n_metrics; i++) {
		const struct index_metric *m = &r->metrics[i];

		if (!m->name || !m->unit || (int)m->kind < SINK_GAUGE || m->kind > SINK_SPAN)
			return false;
	}
	return (int)r->run.outcome >= RUN_RUNNING && r->run.outcome <= RUN_LOST;
}

int index_decode(const void *data, size_t len, struct index_run *ret)
{
	struct cur c = {.p = data, .end = (const unsigned char *)data + len};
	struct index_run r = {0};
	uint64_t n;

	index_take(&c, index_run_fields, ARRAY_LEN(index_run_fields), &r);
	n = cur_uvarint(&c);
	if (c.error || n > INDEX_METRICS_MAX) {
		index_run_done(&r);
		return -EUCLEAN;
	}
	r.metrics = xcalloc((size_t)n, sizeof(*r.metrics));
	while (r.n_metrics < n && !c.error)
		index_take(&c, index_metric_fields, ARRAY_LEN(index_metric_fields),
			   &r.metrics[r.n_metrics++]);
	if (c.error || c.p != c.end || !index_is_sane(&r)) {
		index_run_done(&r);
		return -EUCLEAN;
	}
	r.run.stderr_tail = "";
	*ret = r;
	return 0;
}

void index_run_done(struct index_run *r)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(index_run_fields); i++)
		if (index_run_fields[i].type == INDEX_TEXT)
			free(*(char **)((char *)r + index_run_fields[i].offset));
	for (i = 0; i < r->n_metrics; i++) {
		free(r->metrics[i].name);
		free(r->metrics[i].unit);
	}
	free(r->metrics);
	*r = (struct index_run){0};
}

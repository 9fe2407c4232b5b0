/* SPDX-License-Identifier: Apache-2.0
 *
 * repair.h - a broken trace file into one that every JSON reader takes: events that are well
 * formed are copied byte for byte, those that are not are mended or left out, and each kind
 * of mend is told with its first place.
 */
#ifndef TRACE_REPAIR_H
#define TRACE_REPAIR_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum repair_kind {
	REPAIR_QUOTE,       /* a quote within a text got its backslash */
	REPAIR_CONTROL,     /* a raw control character became an escape */
	REPAIR_UTF8,        /* bytes that are no UTF-8 became U+FFFD */
	REPAIR_ESCAPE,      /* a backslash before no escape became two */
	REPAIR_WORD,        /* NaN, N/A and other bare words became texts */
	REPAIR_COMMA,       /* a comma too many was left out, a missing one added */
	REPAIR_MISSING,     /* a value that is not there became null */
	REPAIR_LOST,        /* an event could not be mended: left out */
	REPAIR_BETWEEN,     /* text between events that is no event: left out */
	REPAIR_MEMBER,      /* a member of the top object could not be mended: left out */
	REPAIR_TRUNCATED,   /* the text ends early: closed behind the last whole event */
	REPAIR_COMPRESSION, /* the compressed data ends early or is damaged */
	REPAIR_BOM,         /* a byte order mark was left out */
	REPAIR_TRAILING,    /* text behind the end was left out */
	REPAIR_KINDS
};

struct repair_row {
	const char *name;    /* "quote" */
	const char *meaning; /* a sentence */
	bool loses;          /* something of the file is gone */
};
extern const struct repair_row repair_rows[REPAIR_KINDS];

struct repair_mend {
	uint64_t count;
	uint64_t offset; /* of the first, byte in the JSON */
	char text[120];  /* what stood there, printable */
};

struct repair_result {
	struct repair_mend mends[REPAIR_KINDS];
	uint64_t events, mended, lost; /* events copied as they were; rewritten; left out */
	uint64_t bytes_in, bytes_out;  /* of JSON */
};

#define REPAIR_EVENT_MAX (64u << 20) /* bytes of one event or member; a longer one is lost */
#define REPAIR_DEPTH_MAX 64          /* arrays and objects within an event */

/* Copy IN ("-" stdin; gz and zst by content) to OUT ("-" stdout; .gz, .zst compress). OUT may
 * be IN: it is replaced at the end. 0; -EBADMSG: no events' array in it; what reading and
 * writing said. */
int repair_file(const char *in, const char *out, struct repair_result *ret, struct err *e);

/* Call fn with each event of IN, one after the other, until it returns false: well-formed JSON of
 * len bytes, mended where it had to be; NULL for one that is lost. As repair_file(), nothing is
 * written. */
int repair_each(const char *in, bool (*fn)(void *arg, const void *event, size_t len), void *arg,
		struct err *e);

/* Is [p, p + len) strict JSON (UTF-8, escapes, numbers, depth), blanks around it allowed? */
bool repair_is_json(const void *p, size_t len);

/* Rewrite one value that is not strict JSON as one that is, into *out (emptied first). offset
 * is its place, for the mends. false: it cannot be mended; *out holds rubbish. */
bool repair_value(const void *p, size_t len, uint64_t offset, struct buf *out,
		  struct repair_result *r);

#endif

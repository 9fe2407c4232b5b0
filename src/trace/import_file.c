/* SPDX-License-Identifier: Apache-2.0
 *
 * import_file.c - kinds of foreign files by what they begin with.
 */
#include "trace/import_file.h"

#include "trace/import_folded.h"
#include "trace/source.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const struct {
	const char *key, *name, *advice;
} kinds[IMPORT_FILE_KINDS] = {
	[IMPORT_FILE_UNKNOWN] = {NULL, "unknown",
				 "Give stacks, a cProfile file, nvidia-smi's CSV, a memory "
				 "snapshot, or an SQLite export of nsys."},
	[IMPORT_FILE_TRACE] = {"trace", "trace", NULL},
	[IMPORT_FILE_COLLAPSED] = {"collapsed", "collapsed stacks", NULL},
	[IMPORT_FILE_SPEEDSCOPE] = {"speedscope", "speedscope", NULL},
	[IMPORT_FILE_PSTATS] = {"pstats", "cProfile statistics", NULL},
	[IMPORT_FILE_SMI] = {"smi", "nvidia-smi CSV", NULL},
	[IMPORT_FILE_SNAPSHOT] = {"snapshot", "CUDA memory snapshot", NULL},
	[IMPORT_FILE_TRACEMALLOC] = {"tracemalloc", "tracemalloc snapshot", NULL},
	[IMPORT_FILE_TIMELINE] = {"timeline", "memory timeline", NULL},
	[IMPORT_FILE_HTML] = {NULL, "HTML page",
			      "A memory timeline as a page is a picture: export it as "
			      "memory_timeline.raw.json.gz."},
	[IMPORT_FILE_MPROF] = {"mprof", "memory_profiler", NULL},
	[IMPORT_FILE_SQLITE] = {"nsys", "nsys SQLite export", NULL},
};

const char *import_kind_name(enum import_kind kind)
{
	return kinds[(unsigned)kind < IMPORT_FILE_KINDS ? kind : 0].name;
}

const char *import_kind_advice(enum import_kind kind)
{
	return kinds[(unsigned)kind < IMPORT_FILE_KINDS ? kind : 0].advice;
}

const char *import_kind_key(enum import_kind kind)
{
	return kinds[(unsigned)kind < IMPORT_FILE_KINDS ? kind : 0].key;
}

enum import_kind import_kind_of(const char *key)
{
	for (unsigned k = 0; k < IMPORT_FILE_KINDS; k++)
		if (kinds[k].key && !strcmp(kinds[k].key, key))
			return (enum import_kind)k;
	return IMPORT_FILE_UNKNOWN;
}

static bool has(const char *p, size_t len, const char *word)
{
	return memmem(p, len, word, strlen(word)) != NULL;
}

static bool begins(const char *p, size_t len, const char *word)
{
	return len >= strlen(word) && !memcmp(p, word, strlen(word));
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static enum import_kind of_json(const char *p, size_t len)
{
	size_t i = 1;

	while (i < len && is_blank(p[i]))
		i++;
	if (p[0] == '[')
		return i < len && p[i] == '[' ? IMPORT_FILE_TIMELINE : IMPORT_FILE_TRACE;
	if (has(p, len, "speedscope") || (has(p, len, "\"profiles\"") && has(p, len, "\"frames\"")))
		return IMPORT_FILE_SPEEDSCOPE;
	return IMPORT_FILE_TRACE;
}

static enum import_kind of_pickle(const char *p, size_t len)
{
	if (has(p, len, "tracemalloc"))
		return IMPORT_FILE_TRACEMALLOC;
	return has(p, len, "segments") || has(p, len, "total_size") ? IMPORT_FILE_SNAPSHOT
								    : IMPORT_FILE_UNKNOWN;
}

static bool ends_in_number(const char *p, size_t n)
{
	while (n && is_blank(p[n - 1]))
		n--;
	return n > 2 && p[n - 1] >= '0' && p[n - 1] <= '9' && memrchr(p, ' ', n);
}

/* The first line ends in a number: collapsed; it has commas and a known column: CSV. */
static enum import_kind of_text(const char *p, size_t len)
{
	const char *stop = memchr(p, '\n', len);
	size_t n = stop ? (size_t)(stop - p) : len;

	if (begins(p, n, "MEM ") || begins(p, n, "FUNC ") || begins(p, n, "CMDLINE "))
		return IMPORT_FILE_MPROF;
	if (has(p, n, "timestamp") || has(p, n, "utilization.") || has(p, n, "memory.used"))
		return has(p, n, ",") || has(p, n, "[") ? IMPORT_FILE_SMI : IMPORT_FILE_UNKNOWN;
	return ends_in_number(p, n) ? IMPORT_FILE_COLLAPSED : IMPORT_FILE_UNKNOWN;
}

enum import_kind import_detect(const void *data, size_t len)
{
	const char *p = data;
	unsigned char first, second;

	if (len > 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
		p += 3;
		len -= 3;
	}
	if (len >= 15 && !memcmp(p, "SQLite format 3", 15))
		return IMPORT_FILE_SQLITE;
	while (len && is_blank(*p)) {
		p++;
		len--;
	}
	if (len < 2)
		return IMPORT_FILE_UNKNOWN;
	first = (unsigned char)p[0];
	second = (unsigned char)p[1];
	if (first == 0x80 && second >= 2 && second <= 5)
		return of_pickle(p, len);
	/* marshal: a dict whose first key is a tuple. */
	if (first == 0xfb || (first == '{' && ((second & 0x7f) == ')' || (second & 0x7f) == '(')))
		return IMPORT_FILE_PSTATS;
	if (first == '{' || first == '[')
		return of_json(p, len);
	if (first == '<')
		return has(p, len, "<html") || has(p, len, "<HTML") ? IMPORT_FILE_HTML
								    : of_text(p, len);
	return of_text(p, len);
}

int import_load(const char *path, struct buf *ret, struct err *e)
{
	struct source *s;
	struct buf b;
	size_t got = 1;
	int rc = source_open(path, &s, e);

	if (rc)
		return rc;
	buf_init(&b, IMPORT_FILE_MAX);
	while (!rc && got) {
		char *p = buf_reserve(&b, 1u << 20);

		do { /* -EAGAIN: nothing came for a while */
			rc = p ? source_read(s, p, 1u << 20, &got) : b.error;
		} while (rc == -EAGAIN);
		if (!rc)
			b.len += got;
	}
	if (!rc && source_damage(s))
		rc = err_set(e, -EBADMSG, "%s: %s", path, source_damage(s));
	source_close(s);
	if (rc) {
		buf_done(&b);
		return rc == -EFBIG
			       ? err_set(e, rc,
					 "%s is larger than %u MiB, the most that import reads",
					 path, IMPORT_FILE_MAX >> 20)
			       : err_errno(e, rc, "%s cannot be read", path);
	}
	*ret = b;
	return 0;
}

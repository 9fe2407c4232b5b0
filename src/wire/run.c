/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h. Each file is one table of keys; one writer and one
 * reader walk the table, so a new key is a new row. libc only, no allocation.
 */
#include "wire/run.h"

#include <errno.h>
#include <stdbool.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum run_type {
	RUN_TEXT,  /* char[size], ends in NUL */
	RUN_MAYBE, /* the same, if the bool at `len` says that it is there */
	RUN_BYTES, /* char[size], its length in the size_t at `len` */
	RUN_I64,
	RUN_U64,
	RUN_INT,
	RUN_SECONDS, /* double >= 0, kept to the microsecond; NaN is "unknown" */
	RUN_KIND
};

struct run_field {
	const char *key;
	enum run_type type;
	size_t offset, size;
	size_t len; /* RUN_BYTES: offset of the length; RUN_MAYBE: of the bool */
};

#define RUN_FIELD(type_, s, member)                                                                \
	{                                                                                          \
		.key = #member, .type = (type_), .offset = offsetof(struct s, member),             \
		.size = sizeof(((struct s *)0)->member)                                            \
	}

static const struct run_field run_start_fields[] = {
	RUN_FIELD(RUN_TEXT, run_start, id),
	RUN_FIELD(RUN_TEXT, run_start, dir),
	RUN_FIELD(RUN_TEXT, run_start, name),
	RUN_FIELD(RUN_TEXT, run_start, project),
	RUN_FIELD(RUN_TEXT, run_start, command),
	RUN_FIELD(RUN_TEXT, run_start, cwd),
	RUN_FIELD(RUN_TEXT, run_start, host),
	RUN_FIELD(RUN_TEXT, run_start, user),
	RUN_FIELD(RUN_TEXT, run_start, tags),
	RUN_FIELD(RUN_TEXT, run_start, notes),
	RUN_FIELD(RUN_I64, run_start, launcher_pid),
	RUN_FIELD(RUN_U64, run_start, launcher_start),
	RUN_FIELD(RUN_I64, run_start, child_pid),
	RUN_FIELD(RUN_U64, run_start, child_start),
	RUN_FIELD(RUN_I64, run_start, start_ns),
	RUN_FIELD(RUN_I64, run_start, start_boot_ns),
	RUN_FIELD(RUN_I64, run_start, stall_after_ms),
	RUN_FIELD(RUN_TEXT, run_start, exports),
	RUN_FIELD(RUN_TEXT, run_start, scrape),
	RUN_FIELD(RUN_TEXT, run_start, alerts),
	{.key = NULL},
};

static const struct run_field run_outcome_fields[] = {
	RUN_FIELD(RUN_TEXT, run_outcome, id),
	RUN_FIELD(RUN_KIND, run_outcome, kind),
	RUN_FIELD(RUN_INT, run_outcome, code),
	RUN_FIELD(RUN_INT, run_outcome, signal),
	RUN_FIELD(RUN_INT, run_outcome, core),
	RUN_FIELD(RUN_I64, run_outcome, end_ns),
	RUN_FIELD(RUN_SECONDS, run_outcome, user_s),
	RUN_FIELD(RUN_SECONDS, run_outcome, system_s),
	RUN_FIELD(RUN_I64, run_outcome, max_rss),
	RUN_FIELD(RUN_TEXT, run_outcome, evidence),
	{.key = "stderr_tail",
	 .type = RUN_BYTES,
	 .offset = offsetof(struct run_outcome, stderr_tail),
	 .size = sizeof(((struct run_outcome *)0)->stderr_tail),
	 .len = offsetof(struct run_outcome, stderr_len)},
	{.key = NULL},
};

#define RUN_EDIT_FIELD(member)                                                                     \
	{                                                                                          \
		.key = #member, .type = RUN_MAYBE, .offset = offsetof(struct run_edit, member),    \
		.size = sizeof(((struct run_edit *)0)->member),                                    \
		.len = offsetof(struct run_edit, has_##member)                                     \
	}

static const struct run_field run_edit_fields[] = {
	RUN_EDIT_FIELD(name),  RUN_EDIT_FIELD(project), RUN_EDIT_FIELD(tags),
	RUN_EDIT_FIELD(notes), {.key = NULL},
};

static const char run_start_magic[] = "lapse-run 1";
static const char run_outcome_magic[] = "lapse-outcome 1";
static const char run_edit_magic[] = "lapse-edit 1";

static const char *const run_kind_names[RUN_KINDS] = {
	[RUN_RUNNING] = "running",   [RUN_EXITED] = "exited", [RUN_SIGNALED] = "signaled",
	[RUN_OOM] = "oom",           [RUN_HUNG] = "hung",     [RUN_LOST] = "lost",
	[RUN_DETACHED] = "detached",
};

const char *run_outcome_name(enum run_outcome_kind kind)
{
	return (size_t)kind < RUN_KINDS ? run_kind_names[kind] : "unknown";
}

/* ---- writing ------------------------------------------------------------ */

struct run_out {
	char *p, *end;
	bool full;
};

static void run_put(struct run_out *o, const char *data, size_t len)
{
	if (o->full || len > (size_t)(o->end - o->p)) {
		o->full = true;
		return;
	}
	memcpy(o->p, data, len);
	o->p += len;
}

static void run_put_escaped(struct run_out *o, const char *data, size_t len)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t i;

	for (i = 0; i < len && !o->full; i++) {
		unsigned char c = (unsigned char)data[i];

		if (c >= 0x20 && c != 0x7f && c != '%')
			run_put(o, data + i, 1);
		else
			run_put(o, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
	}
}

static const char run_unknown[] = "unknown";

/* Doubles without printf's "%f": a program may have set a locale with commas. */
static int run_seconds_text(double v, char *out, size_t cap)
{
	uint64_t us = v > 0 && v < 1e12 ? (uint64_t)(v * 1e6 + 0.5) : 0;

	if (isnan(v))
		return snprintf(out, cap, "%s", run_unknown);
	return snprintf(out, cap, "%llu.%06llu", (unsigned long long)(us / 1000000),
			(unsigned long long)(us % 1000000));
}

static int run_number_text(const struct run_field *f, const void *at, char *out, size_t cap)
{
	switch (f->type) {
	case RUN_I64:
		return snprintf(out, cap, "%lld", (long long)*(const int64_t *)at);
	case RUN_U64:
		return snprintf(out, cap, "%llu", (unsigned long long)*(const uint64_t *)at);
	case RUN_INT:
		return snprintf(out, cap, "%d", *(const int *)at);
	case RUN_KIND:
		return snprintf(out, cap, "%s",
				run_outcome_name(*(const enum run_outcome_kind *)at));
	default:
		return run_seconds_text(*(const double *)at, out, cap);
	}
}

static int run_format(const char *magic, const struct run_field *fields, const void *from,
		      char *out, size_t cap, size_t *ret_len)
{
	struct run_out o = {.p = out, .end = out + cap};
	const struct run_field *f;

	run_put(&o, magic, strlen(magic));
	for (f = fields; f->key; f++) {
		const char *at = (const char *)from + f->offset;
		char number[64];

		if (f->type == RUN_MAYBE && !*(const bool *)((const char *)from + f->len))
			continue;
		run_put(&o, "\n", 1);
		run_put(&o, f->key, strlen(f->key));
		run_put(&o, "=", 1);
		if (f->type == RUN_TEXT || f->type == RUN_MAYBE) {
			run_put_escaped(&o, at, strnlen(at, f->size));
		} else if (f->type == RUN_BYTES) {
			size_t n = *(const size_t *)((const char *)from + f->len);

			run_put_escaped(&o, at, n < f->size ? n : f->size);
		} else {
			run_put(&o, number, (size_t)run_number_text(f, at, number, sizeof(number)));
		}
	}
	run_put(&o, "\nend\n", 5);
	if (o.full)
		return -ENOSPC;
	*ret_len = (size_t)(o.p - out);
	return 0;
}

int run_start_format(const struct run_start *r, char *out, size_t cap, size_t *ret_len)
{
	return run_format(run_start_magic, run_start_fields, r, out, cap, ret_len);
}

int run_outcome_format(const struct run_outcome *o, char *out, size_t cap, size_t *ret_len)
{
	return run_format(run_outcome_magic, run_outcome_fields, o, out, cap, ret_len);
}

int run_edit_format(const struct run_edit *r, char *out, size_t cap, size_t *ret_len)
{
	return run_format(run_edit_magic, run_edit_fields, r, out, cap, ret_len);
}

/* ---- reading ------------------------------------------------------------ */

/* Digits at *p up to end; false without any, or past 64 bits. */
static bool run_digits(const char **p, const char *end, uint64_t *ret)
{
	const char *q = *p;
	uint64_t v = 0;

	for (; q < end && *q >= '0' && *q <= '9'; q++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*q - '0'), &v))
			return false;
	if (q == *p)
		return false;
	*p = q;
	*ret = v;
	return true;
}

static bool run_read_i64(const char *p, const char *end, int64_t *ret)
{
	bool minus = p < end && *p == '-';
	uint64_t v;

	p += minus;
	if (!run_digits(&p, end, &v) || p != end || v > (uint64_t)INT64_MAX + minus)
		return false;
	*ret = minus ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

static bool run_read_seconds(const char *p, const char *end, double *ret)
{
	uint64_t whole, part = 0;
	double scale = 1;
	const char *dot;

	if ((size_t)(end - p) == strlen(run_unknown) &&
	    memcmp(p, run_unknown, (size_t)(end - p)) == 0) {
		*ret = NAN;
		return true;
	}
	if (!run_digits(&p, end, &whole))
		return false;
	if (p < end && *p == '.') {
		dot = ++p;
		if (!run_digits(&p, end, &part))
			return false;
		for (; dot < p; dot++)
			scale *= 10;
	}
	if (p != end)
		return false;
	*ret = (double)whole + (double)part / scale;
	return true;
}

static bool run_read_kind(const char *p, const char *end, enum run_outcome_kind *ret)
{
	size_t i, len = (size_t)(end - p);

	for (i = 0; i < RUN_KINDS; i++) {
		if (strlen(run_kind_names[i]) == len && memcmp(run_kind_names[i], p, len) == 0) {
			*ret = (enum run_outcome_kind)i;
			return true;
		}
	}
	return false;
}

static int run_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo the escapes into out; what does not fit is cut. false: a bad escape. */
static bool run_read_text(const char *p, const char *end, char *out, size_t cap, size_t *ret_len)
{
	size_t n = 0;

	for (; p < end; p++) {
		char c = *p;

		if (c == '%') {
			int hi = end - p > 2 ? run_hex(p[1]) : -1;
			int lo = end - p > 2 ? run_hex(p[2]) : -1;

			if (hi < 0 || lo < 0)
				return false;
			c = (char)(hi << 4 | lo);
			p += 2;
		}
		if (n < cap)
			out[n++] = c;
	}
	*ret_len = n;
	return true;
}

static bool run_read_value(const struct run_field *f, const char *p, const char *end, void *to)
{
	char *at = (char *)to + f->offset;
	size_t len;
	int64_t v;

	switch (f->type) {
	case RUN_MAYBE:
		*(bool *)((char *)to + f->len) = true;
		/* fall through */
	case RUN_TEXT:
		if (!run_read_text(p, end, at, f->size - 1, &len))
			return false;
		/* The key may come twice: the last holds, without a rest of the first. */
		memset(at + len, 0, f->size - len);
		return true;
	case RUN_BYTES:
		return run_read_text(p, end, at, f->size, (size_t *)((char *)to + f->len));
	case RUN_I64:
		return run_read_i64(p, end, (int64_t *)at);
	case RUN_U64:
		return run_digits(&p, end, (uint64_t *)at) && p == end;
	case RUN_INT:
		if (!run_read_i64(p, end, &v) || v != (int)v)
			return false;
		*(int *)at = (int)v;
		return true;
	case RUN_SECONDS:
		return run_read_seconds(p, end, (double *)at);
	default:
		return run_read_kind(p, end, (enum run_outcome_kind *)at);
	}
}

static const struct run_field *run_field_find(const struct run_field *f, const char *key,
					      size_t len)
{
	for (; f->key; f++)
		if (strlen(f->key) == len && memcmp(f->key, key, len) == 0)
			return f;
	return NULL;
}

static bool run_is(const char *p, const char *end, const char *word)
{
	return (size_t)(end - p) == strlen(word) && memcmp(p, word, (size_t)(end - p)) == 0;
}

static int run_bad(char why[128], unsigned line, const char *what)
{
	snprintf(why, 128, "line %u: %s", line, what);
	return -EBADMSG;
}

/* One line after the first; 1 for the last line. */
static int run_parse_line(const struct run_field *fields, const char *p, const char *end,
			  unsigned line, void *to, char why[128])
{
	const char *eq = memchr(p, '=', (size_t)(end - p));
	const struct run_field *f;

	if (run_is(p, end, "end"))
		return 1;
	if (!eq)
		return run_bad(why, line, "neither key=value nor \"end\"");
	f = run_field_find(fields, p, (size_t)(eq - p));
	if (f && !run_read_value(f, eq + 1, end, to)) {
		snprintf(why, 128, "line %u: bad value of %s", line, f->key);
		return -EBADMSG;
	}
	return 0;
}

static int run_parse(const char *magic, const struct run_field *fields, const char *text,
		     size_t len, void *to, char why[128])
{
	const char *p = text, *end = text + len, *nl;
	unsigned line = 1;
	int r;

	if (len > RUN_FILE_MAX)
		return run_bad(why, 1, "file larger than 256 KiB");
	for (; p < end; p = nl + 1, line++) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			return run_bad(why, line, "cut short: no line end");
		if (line == 1 && !run_is(p, nl, magic)) {
			snprintf(why, 128, "line 1: not \"%s\"", magic);
			return -EBADMSG;
		}
		if (line == 1)
			continue;
		r = run_parse_line(fields, p, nl, line, to, why);
		if (r < 0)
			return r;
		if (r && nl + 1 != end)
			return run_bad(why, line + 1, "something behind \"end\"");
		if (r)
			return 0;
	}
	return run_bad(why, line, "cut short: no last line \"end\"");
}

/* An id becomes a file name: one that leaves its folder is no id. */
static bool run_id_is_bad(const char *id)
{
	return id[0] == '.' || strchr(id, '/') != NULL;
}

int run_start_parse(const char *text, size_t len, struct run_start *ret, char why[128])
{
	struct run_start r = {0};
	int err = run_parse(run_start_magic, run_start_fields, text, len, &r, why);

	if (!err && run_id_is_bad(r.id)) {
		snprintf(why, 128, "bad value of id");
		err = -EBADMSG;
	}
	if (!err)
		*ret = r;
	return err;
}

int run_outcome_parse(const char *text, size_t len, struct run_outcome *ret, char why[128])
{
	struct run_outcome o = {0};
	int err = run_parse(run_outcome_magic, run_outcome_fields, text, len, &o, why);

	if (!err && run_id_is_bad(o.id)) {
		snprintf(why, 128, "bad value of id");
		err = -EBADMSG;
	}
	if (!err)
		*ret = o;
	return err;
}

int run_edit_parse(const char *text, size_t len, struct run_edit *ret, char why[128])
{
	struct run_edit r = {0};
	int err = run_parse(run_edit_magic, run_edit_fields, text, len, &r, why);

	if (!err)
		*ret = r;
	return err;
}

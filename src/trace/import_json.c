/* SPDX-License-Identifier: Apache-2.0
 *
 * import_json.c - a JSON document as a tree of plain data, for the small files of other tools
 * (traces have a reader of their own). What comes here was checked to the letter before.
 */
#include "trace/import_value.h"

#include "base/utf8.h"
#include "trace/repair_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	struct import_tree *t;
	char *p, *end;
};

static int value(struct reader *r, import_ref *ret);

static void blanks(struct reader *r)
{
	while (r->p < r->end && repair_is_blank((unsigned char)*r->p))
		r->p++;
}

/* p behind "\u"; half of a pair is U+FFFD. Writes at most as many bytes as it reads. */
static char *unicode(struct reader *r, char *to)
{
	int32_t c = utf8_hex4(r->p), low = 0;

	r->p += 4;
	if (c >= 0xd800 && c <= 0xdfff) {
		if (c < 0xdc00 && r->p[0] == '\\' && r->p[1] == 'u')
			low = utf8_hex4(r->p + 2);
		if (low >= 0xdc00 && low <= 0xdfff) {
			r->p += 6;
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		} else {
			c = 0xfffd;
		}
	}
	return to + utf8_put(to, (uint32_t)c);
}

static int string(struct reader *r, import_ref *ret)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	struct import_value v = {.type = IMPORT_TEXT};
	char *start = ++r->p, *to = start;

	while (*r->p != '"') {
		if (*r->p != '\\') {
			*to++ = *r->p++;
		} else if (r->p[1] == 'u') {
			r->p += 2;
			to = unicode(r, to);
		} else {
			*to++ = into[strchr(from, r->p[1]) - from];
			r->p += 2;
		}
	}
	r->p++;
	v.text.p = start;
	v.text.len = (uint32_t)(to - start);
	return import_add(r->t, &v, ret);
}

/* The digits are parted from what stands behind them: it need not end in NUL. */
static int number(struct reader *r, import_ref *ret)
{
	struct import_value v = {.type = IMPORT_INT};
	char small[64], *text = small, *p = r->p;
	bool is_real = false;
	size_t n;

	for (; p < r->end && *p && strchr("+-.0123456789eE", *p); p++)
		is_real |= *p == '.' || (*p | 32) == 'e';
	n = (size_t)(p - r->p);
	if (n >= sizeof(small))
		text = malloc(n + 1);
	if (!text)
		return -ENOMEM;
	memcpy(text, r->p, n);
	text[n] = '\0';
	errno = 0;
	if (!is_real)
		v.i = strtoll(text, NULL, 10);
	if (is_real || errno) {
		v.type = IMPORT_FLOAT;
		v.f = strtod(text, NULL);
	}
	if (text != small)
		free(text);
	r->p = p;
	return import_add(r->t, &v, ret);
}

static int word(struct reader *r, import_ref *ret)
{
	char c = *r->p;

	r->p += c == 'f' ? 5 : 4;
	return import_add(
		r->t,
		&(struct import_value){.type = c == 'n' ? IMPORT_NONE : IMPORT_BOOL, .i = c == 't'},
		ret);
}

static int members(struct reader *r, bool is_dict, import_ref *ret)
{
	char close = is_dict ? '}' : ']';
	int rc = import_add(
		r->t, &(struct import_value){.type = is_dict ? IMPORT_DICT : IMPORT_LIST}, ret);

	r->p++;
	for (blanks(r); !rc && *r->p != close; blanks(r)) {
		import_ref item;

		if (*r->p == ',' || *r->p == ':') {
			r->p++;
			blanks(r);
		}
		rc = value(r, &item);
		if (!rc)
			rc = import_push(r->t, *ret, item);
	}
	r->p++;
	return rc;
}

static int value(struct reader *r, import_ref *ret)
{
	switch (*r->p) {
	case '{':
	case '[':
		return members(r, *r->p == '{', ret);
	case '"':
		return string(r, ret);
	case 't':
	case 'f':
	case 'n':
		return word(r, ret);
	default:
		return number(r, ret);
	}
}

int import_json(char *data, size_t len, struct import_tree *ret, struct err *e)
{
	struct import_tree t = {.root = IMPORT_NULL};
	struct reader r = {&t, data, data + len};
	int rc;

	/* An end mark behind it is needed for numbers: only containers are taken. */
	blanks(&r);
	if (r.p == r.end || (*r.p != '{' && *r.p != '[') || len > UINT32_MAX ||
	    !repair_is_json(data, len))
		return err_set(e, -EBADMSG, "no JSON object or array");
	rc = value(&r, &t.root);
	if (rc) {
		import_tree_done(&t);
		return err_set(e, rc, "JSON: too many values");
	}
	*ret = t;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * import_marshal.c - one value in Python's marshal format, which cProfile writes: numbers,
 * texts, tuples, lists and dictionaries. Code objects and all else are refused.
 */
#include "trace/import_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct marshal {
	struct import_tree *t;
	struct err *e;
	const unsigned char *data, *p, *end;
	import_ref *refs;
	size_t n_refs, cap_refs;
	unsigned depth;
	bool is_null; /* the value just read was the end of a dict */
};

static int bad(struct marshal *m, const char *what)
{
	err_set(m->e, -EBADMSG, "marshal: byte %zu: %s", (size_t)(m->p - m->data), what);
	return -EBADMSG;
}

static int number(struct marshal *m, unsigned n, uint64_t *ret)
{
	uint64_t v = 0;

	if ((size_t)(m->end - m->p) < n)
		return bad(m, "the data ends within a number");
	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)m->p[i] << 8 * i;
	m->p += n;
	*ret = v;
	return 0;
}

static int add(struct marshal *m, const struct import_value *v, import_ref *ret)
{
	int rc = import_add(m->t, v, ret);

	return rc ? err_set(m->e, rc, "marshal: too many values") : 0;
}

static int add_ref(struct marshal *m, import_ref v)
{
	if (m->n_refs == m->cap_refs) {
		size_t cap = m->cap_refs ? m->cap_refs * 2 : 1024;
		import_ref *refs = realloc(m->refs, cap * sizeof(*refs));

		if (!refs)
			return err_set(m->e, -ENOMEM, "marshal: out of memory");
		m->refs = refs;
		m->cap_refs = cap;
	}
	m->refs[m->n_refs++] = v;
	return 0;
}

static int text(struct marshal *m, unsigned size_bytes, import_ref *ret)
{
	struct import_value v = {.type = IMPORT_TEXT};
	uint64_t len;
	int rc = number(m, size_bytes, &len);

	if (rc)
		return rc;
	if (len > (uint64_t)(m->end - m->p))
		return bad(m, "a text is longer than the data");
	v.text.p = (const char *)m->p;
	v.text.len = (uint32_t)len;
	m->p += len;
	return add(m, &v, ret);
}

static int real(struct marshal *m, import_ref *ret)
{
	struct import_value v = {.type = IMPORT_FLOAT};
	uint64_t bits;
	int rc = number(m, 8, &bits);

	if (rc)
		return rc;
	memcpy(&v.f, &bits, sizeof(v.f));
	return add(m, &v, ret);
}

/* Digits of 15 bits. */
static int big(struct marshal *m, import_ref *ret)
{
	struct import_value v = {.type = IMPORT_INT};
	uint64_t n, digit, sum = 0;
	int rc = number(m, 4, &n);
	bool negative = (int32_t)n < 0;

	if (rc)
		return rc;
	n = negative ? (uint64_t) - (int64_t)(int32_t)n : n;
	for (uint64_t i = 0; i < n; i++) {
		rc = number(m, 2, &digit);
		if (rc)
			return rc;
		if (i * 15 > 47 && digit) /* beyond 62 bits: the most */
			sum = INT64_MAX;
		else if (i * 15 <= 47)
			sum |= digit << 15 * i;
	}
	v.i = negative ? -(int64_t)sum : (int64_t)sum;
	return add(m, &v, ret);
}

static int value(struct marshal *m, import_ref *ret);

static int items(struct marshal *m, uint64_t n, bool is_dict, import_ref *ret, size_t ref)
{
	struct import_value v = {.type = is_dict ? IMPORT_DICT : IMPORT_LIST};
	int rc = add(m, &v, ret);

	/* Items are at least a byte each: an absurd count ends with the data. */
	if (!rc && ref != SIZE_MAX)
		m->refs[ref] = *ret;
	if (!rc && m->depth++ == IMPORT_DEPTH_MAX)
		return bad(m, "values lie too deep in each other");
	for (uint64_t i = 0; !rc && (is_dict || i < n); i++) {
		import_ref item = IMPORT_NULL;

		rc = value(m, &item);
		if (!rc && m->is_null) {
			if (!is_dict || i % 2)
				return bad(m, "an end mark where a value is needed");
			m->is_null = false;
			break;
		}
		if (!rc)
			rc = import_push(m->t, *ret, item);
	}
	m->depth--;
	return rc ? err_set(m->e, rc, "marshal: cannot be read") : 0;
}

static int sequence(struct marshal *m, unsigned size_bytes, import_ref *ret, size_t ref)
{
	uint64_t n;
	int rc = number(m, size_bytes, &n);

	return rc ? rc : items(m, n, false, ret, ref);
}

static int reference(struct marshal *m, import_ref *ret)
{
	uint64_t at;
	int rc = number(m, 4, &at);

	if (rc)
		return rc;
	if (at >= m->n_refs || m->refs[at] == IMPORT_NULL)
		return bad(m, "a reference to nothing");
	*ret = m->refs[at];
	return 0;
}

static int integer(struct marshal *m, unsigned n, import_ref *ret)
{
	uint64_t v;
	int rc = number(m, n, &v);

	return rc ? rc
		  : add(m,
			&(struct import_value){.type = IMPORT_INT,
					       .i = n == 4 ? (int32_t)v : (int64_t)v},
			ret);
}

static int plain(struct marshal *m, unsigned char type, import_ref *ret)
{
	switch (type) {
	case 'N':
		return add(m, &(struct import_value){.type = IMPORT_NONE}, ret);
	case 'T':
	case 'F':
		return add(m, &(struct import_value){.type = IMPORT_BOOL, .i = type == 'T'}, ret);
	case 'i':
		return integer(m, 4, ret);
	case 'I':
		return integer(m, 8, ret);
	case 'l':
		return big(m, ret);
	case 'g':
		return real(m, ret);
	case 'z':
	case 'Z':
		return text(m, 1, ret);
	case 'a':
	case 'A':
	case 'u':
	case 't':
	case 's':
		return text(m, 4, ret);
	default:
		m->p--;
		return err_set(
			m->e, -EBADMSG,
			"marshal: byte %zu: type 0x%02x is no plain data (no cProfile output?)",
			(size_t)(m->p - m->data), type);
	}
}

static int value(struct marshal *m, import_ref *ret)
{
	unsigned char type;
	size_t ref = SIZE_MAX;
	int rc = 0;

	if (m->p == m->end)
		return bad(m, "the data ends within a value");
	type = *m->p & 0x7f;
	if (*m->p & 0x80 && type != 'r') {
		ref = m->n_refs;
		rc = add_ref(m, IMPORT_NULL);
		if (rc)
			return rc;
	}
	m->p++;
	switch (type) {
	case '0':
		m->is_null = true;
		return 0;
	case 'r':
		return reference(m, ret);
	case ')':
		return sequence(m, 1, ret, ref);
	case '(':
	case '[':
	case '<':
	case '>':
		return sequence(m, 4, ret, ref);
	case '{':
		return items(m, 0, true, ret, ref);
	default:
		rc = plain(m, type, ret);
		if (!rc && ref != SIZE_MAX)
			m->refs[ref] = *ret;
		return rc;
	}
}

int import_marshal(const void *data, size_t len, struct import_tree *ret, struct err *e)
{
	struct import_tree t = {.root = IMPORT_NULL};
	struct marshal m = {.t = &t, .e = e, .data = data, .p = data};
	int rc;

	m.end = m.p + len;
	rc = value(&m, &t.root);
	if (!rc && m.is_null)
		rc = bad(&m, "an end mark where a value is needed");
	free(m.refs);
	if (rc) {
		import_tree_done(&t);
		return rc;
	}
	*ret = t;
	return 0;
}

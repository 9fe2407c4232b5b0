/* SPDX-License-Identifier: Apache-2.0
 *
 * import_pickle.c - a pickle as data: the stack machine of Python's pickle with only those
 * opcodes that make plain values. Nothing is looked up, imported or called.
 */
#include "trace/import_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct machine {
	struct import_tree *t;
	struct err *e;
	const unsigned char *data, *p, *end;
	import_ref *stack, *memo;
	size_t n, cap, n_memo, cap_memo;
	size_t *marks;
	size_t n_marks, cap_marks;
	bool is_done;
};

/* Classes whose instances importers read. */
static const char *const classes[] = {"tracemalloc.Snapshot", "tracemalloc._Traces", NULL};

static int bad(struct machine *m, const char *what)
{
	err_set(m->e, -EBADMSG, "pickle: byte %zu: %s", (size_t)(m->p - m->data), what);
	return -EBADMSG;
}

static int room(struct machine *m, void *items, size_t n, size_t *cap, size_t size)
{
	void **at = items, *p;
	size_t want = *cap ? *cap * 2 : 256;

	if (n < *cap)
		return 0;
	if (n >= IMPORT_STACK_MAX * 16ull)
		return err_set(m->e, -E2BIG, "pickle: more than %u values open", IMPORT_STACK_MAX);
	p = realloc(*at, want * size);
	if (!p)
		return err_set(m->e, -ENOMEM, "pickle: out of memory");
	*at = p;
	*cap = want;
	return 0;
}

static int push(struct machine *m, import_ref v)
{
	int rc = room(m, &m->stack, m->n, &m->cap, sizeof(*m->stack));

	if (!rc)
		m->stack[m->n++] = v;
	return rc;
}

static int push_value(struct machine *m, const struct import_value *v)
{
	import_ref ref;
	int rc = import_add(m->t, v, &ref);

	if (rc)
		return err_set(m->e, rc, "pickle: too many values");
	return push(m, ref);
}

static int push_int(struct machine *m, int64_t i)
{
	return push_value(m, &(struct import_value){.type = IMPORT_INT, .i = i});
}

static int push_type(struct machine *m, enum import_type type)
{
	return push_value(m, &(struct import_value){.type = (uint8_t)type});
}

/* Little-endian number of n bytes, or an error. */
static int number(struct machine *m, unsigned n, uint64_t *ret)
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

static int text(struct machine *m, unsigned size_bytes)
{
	struct import_value v = {.type = IMPORT_TEXT};
	uint64_t len;
	int rc = number(m, size_bytes, &len);

	if (rc)
		return rc;
	if (len > (uint64_t)(m->end - m->p) || len > UINT32_MAX)
		return bad(m, "a text is longer than the data");
	v.text.p = (const char *)m->p;
	v.text.len = (uint32_t)len;
	m->p += len;
	return push_value(m, &v);
}

/* A whole number of any length: those beyond 64 bits become the nearest. */
static int big(struct machine *m, unsigned size_bytes)
{
	uint64_t len, v = 0;
	bool negative, fits = true;
	int rc = number(m, size_bytes, &len);

	if (rc)
		return rc;
	if (len > (uint64_t)(m->end - m->p))
		return bad(m, "a number is longer than the data");
	negative = len && m->p[len - 1] & 0x80;
	for (uint64_t i = 0; i < len; i++) {
		if (i < 8)
			v |= (uint64_t)m->p[i] << 8 * i;
		else if (m->p[i] != (negative ? 0xff : 0))
			fits = false;
	}
	if (negative && len < 8)
		v |= ~0ull << 8 * len;
	if (!fits || (len > 8 && (v >> 63) != negative))
		v = negative ? (uint64_t)INT64_MIN : INT64_MAX;
	m->p += len;
	return push_int(m, (int64_t)v);
}

static int real(struct machine *m)
{
	struct import_value v = {.type = IMPORT_FLOAT};
	uint64_t bits = 0;

	if (m->end - m->p < 8)
		return bad(m, "the data ends within a number");
	for (int i = 0; i < 8; i++)
		bits = bits << 8 | m->p[i];
	memcpy(&v.f, &bits, sizeof(v.f));
	m->p += 8;
	return push_value(m, &v);
}

static int put_memo(struct machine *m, uint64_t at)
{
	if (!m->n || at > m->n_memo)
		return bad(m, "a memo without a value, or out of order");
	if (at == m->n_memo) {
		int rc = room(m, &m->memo, m->n_memo, &m->cap_memo, sizeof(*m->memo));

		if (rc)
			return rc;
		m->n_memo++;
	}
	m->memo[at] = m->stack[m->n - 1];
	return 0;
}

static int get_memo(struct machine *m, unsigned size_bytes)
{
	uint64_t at;
	int rc = number(m, size_bytes, &at);

	if (rc)
		return rc;
	return at < m->n_memo ? push(m, m->memo[at]) : bad(m, "a memo that was never made");
}

/* Values since the last mark; the mark goes. */
static int since_mark(struct machine *m, size_t *ret_from)
{
	if (!m->n_marks)
		return bad(m, "no mark is open");
	*ret_from = m->marks[--m->n_marks];
	return *ret_from <= m->n ? 0 : bad(m, "a mark above the stack");
}

/* Append values [from, n) to the container below them; they go. */
static int append(struct machine *m, size_t from, enum import_type type)
{
	import_ref to;

	if (!from || import_type(m->t, m->stack[from - 1]) != type)
		return bad(m, "items for something that holds none");
	if (type == IMPORT_DICT && (m->n - from) % 2)
		return bad(m, "a key without a value");
	to = m->stack[from - 1];
	for (size_t i = from; i < m->n; i++) {
		int rc = import_push(m->t, to, m->stack[i]);

		if (rc)
			return err_set(m->e, rc, "pickle: too many values");
	}
	m->n = from;
	return 0;
}

/* A container of the values [from, n), in their place. */
static int collect(struct machine *m, size_t from, enum import_type type)
{
	import_ref ref;
	int rc = import_add(m->t, &(struct import_value){.type = (uint8_t)type}, &ref);

	if (rc)
		return err_set(m->e, rc, "pickle: too many values");
	if (type == IMPORT_DICT && (m->n - from) % 2)
		return bad(m, "a key without a value");
	for (size_t i = from; i < m->n; i++) {
		rc = import_push(m->t, ref, m->stack[i]);
		if (rc)
			return err_set(m->e, rc, "pickle: too many values");
	}
	m->n = from;
	return push(m, ref);
}

static int last(struct machine *m, unsigned n, enum import_type type)
{
	return m->n < n ? bad(m, "the stack is empty") : collect(m, m->n - n, type);
}

/* Module and name on the stack become the class, if it is one of ours. */
static int class_of(struct machine *m)
{
	struct import_value v = {.type = IMPORT_CLASS};
	const char *module, *name;
	size_t n_module, n_name;

	if (m->n < 2 || !(module = import_text(m->t, m->stack[m->n - 2], &n_module)) ||
	    !(name = import_text(m->t, m->stack[m->n - 1], &n_name)))
		return bad(m, "a class without a name");
	for (size_t i = 0; classes[i]; i++) {
		const char *dot = strrchr(classes[i], '.');

		if ((size_t)(dot - classes[i]) != n_module || strlen(dot + 1) != n_name ||
		    memcmp(classes[i], module, n_module) != 0 || memcmp(dot + 1, name, n_name) != 0)
			continue;
		m->n -= 2;
		v.text.p = classes[i];
		v.text.len = (uint32_t)strlen(classes[i]);
		return push_value(m, &v);
	}
	return err_set(
		m->e, -EBADMSG,
		"pickle: byte %zu: it names %.*s.%.*s; only plain data is read, no code is run",
		(size_t)(m->p - m->data), (int)(n_module < 80 ? n_module : 80), module,
		(int)(n_name < 80 ? n_name : 80), name);
}

/* Class and arguments become an object without state. */
static int new_object(struct machine *m)
{
	if (m->n < 2 || import_type(m->t, m->stack[m->n - 2]) != IMPORT_CLASS)
		return bad(m, "an object of no class");
	m->n -= 2;
	return push_type(m, IMPORT_OBJECT);
}

/* Object and state: the state's pairs become the object's. */
static int build(struct machine *m)
{
	import_ref state, object;

	if (m->n < 2 || import_type(m->t, m->stack[m->n - 2]) != IMPORT_OBJECT ||
	    import_type(m->t, m->stack[m->n - 1]) != IMPORT_DICT)
		return bad(m, "a state for no object");
	state = m->stack[--m->n];
	object = m->stack[m->n - 1];
	for (uint32_t c = import_first(m->t, state); c != IMPORT_NULL; c = import_next(m->t, c)) {
		int rc = import_push(m->t, object, import_item(m->t, c));

		if (rc)
			return err_set(m->e, rc, "pickle: too many values");
	}
	return 0;
}

static int mark(struct machine *m)
{
	int rc = room(m, &m->marks, m->n_marks, &m->cap_marks, sizeof(*m->marks));

	if (!rc)
		m->marks[m->n_marks++] = m->n;
	return rc;
}

static int with_mark(struct machine *m, unsigned char op)
{
	size_t from;
	int rc = since_mark(m, &from);

	if (rc)
		return rc;
	switch (op) {
	case 'e':  /* APPENDS */
	case 0x90: /* ADDITEMS */
		return append(m, from, IMPORT_LIST);
	case 'u': /* SETITEMS */
		return append(m, from, IMPORT_DICT);
	case 'd': /* DICT */
		return collect(m, from, IMPORT_DICT);
	case '1': /* POP_MARK */
		m->n = from;
		return 0;
	default: /* TUPLE, LIST, FROZENSET */
		return collect(m, from, IMPORT_LIST);
	}
}

static int one_less(struct machine *m)
{
	if (!m->n)
		return bad(m, "the stack is empty");
	m->n--;
	return 0;
}

static int small(struct machine *m, unsigned n, bool is_signed)
{
	uint64_t v;
	int rc = number(m, n, &v);

	if (rc)
		return rc;
	return push_int(m, is_signed ? (int32_t)v : (int64_t)v);
}

static int memo_at(struct machine *m, unsigned n)
{
	uint64_t v;
	int rc = number(m, n, &v);

	return rc ? rc : put_memo(m, v);
}

static int skip(struct machine *m, unsigned n)
{
	uint64_t v;

	return number(m, n, &v);
}

/* Opcodes that make scalars, texts and empty containers. */
static int simple(struct machine *m, unsigned char op)
{
	switch (op) {
	case 0x80: /* PROTO */
		return skip(m, 1);
	case 0x95: /* FRAME */
		return skip(m, 8);
	case 'N':
		return push_type(m, IMPORT_NONE);
	case 0x88:
	case 0x89:
		return push_value(m, &(struct import_value){.type = IMPORT_BOOL, .i = op == 0x88});
	case 'J':
		return small(m, 4, true);
	case 'K':
		return small(m, 1, false);
	case 'M':
		return small(m, 2, false);
	case 0x8a:
		return big(m, 1);
	case 0x8b:
		return big(m, 4);
	case 'G':
		return real(m);
	case 0x8c: /* SHORT_BINUNICODE */
	case 'C':  /* SHORT_BINBYTES */
	case 'U':  /* SHORT_BINSTRING */
		return text(m, 1);
	case 'X':
	case 'B':
	case 'T':
		return text(m, 4);
	case 0x8d:
	case 0x8e:
		return text(m, 8);
	case '}':
		return push_type(m, IMPORT_DICT);
	case ']':
	case ')':
	case 0x8f: /* EMPTY_SET */
		return push_type(m, IMPORT_LIST);
	default:
		return -ENOSYS;
	}
}

static int step(struct machine *m)
{
	unsigned char op = *m->p++;
	int rc = simple(m, op);

	if (rc != -ENOSYS)
		return rc;
	switch (op) {
	case '(':
		return mark(m);
	case 'e':
	case 'u':
	case 't':
	case 'l':
	case 'd':
	case '1':
	case 0x90:
	case 0x91:
		return with_mark(m, op);
	case 'a':
		return m->n < 2 ? bad(m, "the stack is empty") : append(m, m->n - 1, IMPORT_LIST);
	case 's':
		return m->n < 3 ? bad(m, "the stack is empty") : append(m, m->n - 2, IMPORT_DICT);
	case 0x85:
	case 0x86:
	case 0x87:
		return last(m, op - 0x84u, IMPORT_LIST);
	case 0x94: /* MEMOIZE */
		return put_memo(m, m->n_memo);
	case 'q':
		return memo_at(m, 1);
	case 'r':
		return memo_at(m, 4);
	case 'h':
		return get_memo(m, 1);
	case 'j':
		return get_memo(m, 4);
	case '0':
		return one_less(m);
	case '2':
		return m->n ? push(m, m->stack[m->n - 1]) : bad(m, "the stack is empty");
	case 0x93:
		return class_of(m);
	case 0x81:
		return new_object(m);
	case 'b':
		return build(m);
	case '.':
		m->is_done = true;
		return m->n ? 0 : bad(m, "it ends without a value");
	default:
		m->p--;
		return err_set(
			m->e, -EBADMSG,
			"pickle: byte %zu: opcode 0x%02x does more than make data, or is none",
			(size_t)(m->p - m->data), op);
	}
}

int import_pickle(const void *data, size_t len, struct import_tree *ret, struct err *e)
{
	struct import_tree t = {.root = IMPORT_NULL};
	struct machine m = {.t = &t, .e = e, .data = data, .p = data};
	int rc = 0;

	m.end = m.p + len;
	while (!rc && !m.is_done)
		rc = m.p < m.end ? step(&m) : bad(&m, "the data ends before its end mark");
	if (!rc)
		t.root = m.stack[m.n - 1];
	free(m.stack);
	free(m.memo);
	free(m.marks);
	if (rc) {
		import_tree_done(&t);
		return rc;
	}
	*ret = t;
	return 0;
}

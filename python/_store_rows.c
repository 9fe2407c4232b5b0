/* SPDX-License-Identifier: Apache-2.0
 *
 * A table in C memory: numbers in cells, all text in one block. Filled by the
 * store's callbacks while the GIL is not held.
 */
#include "_store.h"

#include <errno.h>
#include <string.h>

void rows_init(struct rows *r, const char *const *names)
{
	*r = (struct rows){.names = names};
	while (names[r->width])
		r->width++;
}

void rows_done(struct rows *r)
{
	PyMem_RawFree(r->cells);
	PyMem_RawFree(r->text);
	rows_init(r, r->names);
}

static struct cell *rows_add(struct rows *r, enum cell_kind kind)
{
	size_t cap = r->cap ? 2 * r->cap : 128;
	struct cell *cells;

	if (r->failed)
		return NULL;
	if (r->n == r->cap) {
		cells = PyMem_RawRealloc(r->cells, cap * sizeof(*cells));
		if (!cells) {
			r->failed = true;
			return NULL;
		}
		r->cells = cells;
		r->cap = cap;
	}
	r->cells[r->n].kind = kind;
	return &r->cells[r->n++];
}

void rows_none(struct rows *r)
{
	rows_add(r, CELL_NONE);
}

void rows_int(struct rows *r, int64_t v)
{
	struct cell *c = rows_add(r, CELL_INT);

	if (c)
		c->i = v;
}

void rows_real(struct rows *r, double v)
{
	struct cell *c = rows_add(r, CELL_REAL);

	if (c)
		c->r = v;
}

void rows_bool(struct rows *r, bool v)
{
	struct cell *c = rows_add(r, CELL_BOOL);

	if (c)
		c->i = v;
}

void rows_known(struct rows *r, int64_t v, int64_t unknown)
{
	if (v == unknown)
		rows_none(r);
	else
		rows_int(r, v);
}

void rows_text(struct rows *r, const char *s)
{
	size_t n = strlen(s) + 1, cap = r->text_cap ? r->text_cap : 1024;
	struct cell *c = rows_add(r, CELL_TEXT);
	char *text;

	if (!c)
		return;
	while (cap < r->len + n)
		cap *= 2;
	if (cap > r->text_cap) {
		text = PyMem_RawRealloc(r->text, cap);
		if (!text) {
			r->failed = true;
			return;
		}
		r->text = text;
		r->text_cap = cap;
	}
	memcpy(r->text + r->len, s, n);
	c->at = r->len;
	r->len += n;
}

/* ---- Python objects -------------------------------------------------------- */

static PyObject *rows_object(const struct rows *r, const struct cell *c)
{
	switch (c->kind) {
	case CELL_INT:
		return PyLong_FromLongLong(c->i);
	case CELL_REAL:
		return PyFloat_FromDouble(c->r);
	case CELL_BOOL:
		return PyBool_FromLong((long)c->i);
	case CELL_TEXT:
		return store_text(r->text + c->at);
	default:
		Py_RETURN_NONE;
	}
}

static PyObject *rows_dict(const struct rows *r, const struct cell *c, PyObject *keys)
{
	PyObject *dict = PyDict_New(), *value;
	size_t i;
	int err;

	for (i = 0; dict && i < r->width; i++) {
		value = rows_object(r, &c[i]);
		err = value ? PyDict_SetItem(dict, PyTuple_GET_ITEM(keys, (Py_ssize_t)i), value)
			    : -1;
		Py_XDECREF(value);
		if (err < 0)
			Py_CLEAR(dict);
	}
	return dict;
}

static PyObject *rows_tuple(const struct rows *r, const struct cell *c, PyObject *keys)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)r->width), *value;
	size_t i;

	(void)keys;
	for (i = 0; tuple && i < r->width; i++) {
		value = rows_object(r, &c[i]);
		if (value)
			PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, value);
		else
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *rows_keys(const struct rows *r)
{
	PyObject *keys = PyTuple_New((Py_ssize_t)r->width), *key;
	size_t i;

	for (i = 0; keys && i < r->width; i++) {
		key = PyUnicode_InternFromString(r->names[i]);
		if (key)
			PyTuple_SET_ITEM(keys, (Py_ssize_t)i, key);
		else
			Py_CLEAR(keys);
	}
	return keys;
}

static PyObject *rows_list(const struct rows *r,
			   PyObject *(*make)(const struct rows *, const struct cell *, PyObject *))
{
	PyObject *keys = rows_keys(r), *list, *one;
	size_t i, n = r->n / r->width;

	list = keys ? PyList_New((Py_ssize_t)n) : NULL;
	for (i = 0; list && i < n; i++) {
		one = make(r, &r->cells[i * r->width], keys);
		if (one)
			PyList_SET_ITEM(list, (Py_ssize_t)i, one);
		else
			Py_CLEAR(list);
	}
	Py_XDECREF(keys);
	return list;
}

PyObject *rows_dicts(const struct rows *r)
{
	return rows_list(r, rows_dict);
}

PyObject *rows_tuples(const struct rows *r)
{
	return rows_list(r, rows_tuple);
}

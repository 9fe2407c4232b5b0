/* SPDX-License-Identifier: Apache-2.0
 *
 * Column: numbers that were read, handed to Python as they lie in memory by the
 * buffer protocol (memoryview(), numpy.frombuffer(): no copy).
 */
#include "_store.h"

struct column {
	PyObject_HEAD void *data; /* 8-byte numbers, owned */
	const char *format;
	Py_ssize_t n;
};

PyObject *column_new(PyTypeObject *type, void *data, size_t n, const char *format)
{
	struct column *self = PyObject_New(struct column, type);

	if (!self) {
		PyMem_RawFree(data);
		return NULL;
	}
	self->data = data;
	self->format = format;
	self->n = (Py_ssize_t)n;
	return (PyObject *)self;
}

static void column_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyMem_RawFree(((struct column *)self)->data);
	PyObject_Free(self);
	Py_DECREF(type);
}

static Py_ssize_t column_len(PyObject *self)
{
	return ((struct column *)self)->n;
}

/* The memory neither moves nor ends while the view holds a reference. */
static int column_buffer(PyObject *x, Py_buffer *view, int flags)
{
	struct column *self = (struct column *)x;

	*view = (Py_buffer){
		.buf = self->data ? self->data : (void *)&self->n,
		.len = self->n * 8,
		.itemsize = 8,
		.ndim = 1,
		.format = flags & PyBUF_FORMAT ? (char *)self->format : NULL,
		.shape = flags & PyBUF_ND ? &self->n : NULL,
	};
	if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES)
		view->strides = &view->itemsize;
	Py_INCREF(x);
	view->obj = x;
	return 0;
}

static PyType_Slot column_slots[] = {
	{Py_tp_doc, "Numbers of 8 bytes: int64 or float64. memoryview() gives them without a "
		    "copy."},
	{Py_tp_dealloc, (void *)column_dealloc},
	{Py_sq_length, (void *)column_len},
	{Py_bf_getbuffer, (void *)column_buffer},
	{0, NULL},
};

#ifndef Py_TPFLAGS_DISALLOW_INSTANTIATION /* before Python 3.10 */
#define Py_TPFLAGS_DISALLOW_INSTANTIATION 0
#endif

PyType_Spec column_spec = {
	.name = "lapse._store.Column",
	.basicsize = sizeof(struct column),
	.flags = STORE_TYPE_FLAGS | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = column_slots,
};

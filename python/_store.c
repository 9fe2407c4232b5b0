/* SPDX-License-Identifier: Apache-2.0
 *
 * lapse._store - reading stored runs: finding them, and the type Reader over a
 * store_reader. Multi-phase initialisation, heap types and no static state, as
 * in lapse._core.
 */
#include "_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

PyObject *store_text(const char *s)
{
	return PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "backslashreplace");
}

PyObject *store_raise(int code, const struct err *e)
{
	PyObject *text, *exc;

	if (code == -ENOMEM)
		return PyErr_NoMemory();
	text = store_text(e->text[0] ? e->text : strerror(-code));
	exc = text ? PyObject_CallFunction(PyExc_OSError, "iO", -code, text) : NULL;
	Py_XDECREF(text);
	if (exc)
		PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
	Py_XDECREF(exc);
	return NULL;
}

/* ---- Reader ---------------------------------------------------------------- */

static void reader_dealloc(PyObject *x)
{
	struct reader *self = (struct reader *)x;
	PyTypeObject *type = Py_TYPE(x);

	/* Of a child nothing is closed: the connection is the parent's. */
	if (self->pid == getpid())
		store_reader_close(self->store);
	if (self->has_lock)
		pthread_mutex_destroy(&self->lock);
	Py_XDECREF(self->path);
	PyObject_Free(x);
	Py_DECREF(type);
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"path", NULL};
	struct store_reader *store = NULL;
	PyObject *bytes = NULL;
	struct reader *self;
	struct err e = {0};
	int code;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&:Reader", names, PyUnicode_FSConverter,
					 &bytes))
		return NULL;
	self = PyObject_New(struct reader, type);
	if (!self) {
		Py_DECREF(bytes);
		return NULL;
	}
	self->store = NULL;
	self->pid = getpid();
	self->has_lock = pthread_mutex_init(&self->lock, NULL) == 0;
	self->path = PyUnicode_DecodeFSDefault(PyBytes_AS_STRING(bytes));
	code = self->has_lock ? 0 : -ENOMEM;
	if (code == 0 && self->path) {
		Py_BEGIN_ALLOW_THREADS code =
			store_reader_open(PyBytes_AS_STRING(bytes), &e, &store);
		Py_END_ALLOW_THREADS self->store = store;
	}
	Py_DECREF(bytes);
	if (code < 0)
		store_raise(code, &e);
	if (code < 0 || !self->path) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

int reader_call(PyObject *x, reader_fn fn, void *arg)
{
	struct reader *self = (struct reader *)x;
	bool closed;
	struct err e = {0};
	int code = 0;

	if (self->pid != getpid()) {
		PyErr_SetString(PyExc_RuntimeError, "the run was opened before fork(); open it "
						    "again in this process");
		return -1;
	}
	Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&self->lock);
	closed = !self->store;
	if (!closed)
		code = fn(self->store, arg, &e);
	pthread_mutex_unlock(&self->lock);
	Py_END_ALLOW_THREADS if (closed) PyErr_SetString(PyExc_ValueError, "the reader is closed");
	else if (code < 0) store_raise(code, &e);
	return closed || code < 0 ? -1 : 0;
}

static PyObject *reader_close(PyObject *x, PyObject *noargs)
{
	struct reader *self = (struct reader *)x;

	(void)noargs;
	if (self->pid != getpid())
		Py_RETURN_NONE;
	Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&self->lock);
	store_reader_close(self->store);
	self->store = NULL;
	pthread_mutex_unlock(&self->lock);
	Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *reader_enter(PyObject *self, PyObject *noargs)
{
	(void)noargs;
	Py_INCREF(self);
	return self;
}

static PyObject *reader_exit(PyObject *self, PyObject *args)
{
	(void)args;
	return reader_close(self, NULL);
}

static PyObject *reader_get_path(PyObject *self, void *closure)
{
	(void)closure;
	Py_INCREF(((struct reader *)self)->path);
	return ((struct reader *)self)->path;
}

static PyMethodDef reader_methods[] = {
	{"info", reader_info, METH_NOARGS,
	 "info($self)\n--\n\nWhat is known of the run. Times: UTC ns; None: unknown, or not yet."},
	{"processes", reader_processes, METH_NOARGS, "processes($self)\n--\n\nA dict each."},
	{"series", reader_series, METH_NOARGS, "series($self)\n--\n\nA dict each."},
	{"events", reader_events, METH_NOARGS,
	 "events($self)\n--\n\nA dict each; severity 0 (debug) to 3 (error), attrs as text."},
	{"attrs", reader_attrs, METH_NOARGS,
	 "attrs($self)\n--\n\nTuples (host, process, key, value)."},
	{"points", (PyCFunction)(void (*)(void))reader_points, METH_VARARGS | METH_KEYWORDS,
	 "points($self, host, series, time=None, steps=None, *, all_segments=False)\n--\n\n"
	 "Columns of times (int64, UTC ns), steps (int64, STEP_NONE: none) and values (float64), "
	 "and a list with a dict for each point of a histogram. time and steps are (low, high), "
	 "both inclusive. all_segments: also points that a resumed attempt repeated."},
	{"summary", (PyCFunction)(void (*)(void))reader_summary, METH_VARARGS | METH_KEYWORDS,
	 "summary($self, host, series, time=None, steps=None, *, all_segments=False)\n--\n\n"
	 "count, nan, min, max (without NaN), first and last of the same points, in one pass."},
	{"warning", reader_warning, METH_NOARGS,
	 "warning($self)\n--\n\nWhat could not be read: '' or sentences, one a line."},
	{"close", reader_close, METH_NOARGS,
	 "close($self)\n--\n\nClose; waits for a read of another thread."},
	{"__enter__", reader_enter, METH_NOARGS, "__enter__($self)\n--\n\n"},
	{"__exit__", reader_exit, METH_VARARGS, "__exit__($self, *args)\n--\n\n"},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef reader_getset[] = {
	{"path", reader_get_path, NULL, "The run's folder, as it was given.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot reader_slots[] = {
	{Py_tp_doc, "Reader(path)\n--\n\nA stored run's folder, open for reading, also while it is "
		    "being written.\n\nThreads may share it; they take turns. A forked child "
		    "opens its own. Errors are OSError with a sentence. Reading has the GIL "
		    "released and cannot be interrupted."},
	{Py_tp_new, (void *)reader_new},
	{Py_tp_dealloc, (void *)reader_dealloc},
	{Py_tp_methods, reader_methods},
	{Py_tp_getset, reader_getset},
	{0, NULL},
};

PyType_Spec reader_spec = {
	.name = "lapse._store.Reader",
	.basicsize = sizeof(struct reader),
	.flags = STORE_TYPE_FLAGS,
	.slots = reader_slots,
};

/* ---- finding runs ---------------------------------------------------------- */

#define PATH_CAP 4096

/* root=None: where runs are stored by default. The argument as bytes, or NULL. */
static int store_root_arg(PyObject *root, char out[PATH_CAP])
{
	PyObject *bytes = NULL;
	struct err e = {0};
	int code;

	if (root != Py_None && !PyUnicode_FSConverter(root, &bytes))
		return -1;
	code = store_root(bytes ? PyBytes_AS_STRING(bytes) : NULL, out, PATH_CAP);
	Py_XDECREF(bytes);
	if (code < 0)
		store_raise(code, &e);
	return code < 0 ? -1 : 0;
}

static PyObject *store_list_folders(const char *root, char *const *runs)
{
	PyObject *list = PyList_New(0), *bytes, *path;
	int err;

	for (; list && *runs; runs++) {
		bytes = PyBytes_FromFormat("%s/%s", root, *runs);
		path = bytes ? PyUnicode_DecodeFSDefaultAndSize(PyBytes_AS_STRING(bytes),
								PyBytes_GET_SIZE(bytes))
			     : NULL;
		err = path ? PyList_Append(list, path) : -1;
		Py_XDECREF(bytes);
		Py_XDECREF(path);
		if (err < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *store_py_runs(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"root", NULL};
	PyObject *arg = Py_None, *list;
	char root[PATH_CAP], **runs;
	struct err e = {0};
	int code;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:runs", names, &arg) ||
	    store_root_arg(arg, root) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS code = store_runs(root, &runs, &e);
	Py_END_ALLOW_THREADS if (code < 0) return store_raise(code, &e);
	list = store_list_folders(root, runs);
	store_runs_free(runs);
	return list;
}

static PyObject *store_py_find(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"what", "root", NULL};
	PyObject *what = NULL, *arg = Py_None;
	char root[PATH_CAP], out[PATH_CAP];
	struct err e = {0};
	int code;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O:find", names, PyUnicode_FSConverter,
					 &what, &arg))
		return NULL;
	if (store_root_arg(arg, root) < 0) {
		Py_DECREF(what);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS code =
		store_find(root, PyBytes_AS_STRING(what), out, sizeof(out), &e);
	Py_END_ALLOW_THREADS Py_DECREF(what);
	return code < 0 ? store_raise(code, &e) : PyUnicode_DecodeFSDefault(out);
}

/* ---- the module ------------------------------------------------------------ */

static int store_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **ret)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

	if (!type)
		return -1;
	*ret = (PyTypeObject *)type;
	return PyModule_AddType(module, *ret);
}

static int store_exec(PyObject *module)
{
	struct store_state *s = PyModule_GetState(module);
	PyObject *none;
	int err;

	if (store_add_type(module, &reader_spec, &s->reader_type) < 0 ||
	    store_add_type(module, &column_spec, &s->column_type) < 0)
		return -1;
	none = PyLong_FromLongLong(SINK_STEP_NONE);
	if (!none)
		return -1;
	err = PyModule_AddObject(module, "STEP_NONE", none);
	if (err < 0)
		Py_DECREF(none);
	return err;
}

static int store_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct store_state *s = PyModule_GetState(module);

	Py_VISIT(s->reader_type);
	Py_VISIT(s->column_type);
	return 0;
}

static int store_clear(PyObject *module)
{
	struct store_state *s = PyModule_GetState(module);

	Py_CLEAR(s->reader_type);
	Py_CLEAR(s->column_type);
	return 0;
}

static void store_free(void *module)
{
	store_clear(module);
}

static PyMethodDef store_methods[] = {
	{"runs", (PyCFunction)(void (*)(void))store_py_runs, METH_VARARGS | METH_KEYWORDS,
	 "runs(root=None)\n--\n\nThe folders of the runs in root, oldest first. root None: "
	 "$LAPSE_DIR, else ./lapse-runs."},
	{"find", (PyCFunction)(void (*)(void))store_py_find, METH_VARARGS | METH_KEYWORDS,
	 "find(what, root=None)\n--\n\nThe folder of one run, by id, by the beginning of an id, by "
	 "'last', or by its path (with a '/')."},
	{NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot store_slots[] = {
	{Py_mod_exec, (void *)store_exec},
#if PY_VERSION_HEX >= 0x030c0000
	{Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
	{Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
	{0, NULL},
};

static struct PyModuleDef store_module = {
	PyModuleDef_HEAD_INIT,
	.m_name = "lapse._store",
	.m_doc = "Stored runs, as C calls. Use lapse.open_run().",
	.m_size = sizeof(struct store_state),
	.m_methods = store_methods,
	.m_slots = store_slots,
	.m_traverse = store_traverse,
	.m_clear = store_clear,
	.m_free = store_free,
};

PyMODINIT_FUNC PyInit__store(void);

PyMODINIT_FUNC PyInit__store(void)
{
	return PyModuleDef_Init(&store_module);
}

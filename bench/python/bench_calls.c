/* SPDX-License-Identifier: Apache-2.0
 *
 * What the Python benchmarks compare with: calls that do nothing, and the loop in
 * C. A small extension with a ring of its own; bench_python.py compiles it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <time.h>

#include <lapse/lapse.h>

static double calls_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static PyObject *calls_empty(PyObject *module, PyObject *x)
{
	(void)module;
	(void)x;
	Py_RETURN_NONE;
}

/* ---- context managers that do nothing --------------------------------------- */

static PyObject *calls_enter(PyObject *self, PyObject *noargs)
{
	(void)noargs;
	Py_INCREF(self);
	return self;
}

static PyObject *calls_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
	(void)self;
	(void)args;
	(void)nargs;
	Py_RETURN_FALSE;
}

#define CALLS_ENTER                                                                                \
	{                                                                                          \
		"__enter__", calls_enter, METH_NOARGS, NULL                                        \
	}
#define CALLS_EXIT                                                                                 \
	{                                                                                          \
		"__exit__", (PyCFunction)(void (*)(void))calls_exit, METH_FASTCALL, NULL           \
	}

/* As they are written: methods, which `with` binds. */
static PyMethodDef calls_manager_methods[] = {CALLS_ENTER, CALLS_EXIT, {NULL, NULL, 0, NULL}};

static PyType_Slot calls_manager_slots[] = {
	{Py_tp_methods, calls_manager_methods},
	{0, NULL},
};

static PyType_Spec calls_manager_spec = {
	.name = "bench_calls.Manager",
	.basicsize = sizeof(PyObject),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = calls_manager_slots,
};

/* ---- calls of the library ----------------------------------------------------- */

static PyObject *calls_open(PyObject *module, PyObject *noargs)
{
	int err = lapse_open(NULL);

	(void)module;
	(void)noargs;
	if (err) {
		errno = -err;
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	Py_RETURN_NONE;
}

/* Seconds that n calls of lapse_set() take. */
static PyObject *calls_set(PyObject *module, PyObject *n)
{
	struct lapse_metric m = lapse_gauge("c", "", "", NULL);
	long left = PyLong_AsLong(n);
	double start = calls_now();

	(void)module;
	for (; left > 0; left--)
		lapse_set(m, (double)left);
	return PyFloat_FromDouble(calls_now() - start);
}

/* Seconds that n spans take. */
static PyObject *calls_span(PyObject *module, PyObject *n)
{
	struct lapse_name name = lapse_name("c span");
	long left = PyLong_AsLong(n);
	double start = calls_now();

	(void)module;
	for (; left > 0; left--)
		lapse_span_end(lapse_span_begin(name));
	return PyFloat_FromDouble(calls_now() - start);
}

static PyMethodDef calls_methods[] = {
	{"empty", calls_empty, METH_O, NULL},
	CALLS_ENTER,
	CALLS_EXIT,
	{"open", calls_open, METH_NOARGS, NULL},
	{"set_loop", calls_set, METH_O, NULL},
	{"span_loop", calls_span, METH_O, NULL},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef calls_module = {
	PyModuleDef_HEAD_INIT,
	.m_name = "bench_calls",
	.m_methods = calls_methods,
};

PyMODINIT_FUNC PyInit_bench_calls(void);

PyMODINIT_FUNC PyInit_bench_calls(void)
{
	PyObject *module = PyModule_Create(&calls_module);
	PyObject *manager = module ? PyType_FromSpec(&calls_manager_spec) : NULL;

	if (!manager || PyModule_AddObject(module, "Manager", manager) < 0) {
		Py_XDECREF(manager);
		Py_CLEAR(module);
	}
	return module;
}

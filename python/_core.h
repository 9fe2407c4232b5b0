/* SPDX-License-Identifier: Apache-2.0
 *
 * _core.h - between the files of the extension lapse._core. It knows lapse.h and
 * CPython, nothing else of lapse.
 */
#ifndef PYTHON_CORE_H
#define PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lapse/lapse.h>

/* A metric: the handle and what it was made of. */
struct core_metric {
	PyObject_HEAD struct lapse_metric handle;
	int kind; /* enum core_kind */
	PyObject *name;
};

enum core_kind {
	CORE_GAUGE,
	CORE_COUNTER,
	CORE_HISTOGRAM
};

/* What Span and Step begin with: their own bound methods, made once, because a
 * `with` before 3.14 would make two each time. NULL: made at each look-up. Each
 * holds its object, so both are cycles for the garbage collector. */
struct core_entered {
	PyObject_HEAD PyObject *enter, *exit;
};

#define CORE_KEEPS (PY_VERSION_HEX < 0x030e0000)

/* A span's name; the open spans themselves are in a stack of each thread. */
struct core_span {
	struct core_entered entered;
	struct lapse_name handle;
	PyObject *name;
};

#define CORE_RECENT 16 /* spans found by the name's address */

/* A level of nested dicts given to log(): "outer" of "outer/inner". */
struct core_scope {
	PyObject_HEAD PyObject *prefix; /* str, "" at the root */
	PyObject *metrics;              /* dict: key -> core_metric, or None for a key already
					   warned about */
	PyObject *children;             /* dict: key -> core_scope */
};

/* Of one interpreter's module. */
struct core_state {
	PyTypeObject *metric_type, *span_type, *scope_type, *step_type;
	PyObject *spans;                       /* dict: name -> core_span; none is ever taken out */
	struct core_span *recent[CORE_RECENT]; /* borrowed from it; NULL or any (atomic) */
	struct core_step *step;  /* one for reuse while nobody else holds it, or NULL */
	struct core_scope *root; /* of log() */
};

/* Types are made by functions of the module only, and cannot be changed. */
#if PY_VERSION_HEX >= 0x030a0000
#define CORE_TYPE_FLAGS                                                                            \
	(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |             \
	 Py_TPFLAGS_IMMUTABLETYPE)
#else
#define CORE_TYPE_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC)
#endif

/* A row of METH_FASTCALL | METH_KEYWORDS in a method table. */
#define CORE_FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS

/* State of a module object. */
static inline struct core_state *core_state(PyObject *module)
{
	return (struct core_state *)PyModule_GetState(module);
}

/* A number as log() and metrics take it: anything with __float__ or __index__.
 * 0, or -1 with a Python error set. */
static inline int core_number(PyObject *x, double *ret)
{
	double v;

	if (PyFloat_CheckExact(x)) {
		*ret = PyFloat_AS_DOUBLE(x);
		return 0;
	}
	v = PyFloat_AsDouble(x);
	if (v == -1.0 && PyErr_Occurred())
		return -1;
	*ret = v;
	return 0;
}

/* step=None: `none`; else an int. 0, or -1 with a Python error set. */
int core_step_arg(PyObject *x, int64_t none, int64_t *ret);

/* Look a key up in a dict: 1 and a new reference, 0 not there, -1 an error. */
int core_dict_get(PyObject *dict, PyObject *key, PyObject **ret);

/* The arguments of a METH_FASTCALL | METH_KEYWORDS call put in the order of
 * names (ended by NULL); absent ones are NULL. The first `required` must be
 * there. 0, or -1 with a TypeError that names the function. */
int core_args(const char *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
	      const char *const *names, Py_ssize_t required, PyObject **out);

/* Types and functions of the other files; a table ended by a NULL name each. */
extern PyType_Spec core_metric_spec, core_span_spec, core_scope_spec, core_step_spec;
extern PyMethodDef core_metric_methods[], core_log_methods[], core_span_methods[],
	core_wrap_methods[], core_process_methods[];

/* method.c: have the types (ended by NULL) hand out the methods that their objects
 * keep, and keep those of a new object. 0, or -1 with a Python error set. */
int core_hand_out_methods(PyObject *module, PyTypeObject *const *types);
int core_keep_methods(struct core_entered *self);

/* span.c: begin and end the span in this thread, as `with` does. */
int core_is_span(PyObject *x); /* x may be NULL */
void core_span_enter(const struct core_span *span);
void core_span_exit(const struct core_span *span);
/* After it, with the error that is set: it ended the span. */
void core_span_raised(const struct core_span *span);

/* span.c: a step that nobody else holds, or NULL, is let go. */
void core_step_forget(struct core_step **spare);

/* metric.c: a metric object of a handle. New reference or NULL with an error. */
PyObject *core_metric_new(struct core_state *s, int kind, PyObject *name, struct lapse_metric m);

/* log.c: the scope for a prefix. New reference or NULL with an error. */
struct core_scope *core_scope_new(struct core_state *state, PyObject *prefix);

#endif

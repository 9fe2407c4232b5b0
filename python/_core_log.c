/* SPDX-License-Identifier: Apache-2.0
 *
 * log(): one dict, one frame. The way from a key to its metric is
 * one dict look-up; nested dicts have a scope each, so that "outer/inner" is
 * put together once.
 */
#include "_core.h"

#include <string.h>

/* ---- scopes ---------------------------------------------------------------------- */

struct core_scope *core_scope_new(struct core_state *state, PyObject *prefix)
{
	struct core_scope *self = PyObject_GC_New(struct core_scope, state->scope_type);

	if (!self)
		return NULL;
	Py_INCREF(prefix);
	self->prefix = prefix;
	self->metrics = PyDict_New();
	self->children = PyDict_New();
	PyObject_GC_Track(self);
	if (!self->metrics || !self->children)
		Py_CLEAR(self);
	return self;
}

static int scope_traverse(PyObject *self, visitproc visit, void *arg)
{
	struct core_scope *s = (struct core_scope *)self;

	Py_VISIT(Py_TYPE(self));
	Py_VISIT(s->prefix);
	Py_VISIT(s->metrics);
	Py_VISIT(s->children);
	return 0;
}

static int scope_clear(PyObject *self)
{
	struct core_scope *s = (struct core_scope *)self;

	Py_CLEAR(s->metrics);
	Py_CLEAR(s->children);
	return 0;
}

static void scope_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	scope_clear(self);
	Py_XDECREF(((struct core_scope *)self)->prefix);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

static PyType_Slot scope_slots[] = {
	{Py_tp_dealloc, (void *)scope_dealloc},
	{Py_tp_traverse, (void *)scope_traverse},
	{Py_tp_clear, (void *)scope_clear},
	{0, NULL},
};

PyType_Spec core_scope_spec = {
	.name = "lapse._core._Scope",
	.basicsize = sizeof(struct core_scope),
	.flags = CORE_TYPE_FLAGS,
	.slots = scope_slots,
};

/* "outer/key". New reference. */
static PyObject *scope_join(const struct core_scope *scope, PyObject *key)
{
	PyObject *text, *joined;

	text = PyObject_Str(key);
	if (!text || PyUnicode_GET_LENGTH(scope->prefix) == 0)
		return text;
	joined = PyUnicode_FromFormat("%U/%U", scope->prefix, text);
	Py_DECREF(text);
	return joined;
}

/* The scope of a nested dict. New reference. */
static struct core_scope *scope_child(struct core_state *state, struct core_scope *scope,
				      PyObject *key)
{
	PyObject *child, *prefix;
	int found = core_dict_get(scope->children, key, &child);

	if (found)
		return found < 0 ? NULL : (struct core_scope *)child;
	prefix = scope_join(scope, key);
	if (!prefix)
		return NULL;
	child = (PyObject *)core_scope_new(state, prefix);
	Py_DECREF(prefix);
	if (child && PyDict_SetItem(scope->children, key, child) < 0)
		Py_CLEAR(child);
	return (struct core_scope *)child;
}

/* ---- log() ------------------------------------------------------------------------- */

#define LOG_FEW 64
#define LOG_DEPTH 16 /* nested dicts */

struct log_frame {
	struct core_state *state;
	struct lapse_value *v; /* `few`, or allocated */
	size_t n, cap;
	int depth;
	struct lapse_value few[LOG_FEW];
};

static int log_put(struct log_frame *f, struct lapse_metric m, double value)
{
	struct lapse_value *v;

	if (f->n == f->cap) {
		v = PyMem_New(struct lapse_value, f->cap * 2);
		if (!v) {
			PyErr_NoMemory();
			return -1;
		}
		memcpy(v, f->v, f->n * sizeof(*v));
		if (f->v != f->few)
			PyMem_Free(f->v);
		f->v = v;
		f->cap *= 2;
	}
	f->v[f->n].value = value;
	f->v[f->n++].metric = m;
	return 0;
}

/* A value that is no number: say so once for its key, and go on: hours into a
 * run a bad value must not end it. */
static int log_refuse(struct core_scope *scope, PyObject *key, PyObject *value)
{
	PyObject *name;
	int err;

	if (PyErr_Occurred()) {
		/* What a user pressed is not ours to swallow. */
		if (!PyErr_ExceptionMatches(PyExc_Exception))
			return -1;
		PyErr_Clear();
	}
	name = scope_join(scope, key);
	if (!name)
		return -1;
	err = PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
			       "lapse.log: %U is a %.80s, not a number; it is left out (use "
			       "lapse.attr() or lapse.event() for text)",
			       name, Py_TYPE(value)->tp_name);
	Py_DECREF(name);
	return err < 0 ? -1 : PyDict_SetItem(scope->metrics, key, Py_None);
}

/* The metric of a key not seen before. New reference. */
static PyObject *log_define(struct log_frame *f, struct core_scope *scope, PyObject *key)
{
	PyObject *name = scope_join(scope, key), *metric = NULL;
	const char *text = name ? PyUnicode_AsUTF8(name) : NULL;

	if (text)
		metric = core_metric_new(f->state, CORE_GAUGE, name,
					 lapse_gauge(text, NULL, NULL, NULL));
	Py_XDECREF(name);
	if (metric && PyDict_SetItem(scope->metrics, key, metric) < 0)
		Py_CLEAR(metric);
	return metric;
}

static int log_value(struct log_frame *f, struct core_scope *scope, PyObject *key, PyObject *value)
{
	PyObject *metric;
	double v;
	int found = core_dict_get(scope->metrics, key, &metric), err = 0;

	if (found < 0)
		return -1;
	if (core_number(value, &v) < 0) {
		/* Refused before: no second warning. */
		if (found && metric == Py_None && PyErr_ExceptionMatches(PyExc_Exception))
			PyErr_Clear();
		else
			err = log_refuse(scope, key, value);
		if (found)
			Py_DECREF(metric);
		return err;
	}
	if (!found || metric == Py_None) {
		if (found)
			Py_DECREF(metric);
		metric = log_define(f, scope, key);
	}
	if (!metric)
		return -1;
	err = log_put(f, ((struct core_metric *)metric)->handle, v);
	Py_DECREF(metric);
	return err;
}

static int log_dict(struct log_frame *f, struct core_scope *scope, PyObject *dict);

static int log_nested(struct log_frame *f, struct core_scope *scope, PyObject *key, PyObject *value)
{
	struct core_scope *child;
	int err;

	if (f->depth >= LOG_DEPTH) {
		PyErr_Format(PyExc_ValueError, "lapse.log: dicts nested deeper than %d", LOG_DEPTH);
		return -1;
	}
	child = scope_child(f->state, scope, key);
	if (!child)
		return -1;
	f->depth++;
	err = log_dict(f, child, value);
	f->depth--;
	Py_DECREF(child);
	return err;
}

static int log_items(struct log_frame *f, struct core_scope *scope, PyObject *dict)
{
	Py_ssize_t at = 0, size = PyDict_GET_SIZE(dict);
	PyObject *key, *value;
	int err = 0;

	while (!err && PyDict_Next(dict, &at, &key, &value)) {
		/* __float__ may run anything, also code that changes the dict. */
		Py_INCREF(key);
		Py_INCREF(value);
		if (PyDict_Check(value))
			err = log_nested(f, scope, key, value);
		else
			err = log_value(f, scope, key, value);
		Py_DECREF(key);
		Py_DECREF(value);
		if (!err && PyDict_GET_SIZE(dict) != size) {
			PyErr_SetString(PyExc_RuntimeError,
					"lapse.log: the dict changed while it was read");
			err = -1;
		}
	}
	return err;
}

static int log_dict(struct log_frame *f, struct core_scope *scope, PyObject *dict)
{
#if PY_VERSION_HEX >= 0x030d0000
	int err;

	Py_BEGIN_CRITICAL_SECTION(dict);
	err = log_items(f, scope, dict);
	Py_END_CRITICAL_SECTION();
	return err;
#else
	return log_items(f, scope, dict);
#endif
}

/* The values as a dict. New reference, or NULL with an error. */
static PyObject *log_mapping(PyObject *values)
{
	PyObject *dict;

	if (PyDict_Check(values)) {
		Py_INCREF(values);
		return values;
	}
	dict = PyDict_New();
	if (!dict || PyDict_Update(dict, values) == 0)
		return dict;
	Py_DECREF(dict);
	if (PyErr_ExceptionMatches(PyExc_AttributeError))
		PyErr_Format(PyExc_TypeError, "log() takes a dict, not %.80s",
			     Py_TYPE(values)->tp_name);
	return NULL;
}

static PyObject *core_log(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			  PyObject *kwnames)
{
	static const char *const names[] = {"values", "step", "time", NULL};
	struct log_frame f;
	int64_t step, time_ns;
	PyObject *in[3], *dict;
	int err;

	if (core_args("log", args, nargs, kwnames, names, 1, in) < 0 ||
	    core_step_arg(in[1], LAPSE_STEP_CURRENT, &step) < 0 ||
	    core_step_arg(in[2], LAPSE_NOW, &time_ns) < 0)
		return NULL;
	f.state = core_state(module);
	f.v = f.few;
	f.n = 0;
	f.cap = LOG_FEW;
	f.depth = 0;
	dict = log_mapping(in[0]);
	err = dict ? log_dict(&f, f.state->root, dict) : -1;
	Py_XDECREF(dict);
	if (!err)
		lapse_log_at(f.v, f.n, step, time_ns);
	if (f.v != f.few)
		PyMem_Free(f.v);
	if (err)
		return NULL;
	Py_RETURN_NONE;
}

PyMethodDef core_log_methods[] = {
	{"log", CORE_FAST(core_log),
	 "log(values, step=None, time=None)\n--\n\nRecord a dict of numbers as one frame: one "
	 "step (None: the current one), one time (as lapse.now() gives it; None: now). Nested "
	 "dicts become 'outer/inner'. What is no "
	 "number is left out, with one warning for each key. Costs about 50 ns a value; a tensor "
	 "on a GPU is waited for by its own __float__."},
	{NULL, NULL, 0, NULL},
};

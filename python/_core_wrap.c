/* SPDX-License-Identifier: Apache-2.0
 *
 * What lapse._wrap puts around a decorated function, called without running it.
 * It stays a Python function; only how CPython enters it is another.
 */
#include "_core.h"

/* The order in which the compiler puts the names that the wrapper uses. */
enum wrap_cell {
	WRAP_FUNCTION,
	WRAP_SPAN,
	WRAP_CELLS
};

/* As the wrapper does: `with span: return function(*args, **kwargs)`. The cells
 * can be written to by anybody, also during the call. */
static PyObject *wrap_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
	PyObject *closure = PyFunction_GET_CLOSURE(self), *function, *span, *ret = NULL;

	function = PyCell_Get(PyTuple_GET_ITEM(closure, WRAP_FUNCTION));
	span = PyCell_Get(PyTuple_GET_ITEM(closure, WRAP_SPAN));
	if (function && core_is_span(span)) {
		core_span_enter((struct core_span *)span);
		ret = PyObject_Vectorcall(function, args, nargsf, kwnames);
		core_span_exit((struct core_span *)span);
		if (!ret)
			core_span_raised((struct core_span *)span);
	} else {
		PyErr_SetString(PyExc_TypeError, "the function's span was taken away");
	}
	Py_XDECREF(span);
	Py_XDECREF(function);
	return ret;
}

static void wrap_set(PyObject *wrapper)
{
#if PY_VERSION_HEX >= 0x030c0000
	PyFunction_SetVectorcall((PyFunctionObject *)wrapper, wrap_call);
#else
	/* 3.11 does not look there when Python code makes the call. */
	((PyFunctionObject *)wrapper)->vectorcall = wrap_call;
#endif
}

static int wrap_is_one(PyObject *x)
{
	PyObject *closure = PyFunction_Check(x) ? PyFunction_GET_CLOSURE(x) : NULL;

	return closure && PyTuple_GET_SIZE(closure) == WRAP_CELLS &&
	       core_is_span(PyCell_GET(PyTuple_GET_ITEM(closure, WRAP_SPAN)));
}

static PyObject *core_quicken(PyObject *module, PyObject *wrapper)
{
	(void)module;
	if (!wrap_is_one(wrapper)) {
		PyErr_SetString(PyExc_TypeError, "quicken() takes a wrapper of lapse._wrap");
		return NULL;
	}
	wrap_set(wrapper);
	Py_INCREF(wrapper);
	return wrapper;
}

PyMethodDef core_wrap_methods[] = {
	{"quicken", core_quicken, METH_O,
	 "quicken(wrapper, /)\n--\n\nHave the wrapper called without running its Python code "
	 "where CPython can (3.11: in calls from C only); returns it."},
	{NULL, NULL, 0, NULL},
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * lapse._core - the record library for Python: the module, its state, helpers
 * of the other files. Multi-phase initialisation, heap types and no static
 * state, so that it works in subinterpreters and without the GIL.
 */
#include "_core.h"

#include <string.h>

int core_step_arg(PyObject *x, int64_t none, int64_t *ret)
{
	long long v;

	if (!x || x == Py_None) {
		*ret = none;
		return 0;
	}
	/* Before 3.10 a float would be cut to an int. */
	x = PyNumber_Index(x);
	if (!x)
		return -1;
	v = PyLong_AsLongLong(x);
	Py_DECREF(x);
	if (v == -1 && PyErr_Occurred())
		return -1;
	*ret = v;
	return 0;
}

int core_dict_get(PyObject *dict, PyObject *key, PyObject **ret)
{
#if PY_VERSION_HEX >= 0x030d0000
	return PyDict_GetItemRef(dict, key, ret);
#else
	*ret = PyDict_GetItemWithError(dict, key);
	if (*ret) {
		Py_INCREF(*ret);
		return 1;
	}
	return PyErr_Occurred() ? -1 : 0;
#endif
}

static int core_keyword(const char *function, PyObject *key, PyObject *value,
			const char *const *names, PyObject **out)
{
	Py_ssize_t k;

	for (k = 0; names[k]; k++) {
		if (PyUnicode_CompareWithASCIIString(key, names[k]) != 0)
			continue;
		if (out[k]) {
			PyErr_Format(PyExc_TypeError, "%s() got two values for '%s'", function,
				     names[k]);
			return -1;
		}
		out[k] = value;
		return 0;
	}
	PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", function, key);
	return -1;
}

int core_args(const char *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
	      const char *const *names, Py_ssize_t required, PyObject **out)
{
	Py_ssize_t n = 0, i;

	while (names[n])
		out[n++] = NULL;
	if (nargs > n) {
		PyErr_Format(PyExc_TypeError, "%s() takes at most %zd arguments, not %zd", function,
			     n, nargs);
		return -1;
	}
	for (i = 0; i < nargs; i++)
		out[i] = args[i];
	for (i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
		if (core_keyword(function, PyTuple_GET_ITEM(kwnames, i), args[nargs + i], names,
				 out) < 0)
			return -1;
	for (i = 0; i < required; i++)
		if (!out[i]) {
			PyErr_Format(PyExc_TypeError, "%s() needs '%s'", function, names[i]);
			return -1;
		}
	return 0;
}

/* ---- the module ------------------------------------------------------------ */

static int core_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **ret)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

	if (!type)
		return -1;
	*ret = (PyTypeObject *)type;
#if PY_VERSION_HEX < 0x030a0000
	(*ret)->tp_new = NULL; /* made by functions of the module only */
#endif
	return PyModule_AddType(module, *ret);
}

static int core_exec(PyObject *module)
{
	struct core_state *s = core_state(module);
	PyTypeObject *entered[3] = {NULL, NULL, NULL};
	PyObject *empty;

	if (core_add_type(module, &core_metric_spec, &s->metric_type) < 0 ||
	    core_add_type(module, &core_span_spec, &s->span_type) < 0 ||
	    core_add_type(module, &core_scope_spec, &s->scope_type) < 0 ||
	    core_add_type(module, &core_step_spec, &s->step_type) < 0)
		return -1;
	entered[0] = s->span_type;
	entered[1] = s->step_type;
	if (core_hand_out_methods(module, entered) < 0)
		return -1;
	if (PyModule_AddFunctions(module, core_metric_methods) < 0 ||
	    PyModule_AddFunctions(module, core_log_methods) < 0 ||
	    PyModule_AddFunctions(module, core_span_methods) < 0 ||
	    PyModule_AddFunctions(module, core_wrap_methods) < 0 ||
	    PyModule_AddFunctions(module, core_process_methods) < 0)
		return -1;
	s->spans = PyDict_New();
	empty = PyUnicode_FromString("");
	if (!s->spans || !empty)
		return -1;
	s->root = core_scope_new(s, empty);
	Py_DECREF(empty);
	if (!s->root)
		return -1;
	return PyModule_AddStringConstant(module, "version", lapse_version());
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct core_state *s = core_state(module);

	Py_VISIT(s->metric_type);
	Py_VISIT(s->span_type);
	Py_VISIT(s->scope_type);
	Py_VISIT(s->step_type);
	Py_VISIT(s->spans);
	Py_VISIT(s->root);
	Py_VISIT(s->step);
	return 0;
}

static int core_clear(PyObject *module)
{
	struct core_state *s = core_state(module);

	Py_CLEAR(s->metric_type);
	Py_CLEAR(s->span_type);
	Py_CLEAR(s->scope_type);
	Py_CLEAR(s->step_type);
	memset(s->recent, 0, sizeof(s->recent)); /* borrowed */
	core_step_forget(&s->step);
	Py_CLEAR(s->spans);
	Py_CLEAR(s->root);
	return 0;
}

static void core_free(void *module)
{
	core_clear(module);
}

static PyModuleDef_Slot core_slots[] = {
	{Py_mod_exec, (void *)core_exec},
#if PY_VERSION_HEX >= 0x030c0000
	{Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
	{Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
	{0, NULL},
};

static struct PyModuleDef core_module = {
	PyModuleDef_HEAD_INIT,
	.m_name = "lapse._core",
	.m_doc = "The record library of lapse, as C calls. Use `import lapse`.",
	.m_size = sizeof(struct core_state),
	.m_slots = core_slots,
	.m_traverse = core_traverse,
	.m_clear = core_clear,
	.m_free = core_free,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
	return PyModuleDef_Init(&core_module);
}

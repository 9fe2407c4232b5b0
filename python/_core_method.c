/* SPDX-License-Identifier: Apache-2.0
 *
 * __enter__ and __exit__ that are bound once. Before 3.14 `with` looks both up
 * and makes a bound method of each, at every entry: two objects that the garbage
 * collector tracks, which cost more than recording the span. Here the type's
 * methods are wrapped in a descriptor that hands out what the object has kept.
 */
#include "_core.h"

#include <stddef.h>

struct method {
	PyObject_HEAD Py_ssize_t offset; /* of what is kept, in the object */
	PyObject *plain;                 /* the type's method descriptor */
};

static PyObject *method_get(PyObject *self, PyObject *object, PyObject *type)
{
	PyObject *plain = ((struct method *)self)->plain, *kept = NULL;

	if (object && Py_TYPE(object) == PyDescr_TYPE(plain))
		kept = *(PyObject **)((char *)object + ((struct method *)self)->offset);
	if (!kept)
		return Py_TYPE(plain)->tp_descr_get(plain, object, type);
	Py_INCREF(kept);
	return kept;
}

static int method_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct method *)self)->plain);
	return 0;
}

/* No tp_clear: the cycle of type, descriptor and method ends where the type's
 * __dict__ does, and look-ups may come until then. */
static void method_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	Py_XDECREF(((struct method *)self)->plain);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

static PyType_Slot method_slots[] = {
	{Py_tp_doc, (void *)"Binds a method once for each object."},
	{Py_tp_dealloc, (void *)method_dealloc},
	{Py_tp_traverse, (void *)method_traverse},
	{Py_tp_descr_get, (void *)method_get},
	{0, NULL},
};

static PyType_Spec method_spec = {
	.name = "lapse._core.KeptMethod",
	.basicsize = sizeof(struct method),
	.flags = CORE_TYPE_FLAGS,
	.slots = method_slots,
};

static int method_wrap(PyTypeObject *method_type, PyTypeObject *type, const char *name,
		       Py_ssize_t offset)
{
	PyObject *plain = PyObject_GetAttrString((PyObject *)type, name);
	struct method *m;
	int err;

	if (!plain)
		return -1;
	m = PyObject_GC_New(struct method, method_type);
	if (!m) {
		Py_DECREF(plain);
		return -1;
	}
	m->offset = offset;
	m->plain = plain;
	PyObject_GC_Track(m);
	/* The type is new, and cannot be changed through setattr(). */
	err = PyDict_SetItemString(type->tp_dict, name, (PyObject *)m);
	PyType_Modified(type);
	Py_DECREF(m);
	return err;
}

int core_hand_out_methods(PyObject *module, PyTypeObject *const *types)
{
	PyTypeObject *method_type;
	int err = 0;

	if (!CORE_KEEPS)
		return 0;
	method_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &method_spec, NULL);
	if (!method_type)
		return -1;
	for (; *types && !err; types++)
		if (method_wrap(method_type, *types, "__enter__",
				offsetof(struct core_entered, enter)) < 0 ||
		    method_wrap(method_type, *types, "__exit__",
				offsetof(struct core_entered, exit)) < 0)
			err = -1;
	Py_DECREF(method_type);
	return err;
}

int core_keep_methods(struct core_entered *self)
{
	if (!CORE_KEEPS)
		return 0;
	self->enter = PyObject_GetAttrString((PyObject *)self, "__enter__");
	if (!self->enter)
		return -1;
	self->exit = PyObject_GetAttrString((PyObject *)self, "__exit__");
	return self->exit ? 0 : -1;
}

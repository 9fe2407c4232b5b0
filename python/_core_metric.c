/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics: a handle each, made by metric() from a kind, a name and labels. Their
 * methods record one value.
 */
#include "_core.h"

/* ---- Metric ------------------------------------------------------------------ */

static struct lapse_metric metric_define(int kind, const char *name, const char *unit,
					 const char *help, const char *const *labels)
{
	static struct lapse_metric (*const define[])(const char *, const char *, const char *,
						     const char *const *) = {
		lapse_gauge, lapse_counter, lapse_histogram};

	return define[kind](name, unit, help, labels);
}

PyObject *core_metric_new(struct core_state *s, int kind, PyObject *name, struct lapse_metric m)
{
	struct core_metric *self = PyObject_GC_New(struct core_metric, s->metric_type);

	if (!self)
		return NULL;
	self->handle = m;
	self->kind = kind;
	Py_INCREF(name);
	self->name = name;
	PyObject_GC_Track(self);
	return (PyObject *)self;
}

static int metric_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct core_metric *)self)->name);
	return 0;
}

static void metric_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	Py_XDECREF(((struct core_metric *)self)->name);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

static PyObject *metric_set(PyObject *self, PyObject *x)
{
	double v;

	if (core_number(x, &v) < 0)
		return NULL;
	lapse_set(((struct core_metric *)self)->handle, v);
	Py_RETURN_NONE;
}

static PyObject *metric_add(PyObject *self, PyObject *x)
{
	double v;

	if (core_number(x, &v) < 0)
		return NULL;
	lapse_add(((struct core_metric *)self)->handle, v);
	Py_RETURN_NONE;
}

static PyObject *metric_observe(PyObject *self, PyObject *x)
{
	double v;

	if (core_number(x, &v) < 0)
		return NULL;
	lapse_observe(((struct core_metric *)self)->handle, v);
	Py_RETURN_NONE;
}

static PyObject *metric_at(const char *function,
			   void (*record)(struct lapse_metric, double, int64_t, int64_t),
			   PyObject *self, PyObject *const *args, Py_ssize_t nargs,
			   PyObject *kwnames)
{
	static const char *const names[] = {"value", "step", "time_ns", NULL};
	PyObject *in[3];
	int64_t step, time_ns;
	double v;

	if (core_args(function, args, nargs, kwnames, names, 1, in) < 0 ||
	    core_number(in[0], &v) < 0 || core_step_arg(in[1], LAPSE_STEP_NONE, &step) < 0 ||
	    core_step_arg(in[2], LAPSE_NOW, &time_ns) < 0)
		return NULL;
	record(((struct core_metric *)self)->handle, v, step, time_ns);
	Py_RETURN_NONE;
}

static PyObject *metric_set_at(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
			       PyObject *kwnames)
{
	return metric_at("set_at", lapse_set_at, self, args, nargs, kwnames);
}

static PyObject *metric_add_at(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
			       PyObject *kwnames)
{
	return metric_at("add_at", lapse_add_at, self, args, nargs, kwnames);
}

static PyObject *metric_observe_at(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
				   PyObject *kwnames)
{
	return metric_at("observe_at", lapse_observe_at, self, args, nargs, kwnames);
}

/* ---- observe_bins() ------------------------------------------------------------- */

#define BINS_TOTAL 65536 /* observations of one call: 1 MiB of the ring */
#define BINS_FRAME 256   /* of them in a record */

/* Observations on their way: a frame of one metric. */
struct metric_bins {
	struct lapse_value frame[BINS_FRAME];
	size_t n;
	int64_t step, time_ns;
};

static void bins_send(struct metric_bins *b)
{
	lapse_log_at(b->frame, b->n, b->step, b->time_ns);
	b->n = 0;
}

static void bins_put(struct metric_bins *b, struct lapse_metric m, double value, long long count)
{
	while (count-- > 0) {
		b->frame[b->n].value = value;
		b->frame[b->n++].metric = m;
		if (b->n == BINS_FRAME)
			bins_send(b);
	}
}

/* The counts' sum, or -1 with a Python error set. */
static long long bins_total(PyObject *counts)
{
	Py_ssize_t i, n = PyTuple_GET_SIZE(counts);
	long long total = 0, count;

	for (i = 0; i < n; i++) {
		count = PyLong_AsLongLong(PyTuple_GET_ITEM(counts, i));
		if (count == -1 && PyErr_Occurred())
			return -1;
		if (count < 0 || count > BINS_TOTAL - total) {
			PyErr_Format(PyExc_ValueError,
				     "observe_bins(): counts are 0 or more and at most %d together",
				     BINS_TOTAL);
			return -1;
		}
		total += count;
	}
	return total;
}

/* Tuples of numbers; all of it is looked at before anything is recorded. */
static int bins_record(struct core_metric *self, PyObject *values, PyObject *counts,
		       struct metric_bins *b)
{
	Py_ssize_t i, n = PyTuple_GET_SIZE(values);
	double v;

	if (n != PyTuple_GET_SIZE(counts)) {
		PyErr_Format(PyExc_ValueError, "observe_bins(): %zd values, but %zd counts", n,
			     PyTuple_GET_SIZE(counts));
		return -1;
	}
	if (bins_total(counts) < 0)
		return -1;
	for (i = 0; i < n; i++)
		if (core_number(PyTuple_GET_ITEM(values, i), &v) < 0)
			return -1;
	for (i = 0; i < n; i++) {
		if (core_number(PyTuple_GET_ITEM(values, i), &v) < 0)
			return -1;
		bins_put(b, self->handle, v, PyLong_AsLongLong(PyTuple_GET_ITEM(counts, i)));
	}
	if (b->n)
		bins_send(b);
	return 0;
}

static PyObject *metric_observe_bins(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
				     PyObject *kwnames)
{
	static const char *const names[] = {"values", "counts", "step", "time_ns", NULL};
	PyObject *in[4], *values, *counts;
	struct metric_bins b = {.n = 0};
	int err = -1;

	if (core_args("observe_bins", args, nargs, kwnames, names, 2, in) < 0 ||
	    core_step_arg(in[2], LAPSE_STEP_NONE, &b.step) < 0 ||
	    core_step_arg(in[3], LAPSE_NOW, &b.time_ns) < 0)
		return NULL;
	if (((struct core_metric *)self)->kind != CORE_HISTOGRAM) {
		PyErr_SetString(PyExc_TypeError, "observe_bins(): the metric is no histogram");
		return NULL;
	}
	values = PySequence_Tuple(in[0]);
	counts = values ? PySequence_Tuple(in[1]) : NULL;
	if (counts)
		err = bins_record((struct core_metric *)self, values, counts, &b);
	Py_XDECREF(values);
	Py_XDECREF(counts);
	if (err < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *metric_get_name(PyObject *self, void *closure)
{
	(void)closure;
	Py_INCREF(((struct core_metric *)self)->name);
	return ((struct core_metric *)self)->name;
}

static const char *const metric_kinds[] = {"gauge", "counter", "histogram"};

static PyObject *metric_get_kind(PyObject *self, void *closure)
{
	(void)closure;
	return PyUnicode_FromString(metric_kinds[((struct core_metric *)self)->kind]);
}

static PyObject *metric_repr(PyObject *self)
{
	struct core_metric *m = (struct core_metric *)self;

	return PyUnicode_FromFormat("<lapse.Metric %R, %s%s>", m->name, metric_kinds[m->kind],
				    m->handle.id ? "" : ", inert");
}

static PyMethodDef metric_methods[] = {
	{"set", metric_set, METH_O,
	 "set($self, value, /)\n--\n\nThe gauge has this value now, at the current step. Some "
	 "20 ns."},
	{"add", metric_add, METH_O,
	 "add($self, delta, /)\n--\n\nAdd to the counter now, at the current step. Some 20 ns."},
	{"observe", metric_observe, METH_O,
	 "observe($self, value, /)\n--\n\nOne observation for the histogram, now, at the current "
	 "step. Some 20 ns."},
	{"set_at", CORE_FAST(metric_set_at),
	 "set_at($self, value, step=None, time_ns=None)\n--\n\nA value that arrives late. step "
	 "None: it belongs to none; time_ns as lapse.now() gives it, None: now."},
	{"add_at", CORE_FAST(metric_add_at),
	 "add_at($self, value, step=None, time_ns=None)\n--\n\nLike set_at(), for a counter."},
	{"observe_at", CORE_FAST(metric_observe_at),
	 "observe_at($self, value, step=None, time_ns=None)\n--\n\nLike set_at(), for a "
	 "histogram."},
	{"observe_bins", CORE_FAST(metric_observe_bins),
	 "observe_bins($self, values, counts, step=None, time_ns=None)\n--\n\nFor a histogram: "
	 "values[i] is observed counts[i] times; at most 65,536 observations a call, each takes 16 "
	 "bytes of the ring and some 5 ns. step and time_ns as for set_at()."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef metric_getset[] = {
	{"name", metric_get_name, NULL, "its name", NULL},
	{"kind", metric_get_kind, NULL, "\"gauge\", \"counter\" or \"histogram\"", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot metric_slots[] = {
	{Py_tp_doc, "A metric, made by lapse.metric(). Recording costs some 20 ns."},
	{Py_tp_dealloc, (void *)metric_dealloc},
	{Py_tp_traverse, (void *)metric_traverse},
	{Py_tp_repr, (void *)metric_repr},
	{Py_tp_methods, metric_methods},
	{Py_tp_getset, metric_getset},
	{0, NULL},
};

PyType_Spec core_metric_spec = {
	.name = "lapse._core.Metric",
	.basicsize = sizeof(struct core_metric),
	.flags = CORE_TYPE_FLAGS,
	.slots = metric_slots,
};

/* ---- metric() ------------------------------------------------------------------ */

#define LABELS_MAX 32

/* One text of a label; the list keeps it alive. */
static const char *metric_label(PyObject *x, PyObject *keep)
{
	PyObject *text = PyObject_Str(x);
	int err = text ? PyList_Append(keep, text) : -1;

	Py_XDECREF(text);
	return err < 0 ? NULL : PyUnicode_AsUTF8(text);
}

/* {"k": v} as {"k", "v", NULL}; strings are kept alive by *keep. str() of a
 * label may run anything, so the dict's items are a list of their own. */
static int metric_labels(PyObject *labels, const char *out[2 * LABELS_MAX + 1], PyObject **keep)
{
	PyObject *items;
	Py_ssize_t i, n;

	out[0] = NULL;
	if (!labels || labels == Py_None)
		return 0;
	if (!PyDict_Check(labels)) {
		PyErr_SetString(PyExc_TypeError, "metric(): labels must be a dict");
		return -1;
	}
	if (PyDict_GET_SIZE(labels) > LABELS_MAX) {
		PyErr_Format(PyExc_ValueError, "metric(): at most %d labels, not %zd", LABELS_MAX,
			     PyDict_GET_SIZE(labels));
		return -1;
	}
	*keep = PyList_New(0);
	items = *keep ? PyDict_Items(labels) : NULL;
	n = items ? PyList_GET_SIZE(items) : 0;
	for (i = 0; i < n && i < LABELS_MAX; i++) {
		PyObject *item = PyList_GET_ITEM(items, i);

		out[2 * i] = metric_label(PyTuple_GET_ITEM(item, 0), *keep);
		out[2 * i + 1] = out[2 * i] ? metric_label(PyTuple_GET_ITEM(item, 1), *keep) : NULL;
		if (!out[2 * i + 1])
			break;
	}
	Py_XDECREF(items);
	if (!items || i < n)
		return -1;
	out[2 * n] = NULL;
	return 0;
}

static int metric_kind(PyObject *kind)
{
	int i;

	if (!kind)
		return CORE_GAUGE;
	for (i = 0; PyUnicode_Check(kind) && i < 3; i++)
		if (PyUnicode_CompareWithASCIIString(kind, metric_kinds[i]) == 0)
			return i;
	PyErr_Format(PyExc_ValueError,
		     "metric(): kind must be 'gauge', 'counter' or 'histogram', not %R", kind);
	return -1;
}

static const char *metric_text(PyObject *x, const char *what)
{
	if (!x || x == Py_None)
		return "";
	if (!PyUnicode_Check(x)) {
		PyErr_Format(PyExc_TypeError, "metric(): %s must be a str, not %.80s", what,
			     Py_TYPE(x)->tp_name);
		return NULL;
	}
	return PyUnicode_AsUTF8(x);
}

static PyObject *core_metric(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			     PyObject *kwnames)
{
	static const char *const names[] = {"name", "unit", "kind", "help", "labels", NULL};
	const char *labels[2 * LABELS_MAX + 1], *name, *unit, *help;
	PyObject *in[5], *keep = NULL, *ret = NULL;
	int kind;

	if (core_args("metric", args, nargs, kwnames, names, 1, in) < 0)
		return NULL;
	kind = metric_kind(in[2]);
	name = metric_text(in[0], "name");
	unit = name ? metric_text(in[1], "unit") : NULL;
	help = unit ? metric_text(in[3], "help") : NULL;
	if (kind < 0 || !help)
		return NULL;
	if (!name[0]) {
		PyErr_SetString(PyExc_ValueError, "metric(): the name is empty");
		return NULL;
	}
	if (metric_labels(in[4], labels, &keep) == 0)
		ret = core_metric_new(core_state(module), kind, in[0],
				      metric_define(kind, name, unit, help, labels));
	Py_XDECREF(keep);
	return ret;
}

PyMethodDef core_metric_methods[] = {
	{"metric", CORE_FAST(core_metric),
	 "metric(name, unit='', kind='gauge', help='', labels=None)\n--\n\nDefine a metric, or "
	 "find it: the same kind, name and labels give the same one. kind is 'gauge', 'counter' "
	 "or 'histogram'; unit a base unit ('s', 'By', '1'). Costs about 1 us."},
	{NULL, NULL, 0, NULL},
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Points of a series: as three columns and the histograms, or what they come to
 * in one pass that keeps nothing.
 */
#include "_store.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* What to read, and what has been. Needs no GIL. */
struct points_query {
	unsigned host;
	uint32_t series;
	struct store_range range;
	int (*fn)(void *arg, const struct store_point *p);
};

struct points_columns {
	struct points_query query; /* first */
	int64_t *time, *step;
	double *value;
	size_t n, cap;
	struct rows hists, bins;
	size_t *bins_end; /* of each histogram: index behind its last bin */
};

struct points_summary {
	struct points_query query; /* first */
	int64_t count, nan;
	bool has_value; /* min and max hold */
	double min, max, first, last;
};

/* ---- arguments ------------------------------------------------------------- */

/* An int, or None, which leaves *ret as it is. */
static int points_limit(PyObject *x, int64_t *ret)
{
	PyObject *number = x == Py_None ? NULL : PyNumber_Index(x);

	if (!number)
		return x == Py_None ? 0 : -1;
	*ret = PyLong_AsLongLong(number);
	Py_DECREF(number);
	return *ret == -1 && PyErr_Occurred() ? -1 : 0;
}

/* None, or (low, high) with None for no limit. 1 if there is a range, 0, or -1. */
static int points_limits(PyObject *x, const char *what, int64_t *lo, int64_t *hi)
{
	int64_t *const to[] = {lo, hi};
	PyObject *pair;
	int i, err = 0;

	if (x == Py_None)
		return 0;
	pair = PySequence_Tuple(x);
	if (!pair || PyTuple_GET_SIZE(pair) != 2) {
		if (pair || PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError,
				     "%s must be (low, high), both inclusive, None: no limit",
				     what);
		Py_XDECREF(pair);
		return -1;
	}
	*lo = INT64_MIN;
	*hi = INT64_MAX;
	for (i = 0; err == 0 && i < 2; i++)
		err = points_limit(PyTuple_GET_ITEM(pair, i), to[i]);
	Py_DECREF(pair);
	return err < 0 ? -1 : 1;
}

static int points_args(PyObject *args, PyObject *kwargs, const char *format,
		       struct points_query *ret)
{
	static char *names[] = {"host", "series", "time", "steps", "all_segments", NULL};
	PyObject *time = Py_None, *steps = Py_None;
	Py_ssize_t host, series;
	int all = 0, has;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &host, &series, &time, &steps,
					 &all))
		return -1;
	if (host < 0 || host > UINT32_MAX || series < 0 || series > UINT32_MAX) {
		PyErr_SetString(PyExc_ValueError,
				"host and series are numbers from 0 to 4294967295, as series() "
				"gives them");
		return -1;
	}
	ret->host = (unsigned)host;
	ret->series = (uint32_t)series;
	ret->range.all_segments = all;
	has = points_limits(time, "time", &ret->range.time_min, &ret->range.time_max);
	ret->range.by_time = has > 0;
	if (has < 0)
		return -1;
	has = points_limits(steps, "steps", &ret->range.step_min, &ret->range.step_max);
	ret->range.by_step = has > 0;
	return has < 0 ? -1 : 0;
}

/* arg begins with its query. */
static int points_read(struct store_reader *r, void *arg, struct err *e)
{
	const struct points_query *q = arg;

	return store_reader_points(r, q->host, q->series, &q->range, q->fn, arg, e);
}

/* ---- columns --------------------------------------------------------------- */

static int points_resize(void **data, size_t n)
{
	void *to = PyMem_RawRealloc(*data, n * 8);

	if (!to)
		return -ENOMEM;
	*data = to;
	return 0;
}

static int points_resize_all(struct points_columns *c, size_t n)
{
	if (points_resize((void **)&c->time, n) < 0 || points_resize((void **)&c->step, n) < 0 ||
	    points_resize((void **)&c->value, n) < 0)
		return -ENOMEM;
	c->cap = n;
	return 0;
}

/* A bin's edges; an infinity is a bin of its own. */
static void points_bin(struct rows *r, const struct sink_bin *bin)
{
	uint64_t near_bits = (uint64_t)bin->key << 48, far_bits = (uint64_t)(bin->key + 1u) << 48;
	double near, far;

	memcpy(&near, &near_bits, 8);
	memcpy(&far, &far_bits, 8);
	if (isinf(near))
		far = near;
	rows_real(r, near < far ? near : far);
	rows_real(r, near < far ? far : near);
	rows_int(r, (int64_t)bin->count);
}

static int points_hist(struct points_columns *c, const struct sink_hist *h)
{
	size_t i;

	/* As large as the columns, which have just been made to fit. */
	if (points_resize((void **)&c->bins_end, c->cap) < 0)
		return -ENOMEM;
	rows_int(&c->hists, (int64_t)h->count);
	rows_int(&c->hists, (int64_t)h->nan);
	rows_real(&c->hists, h->sum);
	if (h->count) {
		rows_real(&c->hists, h->min);
		rows_real(&c->hists, h->max);
	} else {
		rows_none(&c->hists);
		rows_none(&c->hists);
	}
	for (i = 0; i < h->n_bins; i++)
		points_bin(&c->bins, &h->bins[i]);
	c->bins_end[c->n] = c->bins.n / 3;
	return c->hists.failed || c->bins.failed ? -ENOMEM : 0;
}

static int points_take(void *arg, const struct store_point *p)
{
	struct points_columns *c = arg;

	if (c->n == c->cap && points_resize_all(c, c->cap ? 2 * c->cap : 1024) < 0)
		return -ENOMEM;
	c->time[c->n] = p->time_ns;
	c->step[c->n] = p->step;
	c->value[c->n] = p->value;
	if (p->hist && points_hist(c, p->hist) < 0)
		return -ENOMEM;
	c->n++;
	return 0;
}

/* Add "bins" to each dict: a list of (low, high, count). */
static PyObject *points_hists(const struct points_columns *c)
{
	PyObject *hists = rows_dicts(&c->hists), *bins = rows_tuples(&c->bins), *part;
	size_t i, from = 0, n = c->bins_end ? c->n : 0;
	int err = hists && bins ? 0 : -1;

	for (i = 0; err == 0 && i < n; i++) {
		part = PyList_GetSlice(bins, (Py_ssize_t)from, (Py_ssize_t)c->bins_end[i]);
		err = part ? PyDict_SetItemString(PyList_GET_ITEM(hists, (Py_ssize_t)i), "bins",
						  part)
			   : -1;
		Py_XDECREF(part);
		from = c->bins_end[i];
	}
	Py_XDECREF(bins);
	if (err < 0)
		Py_CLEAR(hists);
	return hists;
}

static PyObject *points_column(PyTypeObject *type, void *data, size_t n, const char *format)
{
	void *fit = n ? PyMem_RawRealloc(data, n * 8) : NULL;

	return column_new(type, fit ? fit : data, n, format);
}

PyObject *reader_points(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const char *const hist_names[] = {"count", "nan", "sum", "min", "max", NULL};
	static const char *const bin_names[] = {"low", "high", "count", NULL};
	struct points_columns c = {.query = {.fn = points_take}};
	struct store_state *state = PyType_GetModuleState(Py_TYPE(self));
	PyObject *time, *step, *value, *hists, *ret = NULL;

	if (!state || points_args(args, kwargs, "nn|OO$p:points", &c.query) < 0)
		return NULL;
	rows_init(&c.hists, hist_names);
	rows_init(&c.bins, bin_names);
	if (reader_call(self, points_read, &c) == 0) {
		time = points_column(state->column_type, c.time, c.n, "q");
		step = points_column(state->column_type, c.step, c.n, "q");
		value = points_column(state->column_type, c.value, c.n, "d");
		c.time = c.step = NULL;
		c.value = NULL;
		hists = points_hists(&c);
		if (time && step && value && hists)
			ret = PyTuple_Pack(4, time, step, value, hists);
		Py_XDECREF(time);
		Py_XDECREF(step);
		Py_XDECREF(value);
		Py_XDECREF(hists);
	}
	PyMem_RawFree(c.time);
	PyMem_RawFree(c.step);
	PyMem_RawFree(c.value);
	PyMem_RawFree(c.bins_end);
	rows_done(&c.hists);
	rows_done(&c.bins);
	return ret;
}

/* ---- summary --------------------------------------------------------------- */

static void points_extremes(struct points_summary *s, double min, double max)
{
	if (!s->has_value || min < s->min)
		s->min = min;
	if (!s->has_value || max > s->max)
		s->max = max;
	s->has_value = true;
}

static int points_sum(void *arg, const struct store_point *p)
{
	struct points_summary *s = arg;

	if (s->count++ == 0)
		s->first = p->value;
	s->last = p->value;
	if (isnan(p->value))
		s->nan++;
	if (p->hist && p->hist->count)
		points_extremes(s, p->hist->min, p->hist->max);
	else if (!isnan(p->value))
		points_extremes(s, p->value, p->value);
	return 0;
}

static void points_real_if(struct rows *r, bool has, double v)
{
	if (has)
		rows_real(r, v);
	else
		rows_none(r);
}

PyObject *reader_summary(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const char *const names[] = {"count", "nan", "min", "max", "first", "last", NULL};
	struct points_summary s = {.query = {.fn = points_sum}};
	PyObject *list = NULL, *ret = NULL;
	struct rows r;

	if (points_args(args, kwargs, "nn|OO$p:summary", &s.query) < 0 ||
	    reader_call(self, points_read, &s) < 0)
		return NULL;
	rows_init(&r, names);
	rows_int(&r, s.count);
	rows_int(&r, s.nan);
	points_real_if(&r, s.has_value, s.min);
	points_real_if(&r, s.has_value, s.max);
	points_real_if(&r, s.count > 0, s.first);
	points_real_if(&r, s.count > 0, s.last);
	if (rows_state(&r) < 0)
		PyErr_NoMemory();
	else
		list = rows_dicts(&r);
	rows_done(&r);
	if (list) {
		ret = PyList_GET_ITEM(list, 0);
		Py_INCREF(ret);
		Py_DECREF(list);
	}
	return ret;
}

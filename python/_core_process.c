/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, closing, and what is said of the process: events, attributes, rank.
 */
#include "_core.h"

#include <limits.h>
#include <string.h>

/* A str argument as UTF-8; None gives `none`. NULL with an error set, or none. */
static int process_text(const char *function, const char *what, PyObject *x, const char *none,
			const char **ret)
{
	if (!x || x == Py_None) {
		*ret = none;
		return 0;
	}
	if (!PyUnicode_Check(x)) {
		PyErr_Format(PyExc_TypeError, "%s(): %s must be a str, not %.80s", function, what,
			     Py_TYPE(x)->tp_name);
		return -1;
	}
	*ret = PyUnicode_AsUTF8(x);
	return *ret ? 0 : -1;
}

/* None is `none`. */
static int process_int(PyObject *x, long none, long lo, long hi, const char *what, long *ret)
{
	long v;

	*ret = none;
	if (!x || x == Py_None)
		return 0;
	v = PyLong_AsLong(x);
	if (v == -1 && PyErr_Occurred())
		return -1;
	if (v < lo || v > hi) {
		PyErr_Format(PyExc_ValueError, "%s must be from %ld to %ld, not %ld", what, lo, hi,
			     v);
		return -1;
	}
	*ret = v;
	return 0;
}

enum {
	OPEN_NAME,
	OPEN_PROJECT,
	OPEN_ROLE,
	OPEN_DIR,
	OPEN_RING,
	OPEN_LANES,
	OPEN_AGENT,
	OPEN_RANK,
	OPEN_LOCAL,
	OPEN_WORLD,
	OPEN_N
};

static int process_options(PyObject *const in[OPEN_N], struct lapse_options *o)
{
	long ring, lanes, rank, local_rank, world_size;
	const char *const none = NULL;

	if (process_text("open", "name", in[OPEN_NAME], none, &o->name) < 0 ||
	    process_text("open", "project", in[OPEN_PROJECT], none, &o->project) < 0 ||
	    process_text("open", "role", in[OPEN_ROLE], none, &o->role) < 0 ||
	    process_text("open", "dir", in[OPEN_DIR], none, &o->store_dir) < 0 ||
	    process_int(in[OPEN_RING], 0, 0, LONG_MAX, "ring_bytes", &ring) < 0 ||
	    process_int(in[OPEN_LANES], 0, 0, 256, "lanes", &lanes) < 0 ||
	    process_int(in[OPEN_RANK], -1, 0, INT32_MAX, "rank", &rank) < 0 ||
	    process_int(in[OPEN_LOCAL], -1, 0, INT32_MAX, "local_rank", &local_rank) < 0 ||
	    process_int(in[OPEN_WORLD], -1, 1, INT32_MAX, "world_size", &world_size) < 0)
		return -1;
	o->ring_bytes = (size_t)ring;
	o->lanes = (unsigned)lanes;
	o->has_rank = rank >= 0;
	o->rank = (int)rank;
	o->local_rank = (int)local_rank;
	o->world_size = (int)world_size;
	o->start_agent = in[OPEN_AGENT] ? PyObject_IsTrue(in[OPEN_AGENT]) : 0;
	return o->start_agent < 0 ? -1 : 0;
}

static PyObject *core_open(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			   PyObject *kwnames)
{
	static const char *const names[] = {"name",       "project",    "role",        "dir",
					    "ring_bytes", "lanes",      "start_agent", "rank",
					    "local_rank", "world_size", NULL};
	struct lapse_options o = {.size = sizeof(o)};
	PyObject *in[OPEN_N];
	int err;

	(void)module;
	if (core_args("open", args, nargs, kwnames, names, 0, in) < 0 ||
	    process_options(in, &o) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS err = lapse_open(&o);
	Py_END_ALLOW_THREADS if (err) return PyUnicode_DecodeUTF8(
		lapse_error(), (Py_ssize_t)strlen(lapse_error()), "replace");
	Py_RETURN_NONE;
}

static PyObject *core_close(PyObject *module, PyObject *noargs)
{
	(void)module;
	(void)noargs;
	Py_BEGIN_ALLOW_THREADS lapse_close();
	Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *core_is_open(PyObject *module, PyObject *noargs)
{
	(void)module;
	(void)noargs;
	return PyBool_FromLong(lapse_is_open());
}

static PyObject *core_run_id(PyObject *module, PyObject *noargs)
{
	(void)module;
	(void)noargs;
	return PyUnicode_FromString(lapse_run_id());
}

static PyObject *core_store_dir(PyObject *module, PyObject *noargs)
{
	(void)module;
	(void)noargs;
	return PyUnicode_DecodeFSDefault(lapse_store_dir());
}

static PyObject *core_evidence_path(PyObject *module, PyObject *noargs)
{
	char path[4096];

	(void)module;
	(void)noargs;
	if (lapse_evidence_path(path, sizeof(path)) < 0)
		Py_RETURN_NONE;
	return PyUnicode_DecodeFSDefault(path);
}

static PyObject *core_exit_status(PyObject *module, PyObject *x)
{
	long status = PyLong_AsLong(x);

	(void)module;
	if (status == -1 && PyErr_Occurred())
		return NULL;
	lapse_exit_status((int)status);
	Py_RETURN_NONE;
}

static PyObject *core_now(PyObject *module, PyObject *noargs)
{
	(void)module;
	(void)noargs;
	return PyLong_FromLongLong(lapse_now());
}

static PyObject *core_step_now(PyObject *module, PyObject *noargs)
{
	int64_t step = lapse_step_now();

	(void)module;
	(void)noargs;
	if (step == LAPSE_STEP_NONE)
		Py_RETURN_NONE;
	return PyLong_FromLongLong(step);
}

static PyObject *core_heartbeat(PyObject *module, PyObject *noargs)
{
	(void)module;
	(void)noargs;
	lapse_heartbeat();
	Py_RETURN_NONE;
}

static PyObject *core_stats(PyObject *module, PyObject *noargs)
{
	struct lapse_stats s;

	(void)module;
	(void)noargs;
	lapse_stats(&s);
	return Py_BuildValue(
		"{sKsKsKsKsKsK}", "attempts", (unsigned long long)s.attempts, "accepted",
		(unsigned long long)s.accepted, "dropped", (unsigned long long)s.dropped,
		"definitions", (unsigned long long)s.definitions, "refused",
		(unsigned long long)s.refused, "ring_bytes", (unsigned long long)s.ring_bytes);
}

static PyObject *core_event(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			    PyObject *kwnames)
{
	static const char *const names[] = {"severity", "kind", "text", "attrs", NULL};
	const char *kind, *text, *attrs;
	PyObject *in[4];
	long severity;

	(void)module;
	if (core_args("event", args, nargs, kwnames, names, 2, in) < 0 ||
	    process_int(in[0], LAPSE_INFO, LAPSE_DEBUG, LAPSE_ERROR, "severity", &severity) < 0 ||
	    process_text("event", "kind", in[1], "", &kind) < 0 ||
	    process_text("event", "text", in[2], NULL, &text) < 0 ||
	    process_text("event", "attrs", in[3], NULL, &attrs) < 0)
		return NULL;
	lapse_event((enum lapse_severity)severity, kind, text, attrs);
	Py_RETURN_NONE;
}

static PyObject *core_attr(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			   PyObject *kwnames)
{
	static const char *const names[] = {"key", "value", NULL};
	const char *key, *value;
	PyObject *in[2];

	(void)module;
	if (core_args("attr", args, nargs, kwnames, names, 2, in) < 0 ||
	    process_text("attr", "key", in[0], "", &key) < 0 ||
	    process_text("attr", "value", in[1], "", &value) < 0)
		return NULL;
	lapse_attr(key, value);
	Py_RETURN_NONE;
}

static PyObject *core_rank(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			   PyObject *kwnames)
{
	static const char *const names[] = {"rank", "local_rank", "world_size", NULL};
	long rank, local_rank, world_size;
	PyObject *in[3];

	(void)module;
	if (core_args("rank", args, nargs, kwnames, names, 1, in) < 0 ||
	    process_int(in[0], -1, 0, INT32_MAX, "rank", &rank) < 0 ||
	    process_int(in[1], -1, 0, INT32_MAX, "local_rank", &local_rank) < 0 ||
	    process_int(in[2], -1, 1, INT32_MAX, "world_size", &world_size) < 0)
		return NULL;
	lapse_set_rank((int)rank, (int)local_rank, (int)world_size);
	Py_RETURN_NONE;
}

PyMethodDef core_process_methods[] = {
	{"open", CORE_FAST(core_open),
	 "open(name=None, project=None, role=None, dir=None, ring_bytes=None, lanes=None, "
	 "start_agent=False, rank=None, local_rank=None, world_size=None)\n--\n\nOpen the ring; "
	 "returns None, or why nothing is recorded."},
	{"close", core_close, METH_NOARGS, "close()\n--\n\nClose the ring."},
	{"is_open", core_is_open, METH_NOARGS, "is_open()\n--\n\nAre records taken?"},
	{"run_id", core_run_id, METH_NOARGS, "run_id()\n--\n\nThe run's id, '' before open()."},
	{"store_dir", core_store_dir, METH_NOARGS,
	 "store_dir()\n--\n\nThe folder of runs that holds this one unless a launcher chose "
	 "another."},
	{"evidence_path", core_evidence_path, METH_NOARGS,
	 "evidence_path()\n--\n\nThe file whose text the agent stores when the process is dead, "
	 "or None."},
	{"exit_status", core_exit_status, METH_O,
	 "exit_status(status, /)\n--\n\nSay with which status the process is about to exit."},
	{"now", core_now, METH_NOARGS,
	 "now()\n--\n\nNanoseconds since 1970-01-01 UTC on lapse's own scale; 0 before init()."},
	{"step_now", core_step_now, METH_NOARGS,
	 "step_now()\n--\n\nThe current step; None before the first, and where nothing is "
	 "recorded."},
	{"heartbeat", core_heartbeat, METH_NOARGS,
	 "heartbeat()\n--\n\nSay 'I am alive' in phases that neither step nor record."},
	{"stats", core_stats, METH_NOARGS,
	 "stats()\n--\n\nWhat became of this process's records, as a dict."},
	{"event", CORE_FAST(core_event),
	 "event(severity, kind, text=None, attrs=None)\n--\n\nRecord something that happened; "
	 "severity 0 debug, 1 info, 2 warning, 3 error; attrs is a JSON object as text."},
	{"attr", CORE_FAST(core_attr),
	 "attr(key, value)\n--\n\nSay something about this process that is text; the last value "
	 "of a key wins."},
	{"rank", CORE_FAST(core_rank),
	 "rank(rank, local_rank=None, world_size=None)\n--\n\nWhich rank this process is; may "
	 "come late."},
	{NULL, NULL, 0, NULL},
};

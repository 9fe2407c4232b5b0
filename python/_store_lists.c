/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a run, and its lists: processes, series, events, attributes.
 * Unknown numbers become None.
 */
#include "_store.h"

#include <math.h>

static void reader_add_run(struct rows *r, const struct store_run *run)
{
	bool has_code = run->outcome == RUN_EXITED || (run->outcome == RUN_HUNG && run->code >= 0);
	bool has_usage = run->outcome != RUN_RUNNING && run->outcome != RUN_LOST &&
			 !isnan(run->user_s) && !isnan(run->system_s);

	rows_text(r, run->id);
	rows_text(r, run->name);
	rows_text(r, run->project);
	rows_text(r, run->command);
	rows_text(r, run->cwd);
	rows_text(r, run->user);
	rows_text(r, run->tags);
	rows_text(r, run->notes);
	rows_text(r, run->hosts);
	rows_known(r, run->start_ns, 0);
	rows_known(r, run->end_ns, 0);
	rows_text(r, run_outcome_name(run->outcome));
	rows_known(r, has_code ? run->code : -1, -1);
	rows_known(r, run->signal, 0);
	rows_bool(r, run->core);
	if (has_usage) {
		rows_real(r, run->user_s);
		rows_real(r, run->system_s);
	} else {
		rows_none(r);
		rows_none(r);
	}
	rows_known(r, has_usage ? run->max_rss : 0, 0);
	rows_text(r, run->evidence);
	rows_text(r, run->stderr_tail);
}

/* The run's strings live as long as the lock is held: made into cells here. */
static int reader_get_run(struct store_reader *s, void *arg, struct err *e)
{
	struct store_run run;
	int code = store_reader_run(s, &run, e);

	if (code < 0)
		return code;
	reader_add_run(arg, &run);
	return rows_state(arg);
}

static int reader_add_process(void *arg, const struct store_process *p)
{
	struct rows *r = arg;

	rows_int(r, p->host);
	rows_text(r, p->host_name);
	rows_int(r, p->id);
	rows_int(r, p->pid);
	rows_int(r, p->ppid);
	rows_known(r, p->rank, -1);
	rows_known(r, p->local_rank, -1);
	rows_known(r, p->world_size, -1);
	rows_known(r, p->start_ns, 0);
	rows_known(r, p->end_ns, 0);
	rows_text(r, p->role);
	rows_text(r, p->program);
	rows_int(r, (int64_t)p->stored);
	rows_int(r, (int64_t)p->overwritten);
	rows_int(r, (int64_t)p->broken);
	rows_int(r, (int64_t)p->dropped);
	rows_int(r, (int64_t)p->refused);
	return rows_state(r);
}

static int reader_get_processes(struct store_reader *s, void *arg, struct err *e)
{
	return store_reader_processes(s, reader_add_process, arg, e);
}

static int reader_add_series(void *arg, const struct store_series *s)
{
	static const char *const kinds[] = {
		[SINK_GAUGE] = "gauge",
		[SINK_COUNTER] = "counter",
		[SINK_HISTOGRAM] = "histogram",
		[SINK_SPAN] = "span",
	};
	bool known = s->kind >= SINK_GAUGE && s->kind <= SINK_SPAN;
	struct rows *r = arg;

	rows_int(r, s->host);
	rows_text(r, s->host_name);
	rows_int(r, s->id);
	rows_int(r, s->process);
	rows_known(r, s->rank, -1);
	rows_text(r, s->role);
	rows_text(r, s->name);
	rows_text(r, s->labels);
	rows_text(r, s->unit);
	rows_text(r, s->help);
	rows_text(r, s->source);
	rows_text(r, known ? kinds[s->kind] : "unknown");
	rows_int(r, (int64_t)s->count);
	return rows_state(r);
}

static int reader_get_series(struct store_reader *s, void *arg, struct err *e)
{
	return store_reader_series(s, reader_add_series, arg, e);
}

static int reader_add_event(void *arg, const struct store_event *e)
{
	struct rows *r = arg;

	rows_int(r, e->host);
	rows_int(r, e->process);
	rows_int(r, (int64_t)e->seq);
	rows_int(r, e->time_ns);
	rows_known(r, e->step, SINK_STEP_NONE);
	rows_int(r, e->severity);
	rows_text(r, e->kind);
	rows_text(r, e->text);
	rows_text(r, e->attrs);
	return rows_state(r);
}

static int reader_get_events(struct store_reader *s, void *arg, struct err *e)
{
	return store_reader_events(s, reader_add_event, arg, e);
}

static int reader_add_attr(void *arg, unsigned host, uint32_t process, const char *key,
			   const char *value)
{
	struct rows *r = arg;

	rows_int(r, host);
	rows_int(r, process);
	rows_text(r, key);
	rows_text(r, value);
	return rows_state(r);
}

static int reader_get_attrs(struct store_reader *s, void *arg, struct err *e)
{
	return store_reader_attrs(s, reader_add_attr, arg, e);
}

static int reader_get_warning(struct store_reader *s, void *arg, struct err *e)
{
	(void)e;
	rows_text(arg, store_reader_warning(s));
	return rows_state(arg);
}

/* Collect with get, make Python objects of it with make. */
static PyObject *reader_list(PyObject *self, const char *const *names, reader_fn get,
			     PyObject *(*make)(const struct rows *))
{
	PyObject *list = NULL;
	struct rows r;

	rows_init(&r, names);
	if (reader_call(self, get, &r) == 0)
		list = make(&r);
	rows_done(&r);
	return list;
}

/* The first of a list, which is given up. */
static PyObject *reader_first(PyObject *list)
{
	PyObject *one = list ? PySequence_GetItem(list, 0) : NULL;

	Py_XDECREF(list);
	return one;
}

PyObject *reader_info(PyObject *self, PyObject *noargs)
{
	static const char *const names[] = {
		"id",    "name",   "project",  "command", "cwd",      "user",        "tags",
		"notes", "hosts",  "start_ns", "end_ns",  "outcome",  "exit_code",   "signal",
		"core",  "user_s", "system_s", "max_rss", "evidence", "stderr_tail", NULL};

	(void)noargs;
	return reader_first(reader_list(self, names, reader_get_run, rows_dicts));
}

PyObject *reader_processes(PyObject *self, PyObject *noargs)
{
	static const char *const names[] = {
		"host",       "host_name",   "id",       "pid",     "ppid",    "rank",
		"local_rank", "world_size",  "start_ns", "end_ns",  "role",    "program",
		"stored",     "overwritten", "broken",   "dropped", "refused", NULL};

	(void)noargs;
	return reader_list(self, names, reader_get_processes, rows_dicts);
}

PyObject *reader_series(PyObject *self, PyObject *noargs)
{
	static const char *const names[] = {"host",   "host_name", "id",     "process", "rank",
					    "role",   "name",      "labels", "unit",    "help",
					    "source", "kind",      "count",  NULL};

	(void)noargs;
	return reader_list(self, names, reader_get_series, rows_dicts);
}

PyObject *reader_events(PyObject *self, PyObject *noargs)
{
	static const char *const names[] = {"host",     "process", "seq",  "time_ns", "step",
					    "severity", "kind",    "text", "attrs",   NULL};

	(void)noargs;
	return reader_list(self, names, reader_get_events, rows_dicts);
}

PyObject *reader_attrs(PyObject *self, PyObject *noargs)
{
	static const char *const names[] = {"host", "process", "key", "value", NULL};

	(void)noargs;
	return reader_list(self, names, reader_get_attrs, rows_tuples);
}

PyObject *reader_warning(PyObject *self, PyObject *noargs)
{
	static const char *const names[] = {"warning", NULL};
	PyObject *row = reader_first(reader_list(self, names, reader_get_warning, rows_tuples));

	(void)noargs;
	return reader_first(row);
}

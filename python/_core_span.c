/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans and steps as context managers. A Span is a name and may be entered by
 * any number of threads at once; which spans are open is a stack of the thread.
 */
#include "_core.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STACK_MAX 256 /* open spans of a thread; deeper ones are not recorded */
#define LEFT_MAX 32   /* spans of a thread that one exception left, of which is known */

/* A span that an exception ended, and where. Nothing is held: an exception would
 * keep its frames alive. */
struct span_left {
	uint32_t id;
	const void *value, *code; /* the exception; what the frame of the `with` runs */
	int lasti;                /* the instruction in it */
};

struct span_stack {
	unsigned depth, left;
	struct lapse_span open[STACK_MAX];
	struct span_left by[LEFT_MAX]; /* innermost first */
};

static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;
/* Eight bytes of what is set aside for libraries that are loaded later. */
static __thread struct span_stack *stack_mine __attribute__((tls_model("initial-exec")));

static void stack_make_key(void)
{
	/* Without a key the stack of an ended thread is never freed: 6 KiB. */
	if (pthread_key_create(&stack_key, free) != 0)
		stack_key = (pthread_key_t)-1;
}

static __attribute__((noinline)) struct span_stack *stack_new(void)
{
	struct span_stack *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pthread_once(&stack_once, stack_make_key);
	if (stack_key != (pthread_key_t)-1)
		pthread_setspecific(stack_key, s);
	stack_mine = s;
	return s;
}

/* The innermost open span of this name; coroutines of one thread need not close
 * theirs in order. */
static void stack_end(struct span_stack *s, uint32_t id)
{
	unsigned i = s->depth;
	struct lapse_span span;

	while (i > 0 && s->open[i - 1].id != id)
		i--;
	if (i == 0)
		return;
	span = s->open[i - 1];
	memmove(&s->open[i - 1], &s->open[i], (s->depth - i) * sizeof(span));
	s->depth--;
	lapse_span_end(span);
}

/* ---- what Span and Step begin with ------------------------------------------------ */

static int entered_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct core_entered *)self)->enter);
	Py_VISIT(((struct core_entered *)self)->exit);
	return 0;
}

static int entered_clear(PyObject *self)
{
	Py_CLEAR(((struct core_entered *)self)->enter);
	Py_CLEAR(((struct core_entered *)self)->exit);
	return 0;
}

/* Neither tracked nor with methods of its own yet. */
static void *entered_new(PyTypeObject *type)
{
	/* As large as the type says. */
	struct core_entered *self = PyObject_GC_New(struct core_entered, type);

	if (self)
		self->enter = self->exit = NULL;
	return self;
}

/* ---- Span ----------------------------------------------------------------------- */

void core_span_enter(const struct core_span *span)
{
	struct span_stack *s = stack_mine;

	if (!s)
		s = stack_new();
	if (s && s->depth < STACK_MAX)
		s->open[s->depth++] = lapse_span_begin(span->handle);
}

void core_span_exit(const struct core_span *span)
{
	struct span_stack *s = stack_mine;

	if (!s || !s->depth)
		return;
	if (s->open[s->depth - 1].id == span->handle.id)
		lapse_span_end(s->open[--s->depth]);
	else
		stack_end(s, span->handle.id);
}

static PyObject *span_enter(PyObject *self, PyObject *noargs)
{
	(void)noargs;
	core_span_enter((struct core_span *)self);
	Py_INCREF(self);
	return self;
}

static const void *left_code(PyTracebackObject *tb)
{
	PyCodeObject *code = PyFrame_GetCode(tb->tb_frame);

	Py_DECREF(code); /* the frame holds it */
	return code;
}

static __attribute__((noinline)) void span_left(const struct core_span *span, PyObject *value,
						PyObject *tb)
{
	struct span_stack *s = stack_mine;
	struct span_left *by;

	if (!s || !tb || !PyTraceBack_Check(tb))
		return;
	if (s->left && s->by[0].value != value)
		s->left = 0;
	if (s->left == LEFT_MAX)
		return;
	by = &s->by[s->left++];
	by->id = span->handle.id;
	by->value = value;
	by->code = left_code((PyTracebackObject *)tb);
	by->lasti = ((PyTracebackObject *)tb)->tb_lasti;
}

void core_span_raised(const struct core_span *span)
{
	PyObject *type, *value, *tb;

	PyErr_Fetch(&type, &value, &tb);
	PyErr_NormalizeException(&type, &value, &tb);
	span_left(span, value, tb);
	PyErr_Restore(type, value, tb);
}

static PyObject *span_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
	core_span_exit((struct core_span *)self);
	if (nargs >= 3 && args[0] != Py_None)
		span_left((struct core_span *)self, args[1], args[2]);
	Py_RETURN_FALSE;
}

/* For coroutines: an open span of its own, not the innermost of its name. The
 * token is the struct's bytes; others than begin()'s make no sense, but no harm. */
static PyObject *span_begin(PyObject *self, PyObject *noargs)
{
	struct lapse_span span = lapse_span_begin(((struct core_span *)self)->handle);

	(void)noargs;
	return PyBytes_FromStringAndSize((const char *)&span, sizeof(span));
}

static PyObject *span_end(PyObject *self, PyObject *token)
{
	struct lapse_span span;

	if (!PyBytes_Check(token) || PyBytes_GET_SIZE(token) != sizeof(span)) {
		PyErr_SetString(PyExc_TypeError, "Span.end() takes what begin() returned");
		return NULL;
	}
	memcpy(&span, PyBytes_AS_STRING(token), sizeof(span));
	if (span.id == ((struct core_span *)self)->handle.id)
		lapse_span_end(span);
	Py_RETURN_NONE;
}

static int span_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(((struct core_span *)self)->name);
	return entered_traverse(self, visit, arg);
}

static void span_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	entered_clear(self);
	Py_XDECREF(((struct core_span *)self)->name);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

static PyObject *span_get_name(PyObject *self, void *closure)
{
	(void)closure;
	Py_INCREF(((struct core_span *)self)->name);
	return ((struct core_span *)self)->name;
}

static PyObject *span_repr(PyObject *self)
{
	return PyUnicode_FromFormat("<lapse.Span %R>", ((struct core_span *)self)->name);
}

/* As a decorator: lapse._wrap(self, function), which keeps the function's name,
 * signature, and whether it is a coroutine or generator. */
static PyObject *span_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
	PyObject *module, *wrap, *function, *ret = NULL;

	if (kwargs && PyDict_GET_SIZE(kwargs)) {
		PyErr_SetString(PyExc_TypeError, "a Span decorates one function");
		return NULL;
	}
	if (!PyArg_ParseTuple(args, "O:Span", &function))
		return NULL;
	module = PyImport_ImportModule("lapse._wrap");
	wrap = module ? PyObject_GetAttrString(module, "wrap") : NULL;
	if (wrap)
		ret = PyObject_CallFunctionObjArgs(wrap, self, function, NULL);
	Py_XDECREF(wrap);
	Py_XDECREF(module);
	return ret;
}

int core_is_span(PyObject *x)
{
	/* True of every interpreter's Span. */
	return x && Py_TYPE(x)->tp_call == span_call;
}

/* Did the exception pass there? Another one at the same address did not. */
static bool left_is_in(const struct span_left *by, PyObject *tb)
{
	PyTracebackObject *t = (PyTracebackObject *)tb;

	for (; t; t = t->tb_next) {
		if (t->tb_lasti == by->lasti && left_code(t) == by->code)
			return true;
	}
	return false;
}

static int left_name(PyObject *spans, uint32_t id, PyObject *names)
{
	PyObject *name, *span;
	Py_ssize_t at = 0;

	while (PyDict_Next(spans, &at, &name, &span)) {
		if (((struct core_span *)span)->handle.id == id)
			return PyList_Append(names, name);
	}
	return 0;
}

/* Names of the spans of this thread that the exception ended, outermost first. */
static PyObject *core_spans_left(PyObject *module, PyObject *value)
{
	PyObject *names = PyList_New(0), *tb;
	struct span_stack *s = stack_mine;
	unsigned i;

	if (!PyExceptionInstance_Check(value) || !names)
		return names;
	tb = PyException_GetTraceback(value);
	for (i = s ? s->left : 0; i > 0 && names; i--) {
		if (s->by[i - 1].value == value && left_is_in(&s->by[i - 1], tb) &&
		    left_name(core_state(module)->spans, s->by[i - 1].id, names) < 0)
			Py_CLEAR(names);
	}
	Py_XDECREF(tb);
	return names;
}

static PyMethodDef span_methods[] = {
	{"__enter__", span_enter, METH_NOARGS,
	 "__enter__($self, /)\n--\n\nBegin the span in this thread."},
	{"__exit__", (PyCFunction)(void (*)(void))span_exit, METH_FASTCALL,
	 "__exit__($self, /, *exception)\n--\n\nEnd it; exceptions go on."},
	{"begin", span_begin, METH_NOARGS,
	 "begin($self, /)\n--\n\nBegin a span that need not nest; returns what end() takes."},
	{"end", span_end, METH_O,
	 "end($self, token, /)\n--\n\nEnd the span that begin() began, in any thread."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef span_getset[] = {
	{"name", span_get_name, NULL, "its name", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot span_slots[] = {
	{Py_tp_doc, (void *)"A span, made by lapse.span(): a context manager and a decorator."},
	{Py_tp_dealloc, (void *)span_dealloc},
	{Py_tp_traverse, (void *)span_traverse},
	{Py_tp_clear, (void *)entered_clear},
	{Py_tp_repr, (void *)span_repr},
	{Py_tp_call, (void *)span_call},
	{Py_tp_methods, span_methods},
	{Py_tp_getset, span_getset},
	{0, NULL},
};

PyType_Spec core_span_spec = {
	.name = "lapse._core.Span",
	.basicsize = sizeof(struct core_span),
	.flags = CORE_TYPE_FLAGS,
	.slots = span_slots,
};

static PyObject *span_make(struct core_state *state, PyObject *name)
{
	const char *text = PyUnicode_AsUTF8(name);
	struct core_span *self;
	PyObject *kept = NULL;

	if (!text)
		return NULL;
	if (!text[0]) {
		PyErr_SetString(PyExc_ValueError, "span(): the name is empty");
		return NULL;
	}
	self = entered_new(state->span_type);
	if (!self)
		return NULL;
	self->handle = lapse_name(text);
	Py_INCREF(name);
	self->name = name;
	PyObject_GC_Track(self);
	/* Another thread's may have come first: there is one of each name. */
	if (core_keep_methods(&self->entered) == 0)
		kept = PyDict_SetDefault(state->spans, name, (PyObject *)self);
	Py_XINCREF(kept);
	Py_DECREF(self);
	return kept;
}

static PyObject *core_span(PyObject *module, PyObject *name)
{
	struct core_state *state = core_state(module);
	struct core_span **recent = &state->recent[((uintptr_t)name >> 4) % CORE_RECENT];
	struct core_span *seen = __atomic_load_n(recent, __ATOMIC_ACQUIRE);
	PyObject *span;
	int found;

	/* A literal is the same object each time. */
	if (seen && seen->name == name) {
		Py_INCREF(seen);
		return (PyObject *)seen;
	}
	if (!PyUnicode_Check(name)) {
		PyErr_Format(PyExc_TypeError, "span(): the name must be a str, not %.80s",
			     Py_TYPE(name)->tp_name);
		return NULL;
	}
	found = core_dict_get(state->spans, name, &span);
	if (!found)
		span = span_make(state, name);
	if (found < 0 || !span)
		return NULL;
	if (((struct core_span *)span)->name == name)
		__atomic_store_n(recent, (struct core_span *)span, __ATOMIC_RELEASE);
	return span;
}

/* ---- Step ------------------------------------------------------------------------ */

struct core_step {
	struct core_entered entered;
	int64_t step;
	double samples, tokens;
};

static void step_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	entered_clear(self);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

static PyObject *step_enter(PyObject *self, PyObject *noargs)
{
	(void)noargs;
	lapse_step_begin(((struct core_step *)self)->step);
	Py_INCREF(self);
	return self;
}

/* An exception: the step was not done, and stays open for the crash report. */
static PyObject *step_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
	struct core_step *s = (struct core_step *)self;

	if (nargs < 1 || args[0] == Py_None)
		lapse_step_end(s->samples, s->tokens);
	Py_RETURN_FALSE;
}

static PyMethodDef step_methods[] = {
	{"__enter__", step_enter, METH_NOARGS, "__enter__($self, /)\n--\n\nBegin the step."},
	{"__exit__", (PyCFunction)(void (*)(void))step_exit, METH_FASTCALL,
	 "__exit__($self, /, *exception)\n--\n\nEnd it, unless an exception passes through."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot step_slots[] = {
	{Py_tp_doc, (void *)"A step, made by lapse.step(): a context manager, entered once."},
	{Py_tp_dealloc, (void *)step_dealloc},
	{Py_tp_traverse, (void *)entered_traverse},
	{Py_tp_clear, (void *)entered_clear},
	{Py_tp_methods, step_methods},
	{0, NULL},
};

PyType_Spec core_step_spec = {
	.name = "lapse._core.Step",
	.basicsize = sizeof(struct core_step),
	.flags = CORE_TYPE_FLAGS,
	.slots = step_slots,
};

/* samples or tokens: None is not known. */
static int step_count(PyObject *x, double *ret)
{
	*ret = -1;
	return !x || x == Py_None ? 0 : core_number(x, ret);
}

#ifdef Py_GIL_DISABLED
#define STEP_REUSED 0 /* reference counts do not say who else holds it */
#else
#define STEP_REUSED CORE_KEEPS
#endif

/* As all refer to it: the module's state and its two methods. */
static int step_is_idle(const struct core_step *s)
{
	return Py_REFCNT(s) == 3 && Py_REFCNT(s->entered.enter) == 1 &&
	       Py_REFCNT(s->entered.exit) == 1;
}

/* A step is made for each `with`, and is worth keeping for its methods: they cost
 * as much as all else. */
static struct core_step *step_new(struct core_state *state)
{
	struct core_step *self = state->step;

	if (STEP_REUSED && self && step_is_idle(self)) {
		Py_INCREF(self);
		return self;
	}
	self = entered_new(state->step_type);
	if (!self)
		return NULL;
	PyObject_GC_Track(self);
	if (STEP_REUSED && !state->step) {
		if (core_keep_methods(&self->entered) < 0) {
			Py_DECREF(self);
			return NULL;
		}
		Py_INCREF(self);
		state->step = self;
	}
	return self;
}

void core_step_forget(struct core_step **spare)
{
	if (*spare)
		entered_clear((PyObject *)*spare);
	Py_CLEAR(*spare);
}

static PyObject *core_step(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			   PyObject *kwnames)
{
	static const char *const names[] = {"step", "samples", "tokens", NULL};
	struct core_step *self;
	double samples, tokens;
	PyObject *in[3];
	int64_t step;

	if (core_args("step", args, nargs, kwnames, names, 0, in) < 0 ||
	    core_step_arg(in[0], LAPSE_STEP_NEXT, &step) < 0 || step_count(in[1], &samples) < 0 ||
	    step_count(in[2], &tokens) < 0)
		return NULL;
	self = step_new(core_state(module));
	if (!self)
		return NULL;
	self->step = step;
	self->samples = samples;
	self->tokens = tokens;
	return (PyObject *)self;
}

static PyObject *core_step_begin(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
				 PyObject *kwnames)
{
	static const char *const names[] = {"step", NULL};
	PyObject *in[1];
	int64_t step;

	(void)module;
	if (core_args("step_begin", args, nargs, kwnames, names, 0, in) < 0 ||
	    core_step_arg(in[0], LAPSE_STEP_NEXT, &step) < 0)
		return NULL;
	lapse_step_begin(step);
	Py_RETURN_NONE;
}

static PyObject *core_step_end(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			       PyObject *kwnames)
{
	static const char *const names[] = {"samples", "tokens", NULL};
	double samples, tokens;
	PyObject *in[2];

	(void)module;
	if (core_args("step_end", args, nargs, kwnames, names, 0, in) < 0 ||
	    step_count(in[0], &samples) < 0 || step_count(in[1], &tokens) < 0)
		return NULL;
	lapse_step_end(samples, tokens);
	Py_RETURN_NONE;
}

static PyObject *core_epoch_begin(PyObject *module, PyObject *x)
{
	int64_t epoch;

	(void)module;
	if (core_step_arg(x, 0, &epoch) < 0)
		return NULL;
	lapse_epoch_begin(epoch);
	Py_RETURN_NONE;
}

static PyObject *core_epoch_end(PyObject *module, PyObject *noargs)
{
	(void)module;
	(void)noargs;
	lapse_epoch_end();
	Py_RETURN_NONE;
}

PyMethodDef core_span_methods[] = {
	{"span", core_span, METH_O,
	 "span(name, /)\n--\n\nThe span of that name: `with lapse.span('forward'):`, or a "
	 "decorator. "
	 "A pair of enter and exit costs about 50 ns."},
	{"spans_left", core_spans_left, METH_O,
	 "spans_left(exception, /)\n--\n\nNames of the spans of this thread that the exception "
	 "ended on its way, outermost first; at most 32."},
	{"step", CORE_FAST(core_step),
	 "step(step=None, samples=None, tokens=None)\n--\n\nA step as a context manager: step "
	 "None is the last one plus 1; samples and tokens are what it processes, None: not "
	 "known. If the block raises, the step does not count as done."},
	{"step_begin", CORE_FAST(core_step_begin),
	 "step_begin(step=None)\n--\n\nBegin a step; None: the last one plus 1."},
	{"step_end", CORE_FAST(core_step_end),
	 "step_end(samples=None, tokens=None)\n--\n\nEnd the step."},
	{"epoch_begin", core_epoch_begin, METH_O,
	 "epoch_begin(epoch, /)\n--\n\nBegin an epoch, 0-based; one that is open ends."},
	{"epoch_end", core_epoch_end, METH_NOARGS, "epoch_end()\n--\n\nEnd the epoch."},
	{NULL, NULL, 0, NULL},
};

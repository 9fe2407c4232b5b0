/* SPDX-License-Identifier: Apache-2.0
 *
 * route_trace.c - routes: views of traces. `lapse trace` makes them, as a process of its own;
 * what it said is kept as long as the files are as they were.
 */
#include "server/routes.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/number.h"
#include "server/answercache.h"
#include "server/artifacts.h"
#include "server/childrun.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACE_VIEW_CACHE (64u << 20)
#define TRACE_VIEW_MAX (64u << 20)
#define TRACE_VIEW_AT_ONCE 2u
#define TRACE_VIEW_WAITING 4u /* with these two, half of the server's workers */
#define TRACE_VIEW_NS 60000000000LL
#define TRACE_VIEW_AGAIN_S "5"
#define TRACE_VIEW_SPACE (4ull << 30)
#define TRACE_VIEW_MEMORY "--memory=512M"
#define TRACE_VIEW_WITH 64u
#define TRACE_VIEW_ARGS 32u
#define TRACE_VIEW_EVENTS 200000

enum trace_view_takes {
	TRACE_VIEW_STEPS = 1,
	TRACE_VIEW_HTA = 2,
	TRACE_VIEW_PLUGIN = 4,
	TRACE_VIEW_TOP = 8,
	TRACE_VIEW_POINTS = 16,
	TRACE_VIEW_SHEETS = 32, /* an object with sheets, of several files too */
	TRACE_VIEW_FLAME = 64,
	TRACE_VIEW_LINE = 128
};

#define TRACE_VIEW_TABLE (TRACE_VIEW_SHEETS | TRACE_VIEW_STEPS | TRACE_VIEW_HTA)

static const struct trace_view {
	const char *name, *sub;
	unsigned takes;
} trace_views[] = {
	{"summary", "summary", TRACE_VIEW_SHEETS | TRACE_VIEW_STEPS},
	{"top", "top", TRACE_VIEW_SHEETS | TRACE_VIEW_STEPS | TRACE_VIEW_PLUGIN | TRACE_VIEW_TOP},
	{"steps", "steps", TRACE_VIEW_SHEETS | TRACE_VIEW_PLUGIN},
	{"temporal", "temporal", TRACE_VIEW_TABLE},
	{"idle", "idle", TRACE_VIEW_TABLE},
	{"kernels", "kernels", TRACE_VIEW_TABLE},
	{"overlap", "overlap", TRACE_VIEW_TABLE},
	{"launch", "launch", TRACE_VIEW_TABLE},
	{"queue", "queue", TRACE_VIEW_TABLE | TRACE_VIEW_POINTS},
	{"bandwidth", "bandwidth", TRACE_VIEW_TABLE},
	{"annotations", "annotations", TRACE_VIEW_TABLE},
	{"tables", "tables", TRACE_VIEW_TABLE},
	{"gpu", "gpu", TRACE_VIEW_SHEETS | TRACE_VIEW_PLUGIN | TRACE_VIEW_POINTS},
	{"memory", "memory", TRACE_VIEW_SHEETS | TRACE_VIEW_PLUGIN | TRACE_VIEW_POINTS},
	{"critical-path", "critical-path", TRACE_VIEW_SHEETS | TRACE_VIEW_HTA},
	{"sequences", "sequences", TRACE_VIEW_TABLE},
	{"ranks", "ranks", TRACE_VIEW_SHEETS | TRACE_VIEW_HTA | TRACE_VIEW_PLUGIN},
	{"score", "score", TRACE_VIEW_SHEETS | TRACE_VIEW_STEPS},
	{"validate", "validate", TRACE_VIEW_SHEETS},
	{"flame", "stacks", TRACE_VIEW_FLAME | TRACE_VIEW_STEPS},
	{"timeline", "timeline", TRACE_VIEW_LINE | TRACE_VIEW_STEPS},
};

/* Which views take a parameter. */
static const struct {
	const char *name;
	unsigned of;
} trace_view_params[] = {
	{"with", TRACE_VIEW_SHEETS},  {"sheet", TRACE_VIEW_SHEETS},
	{"steps", TRACE_VIEW_STEPS},  {"sort", TRACE_VIEW_TOP},
	{"by", TRACE_VIEW_TOP},       {"points", TRACE_VIEW_POINTS},
	{"format", TRACE_VIEW_FLAME}, {"device", TRACE_VIEW_FLAME},
	{"python", TRACE_VIEW_FLAME}, {"threads", TRACE_VIEW_FLAME},
	{"from", TRACE_VIEW_LINE},    {"to", TRACE_VIEW_LINE},
	{"events", TRACE_VIEW_LINE},  {"rule", TRACE_VIEW_HTA | TRACE_VIEW_PLUGIN},
	{"event", TRACE_VIEW_LINE},
};

/* ---- between requests ---------------------------------------------------------------- */

struct trace_view_state {
	struct answercache *cache;
	atomic_bool stop;
};

static void *trace_view_make(struct server *s)
{
	struct trace_view_state *state = xcalloc(1, sizeof(*state));

	(void)s;
	state->cache = answercache_new(TRACE_VIEW_CACHE, TRACE_VIEW_AT_ONCE, TRACE_VIEW_WAITING);
	return state;
}

static void trace_view_stop(void *state)
{
	atomic_store(&((struct trace_view_state *)state)->stop, true);
}

static void trace_view_done(void *state)
{
	answercache_free(((struct trace_view_state *)state)->cache);
	free(state);
}

static const struct server_part trace_view_part = {trace_view_make, trace_view_stop,
						   trace_view_done};

/* ---- what is asked ------------------------------------------------------------------- */

struct trace_view_ask {
	const struct route_ask *a;
	struct trace_view_state *state;
	const struct trace_view *view;
	char dir[PATH_MAX];                                /* of the run */
	char *args[TRACE_VIEW_ARGS + TRACE_VIEW_WITH + 2]; /* owned */
	size_t n;
	struct buf key;
};

static void trace_view_arg(struct trace_view_ask *q, const char *arg, const char *value)
{
	char *text;

	if (q->n + 1 >= ARRAY_LEN(q->args))
		return;
	text = value ? xasprintf("%s=%s", arg, value) : xstrdup(arg);
	buf_printf(&q->key, "%zu:%s;", strlen(text), text);
	q->args[q->n++] = text;
	q->args[q->n] = NULL;
}

static void trace_view_ask_done(struct trace_view_ask *q)
{
	size_t i;

	for (i = 0; i < q->n; i++)
		free(q->args[i]);
	buf_done(&q->key);
}

static bool trace_view_find(struct trace_view_ask *q, struct http_reply *reply)
{
	const char *name = q->a->args[1];
	size_t i;

	for (i = 0; i < ARRAY_LEN(trace_views); i++)
		if (strcmp(trace_views[i].name, name) == 0)
			q->view = &trace_views[i];
	if (!q->view)
		reply_error(reply, 404, "no-such-route",
			    "There is no view %.64s of a trace; docs/http.md lists them.", name);
	for (i = 0; q->view && i < ARRAY_LEN(trace_view_params); i++) {
		if (!param_text(q->a, trace_view_params[i].name) ||
		    (trace_view_params[i].of & q->view->takes))
			continue;
		reply_error(reply, 400, "bad-parameter", "The view %s has no %s.", q->view->name,
			    trace_view_params[i].name);
		return false;
	}
	return q->view != NULL;
}

/* One event is one question: of it there is no part. */
static bool trace_view_check_event(const struct trace_view_ask *q, struct http_reply *reply)
{
	size_t i;

	if (!param_text(q->a, "event"))
		return true;
	for (i = 0; i < ARRAY_LEN(trace_view_params); i++) {
		if (strcmp(trace_view_params[i].name, "event") == 0 ||
		    !param_text(q->a, trace_view_params[i].name))
			continue;
		reply_error(reply, 400, "bad-parameter",
			    "event goes with no other parameter, but there is %s, too.",
			    trace_view_params[i].name);
		return false;
	}
	return true;
}

/* A number in ms, or steps as FROM:TO, and nothing else. */
static bool trace_view_check(const struct trace_view_ask *q, struct http_reply *reply)
{
	static const char *const numbers[] = {"from", "to"};
	const char *text = param_text(q->a, "steps"), *rule = param_text(q->a, "rule");
	double v;
	size_t i;

	if (text && (!*text || text[strspn(text, "0123456789:")])) {
		reply_error(reply, 400, "bad-parameter", "steps is \"%.64s\"; it may be FROM:TO.",
			    text);
		return false;
	}
	for (i = 0; i < ARRAY_LEN(numbers); i++) {
		text = param_text(q->a, numbers[i]);
		if (!text || (number_double(text, &v) == 0 && v >= 0 && v <= 1e10))
			continue;
		reply_error(
			reply, 400, "bad-parameter",
			"%s is \"%.64s\"; it may be milliseconds since the trace began, 0 to 1e10.",
			numbers[i], text);
		return false;
	}
	if (rule && ((strcmp(rule, "hta") == 0 && !(q->view->takes & TRACE_VIEW_HTA)) ||
		     (strcmp(rule, "plugin") == 0 && !(q->view->takes & TRACE_VIEW_PLUGIN)))) {
		reply_error(reply, 400, "bad-parameter", "The view %s has no rule %s.",
			    q->view->name, rule);
		return false;
	}
	return true;
}

static void trace_view_flame(struct trace_view_ask *q)
{
	const char *format = param_text(q->a, "format");

	trace_view_arg(q, "--to", format ? format : "speedscope");
	if (param_flag(q->a, "device"))
		trace_view_arg(q, "--device", NULL);
	if (param_text(q->a, "python") && !param_flag(q->a, "python"))
		trace_view_arg(q, "--no-python", NULL);
	if (param_text(q->a, "threads") && !param_flag(q->a, "threads"))
		trace_view_arg(q, "--no-threads", NULL);
}

/* ms as a time of the command line, ns to the digit. */
static void trace_view_time(struct trace_view_ask *q, const char *option, const char *ms)
{
	char text[48];
	double v;

	if (!ms || number_double(ms, &v) != 0)
		return;
	snprintf(text, sizeof(text), "%.6fms", v);
	trace_view_arg(q, option, text);
}

static void trace_view_line(struct trace_view_ask *q)
{
	bool one = param_text(q->a, "event");
	char number[32];

	snprintf(number, sizeof(number), "%" PRId64,
		 one ? param_int(q->a, "event", 0) : param_int(q->a, "events", TRACE_VIEW_EVENTS));
	trace_view_arg(q, one ? "--event" : "--events", number);
	trace_view_time(q, "--begin", param_text(q->a, "from"));
	trace_view_time(q, "--end", param_text(q->a, "to"));
}

static void trace_view_options(struct trace_view_ask *q)
{
	static const char *const plain[] = {"steps", "sheet", "sort", "by"};
	const char *rule = param_text(q->a, "rule"), *value;
	char option[32];
	size_t i;

	trace_view_arg(q, "lapse", NULL);
	trace_view_arg(q, "trace", NULL);
	trace_view_arg(q, q->view->sub, NULL);
	trace_view_arg(q, TRACE_VIEW_MEMORY, NULL);
	trace_view_arg(q, "--quiet", NULL);
	if (q->view->takes & TRACE_VIEW_SHEETS)
		trace_view_arg(q, "--json", NULL);
	if (q->view->takes & TRACE_VIEW_FLAME)
		trace_view_flame(q);
	if (q->view->takes & TRACE_VIEW_LINE)
		trace_view_line(q);
	for (i = 0; i < ARRAY_LEN(plain); i++) {
		value = param_text(q->a, plain[i]);
		snprintf(option, sizeof(option), "--%s", plain[i]);
		if (value)
			trace_view_arg(q, option, value);
	}
	if (param_flag(q->a, "points"))
		trace_view_arg(q, strcmp(q->view->sub, "queue") == 0 ? "--points" : "--timeline",
			       NULL);
	if (rule && strcmp(rule, "exact") != 0)
		trace_view_arg(q, strcmp(rule, "hta") == 0 ? "--hta" : "--plugin", NULL);
	trace_view_arg(q, "--", NULL);
}

static bool trace_view_file(struct trace_view_ask *q, const struct runview *v, const char *name,
			    struct http_reply *reply)
{
	bool folders = q->view->takes & TRACE_VIEW_SHEETS;
	char path[PATH_MAX], arg[PATH_MAX + 2];
	struct stat st;
	int fd = artifacts_open(v, name, folders, path, sizeof(path), &st);

	if (fd < 0) {
		reply_error(reply, 404, "no-such-file",
			    "The run has no file %.200s that is given; .../artifacts lists them.",
			    name);
		return false;
	}
	close(fd);
	/* A name never looks like an option. */
	snprintf(arg, sizeof(arg), "%s%s", path[0] == '/' ? "" : "./", path);
	trace_view_arg(q, arg, NULL);
	buf_printf(&q->key, "%llx %lld %lld.%09ld;", (unsigned long long)st.st_ino,
		   (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	return true;
}

static bool trace_view_files(struct trace_view_ask *q, const struct runview *v,
			     struct http_reply *reply)
{
	const char *more;
	size_t i;

	if (!trace_view_file(q, v, q->a->args[2], reply))
		return false;
	for (i = 0; (more = param_nth(q->a, "with", i)); i++) {
		if (i == TRACE_VIEW_WITH) {
			reply_error(reply, 400, "bad-parameter",
				    "with is there more than %u times.", TRACE_VIEW_WITH);
			return false;
		}
		if (!trace_view_file(q, v, more, reply))
			return false;
	}
	return true;
}

/* ---- the answer ---------------------------------------------------------------------- */

static void trace_view_type(const struct trace_view_ask *q, struct http_reply *reply)
{
	const char *format = param_text(q->a, "format");

	reply->type = "application/json";
	if ((q->view->takes & TRACE_VIEW_LINE) && !param_text(q->a, "event"))
		reply->type = "application/vnd.lapse.timeline";
	if (format && strcmp(format, "folded") == 0)
		reply->type = "text/plain; charset=utf-8";
	if (format && strcmp(format, "svg") == 0) {
		reply->type = "image/svg+xml";
		http_header(reply, "Content-Disposition", "attachment; filename=\"flame.svg\"");
	}
}

static void trace_view_busy(struct http_reply *reply, const char *what, const char *more)
{
	reply_error(reply, 503, "busy", "%s: %s.", what, more);
	http_header(reply, "Retry-After", TRACE_VIEW_AGAIN_S);
}

/* The program ended before it could say anything of the file. */
static void trace_view_broke(const struct trace_view_ask *q, int status, struct http_reply *reply)
{
	int sig = status - CHILDRUN_SIGNALLED;

	if (sig > 0)
		reply_error(reply, 500, "trace-failed",
			    "lapse trace %s was ended by signal %d (%s). It will be again unless "
			    "the file changes%s.",
			    q->view->sub, sig, strsignal(sig),
			    sig == SIGKILL ? ", or there is more memory" : "");
	else
		reply_error(reply, 500, "trace-failed", "lapse trace %s could not begin: its %s.",
			    q->view->sub,
			    status == CHILDRUN_NO_FOLDER ? "folder cannot be entered"
							 : "program cannot be run");
}

static void trace_view_failed(const struct trace_view_ask *q, int r, int status, const char *said,
			      struct http_reply *reply)
{
	if (r == -ETIMEDOUT)
		reply_error(reply, 504, "too-slow",
			    "lapse trace %s took more than 60 s; ask for some steps, or run it "
			    "in a terminal.",
			    q->view->sub);
	else if (r == -EFBIG)
		reply_error(reply, 413, "too-large",
			    "The answer has more than %u MiB; ask for some steps or one sheet.",
			    TRACE_VIEW_MAX >> 20);
	else if (r)
		trace_view_busy(reply, "lapse trace could not be run", strerror(-r));
	else if (status >= CHILDRUN_NO_FOLDER)
		trace_view_broke(q, status, reply);
	else
		reply_error(reply, 422, "no-trace", "%.600s", *said ? said : "It is no trace.");
}

/* JSON is an answer whatever the status: findings give 1. */
static bool trace_view_is_good(const struct trace_view_ask *q, int status, const struct buf *out)
{
	if (q->view->takes & TRACE_VIEW_SHEETS)
		return status <= 1 && out->len > 0 && out->data[0] == '{';
	return status == 0;
}

/* Nobody waits for it any more. */
static bool trace_view_is_off(const void *arg)
{
	const struct trace_view_ask *q = arg;

	return atomic_load(&q->state->stop) || http_is_gone(q->a->request);
}

static void trace_view_run(const struct trace_view_ask *q, struct http_reply *reply)
{
	const struct answercache_wait wait = {TRACE_VIEW_NS, trace_view_is_off, q};
	struct answercache *cache = q->state->cache;
	const char *program = server_asked(q->a->server)->program;
	struct childrun child = {
		.program = program ? program : "/proc/self/exe",
		.argv = (const char *const *)q->args,
		.dir = q->dir,
		.limit_ns = TRACE_VIEW_NS,
		.memory = TRACE_VIEW_SPACE,
		.is_off = trace_view_is_off,
		.arg = q,
	};
	enum answercache_found found;
	int status = 0, r;
	char said[1024];

	reply->body.max = TRACE_VIEW_MAX;
	found = answercache_get(cache, buf_str(&q->key), &wait, &reply->body);
	if (found == ANSWERCACHE_BUSY) {
		trace_view_busy(reply, "Other traces are being read", "ask again");
	} else if (found == ANSWERCACHE_MAKE) {
		r = childrun(&child, &reply->body, said, sizeof(said), &status);
		if (!r && !trace_view_is_good(q, status, &reply->body))
			r = -EBADMSG;
		answercache_put(cache, buf_str(&q->key), r ? NULL : &reply->body);
		if (r) {
			trace_view_failed(q, r == -EBADMSG ? 0 : r, status, said, reply);
			return;
		}
	}
	if (found != ANSWERCACHE_BUSY)
		trace_view_type(q, reply);
}

static void trace_view_answer(const struct route_ask *a, struct http_reply *reply)
{
	struct trace_view_ask q = {.a = a, .state = server_part(a->server, &trace_view_part)};
	struct server_run *run;
	bool good;

	buf_init(&q.key, 1u << 20);
	if (!trace_view_find(&q, reply) || !trace_view_check_event(&q, reply) ||
	    !trace_view_check(&q, reply))
		return;
	run = server_take_run(a->server, a->args[0], reply);
	if (!run)
		return;
	snprintf(q.dir, sizeof(q.dir), "%s", run->v.dir);
	buf_printf(&q.key, "%s;", run->v.dir);
	trace_view_options(&q);
	good = trace_view_files(&q, &run->v, reply);
	server_give_run(a->server, run);
	if (good) {
		snprintf(reply->etag, sizeof(reply->etag), "W/\"%016" PRIx64 "\"",
			 map_hash(buf_str(&q.key), q.key.len));
		if (!http_knows(a->request, reply->etag))
			trace_view_run(&q, reply);
	}
	trace_view_ask_done(&q);
}

static const struct param trace_params[] = {
	{.name = "with",
	 .hi = 1024,
	 .is_many = true,
	 .help = "Another file of the same job; at most 64. Not of flame and timeline."},
	{.name = "steps", .hi = 64, .help = "FROM:TO, only what begins in these profiler steps."},
	{.name = "sheet", .hi = 64, .help = "Only this table."},
	{.name = "sort", .hi = 64, .help = "Of top: key of key_averages() to sort by."},
	{.name = "by",
	 .type = PARAM_CHOICE,
	 .choices = "shape|stack|shape,stack",
	 .help = "Of top: a row for each shape, stack, or both."},
	{.name = "rule",
	 .type = PARAM_CHOICE,
	 .choices = "exact|hta|plugin",
	 .help = "Whose numbers; default exact."},
	{.name = "points",
	 .type = PARAM_FLAG,
	 .help = "Of memory, gpu and queue: the values over time too."},
	{.name = "format",
	 .type = PARAM_CHOICE,
	 .choices = "speedscope|folded|svg",
	 .help = "Of flame; default speedscope."},
	{.name = "device",
	 .type = PARAM_FLAG,
	 .help = "Of flame: time of the devices by launch; default of the host."},
	{.name = "python", .type = PARAM_FLAG, .help = "Of flame: Python frames; default 1."},
	{.name = "threads", .type = PARAM_FLAG, .help = "Of flame: by thread; default 1."},
	{.name = "from", .hi = 32, .help = "Of timeline: ms since the trace's first event."},
	{.name = "to", .hi = 32, .help = "Of timeline: ms since the trace's first event."},
	{.name = "events",
	 .type = PARAM_INT,
	 .lo = 1000,
	 .hi = 1000000,
	 .help = "Of timeline: at most so many bars; default 200000."},
	{.name = "event",
	 .type = PARAM_INT,
	 .lo = 0,
	 .hi = UINT32_MAX,
	 .help = "Of timeline: instead, all about the event at this place of traceEvents; goes "
		 "with nothing else."},
	{0},
};

const struct route route_trace[] = {
	{"GET", "/api/v1/runs/{run}/trace/{view}/{name...}",
	 "A view of a trace, as `lapse trace VIEW --json` prints it", trace_params,
	 trace_view_answer},
	{0},
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_run.c - see hub_run.h: a commit writes to a file, so a look at sizes and times says
 * whether there is something to read. It is read with a cursor of the store's.
 */
#include "server/hub_run.h"

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/now.h"
#include "report/runview.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define HUB_RUN_LIST_NS 10000000000LL    /* between two looks into the folder, if it is as it was */
#define HUB_RUN_ENDING_NS 250000000LL    /* the same when the run is about to end */
#define HUB_RUN_WRITER_NS 30000000000LL  /* that a writer may stay after the end */
#define HUB_RUN_CHANGED_MAX (256u << 10) /* bytes of processes; more: none are told */
#define HUB_RUN_SHOWN 8000u   /* points and buckets of a step, about; more: fewer a series */
#define HUB_RUN_TURN 1000000u /* points of a step */

struct hub_process {
	char *host; /* owned */
	uint32_t id;
	int64_t pid;
	uint64_t stamp; /* of what is told of it */
};

struct hub_run *hub_run_new(const char *id, const char *dir, uint64_t seq)
{
	struct hub_run *r = xcalloc(1, sizeof(*r));

	snprintf(r->id, sizeof(r->id), "%s", id);
	snprintf(r->dir, sizeof(r->dir), "%s", dir);
	snprintf(r->state, sizeof(r->state), "running");
	hub_ring_init(&r->ring, seq);
	r->step = SINK_STEP_NONE;
	r->per_series = HUB_POINTS;
	r->is_due = true;
	buf_init(&r->changed, HUB_RUN_CHANGED_MAX);
	return r;
}

static void hub_run_forget_files(struct hub_run *r)
{
	size_t i;

	for (i = 0; r->paths && r->paths[i]; i++)
		free(r->paths[i]);
	free(r->paths);
	free(r->files);
	r->paths = NULL;
	r->files = NULL;
}

void hub_run_rest(struct hub_run *r)
{
	store_reader_close(r->reader);
	r->reader = NULL;
}

void hub_run_free(struct hub_run *r)
{
	size_t i;

	hub_run_rest(r);
	hub_run_forget_files(r);
	store_cursor_free(r->cursor);
	hub_ring_done(&r->ring);
	for (i = 0; i < r->n_processes; i++)
		free(r->processes[i].host);
	buf_done(&r->changed);
	free(r->processes);
	free(r);
}

/* ---- files ---------------------------------------------------------------------------------- */

uint64_t hub_stamp(const char *path)
{
	struct stat st;
	uint64_t v[5];

	if (stat(path, &st))
		return 0;
	v[0] = (uint64_t)st.st_ino;
	v[1] = (uint64_t)st.st_size;
	v[2] = (uint64_t)st.st_mtim.tv_sec;
	v[3] = (uint64_t)st.st_mtim.tv_nsec;
	v[4] = (uint64_t)st.st_dev;
	return map_hash(v, sizeof(v)) | 1;
}

static uint64_t hub_run_stamp(const struct hub_run *r)
{
	uint64_t stamp = 0;
	char log[4200];
	size_t i;

	for (i = 0; r->paths && r->paths[i]; i++) {
		snprintf(log, sizeof(log), "%s-wal", r->paths[i]);
		stamp = stamp * 31 + hub_stamp(r->paths[i]);
		stamp = stamp * 31 + hub_stamp(log);
	}
	snprintf(log, sizeof(log), "%s/alerts.ack", r->dir);
	return stamp * 31 + hub_stamp(log);
}

struct hub_run_list {
	struct buf names;
	char **paths;
	size_t n, cap;
	bool is_live;
};

static int hub_run_file(void *arg, const struct store_file *f)
{
	struct hub_run_list *l = arg;

	if (f->is_aside)
		return 0;
	l->is_live = l->is_live || f->is_live;
	if (!f->path)
		return 0;
	buf_printf(&l->names, "%s/", f->name);
	l->paths = xgrow(l->paths, l->n, &l->cap, sizeof(*l->paths));
	l->paths[l->n++] = xstrdup(f->path);
	return 0;
}

/* Which files there are, and whether somebody writes. Another host's file needs a new
 * reader; the cursor knows hosts by name. */
static int hub_run_list(struct hub_run *r, int64_t now_ns, struct err *e)
{
	struct hub_run_list l = {0};
	int err;

	buf_init(&l.names, 1u << 20);
	err = store_files(r->dir, hub_run_file, &l, e);
	l.paths = xgrow(l.paths, l.n, &l.cap, sizeof(*l.paths));
	l.paths[l.n] = NULL;
	if (r->reader && r->files && strcmp(r->files, buf_str(&l.names)) != 0) {
		store_reader_close(r->reader);
		r->reader = NULL;
		r->is_due = true;
	}
	hub_run_forget_files(r);
	r->paths = l.paths;
	r->files = xstrdup(buf_str(&l.names));
	r->is_due = r->is_due || r->is_live != l.is_live;
	r->is_live = l.is_live;
	r->list_ns = now_ns;
	buf_done(&l.names);
	return err;
}

bool hub_run_look(struct hub_run *r, int64_t now_ns)
{
	bool is_ending = r->end_ns && !r->is_ended;
	uint64_t dir = hub_stamp(r->dir), stamp;

	if (dir != r->dir_stamp || !r->list_ns ||
	    now_ns - r->list_ns > (is_ending ? HUB_RUN_ENDING_NS : HUB_RUN_LIST_NS)) {
		/* Once more before it is believed that nothing happens any more. */
		r->is_due = r->is_due || dir != r->dir_stamp || is_ending ||
			    (r->is_live && now_ns - r->step_ns > HUB_RUN_LIST_NS);
		r->dir_stamp = dir;
		hub_run_list(r, now_ns, NULL);
	}
	stamp = hub_run_stamp(r);
	r->is_due = r->is_due || stamp != r->stamp;
	r->stamp = stamp;
	return r->is_due;
}

/* ---- processes ---------------------------------------------------------------------------------
 */

static struct hub_process *hub_run_find(const struct hub_run *r, const char *host, uint32_t id)
{
	size_t i;

	for (i = 0; i < r->n_processes; i++)
		if (r->processes[i].id == id && !strcmp(r->processes[i].host, host))
			return &r->processes[i];
	return NULL;
}

static uint64_t hub_process_stamp(const struct store_process *p)
{
	const int64_t v[] = {p->pid, p->rank, p->start_ns, p->end_ns};

	return map_hash(v, sizeof(v)) * 3 + map_hash(p->role, strlen(p->role)) * 5 +
	       map_hash(p->program, strlen(p->program));
}

static int hub_run_process(void *arg, const struct store_process *s)
{
	struct hub_run *r = arg;
	struct hub_process *p = hub_run_find(r, s->host_name, s->id);
	uint64_t stamp = hub_process_stamp(s);
	struct json j;

	if (p && p->stamp == stamp)
		return 0;
	if (!p) {
		r->processes = xgrow(r->processes, r->n_processes, &r->cap_processes,
				     sizeof(*r->processes));
		p = &r->processes[r->n_processes++];
		*p = (struct hub_process){.host = xstrdup(s->host_name), .id = s->id};
	}
	p->pid = s->pid;
	p->stamp = stamp;
	if (r->changed.len)
		buf_putc(&r->changed, ',');
	json_init(&j, &r->changed);
	runview_json_process(&j, s);
	return 0;
}

/* Those that have changed since they were told. */
static void hub_put_processes(struct hub_run *r, struct json *j)
{
	json_key(j, "processes");
	json_array(j);
	if (!r->changed.error && r->changed.len)
		json_raw(j, buf_str(&r->changed));
	json_array_end(j);
	buf_reset(&r->changed);
}

/* ---- one step
 * ------------------------------------------------------------------------------------ */

/* A call of store_reader_newer(). */
struct hub_step {
	struct hub_run *r;
	struct hub_batch *batch;
	struct hub_points points;
	bool has_series; /* the event `series` is open */
};

static void hub_step_series_end(struct hub_step *s)
{
	if (s->has_series) {
		json_array_end(&s->batch->json);
		hub_batch_end(s->batch);
	}
	s->has_series = false;
}

static int hub_step_process(void *arg, const struct store_process *p)
{
	return hub_run_process(((struct hub_step *)arg)->r, p);
}

static int hub_step_series(void *arg, const struct store_series *series)
{
	struct hub_step *s = arg;
	const struct hub_process *p = hub_run_find(s->r, series->host_name, series->process);
	struct json *j = &s->batch->json;
	size_t at = s->batch->marks && s->has_series ? s->batch->marks[s->batch->n].at : 0;

	if (s->has_series && s->batch->bytes.len - at > HUB_EVENT_MAX)
		hub_step_series_end(s);
	if (!s->has_series) {
		j = hub_batch_begin(s->batch, "series");
		json_key(j, "series");
		json_array(j);
	}
	s->has_series = true;
	json_object(j);
	hub_put_series(j, series, p ? p->pid : 0);
	json_object_end(j);
	return 0;
}

static int hub_step_point(void *arg, const struct store_series *series, const struct store_point *p)
{
	struct hub_step *s = arg;

	hub_step_series_end(s);
	hub_points_add(&s->points, series, p);
	return 0;
}

static int hub_step_event(void *arg, const struct store_event *e)
{
	struct hub_step *s = arg;
	const char *host = store_reader_file(s->r->reader, e->host);
	size_t n = strlen(host);
	char *name = xstrndup(host, n > 3 ? n - 3 : n); /* without ".db" */

	hub_step_series_end(s);
	hub_put_event(hub_batch_begin(s->batch, strcmp(e->kind, "alert") ? "event" : "alert"), e,
		      name);
	hub_batch_end(s->batch);
	free(name);
	return 0;
}

static const struct store_newer hub_step_newer = {.process = hub_step_process,
						  .series = hub_step_series,
						  .point = hub_step_point,
						  .event = hub_step_event};

static int hub_run_open(struct hub_run *r, struct err *e)
{
	struct store_cursor *c;
	int err = r->reader ? 0 : store_reader_open(r->dir, e, &r->reader);

	if (err || r->cursor)
		return err;
	c = store_cursor_new();
	err = store_reader_skip(r->reader, c, e);
	if (err)
		store_cursor_free(c);
	else
		r->cursor = c;
	return err;
}

/* What a series may have in the next step, after one that showed so much. */
static size_t hub_run_share(size_t most, size_t shown)
{
	if (shown > HUB_RUN_SHOWN)
		most = most / 2 & ~(size_t)1;
	else if (shown < HUB_RUN_SHOWN / 3)
		most *= 2;
	return most > HUB_POINTS ? HUB_POINTS : most < 2 ? 2 : most;
}

static int hub_run_read(struct hub_run *r, struct hub_batch *batch, struct err *e)
{
	struct hub_step s = {.r = r, .batch = batch};
	int more;

	hub_points_init(&s.points, batch, r->per_series);
	more = store_reader_newer(r->reader, r->cursor, &hub_step_newer, &s, HUB_RUN_TURN, e);
	hub_step_series_end(&s);
	hub_points_done(&s.points);
	r->per_series = hub_run_share(r->per_series, s.points.shown);
	if (s.points.step > r->step)
		r->step = s.points.step;
	return more;
}

static void hub_run_tell(struct hub_run *r, struct hub_batch *batch, const struct store_run *run)
{
	struct json *j = hub_batch_begin(batch, "run");

	json_kstr(j, "state", r->state);
	json_kbool(j, "is_live", r->is_live);
	runview_json_time(j, "end", r->end_ns);
	json_kstr(j, "name", run->name);
	json_kstr(j, "tags", run->tags);
	runview_json_step(j, "step", r->step);
	json_kuint(j, "stored", r->stored);
	json_kuint(j, "dropped", r->dropped);
	hub_put_processes(r, j);
	hub_batch_end(batch);
}

static int hub_run_count(void *arg, const struct store_process *s)
{
	struct hub_run *r = arg;

	r->stored += s->stored;
	r->dropped += s->dropped;
	return hub_run_process(r, s);
}

/* What is known of the run; *ret_is_new: it is not what it was. */
static int hub_run_state(struct hub_run *r, struct store_run *run, struct err *e, bool *ret_is_new)
{
	uint64_t stored = r->stored, dropped = r->dropped, edit;
	char room[FMT_MAX], state[FMT_MAX];
	int err = store_reader_run(r->reader, run, e);

	r->stored = r->dropped = 0;
	if (!err)
		err = store_reader_processes(r->reader, hub_run_count, r, e);
	if (err)
		return err;
	snprintf(state, sizeof(state), "%s", runview_outcome(room, run));
	edit = map_hash(run->name, strlen(run->name)) * 3 +
	       map_hash(run->tags, strlen(run->tags)) * 5 +
	       map_hash(run->notes, strlen(run->notes));
	*ret_is_new = strcmp(state, r->state) != 0 || run->end_ns != r->end_ns || edit != r->edit ||
		      stored != r->stored || dropped != r->dropped;
	snprintf(r->state, sizeof(r->state), "%s", state);
	r->start_ns = run->start_ns;
	r->end_ns = run->end_ns;
	r->edit = edit;
	return 0;
}

static void hub_run_acks(struct hub_run *r, struct hub_batch *batch, bool is_quiet)
{
	char *path = xasprintf("%s/alerts.ack", r->dir);
	uint64_t acks = hub_stamp(path);

	if (acks != r->acks && !is_quiet) {
		json_kstr(hub_batch_begin(batch, "alert"), "kind", "acknowledged");
		hub_batch_end(batch);
	}
	r->acks = acks;
	free(path);
}

/* Its end is stored, nobody writes any more, all has been read. */
static void hub_run_end(struct hub_run *r, struct hub_batch *batch, int64_t now_ns)
{
	if (!r->end_ns) {
		r->is_ended = false; /* it was taken up again */
		r->end_seen_ns = 0;
		return;
	}
	if (!r->end_seen_ns)
		r->end_seen_ns = now_ns;
	if (r->is_ended || (r->is_live && now_ns - r->end_seen_ns < HUB_RUN_WRITER_NS))
		return;
	r->is_ended = true;
	hub_run_put_end(r, hub_batch_begin(batch, "end"));
	hub_batch_end(batch);
	r->end_seq = batch->seq;
}

/* Its folder is gone. */
static int hub_run_gone(struct hub_run *r, struct hub_batch *batch)
{
	hub_run_rest(r);
	snprintf(r->state, sizeof(r->state), "deleted");
	r->is_live = false;
	r->is_due = false;
	if (!r->is_ended) {
		r->is_ended = true;
		hub_run_put_end(r, hub_batch_begin(batch, "end"));
		hub_batch_end(batch);
		r->end_seq = batch->seq;
	}
	return 0;
}

/* Read state and points; *ret_more: there are more. */
static int hub_run_news(struct hub_run *r, struct hub_batch *batch, struct err *e, bool *ret_more)
{
	bool is_first = !r->cursor, is_new = false;
	struct store_run run;
	int more = 0, err = hub_run_open(r, e);

	if (!err)
		err = hub_run_state(r, &run, e, &is_new);
	if (!err && !is_first) {
		more = hub_run_read(r, batch, e);
		err = more < 0 ? more : 0;
	}
	if (!err && !is_first && is_new)
		hub_run_tell(r, batch, &run);
	if (is_first)
		buf_reset(&r->changed); /* clients ask for what was there before */
	*ret_more = more > 0;
	return err;
}

int hub_run_step(struct hub_run *r, struct hub_batch *batch, int64_t now_ns, struct err *e)
{
	bool is_first = !r->cursor, more = false;
	int err;

	r->step_ns = now_ns;
	err = hub_run_list(r, now_ns, e);
	if (err == -ENOENT && r->cursor)
		return hub_run_gone(r, batch);
	r->is_due = false;
	r->stamp = hub_run_stamp(r); /* before it is read: what comes meanwhile is seen later */
	if (!err)
		err = hub_run_news(r, batch, e, &more);
	if (err) {
		r->is_due = true;
		if (!r->has_failed)
			log_warn("live updates of %s: %s", r->id, e->text);
		r->has_failed = true;
		hub_run_rest(r);
		return err;
	}
	r->has_failed = false;
	hub_run_acks(r, batch, is_first);
	r->is_due = more;
	if (more)
		return 1;
	hub_run_end(r, batch, now_ns);
	hub_run_rest(r); /* an open reader would keep the writer from leaving one plain file */
	return 0;
}

/* ---- what a client is told ------------------------------------------------------------ */

void hub_run_put_hello(const struct hub_run *r, struct json *j, int64_t refresh_ns, bool is_resumed)
{
	json_kstr(j, "state", r->state);
	json_kbool(j, "is_live", r->is_live);
	runview_json_time(j, "start", r->start_ns);
	runview_json_time(j, "end", r->end_ns);
	json_kint(j, "time_ms", now_read(CLOCK_REALTIME) / 1000000);
	json_kint(j, "refresh_ms", refresh_ns / 1000000);
	json_kbool(j, "is_resumed", is_resumed);
}

void hub_run_put_end(const struct hub_run *r, struct json *j)
{
	json_kstr(j, "state", r->state);
	runview_json_time(j, "end", r->end_ns);
}

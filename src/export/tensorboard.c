/* SPDX-License-Identifier: Apache-2.0
 *
 * tensorboard.c - TensorBoard event files: which process goes into which folder,
 * which series is which tag. docs/export.md has the mapping.
 */
#include "export/exporter.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "export/tensorboard_priv.h"

#define TENSORBOARD_PROCESSES_MAX (1u << 20)
#define TENSORBOARD_TEXT_MAX 16384 /* bytes of a string in the state */
#define TENSORBOARD_FOLDER_MAX 600 /* bytes of a folder's name */

/* A process, and the folder that it got with its first point, for good. */
struct tensorboard_process {
	char *host, *role; /* owned */
	uint32_t id;
	int64_t pid, rank;
	char *folder; /* "" the root, NULL none yet; owned */
};

struct tensorboard {
	struct exporter *x;
	struct tbtags tags;
	struct tensorboard_process *processes;
	size_t n_processes, cap_processes;
	char *host;        /* the first one seen; owned */
	int64_t start_ns;  /* of the run; 0 unknown */
	char *run, *hosts; /* its id; its hosts, comma-separated; owned */
	bool attrs_new;    /* attributes came in this walk */
	bool attrs_any;    /* they came at all */
	bool hparams;      /* were looked for */
	bool session;      /* ... and found and written */
	bool over;         /* the run's end is written */
	/* The tags of the series whose points come now: by step, by time. */
	uint64_t series;
	uint32_t by_step, by_time;
};

static void *tensorboard_create(struct exporter *x)
{
	struct tensorboard *t = xcalloc(1, sizeof(*t));

	t->x = x;
	tbtags_init(&t->tags);
	return t;
}

static void tensorboard_destroy(void *f)
{
	struct tensorboard *t = f;
	size_t i;

	for (i = 0; i < t->n_processes; i++) {
		free(t->processes[i].host);
		free(t->processes[i].role);
		free(t->processes[i].folder);
	}
	free(t->processes);
	free(t->host);
	free(t->run);
	free(t->hosts);
	tbtags_done(&t->tags);
	free(t);
}

static void tensorboard_begin(void *f, const struct store_run *run)
{
	struct tensorboard *t = f;

	free(t->run);
	free(t->hosts);
	t->run = xstrdup(run->id);
	t->hosts = xstrdup(run->hosts);
	t->start_ns = run->start_ns;
}

/* ---- folders and files ----------------------------------------------------------- */

static struct tensorboard_process *tensorboard_find(const struct tensorboard *t, const char *host,
						    uint32_t id)
{
	size_t i;

	for (i = 0; i < t->n_processes; i++)
		if (t->processes[i].id == id && strcmp(t->processes[i].host, host) == 0)
			return &t->processes[i];
	return NULL;
}

static int tensorboard_on_process(void *f, const struct store_process *p)
{
	struct tensorboard *t = f;
	struct tensorboard_process *q = tensorboard_find(t, p->host_name, p->id);

	if (!t->host)
		t->host = xstrdup(p->host_name);
	if (!q) {
		t->processes = xgrow(t->processes, t->n_processes, &t->cap_processes,
				     sizeof(*t->processes));
		q = &t->processes[t->n_processes++];
		*q = (struct tensorboard_process){.host = xstrdup(p->host_name), .id = p->id};
	}
	free(q->role);
	q->role = xstrdup(p->role);
	q->pid = p->pid;
	q->rank = p->rank;
	return 0;
}

/* Figures of machine and process tree have no steps: their axis is time. */
static bool tensorboard_is_machine(const struct tensorboard_process *p)
{
	return strcmp(p->role, "host") == 0 || strcmp(p->role, "command") == 0;
}

static bool tensorboard_is_taken(const struct tensorboard *t, const char *folder)
{
	size_t i;

	for (i = 0; i < t->n_processes; i++)
		if (t->processes[i].folder && strcmp(t->processes[i].folder, folder) == 0)
			return true;
	return false;
}

static bool tensorboard_has_rank0(const struct tensorboard *t)
{
	size_t i;

	for (i = 0; i < t->n_processes; i++)
		if (t->processes[i].rank == 0 && strcmp(t->processes[i].role, "trainer") == 0)
			return true;
	return false;
}

static void tensorboard_name_folder(struct tensorboard *t, const struct tensorboard_process *p,
				    char *out, size_t cap)
{
	bool other = t->host && strcmp(t->host, p->host) != 0;
	bool trainer = strcmp(p->role, "trainer") == 0;
	/* The main process, or without ranks the first one. */
	bool root = trainer && (p->rank == 0 || (p->rank < 0 && !tensorboard_has_rank0(t) &&
						 !tensorboard_is_taken(t, "")));

	if (tensorboard_is_machine(p))
		snprintf(out, cap, "host%s%s", other ? "_" : "", other ? p->host : "");
	else if (root)
		out[0] = '\0';
	else if (trainer && p->rank > 0)
		snprintf(out, cap, "rank_%" PRId64, p->rank);
	else
		snprintf(out, cap, "%s%s%s_%" PRId64, p->role, other ? "_" : "",
			 other ? p->host : "", p->pid);
}

/* What a file system and a URL take as it is. */
static void tensorboard_clean(char *name)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_-";

	for (; *name; name++)
		if (!strchr(good, *name))
			*name = '_';
}

/* The file of a folder; its first record is written with the first step. */
static unsigned tensorboard_file(struct tensorboard *t, const char *folder)
{
	char *name = xasprintf("%s%sevents.out.tfevents.%010lld.%s", folder, folder[0] ? "/" : "",
			       (long long)(t->start_ns / 1000000000), t->run);
	unsigned file = exporter_file(t->x, name);

	free(name);
	if (exporter_size(t->x, file) == 0 && exporter_out(t->x, file)->len == 0)
		tbevent_version(exporter_out(t->x, file), t->start_ns);
	return file;
}

static unsigned tensorboard_process_file(struct tensorboard *t, struct tensorboard_process *p)
{
	char folder[TENSORBOARD_FOLDER_MAX];

	if (p && !p->folder) {
		tensorboard_name_folder(t, p, folder, sizeof(folder));
		tensorboard_clean(folder);
		p->folder = xstrdup(folder);
	}
	return tensorboard_file(t, p ? p->folder : "");
}

/* ---- series ------------------------------------------------------------------------ */

static enum tbtag_join tensorboard_join(enum sink_kind kind)
{
	static const enum tbtag_join joins[] = {[SINK_GAUGE] = TBTAG_LAST,
						[SINK_COUNTER] = TBTAG_TOTAL,
						[SINK_HISTOGRAM] = TBTAG_HIST,
						[SINK_SPAN] = TBTAG_SUM};

	return (size_t)kind < ARRAY_LEN(joins) && joins[kind] ? joins[kind] : TBTAG_LAST;
}

static char *tensorboard_about(const struct store_series *s)
{
	bool span = s->kind == SINK_SPAN;
	const char *unit = span ? "ms" : s->unit;

	return xasprintf("%s%s%s%s%s", span ? "time in it, in a step" : s->help,
			 (span || s->help[0]) && unit[0] ? " " : "", unit[0] ? "[" : "", unit,
			 unit[0] ? "]" : "");
}

/* by_time: for points without a step. */
static uint32_t tensorboard_tag(struct tensorboard *t, const struct store_series *s, bool by_time)
{
	struct tensorboard_process *p = tensorboard_find(t, s->host_name, s->process);
	bool span = s->kind == SINK_SPAN, labels = s->labels[0] != '\0';
	bool prefix = by_time && !(p && tensorboard_is_machine(p));
	char *about = tensorboard_about(s);
	char *name =
		xasprintf("%s%s%s%s%s%s%s", prefix ? "seconds/" : "", span ? "phase/" : "", s->name,
			  span ? "_ms" : "", labels ? "{" : "", s->labels, labels ? "}" : "");
	uint32_t tag;

	utf8_clean(name, strlen(name));
	utf8_clean(about, strlen(about));
	tag = tbtags_find(&t->tags, tensorboard_process_file(t, p), name, tensorboard_join(s->kind),
			  about);
	free(name);
	free(about);
	return tag;
}

/* Whole seconds since the run began. */
static int64_t tensorboard_second(const struct tensorboard *t, int64_t time_ns)
{
	return time_ns > t->start_ns ? (time_ns - t->start_ns) / 1000000000 : 0;
}

static uint64_t tensorboard_owner(const struct store_series *s)
{
	return (map_hash(s->host_name, strlen(s->host_name)) << 32 ^ s->id) << 12;
}

static int tensorboard_on_point(void *f, const struct store_series *s, const struct store_point *p)
{
	struct tensorboard *t = f;
	uint64_t series = tensorboard_owner(s);
	bool by_time = p->step == SINK_STEP_NONE;
	uint32_t *tag = by_time ? &t->by_time : &t->by_step;
	struct tbpoint point = {.owner = series + p->segment,
				.step = p->step,
				.time_ns = p->time_ns,
				.value = p->value,
				.hist = p->hist};

	if (series != t->series) {
		t->series = series;
		t->by_time = t->by_step = UINT32_MAX;
	}
	exporter_count(t->x);
	if (s->kind == SINK_SPAN) {
		point.time_ns += p->value > 0 && p->value < 1e18 ? (int64_t)p->value : 0;
		point.value /= 1e6;
	}
	if (p->hist && p->hist->count == 0)
		return 0; /* only NaN: there is nothing to draw */
	if (by_time) {
		point.step = tensorboard_second(t, point.time_ns);
		point.owner = series;
	}
	if (*tag == UINT32_MAX)
		*tag = tensorboard_tag(t, s, by_time);
	if (*tag == UINT32_MAX)
		return -ENOSPC;
	tbtags_add(&t->tags, *tag, &point);
	return 0;
}

static int tensorboard_on_lost(void *f, const struct store_series *s, uint64_t n)
{
	struct tensorboard *t = f;

	(void)s;
	t->tags.late += n;
	return 0;
}

/* ---- events, attributes, texts ------------------------------------------------------- */

/* Who an event is of, "trainer 0 on node1"; "" the run. */
static void tensorboard_who(const struct tensorboard *t, const struct store_event *e, char *out,
			    size_t cap)
{
	const char *host = t->hosts;
	const struct tensorboard_process *p;
	unsigned i;
	char *name;

	for (i = 0; i < e->host && *host; i++) {
		host = strchrnul(host, ',');
		host += *host == ',';
	}
	name = xstrndup(host, strcspn(host, ","));
	p = tensorboard_find(t, name, e->process);
	out[0] = '\0';
	if (p)
		snprintf(out, cap, "%s %" PRId64 " on %s", p->role, p->rank >= 0 ? p->rank : p->pid,
			 name);
	free(name);
}

static int tensorboard_on_event(void *f, const struct store_event *e)
{
	struct tensorboard *t = f;
	char who[TENSORBOARD_FOLDER_MAX];
	struct buf b;
	char *name;
	uint32_t tag;

	exporter_count(t->x);
	name = xasprintf("events/%s", e->kind[0] ? e->kind : "event");
	utf8_clean(name, strlen(name));
	tag = tbtags_find(&t->tags, tensorboard_file(t, ""), name, TBTAG_LINES, NULL);
	free(name);
	if (tag == UINT32_MAX)
		return -ENOSPC;
	buf_init(&b, TBTAGS_TEXT_MAX);
	tensorboard_who(t, e, who, sizeof(who));
	tbtext_event(&b, e, who);
	tbtags_add(&t->tags, tag,
		   &(struct tbpoint){.step = tensorboard_second(t, e->time_ns),
				     .time_ns = e->time_ns,
				     .text = buf_str(&b)});
	buf_done(&b);
	return 0;
}

static int tensorboard_on_attr(void *f, unsigned host, uint32_t process, const char *key,
			       const char *value)
{
	struct tensorboard *t = f;

	(void)host;
	(void)process;
	(void)key;
	(void)value;
	t->attrs_new = t->attrs_any = true;
	return 0;
}

static void tensorboard_hparams_event(struct tensorboard *t, const char *tag, const struct buf *b,
				      int64_t time_ns)
{
	struct tbevent_value v = {.tag = tag,
				  .kind = TBEVENT_HPARAMS,
				  .first = true,
				  .data = buf_str(b),
				  .len = b->len};

	tbevent_append(exporter_out(t->x, tensorboard_file(t, "")), &t->tags.scratch, time_ns, 0,
		       &v, 1);
}

/* Once: readers take the first there is. So not while attributes still come. */
static int tensorboard_hparams(struct tensorboard *t, struct store_reader *r,
			       const struct store_run *run, bool ended, struct err *e)
{
	struct buf b;
	int err = 0;

	buf_init(&b, TBTAGS_TEXT_MAX);
	if (!t->hparams && t->attrs_any && (!t->attrs_new || ended)) {
		err = tbtext_hparams(&b, r, run, e);
		t->hparams = true;
		t->session = !err && b.len;
		if (t->session)
			tensorboard_hparams_event(t, "_hparams_/session_start_info", &b,
						  run->start_ns);
	}
	if (!err && ended && !t->over && t->session) {
		buf_reset(&b);
		tbtext_hparams_end(&b, run);
		tensorboard_hparams_event(t, "_hparams_/session_end_info", &b, run->end_ns);
	}
	buf_done(&b);
	return err;
}

static int tensorboard_texts(struct tensorboard *t, struct store_reader *r,
			     const struct store_run *run, struct err *e)
{
	unsigned file = tensorboard_file(t, "");
	struct buf b;
	int err = 0;

	buf_init(&b, TBTAGS_TEXT_MAX);
	tbtext_run(&b, run, t->tags.late);
	tbtags_set_text(&t->tags, tbtags_find(&t->tags, file, "run", TBTAG_TEXT, NULL),
			run->start_ns, buf_str(&b));
	if (t->attrs_new) {
		buf_reset(&b);
		err = tbtext_attrs(&b, r, e);
		if (!err)
			tbtags_set_text(&t->tags,
					tbtags_find(&t->tags, file, "attributes", TBTAG_TEXT, NULL),
					run->start_ns, buf_str(&b));
	}
	buf_done(&b);
	return err;
}

static int tensorboard_flush(void *f, struct store_reader *r, const struct store_run *run,
			     bool ended, struct err *e)
{
	struct tensorboard *t = f;
	int err = tensorboard_texts(t, r, run, e);

	if (!err)
		err = tensorboard_hparams(t, r, run, ended, e);
	if (err)
		return err;
	tbtags_flush(&t->tags, t->x);
	t->attrs_new = false;
	t->over = t->over || ended;
	t->series = 0;
	return 0;
}

/* ---- state ------------------------------------------------------------------------- */

static void tensorboard_put(struct buf *b, const char *s)
{
	buf_uvarint(b, strlen(s));
	buf_puts(b, s);
}

/* A string, or NULL and c->error set. */
static char *tensorboard_get(struct cur *c)
{
	uint64_t len = cur_uvarint(c);
	const char *p = len <= TENSORBOARD_TEXT_MAX ? cur_bytes(c, (size_t)len) : NULL;

	if (!p || memchr(p, '\0', (size_t)len)) {
		c->error = -EBADMSG;
		return NULL;
	}
	return xstrndup(p, (size_t)len);
}

static void tensorboard_save(const void *f, struct buf *b)
{
	const struct tensorboard *t = f;
	size_t i;

	tensorboard_put(b, t->host ? t->host : "");
	buf_putc(b, (char)(t->attrs_any | t->hparams << 1 | t->over << 2 | t->session << 3));
	buf_uvarint(b, t->n_processes);
	for (i = 0; i < t->n_processes; i++) {
		const struct tensorboard_process *p = &t->processes[i];

		tensorboard_put(b, p->host);
		tensorboard_put(b, p->role);
		buf_uvarint(b, p->id);
		buf_svarint(b, p->pid);
		buf_svarint(b, p->rank);
		buf_putc(b, p->folder != NULL);
		if (p->folder)
			tensorboard_put(b, p->folder);
	}
	tbtags_save(&t->tags, b);
}

static void tensorboard_load_process(struct tensorboard *t, struct cur *c)
{
	const unsigned char *has;
	struct tensorboard_process *p;

	t->processes =
		xgrow(t->processes, t->n_processes, &t->cap_processes, sizeof(*t->processes));
	p = &t->processes[t->n_processes++];
	*p = (struct tensorboard_process){.host = tensorboard_get(c), .role = tensorboard_get(c)};
	p->id = (uint32_t)cur_uvarint(c);
	p->pid = cur_svarint(c);
	p->rank = cur_svarint(c);
	has = cur_bytes(c, 1);
	if (has && *has)
		p->folder = tensorboard_get(c);
}

static int tensorboard_load(void *f, struct cur *c)
{
	struct tensorboard *t = f;
	const unsigned char *flags;
	uint64_t n, i;

	t->host = tensorboard_get(c);
	flags = cur_bytes(c, 1);
	if (flags) {
		t->attrs_any = *flags & 1;
		t->hparams = *flags >> 1 & 1;
		t->over = *flags >> 2 & 1;
		t->session = *flags >> 3 & 1;
	}
	n = cur_uvarint(c);
	if (n > TENSORBOARD_PROCESSES_MAX)
		return -EUCLEAN;
	for (i = 0; i < n && !c->error; i++)
		tensorboard_load_process(t, c);
	return c->error ? -EUCLEAN : tbtags_load(&t->tags, c, exporter_files(t->x));
}

const struct exporter_ops tensorboard_ops = {
	.name = "tensorboard",
	.folder = true,
	.begin = tensorboard_begin,
	.newer = {.process = tensorboard_on_process,
		  .point = tensorboard_on_point,
		  .lost = tensorboard_on_lost,
		  .event = tensorboard_on_event,
		  .attr = tensorboard_on_attr},
	.create = tensorboard_create,
	.destroy = tensorboard_destroy,
	.save = tensorboard_save,
	.load = tensorboard_load,
	.flush = tensorboard_flush,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - threads that answer series of a query whose file is not in the page cache:
 * a disk that is asked for one page after the other takes ten times as long as one
 * that is asked for many at once.
 */
#include "base/mem.h"
#include "store/query_priv.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define CREW_COLD_BLOCKS 16 /* of 512 bytes: two pages; one may be missing by chance */
#define CREW_CACHE "PRAGMA cache_size=-256"
#define CREW_WARNING_MAX 4096u

enum crew_state {
	CREW_FREE,
	CREW_TAKEN,
	CREW_ANSWERED
};

/* A thread, and what it has open. */
struct crew_hand {
	struct crew *c;
	struct store_reader r; /* its decoders; no hosts */
	struct hosts_one h;
	struct query_host host;
	uint32_t file; /* host whose file it is */
	bool tried, is_open;
};

long crew_blocks(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_inblock : 0;
}

bool crew_takes(struct crew *c, size_t i)
{
	int expected = CREW_FREE;

	return atomic_compare_exchange_strong(&c->states[i], &expected, CREW_TAKEN);
}

void crew_answered(struct crew *c, size_t i)
{
	atomic_store(&c->states[i], CREW_ANSWERED);
}

static void crew_close(struct crew_hand *w)
{
	if (w->is_open)
		query_close(&w->host);
	axis_cache_done(&w->h.axes);
	sqlite3_close_v2(w->h.db);
	w->h = (struct hosts_one){0};
	w->is_open = false;
}

void crew_file_init(struct crew_file *f, const struct hosts_one *h)
{
	const char *name = sqlite3_db_filename(h->db, "main");

	*f = (struct crew_file){.frozen = h->frozen, .dev = h->dev, .ino = h->ino};
	if (name && *name) /* else a copy in memory */
		f->path = xstrndup(h->path, strlen(h->path));
}

void crew_file_done(struct crew_file *f)
{
	free(f->path);
	f->path = NULL;
}

/* Is it still the file that the reader has open? Another one has other series. */
static bool crew_is_same(const struct crew_file *f)
{
	struct stat st;

	return stat(f->path, &st) == 0 && st.st_dev == f->dev && st.st_ino == f->ino;
}

int crew_connect(const struct crew_file *f, struct err *e, sqlite3 **ret)
{
	struct buf told;
	sqlite3 *db = NULL;
	int r;

	if (!f->path)
		return -ENOENT;
	buf_init(&told, CREW_WARNING_MAX);
	r = f->frozen ? db_open_frozen(f->path, e, &db) : db_open_reader(f->path, &told, e, &db);
	buf_done(&told);
	if (r == 0 && !crew_is_same(f))
		r = -ESTALE;
	if (r == 0)
		r = db_exec(db, CREW_CACHE, e);
	if (r == 0)
		*ret = db;
	else
		sqlite3_close_v2(db);
	return r;
}

/* As the reader has it open. What is wrong with a file is told by the reader. */
static int crew_open(struct crew_hand *w, uint32_t file, struct err *e)
{
	const struct crew_file *f = &w->c->files[file];
	int r;

	if (w->tried && w->file == file)
		return w->is_open ? 0 : -ENOENT;
	crew_close(w);
	w->file = file;
	w->tried = true;
	r = crew_connect(f, e, &w->h.db);
	if (r < 0)
		return r;
	w->h.path = f->path;
	r = query_open(&w->host, &w->r, &w->h, e);
	w->host.stop = &w->c->stop;
	w->is_open = r == 0;
	if (r < 0)
		query_close(&w->host);
	return r;
}

/* x is the caller's: its tail may be filled meanwhile, so the work is done on another.
 * has_tail: as of the transaction whose chunks are read. */
static int crew_ask(struct crew_hand *w, struct queryone *mine, const struct queryone *x,
		    int64_t *has_tail)
{
	int r = crew_open(w, x->ref.host, mine->e);

	*mine = (struct queryone){.r = &w->r,
				  .ask = x->ask,
				  .points = x->points,
				  .grid = x->grid,
				  .e = mine->e,
				  .host = &w->host,
				  .ref = x->ref,
				  .index = x->index,
				  .at = x->at,
				  .axis_min = INT64_MAX,
				  .axis_max = INT64_MIN};
	w->host.tree.e = mine->e;
	if (r == 0)
		r = query_begin(&w->host, mine->e);
	if (r == 0)
		r = db_int(w->h.db, "SELECT EXISTS (SELECT 1 FROM tail)", mine->e, has_tail);
	if (r == 0)
		r = queryone_begin(mine);
	return r < 0 ? r : w->c->work->fn(mine, w->c->ret);
}

/* false: it is left to the caller, who finds what is wrong; so too, but with all pages
 * at hand, if there is a tail, which only the caller's reader has. */
static bool crew_answer(struct crew_hand *w, struct queryone *x)
{
	struct err e = {0};
	struct queryone mine = {.e = &e};
	int64_t has_tail = 1;
	bool is = crew_ask(w, &mine, x, &has_tail) == 0;

	if (is && has_tail) {
		if (w->c->work->forget)
			w->c->work->forget(&mine, w->c->ret);
		is = false;
	}
	if (is) {
		x->kind = mine.kind;
		x->is_hist = mine.is_hist;
		x->axis_min = mine.axis_min;
		x->axis_max = mine.axis_max;
		x->count = mine.count;
	}
	queryone_done(&mine);
	return is;
}

static void *crew_main(void *arg)
{
	struct crew_hand w = {.c = arg};
	struct crew *c = arg;
	size_t i;

	blob_codec_init(&w.r.codec);
	column_codec_init(&w.r.columns);
	for (i = 0; i < c->n && !atomic_load(&c->stop); i++)
		if (crew_takes(c, i) && crew_answer(&w, &c->series[i]))
			crew_answered(c, i);
	crew_close(&w);
	blob_codec_done(&w.r.codec);
	column_codec_done(&w.r.columns);
	return NULL;
}

/* The reader may come to have another file open meanwhile. */
static void crew_find_files(struct crew *c)
{
	size_t i;

	c->files = xcalloc(c->r->n_hosts, sizeof(*c->files));
	for (i = 0; i < c->n; i++) {
		const struct hosts_one *h = &c->r->hosts[c->series[i].ref.host];
		struct crew_file *f = &c->files[c->series[i].ref.host];
		if (!f->path)
			crew_file_init(f, h);
	}
}

static void crew_start(struct crew *c, size_t left)
{
	size_t want = left < CREW_THREADS ? left : CREW_THREADS;
	sigset_t all, old;

	c->started = true;
	crew_find_files(c);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (c->n_threads < want &&
	       pthread_create(&c->threads[c->n_threads], NULL, crew_main, c) == 0)
		c->n_threads++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void crew_init(struct crew *c, struct store_reader *r, struct queryone *series, size_t n,
	       long blocks, const struct query_work *work, void *ret)
{
	*c = (struct crew){
		.r = r, .series = series, .n = n, .blocks = blocks, .work = work, .ret = ret};
	c->states = xcalloc(n, sizeof(*c->states));
}

void crew_look(struct crew *c, size_t i)
{
	if (!c->started && i + 1 < c->n && crew_blocks() - c->blocks >= CREW_COLD_BLOCKS)
		crew_start(c, c->n - i - 1);
}

void crew_end(struct crew *c)
{
	size_t i;
	int expected;

	for (i = 0; i < c->n_threads; i++)
		pthread_join(c->threads[i], NULL);
	c->n_threads = 0;
	for (i = 0; i < c->n; i++) {
		expected = CREW_TAKEN;
		atomic_compare_exchange_strong(&c->states[i], &expected, CREW_FREE);
	}
}

void crew_done(struct crew *c)
{
	size_t i;

	atomic_store(&c->stop, true);
	crew_end(c);
	for (i = 0; c->files && i < c->r->n_hosts; i++)
		crew_file_done(&c->files[i]);
	free(c->files);
	free(c->states);
}

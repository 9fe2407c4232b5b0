/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracecmd.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/fmt.h"
#include "cli/progress.h"
#include "report/table.h"
#include "cli/tracefiles.h"
#include "cli/traceparts.h"

#define TRACECMD_MEMORY (INT64_C(1) << 30)
#define TRACECMD_MEMORY_LEAST (UINT64_C(8) << 20) /* of one file */
#define TRACECMD_THREADS_MAX 256

struct tracecmd_options tracecmd_opt = {.limit = TRACECMD_LIMIT, .memory = TRACECMD_MEMORY};

/* ---- signals ------------------------------------------------------------------------------ */

static const int tracecmd_signal_list[] = {SIGINT, SIGTERM, SIGHUP};
static char tracecmd_doomed[4096]; /* to unlink; "" nothing */

/* What is read spills into files without a name, and results are written at the end: there
 * is nothing else to tidy up. */
static void tracecmd_on_signal(int sig)
{
	progress_erase();
	if (tracecmd_doomed[0])
		unlink(tracecmd_doomed);
	_exit(128 + sig);
}

void tracecmd_signals(void)
{
	struct sigaction now, act = {.sa_handler = tracecmd_on_signal};
	size_t i;

	for (i = 0; i < ARRAY_LEN(tracecmd_signal_list); i++)
		if (sigaction(tracecmd_signal_list[i], NULL, &now) == 0 &&
		    now.sa_handler == SIG_DFL)
			sigaction(tracecmd_signal_list[i], &act, NULL);
}

void tracecmd_signals_default(void)
{
	struct sigaction now, act = {.sa_handler = SIG_DFL};
	size_t i;

	for (i = 0; i < ARRAY_LEN(tracecmd_signal_list); i++)
		if (sigaction(tracecmd_signal_list[i], NULL, &now) == 0 &&
		    now.sa_handler == tracecmd_on_signal)
			sigaction(tracecmd_signal_list[i], &act, NULL);
}

void tracecmd_writes(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	tracecmd_doomed[0] = '\0';
	if (!path || strcmp(path, "-") == 0)
		return;
	/* The name that trace/write.h gives a file where none can be without. */
	if (snprintf(tracecmd_doomed, sizeof(tracecmd_doomed), "%.*s.lapse-%ld.tmp",
		     slash ? (int)(slash - path) + 1 : 0, path,
		     (long)getpid()) >= (int)sizeof(tracecmd_doomed))
		tracecmd_doomed[0] = '\0';
}

/* ---- options ------------------------------------------------------------------------------ */

int tracecmd_steps(const char *command, int64_t *ret_from, int64_t *ret_to)
{
	const char *text = tracecmd_opt.steps, *colon;
	int64_t from = 0, to = INT64_MAX;
	char *head;
	int err = 0;

	*ret_from = *ret_to = 0;
	if (!text)
		return 0;
	colon = strchr(text, ':');
	head = xstrndup(text, colon ? (size_t)(colon - text) : strlen(text));
	if (*head)
		err = number_int(head, &from);
	if (!err && colon && colon[1])
		err = number_int(colon + 1, &to);
	if (!colon && !err)
		to = from + 1;
	free(head);
	if (err || from < 0 || to <= from || (!colon && !*text)) {
		fprintf(stderr,
			"lapse %s: --steps: \"%s\" is not FROM:TO with FROM below TO, like 3:5 "
			"(steps 3 and 4), 3: or 3\n",
			command, text);
		return -EINVAL;
	}
	*ret_from = from;
	*ret_to = to;
	return 0;
}

static int tracecmd_check(const char *command)
{
	const struct tracecmd_options *o = &tracecmd_opt;
	const char *why = NULL;

	if (o->json && o->csv)
		why = "--json and --csv do not go together";
	else if (o->hta && o->steps)
		why = "--steps and --hta do not go together: HTA has no such choice";
	else if (!o->hta && (o->include_last || o->no_rounding))
		why = "--include-last and --no-rounding belong to --hta; without it all steps "
		      "and all nanoseconds are there";
	if (!why)
		return 0;
	fprintf(stderr, "lapse %s: %s\nTry: lapse %s --help\n", command, why, command);
	return 2;
}

/* Is the rank in --rank's list? -EINVAL: it is no list of numbers. */
static int tracecmd_wanted(int64_t rank)
{
	char *list, *save = NULL, *word;
	int64_t n;
	int found = 0;

	if (!tracecmd_opt.rank)
		return 1;
	list = xstrdup(tracecmd_opt.rank);
	for (word = strtok_r(list, ", ", &save); word && found >= 0;
	     word = strtok_r(NULL, ", ", &save)) {
		if (number_int(word, &n) || n < 0)
			found = -EINVAL;
		else if (n == rank)
			found = 1;
	}
	free(list);
	return found;
}

/* ---- reading ------------------------------------------------------------------------------ */

struct tracecmd_job {
	const struct tracecmd_wish *wish;
	struct tracefiles files;
	struct trace **traces; /* by file; NULL failed */
	struct err *errs;
	struct progress_part *parts;
	uint64_t *memory;
	_Atomic size_t next;
};

static bool tracecmd_on_progress(void *arg, uint64_t bytes, uint64_t of, uint64_t rows)
{
	struct progress_part *p = arg;

	atomic_store(&p->bytes, bytes);
	atomic_store(&p->rows, rows);
	if (of)
		atomic_store(&p->of, of);
	return false;
}

static void *tracecmd_reader(void *arg)
{
	struct tracecmd_job *j = arg;
	size_t i;

	while ((i = atomic_fetch_add(&j->next, 1)) < j->files.n) {
		struct trace_options o = {
			.memory = j->memory[i],
			.only_columns = !j->wish->texts,
			.only_links = !j->wish->texts && j->wish->views == TRACECMD_DEVICE_ROWS,
			.progress = {tracecmd_on_progress, &j->parts[i]},
		};

		if (trace_read(j->files.list[i].path, &o, &j->traces[i], &j->errs[i]))
			j->traces[i] = NULL;
		atomic_store(&j->parts[i].is_done, true);
	}
	return NULL;
}

/* Each file's part of the budget is its part of the bytes. */
static void tracecmd_budget(struct tracecmd_job *j)
{
	/* The other half is for rows as analyses want them; what only copies takes less. */
	bool alone = j->wish->views == TRACECMD_NO_VIEWS && j->wish->fits == TRACECMD_NO_PARTS;
	double memory = (double)tracecmd_opt.memory * (alone ? 0.75 : 0.5);
	uint64_t all = 0, most = 0, weight;
	size_t i;

	for (i = 0; i < j->files.n; i++)
		if (j->files.list[i].bytes > most)
			most = j->files.list[i].bytes;
	for (i = 0; i < j->files.n; i++)
		all += j->files.list[i].bytes ? j->files.list[i].bytes : most + 1;
	for (i = 0; i < j->files.n; i++) {
		weight = j->files.list[i].bytes ? j->files.list[i].bytes : most + 1;
		j->memory[i] = (uint64_t)(memory * (double)weight / (double)all);
		if (j->memory[i] < TRACECMD_MEMORY_LEAST)
			j->memory[i] = TRACECMD_MEMORY_LEAST;
		atomic_store(&j->parts[i].of, j->files.list[i].bytes);
	}
}

static void tracecmd_read_all(struct tracecmd_job *j)
{
	pthread_t threads[TRACECMD_THREADS_MAX];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t want = cpus < 1 ? 1 : (size_t)cpus, n = 0;

	if (want > j->files.n)
		want = j->files.n;
	if (want > TRACECMD_THREADS_MAX)
		want = TRACECMD_THREADS_MAX;
	/* This thread reads too. */
	while (n + 1 < want && pthread_create(&threads[n], NULL, tracecmd_reader, j) == 0)
		n++;
	tracecmd_reader(j);
	while (n > 0)
		pthread_join(threads[--n], NULL);
}

/* ---- what was read ------------------------------------------------------------------------- */

static void tracecmd_keep(struct tracecmd_set *s, struct tracecmd_job *j, size_t i)
{
	const struct tracefiles_one *f = &j->files.list[i];

	if (j->traces[i]) {
		if (tracecmd_wanted(trace_meta(j->traces[i])->rank) > 0)
			s->trace[s->n++] = j->traces[i];
		else
			trace_free(j->traces[i]);
		return;
	}
	s->failed[s->n_failed++] =
		(struct tracecmd_failed){.path = xstrdup(f->path), .why = xstrdup(j->errs[i].text)};
	/* In a folder there may be other files beside traces. */
	if (f->from_folder && j->errs[i].code == -EBADMSG)
		return;
	fprintf(stderr, "lapse %s: %s\n", s->wish->command, j->errs[i].text);
	s->status = 1;
}

static int tracecmd_by_rank(const void *a, const void *b)
{
	struct trace *const *x = a, *const *y = b;
	int64_t p = trace_meta(*x)->rank, q = trace_meta(*y)->rank;

	return (p > q) - (p < q);
}

static void tracecmd_ranks(struct tracecmd_set *s)
{
	struct trace **sorted = xcalloc(s->n, sizeof(*sorted));
	size_t i;

	if (s->n)
		memcpy(sorted, s->trace, s->n * sizeof(*sorted));
	qsort(sorted, s->n, sizeof(*sorted), tracecmd_by_rank);
	s->has_ranks = s->n > 0 && trace_meta(sorted[0])->rank >= 0;
	for (i = 1; i < s->n && s->has_ranks; i++)
		s->has_ranks = tracecmd_by_rank(&sorted[i - 1], &sorted[i]) != 0;
	if (s->has_ranks && !s->wish->keep_order)
		memcpy(s->trace, sorted, s->n * sizeof(*sorted));
	free(sorted);
}

static int tracecmd_too_few(const struct tracecmd_set *s, size_t files)
{
	if (s->n == 0 && tracecmd_opt.rank && s->n_failed < files)
		fprintf(stderr, "lapse %s: none of these traces is of rank %s\n", s->wish->command,
			tracecmd_opt.rank);
	else if (s->n == 0 && s->status)
		; /* why was told */
	else if (s->n == 0)
		fprintf(stderr, "lapse %s: none of these files is a trace\n", s->wish->command);
	else
		fprintf(stderr, "lapse %s: this needs %s%zu trace%s; there %s %zu\n",
			s->wish->command,
			s->wish->most == s->wish->least ? ""
			: s->n < s->wish->least         ? "at least "
							: "at most ",
			s->n < s->wish->least ? s->wish->least : s->wish->most,
			(s->n < s->wish->least ? s->wish->least : s->wish->most) == 1 ? "" : "s",
			s->n == 1 ? "is" : "are", s->n);
	return s->n == 0 ? 1 : 2;
}

static void tracecmd_job_run(struct tracecmd_job *j)
{
	size_t n = j->files.n;

	j->traces = xcalloc(n, sizeof(struct trace *));
	j->errs = xcalloc(n, sizeof(*j->errs));
	j->parts = xcalloc(n, sizeof(*j->parts));
	j->memory = xcalloc(n, sizeof(*j->memory));
	tracecmd_budget(j);
	progress_begin(tracecmd_opt.quiet);
	progress_phase("Reading", j->parts, n);
	tracecmd_signals();
	tracecmd_read_all(j);
	progress_phase("Reading", NULL, 0);
}

static void tracecmd_job_done(struct tracecmd_job *j)
{
	free(j->traces);
	free(j->errs);
	free(j->parts);
	free(j->memory);
	tracefiles_done(&j->files);
}

/* Read and keep; 0 if there are as many as wished for. */
static int tracecmd_read_set(struct tracecmd_job *j, struct tracecmd_set *s)
{
	const struct tracecmd_wish *w = s->wish;
	size_t i;

	tracecmd_job_run(j);
	s->trace = xcalloc(j->files.n, sizeof(struct trace *));
	s->failed = xcalloc(j->files.n, sizeof(*s->failed));
	progress_erase();
	for (i = 0; i < j->files.n; i++)
		tracecmd_keep(s, j, i);
	if (s->n == 0 || s->n < w->least || (w->most && s->n > w->most))
		return tracecmd_too_few(s, j->files.n);
	tracecmd_ranks(s);
	return 0;
}

int tracecmd_load(const struct tracecmd_wish *w, int argc, char **argv, struct tracecmd_set *s)
{
	struct tracecmd_job j = {.wish = w};
	int status = tracecmd_check(w->command);

	*s = (struct tracecmd_set){.wish = w};
	if (!status && tracecmd_wanted(0) < 0) {
		fprintf(stderr, "lapse %s: --rank: \"%s\" is not a list of numbers like 0,3\n",
			w->command, tracecmd_opt.rank);
		status = 2;
	}
	if (!status)
		status = tracefiles_find(w->command, argc, argv, &j.files);
	if (status)
		return status;
	status = tracecmd_read_set(&j, s);
	tracecmd_job_done(&j);
	if (!status && w->views != TRACECMD_NO_VIEWS)
		status = traceparts_views(s);
	else if (!status && w->fits != TRACECMD_NO_PARTS)
		status = traceparts_find(s);
	if (!status && (tracecmd_opt.csv || (tracecmd_opt.sheet && !tracecmd_opt.json)))
		traceparts_warn(s);
	if (status)
		progress_end();
	else
		progress_phase("Computing", NULL, 0);
	return status;
}

void tracecmd_done(struct tracecmd_set *s)
{
	size_t i;

	progress_end();
	if (s->view)
		view_free(s->view, s->n);
	for (i = 0; i < s->n; i++)
		trace_free(s->trace[i]);
	for (i = 0; i < s->n_failed; i++) {
		free(s->failed[i].path);
		free(s->failed[i].why);
	}
	free(s->failed);
	free(s->trace);
	for (i = 0; s->fit && i < s->n; i++)
		free(s->fit[i].windows);
	free(s->fit);
	*s = (struct tracecmd_set){.wish = s->wish};
}

int tracecmd_fail(const struct tracecmd_set *s, int code, const struct err *e)
{
	progress_end();
	if (e && e->code)
		fprintf(stderr, "lapse %s: %s\n", s->wish->command, e->text);
	else if (code == -ENOMEM)
		fprintf(stderr, "lapse %s: not enough memory; --steps takes a part of the trace\n",
			s->wish->command);
	else
		fprintf(stderr, "lapse %s: %s\n", s->wish->command, strerror(-code));
	return 1;
}

const char *tracecmd_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(path, "-") == 0 ? "standard input" : slash && slash[1] ? slash + 1 : path;
}

const char *tracecmd_label(const struct tracecmd_set *s, size_t i)
{
	static char text[64];

	if (!s->has_ranks)
		return tracecmd_name(trace_path(s->trace[i]));
	snprintf(text, sizeof(text), "rank %" PRId64, trace_meta(s->trace[i])->rank);
	return text;
}

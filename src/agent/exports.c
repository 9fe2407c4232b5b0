/* SPDX-License-Identifier: Apache-2.0
 *
 * exports.c - see exports.h.
 */
#include "agent/exports.h"

#include "agent/headroom.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORTS_SECOND 1000000000LL
#define EXPORTS_WAIT_MAX_S 60 /* between two starts of one that fails */
#define EXPORTS_LAST_TRIES 5  /* once its run is over */
#define EXPORTS_NICE 10
#define EXPORTS_ARGS 9

struct exports_one {
	char *run, *dir, *format, *path; /* owned; path "": the format's own place */
	pid_t pid;                       /* 0: is not running */
	int said;                        /* what it writes to stderr; -1 */
	int64_t next_ns;                 /* CLOCK_MONOTONIC: start it then */
	unsigned failures;               /* one after the other */
	unsigned tries;                  /* left once the run is over */
	bool over, done, told;
};

struct exports {
	char *program; /* NULL: none are started */
	struct exports_one *one;
	size_t n, cap;
};

struct exports *exports_new(const char *program)
{
	struct exports *x = xcalloc(1, sizeof(*x));

	x->program = xstrdup(program);
	return x;
}

static void exports_forget(struct exports_one *o)
{
	if (o->said >= 0)
		close(o->said);
	free(o->run);
	free(o->dir);
	free(o->format);
	free(o->path);
}

void exports_free(struct exports *x)
{
	size_t i;

	if (!x)
		return;
	for (i = 0; i < x->n; i++)
		exports_forget(&x->one[i]);
	free(x->one);
	free(x->program);
	free(x);
}

static void exports_add(struct exports *x, const struct run_start *r, const char *line, size_t len)
{
	const char *equals = memchr(line, '=', len);
	struct exports_one *o;

	if (!equals)
		return;
	x->one = xgrow(x->one, x->n, &x->cap, sizeof(*x->one));
	o = &x->one[x->n++];
	*o = (struct exports_one){.run = xstrdup(r->id),
				  .dir = xstrdup(r->dir),
				  .format = xstrndup(line, (size_t)(equals - line)),
				  .path = xstrndup(equals + 1, (size_t)(line + len - equals - 1)),
				  .said = -1,
				  .tries = EXPORTS_LAST_TRIES};
}

void exports_begin(struct exports *x, const struct run_start *r)
{
	const char *p = r->exports;
	size_t i, len;

	if (!x->program)
		return;
	for (i = 0; i < x->n; i++)
		if (strcmp(x->one[i].run, r->id) == 0)
			return;
	for (; *p; p += len + (p[len] == '\n')) {
		len = strcspn(p, "\n");
		exports_add(x, r, p, len);
	}
}

/* In the child: nothing of the agent's but the two ends. */
static _Noreturn void exports_exec(const char *program, const char *const argv[], int said)
{
	int null = open("/dev/null", O_RDWR);

	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
	}
	dup2(said, 2);
	close_range(3, ~0U, 0);
	headroom_give_back();
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	setpriority(PRIO_PROCESS, 0, EXPORTS_NICE);
	execv(program, (char *const *)argv);
	_exit(127);
}

static void exports_start(struct exports *x, struct exports_one *o, int64_t now_ns)
{
	const char *argv[EXPORTS_ARGS] = {"lapse", "export", "--follow", "--to", o->format, o->dir};
	int ends[2];
	pid_t pid;

	if (o->path[0]) {
		argv[6] = "--output";
		argv[7] = o->path;
	}
	o->next_ns = now_ns + EXPORTS_SECOND;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	pid = fork();
	if (pid == 0)
		exports_exec(x->program, argv, ends[1]);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return;
	}
	o->pid = pid;
	o->said = ends[0];
	log_info("run %s: exporting to %s, process %d", o->run, o->format, (int)pid);
}

/* The last line that it wrote, or how it ended. */
static void exports_last_words(struct exports_one *o, int status, char *out, size_t cap)
{
	char text[4096];
	ssize_t n = read(o->said, text, sizeof(text) - 1);
	char *line, *end;

	close(o->said);
	o->said = -1;
	text[n > 0 ? n : 0] = '\0';
	end = text + strlen(text);
	while (end > text && end[-1] == '\n')
		*--end = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	if (line[0])
		snprintf(out, cap, "export to %s: %s", o->format, line);
	else if (WIFSIGNALED(status))
		snprintf(out, cap, "export to %s: killed by signal %d", o->format,
			 WTERMSIG(status));
	else
		snprintf(out, cap, "export to %s: exit status %d", o->format, WEXITSTATUS(status));
}

/* It has ended: done, or to be started again. */
static bool exports_ended(struct exports_one *o, int status, int64_t now_ns, char *words,
			  size_t cap)
{
	int64_t wait_s = EXPORTS_WAIT_MAX_S;
	bool busy = WIFEXITED(status) && WEXITSTATUS(status) == EXPORTS_BUSY;

	exports_last_words(o, status, words, cap);
	o->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		o->done = true;
		return false;
	}
	if (o->failures < 6)
		wait_s = 1LL << o->failures;
	o->failures++;
	o->next_ns = now_ns +
		     (wait_s < EXPORTS_WAIT_MAX_S ? wait_s : EXPORTS_WAIT_MAX_S) * EXPORTS_SECOND;
	/* Another exporter takes it to the end. */
	if (o->over && (busy || --o->tries == 0))
		o->done = true;
	if (busy)
		return false;
	log_warn("run %s: %s", o->run, words);
	return true;
}

void exports_tick(struct exports *x, int64_t now_ns,
		  void (*failed)(void *arg, const char *run, const char *text), void *arg)
{
	char words[512];
	int status;
	size_t i, k = 0;

	for (i = 0; i < x->n; i++) {
		struct exports_one *o = &x->one[i];

		if (o->pid && waitpid(o->pid, &status, WNOHANG) == o->pid &&
		    exports_ended(o, status, now_ns, words, sizeof(words)) && !o->told) {
			o->told = true;
			failed(arg, o->run, words);
		}
		if (!o->pid && !o->done && now_ns >= o->next_ns)
			exports_start(x, o, now_ns);
	}
	/* One that is done is remembered until its run is over. */
	for (i = 0; i < x->n; i++) {
		if (x->one[i].done && x->one[i].over)
			exports_forget(&x->one[i]);
		else
			x->one[k++] = x->one[i];
	}
	x->n = k;
}

void exports_end(struct exports *x, const char *run)
{
	size_t i;

	for (i = 0; i < x->n; i++)
		if (strcmp(x->one[i].run, run) == 0)
			x->one[i].over = true;
}

bool exports_is_busy(const struct exports *x)
{
	size_t i;

	for (i = 0; i < x->n; i++)
		if (!x->one[i].done)
			return true;
	return false;
}

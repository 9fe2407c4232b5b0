/* SPDX-License-Identifier: Apache-2.0
 *
 * While its run is open a file MARK lies in the folder: where one is found at the
 * start, the agent was killed.
 */
#include "agent/rolling.h"

#include "base/log.h"
#include "base/mem.h"
#include "wire/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define ROLLING_SECOND INT64_C(1000000000)
#define ROLLING_DAY_S 86400
#define ROLLING_RETRY_NS (60 * ROLLING_SECOND)
#define ROLLING_TIME_LEN 15 /* YYYYMMDD-HHMMSS */
#define ROLLING_MARK ".recording"

struct rolling {
	const struct agent_options *o;
	int dir;       /* rolling_dir; -1 */
	char host[65]; /* as it stands in ids */
	char node[65]; /* as it is */
	struct live *live;
	int64_t day;      /* of the run, since 1970 */
	int64_t retry_ns; /* CLOCK_MONOTONIC */
	bool told;        /* that it cannot be begun */
};

struct live *rolling_live(const struct rolling *r)
{
	return r->live;
}

/* ---- folders ------------------------------------------------------------------------- */

static int rolling_make(const char *path)
{
	char *copy = xstrdup(path), *p;
	int err = 0;

	for (p = copy + 1; !err; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			err = -errno;
		*p = c;
		if (c == '\0')
			break;
	}
	free(copy);
	return err;
}

/* Is it a run of this host that we made, and of which day? */
static bool rolling_is_ours(const struct rolling *r, const char *id, int64_t *ret_day)
{
	struct tm tm = {0};
	const char *end;

	if (strlen(id) <= ROLLING_TIME_LEN + 1 || id[ROLLING_TIME_LEN] != '-' ||
	    strcmp(id + ROLLING_TIME_LEN + 1, r->host) != 0)
		return false;
	end = strptime(id, "%Y%m%d-%H%M%S", &tm);
	if (end != id + ROLLING_TIME_LEN)
		return false;
	*ret_day = (int64_t)timegm(&tm) / ROLLING_DAY_S;
	return true;
}

static int rolling_open_folder(const struct rolling *r, const char *id)
{
	return openat(r->dir, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Its files and itself; what else is in it stays, and so does the folder then. */
static void rolling_delete(const struct rolling *r, const char *id)
{
	int fd = rolling_open_folder(r, id);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			unlinkat(fd, e->d_name, 0);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	if (unlinkat(r->dir, id, AT_REMOVEDIR) == 0)
		log_info("run %s: deleted, older than agent.machine_keep", id);
	else
		log_warn("run %s: cannot be deleted: %s", id, strerror(errno));
}

/* When its newest file was written. */
static int64_t rolling_last_ns(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	struct stat st;
	int64_t last = 0, ns;

	while (d && (e = readdir(d))) {
		if (fstatat(copy, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		ns = st.st_mtim.tv_sec * ROLLING_SECOND + st.st_mtim.tv_nsec;
		last = ns > last ? ns : last;
	}
	if (d)
		closedir(d);
	else if (copy >= 0)
		close(copy);
	return last;
}

/* Store how a run ended; 0 if it is stored. */
static int rolling_store_end(const struct rolling *r, void *handle, const char *id,
			     enum run_outcome_kind kind, int64_t end_ns)
{
	struct run_outcome *o = xcalloc(1, sizeof(*o));
	struct err e = {0};
	int err;

	snprintf(o->id, sizeof(o->id), "%s", id);
	o->kind = kind;
	o->code = kind == RUN_EXITED ? 0 : -1;
	o->end_ns = end_ns;
	o->user_s = o->system_s = (double)NAN;
	err = r->o->store->end(handle, o, &e);
	if (err)
		log_error("run %s: storing its end: %s", id, e.text);
	free(o);
	return err;
}

/* The agent that wrote it was killed. */
static void rolling_mend(const struct rolling *r, const char *id)
{
	struct run_start *start;
	struct err e = {0};
	struct sink *sink;
	void *handle;
	int fd = rolling_open_folder(r, id);

	if (fd < 0)
		return;
	if (faccessat(fd, ROLLING_MARK, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		close(fd);
		return;
	}
	start = xcalloc(1, sizeof(*start));
	snprintf(start->id, sizeof(start->id), "%s", id);
	snprintf(start->dir, sizeof(start->dir), "%s/%s", r->o->rolling_dir, id);
	snprintf(start->host, sizeof(start->host), "%s", r->node);
	if (r->o->store->open(start, &handle, &sink, &e) < 0) {
		log_warn("run %s: %s", id, e.text);
	} else {
		rolling_store_end(r, handle, id, RUN_LOST, rolling_last_ns(fd));
		err_clear(&e);
		if (r->o->store->close(handle, &e) < 0)
			log_warn("run %s: closing its store: %s", id, e.text);
	}
	unlinkat(fd, ROLLING_MARK, 0);
	free(start);
	close(fd);
}

static void rolling_each(const struct rolling *r,
			 void (*fn)(const struct rolling *r, const char *id, int64_t day))
{
	int copy = openat(r->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	int64_t day;

	while (d && (e = readdir(d)))
		if (rolling_is_ours(r, e->d_name, &day))
			fn(r, e->d_name, day);
	if (d)
		closedir(d);
	else if (copy >= 0)
		close(copy);
}

static void rolling_look_at_old(const struct rolling *r, const char *id, int64_t day)
{
	int64_t end_s = (day + 1) * ROLLING_DAY_S;
	int64_t now_s = clock_ns(CLOCK_REALTIME) / ROLLING_SECOND;

	if (r->live && strcmp(id, r->live->start.id) == 0)
		return;
	if (end_s < now_s - r->o->rolling_keep_ns / ROLLING_SECOND)
		rolling_delete(r, id);
	else
		rolling_mend(r, id);
}

/* ---- the run ------------------------------------------------------------------------- */

static void rolling_host(struct rolling *r)
{
	struct utsname uts;
	size_t i;

	snprintf(r->node, sizeof(r->node), "%s", uname(&uts) == 0 ? uts.nodename : "host");
	snprintf(r->host, sizeof(r->host), "%s", r->node[0] ? r->node : "host");
	for (i = 0; r->host[i]; i++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-",
			    r->host[i]))
			r->host[i] = '_';
}

struct rolling *rolling_new(const struct agent_options *o)
{
	struct rolling *r;
	int err;

	if (!o->rolling_dir || o->rolling_keep_ns <= 0 || o->once)
		return NULL;
	r = xcalloc(1, sizeof(*r));
	r->o = o;
	rolling_host(r);
	err = rolling_make(o->rolling_dir);
	r->dir = err ? -1 : open(o->rolling_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (r->dir < 0) {
		log_error("figures of the machine are not kept: %s: %s", o->rolling_dir,
			  strerror(err ? -err : errno));
		free(r);
		return NULL;
	}
	rolling_each(r, rolling_look_at_old);
	return r;
}

static int rolling_begin_folder(struct rolling *r, struct run_start *s, int64_t now_s)
{
	char time_text[ROLLING_TIME_LEN + 1];
	time_t t = (time_t)now_s;
	struct tm tm;
	int fd;

	gmtime_r(&t, &tm);
	strftime(time_text, sizeof(time_text), "%Y%m%d-%H%M%S", &tm);
	snprintf(s->id, sizeof(s->id), "%s-%s", time_text, r->host);
	snprintf(s->dir, sizeof(s->dir), "%s/%s", r->o->rolling_dir, s->id);
	if (mkdirat(r->dir, s->id, 0700) < 0)
		return -errno;
	fd = rolling_open_folder(r, s->id);
	if (fd < 0)
		return -errno;
	close(openat(fd, ROLLING_MARK, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
	close(fd);
	return 0;
}

static void rolling_begin(struct rolling *r, int64_t mono_ns)
{
	struct run_start *s = xcalloc(1, sizeof(*s));
	int err;

	s->start_ns = clock_ns(CLOCK_REALTIME);
	s->start_boot_ns = clock_ns(CLOCK_BOOTTIME);
	s->stall_after_ms = -1;
	snprintf(s->name, sizeof(s->name), ROLLING_NAME);
	snprintf(s->host, sizeof(s->host), "%s", r->node);
	snprintf(s->user, sizeof(s->user), "%u", (unsigned)geteuid());
	err = rolling_begin_folder(r, s, s->start_ns / ROLLING_SECOND);
	if (!err) {
		r->live = live_new(s, false, r->o->store);
		r->live->period_ns = r->o->rolling_period_ns;
		r->day = s->start_ns / ROLLING_SECOND / ROLLING_DAY_S;
		r->told = false;
		rolling_each(r, rolling_look_at_old);
	} else if (err == -EEXIST) {
		/* Of the agent before us, in this same second: the next one has a name of its own.
		 */
		r->retry_ns = mono_ns + ROLLING_SECOND;
	} else {
		if (!r->told)
			log_error("run %s: cannot be begun: %s", s->id, strerror(-err));
		r->told = true;
		r->retry_ns = mono_ns + ROLLING_RETRY_NS;
	}
	free(s);
}

static void rolling_end(struct rolling *r)
{
	struct live *l = r->live;
	int fd;

	if (!l)
		return;
	while (live_tick(l, clock_ns(CLOCK_MONOTONIC), true))
		;
	if (l->handle && !l->failing &&
	    rolling_store_end(r, l->handle, l->start.id, RUN_EXITED,
			      live_utc(l, clock_ns(CLOCK_BOOTTIME))) == 0) {
		fd = rolling_open_folder(r, l->start.id);
		if (fd >= 0) {
			unlinkat(fd, ROLLING_MARK, 0);
			close(fd);
		}
	}
	r->live = NULL;
	live_free(l);
}

void rolling_free(struct rolling *r)
{
	if (!r)
		return;
	rolling_end(r);
	close(r->dir);
	free(r);
}

void rolling_second(struct rolling *r, int rings, const struct clocks *now)
{
	int64_t mono_ns = now->at[WIRE_CLOCK_MONOTONIC].mono_ns;
	int64_t day = clock_ns(CLOCK_REALTIME) / ROLLING_SECOND / ROLLING_DAY_S;

	if (r->live && day != r->day)
		rolling_end(r);
	if (!r->live && mono_ns >= r->retry_ns)
		rolling_begin(r, mono_ns);
	if (r->live)
		live_second(r->live, rings, now);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "round.h"

#include "base/file.h"
#include "oracle.h"
#include "wire/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_PATH 256
#define ROUND_MS 1000000ll
#define ROUND_BEGIN_MS 20000  /* for the program to begin, and to end */
#define ROUND_LATE_MS 3000    /* for one whose launcher is dead to begin after all */
#define ROUND_FINISH_MS 45000 /* for agents to finish a run */
#define ROUND_ORPHAN_MS 300   /* for a started agent to take its lock */

struct round {
	const struct round_plan *plan;
	const char *lapse, *stress;
	char meet[ROUND_PATH], dir[ROUND_PATH], page[ROUND_PATH], out[ROUND_PATH];
	char config[ROUND_PATH], local[ROUND_PATH];
	pid_t launcher, trainer, killed_agent;
	bool launcher_reaped, trainer_killed;
	unsigned recoveries;
	struct calls calls;
	struct buf *problems;
};

/* ---- processes ------------------------------------------------------------------- */

static void round_wrong(struct round *r, const char *what)
{
	buf_printf(r->problems, "%s\n", what);
}

static void round_sleep_us(int64_t us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

/* Reap what is dead; with zombies only those that the test must know of. */
static void round_reap(struct round *r, bool all)
{
	int status;
	pid_t pid;

	if (!r->launcher_reaped && waitpid(r->launcher, &status, WNOHANG) == r->launcher)
		r->launcher_reaped = true;
	while (all && (pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == r->launcher)
			r->launcher_reaped = true;
}

static bool round_is_zombie(pid_t pid)
{
	char path[64], text[512], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	p = strrchr(text, ')');
	return !p || p[2] == 'Z' || p[2] == 'X';
}

/* pid of the agent that holds the lock, 0 if none does. Never one that is not a
 * descendant left to this process. */
static pid_t round_agent(struct round *r)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[ROUND_PATH + 16], text[32];
	ssize_t n = 0;
	pid_t pid;
	int fd;

	snprintf(path, sizeof(path), "%s/agent.lock", r->meet);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
		n = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	pid = atoi(text);
	if (pid <= 1 ||
	    waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	    round_is_zombie(pid))
		return 0;
	return pid;
}

static void round_kill_agent(struct round *r)
{
	pid_t pid = round_agent(r);

	if (pid > 0 && kill(pid, SIGKILL) == 0)
		r->killed_agent = pid;
}

static void round_kill_launcher(struct round *r)
{
	if (!r->launcher_reaped)
		kill(r->launcher, SIGKILL);
}

static void round_kill_trainer(struct round *r)
{
	/* Struck early, it may not have come yet. */
	if (r->trainer > 0 && !round_is_zombie(r->trainer)) {
		kill(r->trainer, SIGKILL);
		r->trainer_killed = true;
	}
}

static void round_configure(const struct round *r)
{
	setenv("LAPSE_CONFIG", r->config, 1);
}

static _Noreturn void round_exec(struct round *r)
{
	const struct round_plan *p = r->plan;
	char threads[16], children[16], rate[16];
	const char *argv[24] = {r->lapse, "run", "--quiet", "--", r->stress, "--threads"};
	int n = 6, out = open(r->out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	snprintf(threads, sizeof(threads), "%u", p->threads);
	snprintf(children, sizeof(children), "%u", p->children);
	snprintf(rate, sizeof(rate), "%u", p->rate);
	argv[n++] = threads;
	argv[n++] = "--children";
	argv[n++] = children;
	argv[n++] = "--rate";
	argv[n++] = rate;
	argv[n++] = "--kinds";
	argv[n++] = p->kinds;
	argv[n++] = "--seconds";
	argv[n++] = "120"; /* longer than it is waited for: it ends when it is told to */
	if (p->handler)
		argv[n++] = "--handler";
	if (p->leave)
		argv[n++] = "--leave";
	argv[n++] = r->page;
	dup2(out, STDERR_FILENO);
	dup2(out, STDOUT_FILENO);
	setenv("LAPSE_RENDEZVOUS", r->meet, 1);
	setenv("LAPSE_DIR", r->dir, 1);
	round_configure(r);
	execv(r->lapse, (char *const *)argv);
	_exit(99);
}

static bool round_start(struct round *r)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + ROUND_BEGIN_MS * ROUND_MS;

	r->launcher = fork();
	if (r->launcher == 0)
		round_exec(r);
	if (r->launcher < 0)
		return false;
	while (!r->plan->early && oracle_calls(r->page, &r->calls) < 0) {
		round_reap(r, false);
		if (r->launcher_reaped || clock_ns(CLOCK_MONOTONIC) > until)
			return false;
		round_sleep_us(2000);
	}
	round_sleep_us(r->plan->delay_ms * 1000);
	return true;
}

static void round_look_at_page(struct round *r)
{
	if (oracle_calls(r->page, &r->calls) == 0 && r->trainer == 0)
		r->trainer = (pid_t)r->calls.process[0].pid;
}

/* ---- the strike --------------------------------------------------------------------- */

static void round_agent_again(struct round *r)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + 1300 * ROUND_MS;
	pid_t first = round_agent(r), next = 0;

	round_kill_agent(r);
	while (first && clock_ns(CLOCK_MONOTONIC) < until) {
		round_reap(r, true);
		next = round_agent(r);
		if (next && next != first)
			break;
		round_sleep_us(3000);
	}
	/* Anywhere in its attaching and replaying. */
	round_sleep_us(r->plan->apart_us * 4);
	round_kill_agent(r);
}

static void round_strike(struct round *r)
{
	static void (*const all[])(struct round * r) = {round_kill_trainer, round_kill_launcher,
							round_kill_agent};
	static const unsigned char orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
						   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	static const unsigned masks[VICTIMS] = {[VICTIM_TRAINER] = 1,
						[VICTIM_LAUNCHER] = 2,
						[VICTIM_AGENT] = 4,
						[VICTIM_LAUNCHER_AGENT] = 6,
						[VICTIM_ALL] = 7};
	unsigned i, who;

	round_look_at_page(r);
	if (r->plan->victim == VICTIM_AGENT_TWICE) {
		round_agent_again(r);
		return;
	}
	for (i = 0; i < 3; i++) {
		who = orders[r->plan->order][i];
		if (!(masks[r->plan->victim] >> who & 1))
			continue;
		all[who](r);
		if (r->plan->apart_us)
			round_sleep_us(r->plan->apart_us);
	}
}

/* ---- the end --------------------------------------------------------------------------- */

/* The program, where it lives; its children, where it is dead. */
static void round_end_program(struct round *r)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + ROUND_BEGIN_MS * ROUND_MS;
	bool killed = r->trainer_killed || r->plan->end_by_kill, alive = true;
	uint64_t i;

	/* Struck early, it may come only now. */
	while (r->trainer == 0 && clock_ns(CLOCK_MONOTONIC) < until) {
		round_reap(r, true);
		if (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) < 0)
			break;
		round_look_at_page(r);
		if (r->launcher_reaped && r->trainer == 0 &&
		    clock_ns(CLOCK_MONOTONIC) > until - (ROUND_BEGIN_MS - ROUND_LATE_MS) * ROUND_MS)
			break;
		round_sleep_us(2000);
	}
	if (r->trainer == 0)
		return;
	if (!r->trainer_killed && !round_is_zombie(r->trainer))
		kill(r->trainer, r->plan->end_by_kill ? SIGKILL : SIGTERM);
	r->trainer_killed = killed;
	until = clock_ns(CLOCK_MONOTONIC) + ROUND_BEGIN_MS * ROUND_MS;
	while (alive && clock_ns(CLOCK_MONOTONIC) < until) {
		round_look_at_page(r);
		alive = !round_is_zombie(r->trainer);
		for (i = 0; i < r->calls.processes && i < CALLS_PROCESSES; i++) {
			if (round_is_zombie((pid_t)r->calls.process[i].pid))
				continue;
			alive = true;
			if (i > 0 && r->trainer_killed)
				kill((pid_t)r->calls.process[i].pid,
				     r->plan->order & 1 ? SIGKILL : SIGTERM);
		}
		round_reap(r, !r->plan->zombies);
		round_sleep_us(2000);
	}
	if (alive)
		round_wrong(r, "the program does not end");
}

static unsigned round_count_in(struct round *r, const char *folder, const char *suffix)
{
	char path[ROUND_PATH + 16];
	struct dirent *e;
	unsigned n = 0;
	size_t len;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", r->meet, folder);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		len = strlen(e->d_name);
		n += e->d_name[0] != '.' && len > strlen(suffix) &&
		     strcmp(e->d_name + len - strlen(suffix), suffix) == 0;
	}
	if (d)
		closedir(d);
	return n;
}

static bool round_is_finished(struct round *r)
{
	/* A control page may stay behind: swept when it is a minute old. */
	return round_count_in(r, "runs", ".run") + round_count_in(r, "runs", ".outcome") +
		       round_count_in(r, "rings", ".ring") ==
	       0;
}

static void round_recover(struct round *r)
{
	unsigned kill_ms = r->recoveries++ == 0 ? r->plan->recover_ms : 0;
	int status, out;
	pid_t pid = fork();

	if (pid == 0) {
		out = open(r->out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		dup2(out, STDERR_FILENO);
		dup2(out, STDOUT_FILENO);
		round_configure(r);
		execl(r->lapse, "lapse", "recover", "--verbose", "--rendezvous", r->meet,
		      (char *)NULL);
		_exit(99);
	}
	if (pid > 0 && kill_ms) {
		round_sleep_us(kill_ms * 1000);
		kill(pid, SIGKILL);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && !kill_ms &&
	    (!WIFEXITED(status) || WEXITSTATUS(status) > 1))
		round_wrong(r, "lapse recover crashed");
}

static void round_end_agent(struct round *r)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + ROUND_FINISH_MS * ROUND_MS;
	pid_t pid = round_agent(r);
	int status = 0;

	if (pid == 0)
		return;
	kill(pid, SIGTERM);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (clock_ns(CLOCK_MONOTONIC) > until) {
			round_wrong(r, "the agent does not leave on SIGTERM");
			kill(pid, SIGKILL);
		}
		round_sleep_us(2000);
	}
	if (status != 0 && pid != r->killed_agent && buf_str(r->problems)[0] == '\0')
		buf_printf(r->problems, "the agent ended with status 0x%x\n", (unsigned)status);
}

/* An agent finishes the run, or nobody is there to do it: recover. */
static void round_finish(struct round *r)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC), alone = 0;
	int64_t until = now + ROUND_FINISH_MS * ROUND_MS;

	if (r->plan->finisher_ms) {
		round_sleep_us(r->plan->finisher_ms * 1000);
		round_kill_agent(r);
	}
	while (!round_is_finished(r) && clock_ns(CLOCK_MONOTONIC) < until) {
		round_reap(r, !r->plan->zombies);
		now = clock_ns(CLOCK_MONOTONIC);
		if (round_agent(r) && r->plan->end_agent && r->launcher_reaped)
			round_end_agent(r);
		if (round_agent(r) || !r->launcher_reaped) {
			alone = 0;
		} else if (alone == 0) {
			alone = now;
		} else if (now - alone > ROUND_ORPHAN_MS * ROUND_MS) {
			round_recover(r);
			alone = 0;
		}
		round_sleep_us(3000);
	}
	if (!round_is_finished(r))
		buf_printf(
			r->problems,
			"not finished after %d s and %u recoveries: %u run files, %u outcomes, %u "
			"rings are left\n",
			ROUND_FINISH_MS / 1000, r->recoveries, round_count_in(r, "runs", ".run"),
			round_count_in(r, "runs", ".outcome"), round_count_in(r, "rings", ".ring"));
}

/* Nothing of this round may live on; only this process's own descendants. */
static void round_clear(struct round *r)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + ROUND_BEGIN_MS * ROUND_MS;
	char text[4096], *p;
	struct buf list;

	round_end_agent(r);
	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		if (clock_ns(CLOCK_MONOTONIC) > until)
			break;
		buf_init(&list, sizeof(text));
		if (file_read(AT_FDCWD, "/proc/thread-self/children", &list) == 0) {
			snprintf(text, sizeof(text), "%s", buf_str(&list));
			for (p = strtok(text, " "); p; p = strtok(NULL, " "))
				if (atoi(p) > 1)
					kill(atoi(p), SIGKILL);
		}
		buf_done(&list);
		round_sleep_us(2000);
	}
}

/* ---- the judgement ------------------------------------------------------------------------ */

/* One folder of a run: does it hold a database? */
static bool round_look_into(struct round *r, const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	bool found = false;
	size_t len;

	while (d && (e = readdir(d))) {
		len = strlen(e->d_name);
		if (strstr(e->d_name, ".corrupt-"))
			buf_printf(r->problems, "%s was set aside\n", e->d_name);
		if (strstr(e->d_name, ".live"))
			buf_printf(r->problems, "%s is left\n", e->d_name);
		found = found || (len > 3 && strcmp(e->d_name + len - 3, ".db") == 0);
	}
	if (d)
		closedir(d);
	return found;
}

/* Judge every run that is stored; there must be one. A launcher killed between
 * writing the run file and letting the command go leaves two: a lost run, and the
 * command's own. */
static bool round_find_run(struct round *r, struct oracle *ret)
{
	char path[2 * ROUND_PATH];
	struct oracle o;
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(r->dir);
	bool ours;
	uint64_t i;

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", r->dir, e->d_name) >= (int)sizeof(path) ||
		    !round_look_into(r, path))
			continue;
		oracle_judge(path, &r->calls, r->plan->store == ROUND_RETAINED, &o);
		for (i = 0, ours = !r->plan->early; i < o.n; i++)
			ours = ours || o.process[i].found;
		if (ours && n++ == 0)
			*ret = o;
		else
			oracle_done(&o);
	}
	if (d)
		closedir(d);
	if (n != 1)
		buf_printf(r->problems, "%u runs are stored\n", n);
	return n > 0;
}

static void round_judge_outcome(struct round *r, const struct oracle *o)
{
	enum round_victim v = r->plan->victim;
	bool launcher_died = v == VICTIM_LAUNCHER || v == VICTIM_LAUNCHER_AGENT || v == VICTIM_ALL;
	bool ok;

	if (o->end_ns == 0 || o->outcome == RUN_RUNNING) {
		round_wrong(r, "the run has no outcome");
		return;
	}
	if (launcher_died)
		/* It may have come before: then the outcome is known. Without its
		 * run file the program is a run of its own. */
		ok = o->outcome == RUN_LOST || (o->outcome == RUN_SIGNALED && r->trainer_killed) ||
		     (o->outcome == RUN_EXITED && r->plan->early);
	else if (r->trainer_killed)
		ok = o->outcome == RUN_SIGNALED && o->signal == SIGKILL;
	else
		ok = o->outcome == RUN_EXITED && o->code == 0;
	if (!ok)
		buf_printf(r->problems, "outcome %s, code %d, signal %d\n",
			   run_outcome_name(o->outcome), o->code, o->signal);
}

static void round_judge(struct round *r, struct round_figures *f)
{
	struct oracle o;
	uint64_t i;

	if (oracle_calls(r->page, &r->calls) < 0)
		return;
	f->began = true;
	if (!round_find_run(r, &o))
		return;
	for (i = 0; i < o.n; i++) {
		f->returned += o.process[i].returned;
		f->stored += o.process[i].stored;
		f->dropped += o.process[i].dropped;
		f->overwritten += o.process[i].overwritten;
		f->in_flight += o.process[i].in_flight;
	}
	buf_puts(r->problems, buf_str(&o.problems));
	if (o.warning.len)
		buf_printf(r->problems, "reading warns: %s\n", buf_str(&o.warning));
	round_judge_outcome(r, &o);
	oracle_done(&o);
}

static int round_delete_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void round_delete(const char *path)
{
	nftw(path, round_delete_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool round_folders(struct round *r, const char *name, char base[ROUND_PATH])
{
	const char *tmp = getenv("TMPDIR");

	snprintf(r->meet, ROUND_PATH, "/dev/shm/lapse-kill-%s", name);
	snprintf(base, ROUND_PATH, "%.100s/lapse-kill-%s", tmp && tmp[0] == '/' ? tmp : "/tmp",
		 name);
	snprintf(r->dir, ROUND_PATH, "%.200s/runs", base);
	snprintf(r->page, ROUND_PATH, "%.200s/page", base);
	snprintf(r->out, ROUND_PATH, "%.200s/out", base);
	snprintf(r->config, ROUND_PATH, "%.200s/config.yaml", base);
	snprintf(r->local, ROUND_PATH, "%.200s/local", base);
	return mkdir(r->meet, 0700) == 0 && mkdir(base, 0700) == 0;
}

/* The settings of the agents of this round. */
static bool round_settings(struct round *r)
{
	const struct round_plan *p = r->plan;
	struct buf text;
	bool done;

	buf_init(&text, 4096);
	buf_puts(&text, "store:\n  cleanup: true\n");
	if (p->store == ROUND_LOCAL)
		buf_printf(&text, "  live: local\n  local_dir: %s\n  copy_every: %ums\n", r->local,
			   p->copy_ms);
	if (p->store == ROUND_RETAINED)
		buf_puts(&text, "  max_size: 100k\n");
	done = file_write_atomic(AT_FDCWD, r->config, text.data, text.len, 0600) == 0;
	buf_done(&text);
	return done;
}

static unsigned round_entries(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* What agents have left in the private folder comes home; nothing stays there. */
static void round_come_home(struct round *r)
{
	if (round_entries(r->local) == 0)
		return;
	if (r->recoveries == 0)
		r->recoveries = 1; /* this one is not killed */
	round_recover(r);
	if (round_entries(r->local))
		buf_printf(r->problems, "%u things are left in %s\n", round_entries(r->local),
			   r->local);
}

void round_play(const struct round_plan *p, const char *lapse, const char *stress, const char *name,
		struct round_figures *ret, struct buf *problems)
{
	struct round r = {.plan = p, .lapse = lapse, .stress = stress, .problems = problems};
	char base[ROUND_PATH];

	memset(ret, 0, sizeof(*ret));
	if (!round_folders(&r, name, base) || !round_settings(&r)) {
		buf_printf(problems, "cannot make folders: %s\n", strerror(errno));
		return;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (round_start(&r)) {
		round_strike(&r);
		round_sleep_us(p->linger_ms * 1000);
		round_end_program(&r);
		round_finish(&r);
	} else {
		round_wrong(&r, "the command was not run");
	}
	round_clear(&r);
	round_come_home(&r);
	round_judge(&r, ret);
	if (problems->len) {
		buf_printf(problems, "kept: %s %s\n", r.meet, base);
		return;
	}
	round_delete(r.meet);
	round_delete(base);
}

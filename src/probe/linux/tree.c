/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a run: find them, and add up what they use. CPU time is kept
 * so that it only grows: of each process its last reading stays when it ends,
 * and what its parent was told on reaping it beyond that counts as well.
 */
#include "probe/linux/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "probe/linux/proc.h"

#define TREE_SCAN_NS 5000000000u /* between full searches */
#define TREE_PASSES 8            /* over /proc, while the last one found some */
#define TREE_PROC_MAGIC 0x9fa0   /* f_type of the kernel's /proc */
#define TREE_LIST_COST 3         /* list of a thread's children, in stats of a process */

static uint64_t tree_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t tree_ticks_ns(uint64_t ticks)
{
	uint64_t v, hz = (uint64_t)sysconf(_SC_CLK_TCK);

	return __builtin_mul_overflow(ticks, 1000000000u / hz, &v) ? UINT64_MAX : v;
}

static bool tree_find(const struct probe_tree *t, long pid, uint64_t *ret)
{
	return map_get(&t->index, &pid, sizeof(pid), ret);
}

static void tree_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void tree_drop_fds(struct probe_tree *t, struct probe_proc *p)
{
	if (p->stat_fd >= 0)
		t->kept--;
	tree_close(&p->stat_fd);
	tree_close(&p->statm_fd);
	tree_close(&p->children_fd);
}

static int tree_open(const struct probe_tree *t, long pid, const char *file)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%ld/%s", pid, file);
	fd = openat(t->proc_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* The start of a file of a process, from the descriptor if it is not -1. */
static int tree_text(const struct probe_tree *t, int fd, long pid, const char *file, char *text,
		     size_t cap, size_t *ret_len)
{
	int own = fd < 0 ? tree_open(t, pid, file) : fd;
	ssize_t n;

	if (own < 0)
		return own;
	do {
		n = pread(own, text, cap, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	if (fd < 0)
		close(own);
	if (n < 0)
		return (int)n;
	*ret_len = (size_t)n;
	return 0;
}

int probe_tree_text(const struct probe_tree *t, long pid, const char *file, char *text, size_t cap,
		    size_t *ret_len)
{
	return tree_text(t, -1, pid, file, text, cap, ret_len);
}

struct probe_proc *probe_tree_find(const struct probe_tree *t, long pid)
{
	uint64_t at;

	return tree_find(t, pid, &at) ? &t->procs[at] : NULL;
}

static int tree_stat(const struct probe_tree *t, int fd, long pid, struct proc_stat *ret)
{
	char text[2048];
	size_t len;
	int err;

	err = tree_text(t, fd, pid, "stat", text, sizeof(text), &len);
	if (!err)
		err = proc_parse_stat(text, len, ret);
	return err || ret->pid == pid ? err : -EBADMSG;
}

static int tree_room(struct probe_tree *t)
{
	size_t cap = t->cap ? t->cap * 2 : 16;
	struct probe_proc *procs;

	if (t->len >= PROBE_TREE_MAX)
		return -ENOSPC;
	if (t->len < t->cap)
		return 0;
	procs = realloc(t->procs, cap * sizeof(*procs));
	if (!procs)
		return -ENOMEM;
	t->procs = procs;
	t->cap = cap;
	return 0;
}

/* Keep the files of a process open, while there are few and half of the
 * descriptors that we may have are free. Those of real files die with the
 * process; those of a stored file would not. */
static void tree_keep(struct probe_tree *t, struct probe_proc *p)
{
	struct rlimit limit;
	char children[64];

	if (!t->clocks || t->kept >= PROBE_TREE_KEPT || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	p->stat_fd = tree_open(t, p->pid, "stat");
	if (p->stat_fd >= 0 && (rlim_t)p->stat_fd >= limit.rlim_cur / 2)
		tree_close(&p->stat_fd);
	if (p->stat_fd < 0)
		return;
	t->kept++;
	p->statm_fd = tree_open(t, p->pid, "statm");
	snprintf(children, sizeof(children), "task/%ld/children", p->pid);
	if (t->children)
		p->children_fd = tree_open(t, p->pid, children);
}

static void tree_take(struct probe_proc *p, const struct proc_stat *s)
{
	memcpy(p->name, s->name, sizeof(p->name));
	p->ppid = s->ppid;
	p->state = s->state;
	p->threads = s->threads;
	p->stack = s->stack;
	p->args = s->args;
	p->minor = s->minor;
	p->major = s->major;
	p->exit_code = (unsigned)s->exit_code;
}

/* Follow pid, which must have that start time if it is not 0, and a parent in
 * the tree unless it is the first. */
static int tree_add(struct probe_tree *t, long pid, uint64_t start)
{
	struct probe_proc p = {.pid = pid,
			       .stat_fd = -1,
			       .statm_fd = -1,
			       .children_fd = -1,
			       .slot = -1,
			       .cpu = -1};
	struct proc_stat s;
	clockid_t clock;
	uint64_t at;
	int err;

	err = tree_room(t);
	if (err)
		return err;
	tree_keep(t, &p);
	err = tree_stat(t, p.stat_fd, pid, &s);
	if (!err && ((start && s.start != start) || (t->len && !tree_find(t, s.ppid, &at))))
		err = -ESRCH;
	if (err) {
		tree_drop_fds(t, &p);
		return err;
	}
	p.start = s.start;
	p.from_birth = t->read_ns != 0;
	p.turn = t->turn - 1;
	p.has_clock = t->clocks && clock_getcpuclockid((pid_t)pid, &clock) == 0;
	p.clock = p.has_clock ? clock : 0;
	tree_take(&p, &s);
	t->procs[t->len] = p;
	map_put(&t->index, &pid, sizeof(pid), t->len++);
	return 0;
}

/* ---- finding ------------------------------------------------------------ */

static void tree_candidate(struct probe_tree *t, uint64_t pid, unsigned *left_out)
{
	uint64_t at;

	if (pid == 0 || pid > INT_MAX || tree_find(t, (long)pid, &at))
		return;
	if (tree_add(t, (long)pid, 0) == -ENOSPC)
		(*left_out)++;
}

/* Read a children file: pids, each with a space behind it. The file may be
 * longer than the buffer: go on behind the last whole pid. */
static void tree_read_children(struct probe_tree *t, int fd, unsigned *left_out)
{
	char text[4096];
	const char *p, *end, *done;
	off_t offset = 0;
	uint64_t pid;
	ssize_t n;

	for (;;) {
		n = pread(fd, text, sizeof(text), offset);
		if (n <= 0)
			return;
		p = done = text;
		end = text + n;
		while (proc_number(&p, end, &pid) == 0 && p < end) {
			tree_candidate(t, pid, left_out);
			done = ++p;
		}
		/* A short read may be a record that did not fit, not the end. */
		if (done == text || n < (ssize_t)sizeof(text) / 2)
			return;
		offset += done - text;
	}
}

static void tree_children_of(struct probe_tree *t, long pid, const char *tid, unsigned *left_out)
{
	char file[64];
	int fd;

	if (snprintf(file, sizeof(file), "task/%s/children", tid) >= (int)sizeof(file))
		return;
	fd = tree_open(t, pid, file);
	if (fd < 0)
		return;
	tree_read_children(t, fd, left_out);
	close(fd);
}

/* Children of all threads of a process but the main one. */
static void tree_children_others(struct probe_tree *t, long pid, unsigned *left_out)
{
	int fd = tree_open(t, pid, "task");
	struct dirent *e;
	DIR *dir;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		tree_close(&fd);
		return;
	}
	while ((e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    strtol(e->d_name, NULL, 10) != pid)
			tree_children_of(t, pid, e->d_name, left_out);
	closedir(dir);
}

static void tree_children_main(struct probe_tree *t, long pid, int fd, unsigned *left_out)
{
	char tid[32];

	if (fd >= 0) {
		tree_read_children(t, fd, left_out);
		return;
	}
	snprintf(tid, sizeof(tid), "%ld", pid);
	tree_children_of(t, pid, tid, left_out);
}

/* One pass over all of /proc: who has a parent in the tree? Returns how many
 * were added. */
static size_t tree_scan_pass(struct probe_tree *t, unsigned *left_out)
{
	size_t before = t->len, pids = 0;
	const char *p, *end;
	struct dirent *e;
	struct proc_stat s;
	uint64_t pid, at;
	DIR *dir;
	int fd;

	fd = openat(t->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		tree_close(&fd);
		return 0;
	}
	while ((e = readdir(dir))) {
		p = e->d_name;
		end = p + strlen(p);
		if (proc_number(&p, end, &pid) || p != end || pid > INT_MAX)
			continue;
		pids++;
		if (tree_find(t, (long)pid, &at))
			continue;
		if (!tree_stat(t, -1, (long)pid, &s) && tree_find(t, s.ppid, &at))
			tree_candidate(t, pid, left_out);
	}
	closedir(dir);
	t->pids = pids;
	return t->len - before;
}

/* What the lists of main threads do not show: children of other threads. Either
 * the lists of all threads or the parents of all processes tell; the cheaper. */
static void tree_search_threads(struct probe_tree *t, unsigned *left_out)
{
	uint64_t threads = 0;
	size_t i;

	for (i = 0; i < t->len; i++)
		if (t->procs[i].threads > 1)
			threads = proc_sum(threads, t->procs[i].threads);
	if (t->children && (!threads || threads < t->pids / TREE_LIST_COST)) {
		for (i = 0; i < t->len; i++) /* t->len grows on the way */
			if (t->procs[i].threads > 1)
				tree_children_others(t, t->procs[i].pid, left_out);
		return;
	}
	for (i = 0; i < TREE_PASSES; i++) {
		*left_out = 0;
		if (!tree_scan_pass(t, left_out))
			break;
	}
}

static void tree_search(struct probe_tree *t, uint64_t now)
{
	bool full = !t->scan_ns || now - t->scan_ns >= TREE_SCAN_NS;
	unsigned left_out = 0;
	size_t i;

	for (i = 0; t->children && i < t->len; i++)
		tree_children_main(t, t->procs[i].pid, t->procs[i].children_fd, &left_out);
	if (full) {
		tree_search_threads(t, &left_out);
		t->scan_ns = now;
	}
	if (full || left_out > t->untracked || t->len < PROBE_TREE_MAX)
		t->untracked = left_out;
}

/* ---- reading ------------------------------------------------------------ */

/* It ended. If its parent reaped it, the parent's child_ns holds its time from
 * now on: credit says that it has been counted here. */
static void tree_retire(struct probe_tree *t, struct probe_proc *p)
{
	struct probe_proc *parent = probe_tree_find(t, p->ppid);

	if (parent)
		parent->credit_ns = proc_sum(parent->credit_ns, proc_sum(p->own_ns, p->child_ns));
	probe_detail_retire(t, p, parent);
	t->gone_ns = proc_sum(t->gone_ns, proc_sum(p->own_ns, p->unseen_ns));
	p->gone = true;
	tree_drop_fds(t, p);
}

static void tree_measure_memory(struct probe_tree *t, struct probe_proc *p)
{
	struct proc_statm m;
	char text[256];
	size_t len;

	/* When the main thread has exited and others run on, its files show no
	 * memory although there is. */
	p->memory_known = p->state != 'Z' &&
			  !tree_text(t, p->statm_fd, p->pid, "statm", text, sizeof(text), &len) &&
			  !proc_parse_statm(text, len, &m) && m.resident >= m.shared;
	if (p->memory_known) {
		p->resident = m.resident;
		p->shared = m.shared;
	}
}

/* Stuck is who waits where no signal reaches it and did not run at all meanwhile. */
static void tree_measure_cpu(struct probe_proc *p, uint64_t own, bool waits, uint64_t now)
{
	bool still = p->measured_ns && own <= p->own_ns;
	uint64_t since = p->stuck_ns ? p->stuck_ns : now;

	p->cpu = -1;
	if (p->measured_ns && now > p->measured_ns)
		p->cpu = own > p->own_ns
				 ? (double)(own - p->own_ns) / (double)(now - p->measured_ns)
				 : 0;
	p->stuck_ns = !waits ? 0 : still ? since : now;
	if (own > p->own_ns)
		p->own_ns = own;
	p->measured_ns = now;
}

/* Read one process. When its files cannot be read for another reason than that
 * it ended, what was known of it stays. */
static void tree_measure(struct probe_tree *t, struct probe_proc *p, uint64_t now)
{
	struct timespec ts = {0, 0};
	struct proc_stat s;
	uint64_t own;
	bool clocked;
	int err;

	/* The clock goes by the bare pid, so it comes first: if the process is
	 * there afterwards it was the one. */
	clocked = p->has_clock && clock_gettime(p->clock, &ts) == 0;
	err = tree_stat(t, p->stat_fd, p->pid, &s);
	if (err == -ESRCH || err == -ENOENT || (!err && s.start != p->start)) {
		tree_retire(t, p);
		return;
	}
	if (err) {
		p->memory_known = false;
		p->cpu = -1;
		return;
	}
	own = clocked ? (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec
		      : tree_ticks_ns(s.own);
	tree_measure_cpu(p, own, s.state == 'D', now);
	p->child_ns = tree_ticks_ns(s.children);
	tree_take(p, &s);
	tree_measure_memory(t, p);
	p->detail.seen++;
	p->detail.stuck += s.state == 'D';
}

bool probe_proc_is_zombie(const struct probe_proc *p)
{
	return (p->state == 'Z' || p->state == 'X') && p->threads <= 1;
}

/* Take out who ended; the order stays, parents first. */
static void tree_compact(struct probe_tree *t)
{
	size_t i, n = 0;

	for (i = 0; i < t->len; i++) {
		long pid = t->procs[i].pid;

		if (t->procs[i].gone) {
			map_del(&t->index, &pid, sizeof(pid));
			continue;
		}
		if (n != i) {
			t->procs[n] = t->procs[i];
			map_put(&t->index, &pid, sizeof(pid), n);
		}
		n++;
	}
	t->len = n;
}

/* CPU time of all, once every process has been read. A parent is read before
 * its children: had one been reaped by then, its retirement came after, so that
 * child_ns never holds a child whose credit is still to come. */
static uint64_t tree_total(struct probe_tree *t)
{
	uint64_t total = t->gone_ns;
	size_t i;

	for (i = 0; i < t->len; i++) {
		struct probe_proc *p = &t->procs[i];

		if (p->child_ns > p->credit_ns && p->child_ns - p->credit_ns > p->unseen_ns)
			p->unseen_ns = p->child_ns - p->credit_ns;
		total = proc_sum(total, proc_sum(p->own_ns, p->unseen_ns));
	}
	return total;
}

static void tree_set(struct probe_tree_values *out, enum probe_tree_index i, double v)
{
	out->value[i] = v;
	out->valid |= UINT64_C(1) << i;
	out->why[i] = NULL;
}

static void tree_fill(const struct probe_tree *t, struct probe_tree_values *out)
{
	uint64_t processes = 0, threads = 0, private = 0, shared = 0;
	bool memory_known = true;
	size_t i;

	for (i = 0; i < t->len; i++) {
		const struct probe_proc *p = &t->procs[i];

		if (probe_proc_is_zombie(p))
			continue;
		processes++;
		threads = proc_sum(threads, p->threads);
		memory_known &= p->memory_known;
		private = proc_sum(private, p->resident - p->shared);
		if (p->shared > shared)
			shared = p->shared;
	}
	tree_set(out, PROBE_TREE_PROCESSES, (double)processes);
	if (!processes) {
		out->why[PROBE_TREE_RSS] = out->why[PROBE_TREE_THREADS] =
			"no process of the run is alive";
		return;
	}
	tree_set(out, PROBE_TREE_THREADS, (double)threads);
	if (memory_known)
		tree_set(out, PROBE_TREE_RSS,
			 ((double)private + (double)shared) * (double)sysconf(_SC_PAGESIZE));
	else
		out->why[PROBE_TREE_RSS] = "statm of a process cannot be read";
}

int probe_tree_read(struct probe_tree *t, struct probe_tree_values *out)
{
	return probe_tree_read_at(t, tree_now(), out);
}

int probe_tree_read_at(struct probe_tree *t, uint64_t now, struct probe_tree_values *out)
{
	uint64_t total;
	bool known = t->len > 0;
	size_t i;

	memset(out, 0, sizeof(*out));
	tree_search(t, now);
	for (i = 0; i < t->len; i++)
		tree_measure(t, &t->procs[i], now);
	tree_compact(t);
	total = tree_total(t);
	if (total < t->total_ns)
		total = t->total_ns;
	tree_fill(t, out);
	if (!known)
		out->why[PROBE_TREE_CPU] = "no process of the run is alive";
	else if (!t->read_ns || now <= t->read_ns)
		out->why[PROBE_TREE_CPU] = "needs a second reading";
	else
		tree_set(out, PROBE_TREE_CPU,
			 (double)(total - t->total_ns) / (double)(now - t->read_ns));
	out->untracked = t->untracked;
	t->total_ns = total;
	t->read_ns = now;
	return 0;
}

uint64_t probe_tree_cpu_total_ns(const struct probe_tree *t)
{
	return t->total_ns;
}

/* Are the pids of /proc those that our system calls understand? Not when the
 * /proc of another pid namespace is mounted. */
static bool tree_same_pids(int proc_fd)
{
	char self[32];
	ssize_t n = readlinkat(proc_fd, "self", self, sizeof(self) - 1);
	const char *p = self;
	uint64_t pid;

	return n > 0 && proc_number(&p, self + n, &pid) == 0 && p == self + n &&
	       pid == (uint64_t)getpid();
}

int probe_tree_init(struct probe_tree *t, const char *root, long pid, uint64_t starttime)
{
	char path[PROBE_ROOT_MAX + 8], children[64];
	struct statfs fs;
	int err, fd;

	memset(t, 0, sizeof(*t));
	t->proc_fd = -1;
	map_init(&t->index);
	if (strlen(root) >= PROBE_ROOT_MAX)
		return -ENAMETOOLONG;
	snprintf(path, sizeof(path), "%s/proc", root);
	t->proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->proc_fd < 0)
		return -errno;
	t->turn = 1;
	t->real = fstatfs(t->proc_fd, &fs) == 0 && fs.f_type == TREE_PROC_MAGIC;
	t->clocks = root[0] == '\0' && tree_same_pids(t->proc_fd);
	snprintf(children, sizeof(children), "task/%ld/children", pid);
	fd = tree_open(t, pid, children);
	t->children = fd >= 0;
	tree_close(&fd);
	err = tree_add(t, pid, starttime);
	if (err)
		probe_tree_done(t);
	return err == -ENOENT ? -ESRCH : err;
}

void probe_tree_done(struct probe_tree *t)
{
	size_t i;

	for (i = 0; i < t->len; i++)
		tree_drop_fds(t, &t->procs[i]);
	free(t->procs);
	map_done(&t->index);
	if (t->proc_fd >= 0)
		close(t->proc_fd);
	memset(t, 0, sizeof(*t));
	t->proc_fd = -1;
}

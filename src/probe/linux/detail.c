/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of processes that cost more than stat and statm, read in rotation, and
 * the sums of their counters over the tree. What a process read and wrote goes to
 * the parent that waits for it; the sums count it once.
 */
#include "probe/linux/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/linux/proc.h"
#include "probe/linux/task.h"

#define DETAIL_FEW 4            /* so many are read at each reading */
#define DETAIL_MANY 16          /* or so many, while that is each once in 10 readings */
#define DETAIL_MOST 32          /* never more */
#define DETAIL_READINGS 5       /* for a turn of all, if they are not too many */
#define DETAIL_READINGS_MOST 10 /* then so many */
#define DETAIL_FILES_MAX 4096   /* descriptors that are counted one by one on old kernels */

_Static_assert((int)PROBE_DETAIL_WRITTEN == (int)TASK_IO_WRITTEN &&
		       PROBE_DETAIL_IO == (int)TASK_IO_FIELDS,
	       "counters of io come first, in the order of task.h");

/* What a counter shows now. The first reading of a process that began after we did
 * counts from 0. */
static void detail_count(struct probe_tree *t, struct probe_proc *p, enum probe_detail_index i,
			 uint64_t raw)
{
	struct probe_detail *d = &p->detail;
	bool was_known = d->known >> i & 1;
	uint64_t was = was_known ? d->raw[i] : 0, step = raw > was ? raw - was : 0;

	/* Children that somebody else waited for gave nothing: then credit is too large. */
	if (i < PROBE_DETAIL_IO) {
		if (step >= d->credit[i])
			step -= d->credit[i];
		d->credit[i] = 0;
	}
	d->raw[i] = raw;
	d->known |= 1u << i;
	if (!was_known && !p->from_birth)
		return;
	d->added[i] = proc_sum(d->added[i], step);
	d->stepped |= 1u << i;
	t->added[i] = proc_sum(t->added[i], step);
}

void probe_detail_retire(struct probe_tree *t, struct probe_proc *p, struct probe_proc *parent)
{
	int i;

	if (p->detail.known || p->from_birth) {
		detail_count(t, p, PROBE_DETAIL_MINOR, p->minor);
		detail_count(t, p, PROBE_DETAIL_MAJOR, p->major);
	}
	for (i = 0; parent && i < PROBE_DETAIL_IO; i++)
		parent->detail.credit[i] = proc_sum(
			parent->detail.credit[i], proc_sum(p->detail.raw[i], p->detail.credit[i]));
}

/* Has a child of p been waited for since it was last seen? Then what p shows may
 * hold its amounts, which are still counted as the child's. */
static bool detail_is_torn(const struct probe_tree *t, const struct probe_proc *p)
{
	size_t i;

	for (i = 0; t->clocks && i < t->len; i++)
		if (t->procs[i].ppid == p->pid && kill((pid_t)t->procs[i].pid, 0) < 0 &&
		    errno == ESRCH)
			return true;
	return false;
}

static void detail_io(struct probe_tree *t, struct probe_proc *p, char *text, size_t cap)
{
	const unsigned all = (1u << PROBE_DETAIL_IO) - 1;
	struct task_io io;
	size_t len = 0;
	int err, i;

	err = probe_tree_text(t, p->pid, "io", text, cap, &len);
	if (!err)
		err = task_parse_io(text, len, &io);
	p->detail.io_error = err;
	if (err) {
		t->lacking |= all;
		return;
	}
	for (i = 0; !detail_is_torn(t, p) && i < PROBE_DETAIL_IO; i++)
		detail_count(t, p, (enum probe_detail_index)i, io.value[i]);
}

static void detail_status(struct probe_tree *t, struct probe_proc *p, const struct task_status *s)
{
	struct probe_detail *d = &p->detail;
	const unsigned switches = 1u << TASK_STATUS_VOLUNTARY | 1u << TASK_STATUS_INVOLUNTARY;

	d->has_memory = s->has >> TASK_STATUS_PEAK & 1;
	d->peak = s->value[TASK_STATUS_PEAK];
	d->swap = s->value[TASK_STATUS_SWAP];
	d->has_anonymous = s->has >> TASK_STATUS_ANONYMOUS & 1;
	d->anonymous = s->value[TASK_STATUS_ANONYMOUS];
	if ((s->has & switches) != switches) {
		t->lacking |= 1u << PROBE_DETAIL_VOLUNTARY | 1u << PROBE_DETAIL_INVOLUNTARY;
		return;
	}
	detail_count(t, p, PROBE_DETAIL_VOLUNTARY, s->value[TASK_STATUS_VOLUNTARY]);
	detail_count(t, p, PROBE_DETAIL_INVOLUNTARY, s->value[TASK_STATUS_INVOLUNTARY]);
}

/* The size of the folder is the count since Linux 6.2; before it is 0. */
static bool detail_list_files(int proc_fd, const char *folder, uint64_t *ret)
{
	int fd = openat(proc_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint64_t n = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (n <= DETAIL_FILES_MAX && (e = readdir(dir)))
		n += e->d_name[0] != '.';
	closedir(dir);
	*ret = n;
	return n <= DETAIL_FILES_MAX;
}

static void detail_files(struct probe_tree *t, struct probe_proc *p)
{
	struct probe_detail *d = &p->detail;
	struct rlimit limit;
	char folder[64];
	struct stat st;

	snprintf(folder, sizeof(folder), "%ld/fd", p->pid);
	d->has_files = t->real && fstatat(t->proc_fd, folder, &st, 0) == 0 && st.st_size > 0;
	if (d->has_files)
		d->files = (uint64_t)st.st_size;
	else
		d->has_files = detail_list_files(t->proc_fd, folder, &d->files);
	d->has_files_limit = t->clocks && prlimit((pid_t)p->pid, RLIMIT_NOFILE, NULL, &limit) == 0;
	if (d->has_files_limit)
		d->files_limit = limit.rlim_cur;
}

static void detail_read(struct probe_tree *t, struct probe_proc *p)
{
	struct probe_detail *d = &p->detail;
	struct task_schedstat sched;
	struct task_status status;
	char text[8192];
	size_t len = 0;

	if (probe_tree_text(t, p->pid, "status", text, sizeof(text), &len) ||
	    task_parse_status(text, len, &status))
		return;  /* it ended just now; the next reading says so */
	if (!d->fresh) { /* what was added is taken: begin anew */
		d->stepped = 0;
		memset(d->added, 0, sizeof(d->added));
		d->since_ns = d->read_ns;
	}
	d->fresh = true;
	d->read_ns = t->read_ns;
	detail_count(t, p, PROBE_DETAIL_MINOR, p->minor);
	detail_count(t, p, PROBE_DETAIL_MAJOR, p->major);
	detail_status(t, p, &status);
	detail_io(t, p, text, sizeof(text));
	if (probe_tree_text(t, p->pid, "schedstat", text, sizeof(text), &len) ||
	    task_parse_schedstat(text, len, &sched))
		t->lacking |= 1u << PROBE_DETAIL_WAIT;
	else
		detail_count(t, p, PROBE_DETAIL_WAIT, sched.wait_ns);
	detail_files(t, p);
}

/* How many at one reading. */
static size_t detail_share(size_t n)
{
	size_t share = (n + DETAIL_READINGS - 1) / DETAIL_READINGS;

	if (share > DETAIL_MANY) {
		share = (n + DETAIL_READINGS_MOST - 1) / DETAIL_READINGS_MOST;
		share = share < DETAIL_MANY ? DETAIL_MANY : share;
	}
	if (share > DETAIL_MOST)
		share = DETAIL_MOST;
	return share < DETAIL_FEW ? DETAIL_FEW : share;
}

bool probe_tree_turn(struct probe_tree *t)
{
	size_t share = detail_share(t->len), i;

	for (i = 0; i < t->len; i++) {
		struct probe_proc *p = &t->procs[i];

		if (p->turn == t->turn)
			continue;
		if (!probe_proc_is_zombie(p)) {
			if (share-- == 0)
				return false;
			detail_read(t, p);
		}
		p->turn = t->turn;
	}
	t->turn++;
	t->lacked = t->lacking;
	t->lacking = 0;
	t->turned_ns = t->read_ns;
	return true;
}

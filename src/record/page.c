/* SPDX-License-Identifier: Apache-2.0
 *
 * The control page: made or found, kept for the process's life, with the lock
 * that says that the process lives; and the anchors in it.
 */
#include "record/record_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void page_fill(struct wire_ctl *ctl, uint64_t start_time, uint64_t aux)
{
	struct stat st;

	ctl->magic = WIRE_MAGIC_CTL;
	ctl->major = WIRE_MAJOR;
	ctl->minor = WIRE_MINOR;
	ctl->pid = (uint32_t)getpid();
	ctl->ppid = (uint32_t)getppid();
	ctl->start_time = start_time;
	clock_boot_id(ctl->boot_id);
	ctl->clock = rec.clock;
	ctl->aux = aux;
	ctl->pid_ns = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
	ctl->step = WIRE_STEP_NONE;
	ctl->epoch = -1;
	ctl->rank = ctl->local_rank = ctl->world_size = -1;
	ctl->state = WIRE_STATE_OPEN;
}

/* A new page under a name of its own, then linked to its real one; another copy
 * of this library in the process may be faster. */
static int page_make(int rings, const char *name, uint64_t start_time, uint64_t aux)
{
	struct wire_ctl ctl = {0};
	char tmp[160];
	int fd, err;

	snprintf(tmp, sizeof(tmp), ".%s.%llx.tmp", name,
		 (unsigned long long)clock_ticks(rec.clock));
	fd = openat(rings, tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	page_fill(&ctl, start_time, aux);
	err = -posix_fallocate(fd, 0, sizeof(ctl));
	if (!err && pwrite(fd, &ctl, sizeof(ctl), 0) != sizeof(ctl))
		err = -ENOSPC;
	if (!err && linkat(rings, tmp, rings, name, 0) < 0)
		err = -errno;
	unlinkat(rings, tmp, 0);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* Is this descriptor still the page's, and not closed by the program? */
static bool page_is(const struct rec_page *page, const struct stat *st)
{
	return st->st_dev == page->dev && st->st_ino == page->ino;
}

/* A new run in the same process begins without a step, an epoch or steps behind it. */
static void page_begin(struct wire_ctl *ctl)
{
	__atomic_store_n(&ctl->step, WIRE_STEP_NONE, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->step_start, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->steps_done, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->epoch, -1, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->epoch_start, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->has_exit, 0, __ATOMIC_RELAXED);
}

/* The page of an earlier lapse_open(), if it has its name still. Not opened
 * again: closing any descriptor of it would drop the process's lock. */
static bool page_again(int rings, const char *name)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct stat st;

	if (!rec.page.ctl || rec.page.pid != getpid() ||
	    fstatat(rings, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !page_is(&rec.page, &st) ||
	    fstat(rec.page.fd, &st) < 0 || !page_is(&rec.page, &st))
		return false;
	fcntl(rec.page.fd, F_SETLK, &lock);
	page_begin(rec.page.ctl);
	return true;
}

/* The lock is a POSIX lock, because children of fork() must not inherit it. */
int rec_page_open(int rings, const char *name, uint64_t start_time, uint64_t aux)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct wire_ctl *ctl;
	struct stat st;
	int fd, high;

	if (page_again(rings, name))
		return 0;
	fd = openat(rings, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		fd = page_make(rings, name, start_time, aux);
	if (fd == -EEXIST)
		fd = openat(rings, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return fd == -1 ? -errno : fd;
	/* Out of the way of programs that expect to be given 0 to 2. */
	high = fd < 3 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
	if (high != fd)
		close(fd);
	if (high < 0)
		return -EMFILE;
	ctl = mmap(NULL, WIRE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, high, 0);
	if (ctl == MAP_FAILED || fstat(high, &st) < 0) {
		close(high);
		return -ENOMEM;
	}
	madvise(ctl, WIRE_PAGE, MADV_DONTFORK);
	fcntl(high, F_SETLK, &lock);
	rec.page = (struct rec_page){ctl, getpid(), high, st.st_dev, st.st_ino};
	return 0;
}

void rec_anchor(struct rec_set *set)
{
	struct wire_ctl *ctl = set->ctl;
	uint64_t n = __atomic_fetch_add(&ctl->anchor_count, 1, __ATOMIC_RELAXED);
	struct wire_anchor a, *to = &ctl->anchors[n ? 1 + (n - 1) % (WIRE_ANCHORS - 1) : 0];
	uint64_t lost;

	clock_anchor(rec.clock, &a);
	__atomic_store_n(&to->seq, 0, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_release);
	to->ticks = a.ticks;
	to->mono_ns = a.mono_ns;
	to->boot_ns = a.boot_ns;
	to->real_ns = a.real_ns;
	__atomic_store_n(&to->seq, n + 1, __ATOMIC_RELEASE);
	rec.anchor_ticks = a.ticks;
	for (; set; set = set->older) {
		lost = __atomic_exchange_n(&set->lost, 0, __ATOMIC_RELAXED);
		if (lost)
			__atomic_fetch_add(&ctl->dropped_no_lane, lost, __ATOMIC_RELAXED);
	}
}

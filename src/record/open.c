/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing: options, the control page, the ring file, the set of
 * writers; and the same again in a child of fork().
 */
#include "record/record_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPEN_RING_DEFAULT (8448ull << 10) /* lane 0 gets 4 MiB, 15 others 256 KiB */
#define OPEN_REGISTRY_DEFAULT (264ull << 10)
#define OPEN_RING_FORKED (512ull << 10)
#define OPEN_LANES_DEFAULT 16u
#define OPEN_LANES_FORKED 4u
#define OPEN_FDS_OLD 1024              /* closed one by one where close_range() is unknown */
#define OPEN_REGISTRY_MORE (20u << 10) /* room for definitions to come */

struct rec_state rec;

/* One lapse_open() or lapse_close() at a time: rec_lock(). */
static pid_t open_locked_by;

static int open_fail(int err, const char *what, const char *remedy)
{
	snprintf(rec.error, sizeof(rec.error), "%s: %s%s%s", what, strerror(-err),
		 remedy ? "; " : "", remedy ? remedy : "");
	return err;
}

/* Tells apart two images that one pid and start time have had by exec(). Only 32
 * mixed bits of the kernel's 128 random ones leave the process. */
static uint32_t open_aux(void)
{
	const unsigned char *p = (const unsigned char *)getauxval(AT_RANDOM);
	uint64_t h = 0x9e3779b97f4a7c15u;
	int i;

	for (i = 0; p && i < 16; i++)
		h = (h ^ p[i]) * 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 32);
}

/* ---- ring ------------------------------------------------------------------ */

static uint64_t open_number(const char *path)
{
	char text[32];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return strtoull(text, NULL, 10);
}

/* The wanted size, cut to what file system and memory limit bear. */
static uint64_t open_ring_bytes(int rings, uint64_t want)
{
	/* As seen in a container, where its own group is the root. */
	static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
					     "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
	struct statvfs fs;
	struct rlimit file;
	uint64_t limit;
	size_t i;

	/* Beyond it a signal would end the program. */
	if (getrlimit(RLIMIT_FSIZE, &file) == 0 && want > file.rlim_cur)
		want = file.rlim_cur;
	if (fstatvfs(rings, &fs) == 0 && fs.f_blocks && want > fs.f_bavail * fs.f_frsize / 16)
		want = fs.f_bavail * fs.f_frsize / 16;
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		limit = open_number(limits[i]);
		if (limit && want > limit / 64)
			want = limit / 64;
	}
	return want < RING_BYTES_MIN ? RING_BYTES_MIN : want;
}

static void open_program(char *out, size_t cap)
{
	char path[PATH_MAX], *base;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = '\0';
	base = strrchr(path, '/');
	base = base ? base + 1 : path;
	base[strnlen(base, cap - 1)] = '\0';
	memcpy(out, base, strlen(base) + 1);
}

static void open_fill_ring(struct wire_ring *r, const char *ctl_name, uint64_t start_time,
			   bool forked)
{
	if (getrandom(r->uid, sizeof(r->uid), GRND_NONBLOCK) != sizeof(r->uid)) {
		memcpy(r->uid, &(uint64_t){clock_ticks(rec.clock)}, 8);
		memcpy(r->uid + 8, &(uint64_t){(uint64_t)getpid()}, 8);
	}
	r->pid = (uint32_t)getpid();
	r->ppid = (uint32_t)getppid();
	r->start_time = start_time;
	clock_boot_id(r->boot_id);
	r->owner = geteuid();
	r->clock = rec.clock;
	r->state = WIRE_STATE_OPEN;
	r->ticks_per_s = rec.ticks_per_s;
	r->forked = forked;
	clock_anchor(rec.clock, &r->opened);
	snprintf(r->ctl, sizeof(r->ctl), "%s", ctl_name);
	/* Children of fork() belong to the same run. */
	if (!rec.run[0])
		runid_make(rec.run, r->opened.real_ns, r->uid);
	snprintf(r->run, sizeof(r->run), "%s", rec.run);
	snprintf(r->role, sizeof(r->role), "%s", forked ? "worker" : rec.opt.role);
	snprintf(r->name, sizeof(r->name), "%s", rec.opt.name);
	snprintf(r->project, sizeof(r->project), "%s", rec.opt.project);
	snprintf(r->store_dir, sizeof(r->store_dir), "%s", rec.opt.store_dir);
	open_program(r->program, sizeof(r->program));
	if (!getcwd(r->cwd, sizeof(r->cwd)))
		r->cwd[0] = '\0';
}

/* A ring under a temporary name; halved until it fits. */
static int open_make_ring(int rings, const char *tmp, bool forked, struct ring_map *ret)
{
	uint64_t want = forked ? OPEN_RING_FORKED : rec.opt.ring_bytes;
	/* What is defined already must fit, and some more. */
	uint64_t registry =
		(rec_registry_bytes() + OPEN_REGISTRY_MORE) & ~(uint64_t)(WIRE_PAGE - 1);
	struct ring_shape shape = {
		/* A registry gets at most an eighth. */
		.bytes = open_ring_bytes(rings, want > 8 * registry ? want : 8 * registry),
		.lanes = forked ? OPEN_LANES_FORKED : rec.opt.lanes,
		.registry_bytes = registry,
	};
	int err;

	if (shape.registry_bytes < shape.bytes / 16)
		shape.registry_bytes = (shape.bytes / 16) & ~(uint64_t)(WIRE_PAGE - 1);
	if (shape.registry_bytes > OPEN_REGISTRY_DEFAULT && registry < OPEN_REGISTRY_DEFAULT)
		shape.registry_bytes = OPEN_REGISTRY_DEFAULT;
	for (;;) {
		err = ring_create(rings, tmp, &shape, ret);
		if (err != -ENOSPC || shape.bytes / 2 < RING_BYTES_MIN)
			return err;
		shape.bytes /= 2;
	}
}

/* Ticks a second by the two ends of making the ring: good to 1e-3 or so. */
static void open_rate(const struct wire_anchor *before)
{
	struct wire_anchor after;

	if (rec.clock == WIRE_CLOCK_MONOTONIC) {
		rec.ticks_per_s = 1000000000;
		return;
	}
	do
		clock_anchor(rec.clock, &after);
	while (after.mono_ns - before->mono_ns < 200000);
	rec.ticks_per_s = (uint64_t)((double)(after.ticks - before->ticks) * 1e9 /
				     (double)(after.mono_ns - before->mono_ns));
}

static struct rec_set *open_set(const struct ring_map *m, struct wire_ctl *ctl)
{
	uint32_t lanes = m->ring->lanes, i;
	size_t bytes = sizeof(struct rec_set) + lanes * sizeof(struct ring_writer);
	struct rec_set *set;

	bytes = (bytes + WIRE_PAGE - 1) & ~(size_t)(WIRE_PAGE - 1);
	set = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		   -1, 0);
	if (set == MAP_FAILED)
		return NULL;
	if (madvise(set, bytes, MADV_WIPEONFORK) < 0) {
		munmap(set, bytes);
		return NULL;
	}
	set->alive = 1;
	set->lanes = lanes;
	set->pid = getpid();
	set->older = rec.set;
	set->ring = *m;
	set->ctl = ctl;
	for (i = 0; i < lanes; i++) {
		ring_writer_init(&set->writers[i], m->base, &m->lanes[i], ctl);
		set->writers[i].set = set;
	}
	return set;
}

/* Nothing has the ring's name yet: take all of it back. */
static int open_undo(int rings, const char *tmp, struct ring_map *m, int err)
{
	unlinkat(rings, tmp, 0);
	ring_unmap(m);
	return open_fail(err, "making the ring", NULL);
}

/* The ring has its name: from here on it is recorded into. */
static void open_publish(struct rec_set *set)
{
	struct wire_anchor *opened = &set->ring.ring->opened;

	__atomic_store_n(&rec.utc_minus_boot, opened->real_ns - opened->boot_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&set->ctl->state, WIRE_STATE_OPEN, __ATOMIC_RELAXED);
	rec_rank_from_environment(set->ctl);
	rec_anchor(set);
	__atomic_store_n(&rec.set, set, __ATOMIC_RELEASE);
	__atomic_store_n(&rec.closed, false, __ATOMIC_RELEASE);
	if (rec.bell)
		bell_ring(rec.bell);
}

/* Everything in RINGS: control page, ring, set; published by the rename. */
static int open_in(int rings, bool forked)
{
	uint64_t start_time = rendezvous_start_time(getpid()), aux = open_aux();
	char ctl_name[96], tmp[160], name[160];
	struct wire_anchor before;
	struct ring_map map;
	struct rec_set *set;
	int err;

	snprintf(ctl_name, sizeof(ctl_name), "%ld-%llu-%08x.ctl", (long)getpid(),
		 (unsigned long long)start_time, (unsigned)aux);
	clock_anchor(rec.clock, &before);
	err = rec_page_open(rings, ctl_name, start_time, aux);
	if (err)
		return open_fail(err, "control page in the rendezvous folder", NULL);
	snprintf(tmp, sizeof(tmp), ".%s.%llx.tmp", ctl_name,
		 (unsigned long long)clock_ticks(rec.clock));
	err = open_make_ring(rings, tmp, forked, &map);
	if (err)
		return open_fail(err, "no room for a ring in the rendezvous folder",
				 "free space in /dev/shm (docker: --shm-size)");
	if (!forked)
		open_rate(&before);
	open_fill_ring(map.ring, ctl_name, start_time, forked);
	madvise(map.base, map.bytes, MADV_DONTFORK);
	set = open_set(&map, rec.page.ctl);
	if (!set)
		return open_undo(rings, tmp, &map, -ENOMEM);
	err = rec_registry_attach(map.registry, map.ring->registry_bytes, set->ctl);
	if (err)
		return open_undo(rings, tmp, &map, err);
	snprintf(name, sizeof(name), "%.80s.%02x%02x%02x%02x.ring", ctl_name, map.ring->uid[0],
		 map.ring->uid[1], map.ring->uid[2], map.ring->uid[3]);
	/* The registry is mapped here for good: only the file goes. */
	if (renameat(rings, tmp, rings, name) < 0) {
		err = -errno;
		unlinkat(rings, tmp, 0);
		return open_fail(err, "making the ring", NULL);
	}
	open_publish(set);
	return 0;
}

static int open_ring(bool forked)
{
	int dir, rings, err;

	dir = rendezvous_open(1);
	if (dir < 0)
		return open_fail(dir, "rendezvous folder",
				 "it must be a folder of yours with mode 0700");
	/* Children of fork() keep their parent's: one bell a user. */
	if (!rec.bell)
		rec.bell = bell_map(dir);
	rings = openat(dir, "rings", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	err = rings < 0 ? -errno : open_in(rings, forked);
	if (rings < 0)
		open_fail(err, "rings/ in the rendezvous folder", NULL);
	else
		close(rings);
	close(dir);
	return err;
}

int rec_open_ring(bool forked)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	sigset_t others, before;
	struct rlimit file;
	size_t i;
	int err;

	/* What would not even take the small files raises a deadly signal. */
	if (getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur < RING_BYTES_MIN)
		return open_fail(-EFBIG, "no ring of 192 KiB",
				 "raise the limit of file sizes (ulimit -f)");
	/* A timer's signals would interrupt the allocation again and again. */
	sigfillset(&others);
	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&others, own[i]);
	pthread_sigmask(SIG_SETMASK, &others, &before);
	err = open_ring(forked);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* ---- the public calls -------------------------------------------------------- */

/* The agent keeps nothing of the program's: a pipe that it held would never end,
 * a folder could not be unmounted. */
static void open_exec_agent(const char *program, const char *rendezvous)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t none;
	int sig, fd, null = open("/dev/null", O_RDWR);

	for (sig = 1; sig < NSIG; sig++)
		sigaction(sig, &dfl, NULL);
	if (null < 0 || chdir("/") < 0)
		return;
	for (fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
		for (fd = 3; fd < OPEN_FDS_OLD; fd++)
			close(fd);
	umask(077);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execlp(program, "lapse", "agent", "--rendezvous", rendezvous, "--idle-exit", "60",
	       (char *)NULL);
}

static void open_spawn_agent(void)
{
	const char *bin = getenv("LAPSE_BIN");
	char path[RENDEZVOUS_PATH_MAX], program[PATH_MAX];
	int dir = rendezvous_open(1), locked;
	pid_t pid;

	if (dir < 0 || rendezvous_path(path) < 0)
		return;
	locked = rendezvous_is_locked(dir, "agent.lock");
	close(dir);
	if (locked)
		return;
	/* The agent leaves this folder before it is executed. */
	if (!bin || !strchr(bin, '/') || !realpath(bin, program))
		snprintf(program, sizeof(program), "%s", bin && bin[0] ? bin : "lapse");
	/* Twice, so that the agent is nobody's zombie. Exits without handlers:
	 * this is a copy of somebody else's program. */
	pid = fork();
	if (pid == 0) {
		setsid();
		if (fork() == 0)
			open_exec_agent(program, path);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void open_copy(char *to, size_t cap, const char *from, const char *otherwise)
{
	const char *text = from ? from : otherwise;
	size_t n = rec_cut(text, cap - 1);

	memcpy(to, text, n);
	to[n] = '\0';
}

/* $LAPSE_RING_KIB in bytes; 0: not given. */
static uint64_t open_ring_environment(void)
{
	const char *text = getenv("LAPSE_RING_KIB");
	uint64_t kib = text && text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : 0;

	return kib > WIRE_RING_BYTES_MAX >> 10 ? WIRE_RING_BYTES_MAX : kib << 10;
}

static void open_store_dir(const char *given)
{
	const char *dir = given ? given : getenv("LAPSE_DIR");
	char cwd[sizeof(rec.opt.store_dir)];

	if (!dir || !dir[0])
		dir = "lapse-runs";
	if (dir[0] == '/' || !getcwd(cwd, sizeof(cwd)))
		open_copy(rec.opt.store_dir, sizeof(rec.opt.store_dir), dir, "");
	else if ((size_t)snprintf(rec.opt.store_dir, sizeof(rec.opt.store_dir), "%s/%s", cwd,
				  dir) >= sizeof(rec.opt.store_dir))
		rec.opt.store_dir[0] = '\0';
}

/* Options of any size, older or newer than ours. */
static int open_options(const struct lapse_options *given)
{
	struct lapse_options o = {0};
	const char *run = getenv("LAPSE_RUN");

	if (given && given->size < sizeof(size_t))
		return open_fail(-EINVAL, "options", "set the member size");
	if (given)
		memcpy(&o, given, given->size < sizeof(o) ? given->size : sizeof(o));
	if (o.lanes > WIRE_LANES_MAX)
		return open_fail(-EINVAL, "options", "at most 256 lanes");
	open_copy(rec.opt.name, sizeof(rec.opt.name), o.name, "");
	open_copy(rec.opt.project, sizeof(rec.opt.project), o.project, "");
	open_copy(rec.opt.role, sizeof(rec.opt.role), o.role, "trainer");
	open_store_dir(o.store_dir);
	rec.opt.ring_bytes = o.ring_bytes ? o.ring_bytes : open_ring_environment();
	if (rec.opt.ring_bytes == 0)
		rec.opt.ring_bytes = OPEN_RING_DEFAULT;
	if (rec.opt.ring_bytes > WIRE_RING_BYTES_MAX)
		rec.opt.ring_bytes = WIRE_RING_BYTES_MAX;
	rec.opt.lanes = o.lanes ? o.lanes : OPEN_LANES_DEFAULT;
	if (o.has_rank) {
		rec.opt.has_rank = 1;
		rec.opt.rank = o.rank;
		rec.opt.local_rank = o.local_rank;
		rec.opt.world_size = o.world_size;
	}
	/* One that this process or its parent made up stays. */
	if (run && run[0])
		open_copy(rec.run, sizeof(rec.run), run, "");
	if (o.start_agent)
		open_spawn_agent();
	return 0;
}

/* Is it open already? In a child of fork() without a ring: is a thread just
 * making one, or is it ours to make now? */
static bool open_is_done(void)
{
	struct rec_set *set = __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE);
	uint32_t expected = 0;

	if (!set || __atomic_load_n(&rec.closed, __ATOMIC_RELAXED))
		return false;
	return set->alive || !__atomic_compare_exchange_n(&set->taken, &expected, 1, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static int open_now(const struct lapse_options *opt)
{
	const char *off = getenv("LAPSE_DISABLE");
	static bool at_exit;
	int err;

	rec.error[0] = '\0';
	if (off && off[0] && strcmp(off, "0") != 0)
		return open_fail(-ENOSYS, "switched off by LAPSE_DISABLE", NULL);
	err = open_options(opt);
	if (err)
		return err;
	/* One for the process's life: its control page tells only one. */
	if (rec.clock == 0)
		rec.clock = clock_kind();
	if (!rec.has_key)
		rec.has_key = pthread_key_create(&rec.key, rec_thread_end) == 0;
	err = rec_open_ring(false);
	if (!err && !at_exit)
		at_exit = rec_at_exit() == 0;
	return err;
}

int lapse_open(const struct lapse_options *opt)
{
	int saved = errno, err = 0;

	rec_lock(&open_locked_by);
	if (!open_is_done())
		err = open_now(opt);
	/* A child that could not make its ring is inert; a closed one stays closed. */
	if (err && rec.set && !rec.set->alive)
		__atomic_store_n(&rec.set, NULL, __ATOMIC_RELEASE);
	rec_unlock(&open_locked_by);
	errno = saved;
	return err;
}

void lapse_close(void)
{
	struct rec_set *set;
	int saved = errno;

	rec_lock(&open_locked_by);
	set = __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE);
	/* A child of fork() may have no ring yet: then it makes none. */
	if (set && !__atomic_exchange_n(&rec.closed, true, __ATOMIC_RELAXED) && set->alive) {
		rec_anchor(set);
		__atomic_store_n(&set->ring.ring->state, WIRE_STATE_CLOSED, __ATOMIC_RELEASE);
		__atomic_store_n(&set->ctl->state, WIRE_STATE_CLOSED, __ATOMIC_RELEASE);
		if (rec_writer && rec_writer->set == set) {
			if (rec.has_key)
				pthread_setspecific(rec.key, NULL);
			rec_thread_end(rec_writer);
		}
	}
	rec_unlock(&open_locked_by);
	errno = saved;
}

int lapse_is_open(void)
{
	return __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&rec.closed, __ATOMIC_RELAXED);
}

const char *lapse_error(void)
{
	return rec.error;
}

const char *lapse_version(void)
{
	return LAPSE_VERSION;
}

int64_t lapse_now(void)
{
	if (!__atomic_load_n(&rec.set, __ATOMIC_ACQUIRE))
		return 0;
	return clock_ns(CLOCK_BOOTTIME) + __atomic_load_n(&rec.utc_minus_boot, __ATOMIC_RELAXED);
}

/* What this set's lanes took and dropped. */
static void open_count(const struct rec_set *set, struct lapse_stats *s)
{
	const struct wire_lane *lane = set->ring.lanes;
	uint32_t i;

	s->dropped += __atomic_load_n(&set->lost, __ATOMIC_RELAXED);
	for (i = 0; i < set->lanes; i++, lane++) {
		s->accepted += __atomic_load_n(&set->writers[i].records, __ATOMIC_RELAXED);
		s->dropped += __atomic_load_n(&lane->dropped, __ATOMIC_RELAXED) +
			      __atomic_load_n(&lane->dropped_signal, __ATOMIC_RELAXED);
	}
}

void lapse_stats(struct lapse_stats *out)
{
	struct rec_set *set = __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE);
	struct lapse_stats s = {0};

	rec_registry_count(&s.definitions, &s.refused);
	if (set && set->alive) {
		s.ring_bytes = set->ring.bytes;
		s.dropped += __atomic_load_n(&set->ctl->dropped_no_lane, __ATOMIC_RELAXED) +
			     __atomic_load_n(&set->ctl->dropped_closed, __ATOMIC_RELAXED);
	}
	for (; set; set = set->older)
		open_count(set, &s);
	s.attempts = s.accepted + s.dropped;
	*out = s;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.c - see rig.h. The reader runs in the process of the test, never in one
 * that records: closing a control page drops the lock that its process holds.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void rig_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: in process %d: not so: %s; lapse_error(): \"%s\"\n", file, line,
		(int)getpid(), what, lapse_error());
	_exit(99);
}

void rig_make(struct rig *rig)
{
	static const char *const unset[] = {"LAPSE_RUN",
					    "LAPSE_DIR",
					    "LAPSE_RING_KIB",
					    "LAPSE_DISABLE",
					    "LAPSE_BIN",
					    "RANK",
					    "LOCAL_RANK",
					    "WORLD_SIZE",
					    "SLURM_PROCID",
					    "SLURM_LOCALID",
					    "SLURM_NTASKS",
					    "OMPI_COMM_WORLD_RANK",
					    "OMPI_COMM_WORLD_LOCAL_RANK",
					    "OMPI_COMM_WORLD_SIZE",
					    "PMI_RANK",
					    "PMI_LOCAL_RANK",
					    "PMI_SIZE"};
	char inner[80];
	size_t i;

	for (i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
		unsetenv(unset[i]);
	strcpy(rig->dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/lapse-test-XXXXXX"
						       : "/tmp/lapse-test-XXXXXX");
	assert_non_null(mkdtemp(rig->dir));
	snprintf(inner, sizeof(inner), "%s/runs", rig->dir);
	assert_int_equal(mkdir(inner, 0700), 0);
	snprintf(inner, sizeof(inner), "%s/rings", rig->dir);
	assert_int_equal(mkdir(inner, 0700), 0);
	rig->rings = open(inner, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(rig->rings >= 0);
	setenv("LAPSE_RENDEZVOUS", rig->dir, 1);
}

static int rig_remove(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void rig_done(struct rig *rig)
{
	close(rig->rings);
	nftw(rig->dir, rig_remove, 16, FTW_DEPTH | FTW_PHYS);
	unsetenv("LAPSE_RENDEZVOUS");
}

static void *rig_shared;
static size_t rig_shared_bytes;

void *rig_share(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	if (!rig_shared) {
		rig_shared = p;
		rig_shared_bytes = bytes;
	}
	return p;
}

pid_t rig_start(void (*fn)(void *arg), void *arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		/* Nothing is left when a test is ended from outside. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(arg);
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

void rig_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	if (WIFSIGNALED(status))
		fail_msg("the child died by signal %d", WTERMSIG(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

pid_t rig_run(void (*fn)(void *arg), void *arg)
{
	pid_t pid = rig_start(fn, arg);

	rig_wait(pid);
	return pid;
}

void rig_until(const int *word, int value)
{
	struct timespec ms = {0, 200000};

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
		nanosleep(&ms, NULL);
}

void rig_set(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static int tape_def(void *arg, const struct reader_def *d)
{
	struct tape *t = arg;
	struct rig_def *to;

	/* Grown at powers of two. */
	if ((t->n_defs & (t->n_defs - 1)) == 0)
		t->defs = realloc(t->defs, (t->n_defs ? 2 * t->n_defs : 1) * sizeof(*t->defs));
	assert_non_null(t->defs);
	assert_int_equal(d->id, t->n_defs + 1);
	to = &t->defs[t->n_defs++];
	to->kind = d->kind;
	snprintf(to->name, sizeof(to->name), "%s", d->name);
	snprintf(to->unit, sizeof(to->unit), "%s", d->unit);
	snprintf(to->help, sizeof(to->help), "%s", d->help);
	snprintf(to->labels, sizeof(to->labels), "%s", d->labels);
	return 0;
}

/* One lane to its end, behind what is there; places as offsets until all is
 * read, since the bytes may move. */
static void tape_lane(struct tape *t, uint32_t lane)
{
	static unsigned char chunk[1 << 20];
	const struct wire_rec *first, *r;
	uint64_t slots;

	for (;;) {
		assert_int_equal(
			reader_drain(&t->reader, lane, chunk, sizeof(chunk), &first, &slots), 0);
		if (t->reader.lane[lane].quarantined)
			fail_msg("lane %u: %s", lane, t->reader.lane[lane].why);
		if (slots == 0)
			return;
		t->bytes = realloc(t->bytes, t->n_bytes + slots * WIRE_SLOT);
		t->items = realloc(t->items, (t->n + slots) * sizeof(*t->items));
		assert_true(t->bytes && t->items);
		memcpy(t->bytes + t->n_bytes, first, slots * WIRE_SLOT);
		for (r = first; r < first + slots; r += r->slots) {
			uintptr_t at = t->n_bytes + (uintptr_t)(r - first) * WIRE_SLOT;

			if (r->type != WIRE_PAD)
				t->items[t->n++] = (struct tape_item){lane, (void *)at};
		}
		t->n_bytes += slots * WIRE_SLOT;
	}
}

static void tape_read(struct tape *t)
{
	uint32_t lane;
	size_t i;

	assert_true(reader_defs(&t->reader, tape_def, t) >= 0);
	for (lane = 0; lane < t->reader.ring.lanes; lane++)
		tape_lane(t, lane);
	for (i = 0; i < t->n; i++)
		t->items[i].r = (void *)(t->bytes + (uintptr_t)t->items[i].r);
}

static int tape_order(const void *a, const void *b)
{
	const struct tape *x = a, *y = b;
	int64_t d = x->reader.ring.opened.mono_ns - y->reader.ring.opened.mono_ns;

	return d < 0 ? -1 : d > 0;
}

static bool rig_ends(const char *name, const char *suffix)
{
	size_t n = strlen(name), k = strlen(suffix);

	return n >= k && strcmp(name + n - k, suffix) == 0;
}

void tapes_read(const struct rig *rig, struct tapes *out)
{
	DIR *dir = fdopendir(openat(rig->rings, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;
	char why[128] = "";

	out->a = calloc(TAPES_MAX, sizeof(*out->a));
	out->n = 0;
	assert_true(dir && out->a);
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.' || !rig_ends(e->d_name, ".ring"))
			continue;
		assert_true(out->n < TAPES_MAX);
		if (reader_open(rig->rings, e->d_name, &out->a[out->n].reader, why) != 0)
			fail_msg("%s: %s", e->d_name, why);
		tape_read(&out->a[out->n++]);
	}
	closedir(dir);
	qsort(out->a, out->n, sizeof(*out->a), tape_order);
}

void tapes_done(struct tapes *t)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		reader_done(&t->a[i].reader);
		free(t->a[i].items);
		free(t->a[i].defs);
		free(t->a[i].bytes);
	}
	free(t->a);
}

struct tape *tapes_of(struct tapes *t, pid_t pid)
{
	struct tape *found = NULL;
	size_t i;

	for (i = 0; i < t->n; i++) {
		if (t->a[i].reader.ring.pid != (uint32_t)pid)
			continue;
		if (found)
			fail_msg("process %d has more than one ring", (int)pid);
		found = &t->a[i];
	}
	if (!found)
		fail_msg("process %d has no ring", (int)pid);
	return found;
}

size_t tape_records(const struct tape *t)
{
	size_t i, n = 0;

	for (i = 0; i < t->n; i++)
		n += t->items[i].r->type != WIRE_OWNER;
	return n;
}

const struct wire_rec *tape_at(const struct tape *t, size_t want)
{
	size_t i, n = 0;

	for (i = 0; i < t->n; i++)
		if (t->items[i].r->type != WIRE_OWNER && n++ == want)
			return t->items[i].r;
	fail_msg("there is no record %zu, only %zu", want, n);
	return NULL;
}

size_t rig_count_files(const struct rig *rig, const char *suffix)
{
	DIR *dir = fdopendir(openat(rig->rings, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;
	size_t n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		n += rig_ends(e->d_name, suffix) && strcmp(e->d_name, ".") &&
		     strcmp(e->d_name, "..");
	closedir(dir);
	return n;
}

pid_t rig_play(struct rig *rig, struct tapes *t, void (*fn)(void *arg))
{
	pid_t pid;

	memset(rig_shared, 0, rig_shared_bytes);
	rig_make(rig);
	pid = rig_run(fn, NULL);
	tapes_read(rig, t);
	return pid;
}

pid_t rig_play_one(struct rig *rig, struct tapes *t, void (*fn)(void *arg))
{
	pid_t pid = rig_play(rig, t, fn);

	assert_int_equal(t->n, 1);
	return pid;
}

void rig_play_done(struct rig *rig, struct tapes *t)
{
	tapes_done(t);
	rig_done(rig);
}

void rig_check_stats(uint64_t attempts, uint64_t accepted)
{
	struct lapse_stats s;

	lapse_stats(&s);
	CHECK(s.attempts == attempts);
	CHECK(s.accepted == accepted);
	CHECK(s.dropped == attempts - accepted);
}

void rig_check_inert(void)
{
	struct lapse_value v = {1, lapse_gauge("g", NULL, NULL, NULL)};

	CHECK(!lapse_is_open());
	lapse_set(v.metric, 1);
	lapse_log(&v, 1);
	lapse_span_end(lapse_span_begin(lapse_name("n")));
	lapse_step_begin(1);
	lapse_step_end(1, 1);
	lapse_epoch_begin(1);
	lapse_event(LAPSE_INFO, "k", "t", NULL);
	lapse_attr("k", "v");
	lapse_heartbeat();
	CHECK(lapse_step_now() == LAPSE_STEP_NONE);
	lapse_set_rank(1, 1, 1);
	lapse_close();
}

void rig_reap(pid_t pid)
{
	int status = -1;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
}

pid_t rig_in_child(void (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		fn();
		_exit(0);
	}
	rig_reap(pid);
	return pid;
}

void tape_assert_value(const struct tape *t, size_t i, double value, int64_t step)
{
	const struct wire_rec *r = tape_at(t, i);

	assert_int_equal(r->type, WIRE_SET);
	assert_true(r->value == value);
	assert_true(r->step == step);
	assert_in_range(r->id, 1, t->n_defs);
	assert_string_equal(t->defs[r->id - 1].name, "g");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The promises of the hot path: errno stays on every path, a million calls make
 * no system call (the kernel would end the process) and allocate nothing, and a
 * sleeping agent is woken when a lane is a quarter behind.
 */
#include "rig.h"

#include "wire/bell.h"
#include "wire/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats;
	uint64_t allocations;
	int words[4];
	int skipped;
};

static struct shared *sh;

static struct lapse_metric gauge, counter, histogram;
static struct lapse_name name;
static struct lapse_span span;
static struct lapse_value values[40];

static void define_all(void)
{
	size_t i;

	gauge = lapse_gauge("g", NULL, NULL, NULL);
	counter = lapse_counter("c", NULL, NULL, NULL);
	histogram = lapse_histogram("h", NULL, NULL, NULL);
	name = lapse_name("n");
	for (i = 0; i < 40; i++)
		values[i] = (struct lapse_value){(double)i, gauge};
}

/* ---- every hot call ------------------------------------------------------------ */

static void call_set(void)
{
	lapse_set(gauge, 1);
}

static void call_add(void)
{
	lapse_add(counter, 1);
}

static void call_observe(void)
{
	lapse_observe(histogram, 1);
}

static void call_set_at(void)
{
	lapse_set_at(gauge, 1, 7, LAPSE_NOW);
}

static void call_add_at(void)
{
	lapse_add_at(counter, 1, LAPSE_STEP_NONE, 1);
}

static void call_observe_at(void)
{
	lapse_observe_at(histogram, 1, LAPSE_STEP_CURRENT, 1);
}

static void call_log(void)
{
	lapse_log(values, 20);
}

static void call_log_at(void)
{
	lapse_log_at(values, 40, 7, 1);
}

static void call_span_begin(void)
{
	span = lapse_span_begin(name);
}

static void call_span_end(void)
{
	lapse_span_end(span);
}

static void call_span_at(void)
{
	lapse_span_at(name, 1, 2, LAPSE_STEP_CURRENT);
}

static void call_step_begin(void)
{
	lapse_step_begin(LAPSE_STEP_NEXT);
}

static void call_step_end(void)
{
	lapse_step_end(1, 2);
}

static void call_epoch_begin(void)
{
	lapse_epoch_begin(1);
}

static void call_epoch_end(void)
{
	lapse_epoch_end();
}

static void call_event(void)
{
	lapse_event(LAPSE_INFO, "kind", "a text", "{\"a\": 1}");
}

static void call_attr(void)
{
	lapse_attr("key", "value");
}

static void call_heartbeat(void)
{
	lapse_heartbeat();
}

static void call_step_now(void)
{
	lapse_step_now();
}

static void call_now(void)
{
	lapse_now();
}

static void (*const hot[])(void) = {
	call_set,        call_add,        call_observe,   call_set_at,      call_add_at,
	call_observe_at, call_log,        call_log_at,    call_span_begin,  call_span_end,
	call_span_at,    call_step_begin, call_step_end,  call_epoch_begin, call_epoch_end,
	call_event,      call_attr,       call_heartbeat, call_step_now,    call_now};
#define HOT (sizeof(hot) / sizeof(hot[0]))

/* ---- errno ------------------------------------------------------------------------ */

static void check_errno_of(void (*call)(void))
{
	errno = 12345;
	call();
	CHECK(errno == 12345);
}

static void check_errno(void)
{
	size_t i;

	for (i = 0; i < HOT; i++)
		check_errno_of(hot[i]);
	errno = 12345;
	define_all();
	lapse_stats(&sh->stats);
	lapse_set_rank(1, 1, 2);
	CHECK(lapse_is_open() >= 0);
	CHECK(errno == 12345);
}

static void *errno_thread(void *arg)
{
	/* The first record of a thread claims a lane, or finds none. */
	check_errno_of(*(void (**)(void))arg);
	check_errno();
	return NULL;
}

static void in_thread(size_t first)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, errno_thread, (void *)&hot[first]) == 0);
	pthread_join(thread, NULL);
}

/* In a child, by the first call that it makes: its ring, or none if `path`. */
static void in_child(size_t first, const char *path)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (path)
			setenv("LAPSE_RENDEZVOUS", path, 1);
		check_errno_of(hot[first]);
		check_errno();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void open_with(unsigned lanes)
{
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 192 << 10, .lanes = lanes};

	errno = 12345;
	CHECK(lapse_open(&o) == 0);
	CHECK(errno == 12345);
}

static void errno_child(void *arg)
{
	size_t i;

	(void)arg;
	check_errno(); /* before the ring */
	open_with(2);
	check_errno();
	for (i = 0; i < HOT; i++)
		in_thread(i);
	for (i = 0; i < HOT; i++)
		in_child(i, NULL);
	for (i = 0; i < HOT; i++)
		in_child(i, "/proc/self");
	errno = 12345;
	lapse_close();
	CHECK(errno == 12345);
	check_errno();
	open_with(1);
	check_errno();
	for (i = 0; i < HOT; i++)
		in_thread(i); /* no lane for it */
	/* An agent that keeps, and never drains: drops. */
	rig_set(&sh->words[0], 1);
	rig_until(&sh->words[1], 1);
	for (i = 0; i < 1000; i++)
		check_errno();
	CHECK(sh->stats.dropped > 1000);
	lapse_close();
	setenv("LAPSE_RENDEZVOUS", "/proc/self", 1);
	errno = 12345;
	CHECK(lapse_open(NULL) < 0);
	CHECK(errno == 12345);
	check_errno();
}

static void test_errno(void **state)
{
	struct rig rig;
	struct tapes t;
	size_t i;
	pid_t pid;

	(void)state;
	memset(sh, 0, sizeof(*sh));
	rig_make(&rig);
	pid = rig_start(errno_child, NULL);
	rig_until(&sh->words[0], 1);
	tapes_read(&rig, &t);
	for (i = 0; i < t.n; i++)
		reader_keep(&t.a[i].reader, clock_ticks(clock_kind()) + (UINT64_C(1) << 40),
			    UINT64_C(1) << 40);
	tapes_done(&t);
	rig_set(&sh->words[1], 1);
	rig_wait(pid);
	rig_done(&rig);
}

/* ---- no system call, no allocation --------------------------------------------------- */

static uint64_t allocations;

#if !RIG_SANITIZED && defined(__GLIBC__)
#define COUNTS_ALLOCATIONS 1
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
	__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
	return __libc_realloc(p, n);
}
#else
#define COUNTS_ALLOCATIONS 0
#endif

/* From here on any system call but a few ends the process by SIGSYS. */
static int forbid_system_calls(void)
{
	/* Where ticks are the kernel's clock, reading them may be a call. */
	unsigned clock = clock_kind() == WIRE_CLOCK_MONOTONIC ? SYS_clock_gettime : SYS_exit_group;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, clock, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#define CALLS 1000000

static void quiet_child(void *arg)
{
	uint64_t before;
	size_t i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	define_all();
	for (i = 0; i < HOT; i++)
		hot[i]();
	if (forbid_system_calls() < 0) {
		sh->skipped = 1;
		return;
	}
	before = allocations;
	for (i = 0; i < CALLS; i++)
		hot[i % HOT]();
	sh->allocations = allocations - before;
	lapse_stats(&sh->stats);
}

static void test_quiet(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	if (RIG_SANITIZED)
		skip(); /* their own calls */
	memset(sh, 0, sizeof(*sh));
	rig_make(&rig);
	rig_run(quiet_child, NULL);
	tapes_read(&rig, &t);
	if (!sh->skipped) {
		assert_int_equal(sh->allocations, 0);
		assert_true(allocations > 0 || !COUNTS_ALLOCATIONS);
		assert_true(sh->stats.accepted > CALLS / 2);
		assert_int_equal(sh->stats.dropped, 0);
		assert_int_equal(tape_records(&t.a[0]) + t.a[0].reader.lane[0].overwritten,
				 sh->stats.accepted);
	}
	tapes_done(&t);
	rig_done(&rig);
	if (sh->skipped)
		skip(); /* no seccomp here */
}

/* That the test above can fail. */
static void loud_child(void *arg)
{
	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	define_all();
	if (forbid_system_calls() < 0) {
		sh->skipped = 1;
		return;
	}
	lapse_set(gauge, 1); /* claims a lane: asks for the thread's id */
}

static void test_loud(void **state)
{
	struct rig rig;
	int status;
	pid_t pid;

	(void)state;
	if (RIG_SANITIZED)
		skip();
	memset(sh, 0, sizeof(*sh));
	rig_make(&rig);
	pid = rig_start(loud_child, NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	rig_done(&rig);
	if (sh->skipped)
		skip();
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

/* ---- the bell -------------------------------------------------------------------------- */

static void bell_child(void *arg)
{
	const struct wire_bell *bell = arg;
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 1 << 20, .lanes = 1};
	uint64_t i;

	CHECK(lapse_open(&o) == 0);
	define_all();
	rig_set(&sh->words[0], 1);
	rig_until(&sh->words[1], 1);
	for (i = 0; i < 100000 && __atomic_load_n(&bell->sleeping, __ATOMIC_RELAXED); i++)
		lapse_set(gauge, 1);
	sh->stats.accepted = i;
	CHECK(lapse_is_open());
}

static void test_bell(void **state)
{
	struct wire_bell *bell;
	struct rig rig;
	struct tapes t;
	int dir;
	pid_t pid;

	(void)state;
	memset(sh, 0, sizeof(*sh));
	rig_make(&rig);
	dir = open(rig.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bell = bell_map(dir);
	assert_non_null(bell);
	pid = rig_start(bell_child, bell);
	rig_until(&sh->words[0], 1);
	/* An agent goes to sleep. */
	__atomic_store_n(&bell->sleeping, 1, __ATOMIC_SEQ_CST);
	rig_set(&sh->words[1], 1);
	while (__atomic_load_n(&bell->sleeping, __ATOMIC_SEQ_CST) == 1)
		syscall(SYS_futex, &bell->sleeping, FUTEX_WAIT, 1, NULL, NULL, 0);
	rig_wait(pid);
	tapes_read(&rig, &t);
	/* Not before a quarter is waiting, and not much later: an eighth. */
	assert_in_range(sh->stats.accepted + 2, t.a[0].reader.lanes[0].slots / 4,
			t.a[0].reader.lanes[0].slots / 8 * 3 + 2);
	tapes_done(&t);
	munmap(bell, WIRE_PAGE);
	close(dir);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errno),
		cmocka_unit_test(test_quiet),
		cmocka_unit_test(test_loud),
		cmocka_unit_test(test_bell),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

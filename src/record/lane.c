/* SPDX-License-Identifier: Apache-2.0
 *
 * The slow path of recording: claiming a lane for a thread, a ring for a child
 * of fork(), room in a lane, and waking the agent.
 */
#include "record/record_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The thread is in the slow path: a handler that comes here must not. */
static __thread bool rec_busy __attribute__((tls_model("initial-exec")));

static void rec_count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* The current set, made anew in a child of fork(). NULL if there is none. */
static struct rec_set *rec_current(void)
{
	struct rec_set *set = __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE);
	uint32_t expected = 0;

	if (!set || set->alive)
		return set;
	/* A wiped set: one thread of the child makes the ring; others that come
	 * meanwhile lose their record. A child of a closed parent is closed. */
	if (__atomic_load_n(&rec.closed, __ATOMIC_RELAXED) ||
	    !__atomic_compare_exchange_n(&set->taken, &expected, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return NULL;
	if (rec_open_ring(true) < 0)
		__atomic_store_n(&rec.set, NULL, __ATOMIC_RELEASE);
	return __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE);
}

/* The OWNER record, first of a lane's new owner. */
static int lane_own(struct ring_writer *w)
{
	bool behind;
	struct wire_rec *r;
	uint64_t hold;
	int err;

	err = ring_make_room(w, 2, rec_ticks(), &behind);
	if (err)
		return err;
	r = ring_begin(w, 2, &hold);
	if (!r)
		return -EBUSY;
	memset(r, 0, 2 * sizeof(*r));
	r->type = WIRE_OWNER;
	r->slots = 2;
	r->id = w->tid;
	r->time = rec_ticks();
	r->step = WIRE_STEP_NONE;
	prctl(PR_GET_NAME, (char *)(r + 1));
	ring_commit(w, 2, 0, hold);
	return 0;
}

static void lane_release(struct ring_writer *w)
{
	ring_publish_records(w);
	__atomic_store_n(&w->lane->depth, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&w->lane->tid, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&w->used, 0, __ATOMIC_RELEASE);
}

/* Take the lane from thread `from`; 0: from nobody. */
static bool lane_take(struct ring_writer *w, uint32_t from, uint32_t tid)
{
	if (!__atomic_compare_exchange_n(&w->used, &from, tid, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	w->tid = tid;
	__atomic_store_n(&w->lane->depth, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&w->lane->tid, tid, __ATOMIC_RELAXED);
	if (lane_own(w) == 0)
		return true;
	/* Full of an earlier owner's records: perhaps another lane. */
	lane_release(w);
	return false;
}

/* A lane whose thread ended without giving it back: a handler recorded when the
 * thread's destructors had run already. Looked for 100 times a second at most. */
static struct ring_writer *lane_of_dead(struct rec_set *set, uint32_t tid)
{
	uint64_t now = rec_ticks(), last = __atomic_load_n(&set->swept, __ATOMIC_RELAXED);
	uint32_t i, owner;

	if (now - last < rec.ticks_per_s / 100 ||
	    !__atomic_compare_exchange_n(&set->swept, &last, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return NULL;
	for (i = 0; i < set->lanes; i++) {
		struct ring_writer *w = &set->writers[i];

		owner = __atomic_load_n(&w->used, __ATOMIC_RELAXED);
		if (owner && syscall(SYS_tgkill, set->pid, owner, 0) < 0 && errno == ESRCH &&
		    lane_take(w, owner, tid))
			return w;
	}
	return NULL;
}

static struct ring_writer *lane_claim(struct rec_set *set)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), i;

	for (i = 0; i < set->lanes; i++) {
		struct ring_writer *w = &set->writers[i];

		if (__atomic_load_n(&w->used, __ATOMIC_RELAXED) == 0 && lane_take(w, 0, tid))
			return w;
	}
	return lane_of_dead(set, tid);
}

void rec_thread_end(void *writer)
{
	struct ring_writer *w = writer;

	/* First: a handler must not use a lane that is given back. */
	rec_writer = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	/* Wiped: this is a child of fork() and the lane is its parent's. */
	if (w->lane)
		lane_release(w);
}

/* An attempt that no lane counts. */
static void rec_lose(void)
{
	struct rec_set *set = __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE);

	if (set)
		rec_count(&set->lost);
}

static struct ring_writer *rec_room(uint32_t n)
{
	struct rec_set *set = rec_current();
	struct ring_writer *w = rec_writer;
	bool behind = false, fresh = false;
	int err;

	if (!set) {
		rec_lose();
		return NULL;
	}
	if (__atomic_load_n(&rec.closed, __ATOMIC_RELAXED)) {
		rec_count(&set->ctl->dropped_closed);
		return NULL;
	}
	if (!w || w->set != set) {
		/* Of a ring closed since: what is in it is all. */
		if (w)
			rec_thread_end(w);
		w = lane_claim(set);
		fresh = true;
	}
	if (!w) {
		rec_count(&set->ctl->dropped_no_lane);
		return NULL;
	}
	err = ring_make_room(w, n, rec_ticks(), &behind);
	if (fresh) {
		if (rec.has_key)
			pthread_setspecific(rec.key, w);
		rec_writer = w;
	}
	if (err)
		__atomic_store_n(&w->lane->dropped, w->lane->dropped + 1, __ATOMIC_RELAXED);
	if ((behind || err) && rec.bell)
		bell_ring(rec.bell);
	return err ? NULL : w;
}

struct ring_writer *rec_make_room(uint32_t n)
{
	struct ring_writer *w = rec_writer;
	int saved = errno;

	/* A handler that interrupted a record of this thread finds the lane
	 * closed (limit 0), or the thread in here. */
	if (rec_busy || (w && w->set && w->limit == 0)) {
		if (w && w->lane)
			rec_count(&w->lane->dropped_signal);
		else
			rec_lose();
		return NULL;
	}
	rec_busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	w = rec_room(n);
	atomic_signal_fence(memory_order_seq_cst);
	rec_busy = false;
	errno = saved;
	return w;
}

struct wire_ctl *rec_ctl(void)
{
	struct rec_set *set = __atomic_load_n(&rec.set, __ATOMIC_ACQUIRE);
	int saved = errno;

	if (REC_UNLIKELY(!set))
		return NULL;
	if (REC_UNLIKELY(!set->alive)) {
		if (rec_busy)
			return NULL;
		rec_busy = true;
		atomic_signal_fence(memory_order_seq_cst);
		set = rec_current();
		atomic_signal_fence(memory_order_seq_cst);
		rec_busy = false;
		errno = saved;
	}
	if (!set || __atomic_load_n(&rec.closed, __ATOMIC_RELAXED))
		return NULL;
	return set->ctl;
}

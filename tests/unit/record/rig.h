/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.h - what the tests of the client library share: a rendezvous folder of
 * their own, scenarios in child processes (the library is one per process), and
 * everything that the rings hold, read back with the agent's reader.
 */
#ifndef RECORD_RIG_H
#define RECORD_RIG_H

#include "ring/reader.h"
#include "wire/wire.h"

#include <lapse/lapse.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RIG_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RIG_SANITIZED 1
#endif
#endif
#ifndef RIG_SANITIZED
#define RIG_SANITIZED 0
#endif

/* In a child: says what does not hold and ends it. (The assertions of cmocka
 * would go on with the parent's other tests there.) */
#define CHECK(holds) ((holds) ? (void)0 : rig_failed(__FILE__, __LINE__, #holds))

__attribute__((noreturn)) void rig_failed(const char *file, int line, const char *what);

struct tapes;
struct rig {
	char dir[64]; /* $LAPSE_RENDEZVOUS */
	int rings;    /* descriptor of rings/ in it */
};

/* Make the folder (0700, with rings/ and runs/), on tmpfs if there is one, and an
 * environment without variables of lapse and of launchers but this one. */
void rig_make(struct rig *rig);
void rig_done(struct rig *rig);

/* Memory shared with children, zeroed; freed with the process. */
void *rig_share(size_t bytes);

/* Run fn(arg) in a child, which then leaves by _exit(0). */
pid_t rig_start(void (*fn)(void *arg), void *arg);

/* Wait for it; fails the test unless it left with 0. */
void rig_wait(pid_t pid);

/* Both; returns the pid that it had. */
pid_t rig_run(void (*fn)(void *arg), void *arg);

/* A rig, fn in a child with what rig_share() gave first zeroed, and all its rings read. Returns
 * the pid that it had. rig_play_one: there is one ring. */
pid_t rig_play(struct rig *rig, struct tapes *t, void (*fn)(void *arg));
pid_t rig_play_one(struct rig *rig, struct tapes *t, void (*fn)(void *arg));
void rig_play_done(struct rig *rig, struct tapes *t);

/* In a child: what the process's records became; nothing is open, and every call does
 * nothing; a child of its own left with 0; fn in one, whose pid is returned. */
void rig_check_stats(uint64_t attempts, uint64_t accepted);
void rig_check_inert(void);
void rig_reap(pid_t pid);
pid_t rig_in_child(void (*fn)(void));

/* Sleep until *word is at least `value` (shared by processes or threads). */
void rig_until(const int *word, int value);
void rig_set(int *word, int value);

/* A definition as read back. */
struct rig_def {
	uint8_t kind;
	char name[256], unit[64], help[512], labels[1024];
};

/* All that a ring holds: its records lane by lane, OWNER but not PAD. */
struct tape {
	struct reader reader; /* still open: header, lanes, control page */
	struct tape_item {
		uint32_t lane;
		const struct wire_rec *r;
	} * items;
	size_t n;
	struct rig_def *defs; /* id - 1 */
	size_t n_defs;
	unsigned char *bytes;
	size_t n_bytes;
};

#define TAPES_MAX 256

struct tapes {
	struct tape *a; /* in the order of opening */
	size_t n;
};

/* Read every ring of the folder to its end; each must be sound. */
void tapes_read(const struct rig *rig, struct tapes *out);
void tapes_done(struct tapes *t);

/* The ring that a process made; fails the test unless there is exactly one. */
struct tape *tapes_of(struct tapes *t, pid_t pid);

/* Records without OWNER. */
size_t tape_records(const struct tape *t);

/* The i-th of them; fails the test if there are fewer. */
const struct wire_rec *tape_at(const struct tape *t, size_t i);

/* The i-th is a gauge's value, at this step. */
void tape_assert_value(const struct tape *t, size_t i, double value, int64_t step);

/* Files in rings/ whose name ends so. */
size_t rig_count_files(const struct rig *rig, const char *suffix);

#endif

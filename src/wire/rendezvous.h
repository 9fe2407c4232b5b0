/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous.h - the folder where trainers, launchers and the agent of one user
 * meet: $LAPSE_RENDEZVOUS, else $XDG_RUNTIME_DIR/lapse, else
 * /dev/shm/lapse-UID; mode 0700, ours, no symlink. Used inside training
 * programs: no allocation, no output, libc only.
 *
 *   agent.lock        OFD write lock held by the agent; holds its pid as text
 *   agent.log         what the agent has to say
 *   http.lock, http   OFD write lock held by the dashboard's server (its pid as text), and
 *                     its address
 *   bell              one word to wake the agent (struct wire_bell)
 *   rings/            control pages and rings of processes
 *   runs/ID.run       written by the launcher (wire/run.h); the launcher holds
 *                     an OFD write lock on it while it lives
 *   runs/ID.outcome   written by the launcher at the end
 */
#ifndef WIRE_RENDEZVOUS_H
#define WIRE_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDEZVOUS_PATH_MAX 512

/* Path of the folder into out, without looking whether it is there.
 * 0 or -ENAMETOOLONG. */
int rendezvous_path(char out[RENDEZVOUS_PATH_MAX]);

/* Open the folder (O_PATH-like use: *at() calls), made with rings/ and runs/ in
 * it when create is 1. Returns a descriptor, close-on-exec, that the caller
 * closes; -ENOENT, or -EPERM if it is a link, not ours, or open to others. */
int rendezvous_open(int create);

/* Hold the lock FILE under dirfd for as long as the returned descriptor is
 * open. -EAGAIN if another process holds it. The file is made if missing. */
int rendezvous_lock(int dirfd, const char *file);

/* 1 if someone holds the lock FILE, 0 if not or there is no such file; -EMFILE and its
 * like (rendezvous_is_short()) if that cannot be known now. */
int rendezvous_is_locked(int dirfd, const char *file);

/* Did a call fail, with -errno `err`, for want of descriptors, memory or space? It may work
 * later. */
bool rendezvous_is_short(int err);

/* Start time of a process, field 22 of /proc/PID/stat, in clock ticks since
 * boot: with the pid it names a process for good. 0 if there is none, or only
 * a zombie. */
uint64_t rendezvous_start_time(long pid);

#endif

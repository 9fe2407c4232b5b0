/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_tee.h - the command's stderr through a pipe or pseudo-terminal: copied
 * unchanged, its end kept (docs/launcher.md, --tee-stderr).
 */
#ifndef CLI_LAUNCH_TEE_H
#define CLI_LAUNCH_TEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAUNCH_TEE_TAIL 65536
#define LAUNCH_TEE_CHUNK 4096 /* a pipe that poll() calls writable takes this much */

struct launch_tee {
	int from;      /* our end; -1: closed or not teeing */
	int child_end; /* what becomes the command's stderr; -1 after the fork */
	bool is_pty;
	size_t pending_len, pending_at;
	char pending[LAUNCH_TEE_CHUNK];
	uint64_t total;             /* bytes seen */
	char tail[LAUNCH_TEE_TAIL]; /* a ring */
};

/* Set *t to "not teeing". */
void launch_tee_init(struct launch_tee *t);

/* Make pipe or pseudo-terminal. 0 or -errno; -EBADF: stderr is closed. */
int launch_tee_open(struct launch_tee *t);

/* In the launcher, after the fork. */
void launch_tee_close_child_end(struct launch_tee *t);

/* The descriptor to poll next and for what; -1 none. */
int launch_tee_poll(const struct launch_tee *t, short *ret_events);

/* Read or write once, as poll() allowed. */
void launch_tee_step(struct launch_tee *t);

/* Give a pseudo-terminal the size of the real one. */
void launch_tee_resize(const struct launch_tee *t);

/* The command has ended: copy what is there, and leave a copying process if
 * somebody else still holds the other end. */
void launch_tee_finish(struct launch_tee *t);

/* Copy the tail in order; returns its length. */
size_t launch_tee_tail(const struct launch_tee *t, char out[LAUNCH_TEE_TAIL]);

#endif

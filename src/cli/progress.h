/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - one line on stderr that says how far a command is, from half a second on,
 * erased at the end. Only on a terminal. One in a process; a thread of its own draws it.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file that is being read; its reader's thread writes here. */
struct progress_part {
	_Atomic uint64_t bytes, of, rows; /* of: 0 unknown */
	_Atomic bool is_done;
};

/* Nothing is drawn if `quiet`, or stderr is no terminal that can erase a line. */
void progress_begin(bool quiet);

/* What is going on: "Reading", "Matching ranks". Static text. parts (may be NULL) stay the
 * caller's until the next phase or the end. */
void progress_phase(const char *text, struct progress_part *parts, size_t n);

/* Erase the line, stop the thread. Without progress_begin() nothing. */
void progress_end(void);

/* Erase the line; for signal handlers. */
void progress_erase(void);

#endif

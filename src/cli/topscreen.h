/* SPDX-License-Identifier: Apache-2.0
 *
 * topscreen.h - a terminal that shows cells and has keys. Whatever ends the process, but
 * SIGKILL, the terminal is as it was before.
 */
#ifndef CLI_TOPSCREEN_H
#define CLI_TOPSCREEN_H

#include "base/err.h"
#include "cli/topgrid.h"

#include <stdbool.h>
#include <stdint.h>

/* Take the terminal (stdout, stdin) over. color: use colours. 0; -ENOENT: no ncurses; -ENOTTY:
 * a terminal that ncurses does not know. */
int topscreen_open(bool color, struct err *e);

/* Give it back. */
void topscreen_close(void);

void topscreen_size(int *ret_w, int *ret_h);

void topscreen_show(const struct topgrid *g);

/* Draw all of it anew with the next frame: somebody else wrote on the terminal. */
void topscreen_redraw(void);

/* Wait at most ms for a key. 1 and the key, as topview_key() wants it, or TOPSCREEN_RESIZED;
 * 0: none came; -EIO: the terminal is gone; -EINTR: a signal wants the end (topscreen_signal). */
#define TOPSCREEN_RESIZED 0x120000
int topscreen_key(int64_t ms, uint32_t *ret);

/* The signal that wants the end; 0: none. */
int topscreen_signal(void);

#endif

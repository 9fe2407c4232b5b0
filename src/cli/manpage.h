/* SPDX-License-Identifier: Apache-2.0
 *
 * manpage.h - manual pages in roff, written from the tables of commands and options.
 */
#ifndef CLI_MANPAGE_H
#define CLI_MANPAGE_H

#include "cli/cmd.h"

/* lapse(1), or lapse-COMMAND(1), to stdout. */
void manpage_program(void);
void manpage_command(const struct command *c);

#endif

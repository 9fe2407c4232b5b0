/* SPDX-License-Identifier: Apache-2.0
 *
 * shortname.h - a kernel's name without its template arguments, parameters and return
 * type, as HTA 0.6.1 shortens it (hta/utils/utils.py, shorten_name), to the letter.
 */
#ifndef ANALYSE_SHORTNAME_H
#define ANALYSE_SHORTNAME_H

#include <stddef.h>

/* Write the short name and a NUL to ret, which has room for len + 1 bytes; returns its
 * length. Names of memory work and names without '<' and '(' stay as they are. */
size_t shortname_of(const char *name, size_t len, char *ret);

#endif

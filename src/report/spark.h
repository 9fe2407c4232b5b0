/* SPDX-License-Identifier: Apache-2.0
 *
 * spark.h - a chart one line high, of block characters where the locale has them.
 */
#ifndef REPORT_SPARK_H
#define REPORT_SPARK_H

#include <stdbool.h>
#include <stddef.h>

#define SPARK_BYTES 3u /* of a column at most */

/* Does the user's locale have block characters? */
bool spark_is_utf8(void);

/* A column for each of n values, NaN: a blank; from the smallest, lowest, to the
 * greatest. All the same: the lowest. out has room for SPARK_BYTES * n + 1. */
void spark_draw(char *out, const double *v, size_t n, bool utf8);

#endif

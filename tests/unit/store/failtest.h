/* SPDX-License-Identifier: Apache-2.0
 *
 * failtest.h - one failure of the disk or of malloc(), or death, at a place that is
 * counted. The linker leads malloc() and its like, rename(), fsync() and write() of
 * the program here; SQLite's files go through a shim.
 */
#ifndef FAILTEST_H
#define FAILTEST_H

#include <stdbool.h>

#define FAILURE_DEATH 77 /* exit status of a process that died there */

/* The at-th operation from now fails; 0: none. With failure_forever all behind it do
 * too; with failure_dies the process ends there. */
void failure_arm(long at);
bool failure_was_hit(void);
extern bool failure_forever, failure_dies;

/* Failures are the disk's: between these two calls; shim_code: what SQLite is told, 0:
 * as befits the operation. */
void shim_install(void);
void shim_remove(void);
extern int shim_code;

/* Failures are malloc()'s: memory_install() before SQLite is used at all. */
void memory_install(void);
extern bool memory_on;

#endif

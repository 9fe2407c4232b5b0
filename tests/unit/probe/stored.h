/* SPDX-License-Identifier: Apache-2.0
 *
 * stored.h - copies of the stored trees of tests/data/proc, which a test can
 * change as a kernel would between two readings.
 */
#ifndef TEST_PROBE_STORED_H
#define TEST_PROBE_STORED_H

#include <stddef.h>

#define STORED_PATH 512

/* Path of a stored tree, to be read only. */
const char *stored_path(const char *tree);

/* Copy a stored tree into a new folder; its path into root. */
void stored_copy(const char *tree, char root[STORED_PATH]);

/* Replace a file of a copy, in place, and make the folders above it. */
void stored_write(const char *root, const char *path, const char *text);
void stored_write_bytes(const char *root, const char *path, const char *text, size_t len);

/* Replace the first `from` in a file of a copy by `to`. */
void stored_edit(const char *root, const char *path, const char *from, const char *to);

/* Remove a file or folder of a copy; "" removes the copy. */
void stored_remove(const char *root, const char *path);

#endif

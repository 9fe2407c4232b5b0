/* SPDX-License-Identifier: Apache-2.0
 *
 * spill.h - a temporary file without a name, for what does not fit the budget. It is gone
 * with the process, however that ends.
 */
#ifndef TRACE_SPILL_H
#define TRACE_SPILL_H

#include <stddef.h>
#include <stdint.h>

struct spill {
	int fd; /* -1: not opened yet */
	const char
		*folder; /* NULL: $TMPDIR, else /var/tmp; not owned, needed until the first write */
	uint64_t size;
	int error; /* why the last write failed, 0: it did not */
};

void spill_init(struct spill *s, const char *folder);
void spill_done(struct spill *s);

/* Where the file is, or would be. */
const char *spill_folder(const struct spill *s);
/* Append; *ret_offset is where. 0, -errno. */
int spill_write(struct spill *s, const void *data, size_t len, uint64_t *ret_offset);
/* Read back. 0, -errno (-EIO: not there). */
int spill_read(const struct spill *s, void *data, size_t len, uint64_t offset);

#endif

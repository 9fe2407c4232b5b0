/* SPDX-License-Identifier: Apache-2.0
 *
 * archive.h - runs as one file: a tar archive, compressed by zstd, which `tar --zstd`
 * and many other programs open. Written from files; read into a folder, refusing
 * what does not belong there.
 */
#ifndef CLI_ARCHIVE_H
#define CLI_ARCHIVE_H

#include "base/err.h"
#include "cli/outfile.h"

#include <stdbool.h>
#include <stdint.h>

struct archive; /* that is written */

/* Begin to write to o, which is open. */
int archive_new(struct outfile *o, struct err *e, struct archive **ret);
/* Add the file at `path` as `name`: as many bytes as it has when it is opened. A link
 * or what is no file: -EINVAL. */
int archive_add(struct archive *a, const char *path, const char *name, struct err *e);
/* The end; a is gone also on error. NULL is fine. good false: it is given up. */
int archive_end(struct archive *a, bool good, struct err *e);

/* Unpack an archive (.tar.zst or .tar) into the folder `dir`, which is empty and ours:
 * at most `limit` bytes, files 0600, folders 0700. -EPERM: it holds a link, a name
 * that leads elsewhere, too much; the error says what. -EBADMSG: no such archive.
 * What was unpacked by then stays. */
#define ARCHIVE_RATIO_MAX 2000u           /* unpacked bytes for one packed, */
#define ARCHIVE_RATIO_FROM (256ull << 20) /* once there are more than these */
int archive_unpack(const char *path, const char *dir, uint64_t limit, struct err *e);

#endif

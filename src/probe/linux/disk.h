/* SPDX-License-Identifier: Apache-2.0
 *
 * disk.h - a line of /proc/diskstats.
 */
#ifndef PROBE_LINUX_DISK_H
#define PROBE_LINUX_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_SECTOR 512 /* bytes of a sector there, whatever the disk's own are */

struct disk_line {
	const char *name; /* not ended by NUL */
	size_t len;
	uint64_t reads, read_sectors, read_ms;
	uint64_t writes, written_sectors, written_ms;
	uint64_t busy_ms;     /* while at least one request was under way */
	uint64_t weighted_ms; /* the same times the requests under way */
};

/* A line without its line feed; fields that newer kernels add are not looked at. 0;
 * -EBADMSG, also for the short lines that partitions had before Linux 2.6.25. */
int disk_parse(const char *p, const char *end, struct disk_line *ret);

/* Does a partition look like this, where /sys cannot be asked? "sda1", "nvme0n1p2". */
bool disk_is_partition_name(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * cgrouptext.h - parsers of the files of a cgroup, v1 and v2. They look at len bytes,
 * which need not end in NUL.
 */
#ifndef PROBE_LINUX_CGROUPTEXT_H
#define PROBE_LINUX_CGROUPTEXT_H

#include <stddef.h>
#include <stdint.h>

/* memory.stat. v1 has fewer; what is not there is 0 and its bit in `has` is not set. */
enum cgrouptext_memory {
	CGROUPTEXT_ANON,
	CGROUPTEXT_FILE, /* the page cache, shared memory too */
	CGROUPTEXT_SHMEM,
	CGROUPTEXT_INACTIVE_FILE,
	CGROUPTEXT_SWAP,   /* v1 only */
	CGROUPTEXT_KERNEL, /* v2: stacks, page tables and slabs that are not reclaimable */
	CGROUPTEXT_MEMORY_FIELDS
};
struct cgrouptext_stat {
	uint32_t has;
	uint64_t value[CGROUPTEXT_MEMORY_FIELDS];
};
/* version 1 or 2: v1 has the sums over the cgroups below as total_X. 0; -EBADMSG none of
 * them is there. */
int cgrouptext_memory_stat(const char *text, size_t len, int version, struct cgrouptext_stat *ret);

/* memory.events of v2; of memory.oom_control of v1 there is only oom_kill, and that since
 * Linux 4.13. */
enum cgrouptext_event {
	CGROUPTEXT_LOW,
	CGROUPTEXT_HIGH,
	CGROUPTEXT_MAX,
	CGROUPTEXT_OOM,
	CGROUPTEXT_OOM_KILL,
	CGROUPTEXT_EVENTS
};
struct cgrouptext_events {
	uint32_t has;
	uint64_t value[CGROUPTEXT_EVENTS];
};
void cgrouptext_memory_events(const char *text, size_t len, struct cgrouptext_events *ret);

/* cpu.stat: what v2 and v1 write, in ns. */
enum cgrouptext_cpu {
	CGROUPTEXT_USAGE_NS, /* v2 */
	CGROUPTEXT_PERIODS,
	CGROUPTEXT_THROTTLED, /* of these */
	CGROUPTEXT_THROTTLED_NS,
	CGROUPTEXT_CPU_FIELDS
};
struct cgrouptext_cpu_stat {
	uint32_t has;
	uint64_t value[CGROUPTEXT_CPU_FIELDS];
};
int cgrouptext_cpu_stat(const char *text, size_t len, struct cgrouptext_cpu_stat *ret);

/* Bytes over all devices: io.stat of v2 ("8:0 rbytes=1 wbytes=2 ..."), or
 * blkio.throttle.io_service_bytes_recursive of v1 ("8:0 Read 1"). An empty text: 0. */
int cgrouptext_io(const char *text, size_t len, uint64_t *ret_read, uint64_t *ret_written);

#endif

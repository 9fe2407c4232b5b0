/* SPDX-License-Identifier: Apache-2.0
 *
 * task.h - parsers of the files of one process that are read less often than stat
 * and statm. As those of proc.h: bytes alone, -EBADMSG for another form, and *ret
 * is written only on success.
 */
#ifndef PROBE_LINUX_TASK_H
#define PROBE_LINUX_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* /proc/PID/status. A process without memory (zombie, kernel thread) has no Vm and
 * Rss lines; RssAnon came with Linux 4.5. */
enum task_status_field {
	TASK_STATUS_PEAK,      /* VmHWM, bytes */
	TASK_STATUS_ANONYMOUS, /* RssAnon, bytes */
	TASK_STATUS_SWAP,      /* VmSwap, bytes */
	TASK_STATUS_VOLUNTARY, /* voluntary_ctxt_switches, of the main thread */
	TASK_STATUS_INVOLUNTARY,
	TASK_STATUS_FIELDS
};
struct task_status {
	unsigned has; /* bit i: value[i] was there */
	uint64_t value[TASK_STATUS_FIELDS];
};
int task_parse_status(const char *text, size_t len, struct task_status *ret);

/* /proc/PID/io: all threads, those that ended too, and what children had when they were
 * waited for. */
enum task_io_field {
	TASK_IO_READ_ALL,    /* rchar: bytes that read() and the like returned */
	TASK_IO_WRITTEN_ALL, /* wchar */
	TASK_IO_READS,       /* syscr: how many calls */
	TASK_IO_WRITES,      /* syscw */
	TASK_IO_READ,        /* read_bytes: fetched from storage */
	TASK_IO_WRITTEN,     /* write_bytes: made dirty, and so to be written to storage */
	TASK_IO_FIELDS
};
struct task_io {
	uint64_t value[TASK_IO_FIELDS];
};
int task_parse_io(const char *text, size_t len, struct task_io *ret);

/* /proc/PID/schedstat, of the main thread. */
struct task_schedstat {
	uint64_t run_ns, wait_ns; /* on a CPU; runnable, waiting for one */
};
int task_parse_schedstat(const char *text, size_t len, struct task_schedstat *ret);

/* Pss of /proc/PID/smaps_rollup, bytes. */
int task_parse_pss(const char *text, size_t len, uint64_t *ret);

#endif

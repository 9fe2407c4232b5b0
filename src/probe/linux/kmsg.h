/* SPDX-License-Identifier: Apache-2.0
 *
 * kmsg.h - records of the kernel's log (/dev/kmsg) and what in them concerns a training
 * run: OOM kills, errors of GPUs, disks, file systems, memory and links, hung tasks.
 */
#ifndef PROBE_LINUX_KMSG_H
#define PROBE_LINUX_KMSG_H

#include <stddef.h>
#include <stdint.h>

/* A record is one read(), which fails when the buffer is smaller than the longest: 8 KiB
 * and a header. */
#define KMSG_RECORD_MAX 16384

struct kmsg_record {
	unsigned level, facility; /* 0 the kernel's; others are programs' */
	uint64_t seq;
	uint64_t us; /* the kernel's log clock: CLOCK_MONOTONIC to within milliseconds */
	const char *text, *end;
};

/* One record, "6,339,5140900,-;text", without its line feed. 0; -EBADMSG, also for the
 * lines that continue a record (they begin with a space). */
int kmsg_parse(const char *line, const char *eol, struct kmsg_record *ret);

/* Does a record say that the kernel killed process pid for memory, at since_us or later?
 * Then the message's start; else NULL. The pid is that of the machine's first pid
 * namespace: in a container a pid of another process may match, so do not call it there.
 * Lines that programs wrote into the log are not believed. */
const char *kmsg_match(const char *line, const char *eol, long pid, uint64_t since_us);

/* What a message is counted as. */
enum kmsg_count {
	KMSG_COUNT_NONE,
	KMSG_COUNT_XID,
	KMSG_COUNT_OOM,
	KMSG_COUNT_HUNG,
	KMSG_COUNT_MACHINE_CHECK
};

/* A message that concerns a run. */
struct kmsg_news {
	const char *kind; /* static: "xid", "kernel-oom" */
	int severity;     /* as struct sink_event */
	enum kmsg_count count;
	char pci[32];             /* "0000:3b:00"; "" it names none */
	int64_t xid;              /* -1 none */
	int64_t pid;              /* -1 none; of the machine's first pid namespace */
	char name[64];            /* of the process; "" none */
	const char *detail, *end; /* of an Xid: the text behind its number; else all */
};

/* Does the message of a record concern a run? 0; -ENOENT no, and nothing is written. */
int kmsg_classify(const struct kmsg_record *r, struct kmsg_news *ret);

#endif

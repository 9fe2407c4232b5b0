/* SPDX-License-Identifier: Apache-2.0
 *
 * proc.h - parsers of the texts under /proc. They look at len bytes, which need
 * not end in NUL, and know nothing of files; numbers that do not fit 64 bits and
 * texts of another form give -EBADMSG, and *ret is written only on success.
 */
#ifndef PROBE_LINUX_PROC_H
#define PROBE_LINUX_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* /proc/PID/stat. Times in clock ticks. */
struct proc_stat {
	long pid, ppid;
	char state;        /* 'R', 'S', 'D', 'Z', ... */
	uint64_t own;      /* utime + stime: the process, guest time is in it */
	uint64_t children; /* cutime + cstime: children that it waited for */
	uint64_t threads;
	uint64_t start;        /* since boot */
	uint64_t minor, major; /* page faults of the process */
	char name[16];         /* of the main thread, cut */
	uint64_t stack, args;  /* where its stack and its arguments begin: the same as in the
				  parent until exec(); 0: old kernel, or not for us to see */
	uint64_t exit_code;    /* of a zombie, as wait() gives it; 0 also where stack is 0 */
};
int proc_parse_stat(const char *text, size_t len, struct proc_stat *ret);

/* /proc/PID/statm. In pages. */
struct proc_statm {
	uint64_t resident;
	uint64_t shared; /* of it: pages of files and of shared memory */
};
int proc_parse_statm(const char *text, size_t len, struct proc_statm *ret);

/* The decimal number at *p (no sign, no space before it); moves *p behind it. */
int proc_number(const char **p, const char *end, uint64_t *ret);

/* Moves *p behind the blanks that are there. */
void proc_skip_space(const char **p, const char *end);

/* Sum that stays at the top rather than wrap: numbers may be anything in a bad file. */
static inline uint64_t proc_sum(uint64_t a, uint64_t b)
{
	uint64_t v;

	return __builtin_add_overflow(a, b, &v) ? UINT64_MAX : v;
}

/* The next line: from *p to *ret_end, without its line feed; moves *p to the
 * line after it. NULL when there is none. */
const char *proc_line(const char **p, const char *end, const char **ret_end);

/* Does the text from p to end begin with word? */
bool proc_begins(const char *p, const char *end, const char *word);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * hosttext.h - parsers of the texts that the kernel writes about the machine as a whole.
 * They look at the bytes up to end, which need not be NUL, and know nothing of files.
 */
#ifndef PROBE_LINUX_HOSTTEXT_H
#define PROBE_LINUX_HOSTTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- /proc/stat ----------------------------------------------------------------- */

enum hosttext_cpu_state {
	HOSTTEXT_USER, /* includes guest */
	HOSTTEXT_NICE, /* includes guest_nice */
	HOSTTEXT_SYSTEM,
	HOSTTEXT_IDLE,
	HOSTTEXT_IOWAIT,
	HOSTTEXT_IRQ,
	HOSTTEXT_SOFTIRQ,
	HOSTTEXT_STEAL,
	HOSTTEXT_GUEST,
	HOSTTEXT_GUEST_NICE,
	HOSTTEXT_CPU_STATES
};
#define HOSTTEXT_CPU_ALL UINT32_MAX /* the line of all CPUs together */

struct hosttext_cpu {
	uint32_t id;
	unsigned fields; /* old kernels lack the last ones, which are 0 then */
	uint64_t ticks[HOSTTEXT_CPU_STATES];
};

/* The line at *p, if it is that of a CPU or of all; moves *p behind it. 0; -ENOENT another
 * line or the end, *p stays; -EBADMSG malformed, *p is behind it. A negative number,
 * which kernels have printed, is 0. */
int hosttext_cpu(const char **p, const char *end, struct hosttext_cpu *ret);

/* ---- lines of a name and a number ---------------------------------------------------- */

struct hosttext_key {
	const char *name; /* "MemTotal" */
	uint8_t len;      /* of it */
	uint8_t slot;     /* below 32: where its number goes; several keys with one are added */
};
#define HOSTTEXT_KEY(name, slot)                                                                   \
	{                                                                                          \
		name, sizeof(name) - 1, slot                                                       \
	}

/* Lines "NAME: 123 kB", "NAME 123 ..." or either behind "Node N ": numbers by slot,
 * bytes where the line says kB. Returns which slots were found, a bit each; lines with a
 * malformed number are left out. value of slots not found is 0. */
uint32_t hosttext_pairs(const char *text, const char *end, const struct hosttext_key *keys,
			size_t n_keys, uint64_t *value, size_t n_slots);

/* ---- others -------------------------------------------------------------------------- */

/* The three means of /proc/loadavg. 0, -EBADMSG. */
int hosttext_load(const char *text, const char *end, double load[3]);

/* The next range of a list of numbers as "0-3,8": moves *p behind it. 0; -ENOENT at the
 * end; -EBADMSG, also for numbers above UINT32_MAX. */
int hosttext_range(const char **p, const char *end, uint32_t *first, uint32_t *last);

/* How many numbers such a list names. 0, -EBADMSG. */
int hosttext_list_len(const char *text, const char *end, uint64_t *ret);

/* "cpu MHz" of /proc/cpuinfo, in Hz. 0; -ENOENT the text has none; -ENODATA it has, but
 * they are nominal: the CPU tells nobody how fast it runs. */
struct hosttext_clock {
	unsigned n;
	double sum, min, max;
};
int hosttext_clock(const char *text, const char *end, struct hosttext_clock *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers of the texts under /proc, on bytes alone. Formats: proc(5).
 */
#include "probe/linux/proc.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

int proc_number(const char **p, const char *end, uint64_t *ret)
{
	const char *s = *p;
	uint64_t v = 0;

	while (s < end && *s >= '0' && *s <= '9')
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s++ - '0'), &v))
			return -EBADMSG;
	if (s == *p)
		return -EBADMSG;
	*p = s;
	*ret = v;
	return 0;
}

const char *proc_line(const char **p, const char *end, const char **ret_end)
{
	const char *line = *p, *lf;

	if (line >= end)
		return NULL;
	lf = memchr(line, '\n', (size_t)(end - line));
	*ret_end = lf ? lf : end;
	*p = lf ? lf + 1 : end;
	return line;
}

bool proc_begins(const char *p, const char *end, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(end - p) >= len && memcmp(p, word, len) == 0;
}

void proc_skip_space(const char **p, const char *end)
{
	while (*p < end && **p == ' ')
		(*p)++;
}

/* The next number of a line, after spaces. A negative one is given as 0: the
 * kernel has printed a few counters as such after an overflow. */
static int proc_field(const char **p, const char *end, uint64_t *ret)
{
	bool negative;
	int err;

	proc_skip_space(p, end);
	negative = *p < end && **p == '-';
	if (negative)
		(*p)++;
	err = proc_number(p, end, ret);
	if (!err && negative)
		*ret = 0;
	return err;
}

static int proc_pid(const char **p, const char *end, long *ret)
{
	uint64_t v;

	if (proc_field(p, end, &v) || v > INT_MAX)
		return -EBADMSG;
	*ret = (long)v;
	return 0;
}

/* Fields of /proc/PID/stat as proc(5) numbers them; 4 is the first number
 * behind the state. */
enum {
	STAT_PPID = 4,
	STAT_MINOR = 10,
	STAT_MAJOR = 12,
	STAT_UTIME = 14,
	STAT_STIME = 15,
	STAT_CUTIME = 16,
	STAT_CSTIME = 17,
	STAT_THREADS = 20,
	STAT_START = 22, /* the last that must be there */
	STAT_STACK = 28,
	STAT_ARGS = 48,
	STAT_EXIT_CODE = 52
};

static void proc_copy_name(const char *p, const char *end, char name[16])
{
	size_t n = (size_t)(end - p);

	if (n > 15)
		n = 15;
	memcpy(name, p, n);
	name[n] = '\0';
}

int proc_parse_stat(const char *text, size_t len, struct proc_stat *ret)
{
	const char *p = text, *end = text + len, *name;
	uint64_t f[STAT_EXIT_CODE + 1] = {0};
	struct proc_stat s;
	int i;

	if (proc_pid(&p, end, &s.pid) || !proc_begins(p, end, " ("))
		return -EBADMSG;
	name = p + 2;
	/* The name may hold anything, also ") R 1": only the last one ends it. */
	p = memrchr(p, ')', (size_t)(end - p));
	if (!p || end - p < 4 || p[1] != ' ' || p[3] != ' ')
		return -EBADMSG;
	s.state = p[2];
	proc_copy_name(name, p, s.name);
	p += 3;
	for (i = STAT_PPID; i <= STAT_START; i++)
		if (proc_field(&p, end, &f[i]))
			return -EBADMSG;
	while (i <= STAT_EXIT_CODE && proc_field(&p, end, &f[i]) == 0)
		i++;
	if (f[STAT_PPID] > INT_MAX ||
	    __builtin_add_overflow(f[STAT_UTIME], f[STAT_STIME], &s.own) ||
	    __builtin_add_overflow(f[STAT_CUTIME], f[STAT_CSTIME], &s.children))
		return -EBADMSG;
	s.ppid = (long)f[STAT_PPID];
	s.threads = f[STAT_THREADS];
	s.start = f[STAT_START];
	s.minor = f[STAT_MINOR];
	s.major = f[STAT_MAJOR];
	s.stack = f[STAT_STACK];
	s.args = f[STAT_ARGS];
	s.exit_code = f[STAT_EXIT_CODE];
	*ret = s;
	return 0;
}

int proc_parse_statm(const char *text, size_t len, struct proc_statm *ret)
{
	const char *p = text, *end = text + len;
	struct proc_statm m;
	uint64_t size;

	if (proc_field(&p, end, &size) || proc_field(&p, end, &m.resident) ||
	    proc_field(&p, end, &m.shared))
		return -EBADMSG;
	*ret = m;
	return 0;
}

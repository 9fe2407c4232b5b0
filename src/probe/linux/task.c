/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers of the files of one process. Formats: proc(5).
 */
#include "probe/linux/task.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "probe/linux/proc.h"

/* A line "NAME:<spaces>123[ kB]". */
struct task_line {
	const char *name; /* with its colon */
	bool kib;
};

/* The number of the line, if it is that one: 1, 0 it is another, -EBADMSG. */
static int task_line(const char *line, const char *eol, const struct task_line *t, uint64_t *ret)
{
	uint64_t v;

	if (!proc_begins(line, eol, t->name))
		return 0;
	line += strlen(t->name);
	while (line < eol && (*line == ' ' || *line == '\t'))
		line++;
	if (proc_number(&line, eol, &v))
		return -EBADMSG;
	if (t->kib && (!proc_begins(line, eol, " kB") || __builtin_mul_overflow(v, 1024, &v)))
		return -EBADMSG;
	*ret = v;
	return 1;
}

/* All lines of a table, in whatever order; *has tells which were there. */
static int task_lines(const char *text, size_t len, const struct task_line *rows, size_t n,
		      uint64_t *value, unsigned *has)
{
	const char *next = text, *end = text + len, *line, *eol;
	size_t i;
	int is;

	*has = 0;
	while ((line = proc_line(&next, end, &eol))) {
		for (i = 0; i < n; i++) {
			is = task_line(line, eol, &rows[i], &value[i]);
			if (is < 0)
				return is;
			if (is) {
				*has |= 1u << i;
				break;
			}
		}
	}
	return 0;
}

int task_parse_status(const char *text, size_t len, struct task_status *ret)
{
	static const struct task_line rows[TASK_STATUS_FIELDS] = {
		[TASK_STATUS_PEAK] = {"VmHWM:", true},
		[TASK_STATUS_ANONYMOUS] = {"RssAnon:", true},
		[TASK_STATUS_SWAP] = {"VmSwap:", true},
		[TASK_STATUS_VOLUNTARY] = {"voluntary_ctxt_switches:", false},
		[TASK_STATUS_INVOLUNTARY] = {"nonvoluntary_ctxt_switches:", false},
	};
	struct task_status s = {0};
	int err;

	if (!proc_begins(text, text + len, "Name:"))
		return -EBADMSG;
	err = task_lines(text, len, rows, ARRAY_LEN(rows), s.value, &s.has);
	if (!err)
		*ret = s;
	return err;
}

int task_parse_io(const char *text, size_t len, struct task_io *ret)
{
	static const struct task_line rows[TASK_IO_FIELDS] = {
		[TASK_IO_READ_ALL] = {"rchar:", false},
		[TASK_IO_WRITTEN_ALL] = {"wchar:", false},
		[TASK_IO_READS] = {"syscr:", false},
		[TASK_IO_WRITES] = {"syscw:", false},
		[TASK_IO_READ] = {"read_bytes:", false},
		[TASK_IO_WRITTEN] = {"write_bytes:", false},
	};
	struct task_io io = {0};
	unsigned has;
	int err;

	err = task_lines(text, len, rows, ARRAY_LEN(rows), io.value, &has);
	if (!err && has != (1u << TASK_IO_FIELDS) - 1)
		err = -EBADMSG;
	if (!err)
		*ret = io;
	return err;
}

int task_parse_schedstat(const char *text, size_t len, struct task_schedstat *ret)
{
	const char *p = text, *end = text + len;
	struct task_schedstat s;

	if (proc_number(&p, end, &s.run_ns) || p == end || *p++ != ' ' ||
	    proc_number(&p, end, &s.wait_ns))
		return -EBADMSG;
	*ret = s;
	return 0;
}

int task_parse_pss(const char *text, size_t len, uint64_t *ret)
{
	static const struct task_line row = {"Pss:", true};
	uint64_t v = 0;
	unsigned has;
	int err;

	err = task_lines(text, len, &row, 1, &v, &has);
	if (!err && !has)
		err = -EBADMSG;
	if (!err)
		*ret = v;
	return err;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * ack.c - see list.h: what people said of alerts, in a file that is only appended to, so
 * that any number of readers and writers need no lock.
 */
#include "alert/list.h"

#include "base/file.h"
#include "base/mem.h"
#include "report/attrs.h"
#include "report/jsonwalk.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ACK_LINE_MAX 8192u
#define ACK_USER_MAX 4096u

/* ---- writing --------------------------------------------------------------------------- */

/* One write() of a whole line with O_APPEND: lines of several writers do not mix. A line
 * that a full disk has cut is ended first. */
static int ack_append(const char *dir, struct buf *line, struct err *e)
{
	char *path = xasprintf("%s/" ALERTS_ACK, dir);
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600), err = 0;
	struct stat st;
	char last = '\n';

	buf_putc(line, '\n');
	if (fd < 0 || fstat(fd, &st) < 0) {
		err = err_errno(e, -errno, "cannot open %s", path);
	} else if (line->error || !S_ISREG(st.st_mode) ||
		   (uint64_t)st.st_size + line->len > ALERTS_ACK_MAX) {
		err = err_set(e, -EFBIG, "%s: it is larger than %u bytes, or no file; move it away",
			      path, ALERTS_ACK_MAX);
	} else {
		if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n')
			err = file_write_all(fd, "\n", 1);
		if (!err)
			err = file_write_all(fd, line->data, line->len);
		if (!err && fsync(fd) < 0)
			err = -errno;
		if (err)
			err_errno(e, err, "cannot write %s", path);
	}
	if (fd >= 0)
		close(fd);
	free(path);
	return err;
}

static void ack_begin(struct json *j, struct buf *out, const char *what, int64_t now_ns)
{
	buf_init(out, ACK_LINE_MAX);
	json_init(j, out);
	json_object(j);
	attrs_put_ns(j, "at_ns", now_ns);
	json_kstr(j, "do", what);
}

static void ack_end(struct json *j, const char *by, const char *note)
{
	struct passwd entry, *user = NULL;
	char uid[32], room[ACK_USER_MAX];

	if (!by) /* any thread */
		getpwuid_r(geteuid(), &entry, room, sizeof(room), &user);
	snprintf(uid, sizeof(uid), "uid %u", (unsigned)geteuid());
	json_kstr(j, "by", by ? by : user ? user->pw_name : uid);
	json_kstr(j, "note", note ? note : "");
	json_object_end(j);
}

int alerts_ack(const char *dir, const char *id, const char *by, const char *note, int64_t now_ns,
	       struct err *e)
{
	struct json j;
	struct buf line;
	int err;

	ack_begin(&j, &line, "ack", now_ns);
	json_kstr(&j, "alert", id);
	ack_end(&j, by, note);
	err = ack_append(dir, &line, e);
	buf_done(&line);
	return err;
}

int alerts_silence(const char *dir, const struct alerts_scope *of, int64_t until_ns, const char *by,
		   const char *note, int64_t now_ns, struct err *e)
{
	struct json j;
	struct buf line;
	int err;

	ack_begin(&j, &line, "silence", now_ns);
	json_kstr(&j, "rule", of->rule);
	json_kstr(&j, "series", of->series && of->series[0] ? of->series : NULL);
	if (of->host) {
		json_kstr(&j, "host", of->host);
		json_kuint(&j, "series_id", of->series_id);
	}
	attrs_put_ns(&j, "until_ns", until_ns);
	ack_end(&j, by, note);
	err = ack_append(dir, &line, e);
	buf_done(&line);
	return err;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* False: the line is none of ours. */
static bool ack_parse(const char *object, struct alerts_said *s)
{
	char what[16];

	memset(s, 0, sizeof(*s));
	jsonwalk_string(jsonwalk_get(object, "do"), what, sizeof(what));
	jsonwalk_string(jsonwalk_get(object, "alert"), s->id, sizeof(s->id));
	jsonwalk_string(jsonwalk_get(object, "rule"), s->rule, sizeof(s->rule));
	jsonwalk_string(jsonwalk_get(object, "series"), s->series, sizeof(s->series));
	jsonwalk_string(jsonwalk_get(object, "host"), s->host, sizeof(s->host));
	s->series_id = (uint32_t)jsonwalk_int(jsonwalk_get(object, "series_id"), 0);
	jsonwalk_string(jsonwalk_get(object, "by"), s->by, sizeof(s->by));
	jsonwalk_text(jsonwalk_get(object, "note"), s->note, sizeof(s->note));
	s->at_ns = attrs_ns(object, "at_ns");
	s->until_ns = attrs_ns(object, "until_ns");
	s->is_silence = strcmp(what, "silence") == 0;
	return s->is_silence ? s->rule[0] != '\0' : strcmp(what, "ack") == 0 && s->id[0];
}

bool alerts_said_of(const struct alerts_said *s, const struct alerts_scope *of)
{
	if (!s->is_silence || strcmp(s->rule, of->rule) != 0)
		return false;
	if (s->host[0])
		return strcmp(s->host, of->host) == 0 && s->series_id == of->series_id;
	return !s->series[0] || strcmp(s->series, of->series) == 0;
}

int alerts_said(const char *dir, void (*fn)(void *arg, const struct alerts_said *s), void *arg)
{
	char *path = xasprintf("%s/" ALERTS_ACK, dir), *line, *next;
	struct alerts_said *s = xcalloc(1, sizeof(*s));
	struct buf text, one;
	size_t i;
	int err;

	buf_init(&text, ALERTS_ACK_MAX);
	buf_init(&one, ACK_LINE_MAX);
	err = file_read_plain(AT_FDCWD, path, &text);
	for (i = 0; i < text.len; i++)
		if (!text.data[i])
			text.data[i] = '?';
	for (line = err ? NULL : text.data; line && *line; line = next) {
		next = strchrnul(line, '\n');
		if (*next)
			*next++ = '\0';
		buf_reset(&one);
		if (attrs_compact(line, &one) == 0 && ack_parse(buf_str(&one), s))
			fn(arg, s);
	}
	buf_done(&one);
	buf_done(&text);
	free(s);
	free(path);
	return err == -ENOENT ? 0 : err;
}

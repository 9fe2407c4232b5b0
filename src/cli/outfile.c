/* SPDX-License-Identifier: Apache-2.0
 *
 * outfile.c - see outfile.h.
 */
#include "cli/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define OUTFILE_BUFFER (256u << 10)

/* The signal handler's copy: set before the file is made. */
static char outfile_doomed[4096];

static void outfile_on_signal(int sig)
{
	if (outfile_doomed[0] != '\0')
		unlink(outfile_doomed);
	/* SA_RESETHAND: this one ends the program, as the sender wanted. */
	raise(sig);
}

static void outfile_guard(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
	struct sigaction now,
		act = {.sa_handler = outfile_on_signal, .sa_flags = (int)SA_RESETHAND};
	size_t i;

	for (i = 0; i < ARRAY_LEN(signals); i++)
		if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			sigaction(signals[i], &act, NULL);
}

static int outfile_open_beside(struct outfile *o, struct err *e)
{
	char real[PATH_MAX];
	int fd;

	/* Through a symlink: its target is replaced, the link stays. */
	if (realpath(o->path, real) && strlen(real) < sizeof(o->path))
		memcpy(o->path, real, strlen(real) + 1);
	if (snprintf(o->tmp, sizeof(o->tmp), "%s.%d.tmp", o->path, (int)getpid()) >=
	    (int)sizeof(o->tmp))
		return err_set(e, -ENAMETOOLONG, "%s: the path is too long", o->path);
	memcpy(outfile_doomed, o->tmp, sizeof(o->tmp));
	outfile_guard();
	fd = open(o->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		outfile_doomed[0] = o->tmp[0] = '\0';
		return err_errno(e, -errno, "cannot write %s", o->path);
	}
	o->to = fdopen(fd, "w");
	return 0;
}

int outfile_open(struct outfile *o, const char *path, struct err *e)
{
	struct stat st;
	int err = 0;

	*o = (struct outfile){0};
	if (!path || strcmp(path, "-") == 0) {
		o->to = stdout;
		return 0;
	}
	if (!*path)
		return err_set(e, -EINVAL, "cannot write a file without a name (\"\")");
	if (snprintf(o->path, sizeof(o->path), "%s", path) >= (int)sizeof(o->path))
		return err_set(e, -ENAMETOOLONG, "%s: the path is too long", path);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return err_errno(e, -EISDIR, "cannot write %s", path);
	/* A device or a pipe is written to, not replaced. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		o->to = fopen(path, "we");
		if (!o->to)
			err = err_errno(e, -errno, "cannot write %s", path);
	} else {
		err = outfile_open_beside(o, e);
	}
	if (!err)
		setvbuf(o->to, NULL, _IOFBF, OUTFILE_BUFFER);
	return err;
}

static const char *outfile_name(const struct outfile *o)
{
	return o->path[0] ? o->path : "standard output";
}

int outfile_write(struct outfile *o, const void *data, size_t len, struct err *e)
{
	if (len == 0 || fwrite(data, 1, len, o->to) == len) {
		o->bytes += len;
		return 0;
	}
	return err_errno(e, errno ? -errno : -EIO, "cannot write %s", outfile_name(o));
}

int outfile_close(struct outfile *o, int good, struct err *e)
{
	int err = 0;

	if (!o->to)
		return 0;
	if (fflush(o->to) != 0)
		err = err_errno(e, -errno, "cannot write %s", outfile_name(o));
	if (o->to != stdout && fclose(o->to) != 0 && !err)
		err = err_errno(e, -errno, "cannot write %s", outfile_name(o));
	if (o->tmp[0] != '\0') {
		if (!err && good && rename(o->tmp, o->path) != 0)
			err = err_errno(e, -errno, "cannot rename %s to %s", o->tmp, o->path);
		if (err || !good)
			unlink(o->tmp);
		outfile_doomed[0] = '\0';
	}
	*o = (struct outfile){0};
	return err;
}

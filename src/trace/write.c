/* SPDX-License-Identifier: Apache-2.0
 *
 * write.c - the sink: text in, a plain, gzip (isa-l) or zstd file out, whole or not at all.
 */
#include "trace/write.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define OUT_SIZE (256u << 10)
#define GZIP_LEVEL 1
#define ZSTD_LEVEL 3

struct write_sink {
	int fd, error;
	char *path;
	char hidden[64]; /* of a file without O_TMPFILE: its name beside path, to unlink */
	bool is_unnamed; /* made by O_TMPFILE */
	bool is_direct;  /* a device or a pipe: written to, never replaced */
	uint64_t bytes;
	unsigned char *out; /* OUT_SIZE, when compressing */
	struct isal_zstream *gzip;
	unsigned char *level_buf;
	ZSTD_CStream *zstd;
};

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static char *hidden_path(const struct write_sink *s)
{
	char *folder = folder_of(s->path), *p = NULL;

	if (folder && asprintf(&p, "%s/%s", folder, s->hidden) < 0)
		p = NULL;
	free(folder);
	return p;
}

/* What is at PATH is kept where it is no file: a device or a pipe is written to; through a
 * symlink its target is replaced. */
static int open_what_is_there(struct write_sink *s)
{
	struct stat st;
	char *real;

	if (stat(s->path, &st))
		return 0;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode)) {
		s->is_direct = true;
		s->fd = open(s->path, O_WRONLY | O_CLOEXEC);
		return s->fd < 0 ? -errno : 0;
	}
	real = realpath(s->path, NULL);
	if (!real)
		return -errno;
	free(s->path);
	s->path = real;
	return 0;
}

static int open_file(struct write_sink *s)
{
	int rc = open_what_is_there(s);
	char *folder, *path;

	if (rc || s->is_direct)
		return rc;
	folder = folder_of(s->path);
	if (!folder)
		return -ENOMEM;
	s->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	free(folder);
	s->is_unnamed = s->fd >= 0;
	if (s->is_unnamed)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	snprintf(s->hidden, sizeof(s->hidden), ".lapse-%ld.tmp", (long)getpid());
	path = hidden_path(s);
	if (!path)
		return -ENOMEM;
	s->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	free(path);
	return s->fd < 0 ? -errno : 0;
}

static int open_gzip(struct write_sink *s)
{
	s->gzip = malloc(sizeof(*s->gzip));
	s->level_buf = malloc(ISAL_DEF_LVL1_DEFAULT);
	if (!s->gzip || !s->level_buf)
		return -ENOMEM;
	isal_deflate_init(s->gzip);
	s->gzip->level = GZIP_LEVEL;
	s->gzip->level_buf = s->level_buf;
	s->gzip->level_buf_size = ISAL_DEF_LVL1_DEFAULT;
	s->gzip->gzip_flag = IGZIP_GZIP;
	return 0;
}

static int open_zstd(struct write_sink *s)
{
	s->zstd = ZSTD_createCStream();
	if (!s->zstd)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
	ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1);
	return 0;
}

int write_open(const char *path, struct write_sink **ret, struct err *e)
{
	struct write_sink *s = calloc(1, sizeof(*s));
	bool is_stdout = !strcmp(path, "-");
	int rc = 0;

	if (!s)
		return err_set(e, -ENOMEM, "%s: out of memory", path);
	if (!*path) {
		free(s);
		return err_set(e, -EINVAL, "cannot write a file without a name (\"\")");
	}
	s->fd = is_stdout ? STDOUT_FILENO : -1;
	s->path = strdup(path);
	s->out = malloc(OUT_SIZE);
	if (!s->path || !s->out)
		rc = -ENOMEM;
	if (!rc && !is_stdout)
		rc = open_file(s);
	if (!rc && text_ends(path, ".gz"))
		rc = open_gzip(s);
	if (!rc && text_ends(path, ".zst"))
		rc = open_zstd(s);
	if (rc) {
		write_abort(s);
		return err_errno(e, rc, "%s cannot be written", path);
	}
	*ret = s;
	return 0;
}

static void put_file(struct write_sink *s, const void *data, size_t len)
{
	int rc = s->error ? 0 : file_write_all(s->fd, data, len);

	if (rc)
		s->error = rc;
}

static void put_gzip(struct write_sink *s, const void *data, size_t len, bool last)
{
	do { /* isa-l counts in 32 bits */
		uint32_t now = len < UINT32_MAX ? (uint32_t)len : UINT32_MAX;

		s->gzip->next_in = (uint8_t *)(uintptr_t)data;
		s->gzip->avail_in = now;
		s->gzip->end_of_stream = last && now == len;
		do {
			s->gzip->next_out = s->out;
			s->gzip->avail_out = OUT_SIZE;
			if (isal_deflate(s->gzip) != COMP_OK) {
				s->error = s->error ? s->error : -EIO;
				return;
			}
			put_file(s, s->out, OUT_SIZE - s->gzip->avail_out);
		} while (!s->gzip->avail_out);
		data = (const char *)data + now;
		len -= now;
	} while (len);
}

static void put_zstd(struct write_sink *s, const void *data, size_t len, bool last)
{
	ZSTD_inBuffer in = {data, len, 0};
	size_t left;

	do {
		ZSTD_outBuffer out = {s->out, OUT_SIZE, 0};

		left = ZSTD_compressStream2(s->zstd, &out, &in,
					    last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left)) {
			s->error = s->error ? s->error : -EIO;
			return;
		}
		put_file(s, s->out, out.pos);
	} while (last ? left != 0 : in.pos < in.size);
}

void write_put(struct write_sink *s, const void *data, size_t len)
{
	if (s->error || !len)
		return;
	s->bytes += len;
	if (s->gzip)
		put_gzip(s, data, len, false);
	else if (s->zstd)
		put_zstd(s, data, len, false);
	else
		put_file(s, data, len);
}

/* Give the finished file its name; what was there before is replaced. */
static int put_in_place(struct write_sink *s)
{
	char proc[64], *path;
	int rc = 0;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", s->fd);
	if (s->is_unnamed) {
		if (!linkat(AT_FDCWD, proc, AT_FDCWD, s->path, AT_SYMLINK_FOLLOW))
			return 0;
		if (errno != EEXIST)
			return -errno;
		snprintf(s->hidden, sizeof(s->hidden), ".lapse-%ld.tmp", (long)getpid());
	}
	path = hidden_path(s);
	if (!path)
		return -ENOMEM;
	if ((s->is_unnamed && linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW)) ||
	    rename(path, s->path))
		rc = -errno;
	if (!rc)
		s->hidden[0] = '\0';
	free(path);
	return rc;
}

int write_close(struct write_sink *s, uint64_t *ret_bytes, struct err *e)
{
	int rc;

	if (s->gzip && !s->error)
		put_gzip(s, "", 0, true);
	if (s->zstd && !s->error)
		put_zstd(s, "", 0, true);
	if (!s->error && s->fd != STDOUT_FILENO && !s->is_direct)
		s->error = put_in_place(s);
	rc = s->error;
	if (rc)
		err_errno(e, rc, "%s cannot be written", s->path);
	else if (ret_bytes)
		*ret_bytes = s->bytes;
	write_abort(s);
	return rc;
}

void write_abort(struct write_sink *s)
{
	char *path;

	if (!s)
		return;
	path = s->hidden[0] ? hidden_path(s) : NULL;
	if (path)
		unlink(path);
	free(path);
	if (s->fd >= 0 && s->fd != STDOUT_FILENO)
		close(s->fd);
	ZSTD_freeCStream(s->zstd);
	free(s->level_buf);
	free(s->gzip);
	free(s->out);
	free(s->path);
	free(s);
}

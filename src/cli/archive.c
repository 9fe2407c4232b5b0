/* SPDX-License-Identifier: Apache-2.0
 *
 * archive.c - see archive.h.
 */
#include "cli/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/tar.h"

#define ARCHIVE_BYTES (256u << 10) /* at once */
#define ARCHIVE_LEVEL 3

/* ---- writing -------------------------------------------------------------------- */

struct archive {
	struct outfile *o;
	ZSTD_CStream *z;
	struct buf header;
	unsigned char in[ARCHIVE_BYTES], out[ARCHIVE_BYTES];
};

static void archive_free(struct archive *a)
{
	ZSTD_freeCStream(a->z);
	buf_done(&a->header);
	free(a);
}

int archive_new(struct outfile *o, struct err *e, struct archive **ret)
{
	struct archive *a = xcalloc(1, sizeof(*a));

	a->o = o;
	a->z = ZSTD_createCStream();
	buf_init(&a->header, 1u << 20);
	if (!a->z || ZSTD_isError(ZSTD_initCStream(a->z, ARCHIVE_LEVEL))) {
		archive_free(a);
		return err_set(e, -ENOMEM, "no memory to compress");
	}
	ZSTD_CCtx_setParameter(a->z, ZSTD_c_checksumFlag, 1);
	*ret = a;
	return 0;
}

static int archive_put(struct archive *a, const void *data, size_t len, ZSTD_EndDirective how,
		       struct err *e)
{
	ZSTD_inBuffer in = {data, len, 0};
	size_t left;
	int r = 0;

	do {
		ZSTD_outBuffer out = {a->out, sizeof(a->out), 0};

		left = ZSTD_compressStream2(a->z, &out, &in, how);
		if (ZSTD_isError(left))
			return err_set(e, -EIO, "compressing: %s", ZSTD_getErrorName(left));
		if (out.pos)
			r = outfile_write(a->o, a->out, out.pos, e);
	} while (r == 0 && (how == ZSTD_e_end ? left > 0 : in.pos < in.size));
	return r;
}

/* size bytes of fd; if it has become shorter, zeros. */
static int archive_put_file(struct archive *a, int fd, const char *path, uint64_t size,
			    struct err *e)
{
	ssize_t n;
	int r = 0;

	while (r == 0 && size) {
		n = read(fd, a->in, size < sizeof(a->in) ? (size_t)size : sizeof(a->in));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, -errno, "cannot read %s", path);
		if (n == 0) {
			n = (ssize_t)(size < sizeof(a->in) ? size : sizeof(a->in));
			memset(a->in, 0, (size_t)n);
		}
		r = archive_put(a, a->in, (size_t)n, ZSTD_e_continue, e);
		size -= (uint64_t)n;
	}
	return r;
}

int archive_add(struct archive *a, const char *path, const char *name, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), r;
	static const char zeros[TAR_BLOCK];
	const char *bad = tar_name_is_bad(name);
	struct stat st;

	if (fd < 0)
		return err_errno(e, -errno, "cannot open %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(e, -EINVAL, "%s is no plain file", path);
	}
	if (bad) {
		close(fd);
		return err_set(e, -EINVAL, "%s: a name that cannot be packed: %s", path, bad);
	}
	buf_reset(&a->header);
	tar_put_header(&a->header, name, (uint64_t)st.st_size, st.st_mtim.tv_sec);
	r = archive_put(a, a->header.data, a->header.len, ZSTD_e_continue, e);
	if (r == 0)
		r = archive_put_file(a, fd, path, (uint64_t)st.st_size, e);
	if (r == 0)
		r = archive_put(a, zeros, tar_padding((uint64_t)st.st_size), ZSTD_e_continue, e);
	close(fd);
	return r;
}

int archive_end(struct archive *a, bool good, struct err *e)
{
	static const char zeros[2 * TAR_BLOCK];
	int r = 0;

	if (!a)
		return 0;
	if (good)
		r = archive_put(a, zeros, sizeof(zeros), ZSTD_e_end, e);
	archive_free(a);
	return r;
}

/* ---- unpacking --------------------------------------------------------------------- */

struct archive_in {
	const char *dir;
	int fd; /* of the file that is written; -1: none */
	char *path;
	uint64_t limit, total, packed;
	struct tar_reader tar;
	unsigned char in[ARCHIVE_BYTES], out[ARCHIVE_BYTES];
};

static int archive_why(char why[256], const char *path, int code)
{
	snprintf(why, 256, "cannot write %.150s: %s", path, strerror(-code));
	return code;
}

static int archive_begin(void *arg, const struct tar_entry *entry, char why[256])
{
	struct archive_in *x = arg;
	char *slash;
	int r;

	if (entry->size > x->limit - x->total) {
		snprintf(why, 256, "\"%.100s\": more than %llu bytes in all; --limit allows more",
			 entry->name, (unsigned long long)x->limit);
		return -EPERM;
	}
	x->total += entry->size;
	free(x->path);
	x->path = xasprintf("%s/%s", x->dir, entry->name);
	if (entry->is_dir) {
		r = file_mkdirs(x->path, 0700);
		return r < 0 ? archive_why(why, x->path, r) : 0;
	}
	slash = strrchr(x->path, '/');
	*slash = '\0';
	r = file_mkdirs(x->path, 0700);
	*slash = '/';
	if (r < 0)
		return archive_why(why, x->path, r);
	x->fd = open(x->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (x->fd >= 0)
		return 0;
	if (errno != EEXIST)
		return archive_why(why, x->path, -errno);
	snprintf(why, 256, "\"%.100s\": it comes twice", entry->name);
	return -EPERM;
}

static int archive_data(void *arg, const void *data, size_t len, char why[256])
{
	struct archive_in *x = arg;
	int r = file_write_all(x->fd, data, len);

	return r < 0 ? archive_why(why, x->path, r) : 0;
}

static int archive_file_end(void *arg, char why[256])
{
	struct archive_in *x = arg;
	int r = close(x->fd) < 0 ? -errno : 0;

	x->fd = -1;
	return r < 0 ? archive_why(why, x->path, r) : 0;
}

static int archive_feed(struct archive_in *x, const void *data, size_t len)
{
	return tar_reader_feed(&x->tar, data, len);
}

/* A ratio that no run has: a bomb. */
static bool archive_is_bomb(const struct archive_in *x, uint64_t unpacked)
{
	return unpacked > ARCHIVE_RATIO_FROM && unpacked / ARCHIVE_RATIO_MAX > x->packed;
}

static int archive_bomb(struct archive_in *x)
{
	snprintf(x->tar.why, sizeof(x->tar.why), "it unpacks to more than %u times its size",
		 ARCHIVE_RATIO_MAX);
	return -EPERM;
}

static int archive_read(struct archive_in *x, int fd, size_t *ret_n)
{
	ssize_t n;

	do
		n = read(fd, x->in, sizeof(x->in));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return archive_why(x->tar.why, "what was read", -errno);
	x->packed += (uint64_t)n;
	*ret_n = (size_t)n;
	return 0;
}

/* One buffer of compressed bytes. 1: a frame has ended. */
static int archive_inflate(struct archive_in *x, ZSTD_DStream *z, size_t n, uint64_t *unpacked)
{
	ZSTD_inBuffer in = {x->in, n, 0};
	size_t left = 1;
	int r = 0;

	do {
		ZSTD_outBuffer out = {x->out, sizeof(x->out), 0};

		left = ZSTD_decompressStream(z, &out, &in);
		if (ZSTD_isError(left)) {
			snprintf(x->tar.why, sizeof(x->tar.why), "decompressing: %s",
				 ZSTD_getErrorName(left));
			return -EBADMSG;
		}
		*unpacked += out.pos;
		r = archive_is_bomb(x, *unpacked) ? archive_bomb(x)
						  : archive_feed(x, x->out, out.pos);
		if (out.pos < out.size && in.pos == in.size)
			break;
	} while (r == 0);
	return r < 0 ? r : left == 0;
}

static int archive_unpack_zstd(struct archive_in *x, int fd, size_t n)
{
	ZSTD_DStream *z = ZSTD_createDStream();
	uint64_t unpacked = 0;
	int r = z ? 0 : -ENOMEM;

	while (r >= 0 && n) {
		r = archive_inflate(x, z, n, &unpacked);
		if (r >= 0) {
			int code = archive_read(x, fd, &n);

			r = code < 0 ? code : r;
		}
	}
	ZSTD_freeDStream(z);
	if (r == 0) {
		snprintf(x->tar.why, sizeof(x->tar.why), "it is cut short");
		return -EBADMSG;
	}
	return r < 0 ? r : 0;
}

static int archive_unpack_plain(struct archive_in *x, int fd, size_t n)
{
	int r = 0;

	while (r == 0 && n) {
		r = archive_feed(x, x->in, n);
		if (r == 0)
			r = archive_read(x, fd, &n);
	}
	return r;
}

static int archive_unpack_any(struct archive_in *x, int fd)
{
	static const unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
	size_t n = 0;
	int r = archive_read(x, fd, &n);

	if (r < 0)
		return r;
	if (n >= 4 && memcmp(x->in, zstd, 4) == 0)
		r = archive_unpack_zstd(x, fd, n);
	else if (n >= TAR_BLOCK && memcmp(x->in + 257, "ustar", 5) == 0)
		r = archive_unpack_plain(x, fd, n);
	else {
		snprintf(x->tar.why, sizeof(x->tar.why), "neither .tar.zst nor .tar");
		r = -EBADMSG;
	}
	return r < 0 ? r : tar_reader_end(&x->tar);
}

int archive_unpack(const char *path, const char *dir, uint64_t limit, struct err *e)
{
	struct archive_in *x = xcalloc(1, sizeof(*x));
	const struct tar_taker taker = {archive_begin, archive_data, archive_file_end, x};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), r;

	if (fd < 0) {
		free(x);
		return err_errno(e, -errno, "cannot open %s", path);
	}
	x->dir = dir;
	x->fd = -1;
	x->limit = limit;
	tar_reader_init(&x->tar, &taker);
	r = archive_unpack_any(x, fd);
	if (r < 0)
		err_set(e, r, "%s: %s", path, x->tar.why);
	tar_reader_done(&x->tar);
	if (x->fd >= 0)
		close(x->fd);
	close(fd);
	free(x->path);
	free(x);
	return r;
}

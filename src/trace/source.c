/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - reading and decompressing.
 */
#include "trace/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#define IN_BYTES (256u << 10)
#define WAIT_MS 100 /* no data for so long: the caller may stop */
#define SLOTS 4u
#define SLOT_BYTES (1u << 20)

enum format {
	PLAIN,
	GZIP,
	ZSTD
};

/* Pieces from the thread that decompresses to the one that parses. */
struct ring {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct slot {
		unsigned char *data;
		size_t len, taken;
	} slots[SLOTS];
	uint64_t filled, emptied; /* slots ever */
	bool stop, at_end;
	int rc;
};

struct source {
	int fd;
	bool own_fd, at_end;
	enum format format;
	const unsigned char *memory;
	size_t memory_len, piece;
	_Atomic uint64_t bytes; /* the thread counts, others look */
	uint64_t of;
	unsigned char *in;
	size_t in_at, in_len;
	struct inflate_state *inflate;
	bool in_member; /* a member has begun and not ended */
	ZSTD_DStream *zstd;
	const char *damage;
	struct ring *ring; /* of compressed data */
};

/* Some bytes; 0 is the end. -EAGAIN: none came in WAIT_MS. */
static ssize_t read_some(struct source *s, void *out, size_t max)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	ssize_t n = poll(&p, 1, WAIT_MS);

	if (n > 0)
		n = read(s->fd, out, max);
	else if (!n)
		return -EAGAIN;
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	atomic_fetch_add_explicit(&s->bytes, (uint64_t)n, memory_order_relaxed);
	return n;
}

static bool is_stopped(struct source *s)
{
	bool stop;

	if (!s->ring)
		return false;
	pthread_mutex_lock(&s->ring->lock);
	stop = s->ring->stop;
	pthread_mutex_unlock(&s->ring->lock);
	return stop;
}

/* At least `least` bytes at in_at, unless the file ends before; a stopped thread sees an end. */
static int fill(struct source *s, size_t least)
{
	size_t have = s->in_len - s->in_at;

	if (have >= least || s->at_end)
		return 0;
	memmove(s->in, s->in + s->in_at, have);
	s->in_at = 0;
	s->in_len = have;
	while (s->in_len < least && !s->at_end) {
		ssize_t n = read_some(s, s->in + s->in_len, IN_BYTES - s->in_len);

		if (n == -EAGAIN && !is_stopped(s))
			continue;
		if (n < 0 && n != -EAGAIN)
			return (int)n;
		s->at_end = n <= 0;
		s->in_len += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int set_format(struct source *s)
{
	static const unsigned char zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

	if (s->in_len >= 2 && s->in[0] == 0x1f && s->in[1] == 0x8b) {
		s->format = GZIP;
		s->inflate = malloc(sizeof(*s->inflate));
		if (!s->inflate)
			return -ENOMEM;
		isal_inflate_init(s->inflate);
		s->inflate->crc_flag = ISAL_GZIP;
	} else if (s->in_len >= 4 && !memcmp(s->in, zstd_magic, 4)) {
		s->format = ZSTD;
		s->zstd = ZSTD_createDStream();
		if (!s->zstd)
			return -ENOMEM;
	}
	return 0;
}

static int read_plain(struct source *s, void *out, size_t max, size_t *ret)
{
	size_t have = s->in_len - s->in_at;
	ssize_t n;

	if (have) {
		if (have > max)
			have = max;
		memcpy(out, s->in + s->in_at, have);
		s->in_at += have;
		*ret = have;
		return 0;
	}
	n = read_some(s, out, max);
	if (n < 0)
		return (int)n;
	*ret = (size_t)n;
	return 0;
}

/* Does another member begin? What follows the last one, such as zeros, is passed over. */
static bool next_member(struct source *s)
{
	if (s->in_len - s->in_at < 2 || s->in[s->in_at] != 0x1f || s->in[s->in_at + 1] != 0x8b)
		return false;
	isal_inflate_reset(s->inflate);
	s->inflate->crc_flag = ISAL_GZIP;
	return true;
}

static int read_gzip(struct source *s, unsigned char *out, size_t max, size_t *ret)
{
	struct inflate_state *z = s->inflate;
	int rc;

	*ret = 0;
	while (!*ret && !s->damage) {
		rc = fill(s, 1);
		if (rc)
			return rc;
		if (z->block_state == ISAL_BLOCK_FINISH) {
			if (s->in_at == s->in_len)
				return 0;
			rc = fill(s, 2); /* what tells whether another member begins */
			if (rc)
				return rc;
			if (!next_member(s))
				return 0;
		}
		if (s->in_at == s->in_len && s->at_end) {
			s->damage = "the gzip data ends early";
			return 0;
		}
		z->next_in = s->in + s->in_at;
		z->avail_in = (uint32_t)(s->in_len - s->in_at);
		z->next_out = out;
		z->avail_out = max > UINT32_MAX ? UINT32_MAX : (uint32_t)max;
		rc = isal_inflate(z);
		s->in_at = s->in_len - z->avail_in;
		*ret = (size_t)(z->next_out - out);
		if (rc != ISAL_DECOMP_OK && rc != ISAL_END_INPUT)
			s->damage = rc == ISAL_INCORRECT_CHECKSUM ? "the gzip checksum is wrong"
								  : "the gzip data is damaged";
	}
	return 0;
}

static int read_zstd(struct source *s, unsigned char *out, size_t max, size_t *ret)
{
	*ret = 0;
	while (!*ret && !s->damage) {
		ZSTD_outBuffer to = {out, max, 0};
		ZSTD_inBuffer from;
		size_t n;
		int rc = fill(s, 1);

		if (rc)
			return rc;
		if (s->in_at == s->in_len && s->at_end) {
			if (s->in_member)
				s->damage = "the zstd data ends early";
			return 0;
		}
		from = (ZSTD_inBuffer){s->in, s->in_len, s->in_at};
		n = ZSTD_decompressStream(s->zstd, &to, &from);
		s->in_at = from.pos;
		*ret = to.pos;
		if (ZSTD_isError(n))
			s->damage = ZSTD_getErrorName(n);
		s->in_member = n != 0;
	}
	return 0;
}

/* ---- the thread ----------------------------------------------------------------------- */

static void *decompress(void *arg)
{
	struct source *s = arg;
	struct ring *g = s->ring;
	bool go_on = true;

	while (go_on) {
		struct slot *slot;
		int rc = 0;

		pthread_mutex_lock(&g->lock);
		while (!g->stop && g->filled - g->emptied == SLOTS)
			pthread_cond_wait(&g->changed, &g->lock);
		go_on = !g->stop;
		pthread_mutex_unlock(&g->lock);
		if (!go_on)
			break;
		slot = &g->slots[g->filled % SLOTS];
		slot->taken = slot->len = 0;
		rc = s->format == GZIP ? read_gzip(s, slot->data, SLOT_BYTES, &slot->len)
				       : read_zstd(s, slot->data, SLOT_BYTES, &slot->len);
		pthread_mutex_lock(&g->lock);
		g->rc = rc;
		go_on = !rc && slot->len;
		if (go_on)
			g->filled++;
		else
			g->at_end = true;
		pthread_cond_signal(&g->changed);
		pthread_mutex_unlock(&g->lock);
	}
	return NULL;
}

static int read_ring(struct source *s, void *out, size_t max, size_t *ret)
{
	struct ring *g = s->ring;
	struct timespec until;
	struct slot *slot;
	int rc = 0;

	*ret = 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAIT_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_mutex_lock(&g->lock);
	while (!g->at_end && g->filled == g->emptied && !rc)
		rc = pthread_cond_timedwait(&g->changed, &g->lock, &until);
	rc = rc ? -EAGAIN : 0;
	slot = &g->slots[g->emptied % SLOTS];
	if (g->filled == g->emptied)
		rc = g->at_end ? g->rc : rc;
	else
		*ret = slot->len - slot->taken < max ? slot->len - slot->taken : max;
	pthread_mutex_unlock(&g->lock);
	if (!*ret)
		return rc;
	memcpy(out, slot->data + slot->taken, *ret);
	slot->taken += *ret;
	if (slot->taken == slot->len) {
		pthread_mutex_lock(&g->lock);
		g->emptied++;
		pthread_cond_signal(&g->changed);
		pthread_mutex_unlock(&g->lock);
	}
	return 0;
}

static int start_thread(struct source *s)
{
	struct ring *g = calloc(1, sizeof(*g));
	int rc;

	if (!g)
		return -ENOMEM;
	for (unsigned i = 0; i < SLOTS; i++) {
		g->slots[i].data = malloc(SLOT_BYTES);
		if (!g->slots[i].data)
			goto no_memory;
	}
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->changed, NULL);
	s->ring = g;
	rc = pthread_create(&g->thread, NULL, decompress, s);
	if (!rc)
		return 0;
	s->ring = NULL;
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	for (unsigned i = 0; i < SLOTS; i++)
		free(g->slots[i].data);
	free(g);
	return -rc;
no_memory:
	for (unsigned i = 0; i < SLOTS; i++)
		free(g->slots[i].data);
	free(g);
	return -ENOMEM;
}

static void stop_thread(struct source *s)
{
	struct ring *g = s->ring;

	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	g->stop = true;
	pthread_cond_signal(&g->changed);
	pthread_mutex_unlock(&g->lock);
	pthread_join(g->thread, NULL);
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	for (unsigned m = 0; m < SLOTS; m++)
		free(g->slots[m].data);
	free(g);
}

int source_open(const char *path, struct source **ret, struct err *e)
{
	struct source *s = calloc(1, sizeof(*s));
	struct stat st;
	int rc = -ENOMEM;

	if (!s)
		return err_errno(e, -ENOMEM, "%s", path);
	s->own_fd = strcmp(path, "-");
	s->fd = s->own_fd ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (s->fd < 0) {
		rc = -errno;
		goto fail;
	}
	if (!fstat(s->fd, &st)) {
		if (S_ISDIR(st.st_mode)) {
			rc = -EISDIR;
			goto fail;
		}
		s->of = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	}
	s->in = malloc(IN_BYTES);
	if (!s->in)
		goto fail;
	rc = fill(s, 4);
	if (!rc)
		rc = set_format(s);
	if (rc)
		goto fail;
	if (s->format != PLAIN)
		rc = start_thread(s);
	if (rc)
		goto fail;
	*ret = s;
	return 0;
fail:
	source_close(s);
	return err_errno(e, rc, "cannot read %s", path);
}

int source_memory(const void *data, size_t len, size_t piece, struct source **ret)
{
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->fd = -1;
	s->memory = data;
	s->memory_len = len;
	s->piece = piece ? piece : SIZE_MAX;
	s->of = len;
	*ret = s;
	return 0;
}

void source_close(struct source *s)
{
	if (!s)
		return;
	stop_thread(s);
	if (s->own_fd && s->fd >= 0)
		close(s->fd);
	free(s->in);
	free(s->inflate);
	ZSTD_freeDStream(s->zstd);
	free(s);
}

int source_read(struct source *s, void *out, size_t max, size_t *ret)
{
	if (s->memory || s->fd < 0) {
		size_t n = s->memory_len - s->bytes;

		if (n > max)
			n = max;
		if (n > s->piece)
			n = s->piece;
		if (n)
			memcpy(out, s->memory + s->bytes, n);
		s->bytes += n;
		*ret = n;
		return 0;
	}
	return s->ring ? read_ring(s, out, max, ret) : read_plain(s, out, max, ret);
}

const char *source_damage(const struct source *s)
{
	return s->damage;
}

void source_progress(const struct source *s, uint64_t *ret_bytes, uint64_t *ret_of)
{
	*ret_bytes = atomic_load_explicit(&s->bytes, memory_order_relaxed);
	*ret_of = s->of;
}

uint64_t source_held(const struct source *s)
{
	return (s->in ? IN_BYTES : 0) + (s->inflate ? sizeof(*s->inflate) : 0) +
	       (s->ring ? SLOTS * (uint64_t)SLOT_BYTES : 0);
}

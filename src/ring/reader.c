/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/reader.h"

#include "ring/safemap.h"
#include "ring/ring.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int reader_bad(char why[128], int err, const char *what)
{
	snprintf(why, 128, "%s", what);
	return err;
}

static int reader_failed(char why[128], int err, const char *what)
{
	snprintf(why, 128, "%s: %s", what, strerror(-err));
	return err;
}

static bool reader_registry_fits(const struct wire_ring *h, uint64_t file_bytes)
{
	uint64_t lanes_end = h->lanes_offset + (uint64_t)h->lanes * WIRE_LANE_BYTES;

	return h->registry_offset >= lanes_end && h->registry_offset - lanes_end < WIRE_PAGE &&
	       h->registry_offset <= file_bytes && h->registry_bytes >= WIRE_PAGE &&
	       h->registry_bytes <= WIRE_REG_MAX &&
	       h->registry_bytes <= file_bytes - h->registry_offset;
}

/* Sizes and offsets of the header against each other and the file. */
static int reader_check(const struct wire_ring *h, uint64_t file_bytes, char why[128])
{
	if (h->magic != WIRE_MAGIC_RING)
		return reader_bad(why, -EBADMSG, "not a ring: no magic");
	if (h->major > WIRE_MAJOR)
		return reader_bad(why, -EPROTO, "ring of a newer lapse: update the agent");
	if (h->file_bytes != file_bytes || file_bytes > WIRE_RING_BYTES_MAX)
		return reader_bad(why, -EBADMSG, "file size differs from the header");
	if (h->lanes == 0 || h->lanes > WIRE_LANES_MAX || h->lanes_offset != WIRE_PAGE)
		return reader_bad(why, -EBADMSG, "bad number or place of lanes");
	if (!reader_registry_fits(h, file_bytes))
		return reader_bad(why, -EBADMSG, "bad place or size of the registry");
	if (h->clock < WIRE_CLOCK_MONOTONIC || h->clock > WIRE_CLOCK_CNTVCT)
		return reader_bad(why, -EBADMSG, "unknown clock");
	return 0;
}

static void reader_end_strings(struct wire_ring *h)
{
	h->ctl[sizeof(h->ctl) - 1] = '\0';
	h->run[sizeof(h->run) - 1] = '\0';
	h->role[sizeof(h->role) - 1] = '\0';
	h->name[sizeof(h->name) - 1] = '\0';
	h->project[sizeof(h->project) - 1] = '\0';
	h->store_dir[sizeof(h->store_dir) - 1] = '\0';
	h->program[sizeof(h->program) - 1] = '\0';
	h->cwd[sizeof(h->cwd) - 1] = '\0';
}

/* Our user's regular file, opened without following links. */
static int reader_open_file(int dirfd, const char *name, uint64_t *ret_bytes)
{
	int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	int err = 0;

	if (fd < 0)
		return errno == ELOOP ? -EPERM : -errno;
	if (fstat(fd, &st) < 0)
		err = -errno;
	else if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0))
		err = -EPERM;
	if (err) {
		close(fd);
		return err;
	}
	*ret_bytes = (uint64_t)st.st_size;
	return fd;
}

static int reader_open_lanes(struct reader *r, char why[128])
{
	uint64_t begin = r->ring.registry_offset + r->ring.registry_bytes;
	uint32_t i;

	r->lane = calloc(r->ring.lanes, sizeof(*r->lane));
	if (!r->lane)
		return reader_bad(why, -ENOMEM, "out of memory");
	for (i = 0; i < r->ring.lanes; i++) {
		struct reader_lane *l = &r->lane[i];

		l->offset = r->lanes[i].slots_offset;
		l->slots = r->lanes[i].slots;
		if (l->slots < WIRE_LANE_SLOTS_MIN || l->slots > WIRE_LANE_SLOTS_MAX ||
		    (l->slots & (l->slots - 1)) || l->offset < begin ||
		    l->offset > r->ring.file_bytes ||
		    l->slots * WIRE_SLOT > r->ring.file_bytes - l->offset)
			return reader_bad(why, -EBADMSG, "bad place or size of a lane");
		l->pos = l->acked.pos = __atomic_load_n(&r->lanes[i].tail, __ATOMIC_RELAXED);
		l->rec = l->acked.rec = __atomic_load_n(&r->lanes[i].tail_rec, __ATOMIC_RELAXED);
		/* Without a store that remembers, what is below the tail counts
		 * as stored: that is why the tail was moved. */
		l->stored = l->acked.stored = l->rec;
	}
	return 0;
}

/* A ring does without its page, but not because we are short of something: the process would
 * be taken for dead. */
static int reader_open_ctl(struct reader *r, int dirfd, char why[128])
{
	struct wire_ctl *ctl;
	uint64_t bytes;
	int fd, err = 0;

	if (r->ring.ctl[0] == '\0' || strchr(r->ring.ctl, '/'))
		return 0;
	fd = reader_open_file(dirfd, r->ring.ctl, &bytes);
	if (fd < 0)
		err = fd;
	else if (bytes >= WIRE_PAGE)
		err = safemap_new(fd, WIRE_PAGE, &r->ctl_map);
	if (r->ctl_map) {
		ctl = safemap_base(r->ctl_map);
		if (ctl->magic == WIRE_MAGIC_CTL && ctl->major <= WIRE_MAJOR)
			r->ctl = ctl;
	}
	if (fd >= 0)
		close(fd);
	return rendezvous_is_short(err) ? reader_failed(why, err, "its page cannot be opened") : 0;
}

int reader_open(int dirfd, const char *name, struct reader *r, char why[128])
{
	uint64_t bytes;
	char *base;
	int err;

	*r = (struct reader){.fd = -1};
	snprintf(r->name, sizeof(r->name), "%s", name);
	r->fd = reader_open_file(dirfd, name, &bytes);
	if (r->fd == -EPERM)
		return reader_bad(why, r->fd, "not a regular file of ours");
	if (r->fd < 0)
		return reader_failed(why, r->fd, "cannot be opened");
	if (pread(r->fd, &r->ring, sizeof(r->ring), 0) != sizeof(r->ring))
		err = reader_bad(why, -EBADMSG, "not a ring: too short");
	else
		err = reader_check(&r->ring, bytes, why);
	if (!err) {
		reader_end_strings(&r->ring);
		err = safemap_new(r->fd, r->ring.registry_offset + sizeof(*r->registry), &r->head);
		if (err)
			reader_failed(why, err, "cannot be mapped");
	}
	if (!err) {
		base = safemap_base(r->head);
		r->lanes = (struct wire_lane *)(base + r->ring.lanes_offset);
		r->registry = (struct wire_registry *)(base + r->ring.registry_offset);
		err = reader_open_lanes(r, why);
	}
	if (!err)
		err = reader_open_ctl(r, dirfd, why);
	if (err)
		reader_done(r);
	return err;
}

void reader_done(struct reader *r)
{
	safemap_free(r->head);
	safemap_free(r->ctl_map);
	free(r->lane);
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct reader){.fd = -1};
}

bool reader_is_whole(const struct reader *r)
{
	return !safemap_is_broken(r->head) && !(r->ctl_map && safemap_is_broken(r->ctl_map));
}

bool reader_is_closed(const struct reader *r)
{
	const struct wire_ring *ring = safemap_base(r->head);

	return __atomic_load_n(&ring->state, __ATOMIC_ACQUIRE) == WIRE_STATE_CLOSED;
}

bool reader_resume(struct reader *r, uint32_t lane, uint64_t pos, uint64_t rec, uint64_t stored,
		   uint64_t overwritten, uint64_t broken)
{
	struct reader_lane *l = &r->lane[lane];

	if (pos < l->pos || pos > __atomic_load_n(&r->lanes[lane].head, __ATOMIC_ACQUIRE))
		return false;
	l->pos = l->acked.pos = pos;
	l->rec = l->acked.rec = rec;
	l->stored = l->acked.stored = stored;
	l->overwritten = l->acked.overwritten = overwritten;
	l->broken = l->acked.broken = broken;
	return true;
}

uint64_t reader_waiting(struct reader *r, uint32_t lane, double *ret_share)
{
	struct reader_lane *l = &r->lane[lane];
	uint64_t head = __atomic_load_n(&r->lanes[lane].head, __ATOMIC_RELAXED);
	uint64_t n = l->quarantined || head < l->pos ? 0 : head - l->pos;

	*ret_share = (double)n / (double)l->slots;
	return n;
}

void reader_ack(struct reader *r)
{
	uint32_t i;

	for (i = 0; i < r->ring.lanes; i++) {
		struct reader_lane *l = &r->lane[i];

		if (l->acked.pos == l->pos && l->acked.rec == l->rec)
			continue;
		l->acked.pos = l->pos;
		l->acked.rec = l->rec;
		l->acked.stored = l->stored;
		l->acked.overwritten = l->overwritten;
		l->acked.broken = l->broken;
		__atomic_store_n(&r->lanes[i].tail_rec, l->rec, __ATOMIC_RELAXED);
		__atomic_store_n(&r->lanes[i].tail, l->pos, __ATOMIC_RELEASE);
	}
}

void reader_rewind(struct reader *r)
{
	uint32_t i;

	for (i = 0; i < r->ring.lanes; i++) {
		struct reader_lane *l = &r->lane[i];

		l->pos = l->acked.pos;
		l->rec = l->acked.rec;
		l->stored = l->acked.stored;
		l->overwritten = l->acked.overwritten;
		l->broken = l->acked.broken;
	}
}

void reader_keep(struct reader *r, uint64_t until, uint64_t span)
{
	if (!r->ctl)
		return;
	__atomic_store_n(&r->ctl->keep_span, span, __ATOMIC_RELAXED);
	__atomic_store_n(&r->ctl->keep_until, until, __ATOMIC_RELAXED);
}

unsigned reader_anchors(const struct reader *r, struct wire_anchor *out)
{
	struct wire_anchor a[WIRE_ANCHORS];
	uint64_t seq;
	unsigned i, k, n = 0;

	if (!r->ctl) {
		out[0] = r->ring.opened;
		return r->ring.opened.boot_ns > 0 ? 1 : 0;
	}
	for (i = 0; i < WIRE_ANCHORS; i++) {
		seq = __atomic_load_n(&r->ctl->anchors[i].seq, __ATOMIC_ACQUIRE);
		a[i] = r->ctl->anchors[i];
		atomic_thread_fence(memory_order_acquire);
		if (seq == 0 || __atomic_load_n(&r->ctl->anchors[i].seq, __ATOMIC_RELAXED) != seq)
			continue;
		/* Insertion by sequence: the slots are a ring but for the first. */
		for (k = n++; k > 0 && out[k - 1].seq > seq; k--)
			out[k] = out[k - 1];
		out[k] = a[i];
		out[k].seq = seq;
	}
	return n;
}

bool reader_is_alive(const struct reader *r, int dirfd)
{
	struct stat st;

	if (rendezvous_is_locked(dirfd, r->ring.ctl))
		return true;
	if (!r->ctl || stat("/proc/self/ns/pid", &st) < 0 || r->ctl->pid_ns != st.st_ino)
		return false;
	/* 0 is also the answer for a process that is not there. */
	return r->ring.start_time && rendezvous_start_time(r->ring.pid) == r->ring.start_time;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t ring_floor_pow2(uint64_t v)
{
	return v ? 1ull << (63 - __builtin_clzll(v)) : 0;
}

static uint64_t ring_page_up(uint64_t v)
{
	return (v + WIRE_PAGE - 1) & ~(uint64_t)(WIRE_PAGE - 1);
}

/* Sizes of all parts, or -EINVAL if the file is too small for one lane. */
static int ring_plan(const struct ring_shape *shape, uint32_t *ret_lanes, uint64_t *ret_first,
		     uint64_t *ret_other, uint64_t *ret_registry)
{
	const uint64_t lane_min = WIRE_LANE_SLOTS_MIN * (uint64_t)WIRE_SLOT;
	uint64_t first, other = 0, fixed, registry = shape->registry_bytes, rest;
	uint32_t lanes = shape->lanes;

	if (shape->bytes < RING_BYTES_MIN || shape->bytes > WIRE_RING_BYTES_MAX || lanes == 0)
		return -EINVAL;
	while (registry > shape->bytes / 8 && registry > WIRE_PAGE)
		registry = ring_page_up(registry / 2);
	first = ring_floor_pow2(shape->bytes / 2);
	for (;; lanes--) {
		fixed = WIRE_PAGE + ring_page_up((uint64_t)lanes * WIRE_LANE_BYTES) + registry;
		rest = shape->bytes > fixed + first ? shape->bytes - fixed - first : 0;
		if (lanes == 1)
			break;
		other = ring_floor_pow2(rest / (lanes - 1));
		if (other >= lane_min)
			break;
	}
	/* With one lane it gets all. */
	if (lanes == 1)
		first = ring_floor_pow2(shape->bytes - fixed);
	if (first / WIRE_SLOT > WIRE_LANE_SLOTS_MAX)
		first = (uint64_t)WIRE_LANE_SLOTS_MAX * WIRE_SLOT;
	if (other > first)
		other = first;
	*ret_lanes = lanes;
	*ret_first = first;
	*ret_other = other;
	*ret_registry = registry;
	return 0;
}

static void ring_fill(struct ring_map *m, uint32_t lanes, uint64_t first, uint64_t other,
		      uint64_t registry)
{
	struct wire_ring *r = m->ring;
	uint64_t at;
	uint32_t i;

	r->magic = WIRE_MAGIC_RING;
	r->major = WIRE_MAJOR;
	r->minor = WIRE_MINOR;
	r->header_bytes = sizeof(*r);
	r->file_bytes = m->bytes;
	r->lanes = lanes;
	r->lanes_offset = WIRE_PAGE;
	r->registry_offset = WIRE_PAGE + ring_page_up((uint64_t)lanes * WIRE_LANE_BYTES);
	r->registry_bytes = registry;
	m->lanes = (struct wire_lane *)(m->base + r->lanes_offset);
	m->registry = (struct wire_registry *)(m->base + r->registry_offset);
	at = r->registry_offset + registry;
	for (i = 0; i < lanes; i++) {
		m->lanes[i].slots_offset = at;
		m->lanes[i].slots = (i ? other : first) / WIRE_SLOT;
		at += i ? other : first;
	}
}

int ring_create(int dirfd, const char *name, const struct ring_shape *shape, struct ring_map *ret)
{
	uint64_t first, other, registry, bytes;
	struct ring_map m = {0};
	uint32_t lanes;
	int fd, err;

	err = ring_plan(shape, &lanes, &first, &other, &registry);
	if (err)
		return err;
	bytes = WIRE_PAGE + ring_page_up((uint64_t)lanes * WIRE_LANE_BYTES) + registry + first +
		(lanes - 1) * other;
	fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	/* Allocated now, so that a full file system is told here and not by
	 * SIGBUS in the middle of training. */
	err = -posix_fallocate(fd, 0, (off_t)bytes);
	if (!err) {
		m.base =
			mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
		err = m.base == MAP_FAILED ? -errno : 0;
	}
	if (err)
		unlinkat(dirfd, name, 0);
	close(fd);
	if (err)
		return err;
	m.bytes = bytes;
	m.ring = (struct wire_ring *)m.base;
	ring_fill(&m, lanes, first, other, registry);
	*ret = m;
	return 0;
}

void ring_unmap(struct ring_map *m)
{
	if (m->base)
		munmap(m->base, m->bytes);
	*m = (struct ring_map){0};
}

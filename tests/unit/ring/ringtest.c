/* SPDX-License-Identifier: Apache-2.0 */
#include "ringtest.h"

#include "wire/clock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define KEEP_NS UINT64_C(3600000000000) /* longer than any test takes */

unsigned char ringtest_buf[WIRE_REC_SLOTS_MAX * WIRE_SLOT * 2];

static void ringtest_ctl(struct ringtest *f)
{
	struct wire_ctl ctl = {
		.magic = WIRE_MAGIC_CTL, .major = WIRE_MAJOR, .step = WIRE_STEP_NONE};
	int fd = openat(f->dirfd, "x.ctl", O_RDWR | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &ctl, sizeof(ctl)), sizeof(ctl));
	f->ctl = mmap(NULL, WIRE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(f->ctl, MAP_FAILED);
	close(fd);
}

void ringtest_make(struct ringtest *f, uint64_t bytes, uint32_t lanes)
{
	struct ring_shape shape = {bytes, lanes, WIRE_PAGE};

	memset(f, 0, sizeof(*f));
	strcpy(f->dir, "/tmp/test-ring-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY);
	ringtest_ctl(f);
	assert_int_equal(ring_create(f->dirfd, "x.ring", &shape, &f->map), 0);
	strcpy(f->map.ring->ctl, "x.ctl");
	f->map.ring->clock = WIRE_CLOCK_MONOTONIC;
	f->map.ring->ticks_per_s = 1000000000;
	f->w = aligned_alloc(64, sizeof(*f->w));
	memset(f->w, 0, sizeof(*f->w));
	ring_writer_init(f->w, f->map.base, &f->map.lanes[0], f->ctl);
}

void ringtest_attach(struct ringtest *f)
{
	char why[128] = "";

	assert_int_equal(reader_open(f->dirfd, "x.ring", &f->r, why), 0);
}

void ringtest_done(struct ringtest *f)
{
	reader_done(&f->r);
	munmap(f->ctl, WIRE_PAGE);
	ring_unmap(&f->map);
	unlinkat(f->dirfd, "x.ring", 0);
	unlinkat(f->dirfd, "x.ctl", 0);
	close(f->dirfd);
	rmdir(f->dir);
	free(f->w);
}

int ringtest_put(struct ring_writer *w, uint32_t n, uint64_t i)
{
	struct wire_rec *r;
	uint64_t hold;
	bool behind;
	int err;

	while (!(r = ring_begin(w, n, &hold))) {
		err = ring_make_room(w, n, (uint64_t)clock_ns(CLOCK_MONOTONIC), &behind);
		if (err)
			return err;
	}
	memset(r, 0, n * sizeof(*r));
	r->type = n == 1 ? WIRE_SET : WIRE_FRAME;
	r->slots = (uint16_t)n;
	r->time = i;
	r->end = i * 3;
	ring_commit(w, n, 1, hold);
	return 0;
}

void ringtest_keep(struct ringtest *f)
{
	f->ctl->keep_span = KEEP_NS;
	f->ctl->keep_until = (uint64_t)clock_ns(CLOCK_MONOTONIC) + KEEP_NS;
}

size_t ringtest_take(struct ringtest *f, uint64_t *out, size_t cap)
{
	const struct wire_rec *r, *end;
	uint64_t n;
	size_t k = 0;

	assert_int_equal(reader_drain(&f->r, 0, ringtest_buf, sizeof(ringtest_buf), &r, &n), 0);
	if (n == 0)
		return 0;
	for (end = r + n; r < end; r += r->slots) {
		if (r->type == WIRE_PAD)
			continue;
		assert_int_equal(r->end, r->time * 3);
		assert_true(k < cap);
		out[k++] = r->time;
	}
	return k;
}

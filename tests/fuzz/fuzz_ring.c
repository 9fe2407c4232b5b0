/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring file of any content: open, definitions, drain every lane, acknowledge.
 * The first 2 KiB of the input are header and first lane with magic and sizes
 * put right half of the time, so that the fuzzer gets past the door.
 */
#include "ring/reader.h"
#include "ring/ring.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILE_BYTES RING_BYTES_MIN

static int on_def(void *arg, const struct reader_def *d)
{
	size_t *sum = arg;

	*sum += strlen(d->name) + strlen(d->unit) + strlen(d->help) + strlen(d->labels);
	return 0;
}

/* A sound empty ring, over which the input is laid. */
static void lay(unsigned char *file, const uint8_t *data, size_t size)
{
	struct wire_ring *r = (struct wire_ring *)file;
	struct wire_lane *l = (struct wire_lane *)(file + WIRE_PAGE);
	int repair = size > 0 && data[0] & 1;

	memset(file, 0, FILE_BYTES);
	memcpy(file + WIRE_PAGE, data,
	       size < FILE_BYTES - WIRE_PAGE ? size : FILE_BYTES - WIRE_PAGE);
	if (!repair)
		memcpy(file, data, size < WIRE_PAGE ? size : WIRE_PAGE);
	else {
		r->major = WIRE_MAJOR;
		r->lanes = 1;
		r->lanes_offset = WIRE_PAGE;
		r->registry_offset = 2 * WIRE_PAGE;
		r->registry_bytes = WIRE_PAGE;
		r->clock = WIRE_CLOCK_TSC;
		l->slots_offset = 3 * WIRE_PAGE;
		l->slots = 4096;
		l->head %= 8192;
		l->tail %= 8192;
	}
	r->magic = WIRE_MAGIC_RING;
	r->file_bytes = FILE_BYTES;
}

static void drain_all(struct reader *r)
{
	static unsigned char buf[WIRE_REC_SLOTS_MAX * WIRE_SLOT];
	const struct wire_rec *first;
	uint64_t n, total;
	uint32_t i;

	for (i = 0; i < r->ring.lanes; i++) {
		total = 0;
		do {
			if (reader_drain(r, i, buf, sizeof(buf), &first, &n) < 0)
				break;
			total += n;
			/* Every record lies in the buffer: touch its ends. */
			if (n &&
			    (first[0].type == 0 || ((const char *)first)[n * WIRE_SLOT - 1] == 77))
				total++;
		} while (n > 0 && total < 1u << 20);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned char file[FILE_BYTES];
	struct wire_anchor anchors[WIRE_ANCHORS];
	static int dir = -1;
	static char path[] = "/tmp/fuzz-ring-XXXXXX";
	struct reader r;
	char why[128];
	size_t sum = 0;
	int fd;

	if (dir < 0) {
		if (!mkdtemp(path))
			abort();
		dir = open(path, O_RDONLY | O_DIRECTORY);
	}
	lay(file, data, size);
	fd = openat(dir, "f.ring", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, file, sizeof(file)) != (ssize_t)sizeof(file))
		abort();
	close(fd);
	if (reader_open(dir, "f.ring", &r, why) == 0) {
		reader_defs(&r, on_def, &sum);
		reader_defs(&r, on_def, &sum);
		drain_all(&r);
		reader_anchors(&r, anchors);
		reader_ack(&r);
		reader_rewind(&r);
		reader_done(&r);
	}
	unlinkat(dir, "f.ring", 0);
	return 0;
}

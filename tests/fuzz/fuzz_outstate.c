/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_outstate.c - the readers of an exporter's state on any bytes: the first
 * byte says which. The state file (its checksum is made right here), the tags of
 * TensorBoard's part, Prometheus' part.
 */
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/exporter.h"
#include "export/tensorboard_priv.h"
#include "store/codec.h"

#define FUZZ_FILES 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is accepted survives being written and read again. */
static void fuzz_file(const uint8_t *data, size_t size)
{
	struct outstate a, b;
	struct buf text, again;
	uint32_t crc;

	outstate_init(&a);
	outstate_init(&b);
	buf_init(&text, 64 << 20);
	buf_init(&again, 64 << 20);
	buf_puts(&text, "LAPSEXP1");
	buf_append(&text, data, size);
	crc = htole32(crc32c(0, text.data, text.len));
	buf_append(&text, &crc, sizeof(crc));
	if (outstate_decode(&a, text.data, text.len) == 0) {
		outstate_encode(&a, &again);
		if (again.error || outstate_decode(&b, again.data, again.len) < 0 ||
		    a.n_files != b.n_files || a.own.len != b.own.len || strcmp(a.run, b.run) != 0)
			abort();
	}
	outstate_done(&a);
	outstate_done(&b);
	buf_done(&text);
	buf_done(&again);
}

static void fuzz_tags(struct cur c)
{
	struct buf first, second;
	struct tbtags a, b;

	tbtags_init(&a);
	tbtags_init(&b);
	buf_init(&first, 64 << 20);
	buf_init(&second, 64 << 20);
	if (tbtags_load(&a, &c, FUZZ_FILES) == 0) {
		tbtags_save(&a, &first);
		c = (struct cur){.p = (const void *)buf_str(&first)};
		c.end = c.p + first.len;
		if (tbtags_load(&b, &c, FUZZ_FILES) < 0)
			abort();
		tbtags_save(&b, &second);
		if (first.len != second.len || memcmp(buf_str(&first), buf_str(&second), first.len))
			abort();
	}
	tbtags_done(&a);
	tbtags_done(&b);
	buf_done(&first);
	buf_done(&second);
}

static void fuzz_prometheus(struct cur c)
{
	void *f = prometheus_ops.create(NULL);
	struct buf b;

	buf_init(&b, 64 << 20);
	if (prometheus_ops.load(f, &c) == 0)
		prometheus_ops.save(f, &b);
	prometheus_ops.destroy(f);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cur c;
	uint8_t *copy;

	if (size == 0)
		return 0;
	/* A copy of the exact size: reading one byte past it is then seen. */
	copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	c = (struct cur){.p = copy + 1, .end = copy + size};
	if (copy[0] % 3 == 0)
		fuzz_file(copy + 1, size - 1);
	else if (copy[0] % 3 == 1)
		fuzz_tags(c);
	else
		fuzz_prometheus(c);
	free(copy);
	return 0;
}

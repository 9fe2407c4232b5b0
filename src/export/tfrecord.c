/* SPDX-License-Identifier: Apache-2.0
 *
 * tfrecord.c - see tfrecord.h.
 */
#include "export/tfrecord.h"

#include <endian.h>
#include <string.h>

#include "store/codec.h"

uint32_t tfrecord_crc(const void *data, size_t len)
{
	uint32_t crc = crc32c(0, data, len);

	return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void tfrecord_u32(struct buf *out, uint32_t v)
{
	v = htole32(v);
	buf_append(out, &v, sizeof(v));
}

void tfrecord_append(struct buf *out, const void *data, size_t len)
{
	uint64_t n = htole64(len);

	buf_append(out, &n, sizeof(n));
	tfrecord_u32(out, tfrecord_crc(&n, sizeof(n)));
	buf_append(out, data, len);
	tfrecord_u32(out, tfrecord_crc(data, len));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tfrecord.h - the framing of TensorBoard's event files: length, checksum of
 * the length, bytes, checksum of the bytes.
 */
#ifndef EXPORT_TFRECORD_H
#define EXPORT_TFRECORD_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

#define TFRECORD_OVERHEAD 16u /* bytes that a record adds to its data */

/* CRC-32C of len bytes, masked as TFRecord wants it. */
uint32_t tfrecord_crc(const void *data, size_t len);

/* Append one record. */
void tfrecord_append(struct buf *out, const void *data, size_t len);

#endif

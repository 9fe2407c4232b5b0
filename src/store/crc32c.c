/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c.c - CRC-32C with the processor's instruction where there is one, else
 * by eight tables. Polynomial 0x1EDC6F41, reflected, as in iSCSI and ext4.
 */
#include "store/codec.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>
#if defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define CRC_POLY 0x82f63b78u /* reflected */

static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_build(void)
{
	unsigned i, k;

	for (i = 0; i < 256; i++) {
		uint32_t v = i;

		for (k = 0; k < 8; k++)
			v = v & 1 ? (v >> 1) ^ CRC_POLY : v >> 1;
		crc_table[0][i] = v;
	}
	for (k = 1; k < 8; k++)
		for (i = 0; i < 256; i++)
			crc_table[k][i] = (crc_table[k - 1][i] >> 8) ^
					  crc_table[0][crc_table[k - 1][i] & 0xff];
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t v;
	unsigned k;

	pthread_once(&crc_once, crc_build);
	crc = ~crc;
	for (; len >= 8; len -= 8, p += 8) {
		uint32_t next = 0;

		memcpy(&v, p, 8);
		v = le64toh(v) ^ crc;
		for (k = 0; k < 8; k++)
			next ^= crc_table[7 - k][(v >> (8 * k)) & 0xff];
		crc = next;
	}
	for (; len; len--)
		crc = (crc >> 8) ^ crc_table[0][(crc ^ *p++) & 0xff];
	return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_fast(uint32_t crc, const void *data,
							      size_t len)
{
	const unsigned char *p = data;
	uint64_t acc = (uint32_t)~crc, v;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&v, p, 8);
		acc = __builtin_ia32_crc32di(acc, v);
	}
	for (; len; len--)
		acc = __builtin_ia32_crc32qi((uint32_t)acc, *p++);
	return ~(uint32_t)acc;
}

static int crc_has_instruction(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
__attribute__((target("+crc"))) static uint32_t crc32c_fast(uint32_t crc, const void *data,
							    size_t len)
{
	const unsigned char *p = data;
	uint64_t v;

	crc = ~crc;
	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&v, p, 8);
		crc = __crc32cd(crc, le64toh(v));
	}
	for (; len; len--)
		crc = __crc32cb(crc, *p++);
	return ~crc;
}

static int crc_has_instruction(void)
{
	return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#else
#define crc32c_fast crc32c_portable

static int crc_has_instruction(void)
{
	return 0;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	return crc_has_instruction() ? crc32c_fast(crc, data, len)
				     : crc32c_portable(crc, data, len);
}

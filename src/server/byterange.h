/* SPDX-License-Identifier: Apache-2.0
 *
 * byterange.h - which bytes of a file a request's Range asks for (RFC 9110, 14).
 */
#ifndef SERVER_BYTERANGE_H
#define SERVER_BYTERANGE_H

#include <stdint.h>

enum byterange {
	BYTERANGE_ALL,  /* no range, or one that may be ignored: other units, several, not one */
	BYTERANGE_PART, /* *ret_from, *ret_bytes */
	BYTERANGE_NONE  /* none of it is there: 416 */
};

/* text: the field, NULL if it is not there. */
enum byterange byterange_parse(const char *text, uint64_t size, uint64_t *ret_from,
			       uint64_t *ret_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_index.c - a record of the index's cache: any bytes are refused or become a run
 * that is written as the same bytes' meaning again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct index_run a, b;
	struct buf first, second;
	char *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	if (index_decode(copy, size, &a) == 0) {
		buf_init(&first, 1u << 30);
		buf_init(&second, 1u << 30);
		index_encode(&first, &a);
		if (index_decode(first.data, first.len, &b) < 0)
			abort();
		index_encode(&second, &b);
		if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0)
			abort();
		buf_done(&first);
		buf_done(&second);
		index_run_done(&a);
		index_run_done(&b);
	}
	free(copy);
	return 0;
}

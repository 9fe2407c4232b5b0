/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_repair.c - broken JSON: what repair_value() says is mended is JSON to the letter and
 * stays as it is when mended again; what is JSON already is never refused.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/repair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct repair_result r = {0};
	struct buf out, again;
	unsigned char *copy = malloc(size + 1);
	bool is_json;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	buf_init(&out, 1u << 24);
	buf_init(&again, 1u << 24);
	is_json = repair_is_json(copy, size);
	if (repair_value(copy, size, 0, &out, &r)) {
		if (!repair_is_json(out.data, out.len))
			abort();
		if (!repair_value(out.data, out.len, 0, &again, &r) || again.len != out.len ||
		    memcmp(again.data, out.data, out.len))
			abort();
	} else if (is_json) {
		abort();
	}
	buf_done(&out);
	buf_done(&again);
	free(copy);
	return 0;
}

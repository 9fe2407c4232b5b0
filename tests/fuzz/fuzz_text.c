/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_text.c - text and numbers from outside: what utf8_clean() leaves is
 * well-formed and harmless, JSON of any bytes is well-formed UTF-8, and numbers
 * that were read are written back the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_expect(int holds)
{
	if (!holds)
		abort();
}

/* All of it is UTF-8 without C0 controls; DEL may pass where JSON allows it. */
static void fuzz_clean(const unsigned char *p, size_t len, int del)
{
	size_t i = 0, n;

	while (i < len) {
		n = utf8_valid(p + i, len - i);
		fuzz_expect(n > 0 && p[i] >= 0x20 && (del || p[i] != 0x7f));
		i += n;
	}
}

static void fuzz_numbers(const uint8_t *data, size_t size)
{
	struct cur c = {.p = data, .end = data + size};
	struct buf b;

	buf_init(&b, 10);
	while (c.p < c.end && !c.error) {
		const unsigned char *from = c.p;
		uint64_t v = cur_uvarint(&c);
		struct cur again;

		if (c.error)
			break;
		buf_reset(&b);
		buf_uvarint(&b, v);
		/* Ours is the shortest form; what was read may be a longer one. */
		fuzz_expect(!b.error && b.len <= (size_t)(c.p - from));
		again = (struct cur){(const unsigned char *)b.data,
				     (const unsigned char *)b.data + b.len, 0};
		fuzz_expect(cur_uvarint(&again) == v && !again.error && again.p == again.end);
	}
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct buf out;
	struct json j;

	if (!text)
		return 0;
	memcpy(text, data, size);
	utf8_clean(text, size);
	fuzz_clean((unsigned char *)text, size, 0);
	free(text);

	buf_init(&out, size * 6 + 2); /* each byte at most \u0000 */
	json_init(&j, &out);
	json_strn(&j, (const char *)data, size);
	fuzz_expect(!out.error && out.len >= 2);
	fuzz_clean((const unsigned char *)out.data, out.len, 1);
	buf_done(&out);
	fuzz_numbers(data, size);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_query.c - what comes from outside on the reading side: patterns of series
 * (first byte even) and the bytes of cursors (odd; the checksum is made right).
 * A cursor that is taken must become the same bytes again.
 */
#include "store/read_priv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_pattern(const uint8_t *data, size_t size)
{
	static const struct store_series series = {.host_name = "node",
						   .rank = 1,
						   .role = "trainer",
						   .name = "loss",
						   .labels = "a=\"1\",b=\"\\\"x\\\\\""};
	char *text = malloc(size + 1);
	struct store_series own = series;
	struct store_match *m = NULL;
	struct err e = {0};

	if (!text)
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (store_match_new(text, &e, &m) == 0) {
		store_match_is(m, &series);
		store_match_free(m);
	} else if (!e.text[0]) {
		abort();
	}
	/* Labels of a series come from foreign programs. */
	own.labels = text;
	free(store_series_label(&own, "b"));
	free(text);
}

static void fuzz_cursor(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	struct store_cursor *c = NULL, *again = NULL;
	struct buf b, second;
	uint32_t crc;

	if (!copy)
		return;
	memcpy(copy, data, size);
	if (size >= 8) {
		memcpy(copy, "LPC1", 4);
		crc = crc32c(0, copy + 8, size - 8);
		memcpy(copy + 4, &crc, 4);
	}
	if (store_cursor_load(copy, size, &c) == 0) {
		buf_init(&b, 64 << 20);
		buf_init(&second, 64 << 20);
		if (store_cursor_save(c, &b) != 0 ||
		    store_cursor_load(b.data, b.len, &again) != 0 ||
		    store_cursor_save(again, &second) != 0 || second.len != b.len ||
		    memcmp(second.data, b.data, b.len) != 0)
			abort();
		store_cursor_free(again);
		buf_done(&b);
		buf_done(&second);
	}
	store_cursor_free(c);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 2)
		fuzz_cursor(data + 1, size - 1);
	else
		fuzz_pattern(data + 1, size - 1);
	return 0;
}

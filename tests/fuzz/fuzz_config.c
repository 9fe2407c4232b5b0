/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_config.c - configuration files of any bytes: each is taken, and then
 * becomes JSON, or is refused with a sentence that names the file.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/utf8.h"
#include "config/config.h"
#include "config/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_expect(int holds)
{
	if (!holds)
		abort();
}

/* Text that may reach a terminal: UTF-8 without control characters. */
static void fuzz_clean(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t len = strlen(text), i = 0, n;

	while (i < len) {
		n = utf8_valid(p + i, len - i);
		fuzz_expect(n > 0 && p[i] >= 0x20 && p[i] != 0x7f);
		i += n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *c = config_new();
	struct err e = {0};
	struct buf out;
	struct json j;
	size_t i;

	if (config_parse(c, "f", (const char *)data, size, &e) < 0) {
		fuzz_expect(strncmp(e.text, "f:", 2) == 0 && e.code != 0);
		fuzz_clean(e.text);
		config_free(c);
		return 0;
	}
	config_environment(c);
	buf_init(&out, 64u << 20);
	json_init(&j, &out);
	dump_json(c, &j);
	fuzz_expect(!out.error && j.depth == 0);
	for (i = 0; config_note(c, i); i++)
		fuzz_clean(config_note(c, i));
	buf_done(&out);
	config_free(c);
	return 0;
}

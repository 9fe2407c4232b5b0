/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_said.c - what others say to the server: the input as a run's alerts.ack, as the body
 * of an edit, and as the field Range. What is taken is within its limits.
 */
#include "alert/list.h"
#include "server/body.h"
#include "server/byterange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_one(void *arg, const struct alerts_said *s)
{
	size_t *n = arg;

	if ((s->is_silence ? s->rule[0] : s->id[0]) == '\0')
		abort();
	if (strnlen(s->note, sizeof(s->note)) == sizeof(s->note) ||
	    strnlen(s->by, sizeof(s->by)) == sizeof(s->by))
		abort();
	++*n;
}

/* No more is read than there are lines. */
static void fuzz_acks(const uint8_t *data, size_t size)
{
	char dir[] = "/tmp/lapse-fuzz-said-XXXXXX", path[96];
	size_t n = 0, lines = 1, i;
	FILE *file;

	if (!mkdtemp(dir))
		return;
	snprintf(path, sizeof(path), "%s/" ALERTS_ACK, dir);
	file = fopen(path, "w");
	if (file) {
		fwrite(data, 1, size, file);
		fclose(file);
		for (i = 0; i < size; i++)
			lines += data[i] == '\n';
		if (alerts_said(dir, fuzz_one, &n) == 0 && n > lines)
			abort();
	}
	unlink(path);
	rmdir(dir);
}

static void fuzz_body(const char *text, size_t size)
{
	struct body_field fields[] = {{.name = "name", .type = BODY_TEXT, .max = 255},
				      {.name = "for_s", .type = BODY_NUMBER, .lo = 0, .hi = 100},
				      {.name = "on", .type = BODY_FLAG}};
	struct http_request r = {.method = "POST", .path = "/", .body = text, .body_len = size};
	struct http_reply reply = {.body = {.max = 1 << 20}};

	if (body_read(&r, fields, 3, &reply)) {
		if (fields[0].has && strlen(fields[0].text) > 255)
			abort();
		if (fields[1].has && !(fields[1].number >= 0 && fields[1].number <= 100))
			abort();
	} else if (reply.status != 400 || reply.body.len == 0) {
		abort();
	}
	body_done(fields, 3);
	buf_done(&reply.body);
}

static void fuzz_range(const char *text)
{
	uint64_t from = 0, bytes = 0;

	if (byterange_parse(text, 1000, &from, &bytes) == BYTERANGE_PART &&
	    (bytes == 0 || from >= 1000 || bytes > 1000 - from))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	fuzz_acks(data, size);
	fuzz_body(text, size);
	fuzz_range(text);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * body.h - what a POST says: one flat JSON object, its keys held against a table.
 */
#ifndef SERVER_BODY_H
#define SERVER_BODY_H

#include "server/http.h"

#include <stdbool.h>
#include <stddef.h>

enum body_type {
	BODY_TEXT,
	BODY_NUMBER,
	BODY_FLAG
};

/* A key that the body may have; the last members are what it says. */
struct body_field {
	const char *name;
	enum body_type type;
	size_t max;    /* TEXT: bytes */
	double lo, hi; /* NUMBER */
	bool is_needed;

	bool has;
	char *text; /* UTF-8 without NUL and control characters but ends of lines and tabs */
	double number;
	bool flag;
};

/* Read it. false: the reply is 400 `bad-body` and says what is wrong. In both cases
 * body_done() afterwards. */
bool body_read(const struct http_request *r, struct body_field *fields, size_t n,
	       struct http_reply *reply);
void body_done(struct body_field *fields, size_t n);

#endif

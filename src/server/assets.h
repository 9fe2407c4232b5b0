/* SPDX-License-Identifier: Apache-2.0
 *
 * assets.h - the dashboard's files in the program: what tools/embed-web made of web/dist,
 * compressed. Without web/dist there are none.
 */
#ifndef SERVER_ASSETS_H
#define SERVER_ASSETS_H

#include <stdbool.h>
#include <stddef.h>

struct asset {
	const char *path; /* below web/dist: "index.html", "assets/index-DkX1.js" */
	const char *type, *etag;
	const unsigned char *data; /* gzip */
	size_t len, plain_len;
	bool is_immutable; /* its name has a hash of it */
};

/* Ended by path NULL; in order of paths. */
extern const struct asset assets[];

/* The scripts in index.html itself, as sources of a Content-Security-Policy: " 'sha256-...'"
 * for each. */
extern const char assets_scripts[];

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * curl.h - libcurl, loaded when it is first needed: what never speaks HTTP neither
 * needs it nor pays for it. Only the calls and options that lapse uses; their numbers
 * are libcurl's ABI, which has not changed since libcurl.so.4 exists (2006).
 */
#ifndef BASE_CURL_H
#define BASE_CURL_H

#include "base/err.h"

#include <stddef.h>

/* CURLOPT_... */
enum curl_option {
	CURL_SSL_VERIFYPEER = 64,
	CURL_HTTPGET = 80,
	CURL_SSL_VERIFYHOST = 81,
	CURL_NOSIGNAL = 99,
	CURL_TIMEOUT_MS = 155,
	CURL_PROTOCOLS = 181,
	CURL_QUICK_EXIT = 322, /* since 7.87 */
	CURL_WRITEDATA = 10001,
	CURL_URL = 10002,
	CURL_PROXY = 10004,
	CURL_ERRORBUFFER = 10010,
	CURL_USERAGENT = 10018,
	CURL_HTTPHEADER = 10023,
	CURL_CAINFO = 10065,
	CURL_ACCEPT_ENCODING = 10102,
	CURL_PRIVATE = 10103,
	CURL_UNIX_SOCKET_PATH = 10231, /* since 7.40 */
	CURL_WRITEFUNCTION = 20011
};

/* CURLINFO_... */
enum curl_info {
	CURL_RESPONSE_CODE = 0x200002,
	CURL_CONTENT_TYPE = 0x100012,
	CURL_GET_PRIVATE = 0x100015
};

#define CURL_PROTOCOL_HTTP 1L
#define CURL_PROTOCOL_HTTPS 2L
#define CURL_ERROR_SIZE 256
#define CURL_DONE 1 /* CURLMSG_DONE */

struct curl_message {
	int what; /* CURL_DONE */
	void *easy;
	union {
		void *whatever;
		int result;
	} data;
};

struct curl_api {
	void *(*easy_init)(void);
	int (*easy_setopt)(void *easy, int option, ...);
	int (*easy_getinfo)(void *easy, int info, ...);
	const char *(*easy_strerror)(int code);
	void (*easy_cleanup)(void *easy);
	void *(*slist_append)(void *list, const char *text);
	void (*slist_free_all)(void *list);
	void *(*multi_init)(void);
	int (*multi_add_handle)(void *multi, void *easy);
	int (*multi_remove_handle)(void *multi, void *easy);
	int (*multi_perform)(void *multi, int *running);
	int (*multi_wait)(void *multi, void *fds, unsigned n, int timeout_ms, int *ret);
	struct curl_message *(*multi_info_read)(void *multi, int *left);
	int (*multi_cleanup)(void *multi);
};

/* The calls, for the life of the process; from any thread. NULL and *e, -ENOENT, says how to
 * get it. */
const struct curl_api *curl_load(struct err *e);

#endif

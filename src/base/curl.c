/* SPDX-License-Identifier: Apache-2.0 */
#include "base/curl.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define CURL_GLOBAL_ALL 3L

/* OpenSSL's build first; the others are what some systems have instead. */
static const char *const curl_names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};

static struct curl_api curl_calls;
static bool curl_is_loaded;
static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

/* clang-format off */
static const struct {
	const char *name;
	void *to;
} curl_symbols[] = {
	{"curl_easy_init", &curl_calls.easy_init},
	{"curl_easy_setopt", &curl_calls.easy_setopt},
	{"curl_easy_getinfo", &curl_calls.easy_getinfo},
	{"curl_easy_strerror", &curl_calls.easy_strerror},
	{"curl_easy_cleanup", &curl_calls.easy_cleanup},
	{"curl_slist_append", &curl_calls.slist_append},
	{"curl_slist_free_all", &curl_calls.slist_free_all},
	{"curl_multi_init", &curl_calls.multi_init},
	{"curl_multi_add_handle", &curl_calls.multi_add_handle},
	{"curl_multi_remove_handle", &curl_calls.multi_remove_handle},
	{"curl_multi_perform", &curl_calls.multi_perform},
	{"curl_multi_wait", &curl_calls.multi_wait},
	{"curl_multi_info_read", &curl_calls.multi_info_read},
	{"curl_multi_cleanup", &curl_calls.multi_cleanup},
};
/* clang-format on */

static void curl_open(void)
{
	int (*global_init)(long flags);
	void *library = NULL, *symbol;
	size_t i;

	for (i = 0; i < ARRAY_LEN(curl_names) && !library; i++)
		library = dlopen(curl_names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	for (i = 0; i < ARRAY_LEN(curl_symbols); i++) {
		symbol = dlsym(library, curl_symbols[i].name);
		if (!symbol)
			return;
		memcpy(curl_symbols[i].to, &symbol, sizeof(symbol));
	}
	symbol = dlsym(library, "curl_global_init");
	if (!symbol)
		return;
	memcpy(&global_init, &symbol, sizeof(symbol));
	curl_is_loaded = global_init(CURL_GLOBAL_ALL) == 0;
}

const struct curl_api *curl_load(struct err *e)
{
	pthread_once(&curl_once, curl_open);
	if (curl_is_loaded)
		return &curl_calls;
	err_set(e, -ENOENT,
		"libcurl.so.4 is not here: install it (Debian: libcurl4, Fedora: libcurl)");
	return NULL;
}

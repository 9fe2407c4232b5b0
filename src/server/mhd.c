/* SPDX-License-Identifier: Apache-2.0 */
#include "server/mhd.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static struct mhd_api mhd_calls;
static bool mhd_is_loaded;
static pthread_once_t mhd_once = PTHREAD_ONCE_INIT;

static const struct {
	const char *name;
	void *to;
} mhd_symbols[] = {
#define MHD_ROW(name) {"MHD_" #name, &mhd_calls.name},
	MHD_CALLS(MHD_ROW)
#undef MHD_ROW
};

static void mhd_open(void)
{
	void *library = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL), *symbol;
	size_t i;

	if (!library)
		return;
	for (i = 0; i < ARRAY_LEN(mhd_symbols); i++) {
		symbol = dlsym(library, mhd_symbols[i].name);
		if (!symbol)
			return;
		memcpy(mhd_symbols[i].to, &symbol, sizeof(symbol));
	}
	mhd_is_loaded = true;
}

const struct mhd_api *mhd_load(struct err *e)
{
	pthread_once(&mhd_once, mhd_open);
	if (mhd_is_loaded)
		return &mhd_calls;
	err_set(e, -ENOENT,
		"libmicrohttpd.so.12 is not here: install it (Debian: libmicrohttpd12, Fedora: "
		"libmicrohttpd)");
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/wiring.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

static struct store_limits wiring_limits;

void wiring_limit(const struct store_limits *l)
{
	wiring_limits = *l;
}

static int wiring_open(const struct run_start *r, void **ret_handle, struct sink **ret_sink,
		       struct err *e)
{
	struct store_options o = {.dir = r->dir, .host = r->host};
	struct utsname uts;
	struct store *s;
	int err;

	if (!r->host[0])
		o.host = uname(&uts) == 0 ? uts.nodename : "host";
	err = store_open(&o, e, &s);
	if (err)
		return err;
	*ret_handle = s;
	*ret_sink = store_sink(s);
	return 0;
}

static int wiring_start(void *handle, const struct run_start *r, struct err *e)
{
	return store_start(handle, r, e);
}

static int wiring_tend(void *handle, struct err *e)
{
	int r;

	if (!store_is_alive(handle))
		return err_set(e, -ESTALE, "its database was deleted or replaced");
	r = store_fold(handle, false, e);
	return r ? r : store_retain(handle, &wiring_limits, e);
}

static int wiring_end(void *handle, const struct run_outcome *o, struct err *e)
{
	return store_end(handle, o, e);
}

/* At the end all becomes chunks, which the limits may not allow. */
static int wiring_close(void *handle, struct err *e)
{
	if (wiring_limits.keep_raw_ns || wiring_limits.max_bytes) {
		store_fold(handle, true, NULL);
		while (store_retain(handle, &wiring_limits, NULL) > 0)
			;
	}
	return store_close(handle, e);
}

static const char *wiring_why(void *handle)
{
	return store_error(handle)->text;
}

const struct agent_store wiring_store = {
	.open = wiring_open,
	.start = wiring_start,
	.tend = wiring_tend,
	.end = wiring_end,
	.close = wiring_close,
	.why = wiring_why,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_scrape.c - see launch_scrape.h.
 */
#include "cli/launch_scrape.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

/* What goes into the run file, as far as it has come, and the same once read. */
static char launch_scrape_text[sizeof(((struct run_start *)0)->scrape)];
static struct scrape_targets launch_scrape_targets;

/* Take one line. */
static int launch_scrape_line(const char *line, size_t len, struct err *e)
{
	size_t used = strlen(launch_scrape_text);
	int err = target_add(&launch_scrape_targets, line, len, e);

	if (!err && used + len + 2 > sizeof(launch_scrape_text))
		err = err_set(e, -EINVAL, "the targets are too long together (%zu bytes)",
			      sizeof(launch_scrape_text));
	if (err)
		return err;
	memcpy(launch_scrape_text + used, line, len);
	memcpy(launch_scrape_text + used + len, "\n", 2);
	return 0;
}

/* Letters before the first '=' are a preset, for all that follow. */
static size_t launch_scrape_preset(const char *arg)
{
	size_t n = strspn(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return n && arg[n] == '=' ? n + 1 : 0;
}

int launch_scrape_add(const char *arg, void *to)
{
	size_t preset = launch_scrape_preset(arg), len;
	const char *p = arg + preset;
	struct err e = {0};
	char *line;
	int err = 0;

	(void)to;
	do {
		len = strcspn(p, ",");
		line = xasprintf("url=%.*s%.*s", (int)preset, arg, (int)len, p);
		err = launch_scrape_line(line, strlen(line), &e);
		free(line);
		if (err)
			fprintf(stderr, "lapse run: --scrape %.*s: %s\n", (int)len, p, e.text);
		p += len + (p[len] == ',');
	} while (!err && *p);
	return err;
}

/* ---- lists of a configuration ------------------------------------------------------ */

struct launch_scrape_entry {
	struct buf line;
	const char *missing; /* a variable that is not set */
};

static void launch_scrape_key(void *arg, const char *key, const char *text)
{
	struct launch_scrape_entry *o = arg;

	if (strcmp(key, "token_env") == 0) {
		key = "token";
		if (!getenv(text))
			o->missing = text;
		text = getenv(text) ? getenv(text) : "";
	}
	buf_printf(&o->line, "%s%s=%s", o->line.len ? "\t" : "", key, text);
}

static int launch_scrape_list(const struct config *c, const char *path,
			      int (*take)(const char *line, size_t len, struct err *e),
			      struct err *e)
{
	struct launch_scrape_entry o;
	struct err why;
	int err = 0, one;
	size_t i;

	for (i = 0; i < config_items(c, path); i++) {
		o.missing = NULL;
		buf_init(&o.line, sizeof(launch_scrape_text));
		config_item(c, path, i, launch_scrape_key, &o);
		err_clear(&why);
		one = o.line.error;
		if (one)
			err_set(&why, one, "it is too long");
		else if (o.missing)
			one = err_set(&why, -EINVAL, "token_env: %s is not set", o.missing);
		else
			one = take(buf_str(&o.line), o.line.len, &why);
		buf_done(&o.line);
		if (one)
			err = err_set(e, -EINVAL, "%s: entry %zu: %s", path, i + 1, why.text);
	}
	return err;
}

int launch_scrape_configure(const struct config *c, struct err *e)
{
	if (launch_scrape_targets.n)
		return 0;
	return launch_scrape_list(c, "run.scrape", launch_scrape_line, e);
}

void launch_scrape_describe(struct run_start *r)
{
	memcpy(r->scrape, launch_scrape_text, sizeof(r->scrape));
}

static int launch_scrape_take(const char *line, size_t len, struct err *e)
{
	return target_add(&launch_scrape_targets, line, len, e);
}

int launch_scrape_agent(const struct config *c, const struct scrape_target **ret, size_t *ret_n,
			struct err *e)
{
	int err = launch_scrape_list(c, "agent.scrape", launch_scrape_take, e);

	*ret = launch_scrape_targets.t;
	*ret_n = launch_scrape_targets.n;
	return err;
}

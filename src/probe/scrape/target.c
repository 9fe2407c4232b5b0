/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/scrape/target.h"

#include "base/mem.h"
#include "base/near.h"
#include "base/number.h"
#include "probe/scrape/preset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGET_URL_MAX 2048
#define TARGET_WORDS_MAX 64 /* of a list */
#define TARGET_PRESET_MAX 32

/* ---- values by key -------------------------------------------------------------------- */

static int target_set_text(char **to, const char *value, struct err *e)
{
	const char *p;

	for (p = value; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_set(e, -EINVAL, "a control character cannot be used");
	free(*to);
	*to = value[0] ? xstrdup(value) : NULL;
	return 0;
}

static void target_free_words(char **words)
{
	size_t i;

	for (i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

static int target_set_words(char ***to, const char *value, struct err *e)
{
	char **words = xcalloc(TARGET_WORDS_MAX + 1, sizeof(*words));
	size_t n = 0, len;

	for (; *value; value += len + (value[len] == ',')) {
		len = strcspn(value, ",");
		if (len && n < TARGET_WORDS_MAX)
			words[n++] = xstrndup(value, len);
		else if (len) {
			target_free_words(words);
			return err_set(e, -EINVAL, "at most %d words in a list", TARGET_WORDS_MAX);
		}
	}
	target_free_words(*to);
	*to = words;
	return 0;
}

static int target_set_flag(bool *to, const char *value, struct err *e)
{
	*to = strcmp(value, "true") == 0;
	if (*to || strcmp(value, "false") == 0)
		return 0;
	return err_set(e, -EINVAL, "\"%.32s\" is neither true nor false", value);
}

static int target_set_duration(int64_t *to, const char *value, int64_t least, struct err *e)
{
	int64_t ns;

	if (number_duration(value, &ns) < 0 || ns < least)
		return err_set(e, -EINVAL, "\"%.32s\" is not " NUMBER_DURATION_WANT ", at least %s",
			       value, least < 1000000000 ? "10ms" : "1s");
	*to = ns;
	return 0;
}

static int target_set_preset(struct scrape_target *t, const char *value, struct err *e)
{
	const struct scrape_preset *p;
	struct near near = {0};
	size_t i;

	t->preset = preset_find(value);
	if (t->preset)
		return 0;
	for (i = 0; (p = preset_at(i)); i++)
		near_try(&near, value, p->name);
	return err_set(e, -EINVAL, "no preset \"%.32s\"%s%s%s; there are dcgm, node, ray, vllm",
		       value, near.best ? "; did you mean " : "", near.best ? near.best : "",
		       near.best ? "?" : "");
}

static int target_set_url(struct scrape_target *t, const char *value, struct err *e)
{
	if (strlen(value) >= TARGET_URL_MAX)
		return err_set(e, -EINVAL, "an address has at most %d bytes", TARGET_URL_MAX - 1);
	return target_set_text(&t->url, value, e);
}

static int target_set_verify(struct scrape_target *t, const char *value, struct err *e)
{
	bool verify = true;
	int err = target_set_flag(&verify, value, e);

	t->insecure = !verify;
	return err;
}

static int target_set(struct scrape_target *t, const char *key, const char *value, struct err *e)
{
	const struct {
		const char *key;
		char **text;
		char ***words;
	} fields[] = {
		{"name", &t->name, NULL},
		{"token", &t->token, NULL},
		{"token_file", &t->token_file, NULL},
		{"ca_file", &t->ca_file, NULL},
		{"keep", NULL, &t->keep},
		{"drop", NULL, &t->drop},
		{"drop_labels", NULL, &t->drop_labels},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(fields); i++) {
		if (strcmp(key, fields[i].key) != 0)
			continue;
		return fields[i].text ? target_set_text(fields[i].text, value, e)
				      : target_set_words(fields[i].words, value, e);
	}
	if (strcmp(key, "url") == 0)
		return target_set_url(t, value, e);
	if (strcmp(key, "preset") == 0)
		return target_set_preset(t, value, e);
	if (strcmp(key, "interval") == 0)
		return target_set_duration(&t->interval_ns, value, TARGET_INTERVAL_MIN_NS, e);
	if (strcmp(key, "timeout") == 0)
		return target_set_duration(&t->timeout_ns, value, 10000000, e);
	if (strcmp(key, "buckets") == 0)
		return target_set_flag(&t->buckets, value, e);
	if (strcmp(key, "verify") == 0)
		return target_set_verify(t, value, e);
	return err_set(e, -EINVAL, "unknown key \"%.32s\"", key);
}

/* ---- addresses -------------------------------------------------------------------------- */

/* PRESET=URL: letters and digits before the first '='. */
static int target_split_preset(struct scrape_target *t, struct err *e)
{
	size_t n = strspn(t->url, "abcdefghijklmnopqrstuvwxyz"
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
	char name[TARGET_PRESET_MAX];
	int err;

	if (t->preset || n == 0 || t->url[n] != '=')
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)n, t->url);
	err = target_set_preset(t, name, e);
	memmove(t->url, t->url + n + 1, strlen(t->url + n + 1) + 1);
	return err;
}

static bool target_begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static int target_check_path(struct scrape_target *t, const char *scheme, struct err *e)
{
	if (t->url[strlen(scheme)] == '/')
		return 0;
	return err_set(e, -EINVAL, "%s wants an absolute path: %s/...", scheme, scheme);
}

/* The port in HOST:PORT (n bytes), or NULL. An IPv6 address is in brackets. */
static const char *target_port(const char *host, size_t n)
{
	const char *colon = memrchr(host, ':', n), *bracket = memrchr(host, ']', n);

	return colon && (!bracket || bracket < colon) ? colon : NULL;
}

/* http[s]://HOST:PORT/PATH from what was written. */
static int target_complete(struct scrape_target *t, struct err *e)
{
	const char *scheme = target_begins(t->url, "https://") ? "https://" : "http://";
	const char *host = t->url, *port = t->preset->port;
	char *whole;
	size_t n;

	if (target_begins(host, scheme))
		host += strlen(scheme);
	n = strcspn(host, "/?#");
	if (n == 0 || strstr(t->url, " "))
		return err_set(e, -EINVAL, "this is no address; write http://HOST:PORT/metrics");
	if (memchr(host, '@', n))
		return err_set(e, -EINVAL,
			       "name and password do not belong into an address, which "
			       "is shown; use token_file (docs/scrape.md)");
	if (host == t->url && strstr(host, "://"))
		return err_set(e, -EINVAL, "only http://, https://, unix:// and file:// are known");
	if (target_port(host, n) || strcmp(scheme, "https://") == 0)
		port = "";
	whole = xasprintf("%s%.*s%s%s%s", scheme, (int)n, host, port[0] ? ":" : "", port,
			  host[n] && strcmp(host + n, "/") != 0 ? host + n : "/metrics");
	free(t->url);
	t->url = whole;
	return 0;
}

/* HOST:PORT, with the path if that is not /metrics; of the others the path of the file. */
static void target_call(struct scrape_target *t)
{
	const char *host = strstr(t->url, "://") + 3;
	size_t n = strcspn(host, "?#"), at = strcspn(host, "/");
	char name[TARGET_NAME_MAX];

	if (!t->name) {
		if (at && n - at == strlen("/metrics") &&
		    memcmp(host + at, "/metrics", n - at) == 0)
			n = at;
		t->name = xstrndup(host, n);
	}
	/* The end tells more than the beginning. */
	n = strlen(t->name);
	if (n >= sizeof(name)) {
		snprintf(name, sizeof(name), "..%s", t->name + n - sizeof(name) + 3);
		strcpy(t->name, name);
	}
}

static int target_finish(struct scrape_target *t, struct err *e)
{
	int err;

	if (!t->url)
		return err_set(e, -EINVAL, "the address (url) is missing");
	err = target_split_preset(t, e);
	if (err)
		return err;
	if (!t->preset)
		t->preset = preset_find("");
	if (target_begins(t->url, "unix://"))
		err = target_check_path(t, "unix://", e);
	else if (target_begins(t->url, "file://"))
		err = target_check_path(t, "file://", e);
	else
		err = target_complete(t, e);
	if (!err)
		target_call(t);
	return err;
}

/* ---- lists ------------------------------------------------------------------------------ */

static void target_free(struct scrape_target *t)
{
	free(t->url);
	free(t->name);
	free(t->token);
	free(t->token_file);
	free(t->ca_file);
	target_free_words(t->keep);
	target_free_words(t->drop);
	target_free_words(t->drop_labels);
}

static int target_parse(struct scrape_target *t, char *line, struct err *e)
{
	char *pair, *equals, *rest = line;
	int err = 0;

	while (!err && (pair = strsep(&rest, "\t"))) {
		equals = strchr(pair, '=');
		if (!equals)
			continue;
		*equals = '\0';
		err = target_set(t, pair, equals + 1, e);
	}
	return err ? err : target_finish(t, e);
}

int target_add(struct scrape_targets *list, const char *line, size_t len, struct err *e)
{
	struct scrape_target t = {.interval_ns = TARGET_INTERVAL_NS,
				  .timeout_ns = TARGET_TIMEOUT_NS};
	char *copy = xstrndup(line, len);
	int err = target_parse(&t, copy, e);
	size_t i;

	free(copy);
	if (!err && list->n == TARGET_MAX)
		err = err_set(e, -EINVAL, "at most %d targets", TARGET_MAX);
	for (i = 0; !err && i < list->n; i++) {
		if (strcmp(list->t[i].name, t.name) == 0)
			err = err_set(e, -EINVAL, "there is a target %s already; give one a name",
				      t.name);
		t.number += list->t[i].preset == t.preset;
	}
	if (err) {
		target_free(&t);
		return err;
	}
	list->t = xgrow(list->t, list->n, &list->cap, sizeof(*list->t));
	list->t[list->n++] = t;
	return 0;
}

void target_add_all(struct scrape_targets *list, const char *text)
{
	size_t len;

	for (; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		if (len)
			target_add(list, text, len, NULL);
	}
}

static char **target_copy_words(char *const *words)
{
	char **copy = words ? xcalloc(TARGET_WORDS_MAX + 1, sizeof(*copy)) : NULL;
	size_t i;

	for (i = 0; copy && words[i]; i++)
		copy[i] = xstrdup(words[i]);
	return copy;
}

void target_copy(struct scrape_targets *to, const struct scrape_target *from, size_t n)
{
	size_t i;

	*to = (struct scrape_targets){.t = xcalloc(n, sizeof(*to->t)), .n = n, .cap = n};
	for (i = 0; i < n; i++) {
		struct scrape_target *t = &to->t[i];

		*t = from[i];
		t->url = xstrdup(t->url);
		t->name = xstrdup(t->name);
		t->token = xstrdup(t->token);
		t->token_file = xstrdup(t->token_file);
		t->ca_file = xstrdup(t->ca_file);
		t->keep = target_copy_words(t->keep);
		t->drop = target_copy_words(t->drop);
		t->drop_labels = target_copy_words(t->drop_labels);
	}
}

void target_done(struct scrape_targets *list)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		target_free(&list->t[i]);
	free(list->t);
	*list = (struct scrape_targets){0};
}

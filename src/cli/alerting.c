/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/alerting.h"

#include "alert/builtin.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALERTING_TEXT_MAX sizeof(((struct run_start *)0)->alerts)

/* As a run file has them. */
static char alerting_given[ALERTING_TEXT_MAX];
static struct alerting alerting_own;

/* The rule of that name, or NULL after telling. */
static const struct rule *alerting_find(const char *setting, const char *name)
{
	const struct rule *r = builtin_first(name);
	struct near n = {0};
	size_t i;

	for (i = 0; !r && i < builtin_n_about; i++)
		near_try(&n, name, builtin_about[i].name);
	if (!r)
		log_warn("%s: there is no alert \"%s\"%s%s%s (lapse alerts --rules lists them)",
			 setting, name, n.best ? ", did you mean \"" : "", n.best ? n.best : "",
			 n.best ? "\"?" : "");
	return r;
}

static void alerting_add_none(struct alerting *a, char *word)
{
	const struct rule *r = alerting_find("alert.off", word);

	if (r && a->n_none < ALERTING_MAX)
		a->none[a->n_none++] = r->name;
}

static void alerting_add_limit(struct alerting *a, char *word)
{
	char *text = strchr(word, '=');
	const struct rule *r;
	double limit;

	if (text)
		*text++ = '\0';
	r = alerting_find("alert.limits", word);
	if (!r)
		return;
	if (!isfinite(r->limit) || r->limit <= 0 || r->test == RULE_FORECAST ||
	    r->what == RULE_OF_LOSSES)
		log_warn("alert.limits: \"%s\" has no limit that can be set", word);
	else if (!text || number_double(text, &limit) < 0 || limit <= 0)
		log_warn("alert.limits: \"%s=%s\" must be RULE=NUMBER, above 0", word,
			 text ? text : "");
	else if (a->n_limits < ALERTING_MAX)
		a->limits[a->n_limits++] = (struct watch_limit){r->name, limit};
}

/* A line of the run file: it replaces what there was of its kind. */
static void alerting_take_line(struct alerting *a, char *line)
{
	char *value = strchr(line, '='), *save = NULL, *word;
	void (*add)(struct alerting * a, char *word) = NULL;

	if (!value)
		return;
	*value++ = '\0';
	if (strcmp(line, "enabled") == 0) {
		a->settings.off = strcmp(value, "false") == 0;
	} else if (strcmp(line, "off") == 0) {
		memset(a->none, 0, sizeof(a->none));
		a->n_none = 0;
		add = alerting_add_none;
	} else if (strcmp(line, "limits") == 0) {
		memset(a->limits, 0, sizeof(a->limits));
		a->n_limits = 0;
		add = alerting_add_limit;
	}
	for (word = add ? strtok_r(value, ",", &save) : NULL; word;
	     word = strtok_r(NULL, ",", &save))
		add(a, word);
}

static void alerting_take(struct alerting *a, const char *lines)
{
	char *copy = xstrdup(lines), *save = NULL, *line;

	for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		alerting_take_line(a, line);
	free(copy);
}

static void alerting_lines(const struct config *c, char out[ALERTING_TEXT_MAX])
{
	static const char *const keys[] = {"enabled", "off", "limits"};
	size_t i, n = 0;

	out[0] = '\0';
	for (i = 0; i < ARRAY_LEN(keys); i++) {
		char path[32];
		const char *text;

		snprintf(path, sizeof(path), "alert.%s", keys[i]);
		if (config_from(c, path, NULL) == CONFIG_FROM_DEFAULT)
			continue;
		text = i ? config_text(c, path) : config_flag(c, path) ? "true" : "false";
		n += (size_t)snprintf(out + n, ALERTING_TEXT_MAX - n, "%s=%s\n", keys[i],
				      text ? text : "");
		if (n >= ALERTING_TEXT_MAX)
			return; /* the last words are cut */
	}
}

void alerting_describe(const struct config *c, struct run_start *r)
{
	alerting_lines(c, r->alerts);
}

void alerting_set(const struct config *c)
{
	alerting_lines(c, alerting_given);
	alerting_take(&alerting_own, alerting_given);
}

const struct watch_settings *alerting_of_run(struct alerting *a, const struct run_start *r)
{
	*a = alerting_own;
	/* Nothing is told twice. */
	if (strcmp(r->alerts, alerting_given) != 0)
		alerting_take(a, r->alerts);
	a->settings.none = a->none;
	a->settings.limits = a->limits;
	return &a->settings;
}

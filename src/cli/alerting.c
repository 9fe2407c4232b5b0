/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/alerting.h"

#include "alert/builtin.h"
#include "base/log.h"
#include "base/near.h"
#include "base/number.h"
#include "cli/settings.h"

#include <math.h>
#include <string.h>

#define ALERTING_MAX 32

static const char *alerting_none[ALERTING_MAX + 1];
static struct watch_limit alerting_limits[ALERTING_MAX + 1];
static size_t alerting_n_none, alerting_n_limits;
static struct watch_settings alerting = {.none = alerting_none, .limits = alerting_limits};

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

static void alerting_add_none(char *word)
{
	const struct rule *r = alerting_find("alert.off", word);

	if (r && alerting_n_none < ALERTING_MAX)
		alerting_none[alerting_n_none++] = r->name;
}

static void alerting_add_limit(char *word)
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
	else if (alerting_n_limits < ALERTING_MAX)
		alerting_limits[alerting_n_limits++] = (struct watch_limit){r->name, limit};
}

void alerting_set(const struct config *c)
{
	alerting.off = !config_flag(c, "alert.enabled");
	settings_words(config_text(c, "alert.off"), alerting_add_none);
	settings_words(config_text(c, "alert.limits"), alerting_add_limit);
}

const struct watch_settings *alerting_settings(void)
{
	return &alerting;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pace.h"

#include "base/mem.h"
#include "base/near.h"
#include "base/number.h"
#include "cli/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACE_NOTES_MAX 32
#define PACE_GROUPS_MAX 64
#define PACE_MIN_NS 50000000
#define PACE_MAX_NS (24 * 3600 * INT64_C(1000000000))

static int64_t pace_of_group[PACE_GROUPS_MAX]; /* by place in probe_groups */
static char *pace_notes[PACE_NOTES_MAX];
static size_t pace_n_notes;

static void pace_tell(char *text)
{
	if (pace_n_notes < PACE_NOTES_MAX)
		pace_notes[pace_n_notes++] = text;
	else
		free(text);
}

static int pace_find(const char *group)
{
	int i;

	for (i = 0; probe_groups[i] && i < PACE_GROUPS_MAX; i++)
		if (strcmp(probe_groups[i]->name, group) == 0)
			return i;
	return -1;
}

static int64_t pace_period(void *arg, const char *group)
{
	int i = pace_find(group);

	(void)arg;
	return i < 0 ? 0 : pace_of_group[i];
}

static void pace_unknown(const char *setting, const char *group)
{
	struct near n = {0};
	size_t i;

	for (i = 0; probe_groups[i]; i++)
		near_try(&n, group, probe_groups[i]->name);
	pace_tell(xasprintf("%s: there is no group \"%s\" of metrics%s%s%s (lapse doctor lists "
			    "them)",
			    setting, group, n.best ? ", did you mean \"" : "", n.best ? n.best : "",
			    n.best ? "\"?" : ""));
}

static void pace_off(char *word)
{
	int i = pace_find(word);

	if (i < 0)
		pace_unknown("probe.off", word);
	else
		pace_of_group[i] = -1;
}

static void pace_every(char *word)
{
	char *time = strchr(word, '=');
	int64_t ns;
	int i;

	if (time)
		*time++ = '\0';
	i = pace_find(word);
	if (i < 0)
		pace_unknown("probe.every", word);
	else if (!time || number_duration(time, &ns) < 0 || ns < PACE_MIN_NS || ns > PACE_MAX_NS)
		pace_tell(xasprintf("probe.every: \"%s=%s\" must be GROUP=TIME, 50ms to 1d", word,
				    time ? time : ""));
	else if (pace_of_group[i] == 0)
		pace_of_group[i] = ns;
}

void pace_set(struct agent_options *o, const struct config *c)
{
	settings_words(config_text(c, "probe.off"), pace_off);
	settings_words(config_text(c, "probe.every"), pace_every);
	o->probe.root = "";
	o->probe.pss = config_flag(c, "probe.pss");
	o->pace.period_ns = config_number(c, "probe.interval", 0);
	o->pace.of = pace_period;
	o->phase_ns[PHASE_WARMUP] = config_number(c, "probe.warmup", 0);
	o->phase_ns[PHASE_STEADY] = config_number(c, "probe.steady", 0);
	o->phase_ns[PHASE_CHECKPOINT] = config_number(c, "probe.checkpoint", 0);
	o->phase_ns[PHASE_STALLED] = config_number(c, "probe.stalled", 0);
}

const char *pace_note(size_t i)
{
	return i < pace_n_notes ? pace_notes[i] : NULL;
}

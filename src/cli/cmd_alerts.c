/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_alerts.c - `lapse alerts`: what was wrong with a run, what is, and what was said of it.
 */
#include "cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/builtin.h"
#include "alert/list.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "report/events.h"
#include "report/runview.h"
#include "wire/clock.h"

#define ALERTS_JSON_MAX 2000

static const char *alerts_dir, *alerts_ack_id, *alerts_silence_rule, *alerts_note;
static int64_t alerts_for = -1;
static bool alerts_as_json, alerts_rules;

const struct opt *cmd_alerts_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &alerts_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "rules",
		 .letter = 'r',
		 .type = OPT_FLAG,
		 .to = &alerts_rules,
		 .help = "print what is looked at, and what cannot be and why"},
		{.name = "ack",
		 .type = OPT_STR,
		 .value = "ALERT",
		 .to = &alerts_ack_id,
		 .help = "acknowledge this alert"},
		{.name = "silence",
		 .type = OPT_STR,
		 .value = "RULE",
		 .to = &alerts_silence_rule,
		 .help = "count this rule's alerts of the run as quiet"},
		{.name = "for",
		 .type = OPT_DURATION,
		 .value = "TIME",
		 .to = &alerts_for,
		 .help = "how long a silence lasts (default 1h, at most 30d; 0: it ends)"},
		{.name = "note",
		 .type = OPT_STR,
		 .value = "TEXT",
		 .to = &alerts_note,
		 .help = "a word to an acknowledgement or silence"},
		{.name = "json",
		 .type = OPT_FLAG,
		 .to = &alerts_as_json,
		 .help = "print one JSON object"},
		{0},
	};

	return rows;
}

/* ---- tables ------------------------------------------------------------------------------ */

static enum term_style alerts_style(int severity)
{
	return severity >= 3 ? TERM_RED : severity == 2 ? TERM_YELLOW : TERM_PLAIN;
}

static void alerts_row(struct table *t, const struct alerts *a, const struct alerts_item *it)
{
	bool is_active = it->state == ALERTS_ACTIVE;
	char text[FMT_MAX];

	table_cell(t, is_active ? TERM_BOLD : TERM_DIM, alerts_state_name(it->state));
	table_cell(t, alerts_style(it->severity), events_severity(it->severity));
	table_cell(t, TERM_PLAIN, fmt_local(text, it->since_ns));
	table_cell(t, TERM_PLAIN, fmt_seconds(text, alerts_duration_s(a, it)));
	table_cell(t, TERM_PLAIN, it->id);
	table_cell(t, TERM_PLAIN, it->silenced_ns ? "silenced" : it->ack_ns ? it->ack_by : "");
	table_cell(t, TERM_PLAIN, it->text);
}

static void alerts_print(const struct alerts *a, const struct term *term)
{
	static const struct table_column columns[] = {
		{"state", 0}, {"severity", 0},         {"since", 0},       {"for", TABLE_RIGHT},
		{"alert", 0}, {"seen by", TABLE_DROP}, {"what", TABLE_CUT}};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	bool told[BUILTIN_ROWS_MAX] = {false}, any = false;
	size_t i, at;

	for (i = 0; i < a->n; i++)
		alerts_row(t, a, &a->items[i]);
	table_print(t, term, stdout, 0);
	table_free(t);
	for (i = 0; i < a->n; i++) {
		const struct alerts_item *it = &a->items[i];

		if (!it->about || it->state == ALERTS_RESOLVED)
			continue;
		at = (size_t)(it->about - builtin_about);
		if (!told[at])
			printf("%s%s: %s\n", any ? "" : "\n", it->rule, it->about->advice);
		told[at] = any = true;
	}
}

static void alerts_print_rules(const struct alerts *a, const struct term *term)
{
	static const struct table_column columns[] = {{"rule", 0},
						      {"state", 0},
						      {"fired", TABLE_RIGHT},
						      {"looks at", TABLE_DROP},
						      {"fires when", TABLE_CUT}};
	struct table *t = table_new(columns, ARRAY_LEN(columns));
	struct buf test;
	size_t i;

	buf_init(&test, RULE_TEXT_MAX);
	for (i = 0; i < a->n_rules; i++) {
		const struct alerts_rule *r = &a->rules[i];

		buf_reset(&test);
		alerts_test(r, &test);
		table_cell(t, TERM_BOLD, r->about->name);
		table_cell(t, r->look == ALERTS_FIRING ? alerts_style(r->severity) : TERM_PLAIN,
			   alerts_look_name(r->look));
		table_cellf(t, TERM_PLAIN, "%u", r->fired);
		table_cell(t, TERM_PLAIN, r->about->looks_at);
		table_cell(t, TERM_PLAIN, r->why ? r->why : buf_str(&test));
	}
	table_print(t, term, stdout, 0);
	table_free(t);
	buf_done(&test);
}

static int alerts_show(const struct alerts *a)
{
	struct buf out;
	struct json j;
	struct term term;
	int status;

	if (alerts_as_json) {
		buf_init(&out, RUNVIEW_JSON_MAX);
		json_init(&j, &out);
		json_object(&j);
		alerts_json(&j, a, "all", ALERTS_JSON_MAX);
		json_object_end(&j);
		status = runview_json_print("alerts", &out);
		buf_done(&out);
		return status;
	}
	term_look(&term, stdout);
	if (alerts_rules)
		alerts_print_rules(a, &term);
	else if (!a->watched)
		printf("%s\n", a->why);
	else if (!a->n)
		printf("no alerts\n");
	else
		alerts_print(a, &term);
	return runview_flush();
}

/* ---- saying something --------------------------------------------------------------------------
 */

static int alerts_fail(const struct err *e)
{
	fprintf(stderr, "lapse alerts: %s\n", e->text);
	return 1;
}

static int alerts_say(const struct alerts *a)
{
	const struct alerts_scope scope = {.rule = alerts_silence_rule};
	int64_t ns = alerts_for < 0 ? 3600000000000LL : alerts_for;
	struct err e = {0};

	if (alerts_ack_id && !alerts_find(a, alerts_ack_id)) {
		fprintf(stderr,
			"lapse alerts: the run has no alert \"%s\"; without options its "
			"alerts are listed\n",
			alerts_ack_id);
		return 1;
	}
	if (alerts_silence_rule && !builtin_find(alerts_silence_rule)) {
		fprintf(stderr, "lapse alerts: there is no rule \"%s\"; --rules lists them\n",
			alerts_silence_rule);
		return 2;
	}
	if (alerts_ack_id &&
	    alerts_ack(a->v->dir, alerts_ack_id, NULL, alerts_note, a->now_ns, &e) != 0)
		return alerts_fail(&e);
	if (alerts_silence_rule && alerts_silence(a->v->dir, &scope, ns ? a->now_ns + ns : 0, NULL,
						  alerts_note, a->now_ns, &e) != 0)
		return alerts_fail(&e);
	return 0;
}

static int alerts_check(void)
{
	if (alerts_for > ALERTS_SILENCE_MAX_S * 1000000000LL) {
		fprintf(stderr, "lapse alerts: --for: at most 30d\n");
		return 2;
	}
	if (alerts_for >= 0 && !alerts_silence_rule) {
		fprintf(stderr, "lapse alerts: --for goes with --silence\n");
		return 2;
	}
	if (alerts_note &&
	    (strlen(alerts_note) >= ALERTS_NOTE_MAX || (!alerts_ack_id && !alerts_silence_rule))) {
		fprintf(stderr,
			"lapse alerts: --note goes with --ack or --silence, at most %d "
			"bytes\n",
			ALERTS_NOTE_MAX - 1);
		return 2;
	}
	return 0;
}

int cmd_alerts(int argc, char **argv)
{
	const char *what = cmd_one_arg("alerts", argc, argv, "[OPTIONS] [RUN]", "last");
	int64_t now = clock_ns(CLOCK_REALTIME);
	struct alerts a;
	struct runview v;
	struct err e = {0};
	int status = alerts_check();

	if (!what || status)
		return 2;
	if (runview_open(&v, "alerts", alerts_dir, what) < 0)
		return 1;
	if (alerts_read(&a, &v, now, &e) < 0) {
		runview_close(&v);
		return alerts_fail(&e);
	}
	status = alerts_ack_id || alerts_silence_rule ? alerts_say(&a) : alerts_show(&a);
	alerts_done(&a);
	runview_close(&v);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_say.c - what a watch says: the events of alerts, and what it looks at.
 */
#include "alert/watch_priv.h"

#include "base/fmt.h"
#include "base/json.h"
#include "base/mem.h"
#include "report/attrs.h"
#include "report/runview.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An id that is the same whenever the same data are looked at again. */
static void watch_make_id(const struct watch *w, const struct watch_row *row, struct watch_alert *a,
			  int64_t time_ns)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	char key[WATCH_SERIES_TEXT + sizeof(w->host) + 64];
	uint64_t h;
	size_t n;
	int i;

	n = (size_t)snprintf(key, sizeof(key), "%s\n%s\n%s\n%u\n%lld", w->host, row->rule.name,
			     a->series, a->series_id, (long long)time_ns);
	h = map_hash(key, n < sizeof(key) ? n : sizeof(key) - 1);
	n = (size_t)snprintf(a->id, sizeof(a->id), "%s-", row->rule.name);
	for (i = 0; i < 6 && n + 1 < sizeof(a->id); i++, h >>= 5)
		a->id[n++] = letters[h & 31];
	a->id[n] = '\0';
}

static char *watch_attrs(const struct watch *w, const struct watch_row *row,
			 const struct watch_alert *a, int64_t to_ns, enum watch_why why)
{
	const struct rule *r = &row->rule;
	bool has_value = r->what != RULE_OF_OUTCOME;
	struct buf text;
	struct json j;
	char *copy;

	buf_init(&text, 8192);
	json_init(&j, &text);
	json_object(&j);
	json_kstr(&j, "alert", a->id);
	json_kstr(&j, "rule", r->name);
	json_kstr(&j, "state", to_ns ? "resolved" : "firing");
	json_kstr(&j, "host", w->host);
	json_kstr(&j, "series", a->series);
	json_kint(&j, "series_id", a->series_id);
	json_kint(&j, "of_id", a->of_id);
	runview_json_number(&j, "value", a->value, has_value);
	runview_json_number(&j, "limit", a->limit,
			    has_value && isfinite(a->limit) && r->test != RULE_NOT_FINITE);
	json_kstr(&j, "unit", r->unit ? r->unit : "");
	attrs_put_ns(&j, "since_ns", a->since_ns);
	attrs_put_ns(&j, "from_ns", a->from_ns);
	if (to_ns)
		attrs_put_ns(&j, "to_ns", to_ns);
	if (why == WATCH_WHY_PROCESS)
		json_kbool(&j, "ended", true);
	json_object_end(&j);
	copy = xstrdup(buf_str(&text));
	buf_done(&text);
	return copy;
}

void watch_fire(struct watch *w, struct watch_row *row, struct watch_alert *a, int64_t time_ns,
		double usual, double left_s)
{
	const struct rule *r = &row->rule;
	const struct rule_about *about = builtin_find(r->name);
	const struct rule_says says = {.series = a->series,
				       .value = a->value,
				       .limit = a->limit,
				       .usual = usual,
				       .unit = r->unit,
				       .for_s = (double)(time_ns - a->since_ns) / 1e9,
				       .left_s = left_s};
	struct buf text;

	watch_make_id(w, row, a, time_ns);
	buf_init(&text, RULE_TEXT_MAX);
	buf_printf(&text, "%s: ", about ? about->title : r->name);
	rule_text(r->text, &says, &text);
	watch_queue(w, a->process, time_ns, r->severity, xstrdup(buf_str(&text)),
		    watch_attrs(w, row, a, 0, WATCH_WHY_GOOD));
	buf_done(&text);
}

void watch_resolve(struct watch *w, struct watch_row *row, struct watch_alert *a, int64_t time_ns,
		   enum watch_why why)
{
	static const char *const words[] = {[WATCH_WHY_GOOD] = "",
					    [WATCH_WHY_BETTER] = "; it is read better now",
					    [WATCH_WHY_UNREAD] = "; it is not read any more",
					    [WATCH_WHY_PROCESS] = "; its process ended"};
	const struct rule_about *about = builtin_find(row->rule.name);
	char lasted[FMT_MAX];

	fmt_seconds(lasted, (double)(time_ns - a->since_ns) / 1e9);
	watch_queue(w, a->process, time_ns, 1,
		    xasprintf("%s: over after %s%s%s%s", about ? about->title : row->rule.name,
			      lasted, a->series[0] ? ": " : "", a->series, words[why]),
		    watch_attrs(w, row, a, time_ns, why));
}

/* ---- what is looked at ------------------------------------------------------------------- */

void watch_describe(const struct watch *w, struct buf *out)
{
	struct json j;
	size_t i;

	json_init(&j, out);
	json_object(&j);
	json_kint(&j, "version", 1);
	attrs_put_ns(&j, "since_ns", w->began_ns ? w->began_ns : w->wall_ns);
	json_kbool(&j, "enabled", !w->off);
	json_key(&j, "off");
	json_array(&j);
	for (i = 0; i < builtin_n_rules; i++)
		if (w->rows[i].off && builtin_first(w->rows[i].rule.name) == &builtin_rules[i])
			json_str(&j, w->rows[i].rule.name);
	json_array_end(&j);
	json_key(&j, "limits");
	json_object(&j);
	for (i = 0; i < builtin_n_rules; i++)
		if (w->rows[i].rule.limit != builtin_rules[i].limit)
			json_kdouble(&j, w->rows[i].rule.name, w->rows[i].rule.limit);
	json_object_end(&j);
	json_object_end(&j);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* How it ended, if that is a failure. An interrupt is somebody's will; so is, mostly, a
 * request to end. */
static char *watch_failure(const struct run_outcome *o, int *ret_severity)
{
	const char *name = o->signal > 0 ? sigabbrev_np(o->signal) : NULL;

	*ret_severity = 3;
	switch (o->kind) {
	case RUN_EXITED:
		if (o->code == 143)
			*ret_severity = 2;
		return o->code > 0 && o->code != 130
			       ? xasprintf("it exited with status %d", o->code)
			       : NULL;
	case RUN_SIGNALED:
		if (o->signal == SIGINT)
			return NULL;
		if (o->signal == SIGTERM || o->signal == SIGHUP)
			*ret_severity = 2;
		return name ? xasprintf("it was killed by SIG%s", name)
			    : xasprintf("it was killed by signal %d", o->signal);
	case RUN_OOM:
		return xasprintf("it ran out of memory%s%s", o->evidence[0] ? ": " : "",
				 o->evidence);
	case RUN_HUNG:
		return xstrdup("it hung");
	case RUN_LOST:
		return xstrdup("nobody knows how it ended: its launcher died, or the machine did");
	default:
		return NULL;
	}
}

void watch_end(struct watch *w, const struct run_outcome *o)
{
	struct watch_alert a = {.process = w->command,
				.since_ns = o->end_ns,
				.value = NAN,
				.from_ns = o->end_ns - 600000000000LL};
	struct watch_row *row = NULL;
	char *text;
	int severity;
	size_t i;

	/* What is over by now must be told now. */
	if (!w->off && w->now_ns) {
		w->now_ns = o->end_ns > w->now_ns ? o->end_ns : w->now_ns;
		watch_tick(w);
	}
	w->ended = true;
	for (i = 0; i < builtin_n_rules; i++)
		if (w->rows[i].rule.what == RULE_OF_OUTCOME && !w->rows[i].off)
			row = &w->rows[i];
	text = w->off || !row ? NULL : watch_failure(o, &severity);
	if (!text) {
		if (w->n_queue)
			w->sink.ops->commit(&w->sink);
		return;
	}
	snprintf(a.series, sizeof(a.series), "%s", text);
	row->rule.severity = severity;
	watch_make_id(w, row, &a, o->end_ns);
	a.series[0] = '\0';
	watch_queue(w, a.process, o->end_ns, severity,
		    xasprintf("%s: %s", builtin_find("crash")->title, text),
		    watch_attrs(w, row, &a, 0, WATCH_WHY_GOOD));
	free(text);
	w->sink.ops->commit(&w->sink);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict_print.c - trace verdicts as sentences and as JSON. Percentages are rounded here and
 * nowhere before.
 */
#include "analyse/verdict_trace.h"

#include "base/fmt.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#define NAME_SHOWN 90 /* bytes of a kernel's name in a sentence */

static void put_name(const struct verdict_rank *r, const struct verdict_item *i, struct buf *out)
{
	char name[NAME_SHOWN + 4];
	size_t len;
	const char *text = i->name ? trace_text(r->view->trace, i->name, &len) : NULL;

	if (!text) {
		buf_puts(out, i->kind == VERDICT_PROFILER ? "recording, estimated"
							  : "nothing recorded there");
		return;
	}
	snprintf(name, sizeof(name), "%.*s", NAME_SHOWN, text);
	utf8_clean(name, strlen(name));
	buf_puts(out, name);
	if (len > NAME_SHOWN)
		buf_puts(out, "...");
}

static const char *call_word(const struct verdict_item *i)
{
	if (i->kind == VERDICT_HOST)
		return i->count == 1 ? "piece" : "pieces";
	return i->count == 1 ? "call" : "calls";
}

static void put_item(const struct verdict_rank *r, const struct verdict_item *i, struct buf *out)
{
	char time[FMT_MAX];

	put_name(r, i, out);
	if (i->kind == VERDICT_PROFILER && !i->name)
		buf_printf(out, " (%s)", fmt_seconds(time, (double)i->ns / 1e9));
	else
		buf_printf(out, " (%s in %llu %s)", fmt_seconds(time, (double)i->ns / 1e9),
			   (unsigned long long)i->count, call_word(i));
	if (i->within)
		buf_printf(out, " called by %.90s", trace_text(r->view->trace, i->within, NULL));
	if (i->stack)
		buf_printf(out, " from %.120s", trace_text(r->view->trace, i->stack, NULL));
}

static const struct verdict_item *first_item(const struct verdict_rank *r, enum verdict_kind kind)
{
	for (size_t i = 0; i < r->n_items; i++)
		if (r->items[i].kind == kind)
			return &r->items[i];
	return NULL;
}

void verdict_top(const struct verdict_rank *r, enum verdict_kind kind, struct buf *out)
{
	const struct verdict_item *i = first_item(r, kind);

	if (i)
		put_item(r, i, out);
}

/* Facts that a rule is asked about: of a straggler, the share is that of the rank that waits
 * most, the evidence what the slow rank does more than others. */
static void add_finding(const struct verdict_result *res, size_t rank,
			const struct verdict_rule *rule, double value, struct verdict_finding *f)
{
	const struct verdict_rank *r = &res->ranks[rank], *shares = r, *top = r;
	enum verdict_kind kind = rule->kind;
	struct buf text, evidence;

	if (rule->kind == VERDICT_STRAGGLER && rule->measure == VERDICT_M_BOUND) {
		top = &res->ranks[res->gating];
		kind = res->excess;
		for (size_t i = 0; i < res->n; i++)
			if (res->ranks[i].facts.shares.ns[VERDICT_STRAGGLER] >
			    shares->facts.shares.ns[VERDICT_STRAGGLER])
				shares = &res->ranks[i];
	}
	buf_init(&text, sizeof(f->text) - 1);
	buf_init(&evidence, 4096);
	verdict_top(top, kind, &evidence);
	verdict_sentence(rule, &shares->facts, value, buf_str(&evidence),
			 res->ranks[res->gating].rank >= 0 ? res->ranks[res->gating].rank
							   : (int64_t)res->gating,
			 &text);
	f->rule = rule;
	snprintf(f->text, sizeof(f->text), "%s", buf_str(&text));
	buf_done(&text);
	buf_done(&evidence);
}

/* Does the rule name what the rank is bound by (0), what lies behind a profiler (1), or
 * anything else (2)? */
static int place_of(const struct verdict_rule *rule, enum verdict_kind bound,
		    enum verdict_kind behind)
{
	if (rule->measure != VERDICT_M_BOUND && rule->and != VERDICT_M_BOUND)
		return 2;
	return rule->kind == bound ? 0 : bound == VERDICT_PROFILER && rule->kind == behind ? 1 : 2;
}

size_t verdict_findings(const struct verdict_result *res, size_t rank, struct verdict_finding *ret,
			size_t max)
{
	const struct verdict_rank *r = &res->ranks[rank];
	enum verdict_kind bound = res->kind == VERDICT_STRAGGLER ? VERDICT_STRAGGLER : r->kind;
	size_t n = 0;

	for (int place = 0; place < 3; place++) {
		/* Behind a profiler: asked as if that were the bound. */
		enum verdict_kind as = place == 1 ? r->behind : bound;

		for (const struct verdict_rule *rule = verdict_rules; rule->id && n < max; rule++) {
			double value;

			if (place_of(rule, bound, r->behind) == place &&
			    verdict_fires(rule, &r->facts, as, &value))
				add_finding(res, rank, rule, value, &ret[n++]);
		}
	}
	return n;
}

static void text_shares(const struct verdict_rank *r, struct buf *out)
{
	const struct verdict_shares *s = &r->facts.shares;
	int permille[VERDICT_KINDS];
	char a[FMT_MAX];
	int64_t n = r->n_steps ? (int64_t)r->n_steps : 1;

	verdict_permille(s, permille);
	for (int k = 0; k < VERDICT_KINDS; k++) {
		if (!s->ns[k])
			continue;
		buf_printf(out, "  %5.1f %%  %-22s %10s%s  ", permille[k] / 10.0,
			   verdict_name(k)->title, fmt_seconds(a, (double)(s->ns[k] / n) / 1e9),
			   r->has_marks ? " a step" : "");
		verdict_top(r, k, out);
		buf_putc(out, '\n');
	}
}

static void text_rank(const struct verdict_result *res, size_t rank, struct buf *out)
{
	const struct verdict_rank *r = &res->ranks[rank];
	struct verdict_finding f[VERDICT_FINDINGS_MAX];
	size_t n = verdict_findings(res, rank, f, VERDICT_FINDINGS_MAX);
	char a[FMT_MAX], b[FMT_MAX];
	int64_t steps = r->n_steps ? (int64_t)r->n_steps : 1;

	if (res->n > 1 || r->rank >= 0)
		buf_printf(out, "Rank %lld: ", (long long)(r->rank >= 0 ? r->rank : (int64_t)rank));
	buf_printf(out, "bound by %s", verdict_name(r->kind)->title);
	if (r->behind != r->kind)
		buf_printf(out, " (behind it: %s)", verdict_name(r->behind)->title);
	if (r->has_marks)
		buf_printf(out, ". %zu steps of %s", r->n_steps,
			   fmt_seconds(a, (double)(r->facts.shares.total / steps) / 1e9));
	else
		buf_printf(out, ". No step marks: the whole window of %s",
			   fmt_seconds(a, (double)r->facts.shares.total / 1e9));
	if (r->facts.shares.ns[VERDICT_PROFILER] && r->has_marks)
		buf_printf(out, "; about %s without the profiler",
			   fmt_seconds(b, (double)r->expected / 1e9));
	buf_puts(out, ".\n");
	text_shares(r, out);
	for (size_t i = 0; i < n; i++) {
		/* As older tools print it, once. */
		if (f[i].rule->document && (!i || f[0].rule->document != f[i].rule->document))
			buf_printf(out, "%s\n", f[i].rule->document);
		buf_printf(out, "- %s\n", f[i].text);
		if (*f[i].rule->advice)
			buf_printf(out, "  %s\n", f[i].rule->advice);
	}
}

void verdict_text(const struct verdict_result *res, struct buf *out)
{
	const struct verdict_rank *g = &res->ranks[res->gating];

	if (res->n > 1) {
		buf_printf(out, "The job is bound by %s",
			   res->kind == VERDICT_STRAGGLER ? "a straggling rank"
							  : verdict_name(res->kind)->title);
		buf_printf(out,
			   "; rank %lld needs the longest of %zu, %.2f times the others' median.\n",
			   (long long)(g->rank >= 0 ? g->rank : (int64_t)res->gating), res->n,
			   res->over);
		if (!res->is_matched)
			buf_puts(out, "No collectives could be matched between the ranks.\n");
	}
	for (size_t i = 0; i < res->n; i++)
		text_rank(res, i, out);
}

static void json_shares(const struct verdict_shares *s, struct json *j)
{
	int permille[VERDICT_KINDS];

	verdict_permille(s, permille);
	json_key(j, "shares");
	json_array(j);
	for (int k = 0; k < VERDICT_KINDS; k++) {
		json_object(j);
		json_kstr(j, "kind", verdict_name(k)->id);
		json_kint(j, "ns", s->ns[k]);
		json_kdouble(j, "percent", permille[k] / 10.0);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_items(const struct verdict_rank *r, struct json *j)
{
	json_key(j, "evidence");
	json_array(j);
	for (size_t i = 0; i < r->n_items; i++) {
		const struct verdict_item *it = &r->items[i];
		struct trace *t = r->view->trace;

		json_object(j);
		json_kstr(j, "kind", verdict_name(it->kind)->id);
		json_kstr(j, "name", it->name ? trace_text(t, it->name, NULL) : NULL);
		json_kint(j, "ns", it->ns);
		json_kuint(j, "count", it->count);
		json_kstr(j, "within", it->within ? trace_text(t, it->within, NULL) : NULL);
		json_kstr(j, "stack", it->stack ? trace_text(t, it->stack, NULL) : NULL);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_findings(const struct verdict_result *res, size_t rank, struct json *j)
{
	struct verdict_finding f[VERDICT_FINDINGS_MAX];
	size_t n = verdict_findings(res, rank, f, VERDICT_FINDINGS_MAX);

	json_key(j, "findings");
	json_array(j);
	for (size_t i = 0; i < n; i++) {
		json_object(j);
		json_kstr(j, "rule", f[i].rule->id);
		json_kstr(j, "kind", verdict_name(f[i].rule->kind)->id);
		json_kstr(j, "text", f[i].text);
		json_kstr(j, "advice", f[i].rule->advice);
		json_kstr(j, "document", f[i].rule->document);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_rank(const struct verdict_result *res, size_t rank, struct json *j)
{
	const struct verdict_rank *r = &res->ranks[rank];

	json_object(j);
	json_key(j, "rank");
	r->rank >= 0 ? json_int(j, r->rank) : json_null(j);
	json_kstr(j, "bound", verdict_name(r->kind)->id);
	json_kstr(j, "behind", verdict_name(r->behind)->id);
	json_kint(j, "wall_ns", r->facts.shares.total);
	json_kint(j, "busy_ns", r->busy);
	json_kint(j, "own_ns", r->own);
	json_kint(j, "expected_ns", r->expected);
	json_kint(j, "sync_wait_ns", r->sync_wait);
	json_kuint(j, "syncs", r->syncs);
	json_kuint(j, "launches", r->launches);
	json_kbool(j, "has_steps", r->has_marks);
	json_kuint(j, "rows", r->rows);
	json_shares(&r->facts.shares, j);
	json_key(j, "steps");
	json_array(j);
	for (size_t i = 0; i < r->n_steps; i++) {
		json_object(j);
		json_kint(j, "step", r->steps[i].number);
		json_kint(j, "ts", r->steps[i].ts);
		json_kint(j, "end", r->steps[i].end);
		json_kstr(j, "bound", verdict_name(r->steps[i].kind)->id);
		json_kint(j, "recording_ns", r->steps[i].recording);
		json_shares(&r->steps[i].shares, j);
		json_object_end(j);
	}
	json_array_end(j);
	json_items(r, j);
	json_findings(res, rank, j);
	json_object_end(j);
}

void verdict_json(const struct verdict_result *res, struct json *j)
{
	const struct verdict_rank *g = &res->ranks[res->gating];

	json_kstr(j, "bound", verdict_name(res->kind)->id);
	json_kstr(j, "behind", verdict_name(res->behind)->id);
	json_kint(j, "slowest_rank", g->rank >= 0 ? g->rank : (int64_t)res->gating);
	json_kdouble(j, "slowest_over_median", res->over);
	json_kstr(j, "excess", verdict_name(res->excess)->id);
	json_kbool(j, "collectives_matched", res->is_matched);
	json_kuint(j, "collectives", res->collectives);
	json_key(j, "ranks");
	json_array(j);
	for (size_t i = 0; i < res->n; i++)
		json_rank(res, i, j);
	json_array_end(j);
}

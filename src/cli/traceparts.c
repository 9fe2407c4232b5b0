/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traceparts.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fmt.h"
#include "base/mem.h"
#include "cli/progress.h"

/* The readers' blocks that are unpacked, of each trace. */
#define TRACEPARTS_UNPACKED (UINT64_C(7) << 20)
#define TRACEPARTS_GIVE_BACK (1 << 20)

/* What the traces themselves leave of the memory: half of it at least. */
static uint64_t traceparts_room(const struct tracecmd_set *s)
{
	uint64_t held = 0, json, resident, spilled, memory = (uint64_t)tracecmd_opt.memory;
	size_t i;

	for (i = 0; i < s->n; i++) {
		trace_sizes(s->trace[i], &json, &resident, &spilled);
		held += resident + TRACEPARTS_UNPACKED;
	}
	return memory - (held < memory / 2 ? held : memory / 2);
}

static bool traceparts_is_hta(const struct tracecmd_set *s)
{
	return tracecmd_opt.hta && !s->wish->exact;
}

static struct tracefit_need traceparts_need(const struct tracecmd_set *s)
{
	static const enum tracefit_work works[2][2] = {{TRACEFIT_VIEW, TRACEFIT_VIEW_DEVICES},
						       {TRACEFIT_HTA, TRACEFIT_HTA_DEVICES}};
	struct tracefit_need need = s->wish->need;

	if (s->wish->views != TRACECMD_NO_VIEWS)
		need.work = works[traceparts_is_hta(s)][s->wish->views == TRACECMD_DEVICE_ROWS];
	return need;
}

/* How many traces are looked at at once, of which each has its part of the room. */
static size_t traceparts_at_once(const struct tracecmd_set *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (s->wish->fits != TRACECMD_PARTS)
		return s->n;
	return cpus < 1 ? 1 : (size_t)cpus < s->n ? (size_t)cpus : s->n;
}

/* HTA's and the plugin's numbers are those of all rows. 0, or 1 after printing what they need. */
static int traceparts_all_fit(const struct tracecmd_set *s)
{
	struct tracefit_need need = traceparts_need(s);
	size_t i, at_once = traceparts_at_once(s);
	uint64_t room = traceparts_room(s), most = 0, all = 0, bytes, rows = 0, mib;
	char a[FMT_MAX], b[FMT_MAX], c[FMT_MAX];

	for (i = 0; i < s->n; i++) {
		bytes = tracefit_bytes(s->trace[i], &need);
		most = bytes > most ? bytes : most;
		all += bytes;
		rows += trace_rows(s->trace[i]);
	}
	bytes = at_once < s->n ? most * at_once : all;
	if (bytes <= room)
		return 0;
	progress_end();
	/* The traces take half of it at most. */
	mib = (2 * bytes >> 20) + 1;
	fprintf(stderr,
		"lapse %s: %s needs all %" PRIu64
		" rows in memory, about %s, and --memory (%s) leaves "
		"%s for them. --memory %" PRIu64
		"M is enough; without %s a part can be looked at.\n",
		s->wish->command, tracecmd_opt.plugin ? "--plugin" : "--hta", rows,
		fmt_bytes(a, (double)bytes), fmt_bytes(b, (double)tracecmd_opt.memory),
		fmt_bytes(c, (double)room), mib, tracecmd_opt.plugin ? "--plugin" : "--hta");
	return 1;
}

/* Where ranks were cut, the steps that all of them have: what they did together stays together. */
static int traceparts_same_steps(struct tracecmd_set *s, const struct tracefit_need *need)
{
	int64_t from = 0, to = INT64_MAX;
	struct tracefit f;
	size_t i;
	int err = 0;

	for (i = 0; i < s->n; i++) {
		if (!s->fit[i].is_cut)
			continue;
		if (s->fit[i].first < 0)
			return 0;
		from = s->fit[i].first > from ? s->fit[i].first : from;
		to = s->fit[i].last < to ? s->fit[i].last + 1 : to;
	}
	for (i = 0; i < s->n && from < to && !err; i++) {
		err = tracefit_steps(s->trace[i], from, to, need, &f);
		if (err || !f.to)
			continue;
		f.begin = s->fit[i].begin;
		f.end = s->fit[i].end;
		f.windows = s->fit[i].windows;
		s->fit[i] = f;
	}
	return err;
}

/* Of each trace the part that fits. */
static int traceparts_choose(struct tracecmd_set *s, const struct view_options *o)
{
	struct tracefit_need need = traceparts_need(s);
	uint64_t room = traceparts_room(s) / traceparts_at_once(s);
	bool cut = false;
	size_t i;
	int err = 0;

	s->fit = xcalloc(s->n, sizeof(*s->fit));
	for (i = 0; i < s->n && !err; i++) {
		err = tracefit_find(s->trace[i], o, &need, room, &s->fit[i]);
		if (!err && s->fit[i].is_cut && s->wish->by_windows && !tracecmd_opt.steps)
			err = tracefit_windows(s->trace[i], &need, room, &s->fit[i]);
		s->fit[i].is_cut = s->fit[i].is_cut && !s->fit[i].n_windows;
		cut = cut || s->fit[i].is_cut;
	}
	/* Where memory is short what is freed goes back at once: the library would keep it for
	 * arrays of other sizes. */
	if (cut)
		mallopt(M_MMAP_THRESHOLD, TRACEPARTS_GIVE_BACK);
	if (!err && cut && s->has_ranks && s->n > 1)
		err = traceparts_same_steps(s, &need);
	return err;
}

/* Views of parts of the traces, each of its own, where all rows would not fit. */
static int traceparts_cut_views(struct tracecmd_set *s, const struct view_options *o, bool *ret_cut)
{
	struct view_options part;
	struct view *one;
	size_t i;
	int err = traceparts_choose(s, o);

	*ret_cut = false;
	for (i = 0; i < s->n; i++)
		*ret_cut = *ret_cut || s->fit[i].to;
	if (err || !*ret_cut)
		return err;
	s->view = calloc(s->n, sizeof(*s->view));
	for (i = 0; i < s->n && s->view; i++) {
		part = *o;
		part.from = s->fit[i].from;
		part.to = s->fit[i].to;
		err = view_new(&s->trace[i], 1, &part, &one);
		if (err)
			break;
		s->view[i] = *one;
		free(one);
	}
	return s->view ? err : -ENOMEM;
}

int traceparts_views(struct tracecmd_set *s)
{
	struct view_options o = {.rule = VIEW_EXACT,
				 .devices_only = s->wish->views == TRACECMD_DEVICE_ROWS};
	bool cut = false;
	int err = 0;

	if (traceparts_is_hta(s)) {
		o.rule = tracecmd_opt.no_rounding ? VIEW_HTA_EXACT : VIEW_HTA;
		o.include_last = tracecmd_opt.include_last;
	}
	if (tracecmd_steps(s->wish->command, &o.step_from, &o.step_to))
		return 2;
	if (o.rule != VIEW_EXACT && traceparts_all_fit(s))
		return 1;
	progress_phase("Sorting", NULL, 0);
	if (o.rule == VIEW_EXACT)
		err = traceparts_cut_views(s, &o, &cut);
	if (!err && !cut)
		err = view_new(s->trace, s->n, &o, &s->view);
	if (err == -EOVERFLOW) {
		fprintf(stderr, "lapse %s: with --hta these traces have too many rows\n",
			s->wish->command);
		return 1;
	}
	return err ? tracecmd_fail(s, err, NULL) : 0;
}

/* Without views. */
int traceparts_find(struct tracecmd_set *s)
{
	struct view_options o = {0};
	int err;

	if (tracecmd_opt.plugin)
		return traceparts_all_fit(s);
	if (tracecmd_steps(s->wish->command, &o.step_from, &o.step_to))
		return 2;
	err = traceparts_choose(s, &o);
	return err ? tracecmd_fail(s, err, NULL) : 0;
}

void traceparts_span(const struct tracecmd_set *s, int64_t *ret_begin, int64_t *ret_end)
{
	bool is_part = s->fit && s->fit->is_cut;

	*ret_begin = is_part ? s->fit->begin : s->view->first;
	*ret_end = is_part ? s->fit->end : s->view->last;
}

/* ---- in words ----------------------------------------------------------------------------- */

/* Of one trace. */
static char *traceparts_one(const struct tracefit *f)
{
	char a[FMT_MAX], b[FMT_MAX];

	fmt_bytes(a, (double)tracecmd_opt.memory);
	fmt_seconds(b, (double)(f->to - f->from) / 1e9);
	if (f->first >= 0)
		return xasprintf("The memory given (%s) does not hold all %" PRIu64
				 " rows%s: only steps %" PRId64 " to %" PRId64
				 " (%s) were looked at. --memory takes more, --steps others.",
				 a, f->of, tracecmd_opt.steps ? " of these steps" : "", f->first,
				 f->last, b);
	return xasprintf("The memory given (%s) does not hold all %" PRIu64
			 " rows: only %s in the middle were looked at. --memory takes more.",
			 a, f->of, b);
}

char *traceparts_text(const struct tracecmd_set *s)
{
	size_t i, n = 0, first = 0;
	char *text, *all;

	for (i = 0; s->fit && i < s->n; i++) {
		if (!s->fit[i].is_cut)
			continue;
		first = n ? first : i;
		n++;
	}
	if (!n)
		return NULL;
	text = traceparts_one(&s->fit[first]);
	if (s->n == 1)
		return text;
	all = xasprintf("%s: %s So it is with %zu of %zu files.", tracecmd_label(s, first), text, n,
			s->n);
	free(text);
	return all;
}

void traceparts_warn(const struct tracecmd_set *s)
{
	char *text = traceparts_text(s);

	if (text) {
		progress_erase();
		fprintf(stderr, "lapse %s: %s\n", s->wish->command, text);
	}
	free(text);
}

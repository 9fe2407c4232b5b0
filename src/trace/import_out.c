/* SPDX-License-Identifier: Apache-2.0
 *
 * import_out.c - events as text, flushed into the sink piece by piece.
 */
#include "trace/import_out.h"

#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_AT (256u << 10)
#define TEXT_MAX (64u << 20)
#define TIME_MAX 2.3e18 /* ns: 73 years, what views take */

/* ---- the parts ------------------------------------------------------------------------------ */

void import_out_begin(struct import_out *o, struct write_sink *sink, const char *kind,
		      int64_t base_ns)
{
	*o = (struct import_out){.sink = sink};
	buf_init(&o->text, TEXT_MAX);
	buf_puts(&o->text, "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\n\"importedFrom\":");
	write_text(&o->text, kind, strlen(kind));
	if (base_ns)
		buf_printf(&o->text, ",\n\"baseTimeNanoseconds\":%lld", (long long)base_ns);
}

void import_out_list(struct import_out *o)
{
	buf_puts(&o->text, ",\n\"traceEvents\":[\n");
}

static void flush(struct import_out *o, size_t at)
{
	if (o->text.error || o->text.len < at)
		return;
	write_put(o->sink, o->text.data, o->text.len);
	o->text.len = 0;
}

void import_out_event(struct import_out *o, char phase, const char *cat, const char *name,
		      size_t len, int64_t pid, int64_t tid, int64_t ts)
{
	buf_printf(&o->text, "%s{\"ph\":\"%c\"", o->has_event ? ",\n" : "", phase);
	o->has_event = true;
	o->events += phase != 'M';
	if (cat)
		buf_printf(&o->text, ",\"cat\":\"%s\"", cat);
	buf_puts(&o->text, ",\"name\":");
	write_text(&o->text, name, len);
	buf_printf(&o->text, ",\"pid\":%lld,\"tid\":%lld,\"ts\":", (long long)pid, (long long)tid);
	write_us(&o->text, ts, false);
}

void import_out_event_end(struct import_out *o)
{
	buf_putc(&o->text, '}');
	flush(o, FLUSH_AT);
}

void import_out_row(struct import_out *o, const char *cat, const char *name, size_t len,
		    int64_t pid, int64_t tid, int64_t ts, int64_t dur)
{
	import_out_event(o, 'X', cat, name, len, pid, tid, ts);
	buf_puts(&o->text, ",\"dur\":");
	write_us(&o->text, dur, false);
	import_out_event_end(o);
}

void import_out_name(struct import_out *o, int64_t pid, int64_t tid, const char *name, size_t len)
{
	const char *what = tid < 0 ? "process_name" : "thread_name";

	import_out_event(o, 'M', NULL, what, strlen(what), pid, tid < 0 ? 0 : tid, 0);
	buf_puts(&o->text, ",\"args\":{\"name\":");
	write_text(&o->text, name, len);
	buf_putc(&o->text, '}');
	import_out_event_end(o);
}

int import_out_end(struct import_out *o)
{
	int rc;

	buf_puts(&o->text, "\n]}\n");
	flush(o, 0);
	rc = o->text.error;
	buf_done(&o->text);
	return rc;
}

/* ---- stacks --------------------------------------------------------------------------------- */

double import_out_scale(const char *unit)
{
	static const struct {
		const char *unit;
		double ns;
	} rows[] = {{"nanoseconds", 1},
		    {"microseconds", 1e3},
		    {"milliseconds", 1e6},
		    {"seconds", 1e9},
		    {"bytes", 1}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(unit, rows[i].unit))
			return rows[i].ns;
	return 1e3;
}

struct open_frame {
	const char *p;
	size_t len;
};

/* Frames that are open: as pairs of begin and end, so that callers stand before what they
 * call, also where both take the same time. */
struct tower {
	struct import_out *o;
	struct open_frame open[IMPORT_FRAMES_MAX];
	size_t n;
};

/* Close what is above `keep` frames. */
static void close_frames(struct tower *t, size_t keep, int64_t now)
{
	while (t->n > keep) {
		const struct open_frame *f = &t->open[--t->n];

		import_out_event(t->o, 'E', "python_function", f->p, f->len, 1, 1, now);
		import_out_event_end(t->o);
	}
}

static void open_frame(struct tower *t, const char *p, size_t len, int64_t now)
{
	t->open[t->n++] = (struct open_frame){p, len};
	import_out_event(t->o, 'B', "python_function", p, len, 1, 1, now);
	import_out_event_end(t->o);
}

/* Frames that two stacks have in common at the root stay open: one row, not two. */
static void next_stack(struct tower *t, const char *p, size_t len, int64_t now)
{
	const char *end = p + len;
	bool same = true;

	for (size_t depth = 0; depth < IMPORT_FRAMES_MAX; depth++) {
		const char *stop = memchr(p, ';', (size_t)(end - p));
		size_t n = (size_t)((stop ? stop : end) - p);

		same = same && depth < t->n && t->open[depth].len == n &&
		       !memcmp(t->open[depth].p, p, n);
		if (!same) {
			close_frames(t, depth, now);
			open_frame(t, p, n, now);
		}
		if (!stop) {
			close_frames(t, depth + 1, now);
			return;
		}
		p = stop + 1;
	}
}

int import_out_folded(struct write_sink *s, const struct import_folded *f, const char *kind,
		      uint64_t *ret_events, struct err *e)
{
	double scale = import_out_scale(f->unit), sum = 0;
	struct tower *t = calloc(1, sizeof(*t));
	struct import_out o;
	int rc;

	if (!t)
		return err_set(e, -ENOMEM, "out of memory");
	if (!(f->total * scale < TIME_MAX)) {
		free(t);
		return err_set(e, -EOVERFLOW,
			       "the weights add up to more than 73 years; write a .folded file");
	}
	import_out_begin(&o, s, kind, 0);
	import_out_list(&o);
	import_out_name(&o, 1, -1, kind, strlen(kind));
	t->o = &o;
	for (size_t i = 0; i < f->n; i++) {
		if (!(f->lines[i].weight > 0))
			continue;
		next_stack(t, f->text.data + f->lines[i].at, f->lines[i].len, llround(sum));
		sum += f->lines[i].weight * scale;
	}
	close_frames(t, 0, llround(sum));
	free(t);
	rc = import_out_end(&o);
	*ret_events = o.events;
	return rc;
}

int import_out_collapsed(struct write_sink *s, const struct import_folded *f)
{
	struct buf line;
	int rc;

	buf_init(&line, TEXT_MAX);
	for (size_t i = 0; i < f->n && !line.error; i++) {
		buf_append(&line, f->text.data + f->lines[i].at, f->lines[i].len);
		buf_putc(&line, ' ');
		json_put_double(&line, f->lines[i].weight);
		buf_putc(&line, '\n');
		if (line.len < FLUSH_AT && i + 1 < f->n)
			continue;
		write_put(s, line.data, line.len);
		line.len = 0;
	}
	rc = line.error;
	buf_done(&line);
	return rc;
}

/* ---- functions ------------------------------------------------------------------------------ */

int import_out_pstats(struct write_sink *s, const struct import_pstats *p, uint64_t *ret_events,
		      struct err *e)
{
	struct import_out o;
	double sum = 0, next;
	struct buf name;
	int rc;

	if (!(p->self < TIME_MAX / 1e9))
		return err_set(e, -EOVERFLOW, "the times add up to more than 73 years");
	buf_init(&name, TEXT_MAX);
	import_out_begin(&o, s, "cProfile statistics", 0);
	import_out_list(&o);
	import_out_name(&o, 1, -1, "cProfile", 8);
	for (size_t i = 0; i < p->n; i++) {
		const struct import_function *f = &p->functions[i];

		next = f->self > 0 ? sum + f->self : sum;
		if (llround(next * 1e9) == llround(sum * 1e9))
			continue;
		name.len = 0;
		buf_append(&name, f->file, f->file_len);
		buf_printf(&name, "(%lld): ", (long long)f->line);
		buf_append(&name, f->name, f->name_len);
		import_out_event(&o, 'X', "python_function", buf_str(&name), name.len, 1, 1,
				 llround(sum * 1e9));
		buf_puts(&o.text, ",\"dur\":");
		write_us(&o.text, llround(next * 1e9) - llround(sum * 1e9), false);
		buf_printf(&o.text, ",\"args\":{\"calls\":%lld,\"total_us\":", (long long)f->calls);
		json_put_double(&o.text, f->total * 1e6);
		buf_putc(&o.text, '}');
		import_out_event_end(&o);
		sum = next;
	}
	rc = import_out_end(&o);
	if (!rc)
		rc = name.error;
	buf_done(&name);
	*ret_events = o.events;
	return rc;
}

/* ---- counters ------------------------------------------------------------------------------- */

static void counter(struct import_out *o, const char *name, int64_t pid, int64_t ts,
		    const char *key, double v)
{
	import_out_event(o, 'C', NULL, name, strlen(name), pid, 0, ts);
	buf_puts(&o->text, ",\"args\":{");
	write_text(&o->text, key, strlen(key));
	buf_putc(&o->text, ':');
	json_put_double(&o->text, v);
	buf_putc(&o->text, '}');
	import_out_event_end(o);
}

/* Columns that name a thing and do not measure it. */
static bool is_label(const struct import_column *c)
{
	return !c->n || !strcmp(c->name, "index") || !strcmp(c->name, "count") ||
	       !strcmp(c->name, "timestamp") || !strncmp(c->name, "pci.", 4);
}

int import_out_smi(struct write_sink *s, const struct import_smi *m, uint64_t *ret_events,
		   struct err *e)
{
	struct import_out o;
	int rc;

	if (m->from == INT64_MIN)
		return err_set(
			e, -EBADMSG,
			"no row has a time: query timestamp too (--query-gpu=timestamp,...)");
	import_out_begin(&o, s, "nvidia-smi CSV", m->from);
	import_out_list(&o);
	for (size_t g = 0; g < m->n_gpus; g++) {
		struct buf name;

		buf_init(&name, 256);
		buf_printf(&name, "GPU %s", m->gpus[g]);
		import_out_name(&o, (int64_t)g + 1, -1, buf_str(&name), name.len);
		buf_done(&name);
	}
	for (size_t i = 0; i < m->n_rows; i++)
		for (size_t c = 0; c < m->n_columns && m->rows[i].time != INT64_MIN; c++) {
			double v = m->cells[i * m->n_columns + c];

			if (!is_label(&m->columns[c]) && isfinite(v))
				counter(&o, m->columns[c].name, (int64_t)m->rows[i].gpu + 1,
					m->rows[i].time - m->from,
					m->columns[c].unit[0] ? m->columns[c].unit : "value", v);
		}
	rc = import_out_end(&o);
	*ret_events = o.events;
	return rc;
}

int import_out_timeline(struct write_sink *s, const struct import_timeline *t, uint64_t *ret_events,
			struct err *e)
{
	int64_t base = t->n && t->points[0].ts > 0 ? t->points[0].ts : 0;
	struct import_out o;
	int rc;

	(void)e;
	import_out_begin(&o, s, "memory timeline", base);
	import_out_list(&o);
	for (size_t i = 0; i < t->n; i++) {
		import_out_event(&o, 'C', NULL, "memory", 6, 1, 0, t->points[i].ts - base);
		buf_puts(&o.text, ",\"args\":{");
		for (unsigned k = 0; k < IMPORT_CATEGORIES; k++)
			buf_printf(&o.text, "%s\"%s\":%lld", k ? "," : "", import_category(k),
				   (long long)t->points[i].bytes[k]);
		buf_putc(&o.text, '}');
		import_out_event_end(&o);
	}
	rc = import_out_end(&o);
	*ret_events = o.events;
	return rc;
}

int import_out_mprof(struct write_sink *s, const struct import_mprof *m, uint64_t *ret_events,
		     struct err *e)
{
	int64_t base = INT64_MAX;
	struct import_out o;
	int rc;

	(void)e;
	for (size_t i = 0; i < m->n; i++)
		base = m->samples[i].ts < base ? m->samples[i].ts : base;
	for (size_t i = 0; i < m->n_calls; i++)
		base = m->calls[i].begin < base ? m->calls[i].begin : base;
	import_out_begin(&o, s, "memory_profiler", base);
	import_out_list(&o);
	for (size_t i = 0; i < m->n_processes; i++) {
		char name[64];
		int len = m->processes[i].number < 0 ? snprintf(name, sizeof(name), "program")
						     : snprintf(name, sizeof(name), "child %lld",
								(long long)m->processes[i].number);

		import_out_name(&o, (int64_t)i + 1, -1, name, (size_t)len);
	}
	for (size_t i = 0; i < m->n; i++)
		counter(&o, "memory", (int64_t)m->samples[i].process + 1, m->samples[i].ts - base,
			"bytes", round(m->samples[i].mib * 1048576));
	for (size_t i = 0; i < m->n_calls; i++) {
		const struct import_mprof_call *c = &m->calls[i];

		import_out_row(&o, "python_function", c->name, c->len, 1, 1, c->begin - base,
			       c->end - c->begin);
	}
	rc = import_out_end(&o);
	*ret_events = o.events;
	return rc;
}

/* ---- allocations ---------------------------------------------------------------------------- */

int import_out_snapshot(struct write_sink *s, const struct import_snapshot *m, uint64_t *ret_events,
			struct err *e)
{
	int64_t base = m->n_history ? m->history[0].us : 0;
	struct import_out o;
	int rc;

	if (!m->n_history)
		return err_set(e, -EBADMSG,
			       "the snapshot has no history with times "
			       "(torch.cuda.memory._record_memory_history() makes one); a .folded "
			       "file can be written: what is alive, by stack");
	for (size_t i = 0; i < m->n_history; i++)
		base = m->history[i].us < base ? m->history[i].us : base;
	import_out_begin(&o, s, "CUDA memory snapshot", base * 1000);
	buf_puts(&o.text, ",\n\"profile_memory\":1");
	import_out_list(&o);
	for (size_t i = 0; i < m->n_history; i++) {
		const struct import_snapshot_event *h = &m->history[i];

		import_out_event(&o, 'i', "cpu_instant_event", "[memory]", 8, 1, 1,
				 (h->us - base) * 1000);
		buf_printf(&o.text,
			   ",\"s\":\"t\",\"args\":{\"Device Type\":1,\"Device Id\":%lld,"
			   "\"Addr\":%llu,\"Bytes\":%lld,\"Total Allocated\":%lld,"
			   "\"Total Reserved\":%lld}",
			   (long long)h->device, (unsigned long long)h->address,
			   (long long)h->bytes, (long long)h->allocated, (long long)h->reserved);
		import_out_event_end(&o);
	}
	rc = import_out_end(&o);
	*ret_events = o.events;
	return rc;
}

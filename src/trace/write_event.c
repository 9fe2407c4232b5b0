/* SPDX-License-Identifier: Apache-2.0
 *
 * write_event.c - one row of the model as one event of Chrome's JSON, with the keys that
 * Kineto writes.
 */
#include "trace/write.h"

#include "base/json.h"
#include "base/utf8.h"
#include "trace/repair.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_char(struct buf *out, unsigned char c)
{
	static const char from[] = "\"\\\b\f\n\r\t", into[] = "\"\\bfnrt";
	const char *which = c ? strchr(from, c) : NULL;

	if (which)
		buf_printf(out, "\\%c", into[which - from]);
	else
		buf_printf(out, "\\u%04x", c);
}

void write_text(struct buf *out, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s, *end = p + len, *from = p;

	buf_putc(out, '"');
	while (p < end) {
		size_t n = *p < 0x80 ? 1 : utf8_valid(p, (size_t)(end - p));

		if (n && *p >= 0x20 && *p != '"' && *p != '\\') {
			p += n;
			continue;
		}
		buf_append(out, from, (size_t)(p - from));
		if (!n)
			buf_puts(out, "\xef\xbf\xbd");
		else
			put_char(out, *p);
		from = ++p;
	}
	buf_append(out, from, (size_t)(p - from));
	buf_putc(out, '"');
}

/* Digits of v, ending before end; returns the first. */
static char *digits(char *end, uint64_t v)
{
	do
		*--end = (char)('0' + v % 10);
	while (v /= 10);
	return end;
}

static void put_int(struct buf *out, int64_t v)
{
	char text[24], *end = text + sizeof(text), *p;

	p = digits(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
	if (v < 0)
		*--p = '-';
	buf_append(out, p, (size_t)(end - p));
}

/* Ids of a hostile file are as large as they like: what is beyond comes round. */
static int64_t shifted(int64_t v, int64_t by)
{
	return (int64_t)((uint64_t)v + (uint64_t)by);
}

void write_us(struct buf *out, int64_t ns, bool point)
{
	uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	char text[40], *end = text + sizeof(text), *p = end;

	if (point || v % 1000) {
		for (unsigned rest = (unsigned)(v % 1000), i = 0; i < 3; i++, rest /= 10)
			*--p = (char)('0' + rest % 10);
		*--p = '.';
	}
	p = digits(p, v / 1000);
	if (ns < 0)
		*--p = '-';
	buf_append(out, p, (size_t)(end - p));
}

static void put_id(struct trace *t, struct buf *out, uint32_t id)
{
	size_t len;
	const char *s = trace_text(t, id, &len);

	write_text(out, s, len);
}

/* A pid or tid as it was written: a number bare, anything else in quotes. */
static bool is_number(const char *s, size_t len)
{
	size_t i = len && *s == '-';

	if (i == len || len > 19 || (s[i] == '0' && len > i + 1))
		return false;
	for (; i < len; i++)
		if (s[i] < '0' || s[i] > '9')
			return false;
	return true;
}

static void put_pid(struct trace *t, uint32_t id, int64_t pid, const struct write_shift *s,
		    struct buf *out)
{
	size_t len;
	const char *text = trace_text(t, id, &len);

	if (is_number(text, len)) {
		put_int(out, shifted(pid, s->pid));
	} else if (s->label) {
		struct buf name;

		buf_init(&name, TRACE_TEXT_MAX);
		buf_printf(&name, "%s ", s->label);
		buf_append(&name, text, len);
		write_text(out, buf_str(&name), name.len);
		buf_done(&name);
	} else {
		write_text(out, text, len);
	}
}

static void put_place(struct trace *t, uint16_t track, const struct write_shift *s, struct buf *out)
{
	const struct trace_track *k = trace_track(t, track);
	size_t len;
	const char *tid = trace_text(t, k->tid_text, &len);

	buf_puts(out, ",\"pid\":");
	put_pid(t, k->pid_text, k->pid, s, out);
	buf_puts(out, ",\"tid\":");
	if (is_number(tid, len))
		buf_append(out, tid, len);
	else
		write_text(out, tid, len);
}

/* ---- args -------------------------------------------------------------------------------- */

enum kind {
	INT32,
	INT64,
	PYTHON, /* INT64, shifted */
	REAL,
	TEXT,
	JSON /* a text that is a JSON value */
};

#define ARG(key, kind, field)                                                                      \
	{                                                                                          \
		key, kind, offsetof(struct trace_args, field)                                      \
	}
static const struct arg {
	const char *key;
	enum kind kind;
	size_t at;
} args[] = {
	ARG("device", INT32, device),
	ARG("context", INT32, context),
	ARG("registers per thread", INT32, registers),
	ARG("shared memory", INT32, shared_memory),
	ARG("blocks per SM", REAL, blocks_per_sm),
	ARG("warps per SM", REAL, warps_per_sm),
	ARG("est. achieved occupancy %", REAL, occupancy),
	ARG("bytes", INT64, bytes),
	ARG("memory bandwidth (GB/s)", REAL, bandwidth),
	ARG("wait_on_stream", INT32, wait_on_stream),
	ARG("wait_on_cuda_event_record_corr_id", INT64, wait_on_record),
	ARG("wait_on_cuda_event_id", INT64, wait_on_event),
	ARG("Input Dims", JSON, dims),
	ARG("Input type", JSON, types),
	ARG("Input Strides", JSON, strides),
	ARG("Concrete Inputs", JSON, concrete),
	ARG("Call stack", TEXT, stack),
	ARG("kernel_backend", TEXT, kernel_backend),
	ARG("kernel_file", TEXT, kernel_file),
	ARG("Python id", PYTHON, python_id),
	ARG("Python parent id", PYTHON, python_parent),
	ARG("Python module id", INT64, python_module),
	ARG("Sequence number", INT64, sequence),
	ARG("Fwd thread id", INT64, forward_thread),
	ARG("flops", INT64, flops),
	ARG("Collective name", TEXT, collective),
	ARG("Process Group Name", TEXT, group_name),
	ARG("Process Group Description", TEXT, group_description),
	ARG("dtype", TEXT, collective_dtype),
	ARG("In msg nelems", INT64, in_elements),
	ARG("Out msg nelems", INT64, out_elements),
	ARG("Group size", INT64, group_size),
	ARG("Comms Id", INT64, comms_id),
};

static void put_key(struct buf *out, const char *key, bool *has)
{
	buf_puts(out, *has ? ",\"" : "\"");
	buf_puts(out, key);
	buf_puts(out, "\":");
	*has = true;
}

static void put_real(struct buf *out, const char *key, double v, bool *has)
{
	if (isnan(v))
		return;
	put_key(out, key, has);
	if (isinf(v))
		buf_puts(out, v > 0 ? "\"inf\"" : "\"-inf\"");
	else
		json_put_double(out, v);
}

/* A JSON value is written as it was; one that is none, in a broken file, as a text. */
static void put_json(struct trace *t, struct buf *out, uint32_t id)
{
	size_t len;
	const char *s = trace_text(t, id, &len);

	if (repair_is_json(s, len))
		buf_append(out, s, len);
	else
		write_text(out, s, len);
}

static void put_arg(struct trace *t, const struct trace_args *a, const struct arg *row,
		    const struct write_shift *s, bool *has, struct buf *out)
{
	const char *at = (const char *)a + row->at;
	int64_t v;

	switch (row->kind) {
	case INT32:
	case INT64:
	case PYTHON:
		v = row->kind == INT32 ? *(const int32_t *)at : *(const int64_t *)at;
		if (v == TRACE_NONE)
			return;
		put_key(out, row->key, has);
		put_int(out, row->kind == PYTHON ? shifted(v, s->python) : v);
		return;
	case REAL:
		put_real(out, row->key, *(const double *)at, has);
		return;
	case TEXT:
	case JSON:
		if (!*(const uint32_t *)at)
			return;
		put_key(out, row->key, has);
		if (row->kind == TEXT)
			put_id(t, out, *(const uint32_t *)at);
		else
			put_json(t, out, *(const uint32_t *)at);
		return;
	}
}

static void put_triple(struct buf *out, const char *key, const int32_t v[3], bool *has)
{
	if (v[0] == TRACE_NONE)
		return;
	put_key(out, key, has);
	for (int i = 0; i < 3; i++) {
		buf_putc(out, i ? ',' : '[');
		put_int(out, v[i]);
	}
	buf_putc(out, ']');
}

static void put_args(struct trace *t, const struct trace_block *b, uint32_t i,
		     const struct write_shift *s, struct buf *out)
{
	bool has = false;

	buf_puts(out, ",\"args\":{");
	if (b->external[i] != TRACE_NONE) {
		put_key(out, "External id", &has);
		put_int(out, shifted(b->external[i], s->external));
	}
	if (b->stream[i] != TRACE_NONE) {
		put_key(out, "stream", &has);
		put_int(out, b->stream[i]);
	}
	if (b->correlation[i] != TRACE_NONE) {
		put_key(out, "correlation", &has);
		put_int(out, shifted(b->correlation[i], s->correlation));
	}
	if (b->args[i]) {
		const struct trace_args *a = trace_args(t, b->args[i]);

		put_triple(out, "grid", a->grid, &has);
		put_triple(out, "block", a->block, &has);
		for (size_t k = 0; k < sizeof(args) / sizeof(*args); k++)
			put_arg(t, a, &args[k], s, &has, out);
	}
	buf_putc(out, '}');
}

/* ---- events ------------------------------------------------------------------------------ */

void write_row(struct trace *t, const struct trace_block *b, uint32_t i,
	       const struct write_shift *s, struct buf *out)
{
	bool point = b->flags[i] & TRACE_TS_FRACTION;

	buf_puts(out, "{\"ph\":\"X\"");
	if (b->flags[i] & TRACE_HAS_CAT) {
		buf_puts(out, ",\"cat\":\"");
		buf_puts(out, trace_cat_name(b->cat[i]));
		buf_putc(out, '"');
	}
	buf_puts(out, ",\"name\":");
	put_id(t, out, b->name[i]);
	put_place(t, b->track[i], s, out);
	buf_puts(out, ",\"ts\":");
	write_us(out, shifted(b->ts[i], s->ts), point);
	if (b->flags[i] & TRACE_HAS_DUR) {
		buf_puts(out, ",\"dur\":");
		write_us(out, b->dur[i], point);
	}
	put_args(t, b, i, s, out);
	buf_putc(out, '}');
}

void write_memory(struct trace *t, const struct trace_memory *m, const struct write_shift *s,
		  struct buf *out)
{
	buf_puts(out,
		 "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\"");
	put_place(t, m->track, s, out);
	buf_puts(out, ",\"ts\":");
	write_us(out, shifted(m->ts, s->ts), true);
	buf_printf(out,
		   ",\"args\":{\"Device Type\":%d,\"Device Id\":%d,\"Addr\":%llu,\"Bytes\":%lld",
		   m->device_type, m->device, (unsigned long long)m->address, (long long)m->bytes);
	if (m->allocated != TRACE_NONE)
		buf_printf(out, ",\"Total Allocated\":%lld", (long long)m->allocated);
	if (m->reserved != TRACE_NONE)
		buf_printf(out, ",\"Total Reserved\":%lld", (long long)m->reserved);
	buf_puts(out, "}}");
}

static void begin_meta(struct trace *t, const char *name, uint16_t track,
		       const struct write_shift *s, bool *has_event, struct buf *out)
{
	buf_printf(out, "%s{\"ph\":\"M\",\"name\":\"%s\"", *has_event ? ",\n" : "", name);
	put_place(t, track, s, out);
	buf_puts(out, ",\"args\":{");
	*has_event = true;
}

static void put_label(struct trace *t, const char *key, uint32_t id, const char *label,
		      struct buf *out)
{
	struct buf text;
	size_t len;
	const char *s = trace_text(t, id, &len);

	buf_init(&text, TRACE_TEXT_MAX);
	if (label)
		buf_printf(&text, "%s%s", label, len ? " " : "");
	buf_append(&text, s, len);
	buf_printf(out, "\"%s\":", key);
	write_text(out, buf_str(&text), text.len);
	buf_puts(out, "}}");
	buf_done(&text);
}

void write_tracks(struct trace *t, const struct write_shift *s, bool *has_event, struct buf *out)
{
	uint32_t n = trace_tracks(t);

	for (uint32_t i = 0; i < n; i++) {
		const struct trace_track *k = trace_track(t, (uint16_t)i);
		bool is_first = true;

		for (uint32_t j = 0; j < i && is_first; j++)
			is_first = trace_track(t, (uint16_t)j)->pid_text != k->pid_text;
		if (is_first && (k->process_name || s->label)) {
			begin_meta(t, "process_name", (uint16_t)i, s, has_event, out);
			put_label(t, "name", k->process_name, s->label, out);
		}
		if (is_first && k->process_labels) {
			begin_meta(t, "process_labels", (uint16_t)i, s, has_event, out);
			put_label(t, "labels", k->process_labels, NULL, out);
		}
		if (k->name) {
			begin_meta(t, "thread_name", (uint16_t)i, s, has_event, out);
			put_label(t, "name", k->name, NULL, out);
		}
		if (k->sort_index != TRACE_NONE) {
			begin_meta(t, "thread_sort_index", (uint16_t)i, s, has_event, out);
			buf_printf(out, "\"sort_index\":%lld}}", (long long)k->sort_index);
		}
	}
}

void write_flow(struct trace *t, char phase, uint16_t track, int64_t ts, int64_t id,
		const struct write_shift *s, struct buf *out)
{
	buf_puts(out, phase == 's' ? "{\"ph\":\"s\",\"id\":" : "{\"ph\":\"f\",\"id\":");
	put_int(out, shifted(id, s->correlation));
	put_place(t, track, s, out);
	buf_puts(out, ",\"ts\":");
	write_us(out, shifted(ts, s->ts), true);
	buf_puts(out, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
	buf_puts(out, phase == 'f' ? ",\"bp\":\"e\"}" : "}");
}

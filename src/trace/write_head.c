/* SPDX-License-Identifier: Apache-2.0
 *
 * write_head.c - the metadata at the top of a written trace, with Kineto's keys.
 */
#include "trace/write.h"

#include <string.h>

static void put_number(struct buf *out, const char *key, int64_t v)
{
	buf_printf(out, "\"%s\":%lld,\n", key, (long long)v);
}

static void put_string(struct trace *t, struct buf *out, const char *key, uint32_t id)
{
	size_t len;
	const char *s = trace_text(t, id, &len);

	if (!id)
		return;
	buf_printf(out, "\"%s\":", key);
	write_text(out, s, len);
	buf_puts(out, ",\n");
}

static void put_device(struct trace *t, const struct trace_device *d, struct buf *out)
{
	size_t len;
	const char *name = trace_text(t, d->name, &len);

	buf_printf(out, "{\"id\":%lld,\"name\":", (long long)d->id);
	write_text(out, name, len);
	buf_printf(out,
		   ",\"totalGlobalMem\":%lld,\"computeMajor\":%d,\"computeMinor\":%d,"
		   "\"maxThreadsPerBlock\":%lld,\"maxThreadsPerMultiprocessor\":%lld,"
		   "\"regsPerBlock\":%lld,\"warpSize\":%d,\"sharedMemPerBlock\":%lld,"
		   "\"numSms\":%d}",
		   (long long)d->memory, d->major, d->minor, (long long)d->threads_per_block,
		   (long long)d->threads_per_sm, (long long)d->registers_per_block, d->warp_size,
		   (long long)d->shared_per_block, d->sms);
}

void write_head(struct trace *t, struct buf *out)
{
	const struct trace_meta *m = trace_meta(t);
	size_t n;
	const struct trace_device *d = trace_devices(t, &n);
	const struct {
		const char *key;
		int64_t v;
		bool is_there;
	} rows[] = {
		{"schemaVersion", m->schema > 0 ? m->schema : 1, true},
		{"cuda_driver_version", m->cuda_driver, m->cuda_driver != TRACE_NONE},
		{"cuda_runtime_version", m->cuda_runtime, m->cuda_runtime != TRACE_NONE},
		{"cupti_version", m->cupti, m->cupti != TRACE_NONE},
		{"record_shapes", 1, m->record_shapes},
		{"with_stack", 1, m->with_stack},
		{"profile_memory", 1, m->profile_memory},
		{"with_flops", 1, m->with_flops},
		{"with_modules", 1, m->with_modules},
		{"baseTimeNanoseconds", m->base_ns, m->base_ns != 0},
	};

	buf_puts(out, "\"displayTimeUnit\":\"ms\",\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].is_there)
			put_number(out, rows[i].key, rows[i].v);
	put_string(t, out, "trace_id", m->trace_id);
	put_string(t, out, "host_name", m->host);
	if (n) {
		buf_puts(out, "\"deviceProperties\":[");
		for (size_t i = 0; i < n; i++) {
			if (i)
				buf_puts(out, ",\n");
			put_device(t, &d[i], out);
		}
		buf_puts(out, "],\n");
	}
	if (m->rank == TRACE_NONE && m->world_size == TRACE_NONE && !m->backend)
		return;
	buf_puts(out, "\"distributedInfo\":{\"backend\":");
	write_text(out, trace_text(t, m->backend, NULL), strlen(trace_text(t, m->backend, NULL)));
	if (m->rank != TRACE_NONE)
		buf_printf(out, ",\"rank\": %lld", (long long)m->rank);
	if (m->world_size != TRACE_NONE)
		buf_printf(out, ",\"world_size\":%lld", (long long)m->world_size);
	buf_puts(out, "},\n");
}

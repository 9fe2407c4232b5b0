/* SPDX-License-Identifier: Apache-2.0
 *
 * import_nsys.c - a table after the other: each row becomes an event with the names and
 * arguments that PyTorch's profiler uses for the same thing.
 */
#include "trace/import_nsys.h"

#include "trace/import_nsys_count.h"
#include "trace/import_nsys_db.h"
#include "trace/import_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MAX ((int64_t)1 << 61) /* ns */
#define PROCESSES_MAX 4096
#define DEVICES_MAX 256
#define MEMORY_KINDS 16

/* Columns of any of the tables; one that a table lacks reads as NULL. */
enum column {
	START,
	END,
	DEVICE,
	CONTEXT,
	STREAM,
	CORRELATION,
	GLOBAL_PID,
	GLOBAL_TID,
	DEMANGLED,
	SHORT,
	NAME_ID,
	TEXT,
	TEXT_ID,
	EVENT_TYPE,
	BYTES,
	COPY_KIND,
	SOURCE,
	TARGET,
	REGISTERS,
	GRID_X,
	GRID_Y,
	GRID_Z,
	BLOCK_X,
	BLOCK_Y,
	BLOCK_Z,
	STATIC,
	DYNAMIC,
	SYNC_TYPE,
	COLUMNS
};

static const char *const columns[COLUMNS] = {
	[START] = "start",
	[END] = "end",
	[DEVICE] = "deviceId",
	[CONTEXT] = "contextId",
	[STREAM] = "streamId",
	[CORRELATION] = "correlationId",
	[GLOBAL_PID] = "globalPid",
	[GLOBAL_TID] = "globalTid",
	[DEMANGLED] = "demangledName",
	[SHORT] = "shortName",
	[NAME_ID] = "nameId",
	[TEXT] = "text",
	[TEXT_ID] = "textId",
	[EVENT_TYPE] = "eventType",
	[BYTES] = "bytes",
	[COPY_KIND] = "copyKind",
	[SOURCE] = "srcKind",
	[TARGET] = "dstKind",
	[REGISTERS] = "registersPerThread",
	[GRID_X] = "gridX",
	[GRID_Y] = "gridY",
	[GRID_Z] = "gridZ",
	[BLOCK_X] = "blockX",
	[BLOCK_Y] = "blockY",
	[BLOCK_Z] = "blockZ",
	[STATIC] = "staticSharedMemory",
	[DYNAMIC] = "dynamicSharedMemory",
	[SYNC_TYPE] = "syncType",
};

static const struct {
	const char *name, *table, *cat;
	bool is_gpu;
} kinds[IMPORT_NSYS_KINDS] = {
	[IMPORT_NSYS_KERNEL] = {"kernels", "CUPTI_ACTIVITY_KIND_KERNEL", "kernel", true},
	[IMPORT_NSYS_MEMCPY] = {"copies", "CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy", true},
	[IMPORT_NSYS_MEMSET] = {"sets", "CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset", true},
	[IMPORT_NSYS_CALL] = {"CUDA calls", "CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_runtime", false},
	[IMPORT_NSYS_SYNC] = {"synchronisation", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "cuda_sync",
			      true},
	[IMPORT_NSYS_NVTX] = {"NVTX ranges", "NVTX_EVENTS", "user_annotation", false},
	[IMPORT_NSYS_OS] = {"system calls", "OSRT_API", "os_runtime", false},
};

const char *import_nsys_kind_name(enum import_nsys_kind kind)
{
	return kinds[kind].name;
}

const char *import_nsys_table(enum import_nsys_kind kind)
{
	return kinds[kind].table;
}

struct reader {
	struct import_nsys_db db;
	struct import_nsys *r;
	struct import_out out;
	bool writes;
	int64_t processes[PROCESSES_MAX]; /* in the order of appearance */
	size_t n_processes;
	int64_t devices[DEVICES_MAX];
	size_t n_devices;
	char memory[MEMORY_KINDS][24]; /* "Pinned", by number; "" unknown */
	struct import_nsys_index index;
	struct buf name;
	enum import_nsys_kind kind; /* that is read now */
	sqlite3_stmt *row;
};

static int64_t number(const struct reader *x, enum column c, int64_t none)
{
	return import_nsys_db_int(x->row, (int)c, none);
}

/* A list of few different numbers; the last place is shared when it is full. */
static size_t place_in(int64_t *list, size_t *n, size_t max, int64_t v)
{
	size_t i;

	for (i = 0; i < *n; i++)
		if (list[i] == v)
			return i;
	if (*n == max)
		return max - 1;
	list[(*n)++] = v;
	return i;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* The version behind a call's name goes: cudaLaunchKernel_v7000, cudaMemcpyAsync_ptsz_v3020. */
static size_t plain_length(const char *p, size_t len)
{
	size_t n = len;

	while (n && p[n - 1] >= '0' && p[n - 1] <= '9')
		n--;
	if (n > 2 && n < len && p[n - 1] == 'v' && p[n - 2] == '_')
		len = n - 2;
	if (len > 5 && !memcmp(p + len - 5, "_ptsz", 5))
		len -= 5;
	return len;
}

static const char *copy_kind(int64_t kind)
{
	static const char *const names[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					    "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};

	return kind > 0 && kind < (int64_t)(sizeof(names) / sizeof(*names)) ? names[kind]
									    : "Unknown";
}

static const char *memory_kind(const struct reader *x, enum column c)
{
	int64_t kind = number(x, c, -1);

	return kind >= 0 && kind < MEMORY_KINDS ? x->memory[kind] : "";
}

static const char *sync_type(int64_t type)
{
	static const char *const names[] = {"Sync", "Event Sync", "Stream Wait Event",
					    "Stream Sync", "Context Sync"};

	return names[type > 0 && type < (int64_t)(sizeof(names) / sizeof(*names)) ? type : 0];
}

/* The first of these columns that has a text. */
static void put_column(struct reader *x, enum column a, enum column b)
{
	size_t len = 0;
	const char *p = import_nsys_db_name(&x->db, x->row, (int)a, &len);

	if (!p)
		p = import_nsys_db_name(&x->db, x->row, (int)b, &len);
	if (p && x->kind == IMPORT_NSYS_CALL)
		len = plain_length(p, len);
	if (p)
		buf_append(&x->name, p, len);
	else
		buf_puts(&x->name, "(no name)");
}

static void set_name(struct reader *x)
{
	const char *from, *to;

	x->name.len = 0;
	switch (x->kind) {
	case IMPORT_NSYS_KERNEL:
		put_column(x, DEMANGLED, SHORT);
		break;
	case IMPORT_NSYS_MEMCPY:
		from = memory_kind(x, SOURCE);
		to = memory_kind(x, TARGET);
		buf_printf(&x->name, "Memcpy %s", copy_kind(number(x, COPY_KIND, 0)));
		if (*from && *to)
			buf_printf(&x->name, " (%s -> %s)", from, to);
		break;
	case IMPORT_NSYS_MEMSET:
		buf_puts(&x->name, "Memset (Device)");
		break;
	case IMPORT_NSYS_SYNC:
		buf_puts(&x->name, sync_type(number(x, SYNC_TYPE, 0)));
		break;
	case IMPORT_NSYS_NVTX:
		put_column(x, TEXT, TEXT_ID);
		break;
	default:
		put_column(x, NAME_ID, NAME_ID);
		break;
	}
}

/* ---- events --------------------------------------------------------------------------------- */

/* Ids of processes are 24 bits in the middle of a global number, those of threads below. */
static int64_t pid_of(const struct reader *x)
{
	int64_t v = number(x, GLOBAL_TID, number(x, GLOBAL_PID, 0));

	return v >> 24 & 0xffffff;
}

/* Correlations are those of a process: of the second on they get a number in front. */
static int64_t correlation_of(struct reader *x)
{
	int64_t c = number(x, CORRELATION, -1), pid = pid_of(x);

	if (c < 0 || c > UINT32_MAX)
		return -1;
	return c + ((int64_t)place_in(x->processes, &x->n_processes, PROCESSES_MAX, pid) << 32);
}

static void put_launch(struct reader *x)
{
	struct buf *b = &x->out.text;

	if (number(x, GRID_X, -1) >= 0)
		buf_printf(b, ",\"grid\":[%" PRId64 ",%" PRId64 ",%" PRId64 "]",
			   number(x, GRID_X, 1), number(x, GRID_Y, 1), number(x, GRID_Z, 1));
	if (number(x, BLOCK_X, -1) >= 0)
		buf_printf(b, ",\"block\":[%" PRId64 ",%" PRId64 ",%" PRId64 "]",
			   number(x, BLOCK_X, 1), number(x, BLOCK_Y, 1), number(x, BLOCK_Z, 1));
	if (number(x, REGISTERS, -1) >= 0)
		buf_printf(b, ",\"registers per thread\":%" PRId64, number(x, REGISTERS, 0));
	if (number(x, STATIC, -1) >= 0)
		buf_printf(b, ",\"shared memory\":%.0f",
			   (double)number(x, STATIC, 0) + (double)number(x, DYNAMIC, 0));
}

static void put_bytes(struct reader *x, int64_t ns)
{
	int64_t bytes = number(x, BYTES, -1);

	if (bytes < 0)
		return;
	buf_printf(&x->out.text, ",\"bytes\":%" PRId64, bytes);
	if (ns)
		buf_printf(&x->out.text, ",\"memory bandwidth (GB/s)\":%.6g",
			   (double)bytes / (double)ns);
}

static void put_event(struct reader *x, int64_t ts, int64_t ns)
{
	int64_t device = number(x, DEVICE, 0), stream = number(x, STREAM, -1);
	int64_t correlation = correlation_of(x);
	bool is_gpu = kinds[x->kind].is_gpu;
	const char *cat = kinds[x->kind].cat, *name = buf_str(&x->name);
	struct buf *b = &x->out.text;

	if (is_gpu)
		place_in(x->devices, &x->n_devices, DEVICES_MAX, device);
	else
		place_in(x->processes, &x->n_processes, PROCESSES_MAX, pid_of(x));
	if (!x->writes)
		return;
	if (x->kind == IMPORT_NSYS_CALL && strncmp(name, "cuda", 4) != 0)
		cat = "cuda_driver";
	import_out_event(&x->out, 'X', cat, name, x->name.len, is_gpu ? device : pid_of(x),
			 is_gpu ? (stream < 0 ? 0 : stream) : number(x, GLOBAL_TID, 0) & 0xffffff,
			 ts);
	buf_puts(b, ",\"dur\":");
	write_us(b, ns, false);
	buf_puts(b, ",\"args\":{\"source\":\"nsys\"");
	if (is_gpu)
		buf_printf(b, ",\"device\":%" PRId64 ",\"context\":%" PRId64, device,
			   number(x, CONTEXT, 0));
	if (is_gpu && stream >= 0)
		buf_printf(b, ",\"stream\":%" PRId64, stream);
	if (correlation >= 0 && x->kind != IMPORT_NSYS_OS)
		buf_printf(b, ",\"correlation\":%" PRId64, correlation);
	if (x->kind == IMPORT_NSYS_KERNEL)
		put_launch(x);
	put_bytes(x, ns);
	buf_putc(b, '}');
	import_out_event_end(&x->out);
}

/* Of NVTX_EVENTS only ranges last: pushed and popped (59), begun and ended (60). */
static bool is_wanted(const struct reader *x)
{
	int64_t type = number(x, EVENT_TYPE, 59);

	return x->kind != IMPORT_NSYS_NVTX || type == 59 || type == 60;
}

static int put_row(struct reader *x)
{
	struct import_nsys *r = x->r;
	int64_t ts = number(x, START, -1), end = number(x, END, -1);

	if (!is_wanted(x))
		return 0;
	if (ts < 0 || end < ts || end > TIME_MAX) {
		r->kinds[x->kind].skipped++;
		return 0;
	}
	set_name(x);
	r->first = r->rows && r->first < ts ? r->first : ts;
	r->last = r->last > end ? r->last : end;
	r->rows++;
	r->kinds[x->kind].rows++;
	if (__builtin_add_overflow(r->kinds[x->kind].ns, end - ts, &r->kinds[x->kind].ns))
		r->kinds[x->kind].ns = INT64_MAX;
	put_event(x, ts, end - ts);
	return x->name.error ? x->name.error
			     : import_nsys_count(x->r, &x->index, x->kind, buf_str(&x->name),
						 x->name.len, end - ts);
}

static int read_kind(struct reader *x, enum import_nsys_kind kind, struct err *e)
{
	int rc = import_nsys_db_begin(&x->db, kinds[kind].table, columns, COLUMNS, &x->row, e);

	x->kind = kind;
	x->r->kinds[kind].has_table = rc > 0;
	while (rc > 0 && (rc = import_nsys_db_next(&x->db, x->row, e)) > 0) {
		int err = put_row(x);

		if (err)
			rc = err_set(e, err, "out of memory");
	}
	sqlite3_finalize(x->row);
	x->row = NULL;
	return rc;
}

/* ---- what stands beside --------------------------------------------------------------------- */

/* Call fn for each row of a table. */
static int each(struct reader *x, const char *table, const char *const names[], size_t n,
		void (*fn)(struct reader *x, unsigned number), struct err *e)
{
	int rc = import_nsys_db_begin(&x->db, table, names, n, &x->row, e);
	unsigned i = 0;

	while (rc > 0 && (rc = import_nsys_db_next(&x->db, x->row, e)) > 0)
		fn(x, i++);
	sqlite3_finalize(x->row);
	x->row = NULL;
	return rc;
}

static void take_start(struct reader *x, unsigned i)
{
	int64_t ns = import_nsys_db_int(x->row, 0, 0);

	if (!i && ns > 0)
		x->r->base_ns = ns;
}

/* "Pinned", without what stands around it in some versions. */
static void take_memory_kind(struct reader *x, unsigned i)
{
	int64_t id = import_nsys_db_int(x->row, 0, -1);
	const char *p = (const char *)sqlite3_column_text(x->row, 1);

	(void)i;
	if (id >= 0 && id < MEMORY_KINDS && p)
		snprintf(x->memory[id], sizeof(x->memory[id]), "%s", p);
}

static void take_gpu(struct reader *x, unsigned i)
{
	struct buf *b = &x->out.text;
	const char *name = (const char *)sqlite3_column_text(x->row, 1);

	if (!x->writes)
		return;
	buf_printf(b, "%s{\"id\":%" PRId64 ",\"name\":", i ? ",\n" : ",\n\"deviceProperties\":[",
		   import_nsys_db_int(x->row, 0, 0));
	write_text(b, name ? name : "", name ? strlen(name) : 0);
	buf_printf(b,
		   ",\"totalGlobalMem\":%" PRId64 ",\"numSms\":%" PRId64
		   ",\"computeMajor\":%" PRId64 ",\"computeMinor\":%" PRId64
		   ",\"warpSize\":%" PRId64 "}",
		   import_nsys_db_int(x->row, 2, 0), import_nsys_db_int(x->row, 3, 0),
		   import_nsys_db_int(x->row, 4, 0), import_nsys_db_int(x->row, 5, 0),
		   import_nsys_db_int(x->row, 6, 32));
}

static void take_thread(struct reader *x, unsigned i)
{
	int64_t v = import_nsys_db_int(x->row, 1, 0);
	size_t len = 0;
	const char *p = import_nsys_db_name(&x->db, x->row, 0, &len);

	(void)i;
	if (p && x->writes)
		import_out_name(&x->out, v >> 24 & 0xffffff, v & 0xffffff, p, len);
}

static void take_process(struct reader *x, unsigned i)
{
	int64_t v = import_nsys_db_int(x->row, 1, 0);
	size_t len = 0;
	const char *p = import_nsys_db_name(&x->db, x->row, 0, &len);

	(void)i;
	if (p && x->writes)
		import_out_name(&x->out, v >> 24 & 0xffffff, -1, p, len);
}

static int read_head(struct reader *x, struct write_sink *sink, struct err *e)
{
	static const char *const start[] = {"utcEpochNs"}, *const memory[] = {"id", "label"},
				 *const gpu[] = {
					 "id",           "name",         "totalMemory",   "smCount",
					 "computeMajor", "computeMinor", "threadsPerWarp"};
	size_t before;
	int rc = each(x, "TARGET_INFO_SESSION_START_TIME", start, 1, take_start, e);

	if (!rc)
		rc = each(x, "ENUM_CUDA_MEM_KIND", memory, 2, take_memory_kind, e);
	if (rc)
		return rc;
	import_out_begin(&x->out, sink, "nsys", x->r->base_ns);
	before = x->out.text.len;
	rc = each(x, "TARGET_INFO_GPU", gpu, sizeof(gpu) / sizeof(*gpu), take_gpu, e);
	if (x->out.text.len > before)
		buf_putc(&x->out.text, ']');
	import_out_list(&x->out);
	return rc;
}

static int read_all(struct reader *x, struct write_sink *sink, struct err *e)
{
	static const char *const threads[] = {"nameId", "globalTid"}, *const processes[] = {
									      "name", "globalPid"};
	int rc = read_head(x, sink, e);

	for (int k = 0; k < IMPORT_NSYS_KINDS && !rc; k++)
		rc = read_kind(x, (enum import_nsys_kind)k, e);
	if (!rc)
		rc = each(x, "ThreadNames", threads, 2, take_thread, e);
	if (!rc)
		rc = each(x, "PROCESSES", processes, 2, take_process, e);
	for (size_t i = 0; i < x->n_devices && !rc && x->writes; i++) {
		char name[48];
		int len = snprintf(name, sizeof(name), "GPU %" PRId64, x->devices[i]);

		import_out_name(&x->out, x->devices[i], -1, name, (size_t)len);
	}
	return rc;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int by_time(const void *a, const void *b)
{
	const struct import_nsys_name *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Some table that is read must be there. */
static int check_tables(const struct import_nsys *r, struct err *e)
{
	for (int k = 0; k < IMPORT_NSYS_KINDS; k++)
		if (r->kinds[k].has_table)
			return 0;
	return err_set(e, -EBADMSG,
		       "no export of nsys: none of the tables %s, %s, %s and others is in it",
		       kinds[IMPORT_NSYS_KERNEL].table, kinds[IMPORT_NSYS_CALL].table,
		       kinds[IMPORT_NSYS_NVTX].table);
}

static int run(const char *path, void *data, size_t len, struct write_sink *sink,
	       struct import_nsys *ret, struct err *e)
{
	struct reader *x = calloc(1, sizeof(*x));
	struct import_nsys r = {.n = 0};
	int rc, err;

	if (!x)
		return err_set(e, -ENOMEM, "out of memory");
	rc = import_nsys_db_open(path, data, len, &x->db, e);
	if (rc) {
		free(x);
		return rc;
	}
	x->r = &r;
	x->writes = sink != NULL;
	buf_init(&x->name, 32u << 20);
	rc = read_all(x, sink, e);
	if (!rc)
		rc = check_tables(&r, e);
	err = x->writes ? import_out_end(&x->out) : 0;
	if (!x->writes)
		buf_done(&x->out.text);
	if (!rc && err)
		rc = err_set(e, err, "out of memory");
	r.events = x->out.events;
	r.devices = (unsigned)x->n_devices;
	r.processes = (unsigned)x->n_processes;
	buf_done(&x->name);
	free(x->index.slots);
	import_nsys_db_close(&x->db);
	free(x);
	if (rc) {
		import_nsys_done(&r);
		return rc;
	}
	if (r.n)
		qsort(r.names, r.n, sizeof(*r.names), by_time);
	*ret = r;
	return 0;
}

int import_nsys(const char *path, struct write_sink *sink, struct import_nsys *ret, struct err *e)
{
	return run(path, NULL, 0, sink, ret, e);
}

int import_nsys_bytes(void *data, size_t len, struct write_sink *sink, struct import_nsys *ret,
		      struct err *e)
{
	return run(NULL, data, len, sink, ret, e);
}

void import_nsys_done(struct import_nsys *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->names[i].name);
	free(n->names);
	n->names = NULL;
	n->n = n->cap = 0;
}

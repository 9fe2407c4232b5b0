/* SPDX-License-Identifier: Apache-2.0
 *
 * key.c - two tables, of an event's keys and of its args' keys, most used first.
 */
#include "trace/key.h"

#include <string.h>

#include "trace/reading.h"

#define ROW(name, op, at)                                                                          \
	{                                                                                          \
		name, sizeof(name) - 1, op, at                                                     \
	}
#define COLUMN(name, field) ROW(name, KEY_COLUMN, offsetof(struct event, field))

static const struct key_row event_rows[] = {
	ROW("ph", KEY_PHASE, 0),  ROW("cat", KEY_CAT, 0),    ROW("name", KEY_NAME, 0),
	ROW("pid", KEY_PID, 0),   ROW("tid", KEY_TID, 0),    ROW("ts", KEY_TS, 0),
	ROW("dur", KEY_DUR, 0),   ROW("args", KEY_ARGS, 0),  ROW("id", KEY_SKIP, 0),
	ROW("s", KEY_SKIP, 0),    ROW("bp", KEY_SKIP, 0),    ROW("tts", KEY_SKIP, 0),
	ROW("tdur", KEY_SKIP, 0), ROW("cname", KEY_SKIP, 0), {NULL, 0, 0, 0},
};

static const struct key_row args_rows[] = {
	COLUMN("External id", external),
	COLUMN("correlation", correlation),
	ROW("Input Dims", KEY_JSON, ARGSET_DIMS),
	ROW("Input dims", KEY_JSON, ARGSET_DIMS),
	ROW("Input type", KEY_JSON, ARGSET_TYPES),
	ROW("Input Strides", KEY_JSON, ARGSET_STRIDES),
	ROW("Concrete Inputs", KEY_JSON, ARGSET_CONCRETE),
	ROW("Sequence number", KEY_INT, ARGSET_SEQUENCE),
	ROW("Fwd thread id", KEY_INT, ARGSET_FORWARD_THREAD),
	ROW("stream", KEY_STREAM, 0),
	ROW("device", KEY_INT, ARGSET_DEVICE),
	ROW("context", KEY_INT, ARGSET_CONTEXT),
	ROW("grid", KEY_GRID, ARGSET_GRID),
	ROW("block", KEY_GRID, ARGSET_BLOCK),
	ROW("registers per thread", KEY_INT, ARGSET_REGISTERS),
	ROW("shared memory", KEY_INT, ARGSET_SHARED_MEMORY),
	ROW("blocks per SM", KEY_DOUBLE, ARGSET_BLOCKS_PER_SM),
	ROW("warps per SM", KEY_DOUBLE, ARGSET_WARPS_PER_SM),
	ROW("est. achieved occupancy %", KEY_DOUBLE, ARGSET_OCCUPANCY),
	ROW("bytes", KEY_INT, ARGSET_BYTES),
	ROW("memory bandwidth (GB/s)", KEY_DOUBLE, ARGSET_BANDWIDTH),
	ROW("Python id", KEY_INT, ARGSET_PYTHON_ID),
	ROW("Python parent id", KEY_INT, ARGSET_PYTHON_PARENT),
	ROW("Python module id", KEY_INT, ARGSET_PYTHON_MODULE),
	ROW("Call stack", KEY_TEXT, ARGSET_STACK),
	COLUMN("external id", external),
	COLUMN("Addr", address),
	COLUMN("Bytes", bytes),
	COLUMN("Total Allocated", allocated),
	COLUMN("Total Reserved", reserved),
	COLUMN("Device Type", device_type),
	COLUMN("Device Id", device),
	ROW("wait_on_stream", KEY_INT, ARGSET_WAIT_ON_STREAM),
	ROW("wait_on_cuda_event_record_corr_id", KEY_INT, ARGSET_WAIT_ON_RECORD),
	ROW("wait_on_cuda_event_id", KEY_INT, ARGSET_WAIT_ON_EVENT),
	ROW("kernel_backend", KEY_TEXT, ARGSET_KERNEL_BACKEND),
	ROW("kernel_file", KEY_TEXT, ARGSET_KERNEL_FILE),
	ROW("flops", KEY_INT, ARGSET_FLOPS),
	ROW("Flops", KEY_INT, ARGSET_FLOPS),
	ROW("FLOPs", KEY_INT, ARGSET_FLOPS),
	ROW("Collective name", KEY_TEXT, ARGSET_COLLECTIVE),
	ROW("Process Group Name", KEY_TEXT, ARGSET_GROUP_NAME),
	ROW("Process Group Description", KEY_TEXT, ARGSET_GROUP_DESCRIPTION),
	ROW("dtype", KEY_TEXT, ARGSET_COLLECTIVE_DTYPE),
	ROW("In msg nelems", KEY_INT, ARGSET_IN_ELEMENTS),
	ROW("Out msg nelems", KEY_INT, ARGSET_OUT_ELEMENTS),
	ROW("Group size", KEY_INT, ARGSET_GROUP_SIZE),
	ROW("Comms Id", KEY_INT, ARGSET_COMMS_ID),
	ROW("name", KEY_LABEL, 0),
	ROW("labels", KEY_LABEL, 0),
	COLUMN("sort_index", sort_index),
	{NULL, 0, 0, 0},
};

_Static_assert(sizeof(args_rows) / sizeof(*args_rows) <= 64, "key_number() is below 64");

const struct key_row *key_find(bool in_args, const char *key, size_t len)
{
	const struct key_row *row = in_args ? args_rows : event_rows;

	for (; row->name; row++)
		if (row->len == len && !memcmp(row->name, key, len))
			break;
	return row;
}

bool key_is_event(const char *key, size_t len)
{
	return key_find(false, key, len)->name;
}

unsigned key_number(const struct key_row *row)
{
	bool in_args = row >= args_rows && row < args_rows + sizeof(args_rows) / sizeof(*args_rows);

	return (unsigned)(row - (in_args ? args_rows : event_rows));
}

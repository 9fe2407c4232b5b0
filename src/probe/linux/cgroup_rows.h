/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup_rows.h - private to the group cgroup: its rows.
 */
#ifndef PROBE_LINUX_CGROUP_ROWS_H
#define PROBE_LINUX_CGROUP_ROWS_H

#include "probe/probe.h"

enum cg_row {
	CG_USED,
	CG_LIMIT,
	CG_WORKING,
	CG_ANON,
	CG_FILE,
	CG_SHARED,
	CG_PEAK,
	CG_SWAP,
	CG_LOW, /* in the order of enum cgrouptext_event */
	CG_HIGH,
	CG_MAX,
	CG_OOM,
	CG_KILLS,
	CG_CPU,
	CG_QUOTA,
	CG_THROTTLED,
	CG_THROTTLED_PERIODS,
	CG_READ,
	CG_WRITTEN,
	CG_THREADS,
	CG_THREADS_LIMIT,
	CG_PRESSURE, /* some of cpu, memory, io; then full */
	CG_PRESSURE_FULL = CG_PRESSURE + 3,
	CG_RISK = CG_PRESSURE_FULL + 3,
	CG_TIME,
	CG_ROWS
};

extern const struct probe_metric cg_rows[CG_ROWS];

#endif

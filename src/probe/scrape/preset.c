/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/scrape/preset.h"

#include "base/mem.h"
#include "wire/sink.h"

#include <string.h>

#define GAUGE SINK_GAUGE
#define COUNTER SINK_COUNTER
#define MIB 1048576.0

/* A row: its labels are our keys, with the target's. */
#define PRESET_ROW(from_, name_, unit_, scale_, kind_, help_, keys_, labels_)                      \
	{                                                                                          \
		from_, {name_, unit_, help_, from_, kind_, PROBE_COST_EACH, keys_}, scale_,        \
			labels_                                                                    \
	}
#define DCGM(from_, name_, unit_, scale_, kind_, help_)                                            \
	PRESET_ROW("DCGM_FI_" from_, name_, unit_, scale_, kind_, help_, "gpu, mig, target",       \
		   "gpu=gpu,mig=GPU_I_ID")
#define RAY_GPU(from_, name_, unit_, scale_, help_)                                                \
	PRESET_ROW("ray_node_" from_, name_, unit_, scale_, GAUGE, help_, "gpu, node, target",     \
		   "gpu=GpuIndex,node=@node")
#define RAY(from_, name_, unit_, scale_, help_)                                                    \
	PRESET_ROW("ray_node_" from_, name_, unit_, scale_, GAUGE, help_, "node, target",          \
		   "node=@node")

/* clang-format off */
static const struct preset_row preset_dcgm_rows[] = {
	DCGM("DEV_GPU_UTIL", "gpu/busy", "1", 0.01, GAUGE,
	     "share of time in which a kernel was running, as DCGM tells it"),
	DCGM("DEV_MEM_COPY_UTIL", "gpu/memory/busy", "1", 0.01, GAUGE,
	     "share of time in which device memory was read or written, as DCGM tells it"),
	DCGM("DEV_FB_USED", "gpu/memory/used", "By", MIB, GAUGE, "device memory in use"),
	DCGM("DEV_FB_FREE", "gpu/memory/free", "By", MIB, GAUGE, "device memory that is free"),
	DCGM("DEV_FB_TOTAL", "gpu/memory/total", "By", MIB, GAUGE, "device memory"),
	DCGM("DEV_POWER_USAGE", "gpu/power", "W", 1, GAUGE,
	     "power drawn, since Ampere the mean of a second"),
	DCGM("DEV_TOTAL_ENERGY_CONSUMPTION", "gpu/energy", "J", 1e-3, COUNTER, "energy used"),
	DCGM("DEV_GPU_TEMP", "gpu/temperature", "Cel", 1, GAUGE, "temperature of the GPU"),
	DCGM("DEV_MEMORY_TEMP", "gpu/temperature/memory", "Cel", 1, GAUGE,
	     "temperature of the device memory"),
	DCGM("DEV_SM_CLOCK", "gpu/clock/sm", "Hz", 1e6, GAUGE, "clock of the multiprocessors"),
	DCGM("DEV_MEM_CLOCK", "gpu/clock/memory", "Hz", 1e6, GAUGE, "clock of the device memory"),
	DCGM("DEV_ECC_SBE_VOL_TOTAL", "gpu/ecc/corrected", "1", 1, COUNTER,
	     "memory errors that were corrected"),
	DCGM("DEV_ECC_DBE_VOL_TOTAL", "gpu/ecc/uncorrected", "1", 1, COUNTER,
	     "memory errors that could not be corrected"),
	DCGM("DEV_PCIE_REPLAY_COUNTER", "gpu/pcie/replays", "1", 1, COUNTER,
	     "PCIe packets that were sent again"),
	DCGM("DEV_XID_ERRORS", "gpu/xid/last", "1", 1, GAUGE,
	     "number of the last XID error; 0 none"),
	DCGM("PROF_GR_ENGINE_ACTIVE", "gpu/active", "1", 1, GAUGE,
	     "share of time in which the graphics or compute engine was busy"),
	DCGM("PROF_SM_ACTIVE", "gpu/sm/active", "1", 1, GAUGE,
	     "share of time in which a multiprocessor had a warp, mean of all"),
	DCGM("PROF_SM_OCCUPANCY", "gpu/sm/occupancy", "1", 1, GAUGE,
	     "resident warps of those that fit, mean of all multiprocessors"),
	DCGM("PROF_PIPE_TENSOR_ACTIVE", "gpu/tensor/active", "1", 1, GAUGE,
	     "share of cycles in which the tensor pipe was busy"),
	DCGM("PROF_DRAM_ACTIVE", "gpu/dram/active", "1", 1, GAUGE,
	     "share of cycles in which device memory was transferring"),
	{.from = NULL},
};

static const struct preset_row preset_ray_rows[] = {
	RAY_GPU("gpus_utilization", "ray/gpu/busy", "1", 0.01,
		"share of time in which a kernel was running, as Ray's agent tells it"),
	RAY_GPU("gram_used", "ray/gpu/memory/used", "By", MIB, "device memory in use"),
	RAY_GPU("gram_available", "ray/gpu/memory/free", "By", MIB, "device memory that is free"),
	RAY("mem_used", "ray/memory/used", "By", 1, "memory of the node in use"),
	RAY("mem_available", "ray/memory/available", "By", 1,
	    "memory of the node that programs can still get"),
	RAY("mem_total", "ray/memory/total", "By", 1, "memory of the node"),
	RAY("cpu_utilization", "ray/cpu/busy", "1", 0.01, "share of the node's CPU time in use"),
	RAY("cpu_count", "ray/cpu/count", "1", 1, "CPUs of the node"),
	{.from = NULL},
};

static const char *const preset_ray_keep[] = {
	"ray_node_*", "ray_tasks", "ray_actors", "ray_resources", "ray_cluster_*",
	"ray_object_store_*", NULL};
static const char *const preset_ray_labels[] = {"SessionName", "Version", "IsHeadNode", "pid",
						NULL};
static const char *const preset_dcgm_labels[] = {"UUID", "Hostname", "device", "modelName",
						 "pci_bus_id", "DCGM_FI_DRIVER_VERSION", "err_msg",
						 NULL};
static const char *const preset_python_drop[] = {"python_*", "process_*", "*_created",
						 NULL};
static const char *const preset_node_drop[] = {"go_*", "promhttp_*", "process_*",
					       "node_scrape_*", NULL};

static const struct scrape_preset preset_table[] = {
	{.name = "", .port = "", .from = "", .to = "scrape/"},
	{.name = "dcgm", .port = "9400", .from = "DCGM_FI_", .to = "dcgm/",
	 .drop_labels = preset_dcgm_labels, .rows = preset_dcgm_rows},
	{.name = "node", .port = "9100", .from = "node_", .to = "node/",
	 .drop = preset_node_drop},
	{.name = "ray", .port = "8080", .from = "ray_", .to = "ray/", .keep = preset_ray_keep,
	 .drop_labels = preset_ray_labels, .rows = preset_ray_rows},
	{.name = "vllm", .port = "8000", .from = "vllm:", .to = "vllm/",
	 .drop = preset_python_drop},
};
/* clang-format on */

const struct scrape_preset *preset_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(preset_table); i++)
		if (strcmp(preset_table[i].name, name) == 0)
			return &preset_table[i];
	return NULL;
}

const struct scrape_preset *preset_at(size_t i)
{
	return i + 1 < ARRAY_LEN(preset_table) ? &preset_table[i + 1] : NULL;
}

const struct preset_row *preset_row_of(const struct scrape_preset *p, const char *name, size_t len)
{
	const struct preset_row *r;

	for (r = p->rows; r && r->from; r++)
		if (strlen(r->from) == len && memcmp(r->from, name, len) == 0)
			return r;
	return NULL;
}

static bool preset_ends(const char *name, size_t *len, const char *suffix)
{
	size_t n = strlen(suffix);

	if (*len <= n || memcmp(name + *len - n, suffix, n) != 0)
		return false;
	*len -= n;
	return true;
}

const char *preset_unit(const char *name, size_t len)
{
	static const struct {
		const char *suffix, *unit;
	} units[] = {
		{"_seconds", "s"}, {"_bytes", "By"},  {"_celsius", "Cel"}, {"_ratio", "1"},
		{"_joules", "J"},  {"_watts", "W"},   {"_hertz", "Hz"},    {"_volts", "V"},
		{"_amperes", "A"}, {"_percent", "%"},
	};
	size_t i;

	if (!preset_ends(name, &len, "_total"))
		preset_ends(name, &len, "_sum");
	for (i = 0; i < ARRAY_LEN(units); i++)
		if (preset_ends(name, &len, units[i].suffix))
			return units[i].unit;
	return "";
}

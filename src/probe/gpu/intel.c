/* SPDX-License-Identifier: Apache-2.0
 *
 * intel.c - Intel's GPUs by the files of i915 and xe.
 */
#include "probe/groups.h"

#include "base/mem.h"
#include "probe/gpu/card.h"

/* clang-format off */
static const struct card_source intel_sources[] = {
	{GPU_BUSY, CARD_NEVER, 0, "i915 and xe tell it only by perf events, to holders of CAP_PERFMON"},
	{GPU_CLOCK_SM, CARD_GAUGE, 1e6, "gt_act_freq_mhz"},
	{GPU_CLOCK_SM, CARD_GAUGE, 1e6, "gt_cur_freq_mhz"},
	{GPU_CLOCK_SM, CARD_GAUGE, 1e6, "device/tile0/gt0/freq0/act_freq"},
	{GPU_CLOCK_SM, CARD_GAUGE, 1e6, "device/tile0/gt0/freq0/cur_freq"},
	{GPU_CLOCK_SM_MAX, CARD_GAUGE, 1e6, "gt_max_freq_mhz"},
	{GPU_CLOCK_SM_MAX, CARD_GAUGE, 1e6, "device/tile0/gt0/freq0/max_freq"},
	{GPU_ENERGY, CARD_COUNT, 1e-6, "@/energy1_input"},
	{GPU_ENERGY, CARD_COUNT, 1e-6, "@/energy2_input"},
	{GPU_POWER, CARD_MEAN_POWER, 1e-6, "@/energy1_input"},
	{GPU_POWER, CARD_MEAN_POWER, 1e-6, "@/energy2_input"},
	{GPU_POWER_LIMIT, CARD_GAUGE, 1e-6, "@/power1_max"},
	{GPU_TEMPERATURE, CARD_GAUGE, 1e-3, "@/temp2_input"},
	{GPU_TEMPERATURE, CARD_GAUGE, 1e-3, "@/temp1_input"},
	{GPU_TEMPERATURE_MEMORY, CARD_GAUGE, 1e-3, "@/temp3_input"},
	{GPU_PCIE_GENERATION, CARD_SPEED, 1, "device/current_link_speed"},
	{GPU_PCIE_WIDTH, CARD_GAUGE, 1, "device/current_link_width"},
};
/* clang-format on */
_Static_assert(ARRAY_LEN(intel_sources) <= CARD_SOURCES_MAX, "CARD_SOURCES_MAX");

static int intel_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		      struct err *e)
{
	static const struct card_vendor vendor = {0x8086, "intel", "Intel GPU", intel_sources,
						  ARRAY_LEN(intel_sources)};

	(void)s;
	return card_open(env, &vendor, ret_state, e);
}

const struct probe_group probe_intel = {
	.name = "intel",
	.metrics = gpu_rows,
	.n_metrics = GPU_ROWS,
	.place = PROBE_GPU,
	.period_ns = 1000000000,
	.open = intel_open,
	.read = card_read,
	.close = card_close,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * amd.c - AMD's GPUs by the files of amdgpu. pcie_bw is left alone: reading it
 * blocks for a second.
 */
#include "probe/groups.h"

#include "base/mem.h"
#include "probe/gpu/card.h"

/* clang-format off */
static const struct card_source amd_sources[] = {
	{GPU_BUSY, CARD_GAUGE, 1e-2, "device/gpu_busy_percent"},
	{GPU_BUSY, CARD_NEVER, 0, "amdgpu does not tell it here (a virtual function, or an old kernel)"},
	{GPU_MEMORY_BUSY, CARD_GAUGE, 1e-2, "device/mem_busy_percent"},
	{GPU_MEMORY_USED, CARD_GAUGE, 1, "device/mem_info_vram_used"},
	{GPU_MEMORY_TOTAL, CARD_GAUGE, 1, "device/mem_info_vram_total"},
	{GPU_POWER, CARD_GAUGE, 1e-6, "@/power1_average"},
	{GPU_POWER, CARD_GAUGE, 1e-6, "@/power1_input"},
	{GPU_POWER_LIMIT, CARD_GAUGE, 1e-6, "@/power1_cap"},
	{GPU_ENERGY, CARD_COUNT, 1e-6, "@/energy1_input"},
	{GPU_TEMPERATURE, CARD_GAUGE, 1e-3, "@/temp1_input"},
	{GPU_TEMPERATURE, CARD_GAUGE, 1e-3, "@/temp2_input"},
	{GPU_TEMPERATURE_MEMORY, CARD_GAUGE, 1e-3, "@/temp3_input"},
	{GPU_CLOCK_SM, CARD_GAUGE, 1, "@/freq1_input"},
	{GPU_CLOCK_SM, CARD_CHOSEN, 1e6, "device/pp_dpm_sclk"},
	{GPU_CLOCK_MEMORY, CARD_GAUGE, 1, "@/freq2_input"},
	{GPU_CLOCK_MEMORY, CARD_CHOSEN, 1e6, "device/pp_dpm_mclk"},
	{GPU_FAN, CARD_GAUGE, 1 / 255.0, "@/pwm1"},
	{GPU_ECC_CORRECTED, CARD_CORRECTED, 1, "device/ras/umc_err_count"},
	{GPU_ECC_UNCORRECTED, CARD_UNCORRECTED, 1, "device/ras/umc_err_count"},
	{GPU_PCIE_REPLAYS, CARD_COUNT, 1, "device/pcie_replay_count"},
	{GPU_PCIE_GENERATION, CARD_SPEED, 1, "device/current_link_speed"},
	{GPU_PCIE_WIDTH, CARD_GAUGE, 1, "device/current_link_width"},
};
/* clang-format on */
_Static_assert(ARRAY_LEN(amd_sources) <= CARD_SOURCES_MAX, "CARD_SOURCES_MAX");

static int amd_open(const struct probe_env *env, struct probe_set *s, void **ret_state,
		    struct err *e)
{
	static const struct card_vendor vendor = {0x1002, "amd", "AMD GPU", amd_sources,
						  ARRAY_LEN(amd_sources)};

	(void)s;
	return card_open(env, &vendor, ret_state, e);
}

const struct probe_group probe_amd = {
	.name = "amd",
	.metrics = gpu_rows,
	.n_metrics = GPU_ROWS,
	.place = PROBE_GPU,
	.period_ns = 1000000000,
	.open = amd_open,
	.read = card_read,
	.close = card_close,
};

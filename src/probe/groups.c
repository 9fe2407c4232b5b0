/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.c - the table of all groups, in the order in which they are read.
 */
#include "probe/groups.h"

#include <stddef.h>

const struct probe_group *const probe_groups[] = {
	&probe_cpu,
	&probe_load,
	&probe_memory,
	&probe_vmstat,
	&probe_pressure,
	&probe_numa,
	&probe_limits,
	&probe_frequency,
	&probe_hwmon,
	&probe_disk,
	&probe_network,
	&probe_link,
	&probe_infiniband,
	&probe_filesystem,
	&probe_files,
	&probe_kernel,
	&probe_self,
	&probe_scrape_machine,
	&probe_nvidia,
	&probe_nvidia_slow,
	&probe_amd,
	&probe_intel,
	/* of a run */
	&probe_tree_group,
	&probe_process,
	&probe_cgroup,
	&probe_shm,
	&probe_scrape,
	NULL,
};

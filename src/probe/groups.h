/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.h - every group by name; who wants all of them takes probe_groups.
 */
#ifndef PROBE_GROUPS_H
#define PROBE_GROUPS_H

#include "probe/probe.h"

/* linux/ */
extern const struct probe_group probe_cpu, probe_load, probe_frequency, probe_hwmon;
extern const struct probe_group probe_memory, probe_vmstat, probe_numa, probe_pressure;
extern const struct probe_group probe_disk, probe_filesystem, probe_network, probe_infiniband;
extern const struct probe_group probe_kernel, probe_limits, probe_self;
extern const struct probe_group probe_files, probe_link;
/* linux/, of a run */
extern const struct probe_group probe_tree_group, probe_process, probe_cgroup, probe_shm;
/* scrape/, of a run and of the machine */
extern const struct probe_group probe_scrape, probe_scrape_machine;
/* gpu/ */
extern const struct probe_group probe_nvidia, probe_nvidia_slow, probe_amd, probe_intel;

#endif

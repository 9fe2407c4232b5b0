/* SPDX-License-Identifier: Apache-2.0
 *
 * psi.h - the text of pressure stall information: /proc/pressure/X, and X.pressure
 * of a cgroup.
 */
#ifndef PROBE_LINUX_PSI_H
#define PROBE_LINUX_PSI_H

#include <stddef.h>
#include <stdint.h>

#define PSI_NONE UINT64_MAX /* the text has no such line */

/* The totals of the lines "some" and "full": microseconds in which some task, or all
 * tasks that were not idle, waited. A line that is not there gives PSI_NONE: the cpu file
 * has no full before Linux 5.13, the irq file no some. 0; -EBADMSG neither is there, or
 * one is malformed, and nothing is written. */
int psi_parse(const char *text, size_t len, uint64_t *some_us, uint64_t *full_us);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/linux/pidns.h"

#include <sys/stat.h>

#define PIDNS_FIRST_INO 0xEFFFFFFCu /* PROC_PID_INIT_INO: a constant of the kernel's interface */

bool pidns_is_first(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == PIDNS_FIRST_INO;
}

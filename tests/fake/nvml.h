/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml.h - the strings that drive the library of nvml.c, which plays NVIDIA's: tests load
 * it through LAPSE_NVML and look up what is declared here by dlsym().
 */
#ifndef TEST_FAKE_NVML_H
#define TEST_FAKE_NVML_H

#include <stdint.h>

/* The environment variable that says what there is, read when the library is
 * initialised: words KEY=VALUE, comma-separated.
 *
 *   gpus=8          GPUs, 1 to 64
 *   arch=hopper     hopper, ampere (no GPM), kepler (no fields)
 *   mig=1:3         GPU 1 is divided into 3 instances
 *   lost=3@5        GPU 3 falls off the bus at 5 s
 *   back=3@40       and can be found again at 40 s
 *   add=7@9         GPU 7 is not there before 9 s
 *   xid=2@4:79      GPU 2 reports Xid 79 at 4 s; several are allowed
 *   proc=2:1234:M   process 1234 has M MiB on GPU 2; several; M "na": not told
 *   init=9          what nvmlInit says
 *   fail=NAME:3     the function nvmlNAME says 3; several; NAME may be "field186"
 *   slow=NAME:2000  it takes so many microseconds; several
 *   slowdown=269    place of the throttle counters; 0: none; 1: both places answer
 *   wrap=1          counters of 32 bits are near their end at 0 s
 *   narrow=1        PCIe's counters have 32 bits
 *   blank=1         numbers are sentinels that mean "not known"
 *   unload=30       the driver is unloaded at 30 s */
#define FAKE_NVML_ENV "LAPSE_FAKE_NVML"

/* Set the clock that all values are functions of; without it, it is real time since the library
 * was loaded. */
void fake_nvml_time(int64_t ns);
typedef void fake_nvml_time_fn(int64_t ns);

/* Calls of a function since the library was loaded, "DeviceGetClockInfo". */
unsigned fake_nvml_calls(const char *name);
typedef unsigned fake_nvml_calls_fn(const char *name);

#endif

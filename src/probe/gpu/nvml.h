/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml.h - what this project uses of NVIDIA's management library, loaded when it
 * is there: types and constants of its public binary interface, a table of its
 * functions, and one session a process with the time that each call took.
 *
 * The library is $LAPSE_NVML if that is set (a path, for unusual places), else
 * libnvidia-ml.so.1 where the loader and containers look for it. No part of it is
 * needed to build. One thread at a time uses a session.
 */
#ifndef PROBE_GPU_NVML_H
#define PROBE_GPU_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* ---- binary interface --------------------------------------------------------- */

enum nvml_return {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_LIB_RM_VERSION_MISMATCH = 18,
	NVML_NO_DATA = 21,
	NVML_DEPRECATED = 26,
	NVML_NOT_READY = 27,
	NVML_GPU_NOT_FOUND = 28,
	NVML_UNKNOWN = 999
};

#define NVML_NOT_AVAILABLE UINT64_MAX /* a value of 64 bits that is not known */

/* The version word of a struct: its size and a number. */
#define NVML_VERSION(type, number) ((unsigned)(sizeof(struct type) | ((unsigned)(number) << 24)))

struct nvml_device; /* handles, owned by the library */
struct nvml_event_set;
struct nvml_gpm_sample;

struct nvml_utilization {
	unsigned gpu, memory; /* per cent */
};

struct nvml_memory {
	unsigned long long total, free, used; /* bytes; used holds what is reserved too */
};

struct nvml_memory_v2 {
	unsigned version; /* NVML_VERSION(nvml_memory_v2, 2) */
	unsigned long long total, reserved, free, used;
};

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

enum nvml_value_type {
	NVML_DOUBLE = 0,
	NVML_UINT = 1,
	NVML_ULONG = 2,
	NVML_ULONGLONG = 3,
	NVML_LONGLONG = 4,
	NVML_INT = 5,
	NVML_USHORT = 6
};

union nvml_value {
	double d;
	int si;
	unsigned ui;
	unsigned long ul;
	unsigned long long ull;
	long long sll;
	unsigned short us;
};

#define NVML_SCOPE_ALL 0xffffffffU /* of NVLink's fields: all links together */

struct nvml_field {
	unsigned id, scope;
	long long timestamp_us, latency_us;
	int type; /* enum nvml_value_type */
	int ret;  /* enum nvml_return, of this value */
	union nvml_value value;
};

/* Fields that are used. The three of SLOWDOWN have had two places: 251 in drivers of
 * the years 2024 and 2025, 269 later; see nvidia_slowdown(). */
enum nvml_field_id {
	NVML_FI_ECC_CORRECTED = 3,
	NVML_FI_ECC_UNCORRECTED = 4,
	NVML_FI_RETIRED_CORRECTED = 29,
	NVML_FI_RETIRED_UNCORRECTED = 30,
	NVML_FI_RETIRED_PENDING = 31,
	NVML_FI_NVLINK_CRC_OLD = 38,
	NVML_FI_NVLINK_REPLAY_OLD = 52,
	NVML_FI_NVLINK_RECOVERY_OLD = 59,
	NVML_FI_POLICY_POWER = 74, /* ns in which the clock was held down */
	NVML_FI_POLICY_THERMAL = 75,
	NVML_FI_POLICY_SYNC_BOOST = 76,
	NVML_FI_POLICY_BOARD_LIMIT = 77,
	NVML_FI_POLICY_RELIABILITY = 79,
	NVML_FI_TEMPERATURE_MEMORY = 82,
	NVML_FI_ENERGY = 83, /* mJ */
	NVML_FI_PCIE_REPLAY = 94,
	NVML_FI_NVLINK_DATA_TX = 138, /* KiB */
	NVML_FI_NVLINK_DATA_RX = 139,
	NVML_FI_REMAPPED_CORRECTED = 142,
	NVML_FI_REMAPPED_UNCORRECTED = 143,
	NVML_FI_REMAPPED_PENDING = 144,
	NVML_FI_REMAPPED_FAILURE = 145,
	NVML_FI_NVLINK_REPLAY = 161,
	NVML_FI_NVLINK_RECOVERY = 162,
	NVML_FI_NVLINK_CRC = 163,
	NVML_FI_POWER_AVERAGE = 185, /* mW */
	NVML_FI_POWER_INSTANT = 186,
	NVML_FI_PCIE_TX = 197, /* bytes */
	NVML_FI_PCIE_RX = 198,
	NVML_FI_NVLINK_TX = 202, /* bytes, NVLink 5 */
	NVML_FI_NVLINK_RX = 204,
	NVML_FI_NVLINK_RX_ERRORS = 208,
	NVML_FI_RECOVERY_ACTION = 230,
	NVML_FI_SLOWDOWN_OLD = 251, /* + 0 thermal by software, 1 by hardware, 2 power brake */
	NVML_FI_SLOWDOWN_NEW = 269
};

enum nvml_clock {
	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEMORY = 2,
	NVML_CLOCK_VIDEO = 3
};

#define NVML_TEMPERATURE_GPU 0

struct nvml_temperature_v1 {
	unsigned version; /* NVML_VERSION(nvml_temperature_v1, 1) */
	int sensor;
	int celsius;
};

/* Why the clock is lower than it could be (bits). */
enum nvml_reason {
	NVML_REASON_IDLE = 0x1,
	NVML_REASON_APPLICATION = 0x2,
	NVML_REASON_POWER_CAP = 0x4,
	NVML_REASON_HW_SLOWDOWN = 0x8,
	NVML_REASON_SYNC_BOOST = 0x10,
	NVML_REASON_THERMAL_SW = 0x20,
	NVML_REASON_THERMAL_HW = 0x40,
	NVML_REASON_POWER_BRAKE = 0x80
};

enum nvml_event_type {
	NVML_EVENT_DOUBLE_BIT_ECC = 0x2,
	NVML_EVENT_XID = 0x8,
	NVML_EVENT_SINGLE_BIT_STORM = 0x200,
	NVML_EVENT_DRAM_RETIREMENT = 0x400,
	NVML_EVENT_DRAM_RETIREMENT_FAILED = 0x800,
	NVML_EVENT_POISON = 0x1000,
	NVML_EVENT_POISON_FATAL = 0x2000,
	NVML_EVENT_UNAVAILABLE = 0x4000,
	NVML_EVENT_RECOVERY = 0x8000
};

struct nvml_event {
	struct nvml_device *device;
	unsigned long long type, data; /* data: the number of an XID, 999 unknown */
	unsigned gpu_instance, compute_instance;
};

struct nvml_process {
	unsigned pid;
	unsigned long long memory; /* bytes, or NVML_NOT_AVAILABLE */
	unsigned gpu_instance, compute_instance;
};

struct nvml_process_sample {
	unsigned pid;
	unsigned long long timestamp_us;
	unsigned sm, memory, encoder, decoder; /* per cent */
};

enum nvml_gpm_id {
	NVML_GPM_SM = 2,
	NVML_GPM_OCCUPANCY = 3,
	NVML_GPM_INTEGER = 4,
	NVML_GPM_TENSOR = 5,
	NVML_GPM_DRAM = 10,
	NVML_GPM_FP64 = 11,
	NVML_GPM_FP32 = 12,
	NVML_GPM_FP16 = 13
};

struct nvml_gpm_metric {
	unsigned id;
	int ret;
	double value; /* per cent */
	const char *short_name, *long_name, *unit;
};

/* Its version number is 1 whatever the size of the array, which has grown with the
 * drivers; this is the size of the newest, so that none can write beyond it. */
#define NVML_GPM_METRICS 336
struct nvml_gpm_get {
	unsigned version; /* 1 */
	unsigned count;
	struct nvml_gpm_sample *before, *after;
	struct nvml_gpm_metric metrics[NVML_GPM_METRICS];
};

struct nvml_gpm_support {
	unsigned version; /* 1 */
	unsigned supported;
};

/* The functions, each NULL where the library is too old to have it. */
struct nvml_api {
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int ret);
	int (*driver_version)(char *text, unsigned len);
	int (*cuda_version)(int *version);
	int (*count)(unsigned *count);
	int (*by_index)(unsigned index, struct nvml_device **device);
	int (*name)(struct nvml_device *d, char *text, unsigned len);
	int (*uuid)(struct nvml_device *d, char *text, unsigned len);
	int (*serial)(struct nvml_device *d, char *text, unsigned len);
	int (*vbios)(struct nvml_device *d, char *text, unsigned len);
	int (*pci)(struct nvml_device *d, struct nvml_pci *pci);
	int (*utilization)(struct nvml_device *d, struct nvml_utilization *u);
	int (*encoder)(struct nvml_device *d, unsigned *per_cent, unsigned *period_us);
	int (*decoder)(struct nvml_device *d, unsigned *per_cent, unsigned *period_us);
	int (*memory)(struct nvml_device *d, struct nvml_memory *m);
	int (*memory_v2)(struct nvml_device *d, struct nvml_memory_v2 *m);
	int (*fields)(struct nvml_device *d, int count, struct nvml_field *f);
	int (*temperature)(struct nvml_device *d, int sensor, unsigned *celsius);
	int (*temperature_v)(struct nvml_device *d, struct nvml_temperature_v1 *t);
	int (*clock)(struct nvml_device *d, int clock, unsigned *mhz);
	int (*clock_max)(struct nvml_device *d, int clock, unsigned *mhz);
	int (*power)(struct nvml_device *d, unsigned *mw);
	int (*power_limit)(struct nvml_device *d, unsigned *mw);
	int (*power_enforced)(struct nvml_device *d, unsigned *mw);
	int (*power_default)(struct nvml_device *d, unsigned *mw);
	int (*power_range)(struct nvml_device *d, unsigned *min_mw, unsigned *max_mw);
	int (*reasons)(struct nvml_device *d, unsigned long long *mask);
	int (*reasons_supported)(struct nvml_device *d, unsigned long long *mask);
	int (*pstate)(struct nvml_device *d, int *state);
	int (*fan)(struct nvml_device *d, unsigned *per_cent);
	int (*pcie_generation)(struct nvml_device *d, unsigned *generation);
	int (*pcie_width)(struct nvml_device *d, unsigned *width);
	int (*pcie_generation_max)(struct nvml_device *d, unsigned *generation);
	int (*pcie_width_max)(struct nvml_device *d, unsigned *width);
	int (*ecc_mode)(struct nvml_device *d, int *now, int *pending);
	int (*ecc_total)(struct nvml_device *d, int type, int counter, unsigned long long *n);
	int (*persistence)(struct nvml_device *d, int *mode);
	int (*compute_mode)(struct nvml_device *d, int *mode);
	int (*compute_capability)(struct nvml_device *d, int *major, int *minor);
	int (*remapped)(struct nvml_device *d, unsigned *corrected, unsigned *uncorrected,
			unsigned *pending, unsigned *failed);
	int (*mig_mode)(struct nvml_device *d, unsigned *now, unsigned *pending);
	int (*mig_max)(struct nvml_device *d, unsigned *count);
	int (*mig_by_index)(struct nvml_device *d, unsigned index, struct nvml_device **mig);
	int (*gpu_instance)(struct nvml_device *mig, unsigned *id);
	int (*processes)(struct nvml_device *d, unsigned *count, struct nvml_process *p);
	int (*process_use)(struct nvml_device *d, struct nvml_process_sample *s, unsigned *count,
			   unsigned long long since_us);
	int (*event_set_create)(struct nvml_event_set **set);
	int (*event_set_free)(struct nvml_event_set *set);
	int (*event_register)(struct nvml_device *d, unsigned long long types,
			      struct nvml_event_set *set);
	int (*event_types)(struct nvml_device *d, unsigned long long *types);
	int (*event_wait)(struct nvml_event_set *set, struct nvml_event *event, unsigned ms);
	int (*gpm_support)(struct nvml_device *d, struct nvml_gpm_support *s);
	int (*gpm_alloc)(struct nvml_gpm_sample **sample);
	int (*gpm_free)(struct nvml_gpm_sample *sample);
	int (*gpm_sample)(struct nvml_device *d, struct nvml_gpm_sample *sample);
	int (*gpm_sample_mig)(struct nvml_device *parent, unsigned gpu_instance,
			      struct nvml_gpm_sample *sample);
	int (*gpm_get)(struct nvml_gpm_get *get);
};

/* ---- session ---------------------------------------------------------------------- */

/* Calls whose time is kept, for lapse/agent/nvml/time. */
enum nvml_call {
	NVML_CALL_INIT,
	NVML_CALL_DISCOVER,
	NVML_CALL_UTILIZATION,
	NVML_CALL_MEMORY,
	NVML_CALL_FIELDS,
	NVML_CALL_FIELDS_SLOW,
	NVML_CALL_TEMPERATURE,
	NVML_CALL_CLOCK,
	NVML_CALL_POWER,
	NVML_CALL_REASONS,
	NVML_CALL_EVENTS,
	NVML_CALL_GPM_SAMPLE,
	NVML_CALL_GPM_GET,
	NVML_CALL_PROCESSES,
	NVML_CALL_PROCESS_USE,
	NVML_CALL_CONSTANTS, /* limits, link, fan */
	NVML_CALLS
};
extern const char *const nvml_call_names[NVML_CALLS];

struct nvml_time {
	uint64_t count; /* calls since somebody set it to 0 */
	int64_t sum_ns, max_ns;
};

struct nvml {
	struct nvml_api api;
	void *lib;
	const char *path;    /* what was loaded */
	unsigned users;      /* of nvml_open() */
	unsigned generation; /* grows by one with each nvml_restart(): handles of before are void */
	bool up;             /* initialised */
	struct nvml_time time[NVML_CALLS];
	int64_t begin_ns;
};

/* The session of this process: the library is loaded and initialised by the first user
 * and unloaded by the last. 0; -ENODEV: there is none, and *e says why and what helps; -ENOMEM. */
int nvml_open(struct nvml **ret, struct err *e);
void nvml_close(struct nvml *n);

/* Shut the library down and initialise it again, as is needed to find what was added and after
 * a loss. All handles, samples and event sets are void; free them before. 0, -ENODEV. */
int nvml_restart(struct nvml *n, struct err *e);

/* Time a call: ret = NVML_TIMED(n, NVML_CALL_CLOCK, n->api.clock(...)). */
void nvml_begin(struct nvml *n);
int nvml_end(struct nvml *n, enum nvml_call call, int ret);
#define NVML_TIMED(n, call, expr) (nvml_begin(n), nvml_end((n), (call), (expr)))

/* Why a value is not known, for probe_absent(): static text. */
const char *nvml_why(int ret);

/* Does ret mean that the GPU, or all of the driver, is gone? */
bool nvml_is_gone(int ret);

/* The number in a field: 0, or -ENODATA if it has none (its own code, a sentinel). */
int nvml_field_number(const struct nvml_field *f, double *ret);
int nvml_field_u64(const struct nvml_field *f, uint64_t *ret);

#endif

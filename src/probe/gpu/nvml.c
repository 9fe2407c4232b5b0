/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/clock.h"

/* Of 64 bits, signed: a blank value of the data-center tools that some fields carry. */
#define NVML_BLANK 0x7ffffffffffffff0U

const char *const nvml_call_names[NVML_CALLS] = {
	[NVML_CALL_INIT] = "init",
	[NVML_CALL_DISCOVER] = "discover",
	[NVML_CALL_UTILIZATION] = "utilization",
	[NVML_CALL_MEMORY] = "memory",
	[NVML_CALL_FIELDS] = "fields",
	[NVML_CALL_FIELDS_SLOW] = "fields_slow",
	[NVML_CALL_TEMPERATURE] = "temperature",
	[NVML_CALL_CLOCK] = "clock",
	[NVML_CALL_POWER] = "power",
	[NVML_CALL_REASONS] = "reasons",
	[NVML_CALL_EVENTS] = "events",
	[NVML_CALL_GPM_SAMPLE] = "gpm_sample",
	[NVML_CALL_GPM_GET] = "gpm_get",
	[NVML_CALL_PROCESSES] = "processes",
	[NVML_CALL_PROCESS_USE] = "process_use",
	[NVML_CALL_CONSTANTS] = "constants",
};

/* Names of old drivers only where their arguments are the same, or smaller structs. */
struct nvml_symbol {
	const char *name, *old;
	size_t at;
	bool needed;
};

#define NVML_SYMBOL(member, name, old)                                                             \
	{                                                                                          \
		"nvml" name, old, offsetof(struct nvml_api, member), false                         \
	}
#define NVML_NEEDED(member, name, old)                                                             \
	{                                                                                          \
		"nvml" name, old, offsetof(struct nvml_api, member), true                          \
	}

static const struct nvml_symbol nvml_symbols[] = {
	NVML_NEEDED(init, "Init_v2", "nvmlInit"),
	NVML_NEEDED(shutdown, "Shutdown", NULL),
	NVML_SYMBOL(error_string, "ErrorString", NULL),
	NVML_SYMBOL(driver_version, "SystemGetDriverVersion", NULL),
	NVML_SYMBOL(cuda_version, "SystemGetCudaDriverVersion_v2",
		    "nvmlSystemGetCudaDriverVersion"),
	NVML_NEEDED(count, "DeviceGetCount_v2", "nvmlDeviceGetCount"),
	NVML_NEEDED(by_index, "DeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"),
	NVML_SYMBOL(name, "DeviceGetName", NULL),
	NVML_NEEDED(uuid, "DeviceGetUUID", NULL),
	NVML_SYMBOL(serial, "DeviceGetSerial", NULL),
	NVML_SYMBOL(vbios, "DeviceGetVbiosVersion", NULL),
	NVML_SYMBOL(pci, "DeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"),
	NVML_SYMBOL(utilization, "DeviceGetUtilizationRates", NULL),
	NVML_SYMBOL(encoder, "DeviceGetEncoderUtilization", NULL),
	NVML_SYMBOL(decoder, "DeviceGetDecoderUtilization", NULL),
	NVML_SYMBOL(memory, "DeviceGetMemoryInfo", NULL),
	NVML_SYMBOL(memory_v2, "DeviceGetMemoryInfo_v2", NULL),
	NVML_SYMBOL(fields, "DeviceGetFieldValues", NULL),
	NVML_SYMBOL(temperature, "DeviceGetTemperature", NULL),
	NVML_SYMBOL(temperature_v, "DeviceGetTemperatureV", NULL),
	NVML_SYMBOL(clock, "DeviceGetClockInfo", NULL),
	NVML_SYMBOL(clock_max, "DeviceGetMaxClockInfo", NULL),
	NVML_SYMBOL(power, "DeviceGetPowerUsage", NULL),
	NVML_SYMBOL(power_limit, "DeviceGetPowerManagementLimit", NULL),
	NVML_SYMBOL(power_enforced, "DeviceGetEnforcedPowerLimit", NULL),
	NVML_SYMBOL(power_default, "DeviceGetPowerManagementDefaultLimit", NULL),
	NVML_SYMBOL(power_range, "DeviceGetPowerManagementLimitConstraints", NULL),
	NVML_SYMBOL(reasons, "DeviceGetCurrentClocksEventReasons",
		    "nvmlDeviceGetCurrentClocksThrottleReasons"),
	NVML_SYMBOL(reasons_supported, "DeviceGetSupportedClocksEventReasons",
		    "nvmlDeviceGetSupportedClocksThrottleReasons"),
	NVML_SYMBOL(pstate, "DeviceGetPerformanceState", NULL),
	NVML_SYMBOL(fan, "DeviceGetFanSpeed", NULL),
	NVML_SYMBOL(pcie_generation, "DeviceGetCurrPcieLinkGeneration", NULL),
	NVML_SYMBOL(pcie_width, "DeviceGetCurrPcieLinkWidth", NULL),
	NVML_SYMBOL(pcie_generation_max, "DeviceGetMaxPcieLinkGeneration", NULL),
	NVML_SYMBOL(pcie_width_max, "DeviceGetMaxPcieLinkWidth", NULL),
	NVML_SYMBOL(ecc_mode, "DeviceGetEccMode", NULL),
	NVML_SYMBOL(ecc_total, "DeviceGetTotalEccErrors", NULL),
	NVML_SYMBOL(persistence, "DeviceGetPersistenceMode", NULL),
	NVML_SYMBOL(compute_mode, "DeviceGetComputeMode", NULL),
	NVML_SYMBOL(compute_capability, "DeviceGetCudaComputeCapability", NULL),
	NVML_SYMBOL(remapped, "DeviceGetRemappedRows", NULL),
	NVML_SYMBOL(mig_mode, "DeviceGetMigMode", NULL),
	NVML_SYMBOL(mig_max, "DeviceGetMaxMigDeviceCount", NULL),
	NVML_SYMBOL(mig_by_index, "DeviceGetMigDeviceHandleByIndex", NULL),
	NVML_SYMBOL(gpu_instance, "DeviceGetGpuInstanceId", NULL),
	NVML_SYMBOL(processes, "DeviceGetComputeRunningProcesses_v3",
		    "nvmlDeviceGetComputeRunningProcesses_v2"),
	NVML_SYMBOL(process_use, "DeviceGetProcessUtilization", NULL),
	NVML_SYMBOL(event_set_create, "EventSetCreate", NULL),
	NVML_SYMBOL(event_set_free, "EventSetFree", NULL),
	NVML_SYMBOL(event_register, "DeviceRegisterEvents", NULL),
	NVML_SYMBOL(event_types, "DeviceGetSupportedEventTypes", NULL),
	NVML_SYMBOL(event_wait, "EventSetWait_v2", "nvmlEventSetWait"),
	NVML_SYMBOL(gpm_support, "GpmQueryDeviceSupport", NULL),
	NVML_SYMBOL(gpm_alloc, "GpmSampleAlloc", NULL),
	NVML_SYMBOL(gpm_free, "GpmSampleFree", NULL),
	NVML_SYMBOL(gpm_sample, "GpmSampleGet", NULL),
	NVML_SYMBOL(gpm_sample_mig, "GpmMigSampleGet", NULL),
	NVML_SYMBOL(gpm_get, "GpmMetricsGet", NULL),
};

/* Where the loader does not look: containers and WSL mount it there. */
static const char *const nvml_places[] = {
	"libnvidia-ml.so.1",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
	"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
};

static pthread_mutex_t nvml_lock = PTHREAD_MUTEX_INITIALIZER; /* of nvml_session, users */
static struct nvml *nvml_session;

/* ---- loading -------------------------------------------------------------------- */

static int nvml_load(struct nvml *n, struct err *e)
{
	const char *said = getenv("LAPSE_NVML");
	size_t i;

	if (said && *said) {
		n->path = said;
		n->lib = dlopen(said, RTLD_NOW | RTLD_LOCAL);
		if (!n->lib)
			return err_set(e, -ENODEV, "LAPSE_NVML=%s cannot be loaded: %s", said,
				       dlerror());
		return 0;
	}
	for (i = 0; i < ARRAY_LEN(nvml_places) && !n->lib; i++) {
		n->path = nvml_places[i];
		n->lib = dlopen(n->path, RTLD_NOW | RTLD_LOCAL);
	}
	if (!n->lib)
		return err_set(e, -ENODEV,
			       "no NVIDIA driver: libnvidia-ml.so.1 is not here; if the machine "
			       "has an NVIDIA GPU, install its driver, start a container with "
			       "--gpus all, or set LAPSE_NVML to the path of the library");
	return 0;
}

static int nvml_resolve(struct nvml *n, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(nvml_symbols); i++) {
		const struct nvml_symbol *s = &nvml_symbols[i];
		void *f = dlsym(n->lib, s->name);

		if (!f && s->old)
			f = dlsym(n->lib, s->old);
		if (!f && s->needed)
			return err_set(e, -ENODEV,
				       "%s has no %s: it is not NVIDIA's management "
				       "library, or too old for use here",
				       n->path, s->name);
		memcpy((char *)&n->api + s->at, &f, sizeof(f));
	}
	return 0;
}

static const struct {
	int ret;
	const char *text;
} nvml_init_errors[] = {
	{NVML_DRIVER_NOT_LOADED,
	 "NVIDIA's library is here but its driver is not loaded: modprobe nvidia, and see "
	 "dmesg if that fails"},
	{NVML_LIB_RM_VERSION_MISMATCH,
	 "NVIDIA's library and its kernel module have different versions, as after an update "
	 "without restart: reboot, or unload and load the module nvidia"},
	{NVML_NO_PERMISSION,
	 "no permission to use the NVIDIA driver: this user cannot open /dev/nvidiactl (group "
	 "video or render?)"},
	{NVML_GPU_NOT_FOUND, "the NVIDIA driver is loaded but finds no GPU"},
};

static int nvml_up(struct nvml *n, struct err *e)
{
	int ret = NVML_TIMED(n, NVML_CALL_INIT, n->api.init());
	size_t i;

	n->up = ret == NVML_OK;
	if (n->up)
		return 0;
	for (i = 0; i < ARRAY_LEN(nvml_init_errors); i++)
		if (nvml_init_errors[i].ret == ret)
			return err_set(e, -ENODEV, "%s", nvml_init_errors[i].text);
	return err_set(e, -ENODEV, "NVIDIA's library cannot be started: %s (%d)",
		       n->api.error_string ? n->api.error_string(ret) : "error", ret);
}

static void nvml_unload(struct nvml *n)
{
	if (n->up)
		n->api.shutdown();
	if (n->lib)
		dlclose(n->lib);
	free(n);
}

int nvml_open(struct nvml **ret, struct err *e)
{
	struct nvml *n;
	int err = 0;

	pthread_mutex_lock(&nvml_lock);
	n = nvml_session;
	if (!n) {
		n = calloc(1, sizeof(*n));
		err = n ? nvml_load(n, e) : -ENOMEM;
		if (!err)
			err = nvml_resolve(n, e);
		if (!err)
			err = nvml_up(n, e);
		if (err && n)
			nvml_unload(n);
	}
	if (!err) {
		nvml_session = n;
		n->users++;
		*ret = n;
	}
	pthread_mutex_unlock(&nvml_lock);
	return err;
}

void nvml_close(struct nvml *n)
{
	if (!n)
		return;
	pthread_mutex_lock(&nvml_lock);
	if (--n->users == 0) {
		nvml_session = NULL;
		nvml_unload(n);
	}
	pthread_mutex_unlock(&nvml_lock);
}

int nvml_restart(struct nvml *n, struct err *e)
{
	if (n->up)
		n->api.shutdown();
	n->generation++;
	return nvml_up(n, e);
}

/* ---- times ---------------------------------------------------------------------- */

void nvml_begin(struct nvml *n)
{
	n->begin_ns = clock_ns(CLOCK_MONOTONIC);
}

int nvml_end(struct nvml *n, enum nvml_call call, int ret)
{
	int64_t took = clock_ns(CLOCK_MONOTONIC) - n->begin_ns;
	struct nvml_time *t = &n->time[call];

	t->count++;
	t->sum_ns += took;
	if (took > t->max_ns)
		t->max_ns = took;
	return ret;
}

/* ---- answers -------------------------------------------------------------------- */

static const struct {
	int ret;
	const char *why;
} nvml_whys[] = {
	{NVML_NOT_SUPPORTED, "this GPU does not tell it"},
	{NVML_DEPRECATED, "this driver does not tell it any more"},
	{NVML_FUNCTION_NOT_FOUND, "this driver is too old to tell it"},
	{NVML_INVALID_ARGUMENT, "this driver does not know it"},
	{NVML_NOT_FOUND, "this GPU does not tell it"},
	{NVML_NO_PERMISSION, "the driver allows it only to administrators"},
	{NVML_NO_DATA, "the driver has no data yet"},
	{NVML_NOT_READY, "the driver is not ready"},
	{NVML_GPU_IS_LOST, "the GPU fell off the bus: reset it or reboot"},
	{NVML_RESET_REQUIRED, "the GPU needs a reset"},
	{NVML_UNINITIALIZED, "the driver was unloaded"},
	{NVML_DRIVER_NOT_LOADED, "the driver was unloaded"},
	{NVML_GPU_NOT_FOUND, "the GPU is gone"},
};

const char *nvml_why(int ret)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(nvml_whys); i++)
		if (nvml_whys[i].ret == ret)
			return nvml_whys[i].why;
	return "the driver failed to tell it";
}

bool nvml_is_gone(int ret)
{
	return ret == NVML_GPU_IS_LOST || ret == NVML_UNINITIALIZED ||
	       ret == NVML_DRIVER_NOT_LOADED || ret == NVML_GPU_NOT_FOUND;
}

int nvml_field_u64(const struct nvml_field *f, uint64_t *ret)
{
	uint64_t v;

	if (f->ret != NVML_OK)
		return -ENODATA;
	switch (f->type) {
	case NVML_UINT:
		v = f->value.ui;
		if (v == UINT32_MAX)
			return -ENODATA;
		break;
	case NVML_ULONG:
	case NVML_ULONGLONG:
		v = f->value.ull;
		break;
	case NVML_LONGLONG:
		v = f->value.sll < 0 ? NVML_NOT_AVAILABLE : (uint64_t)f->value.sll;
		break;
	case NVML_INT:
		v = f->value.si < 0 ? NVML_NOT_AVAILABLE : (uint64_t)f->value.si;
		break;
	case NVML_USHORT:
		v = f->value.us;
		break;
	default:
		return -ENODATA;
	}
	if (v >= NVML_BLANK)
		return -ENODATA;
	*ret = v;
	return 0;
}

int nvml_field_number(const struct nvml_field *f, double *ret)
{
	uint64_t v;

	if (f->ret == NVML_OK && f->type == NVML_DOUBLE) {
		if (!isfinite(f->value.d))
			return -ENODATA;
		*ret = f->value.d;
		return 0;
	}
	if (f->ret == NVML_OK && f->type == NVML_INT) {
		*ret = f->value.si;
		return 0;
	}
	if (nvml_field_u64(f, &v))
		return -ENODATA;
	*ret = (double)v;
	return 0;
}

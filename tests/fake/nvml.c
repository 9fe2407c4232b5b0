/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml.c - plays NVIDIA's management library, as nvml.h beside it tells. Every value is a
 * function of the GPU's number and the clock, so that tests know it. FAKE_OLD leaves out
 * what old drivers do not have.
 */
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "probe/gpu/nvml.h"

#define GPUS 64
#define MIGS 7
#define WORDS 32
#define MIB 1048576ULL

/* A function of the library, with the prototype that the compiler wants to see. */
#define NVML(name, ...)                                                                            \
	int nvml##name(__VA_ARGS__);                                                               \
	int nvml##name(__VA_ARGS__)

struct nvml_device {
	unsigned gpu;
	int mig; /* -1: the whole GPU */
	bool registered;
};

struct nvml_event_set {
	int dummy;
};

struct nvml_gpm_sample {
	unsigned gpu;
	double at;
	bool taken;
};

/* A word that may come several times: name or gpu, time, number. */
struct word {
	char name[64];
	unsigned gpu;
	double at;
	long long number;
	bool done;
};

struct words {
	struct word w[WORDS];
	unsigned n;
};

static struct {
	unsigned gpus, slowdown, mig_gpu, mig_n;
	int init;
	char arch[16];
	bool wrap, narrow, blank;
	double unload;
	struct words lost, back, add, xid, proc, fail, slow;
} fake;

static struct nvml_device fake_devices[GPUS], fake_migs[GPUS][MIGS];
static unsigned fake_list[GPUS], fake_n; /* GPUs as listed at the last init */
static int64_t fake_ns = -1, fake_loaded;
static int fake_users;
static struct {
	const char *name;
	unsigned n;
} fake_called[96];

/* ---- script ------------------------------------------------------------------------ */

static int64_t fake_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double fake_now(void)
{
	if (fake_ns >= 0)
		return (double)fake_ns / 1e9;
	return (double)(fake_clock() - fake_loaded) / 1e9;
}

void fake_nvml_time(int64_t ns)
{
	fake_ns = ns;
}

unsigned fake_nvml_calls(const char *name)
{
	unsigned i;

	for (i = 0; i < sizeof(fake_called) / sizeof(fake_called[0]) && fake_called[i].name; i++)
		if (strcmp(fake_called[i].name, name) == 0)
			return fake_called[i].n;
	return 0;
}

static struct word *fake_word(struct words *l)
{
	static struct word spare;

	return l->n < WORDS ? &l->w[l->n++] : &spare;
}

/* "3@5:79": GPU, time, number. */
static void fake_timed(struct words *l, const char *v)
{
	struct word *w = fake_word(l);
	const char *at = strchr(v, '@'), *colon = strchr(v, ':');

	w->gpu = (unsigned)atoi(v);
	w->at = at ? atof(at + 1) : 0;
	w->number = colon ? atoll(colon + 1) : 0;
}

static void fake_named(struct words *l, const char *v)
{
	struct word *w = fake_word(l);
	const char *colon = strchr(v, ':');

	snprintf(w->name, sizeof(w->name), "%.*s", (int)strcspn(v, ":"), v);
	w->number = colon ? atoll(colon + 1) : 0;
}

/* "2:1234:100": GPU, process, MiB. */
static void fake_process(const char *v)
{
	struct word *w = fake_word(&fake.proc);
	const char *a = strchr(v, ':'), *b = a ? strchr(a + 1, ':') : NULL;

	w->gpu = (unsigned)atoi(v);
	w->at = a ? atof(a + 1) : 0;
	w->number = b && strcmp(b + 1, "na") ? atoll(b + 1) : -1;
}

static void fake_set(const char *key, const char *v)
{
	if (!strcmp(key, "gpus"))
		fake.gpus = (unsigned)atoi(v) > GPUS ? GPUS : (unsigned)atoi(v);
	else if (!strcmp(key, "arch"))
		snprintf(fake.arch, sizeof(fake.arch), "%s", v);
	else if (!strcmp(key, "mig"))
		sscanf(v, "%u:%u", &fake.mig_gpu, &fake.mig_n);
	else if (!strcmp(key, "lost"))
		fake_timed(&fake.lost, v);
	else if (!strcmp(key, "back"))
		fake_timed(&fake.back, v);
	else if (!strcmp(key, "add"))
		fake_timed(&fake.add, v);
	else if (!strcmp(key, "xid"))
		fake_timed(&fake.xid, v);
	else if (!strcmp(key, "proc"))
		fake_process(v);
	else if (!strcmp(key, "init"))
		fake.init = atoi(v);
	else if (!strcmp(key, "fail"))
		fake_named(&fake.fail, v);
	else if (!strcmp(key, "slow"))
		fake_named(&fake.slow, v);
	else if (!strcmp(key, "slowdown"))
		fake.slowdown = (unsigned)atoi(v);
	else if (!strcmp(key, "wrap"))
		fake.wrap = atoi(v);
	else if (!strcmp(key, "narrow"))
		fake.narrow = atoi(v);
	else if (!strcmp(key, "blank"))
		fake.blank = atoi(v);
	else if (!strcmp(key, "unload"))
		fake.unload = atof(v);
	else
		fprintf(stderr, "fake nvml: unknown word %s\n", key);
}

static void fake_read_script(void)
{
	const char *env = getenv(FAKE_NVML_ENV);
	char text[2048], *word, *save = NULL, *eq;

	memset(&fake, 0, sizeof(fake));
	fake.gpus = 1;
	fake.slowdown = 251;
	strcpy(fake.arch, "hopper");
	snprintf(text, sizeof(text), "%s", env ? env : "");
	for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		eq = strchr(word, '=');
		if (!eq)
			continue;
		*eq = '\0';
		fake_set(word, eq + 1);
	}
}

static bool fake_is(const char *arch)
{
	return strcmp(fake.arch, arch) == 0;
}

/* The time of a GPU in a list, or -1. */
static double fake_when(const struct words *l, unsigned gpu)
{
	unsigned i;

	for (i = 0; i < l->n; i++)
		if (l->w[i].gpu == gpu)
			return l->w[i].at;
	return -1;
}

static bool fake_gone(unsigned gpu)
{
	double lost = fake_when(&fake.lost, gpu), back = fake_when(&fake.back, gpu);
	double add = fake_when(&fake.add, gpu), now = fake_now();

	if (add >= 0 && now < add)
		return true;
	return lost >= 0 && now >= lost && !(back >= 0 && now >= back);
}

static void fake_wait(const char *name)
{
	unsigned i;
	int64_t end;

	for (i = 0; i < fake.slow.n; i++) {
		if (strcmp(fake.slow.w[i].name, name) != 0)
			continue;
		end = fake_clock() + fake.slow.w[i].number * 1000;
		while (fake_clock() < end)
			;
	}
}

static int fake_fails(const char *name)
{
	unsigned i;

	for (i = 0; i < fake.fail.n; i++)
		if (strcmp(fake.fail.w[i].name, name) == 0)
			return (int)fake.fail.w[i].number;
	return 0;
}

/* What a call says before it does anything: every function begins so. */
static int fake_begin(const char *name, const struct nvml_device *d)
{
	unsigned i;
	int ret;

	for (i = 0; i < sizeof(fake_called) / sizeof(fake_called[0]); i++) {
		if (fake_called[i].name && strcmp(fake_called[i].name, name) != 0)
			continue;
		fake_called[i].name = name;
		fake_called[i].n++;
		break;
	}
	if (!fake_users)
		return NVML_UNINITIALIZED;
	fake_wait(name);
	ret = fake_fails(name);
	if (ret)
		return ret;
	if (fake.unload > 0 && fake_now() >= fake.unload)
		return NVML_UNINITIALIZED;
	return d && fake_gone(d->gpu) ? NVML_GPU_IS_LOST : 0;
}

#define BEGIN(name, d)                                                                             \
	do {                                                                                       \
		int begin_ret = fake_begin(name, d);                                               \
		if (begin_ret)                                                                     \
			return begin_ret;                                                          \
	} while (0)

static unsigned fake_u(unsigned v)
{
	return fake.blank ? UINT32_MAX : v;
}

/* ---- library and list ------------------------------------------------------------------ */

NVML(Init_v2, void)
{
	unsigned i, k;

	if (!fake_loaded)
		fake_loaded = fake_clock();
	fake_read_script();
	fake_users++;
	if (fake_begin("Init_v2", NULL) || fake.init) {
		fake_users--;
		return fake.init ? fake.init : NVML_DRIVER_NOT_LOADED;
	}
	fake_n = 0;
	for (i = 0; i < fake.gpus; i++) {
		fake_devices[i] = (struct nvml_device){i, -1, false};
		for (k = 0; k < MIGS; k++)
			fake_migs[i][k] = (struct nvml_device){i, (int)k, false};
		if (!fake_gone(i))
			fake_list[fake_n++] = i;
	}
	return 0;
}

NVML(Shutdown, void)
{
	BEGIN("Shutdown", NULL);
	fake_users--;
	return 0;
}

const char *nvmlErrorString(int ret);
const char *nvmlErrorString(int ret)
{
	return ret == NVML_GPU_IS_LOST ? "GPU is lost" : "Unknown Error";
}

NVML(SystemGetDriverVersion, char *text, unsigned len)
{
	BEGIN("SystemGetDriverVersion", NULL);
	snprintf(text, len, "%s", fake_is("kepler") ? "470.256.02" : "580.65.06");
	return 0;
}

NVML(SystemGetCudaDriverVersion_v2, int *version)
{
	*version = 13000;
	return 0;
}

NVML(DeviceGetCount_v2, unsigned *count)
{
	unsigned i, n = 0;

	BEGIN("DeviceGetCount_v2", NULL);
	/* A card that was added is counted; handles of it come with the next init only
	 * where it was not seen. */
	for (i = 0; i < fake.gpus; i++)
		n += fake_when(&fake.add, i) >= 0 && !fake_gone(i);
	for (i = 0; i < fake_n; i++)
		n += fake_when(&fake.add, fake_list[i]) < 0;
	*count = n;
	return 0;
}

NVML(DeviceGetHandleByIndex_v2, unsigned index, struct nvml_device **d)
{
	unsigned i, known = 0;

	BEGIN("DeviceGetHandleByIndex_v2", NULL);
	for (i = 0; i < fake.gpus; i++) {
		double add = fake_when(&fake.add, i);
		bool listed = add >= 0 && !fake_gone(i);
		unsigned k;

		for (k = 0; k < fake_n && add < 0; k++)
			listed |= fake_list[k] == i;
		if (!listed || known++ != index)
			continue;
		if (fake_gone(i))
			return NVML_GPU_IS_LOST;
		*d = &fake_devices[i];
		return 0;
	}
	return NVML_INVALID_ARGUMENT;
}

NVML(DeviceGetName, struct nvml_device *d, char *text, unsigned len)
{
	BEGIN("DeviceGetName", d);
	snprintf(text, len, "NVIDIA Fake %s", fake.arch);
	return 0;
}

NVML(DeviceGetUUID, struct nvml_device *d, char *text, unsigned len)
{
	BEGIN("DeviceGetUUID", d);
	if (d->mig >= 0)
		snprintf(text, len, "MIG-%08x-0000-0000-0000-00000000000%d", d->gpu, d->mig);
	else
		snprintf(text, len, "GPU-%08x-0000-0000-0000-000000000000", d->gpu);
	return 0;
}

NVML(DeviceGetSerial, struct nvml_device *d, char *text, unsigned len)
{
	BEGIN("DeviceGetSerial", d);
	snprintf(text, len, "16520%08u", d->gpu);
	return 0;
}

NVML(DeviceGetVbiosVersion, struct nvml_device *d, char *text, unsigned len)
{
	BEGIN("DeviceGetVbiosVersion", d);
	snprintf(text, len, "96.00.74.00.0%u", d->gpu % 10);
	return 0;
}

NVML(DeviceGetPciInfo_v3, struct nvml_device *d, struct nvml_pci *p)
{
	BEGIN("DeviceGetPciInfo_v3", d);
	memset(p, 0, sizeof(*p));
	p->bus = 0x10 + d->gpu;
	p->device_id = 0x233010de;
	p->subsystem_id = 0x16c110de;
	snprintf(p->bus_id, sizeof(p->bus_id), "00000000:%02X:00.0", p->bus);
	return 0;
}

/* ---- values ------------------------------------------------------------------------------ */

NVML(DeviceGetUtilizationRates, struct nvml_device *d, struct nvml_utilization *u)
{
	BEGIN("DeviceGetUtilizationRates", d);
	if (d->mig >= 0 || (fake.mig_n && fake.mig_gpu == d->gpu))
		return NVML_NOT_SUPPORTED;
	u->gpu = fake_u((d->gpu * 13 + 5) % 101);
	u->memory = fake_u((d->gpu * 7 + 3) % 101);
	return 0;
}

NVML(DeviceGetEncoderUtilization, struct nvml_device *d, unsigned *v, unsigned *period)
{
	BEGIN("DeviceGetEncoderUtilization", d);
	*v = 0;
	*period = 167000;
	return 0;
}

NVML(DeviceGetDecoderUtilization, struct nvml_device *d, unsigned *v, unsigned *period)
{
	BEGIN("DeviceGetDecoderUtilization", d);
	*v = 1;
	*period = 167000;
	return 0;
}

static unsigned long long fake_total(const struct nvml_device *d)
{
	return d->mig >= 0 ? 9856 * MIB : 81559 * MIB;
}

static unsigned long long fake_used(const struct nvml_device *d)
{
	return d->mig >= 0 ? (unsigned long long)(d->mig + 1) * 100 * MIB
			   : (unsigned long long)(d->gpu + 1) * 1000 * MIB;
}

NVML(DeviceGetMemoryInfo, struct nvml_device *d, struct nvml_memory *m)
{
	BEGIN("DeviceGetMemoryInfo", d);
	m->total = fake_total(d);
	m->used = fake_used(d) + 600 * MIB;
	m->free = m->total - m->used;
	return 0;
}

NVML(DeviceGetTemperature, struct nvml_device *d, int sensor, unsigned *celsius)
{
	BEGIN("DeviceGetTemperature", d);
	if (sensor != NVML_TEMPERATURE_GPU)
		return NVML_INVALID_ARGUMENT;
	*celsius = fake_u(40 + d->gpu % 40);
	return 0;
}

NVML(DeviceGetClockInfo, struct nvml_device *d, int clock, unsigned *mhz)
{
	BEGIN("DeviceGetClockInfo", d);
	*mhz = fake_u(clock == NVML_CLOCK_MEMORY ? 2619 : 1980 - 15 * d->gpu);
	return 0;
}

NVML(DeviceGetMaxClockInfo, struct nvml_device *d, int clock, unsigned *mhz)
{
	BEGIN("DeviceGetMaxClockInfo", d);
	*mhz = fake_u(clock == NVML_CLOCK_MEMORY ? 2619 : 1980);
	return 0;
}

static unsigned fake_milliwatts(const struct nvml_device *d)
{
	return 100000 + 1000 * d->gpu;
}

NVML(DeviceGetPowerUsage, struct nvml_device *d, unsigned *mw)
{
	BEGIN("DeviceGetPowerUsage", d);
	*mw = fake_u(fake_milliwatts(d) - 10000);
	return 0;
}

NVML(DeviceGetPowerManagementLimit, struct nvml_device *d, unsigned *mw)
{
	BEGIN("DeviceGetPowerManagementLimit", d);
	*mw = 700000;
	return 0;
}

NVML(DeviceGetEnforcedPowerLimit, struct nvml_device *d, unsigned *mw)
{
	BEGIN("DeviceGetEnforcedPowerLimit", d);
	*mw = fake_u(700000);
	return 0;
}

NVML(DeviceGetPowerManagementDefaultLimit, struct nvml_device *d, unsigned *mw)
{
	BEGIN("DeviceGetPowerManagementDefaultLimit", d);
	*mw = 700000;
	return 0;
}

NVML(DeviceGetPowerManagementLimitConstraints, struct nvml_device *d, unsigned *lo, unsigned *hi)
{
	BEGIN("DeviceGetPowerManagementLimitConstraints", d);
	*lo = 200000;
	*hi = 700000;
	return 0;
}

NVML(DeviceGetCurrentClocksThrottleReasons, struct nvml_device *d, unsigned long long *mask)
{
	BEGIN("DeviceGetCurrentClocksThrottleReasons", d);
	*mask = NVML_REASON_POWER_CAP | (d->gpu % 2 ? NVML_REASON_THERMAL_HW : 0);
	return 0;
}

NVML(DeviceGetSupportedClocksThrottleReasons, struct nvml_device *d, unsigned long long *mask)
{
	BEGIN("DeviceGetSupportedClocksThrottleReasons", d);
	*mask = 0x1ff;
	return 0;
}

NVML(DeviceGetPerformanceState, struct nvml_device *d, int *state)
{
	BEGIN("DeviceGetPerformanceState", d);
	*state = 0;
	return 0;
}

NVML(DeviceGetFanSpeed, struct nvml_device *d, unsigned *v)
{
	BEGIN("DeviceGetFanSpeed", d);
	(void)v;
	return NVML_NOT_SUPPORTED;
}

NVML(DeviceGetCurrPcieLinkGeneration, struct nvml_device *d, unsigned *v)
{
	BEGIN("DeviceGetCurrPcieLinkGeneration", d);
	*v = fake_u(5);
	return 0;
}

NVML(DeviceGetCurrPcieLinkWidth, struct nvml_device *d, unsigned *v)
{
	BEGIN("DeviceGetCurrPcieLinkWidth", d);
	*v = fake_u(16);
	return 0;
}

NVML(DeviceGetMaxPcieLinkGeneration, struct nvml_device *d, unsigned *v)
{
	BEGIN("DeviceGetMaxPcieLinkGeneration", d);
	*v = 5;
	return 0;
}

NVML(DeviceGetMaxPcieLinkWidth, struct nvml_device *d, unsigned *v)
{
	BEGIN("DeviceGetMaxPcieLinkWidth", d);
	*v = 16;
	return 0;
}

NVML(DeviceGetEccMode, struct nvml_device *d, int *now, int *pending)
{
	BEGIN("DeviceGetEccMode", d);
	*now = *pending = 1;
	return 0;
}

NVML(DeviceGetTotalEccErrors, struct nvml_device *d, int type, int counter, unsigned long long *n)
{
	BEGIN("DeviceGetTotalEccErrors", d);
	*n = (unsigned long long)(type == 0 ? 3 : 0) + (counter == 1 ? 1 : 0);
	return 0;
}

NVML(DeviceGetPersistenceMode, struct nvml_device *d, int *mode)
{
	BEGIN("DeviceGetPersistenceMode", d);
	*mode = 1;
	return 0;
}

NVML(DeviceGetComputeMode, struct nvml_device *d, int *mode)
{
	BEGIN("DeviceGetComputeMode", d);
	*mode = 0;
	return 0;
}

NVML(DeviceGetCudaComputeCapability, struct nvml_device *d, int *major, int *minor)
{
	BEGIN("DeviceGetCudaComputeCapability", d);
	*major = 9;
	*minor = 0;
	return 0;
}

NVML(DeviceGetComputeRunningProcesses_v2, struct nvml_device *d, unsigned *count,
     struct nvml_process *p)
{
	unsigned room = *count, i, n = 0;

	BEGIN("DeviceGetComputeRunningProcesses_v2", d);
	for (i = 0; i < fake.proc.n; i++) {
		const struct word *w = &fake.proc.w[i];

		if (w->gpu != d->gpu)
			continue;
		if (n < room)
			p[n] = (struct nvml_process){(unsigned)w->at,
						     w->number < 0
							     ? NVML_NOT_AVAILABLE
							     : (unsigned long long)w->number * MIB,
						     UINT32_MAX, UINT32_MAX};
		n++;
	}
	*count = n;
	return n > room ? NVML_INSUFFICIENT_SIZE : 0;
}

/* Each process has a sample a second: 60 and 40 per cent in turn. */
NVML(DeviceGetProcessUtilization, struct nvml_device *d, struct nvml_process_sample *s,
     unsigned *count, unsigned long long since)
{
	unsigned i, n = 0, room = *count;
	long t, now = (long)fake_now();

	BEGIN("DeviceGetProcessUtilization", d);
	for (i = 0; i < fake.proc.n; i++) {
		if (fake.proc.w[i].gpu != d->gpu)
			continue;
		for (t = now > 20 ? now - 20 : 1; t <= now && n < room; t++)
			if ((unsigned long long)t * 1000000 > since)
				s[n++] = (struct nvml_process_sample){
					(unsigned)fake.proc.w[i].at,
					(unsigned long long)t * 1000000,
					t % 2 ? 60 : 40,
					10,
					0,
					0};
	}
	*count = n;
	return n ? 0 : NVML_NOT_FOUND;
}

/* ---- events -------------------------------------------------------------------------------- */

NVML(EventSetCreate, struct nvml_event_set **set)
{
	BEGIN("EventSetCreate", NULL);
	*set = calloc(1, sizeof(**set));
	return 0;
}

NVML(EventSetFree, struct nvml_event_set *set)
{
	free(set);
	BEGIN("EventSetFree", NULL);
	return 0;
}

NVML(DeviceGetSupportedEventTypes, struct nvml_device *d, unsigned long long *types)
{
	BEGIN("DeviceGetSupportedEventTypes", d);
	*types = 0xffff;
	return 0;
}

NVML(DeviceRegisterEvents, struct nvml_device *d, unsigned long long types,
     struct nvml_event_set *set)
{
	BEGIN("DeviceRegisterEvents", d);
	(void)set;
	d->registered = types & NVML_EVENT_XID;
	return 0;
}

NVML(EventSetWait, struct nvml_event_set *set, struct nvml_event *e, unsigned ms)
{
	unsigned i;

	(void)set;
	(void)ms;
	BEGIN("EventSetWait", NULL);
	for (i = 0; i < fake.xid.n; i++) {
		struct word *w = &fake.xid.w[i];

		if (w->done || fake_now() < w->at || w->gpu >= GPUS ||
		    !fake_devices[w->gpu].registered)
			continue;
		w->done = true;
		e->device = &fake_devices[w->gpu];
		e->type = NVML_EVENT_XID;
		e->data = (unsigned long long)w->number;
		return 0;
	}
	return NVML_TIMEOUT;
}

#ifndef FAKE_OLD

/* ---- what newer drivers have ------------------------------------------------------------------
 */

NVML(DeviceGetMemoryInfo_v2, struct nvml_device *d, struct nvml_memory_v2 *m)
{
	BEGIN("DeviceGetMemoryInfo_v2", d);
	if (m->version != 0x02000028)
		return 25; /* the version of the argument is not known */
	if (fake_is("kepler"))
		return NVML_NOT_SUPPORTED;
	m->total = fake_total(d);
	m->used = fake.blank ? NVML_NOT_AVAILABLE : fake_used(d);
	m->reserved = 600 * MIB;
	m->free = m->total - fake_used(d) - m->reserved;
	return 0;
}

NVML(DeviceGetMigMode, struct nvml_device *d, unsigned *now, unsigned *pending)
{
	BEGIN("DeviceGetMigMode", d);
	if (fake_is("kepler"))
		return NVML_NOT_SUPPORTED;
	*now = *pending = fake.mig_n && fake.mig_gpu == d->gpu;
	return 0;
}

NVML(DeviceGetMaxMigDeviceCount, struct nvml_device *d, unsigned *count)
{
	BEGIN("DeviceGetMaxMigDeviceCount", d);
	*count = MIGS;
	return 0;
}

NVML(DeviceGetMigDeviceHandleByIndex, struct nvml_device *d, unsigned index,
     struct nvml_device **mig)
{
	BEGIN("DeviceGetMigDeviceHandleByIndex", d);
	if (index >= fake.mig_n || index >= MIGS)
		return NVML_NOT_FOUND;
	*mig = &fake_migs[d->gpu][index];
	return 0;
}

NVML(DeviceGetGpuInstanceId, struct nvml_device *d, unsigned *id)
{
	BEGIN("DeviceGetGpuInstanceId", d);
	*id = (unsigned)d->mig + 1;
	return 0;
}

NVML(DeviceGetRemappedRows, struct nvml_device *d, unsigned *cor, unsigned *unc, unsigned *pending,
     unsigned *failed)
{
	BEGIN("DeviceGetRemappedRows", d);
	*cor = 2;
	*unc = 1;
	*pending = *failed = 0;
	return 0;
}

enum {
	F_UINT = 1,
	F_ULL = 3,
	F_HOPPER = 16 /* not before */
};

static const struct {
	unsigned id, kind;
	unsigned long long base;
	double rate; /* a second */
} fake_fields[] = {
	{NVML_FI_ECC_CORRECTED, F_ULL, 3, 2},
	{NVML_FI_ECC_UNCORRECTED, F_ULL, 0, 0},
	{NVML_FI_POLICY_POWER, F_ULL, 7, 0.25e9},
	{NVML_FI_POLICY_THERMAL, F_ULL, 5000000000, 0.125e9},
	{NVML_FI_POLICY_SYNC_BOOST, F_ULL, 0, 0},
	{NVML_FI_POLICY_BOARD_LIMIT, F_ULL, 0, 0},
	{NVML_FI_POLICY_RELIABILITY, F_ULL, 0, 2e9},
	{NVML_FI_TEMPERATURE_MEMORY, F_UINT, 51, 0},
	{NVML_FI_PCIE_REPLAY, F_UINT, 10, 1},
	{NVML_FI_REMAPPED_CORRECTED, F_UINT, 2, 0},
	{NVML_FI_REMAPPED_UNCORRECTED, F_UINT, 1, 0},
	{NVML_FI_REMAPPED_PENDING, F_UINT, 0, 0},
	{NVML_FI_REMAPPED_FAILURE, F_UINT, 0, 0},
	{NVML_FI_NVLINK_DATA_TX, F_ULL, 77, 1e6},
	{NVML_FI_NVLINK_DATA_RX, F_ULL, 78, 2e6},
	{NVML_FI_NVLINK_REPLAY, F_ULL, 4, 0},
	{NVML_FI_NVLINK_RECOVERY, F_ULL, 0, 0},
	{NVML_FI_NVLINK_CRC, F_ULL, 0, 3},
	{NVML_FI_PCIE_TX, F_ULL | F_HOPPER, 1234, 5e8},
	{NVML_FI_PCIE_RX, F_ULL | F_HOPPER, 4321, 1e9},
	{NVML_FI_RECOVERY_ACTION, F_UINT | F_HOPPER, 0, 0},
};

static void fake_number(struct nvml_field *f, unsigned kind, unsigned long long v)
{
	f->ret = 0;
	f->type = (int)(kind & 15);
	if (f->type == NVML_UINT)
		f->value.ui = fake.blank ? UINT32_MAX : (unsigned)v;
	else
		f->value.ull = fake.blank ? 9223372036854775794ULL : v;
}

static void fake_throttle(struct nvml_field *f)
{
	bool new = f->id >= NVML_FI_SLOWDOWN_NEW && f->id < NVML_FI_SLOWDOWN_NEW + 3;
	bool old = f->id >= NVML_FI_SLOWDOWN_OLD && f->id < NVML_FI_SLOWDOWN_OLD + 3;
	unsigned base = new ? NVML_FI_SLOWDOWN_NEW : NVML_FI_SLOWDOWN_OLD;
	double rates[] = {0.125e9, 0.0625e9, 0};

	if ((!new && !old) || fake_is("ampere"))
		return;
	if (fake.slowdown == base)
		fake_number(f, F_ULL,
			    (f->id == base ? 5000000000ULL : 0) +
				    (unsigned long long)(rates[f->id - base] * fake_now()));
	else if (fake.slowdown == 1) /* numbers given to something else: it answers too */
		fake_number(f, F_ULL, base == NVML_FI_SLOWDOWN_OLD ? 1 : 2);
}

static void fake_field(const struct nvml_device *d, struct nvml_field *f)
{
	char name[32];
	size_t i;
	int ret;

	f->ret = NVML_NOT_SUPPORTED;
	snprintf(name, sizeof(name), "field%u", f->id);
	fake_wait(name);
	ret = fake_fails(name);
	if (ret) {
		f->ret = ret;
		return;
	}
	fake_throttle(f);
	if (f->id == NVML_FI_POWER_INSTANT)
		fake_number(f, F_UINT, fake_milliwatts(d));
	if (f->id == NVML_FI_POWER_AVERAGE)
		fake_number(f, F_UINT, fake_milliwatts(d) - 10000);
	if (f->id == NVML_FI_ENERGY)
		fake_number(f, F_ULL,
			    1000000 + (unsigned long long)(fake_milliwatts(d) * fake_now()));
	for (i = 0; i < sizeof(fake_fields) / sizeof(fake_fields[0]); i++) {
		unsigned kind = fake_fields[i].kind;
		double added = fake_fields[i].rate * fake_now() * (d->gpu + 1);

		if (fake_fields[i].id != f->id || ((kind & F_HOPPER) && !fake_is("hopper")))
			continue;
		if (fake_fields[i].rate > 1e8 && fake_fields[i].id < 80)
			added = fake_fields[i].rate * fake_now();
		if (fake.narrow && (f->id == NVML_FI_PCIE_TX || f->id == NVML_FI_PCIE_RX))
			kind = F_UINT;
		fake_number(f, kind,
			    fake_fields[i].base + (unsigned long long)added +
				    (fake.wrap && kind == F_UINT && fake_fields[i].rate > 0
					     ? 4294967280ULL
					     : 0));
	}
}

NVML(DeviceGetFieldValues, struct nvml_device *d, int count, struct nvml_field *f)
{
	int i;

	BEGIN("DeviceGetFieldValues", d);
	if (fake_is("kepler"))
		return NVML_NOT_SUPPORTED;
	for (i = 0; i < count; i++)
		fake_field(d, &f[i]);
	return 0;
}

/* ---- GPM ----------------------------------------------------------------------------------------
 */

NVML(GpmQueryDeviceSupport, struct nvml_device *d, struct nvml_gpm_support *s)
{
	BEGIN("GpmQueryDeviceSupport", d);
	if (s->version != 1)
		return 25;
	s->supported = fake_is("hopper");
	return 0;
}

NVML(GpmSampleAlloc, struct nvml_gpm_sample **s)
{
	BEGIN("GpmSampleAlloc", NULL);
	*s = calloc(1, sizeof(**s));
	return 0;
}

NVML(GpmSampleFree, struct nvml_gpm_sample *s)
{
	free(s); /* the memory is the library's, whatever the driver does */
	BEGIN("GpmSampleFree", NULL);
	return 0;
}

NVML(GpmSampleGet, struct nvml_device *d, struct nvml_gpm_sample *s)
{
	BEGIN("GpmSampleGet", d);
	if (fake.mig_n && fake.mig_gpu == d->gpu)
		return NVML_NOT_SUPPORTED;
	*s = (struct nvml_gpm_sample){d->gpu, fake_now(), true};
	return 0;
}

NVML(GpmMigSampleGet, struct nvml_device *d, unsigned instance, struct nvml_gpm_sample *s)
{
	BEGIN("GpmMigSampleGet", d);
	*s = (struct nvml_gpm_sample){d->gpu + instance * 10, fake_now(), true};
	return 0;
}

/* Metric number k of GPU i is 10 k + i / 10 per cent. */
NVML(GpmMetricsGet, struct nvml_gpm_get *g)
{
	unsigned i;

	BEGIN("GpmMetricsGet", NULL);
	if (g->version != 1 || !g->before->taken || !g->after->taken)
		return NVML_INVALID_ARGUMENT;
	for (i = 0; i < g->count; i++) {
		g->metrics[i].ret = g->after->at - g->before->at < 0.1 ? NVML_NO_DATA : 0;
		g->metrics[i].value = g->metrics[i].id * 5 + g->after->gpu / 10.0;
	}
	return 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gpuquery.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/near.h"

/* Drivers before it say "throttle" where later ones say "event". */
#define QUERY_EVENT_DRIVER 535
#define QUERY_THROTTLE "clocks_throttle_reasons."
#define QUERY_EVENT "clocks_event_reasons."

#define CALL(member, ...)                                                                          \
	(n->api.member ? n->api.member(__VA_ARGS__) : (int)NVML_FUNCTION_NOT_FOUND)

/* Of these the line writer itself knows the value. */
enum query_own {
	QUERY_TIMESTAMP,
	QUERY_INDEX,
	QUERY_COUNT
};

/* ---- getters: NVML's code, and the text without its unit ------------------------------ */

static void query_unsigned(char *out, unsigned long long v)
{
	snprintf(out, GPUQUERY_TEXT, "%llu", v);
}

/* Written whole by the line writer. */
static int get_own(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	(void)n, (void)d, (void)arg, (void)out;
	return NVML_NOT_SUPPORTED;
}

static int get_text(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	switch (arg) {
	case 0:
		return CALL(name, d, out, GPUQUERY_TEXT);
	case 1:
		return CALL(uuid, d, out, GPUQUERY_TEXT);
	case 2:
		return CALL(serial, d, out, GPUQUERY_TEXT);
	case 3:
		return CALL(vbios, d, out, GPUQUERY_TEXT);
	default:
		return CALL(driver_version, out, GPUQUERY_TEXT);
	}
}

static int get_pci(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	struct nvml_pci p = {{0}, 0, 0, 0, 0, 0, {0}};
	int ret = CALL(pci, d, &p);

	if (ret)
		return ret;
	switch (arg) {
	case 0:
		snprintf(out, GPUQUERY_TEXT, "%08X:%02X:%02X.0", p.domain, p.bus, p.device);
		break;
	case 1:
		snprintf(out, GPUQUERY_TEXT, "0x%04X", p.domain);
		break;
	case 2:
		snprintf(out, GPUQUERY_TEXT, "0x%02X", p.bus);
		break;
	case 3:
		snprintf(out, GPUQUERY_TEXT, "0x%02X", p.device);
		break;
	default:
		snprintf(out, GPUQUERY_TEXT, "0x%08X", arg == 4 ? p.device_id : p.subsystem_id);
	}
	return 0;
}

static int get_link(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned v = 0;
	int ret;

	if (arg == 0)
		ret = CALL(pcie_generation, d, &v);
	else if (arg == 1)
		ret = CALL(pcie_generation_max, d, &v);
	else if (arg == 2)
		ret = CALL(pcie_width, d, &v);
	else
		ret = CALL(pcie_width_max, d, &v);
	query_unsigned(out, v);
	return ret;
}

static int get_utilization(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	struct nvml_utilization u = {0};
	unsigned v = 0, period;
	int ret;

	if (arg == 2)
		ret = CALL(encoder, d, &v, &period);
	else if (arg == 3)
		ret = CALL(decoder, d, &v, &period);
	else
		ret = CALL(utilization, d, &u);
	query_unsigned(out, arg == 0 ? u.gpu : arg == 1 ? u.memory : v);
	return ret;
}

static int get_memory(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	struct nvml_memory_v2 m = {.version = NVML_VERSION(nvml_memory_v2, 2)};
	struct nvml_memory old = {0};
	int ret = CALL(memory_v2, d, &m);
	unsigned long long v;

	if (ret == NVML_FUNCTION_NOT_FOUND && arg != 1) {
		ret = CALL(memory, d, &old);
		m.total = old.total;
		m.used = old.used;
		m.free = old.free;
	}
	v = arg == 0 ? m.total : arg == 1 ? m.reserved : arg == 2 ? m.used : m.free;
	query_unsigned(out, v >> 20);
	return ret;
}

static int get_temperature(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	struct nvml_temperature_v1 t = {NVML_VERSION(nvml_temperature_v1, 1), arg, 0};
	unsigned v = 0;
	int ret = CALL(temperature, d, arg, &v);

	if (ret == NVML_FUNCTION_NOT_FOUND || ret == NVML_DEPRECATED) {
		ret = CALL(temperature_v, d, &t);
		v = (unsigned)t.celsius;
	}
	query_unsigned(out, v);
	return ret;
}

static int query_field(const struct nvml *n, struct nvml_device *d, unsigned id, double *v)
{
	struct nvml_field f = {.id = id};
	int ret = CALL(fields, d, 1, &f);

	if (!ret)
		ret = f.ret;
	if (!ret && nvml_field_number(&f, v))
		ret = NVML_NOT_SUPPORTED;
	return ret;
}

static int get_temperature_memory(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	double v = 0;
	int ret = query_field(n, d, NVML_FI_TEMPERATURE_MEMORY, &v);

	(void)arg;
	/* This one is told without brackets. */
	if (ret == NVML_NOT_SUPPORTED)
		snprintf(out, GPUQUERY_TEXT, "N/A");
	else
		snprintf(out, GPUQUERY_TEXT, "%.0f", v);
	return ret == NVML_NOT_SUPPORTED ? 0 : ret;
}

static int get_power_field(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	double v = 0;
	int ret = query_field(n, d, (unsigned)arg, &v);

	snprintf(out, GPUQUERY_TEXT, "%.2f", v / 1000);
	return ret;
}

static int get_power(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned v = 0, other = 0;
	int ret;

	switch (arg) {
	case 0:
		ret = CALL(power, d, &v);
		break;
	case 1:
		ret = CALL(power_limit, d, &v);
		break;
	case 2:
		ret = CALL(power_enforced, d, &v);
		break;
	case 3:
		ret = CALL(power_default, d, &v);
		break;
	case 4:
		ret = CALL(power_range, d, &v, &other);
		break;
	default:
		ret = CALL(power_range, d, &other, &v);
	}
	snprintf(out, GPUQUERY_TEXT, "%.2f", v / 1000.0);
	return ret;
}

static int get_clock(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned v = 0;
	int ret = CALL(clock, d, arg, &v);

	query_unsigned(out, v);
	return ret;
}

static int get_clock_max(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned v = 0;
	int ret = CALL(clock_max, d, arg, &v);

	query_unsigned(out, v);
	return ret;
}

/* arg: a bit of the mask; 0 all of it, -1 those that are supported. */
static int get_reasons(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned long long mask = 0;
	int ret = arg < 0 ? CALL(reasons_supported, d, &mask) : CALL(reasons, d, &mask);

	if (arg <= 0)
		snprintf(out, GPUQUERY_TEXT, "0x%016llX", mask);
	else
		snprintf(out, GPUQUERY_TEXT, "%s",
			 mask & (unsigned long long)arg ? "Active" : "Not Active");
	return ret;
}

static int get_pstate(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	int state = 0, ret = CALL(pstate, d, &state);

	(void)arg;
	snprintf(out, GPUQUERY_TEXT, "P%d", state);
	return ret;
}

static int get_fan(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned v = 0;
	int ret = CALL(fan, d, &v);

	(void)arg;
	query_unsigned(out, v);
	return ret;
}

static void query_enabled(char *out, bool on)
{
	snprintf(out, GPUQUERY_TEXT, "%s", on ? "Enabled" : "Disabled");
}

static int get_mode(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned mig[2] = {0};
	int mode[2] = {0}, ret;

	if (arg == 0)
		ret = CALL(persistence, d, &mode[0]);
	else if (arg < 3)
		ret = CALL(ecc_mode, d, &mode[0], &mode[1]);
	else
		ret = CALL(mig_mode, d, &mig[0], &mig[1]);
	if (arg >= 3)
		query_enabled(out, mig[arg - 3] == 1);
	else
		query_enabled(out, mode[arg == 2] != 0);
	return ret;
}

static int get_compute(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	static const char *const modes[] = {"Default", "Exclusive_Thread", "Prohibited",
					    "Exclusive_Process"};
	int a = 0, b = 0, ret;

	if (arg) {
		ret = CALL(compute_capability, d, &a, &b);
		snprintf(out, GPUQUERY_TEXT, "%d.%d", a, b);
		return ret;
	}
	ret = CALL(compute_mode, d, &a);
	snprintf(out, GPUQUERY_TEXT, "%s",
		 a >= 0 && (size_t)a < ARRAY_LEN(modes) ? modes[a] : "Unknown");
	return ret;
}

/* arg: 1 uncorrected, 2 aggregate. */
static int get_ecc(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned long long v = 0;
	int ret = CALL(ecc_total, d, arg & 1, arg >> 1, &v);

	query_unsigned(out, v);
	return ret;
}

static int get_remapped(const struct nvml *n, struct nvml_device *d, int arg, char *out)
{
	unsigned v[4] = {0};
	int ret = CALL(remapped, d, &v[0], &v[1], &v[2], &v[3]);

	if (arg < 2)
		query_unsigned(out, v[arg]);
	else
		snprintf(out, GPUQUERY_TEXT, "%s", v[arg] ? "Yes" : "No");
	return ret;
}

/* ---- the table ------------------------------------------------------------------------- */

/* clang-format off */
const struct gpuquery_field gpuquery_fields[] = {
	{"timestamp", NULL, NULL, get_own, QUERY_TIMESTAMP},
	{"driver_version", NULL, NULL, get_text, 4},
	{"count", NULL, NULL, get_own, QUERY_COUNT},
	{"name", "gpu_name", NULL, get_text, 0},
	{"serial", "gpu_serial", NULL, get_text, 2},
	{"uuid", "gpu_uuid", NULL, get_text, 1},
	{"pci.bus_id", "gpu_bus_id", NULL, get_pci, 0},
	{"pci.domain", NULL, NULL, get_pci, 1},
	{"pci.bus", NULL, NULL, get_pci, 2},
	{"pci.device", NULL, NULL, get_pci, 3},
	{"pci.device_id", NULL, NULL, get_pci, 4},
	{"pci.sub_device_id", NULL, NULL, get_pci, 5},
	{"pcie.link.gen.current", NULL, NULL, get_link, 0},
	{"pcie.link.gen.max", NULL, NULL, get_link, 1},
	{"pcie.link.width.current", NULL, NULL, get_link, 2},
	{"pcie.link.width.max", NULL, NULL, get_link, 3},
	{"index", NULL, NULL, get_own, QUERY_INDEX},
	{"persistence_mode", NULL, NULL, get_mode, 0},
	{"vbios_version", NULL, NULL, get_text, 3},
	{"fan.speed", NULL, "%", get_fan, 0},
	{"pstate", NULL, NULL, get_pstate, 0},
	{QUERY_EVENT "supported", QUERY_THROTTLE "supported", NULL, get_reasons, -1},
	{QUERY_EVENT "active", QUERY_THROTTLE "active", NULL, get_reasons, 0},
	{QUERY_EVENT "gpu_idle", QUERY_THROTTLE "gpu_idle", NULL, get_reasons, NVML_REASON_IDLE},
	{QUERY_EVENT "applications_clocks_setting", QUERY_THROTTLE "applications_clocks_setting", NULL,
	 get_reasons, NVML_REASON_APPLICATION},
	{QUERY_EVENT "sw_power_cap", QUERY_THROTTLE "sw_power_cap", NULL, get_reasons, NVML_REASON_POWER_CAP},
	{QUERY_EVENT "hw_slowdown", QUERY_THROTTLE "hw_slowdown", NULL, get_reasons, NVML_REASON_HW_SLOWDOWN},
	{QUERY_EVENT "hw_thermal_slowdown", QUERY_THROTTLE "hw_thermal_slowdown", NULL, get_reasons,
	 NVML_REASON_THERMAL_HW},
	{QUERY_EVENT "hw_power_brake_slowdown", QUERY_THROTTLE "hw_power_brake_slowdown", NULL, get_reasons,
	 NVML_REASON_POWER_BRAKE},
	{QUERY_EVENT "sw_thermal_slowdown", QUERY_THROTTLE "sw_thermal_slowdown", NULL, get_reasons,
	 NVML_REASON_THERMAL_SW},
	{QUERY_EVENT "sync_boost", QUERY_THROTTLE "sync_boost", NULL, get_reasons, NVML_REASON_SYNC_BOOST},
	{"memory.total", NULL, "MiB", get_memory, 0},
	{"memory.reserved", NULL, "MiB", get_memory, 1},
	{"memory.used", NULL, "MiB", get_memory, 2},
	{"memory.free", NULL, "MiB", get_memory, 3},
	{"compute_mode", NULL, NULL, get_compute, 0},
	{"compute_cap", NULL, NULL, get_compute, 1},
	{"utilization.gpu", NULL, "%", get_utilization, 0},
	{"utilization.memory", NULL, "%", get_utilization, 1},
	{"utilization.encoder", NULL, "%", get_utilization, 2},
	{"utilization.decoder", NULL, "%", get_utilization, 3},
	{"ecc.mode.current", NULL, NULL, get_mode, 1},
	{"ecc.mode.pending", NULL, NULL, get_mode, 2},
	{"ecc.errors.corrected.volatile.total", NULL, NULL, get_ecc, 0},
	{"ecc.errors.corrected.aggregate.total", NULL, NULL, get_ecc, 2},
	{"ecc.errors.uncorrected.volatile.total", NULL, NULL, get_ecc, 1},
	{"ecc.errors.uncorrected.aggregate.total", NULL, NULL, get_ecc, 3},
	{"remapped_rows.correctable", NULL, NULL, get_remapped, 0},
	{"remapped_rows.uncorrectable", NULL, NULL, get_remapped, 1},
	{"remapped_rows.pending", NULL, NULL, get_remapped, 2},
	{"remapped_rows.failure", NULL, NULL, get_remapped, 3},
	{"temperature.gpu", NULL, NULL, get_temperature, NVML_TEMPERATURE_GPU},
	{"temperature.memory", NULL, NULL, get_temperature_memory, 0},
	{"power.draw", NULL, "W", get_power, 0},
	{"power.draw.average", NULL, "W", get_power_field, NVML_FI_POWER_AVERAGE},
	{"power.draw.instant", NULL, "W", get_power_field, NVML_FI_POWER_INSTANT},
	{"power.limit", NULL, "W", get_power, 1},
	{"enforced.power.limit", NULL, "W", get_power, 2},
	{"power.default_limit", NULL, "W", get_power, 3},
	{"power.min_limit", NULL, "W", get_power, 4},
	{"power.max_limit", NULL, "W", get_power, 5},
	{"clocks.current.graphics", "clocks.gr", "MHz", get_clock, NVML_CLOCK_GRAPHICS},
	{"clocks.current.sm", "clocks.sm", "MHz", get_clock, NVML_CLOCK_SM},
	{"clocks.current.memory", "clocks.mem", "MHz", get_clock, NVML_CLOCK_MEMORY},
	{"clocks.current.video", "clocks.video", "MHz", get_clock, NVML_CLOCK_VIDEO},
	{"clocks.max.graphics", "clocks.max.gr", "MHz", get_clock_max, NVML_CLOCK_GRAPHICS},
	{"clocks.max.sm", NULL, "MHz", get_clock_max, NVML_CLOCK_SM},
	{"clocks.max.memory", "clocks.max.mem", "MHz", get_clock_max, NVML_CLOCK_MEMORY},
	{"mig.mode.current", NULL, NULL, get_mode, 3},
	{"mig.mode.pending", NULL, NULL, get_mode, 4},
	{NULL, NULL, NULL, NULL, 0},
};
/* clang-format on */

/* ---- lists of names -------------------------------------------------------------------- */

static bool query_is_name(const char *name, const char *word, size_t len)
{
	return name && strlen(name) == len && memcmp(name, word, len) == 0;
}

/* The next word of a list; its length, 0 at the end. */
static size_t query_word(const char **list)
{
	*list += strspn(*list, ", \t\n");
	return strcspn(*list, ", \t\n");
}

int gpuquery_parse(struct gpuquery *q, const char *list, struct err *e)
{
	const struct gpuquery_field *f;
	struct near near = {0};
	char word[NEAR_LEN_MAX + 1];
	size_t len;

	q->n = 0;
	for (; (len = query_word(&list)) > 0; list += len) {
		for (f = gpuquery_fields; f->name; f++)
			if (query_is_name(f->name, list, len) || query_is_name(f->also, list, len))
				break;
		if (!f->name) {
			snprintf(word, sizeof(word), "%.*s",
				 (int)(len < NEAR_LEN_MAX ? len : NEAR_LEN_MAX), list);
			for (f = gpuquery_fields; f->name; f++) {
				near_try(&near, word, f->name);
				if (f->also)
					near_try(&near, word, f->also);
			}
			return err_set(e, -EINVAL, "field \"%s\" is not known%s%s%s", word,
				       near.best ? "; did you mean " : "",
				       near.best ? near.best : "", near.best ? "?" : "");
		}
		if (q->n == GPUQUERY_MAX)
			return err_set(e, -EINVAL, "more than %d fields", GPUQUERY_MAX);
		q->fields[q->n++] = f;
	}
	if (q->n == 0)
		return err_set(e, -EINVAL, "no field is named");
	return 0;
}

int gpuquery_format(struct gpuquery *q, const char *format, struct err *e)
{
	bool csv = false;
	size_t len;

	q->header = q->units = true;
	for (; (len = query_word(&format)) > 0; format += len) {
		if (query_is_name("csv", format, len))
			csv = true;
		else if (query_is_name("noheader", format, len))
			q->header = false;
		else if (query_is_name("nounits", format, len))
			q->units = false;
		else
			return err_set(e, -EINVAL,
				       "format \"%.*s\" is not known: csv, noheader, nounits",
				       (int)(len < 64 ? len : 64), format);
	}
	if (!csv)
		return err_set(e, -EINVAL,
			       "only the format csv is written: csv[,noheader][,nounits]");
	return 0;
}

/* ---- lines ------------------------------------------------------------------------------ */

void gpuquery_header(const struct gpuquery *q, int driver_major, FILE *to)
{
	size_t i;

	for (i = 0; i < q->n; i++) {
		const struct gpuquery_field *f = q->fields[i];
		bool old = f->also && driver_major < QUERY_EVENT_DRIVER &&
			   strncmp(f->also, QUERY_THROTTLE, strlen(QUERY_THROTTLE)) == 0;

		fprintf(to, "%s%s", i ? ", " : "", old ? f->also : f->name);
		if (f->unit && q->units)
			fprintf(to, " [%s]", f->unit);
	}
	fputc('\n', to);
}

static const char *query_failed(int ret)
{
	switch (ret) {
	case NVML_NO_PERMISSION:
		return "[Insufficient Permissions]";
	case NVML_DEPRECATED:
		return "[Requested functionality has been deprecated]";
	case NVML_GPU_IS_LOST:
		return "[GPU is lost]";
	case NVML_RESET_REQUIRED:
		return "[GPU requires reset]";
	case NVML_NOT_SUPPORTED:
	case NVML_FUNCTION_NOT_FOUND:
	case NVML_INVALID_ARGUMENT:
		return "[N/A]";
	default:
		return "[Unknown Error]";
	}
}

static void query_timestamp(char out[GPUQUERY_TEXT])
{
	struct timespec t;
	struct tm tm;
	char text[32];

	clock_gettime(CLOCK_REALTIME, &t);
	localtime_r(&t.tv_sec, &tm);
	strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", &tm);
	snprintf(out, GPUQUERY_TEXT, "%s.%03d", text, (int)(t.tv_nsec / 1000000));
}

void gpuquery_line(const struct gpuquery *q, const struct nvml *n, struct nvml_device *d,
		   unsigned index, unsigned count, FILE *to)
{
	char text[GPUQUERY_TEXT];
	size_t i;
	int ret;

	for (i = 0; i < q->n; i++) {
		const struct gpuquery_field *f = q->fields[i];

		text[0] = '\0';
		ret = 0;
		if (f->get != get_own)
			ret = f->get(n, d, f->arg, text);
		else if (f->arg == QUERY_TIMESTAMP)
			query_timestamp(text);
		else
			query_unsigned(text, f->arg == QUERY_INDEX ? index : count);
		fputs(i ? ", " : "", to);
		if (ret)
			fputs(query_failed(ret), to);
		else
			fprintf(to, "%s%s%s", text, f->unit && q->units ? " " : "",
				f->unit && q->units ? f->unit : "");
	}
	fputc('\n', to);
}

bool gpuquery_is(const char *id, unsigned index, const char *uuid, const struct nvml_pci *pci)
{
	char *end;
	unsigned long number = strtoul(id, &end, 10);
	unsigned domain, bus, device;

	if (end != id && *end == '\0')
		return number == index;
	if (strcasecmp(id, uuid) == 0)
		return true;
	return sscanf(id, "%x:%x:%x", &domain, &bus, &device) == 3 && domain == pci->domain &&
	       bus == pci->bus && device == pci->device;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/gpu/nvidia_field.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "wire/clock.h"

#define ALL NVML_SCOPE_ALL

/* clang-format off */
const struct nvidia_field nvidia_fields[] = {
	{NVML_FI_POWER_INSTANT, 0, GPU_POWER, NVIDIA_GAUGE, 1e-3, NULL},
	{NVML_FI_POWER_AVERAGE, 0, GPU_POWER_AVERAGE, NVIDIA_GAUGE, 1e-3, NULL},
	{NVML_FI_ENERGY, 0, GPU_ENERGY, NVIDIA_COUNT64, 1e-3, NULL},
	{NVML_FI_TEMPERATURE_MEMORY, 0, GPU_TEMPERATURE_MEMORY, NVIDIA_GAUGE, 1, NULL},
	{NVML_FI_POLICY_POWER, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "power_cap"},
	{NVML_FI_POLICY_THERMAL, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "thermal_sw"},
	{NVML_FI_POLICY_SYNC_BOOST, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "sync_boost"},
	{NVML_FI_POLICY_BOARD_LIMIT, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "board_limit"},
	{NVML_FI_POLICY_RELIABILITY, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "reliability"},
	{NVML_FI_SLOWDOWN_OLD + 1, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "thermal_hw"},
	{NVML_FI_SLOWDOWN_OLD + 2, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "power_brake"},
	{NVML_FI_SLOWDOWN_NEW + 1, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "thermal_hw"},
	{NVML_FI_SLOWDOWN_NEW + 2, 0, GPU_THROTTLED_REASON, NVIDIA_REASON, 1e-9, "power_brake"},
	{NVML_FI_ECC_CORRECTED, 0, GPU_ECC_CORRECTED, NVIDIA_COUNT, 1, NULL},
	{NVML_FI_ECC_UNCORRECTED, 0, GPU_ECC_UNCORRECTED, NVIDIA_COUNT, 1, NULL},
	{NVML_FI_REMAPPED_CORRECTED, 0, GPU_ECC_REMAPPED, NVIDIA_GAUGE, 1, "corrected"},
	{NVML_FI_REMAPPED_UNCORRECTED, 0, GPU_ECC_REMAPPED, NVIDIA_GAUGE, 1, "uncorrected"},
	{NVML_FI_RETIRED_CORRECTED, 0, GPU_ECC_REMAPPED, NVIDIA_GAUGE, 1, "corrected"},
	{NVML_FI_RETIRED_UNCORRECTED, 0, GPU_ECC_REMAPPED, NVIDIA_GAUGE, 1, "uncorrected"},
	{NVML_FI_REMAPPED_PENDING, 0, GPU_ECC_PENDING, NVIDIA_GAUGE, 1, NULL},
	{NVML_FI_RETIRED_PENDING, 0, GPU_ECC_PENDING, NVIDIA_GAUGE, 1, NULL},
	{NVML_FI_REMAPPED_FAILURE, 0, GPU_ECC_FAILURE, NVIDIA_GAUGE, 1, NULL},
	{NVML_FI_RECOVERY_ACTION, 0, GPU_RECOVERY, NVIDIA_GAUGE, 1, NULL},
	{NVML_FI_PCIE_RX, 0, GPU_PCIE_RECEIVED, NVIDIA_COUNT64, 1, NULL},
	{NVML_FI_PCIE_TX, 0, GPU_PCIE_SENT, NVIDIA_COUNT64, 1, NULL},
	{NVML_FI_PCIE_REPLAY, 0, GPU_PCIE_REPLAYS, NVIDIA_COUNT, 1, NULL},
	{NVML_FI_NVLINK_DATA_RX, ALL, GPU_NVLINK_RECEIVED, NVIDIA_COUNT64, 1024, NULL},
	{NVML_FI_NVLINK_RX, ALL, GPU_NVLINK_RECEIVED, NVIDIA_COUNT64, 1, NULL},
	{NVML_FI_NVLINK_DATA_TX, ALL, GPU_NVLINK_SENT, NVIDIA_COUNT64, 1024, NULL},
	{NVML_FI_NVLINK_TX, ALL, GPU_NVLINK_SENT, NVIDIA_COUNT64, 1, NULL},
	{NVML_FI_NVLINK_CRC, ALL, GPU_NVLINK_ERRORS, NVIDIA_COUNT, 1, "crc"},
	{NVML_FI_NVLINK_CRC_OLD, ALL, GPU_NVLINK_ERRORS, NVIDIA_COUNT, 1, "crc"},
	{NVML_FI_NVLINK_REPLAY, ALL, GPU_NVLINK_ERRORS, NVIDIA_COUNT, 1, "replay"},
	{NVML_FI_NVLINK_REPLAY_OLD, ALL, GPU_NVLINK_ERRORS, NVIDIA_COUNT, 1, "replay"},
	{NVML_FI_NVLINK_RECOVERY, ALL, GPU_NVLINK_ERRORS, NVIDIA_COUNT, 1, "recovery"},
	{NVML_FI_NVLINK_RECOVERY_OLD, ALL, GPU_NVLINK_ERRORS, NVIDIA_COUNT, 1, "recovery"},
	{NVML_FI_NVLINK_RX_ERRORS, ALL, GPU_NVLINK_ERRORS, NVIDIA_COUNT, 1, "receive"},
};
/* clang-format on */
const size_t nvidia_n_fields = ARRAY_LEN(nvidia_fields);

_Static_assert(ARRAY_LEN(nvidia_fields) <= NVIDIA_FIELDS_MAX, "NVIDIA_FIELDS_MAX");

/* Reasons, their bit in the mask, and which of them are gpu/throttled. */
static const struct {
	const char *label;
	unsigned long long mask; /* 0: the mask does not tell it */
	bool heat;
} nvidia_reasons[NVIDIA_REASONS] = {
	{"power_cap", NVML_REASON_POWER_CAP, false},
	{"thermal_sw", NVML_REASON_THERMAL_SW, true},
	{"thermal_hw", NVML_REASON_THERMAL_HW, true},
	{"power_brake", NVML_REASON_POWER_BRAKE, true},
	{"sync_boost", NVML_REASON_SYNC_BOOST, false},
	{"board_limit", 0, false},
	{"reliability", 0, false},
};

/* ---- what the driver knows ----------------------------------------------------------- */

static int field_ask(struct nvidia *n, struct nvidia_gpu *g, struct nvml_field *f, int count)
{
	if (!n->nvml->api.fields)
		return NVML_FUNCTION_NOT_FOUND;
	nvml_begin(n->nvml);
	return nvml_end(n->nvml, NVML_CALL_DISCOVER, n->nvml->api.fields(g->handle, count, f));
}

/* The three counters have moved in the numbering, and the numbers that they left were given to
 * others: only the place at which all three are known, and where the first agrees with
 * the field that has always been the same counter, is theirs. */
unsigned nvidia_slowdown(struct nvidia *n, struct nvidia_gpu *g, int *ret)
{
	static const unsigned bases[] = {NVML_FI_SLOWDOWN_OLD, NVML_FI_SLOWDOWN_NEW};
	struct nvml_field f[7] = {{0}};
	bool ok[2] = {true, true};
	uint64_t thermal = 0, v;
	unsigned i, k;

	for (i = 0; i < 6; i++)
		f[i].id = bases[i / 3] + i % 3;
	f[6].id = NVML_FI_POLICY_THERMAL;
	*ret = field_ask(n, g, f, 7);
	if (*ret)
		return 0;
	for (i = 0; i < 6; i++)
		ok[i / 3] &= f[i].type == NVML_ULONGLONG && !nvml_field_u64(&f[i], &v);
	if (ok[0] && ok[1] && !nvml_field_u64(&f[6], &thermal) && thermal > 0)
		for (k = 0; k < 2; k++)
			ok[k] = f[3 * k].value.ull >= thermal &&
				f[3 * k].value.ull - thermal < 1000000000;
	if (ok[0] == ok[1])
		return 0;
	return ok[0] ? bases[0] : bases[1];
}

static bool field_is_slowdown(unsigned id)
{
	return id == NVML_FI_SLOWDOWN_OLD + 1 || id == NVML_FI_SLOWDOWN_OLD + 2 ||
	       id == NVML_FI_SLOWDOWN_NEW + 1 || id == NVML_FI_SLOWDOWN_NEW + 2;
}

static bool field_same(const struct nvidia_field *a, const struct nvidia_field *b)
{
	return a->row == b->row &&
	       (a->label == b->label || (a->label && b->label && strcmp(a->label, b->label) == 0));
}

/* Is there one before it that says the same? */
static bool field_is_spare(const struct nvidia_gpu *g, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (g->field[k] != NVIDIA_NO && field_same(&nvidia_fields[k], &nvidia_fields[i]))
			return true;
	return false;
}

/* Will it never be told? */
static bool field_is_final(int ret)
{
	return ret == NVML_NOT_SUPPORTED || ret == NVML_INVALID_ARGUMENT ||
	       ret == NVML_DEPRECATED || ret == NVML_FUNCTION_NOT_FOUND ||
	       ret == NVML_NO_PERMISSION || ret == NVML_NOT_FOUND;
}

static void field_no(struct nvidia_gpu *g, size_t i, const char *why)
{
	g->field[i] = NVIDIA_NO;
	g->field_why[i] = why;
}

static int field_classify(struct nvidia *n, struct nvidia_gpu *g, size_t i)
{
	const struct nvidia_field *row = &nvidia_fields[i];
	int64_t least = INT64_MAX, took;
	struct nvml_field f;
	int ret, try;

	for (try = 0; try < 3 && least > NVIDIA_SLOW_NS; try++) {
		f = (struct nvml_field){.id = row->id, .scope = row->scope};
		took = clock_ns(CLOCK_MONOTONIC);
		ret = field_ask(n, g, &f, 1);
		took = clock_ns(CLOCK_MONOTONIC) - took;
		if (nvml_is_gone(ret) || nvml_is_gone(f.ret))
			return ret ? ret : f.ret;
		if (ret)
			f.ret = ret;
		if (f.ret && field_is_final(f.ret)) {
			field_no(g, i, nvml_why(f.ret));
			return 0;
		}
		least = took < least ? took : least;
	}
	if (row->how == NVIDIA_COUNT64 && !f.ret && (f.type == NVML_UINT || f.type == NVML_USHORT))
		field_no(g, i, "the driver's counter has 32 bits and wraps between two readings");
	else
		g->field[i] = least > NVIDIA_SLOW_NS ? NVIDIA_SLOW : NVIDIA_FAST;
	return 0;
}

int nvidia_classify(struct nvidia *n, struct nvidia_gpu *g)
{
	unsigned base;
	int ret = 0;
	size_t i;

	base = nvidia_slowdown(n, g, &ret);
	if (nvml_is_gone(ret))
		return ret;
	g->throttle_slow = false;
	for (i = 0; i < nvidia_n_fields; i++) {
		const struct nvidia_field *row = &nvidia_fields[i];

		field_no(g, i, "another field tells it");
		if (field_is_slowdown(row->id) && (!base || row->id < base || row->id > base + 2)) {
			field_no(g, i, "this driver has no counter of it");
			continue;
		}
		if (field_is_spare(g, i))
			continue;
		ret = field_classify(n, g, i);
		if (ret)
			return ret;
		if (row->how == NVIDIA_REASON)
			g->throttle_slow |= g->field[i] == NVIDIA_SLOW;
	}
	for (i = 0; i < nvidia_n_fields; i++)
		if (nvidia_fields[i].how == NVIDIA_REASON && g->field[i] != NVIDIA_NO)
			g->field[i] = g->throttle_slow ? NVIDIA_SLOW : NVIDIA_FAST;
	return 0;
}

/* ---- points ---------------------------------------------------------------------------- */

static uint32_t field_point(const struct nvidia_gpu *g, struct probe_set *s, enum gpu_row row,
			    const char *label)
{
	char labels[PROBE_LABELS_MAX];

	nvidia_labels(g, labels);
	if (label)
		probe_label(labels, sizeof(labels), row == GPU_THROTTLED_REASON ? "reason" : "kind",
			    label);
	return probe_point(s, &gpu_rows[row], labels);
}

/* Of what is not told, the points are made by the group that has the row, to say why. */
static bool field_is_mine(const struct nvidia_gpu *g, size_t i, enum nvidia_class c)
{
	size_t k;

	if (g->field[i] != NVIDIA_NO)
		return g->field[i] == c;
	if (c != (nvidia_fields[i].row < GPU_ROWS_FAST ? NVIDIA_FAST : NVIDIA_SLOW) ||
	    nvidia_fields[i].how == NVIDIA_REASON)
		return false;
	for (k = 0; k < nvidia_n_fields; k++)
		if (k != i && field_same(&nvidia_fields[k], &nvidia_fields[i]) &&
		    (k < i || g->field[k] != NVIDIA_NO))
			return false;
	return true;
}

static void reasons_init(struct nvidia_figures *f, const struct nvidia_gpu *g, struct probe_set *s)
{
	size_t i, k;

	for (k = 0; k < NVIDIA_REASONS; k++) {
		f->reason_field[k] = -1;
		for (i = 0; i < nvidia_n_fields; i++)
			if (nvidia_fields[i].how == NVIDIA_REASON && g->field[i] != NVIDIA_NO &&
			    strcmp(nvidia_fields[i].label, nvidia_reasons[k].label) == 0)
				f->reason_field[k] = (int)i;
		f->reason[k] = field_point(g, s, GPU_THROTTLED_REASON, nvidia_reasons[k].label);
	}
	f->throttled = field_point(g, s, GPU_THROTTLED, NULL);
}

void nvidia_figures_init(struct nvidia_figures *f, const struct nvidia_gpu *g, enum nvidia_class c,
			 struct probe_set *s)
{
	size_t i;

	memset(f, 0, sizeof(*f));
	f->throttled = PROBE_NONE;
	for (i = 0; i < nvidia_n_fields; i++) {
		f->field[i] = PROBE_NONE;
		f->share[i] = NAN;
		if (nvidia_fields[i].how == NVIDIA_REASON || !field_is_mine(g, i, c))
			continue;
		f->field[i] = field_point(g, s, nvidia_fields[i].row, nvidia_fields[i].label);
		if (g->field[i] == NVIDIA_NO)
			probe_absent(s, f->field[i], g->field_why[i]);
	}
	if (g->throttle_slow == (c == NVIDIA_SLOW))
		reasons_init(f, g, s);
}

void nvidia_figures_absent(struct nvidia_figures *f, struct probe_set *s, const char *why)
{
	size_t i;

	for (i = 0; i < nvidia_n_fields; i++) {
		probe_absent(s, f->field[i], why);
		f->raw_ns[i] = 0;
	}
	if (f->throttled == PROBE_NONE)
		return;
	for (i = 0; i < NVIDIA_REASONS; i++)
		probe_absent(s, f->reason[i], why);
	probe_absent(s, f->throttled, why);
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Part of the time since it was read before; NaN the first time. */
static double figure_share(struct nvidia_figures *f, size_t i, uint64_t raw, int64_t mono_ns)
{
	int64_t passed = mono_ns - f->raw_ns[i];
	double share = NAN;

	if (f->raw_ns[i] && passed > 0 && raw >= f->raw[i]) {
		share = (double)(raw - f->raw[i]) / (double)passed;
		share = share > 1 ? 1 : share;
	}
	f->raw[i] = raw;
	f->raw_ns[i] = mono_ns;
	return share;
}

static void figure_put(struct nvidia_gpu *g, struct nvidia_figures *f, size_t i,
		       const struct nvml_field *v, struct probe_set *s, const struct probe_now *now)
{
	const struct nvidia_field *row = &nvidia_fields[i];
	uint64_t raw;
	double x;

	if (v->ret && field_is_final(v->ret))
		field_no(g, i, nvml_why(v->ret));
	if (row->how == NVIDIA_REASON) {
		f->share[i] = nvml_field_u64(v, &raw) ? NAN : figure_share(f, i, raw, now->mono_ns);
	} else if (row->how == NVIDIA_GAUGE) {
		if (nvml_field_number(v, &x))
			probe_absent(s, f->field[i], nvml_why(v->ret ? v->ret : NVML_NO_DATA));
		else
			probe_put(s, f->field[i], x * row->scale);
	} else if (nvml_field_u64(v, &raw)) {
		probe_absent(s, f->field[i], nvml_why(v->ret ? v->ret : NVML_NO_DATA));
	} else {
		probe_count(s, f->field[i], raw, v->type == NVML_UINT ? 32 : 0, row->scale);
	}
}

/* The mask, where some reason has no counter. *known: it holds. */
static int figures_mask(struct nvidia *n, struct nvidia_gpu *g, const struct nvidia_figures *f,
			unsigned long long *mask, bool *known)
{
	bool wanted = false;
	size_t k;
	int ret;

	*known = false;
	for (k = 0; k < NVIDIA_REASONS; k++)
		wanted |= nvidia_reasons[k].mask && f->reason_field[k] < 0;
	if (!wanted || !n->nvml->api.reasons)
		return 0;
	nvml_begin(n->nvml);
	ret = nvml_end(n->nvml, NVML_CALL_REASONS, n->nvml->api.reasons(g->handle, mask));
	*known = ret == NVML_OK;
	return nvml_is_gone(ret) ? ret : 0;
}

static int figures_reasons(struct nvidia *n, struct nvidia_gpu *g, struct nvidia_figures *f,
			   struct probe_set *s)
{
	unsigned long long mask = 0;
	double sum = 0, share;
	bool known;
	int ret = figures_mask(n, g, f, &mask, &known);
	size_t k;

	if (ret)
		return ret;
	for (k = 0; k < NVIDIA_REASONS; k++) {
		share = NAN;
		if (f->reason_field[k] >= 0)
			share = f->share[f->reason_field[k]];
		else if (nvidia_reasons[k].mask && known)
			share = mask & nvidia_reasons[k].mask ? 1 : 0;
		if (isnan(share))
			probe_absent(s, f->reason[k],
				     f->reason_field[k] >= 0 ? "needs a second reading"
							     : nvml_why(NVML_NOT_SUPPORTED));
		else
			probe_put(s, f->reason[k], share);
		if (nvidia_reasons[k].heat)
			sum += share;
	}
	if (isnan(sum))
		probe_absent(s, f->throttled, "a reason is not known in this reading");
	else
		probe_put(s, f->throttled, sum > 1 ? 1 : sum);
	return 0;
}

int nvidia_figures_read(struct nvidia *n, struct nvidia_gpu *g, struct nvidia_figures *f,
			enum nvidia_class c, struct probe_set *s, const struct probe_now *now)
{
	struct nvml_field v[NVIDIA_FIELDS_MAX];
	uint8_t at[NVIDIA_FIELDS_MAX];
	int count = 0, k, ret;
	size_t i;

	for (i = 0; i < nvidia_n_fields; i++) {
		if (g->field[i] != c)
			continue;
		v[count] = (struct nvml_field){.id = nvidia_fields[i].id,
					       .scope = nvidia_fields[i].scope,
					       .ret = NVML_NO_DATA};
		at[count++] = (uint8_t)i;
	}
	if (count > 0) {
		nvml_begin(n->nvml);
		ret = nvml_end(n->nvml, c == NVIDIA_FAST ? NVML_CALL_FIELDS : NVML_CALL_FIELDS_SLOW,
			       n->nvml->api.fields(g->handle, count, v));
		if (nvml_is_gone(ret))
			return ret;
		for (k = 0; k < count; k++) {
			if (ret)
				v[k].ret = ret;
			if (nvml_is_gone(v[k].ret))
				return v[k].ret;
			figure_put(g, f, at[k], &v[k], s, now);
		}
	}
	return f->throttled == PROBE_NONE ? 0 : figures_reasons(n, g, f, s);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report_usage.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

static void json_stat(struct json *j, const char *key, const struct usage_item *i, bool p95)
{
	json_key(j, key);
	json_object(j);
	json_kuint(j, "count", i ? i->count : 0);
	runview_json_known(j, "mean", i ? i->mean : NAN);
	if (p95)
		runview_json_known(j, "p95", i ? i->p95 : NAN);
	runview_json_known(j, "max", i ? i->max : NAN);
	runview_json_known(j, "last", i ? i->last : NAN);
	json_object_end(j);
}

/* A counter: amount, and a second. */
static void json_flow(struct json *j, const char *key, const struct usage_item *i)
{
	json_key(j, key);
	json_object(j);
	json_kuint(j, "count", i ? i->count : 0);
	runview_json_known(j, "sum", i ? i->sum : NAN);
	runview_json_known(j, "per_s", i ? i->rate : NAN);
	runview_json_known(j, "per_s_max", i ? i->rate_max : NAN);
	json_object_end(j);
}

static void json_sum(struct json *j, const char *key, const struct usage_item *i)
{
	runview_json_known(j, key, i ? i->sum : NAN);
}

/* What the instances of a host have: by the first metric that an instance has any of. */
struct json_part {
	const char *key, *metric;
	bool is_flow;
};

static void json_instances(struct json *j, const struct usage *u, const char *host, const char *key,
			   const char *label, const struct json_part *parts, size_t n)
{
	const struct usage_item *i = NULL;
	char value[USAGE_LABEL_MAX];
	size_t k;

	json_key(j, key);
	json_array(j);
	while ((i = usage_next(u, host, parts[0].metric, i))) {
		json_object(j);
		json_kstr(j, label, usage_label(i, label, value));
		for (k = 0; k < n; k++) {
			const struct usage_item *of =
				usage_find(u, host, parts[k].metric, i->s->labels);

			if (parts[k].is_flow)
				json_flow(j, parts[k].key, of);
			else
				json_stat(j, parts[k].key, of, false);
		}
		json_object_end(j);
	}
	json_array_end(j);
}

void report_usage_json_machine(struct json *j, const struct usage *u, const char *host)
{
	static const struct {
		const char *key, *metric;
		bool p95;
	} rows[] = {
		{"cpu_busy_spread", "cpu/busy", true},
		{"cpu_count", "cpu/count", false},
		{"cpu_iowait", "cpu/iowait", false},
		{"cpu_steal", "cpu/steal", false},
		{"load_1m", "load/1m", false},
		{"pressure_cpu", "pressure/cpu", false},
		{"pressure_memory", "pressure/memory", false},
		{"pressure_io", "pressure/io", false},
		{"swap_used_bytes", "swap/used", false},
		{"swap_total_bytes", "swap/total", false},
		{"shm_used_bytes", "shm/used", false},
		{"shm_total_bytes", "shm/total", false},
		{"agent_cpu", "lapse/agent/cpu", false},
		{"agent_rss_bytes", "lapse/agent/rss", false},
		{"agent_rss_anonymous_bytes", "lapse/agent/rss/anonymous", false},
	};
	static const struct json_part disks[] = {
		{"read_bytes", "disk/read", true},
		{"written_bytes", "disk/written", true},
		{"busy", "disk/busy", false},
	};
	static const struct json_part interfaces[] = {
		{"received_bytes", "network/received", true},
		{"sent_bytes", "network/sent", true},
	};
	static const struct json_part mounts[] = {
		{"total_bytes", "filesystem/total", false},
		{"used_bytes", "filesystem/used", false},
		{"available_bytes", "filesystem/available", false},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		json_stat(j, rows[i].key, usage_find(u, host, rows[i].metric, ""), rows[i].p95);
	json_instances(j, u, host, "disks", "device", disks, ARRAY_LEN(disks));
	json_instances(j, u, host, "networks", "interface", interfaces, ARRAY_LEN(interfaces));
	json_instances(j, u, host, "filesystems", "mount", mounts, ARRAY_LEN(mounts));
}

static void json_gpu(struct json *j, const struct usage *u, const struct usage_gpu *g)
{
	static const struct {
		const char *key, *metric;
	} stats[] =
		{
			{"busy", "gpu/busy"},
			{"sm_active", "gpu/sm/active"},
			{"tensor_active", "gpu/tensor/active"},
			{"memory_used_bytes", "gpu/memory/used"},
			{"memory_total_bytes", "gpu/memory/total"},
			{"power_w", "gpu/power"},
			{"temperature_cel", "gpu/temperature"},
			{"throttled", "gpu/throttled"},
		},
	  sums[] = {
		  {"energy_j", "gpu/energy"},
		  {"ecc_corrected", "gpu/ecc/corrected"},
		  {"ecc_uncorrected", "gpu/ecc/uncorrected"},
		  {"xid", "gpu/xid"},
	  };
	const struct usage_item *busy = usage_find(u, g->host, "gpu/busy", g->labels);
	size_t i;

	json_object(j);
	json_kstr(j, "host", g->host);
	json_kstr(j, "gpu", g->number);
	json_kstr(j, "name", g->name);
	for (i = 0; i < ARRAY_LEN(stats); i++)
		json_stat(j, stats[i].key, usage_find(u, g->host, stats[i].metric, g->labels),
			  false);
	runview_json_known(j, "busy_in_steps", busy ? busy->in_steps : NAN);
	json_kstr(j, "throttle_reason", g->reason[0] ? g->reason : NULL);
	runview_json_number(j, "throttle_reason_share", g->reason_share, g->reason[0] != '\0');
	for (i = 0; i < ARRAY_LEN(sums); i++)
		json_sum(j, sums[i].key, usage_find(u, g->host, sums[i].metric, g->labels));
	json_object_end(j);
}

static void json_process(struct json *j, const struct usage *u, const struct usage_process *p)
{
	static const struct {
		const char *key, *metric;
	} stats[] = {
		{"cpu_cores", "process/cpu"},     {"rss_bytes", "process/rss"},
		{"threads", "process/threads"},   {"read_cached", "process/read/cached"},
		{"blocked", "process/blocked"},   {"runqueue", "process/runqueue"},
		{"gpu_busy", "process/gpu/busy"}, {"gpu_memory_bytes", "process/gpu/memory"},
	};
	const struct usage_item *peak = usage_find(u, p->host, "process/rss/peak", p->labels);
	size_t i;

	json_object(j);
	json_kstr(j, "host", p->host);
	json_kstr(j, "role", p->role);
	json_kstr(j, "slot", p->slot[0] ? p->slot : NULL);
	for (i = 0; i < ARRAY_LEN(stats); i++)
		json_stat(j, stats[i].key, usage_find(u, p->host, stats[i].metric, p->labels),
			  false);
	runview_json_known(j, "rss_peak_bytes", peak ? peak->max : NAN);
	json_sum(j, "read_bytes", usage_find(u, p->host, "process/read", p->labels));
	json_sum(j, "written_bytes", usage_find(u, p->host, "process/written", p->labels));
	json_object_end(j);
}

void report_usage_json(struct json *j, const struct usage *u, const struct usage_energy *en)
{
	struct usage_process *processes;
	struct usage_gpu *gpus;
	size_t n, i;

	gpus = usage_gpus(u, &n);
	json_key(j, "gpus");
	json_array(j);
	for (i = 0; i < n; i++)
		json_gpu(j, u, &gpus[i]);
	json_array_end(j);
	free(gpus);
	processes = usage_processes(u, &n);
	json_key(j, "process_usage");
	json_array(j);
	for (i = 0; i < n; i++)
		json_process(j, u, &processes[i]);
	json_array_end(j);
	free(processes);
	json_key(j, "energy");
	json_object(j);
	runview_json_known(j, "total_j", en->total);
	runview_json_known(j, "steps_w", en->watts);
	runview_json_known(j, "per_step_j", en->per_step);
	runview_json_known(j, "per_sample_j", en->per_sample);
	runview_json_known(j, "per_token_j", en->per_token);
	json_kuint(j, "gpus_by_energy", en->by_energy);
	json_kuint(j, "gpus_by_power", en->by_power);
	json_object_end(j);
}

void report_usage_json_standouts(struct json *j, const struct standout *all, size_t n)
{
	static const char *const units[] = {[STANDOUT_TIME] = "1",
					    [STANDOUT_SHARE] = "1",
					    [STANDOUT_COUNT] = "1",
					    [STANDOUT_BYTES] = "By"};
	size_t i;

	json_key(j, "stands_out");
	json_array(j);
	for (i = 0; i < n; i++) {
		json_object(j);
		json_kstr(j, "id", all[i].id);
		json_kstr(j, "host", all[i].host[0] ? all[i].host : NULL);
		json_kstr(j, "place", all[i].place[0] ? all[i].place : NULL);
		json_kstr(j, "metric", all[i].metric);
		json_kstr(j, "of", all[i].of);
		json_kstr(j, "text", all[i].text);
		json_kdouble(j, "value", all[i].value);
		json_kdouble(j, "threshold", all[i].threshold);
		json_kstr(j, "unit", units[all[i].unit]);
		json_object_end(j);
	}
	json_array_end(j);
}

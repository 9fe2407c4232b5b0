/* SPDX-License-Identifier: Apache-2.0
 *
 * view_json.c - the JSON half of view.h.
 */
#include "report/runview.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void runview_json_step(struct json *j, const char *key, int64_t step)
{
	json_key(j, key);
	if (step == SINK_STEP_NONE)
		json_null(j);
	else
		json_int(j, step);
}

void runview_json_time(struct json *j, const char *key, int64_t time_ns)
{
	char text[FMT_MAX], key_ns[64];

	snprintf(key_ns, sizeof(key_ns), "%s_ns", key);
	if (time_ns == 0) {
		json_kstr(j, key_ns, NULL);
		json_kstr(j, key, NULL);
		return;
	}
	json_kint(j, key_ns, time_ns);
	json_kstr(j, key, fmt_utc(text, time_ns));
}

void runview_json_number(struct json *j, const char *key, double v, bool has)
{
	json_key(j, key);
	if (has)
		json_double(j, v);
	else
		json_null(j);
}

void runview_json_known(struct json *j, const char *key, double v)
{
	runview_json_number(j, key, v, isfinite(v));
}

static void view_json_outcome(struct json *j, const struct store_run *run)
{
	char name[FMT_MAX];
	double duration = runview_duration_s(run);

	json_kstr(j, "outcome", run_outcome_name(run->outcome));
	json_key(j, "exit_code");
	if (run->outcome == RUN_EXITED || (run->outcome == RUN_HUNG && run->code >= 0))
		json_int(j, run->code);
	else
		json_null(j);
	json_kstr(j, "signal", run->signal ? runview_signal(name, run->signal) : NULL);
	json_kbool(j, "core", run->core);
	json_kstr(j, "evidence", run->evidence);
	runview_json_time(j, "start", run->start_ns);
	runview_json_time(j, "end", run->end_ns);
	runview_json_number(j, "duration_s", duration, !isnan(duration));
}

void runview_json_run_of(struct json *j, const struct store_run *run, const char *dir,
			 const char *warning)
{
	bool reaped = runview_has_usage(run);

	json_kstr(j, "id", run->id);
	json_kstr(j, "name", run->name);
	json_kstr(j, "project", run->project);
	json_kstr(j, "command", run->command);
	json_kstr(j, "cwd", run->cwd);
	json_kstr(j, "user", run->user);
	json_kstr(j, "hosts", run->hosts);
	json_kstr(j, "tags", run->tags);
	json_kstr(j, "notes", run->notes);
	json_kstr(j, "dir", dir);
	view_json_outcome(j, run);
	runview_json_number(j, "user_s", run->user_s, reaped);
	runview_json_number(j, "system_s", run->system_s, reaped);
	runview_json_number(j, "max_rss", (double)run->max_rss, reaped && run->max_rss > 0);
	json_kstr(j, "warning", warning);
}

void runview_json_run(struct json *j, const struct runview *v)
{
	runview_json_run_of(j, &v->run, v->dir, store_reader_warning(v->reader));
}

void runview_json_process(struct json *j, const struct store_process *p)
{
	json_object(j);
	json_kstr(j, "host", p->host_name);
	json_kuint(j, "process", p->id);
	json_kstr(j, "role", p->role);
	json_kstr(j, "program", p->program);
	json_kint(j, "pid", p->pid);
	json_kint(j, "ppid", p->ppid);
	runview_json_number(j, "rank", (double)p->rank, p->rank >= 0);
	runview_json_number(j, "local_rank", (double)p->local_rank, p->local_rank >= 0);
	runview_json_number(j, "world_size", (double)p->world_size, p->world_size >= 0);
	runview_json_time(j, "start", p->start_ns);
	runview_json_time(j, "end", p->end_ns);
	json_kuint(j, "attempts", p->stored + p->dropped + p->overwritten + p->broken);
	json_kuint(j, "stored", p->stored);
	json_kuint(j, "dropped", p->dropped);
	json_kuint(j, "overwritten", p->overwritten);
	json_kuint(j, "broken", p->broken);
	json_kuint(j, "refused", p->refused);
	json_object_end(j);
}

int runview_json_print(const char *command, const struct buf *b)
{
	if (b->error) {
		fprintf(stderr,
			"lapse %s: the JSON document is larger than %u MiB; narrow it with "
			"--series, or use lapse export\n",
			command, RUNVIEW_JSON_MAX >> 20);
		return 1;
	}
	fwrite(b->data, 1, b->len, stdout);
	putchar('\n');
	return 0;
}

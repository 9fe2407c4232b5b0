/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_simulate.c - `lapse simulate`: options to a simulated run, which is written
 * into the runs' folder or printed.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/simprint.h"
#include "cli/simrun.h"
#include "report/runview.h"
#include "report/when.h"
#include "wire/clock.h"

#define SIMULATE_RATE 10.0
#define SIMULATE_STEPS 1000

static struct {
	const char *dir, *name, *project, *start, *outcome, *print;
	int64_t seed, steps, duration_ns, ranks, hosts, gpus, cpus, series;
	double rate, hz, speed; /* 0: not given */
	struct fault_spec faults[SIMULATE_FAULTS_MAX];
	const char *fault_texts[SIMULATE_FAULTS_MAX];
	unsigned n_faults;
	bool resume, live, quiet, json, list;
} sim_opt = {.seed = 1, .ranks = 1, .hosts = 1, .gpus = 1, .cpus = 8, .steps = -1};

/* ---- options -------------------------------------------------------------------------- */

static int sim_positive(const char *option, const char *arg, double *to)
{
	if (number_double(arg, to) == 0 && *to > 0)
		return 0;
	fprintf(stderr, "lapse simulate: --%s: \"%s\" is not a number above 0\n", option, arg);
	return -EINVAL;
}

static int sim_rate(const char *arg, void *to)
{
	return sim_positive("rate", arg, to);
}

static int sim_hz(const char *arg, void *to)
{
	return sim_positive("hz", arg, to);
}

static int sim_speed(const char *arg, void *to)
{
	return sim_positive("speed", arg, to);
}

static int sim_fault(const char *arg, void *to)
{
	struct err e = {0};

	(void)to;
	if (sim_opt.n_faults == SIMULATE_FAULTS_MAX) {
		fprintf(stderr, "lapse simulate: --fault: at most %d\n", SIMULATE_FAULTS_MAX);
		return -EINVAL;
	}
	if (fault_parse(arg, &sim_opt.faults[sim_opt.n_faults], &e) != 0) {
		fprintf(stderr, "lapse simulate: --fault: %s\nWanted: %s\n", e.text, FAULT_SYNTAX);
		return -EINVAL;
	}
	sim_opt.fault_texts[sim_opt.n_faults++] = arg;
	return 0;
}

/* clang-format off */
static const struct opt sim_rows[] = {
	{.name = "steps", .letter = 'n', .type = OPT_INT, .value = "N", .to = &sim_opt.steps,
	 .lo = 1, .hi = SIMULATE_STEPS_MAX, .help = "training steps (default: 1000)"},
	{.name = "duration", .type = OPT_DURATION, .value = "TIME", .to = &sim_opt.duration_ns,
	 .help = "how long these steps take; instead of --steps or --rate"},
	{.name = "rate", .type = OPT_CALL, .value = "X", .call = sim_rate, .to = &sim_opt.rate,
	 .help = "steps a second, 0.01 to 1000000 (default: 10)"},
	{.name = "ranks", .type = OPT_INT, .value = "N", .to = &sim_opt.ranks,
	 .lo = 1, .hi = SIMULATE_RANKS_MAX, .help = "trainers (default: 1)"},
	{.name = "hosts", .type = OPT_INT, .value = "N", .to = &sim_opt.hosts,
	 .lo = 1, .hi = SIMULATE_HOSTS_MAX, .help = "hosts that they are spread over (default: 1)"},
	{.name = "gpus", .type = OPT_INT, .value = "N", .to = &sim_opt.gpus,
	 .lo = 0, .hi = SIMULATE_GPUS_MAX, .help = "GPUs of each host (default: 1)"},
	{.name = "cpus", .type = OPT_INT, .value = "N", .to = &sim_opt.cpus,
	 .lo = 1, .hi = SIMULATE_CPUS_MAX, .help = "CPUs of each host (default: 8)"},
	{.name = "series", .type = OPT_INT, .value = "N", .to = &sim_opt.series,
	 .lo = 0, .hi = SIMULATE_SERIES_MAX,
	 .help = "add plain gauges, with a sample a step, until there are N series"},
	{.name = "hz", .type = OPT_CALL, .value = "X", .call = sim_hz, .to = &sim_opt.hz,
	 .help = "readings of the machines a second, 0.001 to 10000 (default: 1)"},
	{.name = "seed", .type = OPT_INT, .value = "N", .to = &sim_opt.seed,
	 .help = "another number, another run (default: 1)"},
	{.name = "fault", .letter = 'f', .type = OPT_CALL, .value = "FAULT", .call = sim_fault,
	 .help = "plant one: NAME[@WHEN[+LENGTH]][:STRENGTH]; may be repeated"},
	{.name = "list-faults", .type = OPT_FLAG, .to = &sim_opt.list,
	 .help = "say what faults there are, and end"},
	{.name = "resume", .type = OPT_FLAG, .to = &sim_opt.resume,
	 .help = "break off after 65% and go on from the checkpoint before"},
	{.name = "outcome", .type = OPT_STR, .value = "HOW", .to = &sim_opt.outcome,
	 .help = "exited[:STATUS], signaled[:NUMBER], oom, hung, lost or running "
		 "(default: exited, or oom by a memory leak)"},
	{.name = "start", .type = OPT_STR, .value = "TIME", .to = &sim_opt.start,
	 .help = "when the run began (default: so that it ends now)"},
	{.name = "live", .type = OPT_FLAG, .to = &sim_opt.live,
	 .help = "write in real time, from now on"},
	{.name = "speed", .type = OPT_CALL, .value = "X", .call = sim_speed, .to = &sim_opt.speed,
	 .help = "with --live: so many times real time, to end now"},
	{.name = "name", .type = OPT_STR, .value = "NAME", .to = &sim_opt.name,
	 .help = "name of the run (default: simulated)"},
	{.name = "project", .type = OPT_STR, .value = "PROJECT", .to = &sim_opt.project,
	 .help = "project that the run belongs to"},
	{.name = "print", .type = OPT_STR, .value = "PATTERN", .to = &sim_opt.print,
	 .help = "write no run: compute series whose name matches, print them as CSV"},
	{.name = "dir", .letter = 'd', .type = OPT_STR, .value = "DIR", .to = &sim_opt.dir,
	 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
	{.name = "json", .type = OPT_FLAG, .to = &sim_opt.json,
	 .help = "print what was written, or the faults, as JSON"},
	{.name = "quiet", .letter = 'q', .type = OPT_FLAG, .to = &sim_opt.quiet,
	 .help = "print nothing but errors"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_simulate_options(void)
{
	return sim_rows;
}

static int sim_wrong(const char *why)
{
	fprintf(stderr, "lapse simulate: %s\nTry: lapse simulate --help\n", why);
	return -EINVAL;
}

/* Steps and rate from what was given of steps, rate and duration. */
static int sim_length(void)
{
	double s = (double)sim_opt.duration_ns / 1e9;

	if (s > 0 && sim_opt.steps > 0 && sim_opt.rate > 0)
		return sim_wrong("--steps, --rate and --duration: any two of them say it all");
	if (s > 0 && sim_opt.steps > 0)
		sim_opt.rate = (double)sim_opt.steps / s;
	if (sim_opt.rate == 0)
		sim_opt.rate = SIMULATE_RATE;
	if (s > 0 && sim_opt.steps < 0) {
		s *= sim_opt.rate;
		sim_opt.steps = s < 1 ? 1 : s < SIMULATE_STEPS_MAX ? (int64_t)s : -1;
		if (sim_opt.steps < 0)
			return sim_wrong("more than 10^12 steps");
	}
	if (sim_opt.steps < 0)
		sim_opt.steps = SIMULATE_STEPS;
	if (sim_opt.hz == 0)
		sim_opt.hz = 1;
	return 0;
}

static int sim_check(int argc, char **argv)
{
	char text[300];

	if (argc > 0) {
		snprintf(text, sizeof(text), "unexpected argument '%.200s'", argv[0]);
		return sim_wrong(text);
	}
	if (sim_opt.speed > 0 && !sim_opt.live)
		return sim_wrong("--speed goes with --live");
	if (sim_opt.live && (sim_opt.start || sim_opt.print))
		return sim_wrong("--live begins now: neither --start nor --print goes with it");
	if (sim_opt.live && sim_opt.speed == 0)
		sim_opt.speed = 1;
	return sim_length();
}

static int64_t sim_period(double per_s)
{
	double ns = 1e9 / per_s + 0.5;

	return ns < 1e18 ? (int64_t)ns : INT64_MAX;
}

static void sim_fill(struct simulate_options *o)
{
	*o = (struct simulate_options){.seed = (uint64_t)sim_opt.seed,
				       .steps = sim_opt.steps,
				       .period_ns = sim_period(sim_opt.rate),
				       .tick_ns = sim_period(sim_opt.hz),
				       .ranks = (uint32_t)sim_opt.ranks,
				       .hosts = (uint32_t)sim_opt.hosts,
				       .gpus = (uint32_t)sim_opt.gpus,
				       .cpus = (uint32_t)sim_opt.cpus,
				       .series = (uint32_t)sim_opt.series,
				       .resume = sim_opt.resume,
				       .n_faults = sim_opt.n_faults};
	memcpy(o->faults, sim_opt.faults, sizeof(o->faults));
}

/* clang-format off */
static const struct sim_outcome {
	const char *name;
	enum run_outcome_kind kind;
	int code, signal;
	int number_min, number_max; /* of the number behind a colon; 0: there is none */
} sim_outcomes[] = {
	{"exited", RUN_EXITED, 0, 0, 0, 255},
	{"signaled", RUN_SIGNALED, -1, SIGTERM, 1, 64},
	{"oom", RUN_OOM, -1, SIGKILL, 0, 0},
	{"hung", RUN_HUNG, 1, 0, 0, 0},
	{"lost", RUN_LOST, -1, 0, 0, 0},
	{"running", RUN_RUNNING, -1, 0, 0, 0},
};
/* clang-format on */

static const struct sim_outcome *sim_outcome_find(const char *text, size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(sim_outcomes); i++)
		if (strlen(sim_outcomes[i].name) == n && memcmp(sim_outcomes[i].name, text, n) == 0)
			return &sim_outcomes[i];
	return NULL;
}

/* "signaled:9" and the like. */
static int sim_outcome(struct simrun_options *r)
{
	const char *text = sim_opt.outcome, *colon = text ? strchr(text, ':') : NULL;
	const struct sim_outcome *row;
	int64_t number = 0;
	bool good;

	if (!text)
		return 0;
	row = sim_outcome_find(text, strcspn(text, ":"));
	good = row && (!colon || (row->number_max && number_int(colon + 1, &number) == 0 &&
				  number >= row->number_min && number <= row->number_max));
	if (!good)
		return sim_wrong("--outcome: exited, exited:3, signaled:9, oom, hung, lost or "
				 "running is wanted");
	r->has_outcome = true;
	r->outcome = row->kind;
	r->code = colon && row->kind == RUN_EXITED ? (int)number : row->code;
	r->signal = colon && row->kind == RUN_SIGNALED ? (int)number : row->signal;
	return 0;
}

/* The start, and the run from there. */
static int sim_make(struct simulate_options *o, struct simulate **ret, struct err *e)
{
	int64_t now = clock_ns(CLOCK_REALTIME);
	struct simulate_size size;
	struct simulate *m;
	int err = simulate_new(o, e, &m);

	if (err)
		return err;
	simulate_size(m, &size);
	simulate_free(m);
	if (!sim_opt.start) {
		o->start_ns = now - size.end_ns;
		if (sim_opt.live)
			o->start_ns += (int64_t)((double)size.end_ns / sim_opt.speed);
	} else if (when_parse(sim_opt.start, now, now, &o->start_ns) != 0) {
		return err_set(e, -EINVAL, "--start: \"%s\" is not a time: %s", sim_opt.start,
			       WHEN_HELP);
	}
	if (o->start_ns < 0)
		return err_set(e, -ERANGE,
			       "a run of %.0f s would have begun before 1970: give a "
			       "later --start",
			       (double)size.end_ns / 1e9);
	if (o->start_ns > INT64_MAX - size.end_ns - (int64_t)1e18)
		return err_set(e, -ERANGE, "the run would end after 2230: give an earlier --start");
	return simulate_new(o, e, ret);
}

/* ---- results -------------------------------------------------------------------------- */

/* The command that makes this run again, also when it does not end now. */
static void sim_command(const struct simulate_options *o, struct buf *b)
{
	unsigned i;

	buf_printf(b, "lapse simulate --seed %llu --start @%lld.%09lld --steps %lld --rate ",
		   (unsigned long long)o->seed, (long long)(o->start_ns / 1000000000),
		   (long long)(o->start_ns % 1000000000), (long long)o->steps);
	json_put_double(b, sim_opt.rate);
	buf_puts(b, " --hz ");
	json_put_double(b, sim_opt.hz);
	buf_printf(b, " --ranks %u --hosts %u --gpus %u --cpus %u --series %u%s", o->ranks,
		   o->hosts, o->gpus, o->cpus, o->series, o->resume ? " --resume" : "");
	for (i = 0; i < o->n_faults; i++)
		buf_printf(b, " --fault %s", sim_opt.fault_texts[i]);
}

static int sim_report(const struct simulate *m, const struct simrun_result *r)
{
	char points[FMT_MAX], took[FMT_MAX], lasted[FMT_MAX];
	struct simulate_size size;
	struct buf b;
	struct json j;
	int status = 0;

	simulate_size(m, &size);
	if (!sim_opt.json) {
		printf("%s  %s%zu series, %s points; ", r->id, r->signal ? "stopped: " : "",
		       size.series, fmt_count(points, (double)r->points));
		printf("%s%s of training in %s\n", r->signal ? "out of " : "",
		       fmt_seconds(lasted, (double)size.end_ns / 1e9),
		       fmt_seconds(took, r->seconds));
		return runview_flush();
	}
	buf_init(&b, 65536);
	json_init(&j, &b);
	json_object(&j);
	json_kstr(&j, "id", r->id);
	json_kstr(&j, "dir", r->dir);
	json_kint(&j, "steps", size.steps);
	json_kuint(&j, "series", size.series);
	json_kuint(&j, "points", r->points);
	json_kdouble(&j, "duration_s", (double)size.end_ns / 1e9);
	json_kdouble(&j, "seconds", r->seconds);
	json_object_end(&j);
	status = runview_json_print("simulate", &b);
	buf_done(&b);
	return status;
}

static int sim_write(const struct simulate *m, const struct simulate_options *o,
		     struct simrun_options *r)
{
	struct simrun_result *result = xcalloc(1, sizeof(*result));
	struct err e = {0};
	struct buf command;
	int status = 0;

	buf_init(&command, 65536);
	sim_command(o, &command);
	r->command = buf_str(&command);
	if (simrun_write(m, r, o->start_ns, o->hosts, result, &e) != 0) {
		fprintf(stderr, "lapse simulate: %s\n", e.text);
		status = 1;
	} else {
		if (!sim_opt.quiet)
			status = sim_report(m, result);
		if (result->signal)
			status = 128 + result->signal;
		else if (result->behind_s > 1)
			fprintf(stderr, "lapse simulate: fell behind by %.1f s\n",
				result->behind_s);
	}
	buf_done(&command);
	free(result);
	return status;
}

int cmd_simulate(int argc, char **argv)
{
	struct simrun_options r = {.dir = sim_opt.dir,
				   .name = sim_opt.name ? sim_opt.name : "simulated",
				   .project = sim_opt.project ? sim_opt.project : "",
				   .quiet = sim_opt.quiet};
	struct simulate_options o;
	struct simulate *m;
	struct err e = {0};
	int status;

	if (sim_opt.list) {
		simprint_faults(sim_opt.json);
		return runview_flush();
	}
	if (sim_check(argc, argv) != 0 || sim_outcome(&r) != 0)
		return 2;
	r.speed = sim_opt.speed;
	sim_fill(&o);
	if (sim_make(&o, &m, &e) != 0) {
		fprintf(stderr, "lapse simulate: %s\n", e.text);
		return 2;
	}
	status = sim_opt.print ? simprint(m, sim_opt.print) : sim_write(m, &o, &r);
	simulate_free(m);
	return status;
}

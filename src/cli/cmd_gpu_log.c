/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_gpu_log.c - `lapse gpu-log`: figures of NVIDIA's GPUs as lines of CSV, asked for and
 * written as nvidia-smi does, without starting a program each time.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/number.h"
#include "cli/gpuquery.h"
#include "report/runview.h"
#include "wire/clock.h"

/* What the handbook of nvidia-smi's users watches a training with. */
#define GPU_LOG_DEFAULT                                                                            \
	"timestamp,name,utilization.gpu,utilization.memory,memory.used,memory.free,"               \
	"temperature.gpu"

#define GPU_LOG_PERIOD_MIN 1000000 /* ns */

static const char *gpu_log_query, *gpu_log_format, *gpu_log_ids, *gpu_log_file;
static int64_t gpu_log_loop_ms, gpu_log_count;
static bool gpu_log_help, gpu_log_ms_follows;
static int64_t gpu_log_period;

/* -l SECONDS, and nvidia-smi's -lms MILLISECONDS, of which "ms" arrives here. */
static int gpu_log_loop(const char *arg, void *to)
{
	int64_t *period = to;

	if (strncmp(arg, "ms", 2) == 0) {
		arg += 2;
		arg += *arg == '=';
		gpu_log_ms_follows = *arg == '\0';
		if (gpu_log_ms_follows)
			return 0;
		if (number_int(arg, &gpu_log_loop_ms) == 0 && gpu_log_loop_ms > 0)
			return 0;
		fprintf(stderr, "lapse gpu-log: -lms: \"%s\" is not a number of milliseconds\n",
			arg);
		return -EINVAL;
	}
	if (number_duration(arg, period) == 0 && *period >= GPU_LOG_PERIOD_MIN)
		return 0;
	fprintf(stderr, "lapse gpu-log: --loop: \"%s\" is not %s of at least a millisecond\n", arg,
		NUMBER_DURATION_WANT);
	return -EINVAL;
}

const struct opt *cmd_gpu_log_options(void)
{
	static const struct opt rows[] = {
		{.name = "query-gpu",
		 .type = OPT_STR,
		 .value = "FIELD,...",
		 .to = &gpu_log_query,
		 .help = "what to write, by nvidia-smi's names (default: " GPU_LOG_DEFAULT ")"},
		{.name = "format",
		 .type = OPT_STR,
		 .value = "FORMAT",
		 .to = &gpu_log_format,
		 .help = "csv, with ,noheader and ,nounits (default: csv)"},
		{.name = "loop",
		 .letter = 'l',
		 .type = OPT_CALL,
		 .value = "TIME",
		 .to = &gpu_log_period,
		 .call = gpu_log_loop,
		 .help = "again each TIME, a number is seconds; -lms N: each N milliseconds"},
		{.name = "loop-ms",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &gpu_log_loop_ms,
		 .lo = 1,
		 .hi = 86400000,
		 .help = "again each N milliseconds"},
		{.name = "count",
		 .type = OPT_INT,
		 .value = "N",
		 .to = &gpu_log_count,
		 .lo = 1,
		 .hi = INT64_MAX,
		 .help = "stop after N rounds (default: 1 without --loop, else never)"},
		{.name = "id",
		 .letter = 'i',
		 .type = OPT_STR,
		 .value = "ID,...",
		 .to = &gpu_log_ids,
		 .help = "only these GPUs: index, uuid or PCI address"},
		{.name = "filename",
		 .letter = 'f',
		 .type = OPT_STR,
		 .value = "FILE",
		 .to = &gpu_log_file,
		 .help = "write into FILE"},
		{.name = "output",
		 .type = OPT_STR,
		 .value = "FILE",
		 .to = &gpu_log_file,
		 .help = "the same"},
		{.name = "help-query-gpu",
		 .type = OPT_FLAG,
		 .to = &gpu_log_help,
		 .help = "list the fields"},
		{0},
	};

	return rows;
}

struct gpu_log {
	struct nvml *n;
	struct gpuquery q;
	FILE *to;
	struct {
		struct nvml_device *device;
		unsigned index;
	} gpus[GPUQUERY_GPUS_MAX];
	size_t n_gpus;
	unsigned count; /* on the machine */
	int driver;
};

static int gpu_log_list_fields(void)
{
	const struct gpuquery_field *f;

	for (f = gpuquery_fields; f->name; f++)
		printf("%s%s%s%s%s%s\n", f->name, f->also ? " or " : "", f->also ? f->also : "",
		       f->unit ? " [" : "", f->unit ? f->unit : "", f->unit ? "]" : "");
	return runview_flush();
}

/* Which of the wanted ids is it? -1 none; all are wanted without --id. */
static int gpu_log_wanted(char *const *ids, size_t n, unsigned index, const char *uuid,
			  const struct nvml_pci *pci)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (gpuquery_is(ids[i], index, uuid, pci))
			return (int)i;
	return -1;
}

static size_t gpu_log_split(char *list, char *ids[GPUQUERY_GPUS_MAX])
{
	char *save = NULL, *word;
	size_t n = 0;

	for (word = strtok_r(list, ", ", &save); word && n < GPUQUERY_GPUS_MAX;
	     word = strtok_r(NULL, ", ", &save))
		ids[n++] = word;
	return n;
}

static int gpu_log_find(struct gpu_log *l, struct err *e)
{
	const struct nvml_api *a = &l->n->api;
	char *list = xstrdup(gpu_log_ids ? gpu_log_ids : ""), *ids[GPUQUERY_GPUS_MAX];
	size_t n = gpu_log_split(list, ids), k;
	bool found[GPUQUERY_GPUS_MAX] = {false};
	struct nvml_device *d;
	unsigned i;
	int which, err = 0;

	if (a->count(&l->count))
		l->count = 0;
	for (i = 0; i < l->count && l->n_gpus < GPUQUERY_GPUS_MAX; i++) {
		struct nvml_pci pci = {{0}, 0, 0, 0, 0, 0, {0}};
		char uuid[96] = "";

		if (a->by_index(i, &d))
			continue;
		a->uuid(d, uuid, sizeof(uuid));
		if (a->pci)
			a->pci(d, &pci);
		which = gpu_log_wanted(ids, n, i, uuid, &pci);
		if (gpu_log_ids && which < 0)
			continue;
		if (which >= 0)
			found[which] = true;
		l->gpus[l->n_gpus].device = d;
		l->gpus[l->n_gpus++].index = i;
	}
	for (k = 0; k < n && !err; k++)
		if (!found[k])
			err = err_set(
				e, -ENODEV,
				"no GPU %s; there are %u, see lapse gpu-log --query-gpu=index,"
				"uuid,pci.bus_id",
				ids[k], l->count);
	if (!err && l->n_gpus == 0)
		err = err_set(e, -ENODEV, "no GPU that this user may use");
	free(list);
	return err;
}

static int gpu_log_open(struct gpu_log *l, struct err *e)
{
	int fd;

	l->to = stdout;
	if (!gpu_log_file || strcmp(gpu_log_file, "-") == 0)
		return 0;
	fd = open(gpu_log_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	l->to = fd < 0 ? NULL : fdopen(fd, "w");
	return l->to ? 0 : err_errno(e, -errno, "%s", gpu_log_file);
}

/* Lines are complete and out after each round: who reads along sees them. */
static int gpu_log_round(struct gpu_log *l)
{
	size_t i;

	for (i = 0; i < l->n_gpus; i++)
		gpuquery_line(&l->q, l->n, l->gpus[i].device, l->gpus[i].index, l->count, l->to);
	if (l->to == stdout)
		return runview_flush();
	if (fflush(l->to) == 0)
		return 0;
	fprintf(stderr, "lapse gpu-log: %s: %s\n", gpu_log_file, strerror(errno));
	return 1;
}

static int gpu_log_rounds(struct gpu_log *l)
{
	int64_t period = gpu_log_loop_ms > 0 ? gpu_log_loop_ms * 1000000 : gpu_log_period;
	int64_t left = gpu_log_count > 0 ? gpu_log_count : period > 0 ? INT64_MAX : 1;
	struct timespec t;
	int64_t next;
	int status;

	if (l->q.header)
		gpuquery_header(&l->q, l->driver, l->to);
	next = clock_ns(CLOCK_MONOTONIC);
	for (;;) {
		status = gpu_log_round(l);
		if (status || --left == 0)
			return status;
		next += period;
		t = (struct timespec){next / 1000000000, next % 1000000000};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
}

static int gpu_log_wishes(struct gpu_log *l, int argc, char **argv, struct err *e)
{
	if (gpu_log_ms_follows) {
		if (argc != 1 || number_int(argv[0], &gpu_log_loop_ms) || gpu_log_loop_ms < 1)
			return err_set(e, -EINVAL, "-lms needs a number of milliseconds: -lms 200");
	} else if (argc > 0) {
		return err_set(e, -EINVAL, "unexpected argument \"%s\"", argv[0]);
	}
	if (gpuquery_parse(&l->q, gpu_log_query ? gpu_log_query : GPU_LOG_DEFAULT, e))
		return -EINVAL;
	return gpuquery_format(&l->q, gpu_log_format ? gpu_log_format : "csv", e);
}

int cmd_gpu_log(int argc, char **argv)
{
	struct gpu_log l = {0};
	struct err e = {0};
	char version[96] = "";
	int status = 1;

	if (gpu_log_help)
		return gpu_log_list_fields();
	if (gpu_log_wishes(&l, argc, argv, &e)) {
		fprintf(stderr, "lapse gpu-log: %s\nTry: lapse gpu-log --help-query-gpu\n", e.text);
		return 2;
	}
	if (nvml_open(&l.n, &e) == 0) {
		if (l.n->api.driver_version)
			l.n->api.driver_version(version, sizeof(version));
		l.driver = atoi(version);
		if (gpu_log_find(&l, &e) == 0 && gpu_log_open(&l, &e) == 0)
			status = gpu_log_rounds(&l);
		nvml_close(l.n);
	}
	if (e.code)
		fprintf(stderr, "lapse gpu-log: %s\n", e.text);
	if (l.to && l.to != stdout && fclose(l.to) && !status) {
		fprintf(stderr, "lapse gpu-log: %s: %s\n", gpu_log_file, strerror(errno));
		status = 1;
	}
	return status;
}

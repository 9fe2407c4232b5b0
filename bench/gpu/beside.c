/* SPDX-License-Identifier: Apache-2.0
 *
 * beside.c - our figures of NVIDIA's GPUs between two answers of nvidia-smi.
 */
#include "gpu/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SMI_MAX 16 /* GPUs compared */

static const struct {
	const char *field, *metric, *label;
	double scale;           /* ours times it is theirs */
	double share, absolute; /* what they may differ beyond the bracket */
} beside[] = {
	{"utilization.gpu", "gpu/busy", NULL, 100, 0.05, 3},
	{"utilization.memory", "gpu/memory/busy", NULL, 100, 0.05, 3},
	{"memory.used", "gpu/memory/used", NULL, 1 / 1048576.0, 0, 2},
	{"memory.total", "gpu/memory/total", NULL, 1 / 1048576.0, 0, 1},
	{"memory.reserved", "gpu/memory/reserved", NULL, 1 / 1048576.0, 0, 1},
	{"power.draw.instant", "gpu/power", NULL, 1, 0.05, 5},
	{"power.draw.average", "gpu/power/average", NULL, 1, 0.05, 5},
	{"enforced.power.limit", "gpu/power/limit", NULL, 1, 0, 0.01},
	{"temperature.gpu", "gpu/temperature", NULL, 1, 0, 1},
	{"temperature.memory", "gpu/temperature/memory", NULL, 1, 0, 1},
	{"clocks.sm", "gpu/clock/sm", NULL, 1e-6, 0, 45},
	{"clocks.mem", "gpu/clock/memory", NULL, 1e-6, 0, 1},
	{"clocks.max.sm", "gpu/clock/sm/max", NULL, 1e-6, 0, 0},
	{"pcie.link.gen.current", "gpu/pcie/generation", NULL, 1, 0, 0},
	{"pcie.link.width.current", "gpu/pcie/width", NULL, 1, 0, 0},
	{"remapped_rows.correctable", "gpu/ecc/remapped", "corrected", 1, 0, 0},
	{"remapped_rows.uncorrectable", "gpu/ecc/remapped", "uncorrected", 1, 0, 0},
};

struct smi {
	double v[SMI_MAX][ARRAY_LEN(beside)];
	unsigned gpus;
};

/* One answer of nvidia-smi; what is no number is NaN. */
static void smi_ask(struct smi *s)
{
	char command[1024], line[1024], *word, *save, *end;
	const char *smi = getenv("NVIDIA_SMI");
	size_t i, n;
	FILE *f;

	n = (size_t)snprintf(command, sizeof(command), "%s --query-gpu=", smi ? smi : "nvidia-smi");
	for (i = 0; i < ARRAY_LEN(beside); i++)
		n += (size_t)snprintf(command + n, sizeof(command) - n, "%s%s", i ? "," : "",
				      beside[i].field);
	snprintf(command + n, sizeof(command) - n, " --format=csv,noheader,nounits");
	s->gpus = 0;
	f = popen(command, "r");
	if (!f)
		return;
	while (s->gpus < SMI_MAX && fgets(line, sizeof(line), f)) {
		save = NULL;
		word = strtok_r(line, ",\n", &save);
		for (i = 0; i < ARRAY_LEN(beside); i++) {
			s->v[s->gpus][i] = word ? strtod(word, &end) : NAN;
			if (word && end == word)
				s->v[s->gpus][i] = NAN;
			word = strtok_r(NULL, ",\n", &save);
		}
		s->gpus++;
	}
	pclose(f);
}

struct agreement {
	unsigned both, agree, one;
	double worst, ours, low, high;
};

static void agree(struct agreement *a, size_t i, double ours, double before, double after)
{
	double low = fmin(before, after), high = fmax(before, after);
	double more = beside[i].share * fabs(high) + beside[i].absolute, out;

	if (isnan(ours) || isnan(before) || isnan(after)) {
		a->one += isnan(ours) != isnan(before);
		return;
	}
	out = fmax(fmax(low - ours, ours - high), 0);
	a->both++;
	a->agree += out <= more * (1 + 1e-9);
	if (a->both == 1 || out > a->worst) {
		a->worst = out;
		a->ours = ours;
		a->low = low;
		a->high = high;
	}
}

static double ours_of(struct reader *r, size_t i, unsigned gpu)
{
	char labels[64];
	double v;

	if (beside[i].label)
		snprintf(labels, sizeof(labels), "gpu=\"%u\",kind=\"%s\"", gpu, beside[i].label);
	else
		snprintf(labels, sizeof(labels), "gpu=\"%u\"", gpu);
	if (probe_value(r->s, beside[i].metric, labels, &v))
		return NAN;
	return v * beside[i].scale;
}

void gpu_compare(void)
{
	struct agreement all[ARRAY_LEN(beside)] = {{0}};
	static struct smi before, after;
	struct reader r;
	unsigned g;
	size_t i;
	int k;

	if (!reader_open(&r))
		return;
	reader_round(&r, false);
	smi_ask(&before);
	for (k = 0; k < 20; k++) {
		reader_round(&r, false);
		reader_round(&r, true);
		smi_ask(&after);
		for (g = 0; g < after.gpus && g < before.gpus; g++)
			for (i = 0; i < ARRAY_LEN(beside); i++)
				agree(&all[i], i, ours_of(&r, i, g), before.v[g][i], after.v[g][i]);
		before = after;
	}
	printf("%-28s %-24s %6s %6s %8s  %s\n", "nvidia-smi", "lapse", "pairs", "agree", "one only",
	       "farthest: ours, theirs before and after");
	for (i = 0; i < ARRAY_LEN(beside); i++)
		printf("%-28s %-24s %6u %6u %8u  %.6g  %.6g .. %.6g\n", beside[i].field,
		       beside[i].metric, all[i].both, all[i].agree, all[i].one, all[i].ours,
		       all[i].low, all[i].high);
	reader_close(&r);
}

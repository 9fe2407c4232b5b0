/* SPDX-License-Identifier: Apache-2.0
 *
 * result.c - the same figures twice: for people and for programs.
 */
#include "result.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

static double result_rate(const struct result *s, double count)
{
	return s->seconds > 0 ? count / s->seconds : NAN;
}

void result_print(const struct result *s)
{
	printf("\nsteps                %lld in %.2f s\n", (long long)s->steps, s->seconds);
	if (s->steps)
		printf("final train loss     %.4f nat/char\n", s->final_loss);
	printf("final val loss       %.4f nat/char (best %.4f)\n", s->val_loss, s->best_val_loss);
	printf("samples/s            %.1f\n", result_rate(s, s->samples));
	printf("tokens/s             %.0f\n\n", result_rate(s, s->tokens));
	printf("%-10s %8s %9s %9s %9s\n", "phase, ms", "count", "p50", "p95", "p99");
	for (int i = 0; i < METER_PHASES; i++) {
		const struct meter_times *t = &s->phase[i];

		if (t->count)
			printf("%-10s %8zu %9.3f %9.3f %9.3f\n", meter_name(i), t->count, t->p50,
			       t->p95, t->p99);
	}
}

static void result_number(FILE *f, const char *name, double x)
{
	if (isfinite(x))
		fprintf(f, "  \"%s\": %.9g,\n", name, x);
	else
		fprintf(f, "  \"%s\": null,\n", name);
}

static void result_fill(FILE *f, const struct result *s)
{
	fprintf(f, "{\n  \"steps\": %lld,\n", (long long)s->steps);
	result_number(f, "final_loss", s->final_loss);
	result_number(f, "val_loss", s->val_loss);
	result_number(f, "best_val_loss", s->best_val_loss);
	result_number(f, "samples", s->samples);
	result_number(f, "tokens", s->tokens);
	result_number(f, "seconds", s->seconds);
	result_number(f, "samples_per_s", result_rate(s, s->samples));
	result_number(f, "tokens_per_s", result_rate(s, s->tokens));
	fprintf(f, "  \"phases\": {");
	for (int i = 0, first = 1; i < METER_PHASES; i++) {
		const struct meter_times *t = &s->phase[i];

		if (!t->count)
			continue;
		fprintf(f,
			"%s\n    \"%s\": {\"count\": %zu, \"p50_ms\": %.6f, \"p95_ms\": %.6f, "
			"\"p99_ms\": %.6f}",
			first ? "" : ",", meter_name(i), t->count, t->p50, t->p95, t->p99);
		first = 0;
	}
	fprintf(f, "\n  }\n}\n");
}

int result_write(const struct result *s, const char *path)
{
	FILE *f = fopen(path, "we");
	int bad;

	if (!f)
		return -errno;
	result_fill(f, s);
	bad = fflush(f) || ferror(f);
	if (fclose(f) || bad)
		return errno ? -errno : -EIO;
	return 0;
}

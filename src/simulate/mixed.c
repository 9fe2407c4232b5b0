/* SPDX-License-Identifier: Apache-2.0
 *
 * mixed.c - one function for each shape of series, a table of how many there are,
 * and what they share: when the GPUs work.
 */
#include "simulate/mixed.h"

#include <math.h>

#include "simulate/rng.h"

#define MIXED_BUSY_STREAM 1000u /* of random numbers; 0 to 129 are the series' own */
#define MIXED_TIME_STREAM 1001u
#define MIXED_CHECKPOINT_EVERY 1800u
#define MIXED_CHECKPOINT_FOR 25u
#define MIXED_STALL_EVERY 400.0 /* seconds between waits for data, on average */
#define MIXED_WARM_UP 1000.0    /* steps */

/* One series being made. */
struct mixed {
	struct rng rng, busy_rng;
	unsigned nth; /* among the series of its shape */
	size_t i;
	size_t stall_until;
	double level, sum; /* state of the shape */
};

/* Do the GPUs work in this second? Asked once a second, in order. */
static int mixed_busy(struct mixed *m)
{
	if (rng_uniform(&m->busy_rng) < 1 / MIXED_STALL_EVERY)
		m->stall_until = m->i + 1 + rng_below(&m->busy_rng, 4);
	return m->i >= m->stall_until && m->i % MIXED_CHECKPOINT_EVERY >= MIXED_CHECKPOINT_FOR;
}

/* m->level as a process that forgets: keep of the old, noise of the given size. */
static double mixed_drift(struct mixed *m, double keep, double sigma)
{
	m->level = m->level * keep + sqrt(1 - keep * keep) * sigma * rng_normal(&m->rng);
	return m->level;
}

static double mixed_power(struct mixed *m)
{
	double drift = mixed_drift(m, 0.6, 18000);

	if (!mixed_busy(m))
		return rint(118000 + 4000.0 * m->nth + 0.1 * drift) / 1000;
	return rint(612000 + 6000.0 * m->nth + drift) / 1000;
}

static double mixed_utilisation(struct mixed *m)
{
	double v = 96 + 3 * rng_normal(&m->rng);

	return mixed_busy(m) ? rint(v > 100 ? 100 : v) / 100 : 0;
}

static double mixed_memory_utilisation(struct mixed *m)
{
	double v = 54 + 2 * rng_normal(&m->rng);

	return mixed_busy(m) ? rint(v) / 100 : 0;
}

static double mixed_temperature(struct mixed *m)
{
	double target = mixed_busy(m) ? 64 + m->nth % 8 : 45;

	m->sum += (target - m->sum) / 20; /* follows in 20 s */
	return rint(m->sum + mixed_drift(m, 0.95, 0.6));
}

static double mixed_clock(struct mixed *m)
{
	double v = 1905 + 30 * rng_normal(&m->rng);

	return mixed_busy(m) ? 15e6 * rint((v > 1980 ? 1980 : v) / 15) : 1980e6;
}

static double mixed_memory(struct mixed *m)
{
	if (m->i == 0)
		m->sum = 30000;
	if (rng_uniform(&m->rng) < 0.002)
		m->sum += (double)rng_below(&m->rng, 64) - 24;
	return m->sum * 2097152;
}

static double mixed_energy(struct mixed *m)
{
	double drift = mixed_drift(m, 0.6, 18000);
	double dt = 1 + 0.002 * rng_normal(&m->rng);

	m->sum += rint((mixed_busy(m) ? 620000 + drift : 120000) * dt);
	return (5e9 + m->sum) / 1000;
}

static double mixed_cpu_seconds(struct mixed *m)
{
	double mean = m->nth % 2 ? 6 : 38, v;

	v = mean + sqrt(mean) * rng_normal(&m->rng) * 0.8;
	if (!mixed_busy(m))
		v /= 4;
	m->sum += v < 0 ? 0 : rint(v);
	return (1000000 + m->sum) / 100;
}

static double mixed_load(struct mixed *m)
{
	if (m->i % 5 == 0) /* the kernel computes it each 5 s */
		m->sum = 9 + mixed_drift(m, 0.98, 1.2);
	return rint(m->sum * 100) / 100;
}

static double mixed_count(struct mixed *m)
{
	double rate = 9000 + 4000.0 * m->nth;

	rate += 400 * rng_normal(&m->rng) + 500 * rng_exponential(&m->rng);
	m->sum += rint(mixed_busy(m) ? rate : rate / 3);
	return 1e8 + m->sum;
}

static double mixed_bytes(struct mixed *m)
{
	static const double unit[] = {1, 1, 512, 4096};
	double u = unit[m->nth % 4], rate = 2e6 * (1 + 0.2 * rng_normal(&m->rng));

	if (u > 1 && rng_uniform(&m->rng) < 0.7)
		rate = 0;
	m->sum += rint((rate < 0 ? 0 : rate) / u) * u;
	return 4096e6 + m->sum;
}

static double mixed_pages(struct mixed *m)
{
	m->sum += rint(40 * rng_normal(&m->rng));
	return 4096 * (5e7 + m->sum);
}

static double mixed_threads(struct mixed *m)
{
	if (rng_uniform(&m->rng) < 0.01)
		m->sum = (double)rng_below(&m->rng, 9);
	return 212 + m->sum;
}

static double mixed_step_seconds(struct mixed *m)
{
	double v = (m->nth % 2 ? 0.314 : 0.914) + 0.009 * rng_normal(&m->rng) +
		   0.004 * rng_exponential(&m->rng);

	if (rng_uniform(&m->rng) < 0.004)
		v += 0.5 * rng_exponential(&m->rng);
	return rint(v * 1e9) / 1e9;
}

static double mixed_loss(struct mixed *m)
{
	double x = (double)m->i / 3000;

	return (float)((2.1 + 0.7 * rng_exp(-x) + 6 * rng_exp(-40 * x)) *
		       (1 + 0.02 * rng_normal(&m->rng)));
}

static double mixed_gradient_norm(struct mixed *m)
{
	return (float)(0.62 * rng_exp(0.25 * rng_normal(&m->rng)));
}

static double mixed_learning_rate(struct mixed *m)
{
	double peak = m->nth % 2 ? 3e-5 : 3e-4, i = (double)m->i, x;

	if (i < MIXED_WARM_UP)
		return peak * (i + 1) / MIXED_WARM_UP;
	x = (i - MIXED_WARM_UP) / (MIXED_POINTS - MIXED_WARM_UP);
	return 0.1 * peak + 0.9 * peak * 0.5 * (1 + cos(M_PI * x));
}

static double mixed_constant(struct mixed *m)
{
	static const double some[] = {85899345920.0,  700000, 2619, 8, 0.1, 1, 0,
				      540431953920.0, 0.9};

	return some[m->nth % 9];
}

struct mixed_row {
	const char *name;
	unsigned count;
	double (*next)(struct mixed *m);
};

/* In the order of enum mixed_shape, which is the order of the series. */
static const struct mixed_row mixed_rows[MIXED_SHAPES] = {
	{"gpu-power", 8, mixed_power},
	{"gpu-utilisation", 8, mixed_utilisation},
	{"gpu-memory-utilisation", 8, mixed_memory_utilisation},
	{"gpu-temperature", 8, mixed_temperature},
	{"gpu-clock", 8, mixed_clock},
	{"gpu-memory", 8, mixed_memory},
	{"gpu-energy", 8, mixed_energy},
	{"cpu-seconds", 16, mixed_cpu_seconds},
	{"load", 2, mixed_load},
	{"counts", 4, mixed_count},
	{"bytes", 4, mixed_bytes},
	{"pages", 3, mixed_pages},
	{"threads", 1, mixed_threads},
	{"step-seconds", 16, mixed_step_seconds},
	{"loss-f32", 8, mixed_loss},
	{"gradient-norm", 8, mixed_gradient_norm},
	{"learning-rate", 2, mixed_learning_rate},
	{"constant", 10, mixed_constant},
};

const char *mixed_shape_name(enum mixed_shape shape)
{
	return mixed_rows[shape].name;
}

/* Shape of a series and, if asked, which of its shape it is. */
static enum mixed_shape mixed_find(unsigned series, unsigned *nth)
{
	unsigned shape = 0;

	while (shape < MIXED_SHAPES - 1 && series >= mixed_rows[shape].count)
		series -= mixed_rows[shape++].count;
	*nth = series;
	return (enum mixed_shape)shape;
}

enum mixed_shape mixed_shape_of(unsigned series)
{
	unsigned nth;

	return mixed_find(series, &nth);
}

void mixed_values(uint64_t seed, unsigned series, double *v, size_t n)
{
	struct mixed m = {.i = 0};
	const struct mixed_row *row = &mixed_rows[mixed_find(series, &m.nth)];

	rng_init(&m.rng, seed, series);
	rng_init(&m.busy_rng, seed, MIXED_BUSY_STREAM);
	for (m.i = 0; m.i < n; m.i++)
		v[m.i] = row->next(&m);
}

void mixed_times(uint64_t seed, int64_t start_ns, int64_t *t, size_t n)
{
	struct rng r;
	size_t i;

	rng_init(&r, seed, MIXED_TIME_STREAM);
	for (i = 0; i < n; i++)
		t[i] = start_ns + (int64_t)i * 1000000000 - MIXED_JITTER_NS +
		       (int64_t)rng_below(&r, 2 * MIXED_JITTER_NS + 1);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * flops.c - a matrix product counts two operations for each multiply-add, element-wise ones one
 * for each element of their first input.
 */
#include "analyse/flops.h"

#include "analyse/shapes.h"
#include "base/mem.h"

#include <string.h>

/* Product of inputs a and a + 1 by their last and last but one dims. */
static double flops_product(const struct shapes *s, size_t a, size_t rank)
{
	const struct shapes_one *x, *y;
	double inner, batch;

	if (s->n < a + 2)
		return 0;
	x = &s->of[a];
	y = &s->of[a + 1];
	if (x->n != rank || y->n != rank)
		return 0;
	inner = (double)x->dim[rank - 1];
	batch = rank == 3 ? (double)x->dim[0] : 1;
	if (inner == 0 || batch == 0)
		return 0;
	return 2 * (shapes_elements(s, a) / inner / batch) * shapes_elements(s, a + 1);
}

/* Two numbers of argument i, a single one counts for both. */
static bool flops_pair(const char *concrete, size_t i, int64_t ret[2])
{
	size_t n = shapes_numbers(concrete, i, ret, 2);

	if (n == 1)
		ret[1] = ret[0];
	return n > 0;
}

static double flops_conv2d(const struct shapes *s, const char *concrete)
{
	int64_t stride[2], padding[2], dilation[2], groups[2];
	const int64_t *in, *w;
	double out = 1;
	int k;

	if (s->n < 2 || s->of[0].n != 4 || s->of[1].n != 4)
		return 0;
	if (!flops_pair(concrete, 3, stride) || !flops_pair(concrete, 4, padding) ||
	    !flops_pair(concrete, 5, dilation) || !flops_pair(concrete, 6, groups))
		return 0;
	in = s->of[0].dim;
	w = s->of[1].dim;
	if (groups[0] <= 0 || stride[0] <= 0 || stride[1] <= 0)
		return 0;
	for (k = 0; k < 2; k++)
		out *= (double)((in[2 + k] + 2 * padding[k] - dilation[k] * (w[2 + k] - 1) - 1) /
					stride[k] +
				1);
	return 2 * (double)in[0] * out * (double)w[2] * (double)w[3] * (double)in[1] *
	       (double)w[0] / (double)groups[0];
}

static double flops_mm(const struct shapes *s, const char *concrete)
{
	(void)concrete;
	return flops_product(s, 0, 2);
}

static double flops_addmm(const struct shapes *s, const char *concrete)
{
	(void)concrete;
	return flops_product(s, 1, 2);
}

static double flops_bmm(const struct shapes *s, const char *concrete)
{
	(void)concrete;
	return flops_product(s, 0, 3);
}

static double flops_baddbmm(const struct shapes *s, const char *concrete)
{
	(void)concrete;
	return flops_product(s, 1, 3);
}

static double flops_each(const struct shapes *s, const char *concrete)
{
	(void)concrete;
	return s->n ? shapes_elements(s, 0) : 0;
}

static const struct {
	const char *name;
	double (*fn)(const struct shapes *s, const char *concrete);
} flops_formulas[] = {
	{"aten::mm", flops_mm},           {"aten::addmm", flops_addmm}, {"aten::bmm", flops_bmm},
	{"aten::baddbmm", flops_baddbmm}, {"aten::mul", flops_each},    {"aten::add", flops_each},
	{"aten::conv2d", flops_conv2d},
};

bool flops_has(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(flops_formulas); i++) {
		if (!strcmp(name, flops_formulas[i].name))
			return true;
	}
	return false;
}

double flops_of(const struct trace *t, const char *name, const struct trace_args *a)
{
	struct shapes s;
	size_t i;

	if (a->flops > 0)
		return (double)a->flops;
	for (i = 0; a->dims && i < ARRAY_LEN(flops_formulas); i++) {
		if (strcmp(name, flops_formulas[i].name) != 0)
			continue;
		shapes_parse(trace_text(t, a->dims, NULL), &s);
		return flops_formulas[i].fn(&s, trace_text(t, a->concrete, NULL));
	}
	return 0;
}

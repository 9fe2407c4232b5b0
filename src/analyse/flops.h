/* SPDX-License-Identifier: Apache-2.0
 *
 * flops.h - floating-point operations of an operator from its recorded shapes, by the formulas
 * of PyTorch's profiler with with_flops. docs/trace-numbers.md, "FLOPs".
 */
#ifndef ANALYSE_FLOPS_H
#define ANALYSE_FLOPS_H

#include "trace/trace.h"

#include <stdbool.h>

/* Whether there is a formula for operators of this name. */
bool flops_has(const char *name);

/* Of one call: those recorded in the trace, else by formula (aten::mm, addmm, bmm, baddbmm, mul,
 * add, conv2d). 0 where there is no formula, the shapes were not recorded, or (conv2d) its
 * stride, padding and dilation were not. */
double flops_of(const struct trace *t, const char *name, const struct trace_args *a);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/near.h"
#include "base/number.h"

#define FAULT_STEPS_MAX 1e15 /* exact in a double */

/* clang-format off */
const struct fault_row fault_rows[FAULT_KINDS] = {
	[FAULT_NAN] = {
		"nan", "loss and grad_norm are NaN",
		"share of the steps that are NaN; the first always is", 1, 0, 1,
		1000, FAULT_IN_RUN, "loss,grad_norm"},
	[FAULT_LOSS_SPIKE] = {
		"loss-spike", "loss is a multiple of what it would be, falling back in a straight line",
		"the multiple at the first step", 10, 1, 1e6,
		10, FAULT_IN_RUN, "loss"},
	[FAULT_GRADIENT_EXPLOSION] = {
		"gradient-explosion", "grad_norm and the histograms of gradients grow to a multiple, "
		"with the fourth power of the time",
		"the multiple at the last step", 1000, 1, 1e12,
		50, FAULT_IN_RUN, "grad_norm,gradients/embedding,gradients/head"},
	[FAULT_GRADIENT_VANISHING] = {
		"gradient-vanishing", "grad_norm and the histograms of gradients shrink, "
		"with the fourth power of the time",
		"they are divided by it at the last step", 1e6, 1, 1e12,
		1000, FAULT_IN_RUN, "grad_norm,gradients/embedding,gradients/head"},
	[FAULT_LR_ERROR] = {
		"lr-error", "learning_rate is a multiple of what the schedule says",
		"the multiple", 10, 0, 1e6,
		1000, FAULT_IN_RUN, "learning_rate"},
	[FAULT_STALL] = {
		"stall", "one step takes longer, in backward; the program's CPUs and GPUs idle meanwhile",
		"s", 30, 0.001, 1e6,
		0, FAULT_IN_RUN, "step,backward,gpu/busy,tree/cpu"},
	[FAULT_SLOW_RANK] = {
		"slow-rank", "forward and backward of the last rank take longer; the others wait in sync",
		"the multiple of the time", 1.5, 1, 1000,
		1000, FAULT_IN_LAST_RANK, "step,forward,backward,sync"},
	[FAULT_SLOW_DATA] = {
		"slow-data", "data takes longer in all ranks; GPUs wait",
		"the multiple of the time", 5, 1, 1000,
		1000, FAULT_IN_RUN, "step,data,gpu/busy"},
	[FAULT_IO_WAIT] = {
		"io-wait", "processors of the first host wait for disks; data takes twice as long in all ranks",
		"share of the time of all CPUs", 0.3, 0, 0.5,
		200, FAULT_IN_HOST, "cpu/iowait,pressure/io,disk/busy,data,step"},
	[FAULT_WORKER_DEATH] = {
		"worker-death", "a data worker of rank 0 ends; data takes longer in all ranks from then on",
		"the multiple of the time", 2, 1, 1000,
		1000, FAULT_IN_RUN, "tree/processes,data,step"},
	[FAULT_MEMORY_LEAK] = {
		"memory-leak", "tree/rss and memory/used of the first host grow in a straight line; "
		"if memory/limit is reached, the run ends there, killed by the kernel (oom)",
		"share of the free memory taken by the end; 1 reaches the limit then, 2 in half the time",
		1, 0.001, 1000,
		1000, FAULT_IN_HOST, "tree/rss,memory/used,memory/available"},
	[FAULT_DISK_FILLING] = {
		"disk-filling", "filesystem/used of the first host grows in a straight line",
		"share of filesystem/total reached at the end", 0.99, 0.5, 1,
		1000, FAULT_IN_HOST, "filesystem/used,filesystem/available"},
	[FAULT_IDLE_GPU] = {
		"idle-gpu", "GPU 0 of the first host does next to nothing while steps go on",
		"gpu/busy", 0.05, 0, 0.5,
		1000, FAULT_IN_GPU, "gpu/busy,gpu/power"},
	[FAULT_HOT_GPU] = {
		"hot-gpu", "GPU 0 of the first host is hot",
		"Cel", 92, 81, 150,
		200, FAULT_IN_GPU, "gpu/temperature"},
	[FAULT_THROTTLING] = {
		"throttling", "GPU 0 of the first host is slowed down for heat: clock, power, gpu/throttled; "
		"forward and backward of rank 0 take longer, the others wait in sync",
		"share of the clock that is left", 0.5, 0.05, 0.95,
		200, FAULT_IN_GPU, "gpu/clock/sm,gpu/throttled,gpu/temperature,forward,backward,step"},
	[FAULT_ECC] = {
		"ecc", "memory errors on GPU 0 of the first host: uncorrected ones, ten times as many corrected",
		"number of uncorrected errors", 1, 1, 1e6,
		0, FAULT_IN_GPU, "gpu/ecc/uncorrected,gpu/ecc/corrected"},
	[FAULT_XID] = {
		"xid", "the driver reports an Xid error on GPU 0 of the first host: a count and an event",
		"the Xid's number", 79, 1, 999,
		0, FAULT_IN_GPU, "gpu/xid"},
};
/* clang-format on */

static int fault_find(const char *name, enum fault_kind *ret, struct err *e)
{
	struct near near = {0};
	int i;

	for (i = 0; i < FAULT_KINDS; i++) {
		if (strcmp(fault_rows[i].name, name) == 0) {
			*ret = (enum fault_kind)i;
			return 0;
		}
		near_try(&near, name, fault_rows[i].name);
	}
	if (near.best)
		return err_set(e, -EINVAL, "\"%s\" is no fault; did you mean %s?", name, near.best);
	return err_set(e, -EINVAL, "\"%s\" is no fault; --list-faults lists them", name);
}

/* "300" or "40%". */
static int fault_amount(const char *text, const char *what, double *ret, bool *ret_is_share,
			struct err *e)
{
	size_t n = strlen(text);
	bool share = n > 0 && text[n - 1] == '%';
	char *number = xstrndup(text, share ? n - 1 : n);
	int64_t steps = 0;
	double v = 0;
	int err = share ? number_double(number, &v) : number_int(number, &steps);

	free(number);
	if (!share)
		v = (double)steps;
	if (err || !(v >= 0) || v > (share ? 100 : FAULT_STEPS_MAX))
		return err_set(e, -EINVAL, "\"%s\" is no %s: steps like 300, or a share like 40%%",
			       text, what);
	*ret = v;
	*ret_is_share = share;
	return 0;
}

static int fault_strength(const char *text, struct fault_spec *f, struct err *e)
{
	const struct fault_row *row = &fault_rows[f->kind];

	if (number_double(text, &f->strength) != 0)
		return err_set(e, -EINVAL, "%s: \"%s\" is no strength: a number, %s", row->name,
			       text, row->strength);
	if (f->strength < row->lo || f->strength > row->hi)
		return err_set(e, -EINVAL, "%s: strength %s is out of range: %g to %g, %s",
			       row->name, text, row->lo, row->hi, row->strength);
	return 0;
}

int fault_parse(const char *text, struct fault_spec *ret, struct err *e)
{
	struct fault_spec f = {.when = 50, .when_is_share = true};
	char *copy = xstrdup(text), *when, *length, *strength;
	int err;

	strength = strchr(copy, ':');
	if (strength)
		*strength++ = '\0';
	when = strchr(copy, '@');
	if (when)
		*when++ = '\0';
	length = when ? strchr(when, '+') : NULL;
	if (length)
		*length++ = '\0';
	err = fault_find(copy, &f.kind, e);
	if (!err && when)
		err = fault_amount(when, "beginning of a fault", &f.when, &f.when_is_share, e);
	if (!err && length) {
		f.has_length = true;
		err = fault_amount(length, "length of a fault", &f.length, &f.length_is_share, e);
	}
	if (!err && strength)
		err = fault_strength(strength, &f, e);
	else if (!err)
		f.strength = fault_rows[f.kind].usual;
	free(copy);
	if (!err)
		*ret = f;
	return err;
}

/* Steps of an amount of which `whole` is all of them; 0: it is steps. */
static int64_t fault_steps(double amount, double whole, int64_t steps)
{
	if (whole > 0)
		amount = amount * (double)steps / whole;
	return amount < (double)steps ? (int64_t)amount : steps;
}

int fault_place(const struct fault_spec *f, int64_t steps, struct fault *ret, struct err *e)
{
	const struct fault_row *row = &fault_rows[f->kind];
	int64_t begin = fault_steps(f->when, f->when_is_share ? 100 : 0, steps), length;

	if (begin >= steps)
		return err_set(e, -ERANGE, "%s: begins at %.17g%s of %lld steps, after the last",
			       row->name, f->when, f->when_is_share ? "%" : "", (long long)steps);
	if (row->permille == 0)
		length = 1;
	else if (f->has_length)
		length = fault_steps(f->length, f->length_is_share ? 100 : 0, steps);
	else
		length = fault_steps(row->permille, 1000, steps);
	if (length < 1)
		length = 1;
	if (length > steps - begin)
		length = steps - begin;
	*ret = (struct fault){
		.kind = f->kind, .begin = begin, .end = begin + length, .strength = f->strength};
	return 0;
}

const struct fault *fault_at_step(const struct fault *f, unsigned n, enum fault_kind kind,
				  int64_t index)
{
	unsigned i;

	for (i = 0; i < n; i++)
		if (f[i].kind == kind && index >= f[i].begin && index < f[i].end)
			return &f[i];
	return NULL;
}

const struct fault *fault_at_ns(const struct fault *f, unsigned n, enum fault_kind kind, int64_t ns)
{
	unsigned i;

	for (i = 0; i < n; i++)
		if (f[i].kind == kind && ns >= f[i].begin_ns && ns < f[i].end_ns)
			return &f[i];
	return NULL;
}

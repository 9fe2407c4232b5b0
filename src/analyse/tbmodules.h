/* SPDX-License-Identifier: Apache-2.0
 *
 * tbmodules.h - torch-tb-profiler's module view: nn.Modules as they call each other, with the
 * times of all their calls. Needs stacks (python_function rows). docs/trace-numbers.md,
 * "Modules". Times are in tbrows' unit.
 */
#ifndef ANALYSE_TBMODULES_H
#define ANALYSE_TBMODULES_H

#include "analyse/tbtree.h"

struct tbmodules_module {
	uint32_t depth;
	uint32_t name;      /* text, with its "nn.Module: " */
	int64_t id;         /* "Python module id" */
	uint64_t calls;     /* of this name and id anywhere */
	uint64_t operators; /* called directly */
	double host, self_host, device, self_device;
	double average; /* device time per call; host time where there is none on the device */
};

struct tbmodules {
	struct tbmodules_module *modules; /* depth first; equal trees once; roots by name */
	size_t n;
};

int tbmodules_new(const struct tbtree *t, struct tbmodules **ret);
void tbmodules_free(struct tbmodules *m); /* NULL is accepted */

/* The name without "nn.Module: ". */
const char *tbmodules_name(const struct tbtree *t, const struct tbmodules_module *m);

#endif

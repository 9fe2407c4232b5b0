/* SPDX-License-Identifier: Apache-2.0
 *
 * tbnames.h - what a name says about an event: tensor-core kernels, collectives, the data
 * loader and the like, as lists of texts. docs/trace-numbers.md shows them; torch-tb-profiler
 * 0.4.3 knows only the first ones.
 */
#ifndef ANALYSE_TBNAMES_H
#define ANALYSE_TBNAMES_H

#include <stddef.h>
#include <stdint.h>

enum tbnames_flag {
	TBNAMES_KNOWN = 1,       /* the flags were computed */
	TBNAMES_STEP = 2,        /* ProfilerStep#N */
	TBNAMES_LOADER = 4,      /* enumerate(DataLoader)#....__next__, enumerate(DataPipe)#... */
	TBNAMES_OPTIMIZER = 8,   /* begins Optimizer.step */
	TBNAMES_NOT_OP = 16,     /* not shown as operator: Optimizer...., DataParallel.forward */
	TBNAMES_NCCL = 32,       /* one of the plugin's five nccl: names */
	TBNAMES_GLOO = 64,       /* one of its five gloo: names */
	TBNAMES_TC_PLUGIN = 128, /* kernel, by the plugin's list */
	TBNAMES_TC = 256,        /* kernel, by today's names */
	TBNAMES_TC_OP = 512,     /* operator that can use tensor cores (the plugin's list) */
	TBNAMES_COMM_KERNEL = 1024, /* nccl, rccl and other vendors' kernels of collectives */
	TBNAMES_COMM_HOST = 2048,   /* a collective that runs on the host: gloo:, mpi:, ... */
	TBNAMES_DP = 4096,
	TBNAMES_DDP = 8192,
	TBNAMES_COMM_ANY = 16384 /* any BACKEND:collective of torch.distributed */
};

uint16_t tbnames_flags(const char *name);

/* N of "ProfilerStep#N"; -1 where there is no number. */
int64_t tbnames_step(const char *name);

/* Lists for the documentation, ended by NULL. */
extern const char *const tbnames_tc_plugin[],
	*const tbnames_tc_now[], *const tbnames_tc_not[],
					 *const tbnames_tc_op[], *const tbnames_comm_kernel[],
									 *const tbnames_comm_host[];

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * kclass.h - what a GPU row of a name does: arithmetic, moving bytes, copying to or from the
 * host, or communicating; and what kind of call a host row is. By name only: the tables in
 * kclass.c are the definition (docs/trace-numbers.md, "Verdict").
 */
#ifndef ANALYSE_KCLASS_H
#define ANALYSE_KCLASS_H

#include "analyse/verdict.h"
#include "trace/trace.h"

/* VERDICT_COMPUTE, VERDICT_MEMORY, VERDICT_COPY or VERDICT_COMMUNICATION. A kernel whose name
 * says nothing is VERDICT_COMPUTE. */
enum verdict_kind kclass_gpu(const char *name, enum trace_cat cat);

/* Does the name tell of tensor (matrix) cores? Today's names too: nvjet, wgmma, sm90, MFMA. */
bool kclass_is_tensor(const char *name);

enum kclass_call {
	KCLASS_CALL_OTHER,
	KCLASS_CALL_LAUNCH, /* puts one kernel, copy or fill in a stream */
	KCLASS_CALL_GRAPH,  /* launches a graph of them */
	KCLASS_CALL_SYNC    /* returns when the GPU has done something */
};
/* Of a runtime or driver row (CUDA, HIP). A blocking copy is SYNC; an asynchronous copy that
 * blocked is LAUNCH all the same: the name cannot tell. */
enum kclass_call kclass_call(const char *name);

/* An operator that reads a number of the device: aten::item and the like. */
bool kclass_is_item(const char *name);
/* A mark around other rows rather than work: steps, the optimizer's and the user's headings.
 * Before PyTorch 1.13 these are rows of category Operator. */
bool kclass_is_mark(const char *name);
/* The annotation of a data loader's next batch. */
bool kclass_is_loader(const char *name);
/* A collective as an operator of the host: gloo:…, nccl:…, c10d::… . */
bool kclass_is_collective(const char *name);

#endif

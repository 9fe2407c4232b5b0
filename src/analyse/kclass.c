/* SPDX-License-Identifier: Apache-2.0
 *
 * kclass.c - name tables of GPU rows and host calls. The first table that matches decides:
 * communication, arithmetic, bytes.
 */
#include "analyse/kclass.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

/* All are looked for anywhere in the name, letters' case ignored. */
static const char *const communication[] = {
	"ncclkernel", "nccldevkernel", "nccl:",     "rccl",          "hccl",
	"oneccl",     "allreduce",     "allgather", "reducescatter", "cross_device_reduce",
	NULL};
static const char *const arithmetic[] = {
	"gemm",     "nvjet",  "cutlass",    "wgmma",       "hmma",         "flash_", "flash::",
	"fmha",     "sdpa",   "attention",  "attn_",       "_attn",        "xmma",   "cijk_",
	"winograd", "conv2d", "conv3d",     "convolve",    "implicit_con", "_884",   "1688",
	"16816",    "matmul", "_mm_",       "_mm(",        "bmm",          "mfma",   "triton_tem",
	"ck_tile",  "dgrad",  "wgrad",      "convolution", "lstm",         "rnn_",   "fft",
	"scudnn",   "igemm",  "naive_conv", "miopenconv",  "conv1d",       NULL};
static const char *const bytes[] = {"elementwise",  "reduce",
				    "softmax",      "norm",
				    "copy",         "fill",
				    "catarray",     "index",
				    "embedding",    "scatter",
				    "gather",       "multi_tensor",
				    "triton_poi",   "triton_per",
				    "triton_red",   "adam",
				    "dropout",      "transpose",
				    "sort",         "scan",
				    "pool",         "gammabeta",
				    "nll_loss",     "memset",
				    "permute",      "triton_for",
				    "rotary",       "silu",
				    "gelu",         "relu",
				    "distribution", "arange",
				    "where",        "batched_transpose",
				    "im2col",       "col2im",
				    "upsample",     "interp",
				    "radix",        "topk",
				    "foreach",      "split",
				    "concat",       "cast",
				    "quantize",     "::bn_",
				    "moments",      "compute_grad_weight",
				    "segment",      NULL};
static const char *const tensor[] = {"nvjet",
				     "wgmma",
				     "sm90",
				     "hmma",
				     "s884",
				     "h884",
				     "1688",
				     "16816",
				     "xmma",
				     "mfma",
				     "tensorop",
				     "i8816",
				     "cutlass_80_tensor",
				     "cijk_",
				     NULL};

static bool has_one(const char *name, const char *const words[])
{
	for (size_t i = 0; words[i]; i++)
		if (strcasestr(name, words[i]))
			return true;
	return false;
}

/* Does a copy touch the host? "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoD", AMD's
 * "CopyHostToDevice". */
static bool copies_host(const char *name)
{
	static const char *const host[] = {"HtoD",         "DtoH",     "HtoH",   "HostToDevice",
					   "DeviceToHost", "Pageable", "Pinned", NULL};

	return has_one(name, host);
}

enum verdict_kind kclass_gpu(const char *name, enum trace_cat cat)
{
	if (cat == TRACE_CAT_GPU_MEMSET)
		return VERDICT_MEMORY;
	if (cat == TRACE_CAT_GPU_MEMCPY || text_begins(name, "Memcpy"))
		return copies_host(name) ? VERDICT_COPY : VERDICT_MEMORY;
	if (cat == TRACE_CAT_COLLECTIVE_COMM || text_begins(name, "nccl") ||
	    has_one(name, communication))
		return VERDICT_COMMUNICATION;
	if (has_one(name, arithmetic))
		return VERDICT_COMPUTE;
	return has_one(name, bytes) ? VERDICT_MEMORY : VERDICT_COMPUTE;
}

bool kclass_is_tensor(const char *name)
{
	return has_one(name, tensor);
}

static const struct {
	const char *name; /* a '*' at the end: any name that starts so */
	enum kclass_call call;
} calls[] = {
	{"cudaLaunchKernel*", KCLASS_CALL_LAUNCH},
	{"cudaLaunchCooperativeKernel*", KCLASS_CALL_LAUNCH},
	{"cuLaunchKernel*", KCLASS_CALL_LAUNCH},
	{"cuLaunchCooperativeKernel*", KCLASS_CALL_LAUNCH},
	{"hipLaunchKernel*", KCLASS_CALL_LAUNCH},
	{"hipExtLaunchKernel*", KCLASS_CALL_LAUNCH},
	{"hipExtModuleLaunchKernel*", KCLASS_CALL_LAUNCH},
	{"hipModuleLaunchKernel*", KCLASS_CALL_LAUNCH},
	{"hipExtLaunchMultiKernel*", KCLASS_CALL_LAUNCH},
	{"hipLaunchCooperativeKernel*", KCLASS_CALL_LAUNCH},
	{"cudaMemcpyAsync*", KCLASS_CALL_LAUNCH},
	{"cudaMemcpyPeerAsync*", KCLASS_CALL_LAUNCH},
	{"cudaMemsetAsync*", KCLASS_CALL_LAUNCH},
	{"cuMemcpy*Async*", KCLASS_CALL_LAUNCH},
	{"hipMemcpyAsync*", KCLASS_CALL_LAUNCH},
	{"hipMemsetAsync*", KCLASS_CALL_LAUNCH},
	{"hipMemcpyWithStream", KCLASS_CALL_SYNC},
	{"runFunction - job_prep_and_submit_for_execution", KCLASS_CALL_LAUNCH},
	{"cudaGraphLaunch*", KCLASS_CALL_GRAPH},
	{"cuGraphLaunch*", KCLASS_CALL_GRAPH},
	{"hipGraphLaunch*", KCLASS_CALL_GRAPH},
	{"cudaDeviceSynchronize*", KCLASS_CALL_SYNC},
	{"cudaStreamSynchronize*", KCLASS_CALL_SYNC},
	{"cudaEventSynchronize*", KCLASS_CALL_SYNC},
	{"cudaMemcpy", KCLASS_CALL_SYNC},
	{"cudaMemcpy2D", KCLASS_CALL_SYNC},
	{"cudaMemcpyToSymbol", KCLASS_CALL_SYNC},
	{"cudaMemcpyFromSymbol", KCLASS_CALL_SYNC},
	{"cuCtxSynchronize*", KCLASS_CALL_SYNC},
	{"cuStreamSynchronize*", KCLASS_CALL_SYNC},
	{"cuEventSynchronize*", KCLASS_CALL_SYNC},
	{"hipDeviceSynchronize*", KCLASS_CALL_SYNC},
	{"hipStreamSynchronize*", KCLASS_CALL_SYNC},
	{"hipEventSynchronize*", KCLASS_CALL_SYNC},
	{"hipMemcpy", KCLASS_CALL_SYNC},
	{NULL, KCLASS_CALL_OTHER},
};

static bool is_call(const char *name, const char *pattern)
{
	size_t len = strlen(pattern);
	const char *star = strchr(pattern, '*');

	if (!star)
		return !strcmp(name, pattern);
	if (strncmp(name, pattern, (size_t)(star - pattern)) != 0)
		return false;
	/* One more word behind the first star, as in "cuMemcpy*Async*". */
	if (star == pattern + len - 1)
		return true;
	return strstr(name + (star - pattern), "Async") != NULL;
}

enum kclass_call kclass_call(const char *name)
{
	for (size_t i = 0; calls[i].name; i++)
		if (is_call(name, calls[i].name))
			return calls[i].call;
	return KCLASS_CALL_OTHER;
}

bool kclass_is_item(const char *name)
{
	return !strcmp(name, "aten::item") || !strcmp(name, "aten::_local_scalar_dense") ||
	       !strcmp(name, "aten::is_nonzero");
}

bool kclass_is_loader(const char *name)
{
	return text_begins(name, "enumerate(DataLoader)") ||
	       text_begins(name, "enumerate(DataPipe)") || strstr(name, "dataloader_next") ||
	       !strcmp(name, "dataloader_iter");
}

bool kclass_is_collective(const char *name)
{
	return text_begins(name, "gloo:") || text_begins(name, "nccl:") ||
	       text_begins(name, "c10d::") || text_begins(name, "mpi:") ||
	       text_begins(name, "ucc:");
}

bool kclass_is_mark(const char *name)
{
	return text_begins(name, "ProfilerStep#") || text_begins(name, "Optimizer.step#") ||
	       text_begins(name, "Optimizer.zero_grad#") || text_begins(name, "## ") ||
	       text_begins(name, "DistributedDataParallel.forward");
}

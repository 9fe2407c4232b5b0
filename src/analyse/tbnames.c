/* SPDX-License-Identifier: Apache-2.0
 *
 * tbnames.c - the lists and how they are searched. A kernel's name is looked at once per
 * distinct name of the trace, so plain substring search is fast enough.
 */
#include "analyse/tbnames.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Substrings, as torch-tb-profiler 0.4.3 has them (after NVIDIA's PyProf, 2020). */
const char *const tbnames_tc_plugin[] = {"h884",
					 "s884",
					 "h1688",
					 "s1688",
					 "hmma",
					 "i8816",
					 "16816",
					 "dgrad_1x1_stride_2x2",
					 "first_layer_wgrad_kernel",
					 "conv1x1",
					 "conv2d_c1_k1",
					 "direct_group",
					 "xmma_implicit_gemm",
					 "xmma_sparse_conv",
					 "xmma_warp_specialized_implicit_gemm",
					 "xmma_gemm",
					 "xmma_sparse_gemm",
					 "c1688",
					 NULL};

/* Substrings of today's matrix-unit kernels: NVIDIA's from Volta to Blackwell, then AMD's. */
const char *const tbnames_tc_now[] = {
	"tensorop", /* CUTLASS on sm_75 and newer, "cutlass_80_tensorop_..." */
	"wmma", "hmma", "_imma", "wgmma", "_umma", "tcgen05", /* instructions in names */
	"nvjet_", /* cuBLAS from 12.6 on Hopper and Blackwell */
	"xmma_", "_tensor16x8x", "h884", "s884", "h1688", "s1688", "c1688", "i8816", "16816",
	"i16832", "s161616", "h161616", "gmma_", "f8f6f4", "warpgroupsize", "cutlass_90_",
	"cutlass3x_sm90", "cutlass3x_sm100", "sm90_gemm", "sm100_gemm", "flash_fwd_kernel",
	"flash_bwd_dq_dk_dv", "flash::compute_dq_dk_dv", "FlashAttnFwdSm", "FlashAttnBwdSm",
	"sdpa_sm", "fmha_cutlass", "fmha_v2", "triton_tem_fused", "dgrad_1x1_stride_2x2",
	"first_layer_wgrad_kernel", "conv1x1", "conv2d_c1_k1", "direct_group", "mfma", "_MI16x16x",
	"_MI32x32x", "_MI4x4x", "_xdl_", "_xdlops", "Xdl", "xdlops_", "gtcx", "FmhaFwdKernel",
	"FmhaBwd", "FmhaBatchPrefill", "FmhaFwdSplitKV", "aiter::fmha", "aiter::pa_",
	/* Triton kernels that are matrix products by their names, on both vendors */
	"attn_fwd", "attn_bwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "_matmul_ogs",
	"kernel_unified_attention", NULL};

/* A name with one of these is no tensor-core kernel whatever else it holds. */
const char *const tbnames_tc_not[] = {
	"simt",          "ffma", "reshape_and_cache", "splitKreduce", "flash_fwd_splitkv_combine",
	"convert_dq_to", NULL};

/* Whole names. */
const char *const tbnames_tc_op[] = {"aten::_convolution",
				     "aten::conv1d",
				     "aten::conv2d",
				     "aten::conv3d",
				     "aten::conv_tbc",
				     "aten::conv_transpose1d",
				     "aten::conv_transpose2d",
				     "aten::conv_transpose3d",
				     "aten::convolution",
				     "aten::cudnn_convolution",
				     "aten::cudnn_convolution_transpose",
				     "aten::prelu",
				     "aten::addmm",
				     "aten::addmv",
				     "aten::addr",
				     "aten::matmul",
				     "aten::mm",
				     "aten::mv",
				     "aten::linear",
				     "aten::addbmm",
				     "aten::baddbmm",
				     "aten::bmm",
				     "aten::chain_matmul",
				     "aten::linalg_multi_dot",
				     "aten::_thnn_fused_lstm_cell",
				     "aten::_thnn_fused_gru_cell",
				     "aten::lstm_cell",
				     "aten::gru_cell",
				     "aten::rnn_tanh_cell",
				     "aten::rnn_relu_cell",
				     "CudnnConvolutionBackward",
				     "BmmBackward0",
				     "aten::cudnn_convolution_transpose_backward",
				     "CudnnConvolutionTransposeBackward",
				     "MmBackward",
				     "aten::cudnn_convolution_backward_weight",
				     "aten::addmm_",
				     "AddmvBackward",
				     "MvBackward",
				     "aten::cudnn_convolution_transpose_backward_weight",
				     "aten::cudnn_convolution_transpose_backward_input",
				     "AddmmBackward",
				     "aten::cudnn_convolution_backward_input",
				     "AddbmmBackward",
				     "aten::cudnn_convolution_backward",
				     NULL};

/* Substrings of kernels; prefixes of host operators. */
const char *const tbnames_comm_kernel[] = {"ncclKernel",
					   "ncclDevKernel",
					   "ncclSymk",
					   "rcclKernel",
					   "rcclGeneric",
					   "mscclKernel",
					   "msccl::",
					   "nvshmem",
					   "oneccl_",
					   "hccl_",
					   "one_shot_all_",
					   "two_shot_all_",
					   "cross_device_reduce",
					   "multimem_all_",
					   "symm_mem::",
					   NULL};
const char *const tbnames_comm_host[] = {"gloo:", "mpi:", "ucc:", NULL};

static const char *const tbnames_comm_any[] = {"nccl:", "xccl:", "hccl:", "mccl:", "smddp:", NULL};
static const char *const tbnames_collectives[] = {"broadcast",  "reduce",         "all_reduce",
						  "all_gather", "reduce_scatter", NULL};

static bool tbnames_holds(const char *name, const char *const *list)
{
	for (; *list; list++) {
		if (strstr(name, *list))
			return true;
	}
	return false;
}

static bool tbnames_is(const char *name, const char *const *list)
{
	for (; *list; list++) {
		if (!strcmp(name, *list))
			return true;
	}
	return false;
}

static bool tbnames_begins(const char *name, const char *const *list)
{
	for (; *list; list++) {
		if (text_begins(name, *list))
			return true;
	}
	return false;
}

static bool tbnames_ends(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && !strcmp(name + n - m, end);
}

static bool tbnames_is_loader(const char *name)
{
	return (text_begins(name, "enumerate(DataLoader)#") && tbnames_ends(name, ".__next__")) ||
	       text_begins(name, "enumerate(DataPipe)#");
}

static unsigned tbnames_comm(const char *name)
{
	unsigned f = 0;

	if (text_begins(name, "nccl:") && tbnames_is(name + 5, tbnames_collectives))
		f |= TBNAMES_NCCL;
	if (text_begins(name, "gloo:") && tbnames_is(name + 5, tbnames_collectives))
		f |= TBNAMES_GLOO;
	if (tbnames_begins(name, tbnames_comm_host))
		f |= TBNAMES_COMM_HOST | TBNAMES_COMM_ANY;
	if (tbnames_begins(name, tbnames_comm_any))
		f |= TBNAMES_COMM_ANY;
	if (tbnames_holds(name, tbnames_comm_kernel))
		f |= TBNAMES_COMM_KERNEL;
	return f;
}

uint16_t tbnames_flags(const char *name)
{
	unsigned f = TBNAMES_KNOWN | tbnames_comm(name);

	if (text_begins(name, "ProfilerStep#"))
		f |= TBNAMES_STEP;
	if (tbnames_is_loader(name))
		f |= TBNAMES_LOADER;
	if (text_begins(name, "Optimizer."))
		f |= TBNAMES_NOT_OP;
	if (text_begins(name, "Optimizer.step"))
		f |= TBNAMES_OPTIMIZER;
	if (!strcmp(name, "DataParallel.forward"))
		f |= TBNAMES_NOT_OP | TBNAMES_DP;
	if (!strcmp(name, "DistributedDataParallel.forward"))
		f |= TBNAMES_NOT_OP | TBNAMES_DDP;
	if (tbnames_holds(name, tbnames_tc_plugin))
		f |= TBNAMES_TC_PLUGIN;
	if (tbnames_holds(name, tbnames_tc_now) && !tbnames_holds(name, tbnames_tc_not))
		f |= TBNAMES_TC;
	if (tbnames_is(name, tbnames_tc_op))
		f |= TBNAMES_TC_OP;
	return (uint16_t)f;
}

int64_t tbnames_step(const char *name)
{
	const char *p = strchr(name, '#');
	char *end;
	long long n;

	if (!p)
		return -1;
	n = strtoll(p + 1, &end, 10);
	return end == p + 1 ? -1 : (int64_t)n;
}

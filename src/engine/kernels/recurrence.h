/* recurrence.h - recurrences that replace attention in decoders: a convolution with a state, and
 * linear attention. ONNX and ONNX Runtime's contrib domain name the same operators. */
#ifndef TN_KERNELS_RECURRENCE_H
#define TN_KERNELS_RECURRENCE_H

#include "engine/kernels/check.h"

bool tn__causal_accepts(const tn_kernel_setup *setup);
tn_status tn__causal_run(tn_kernel_call *call);
bool tn__linear_accepts(const tn_kernel_setup *setup);
tn_status tn__linear_run(tn_kernel_call *call);
uint64_t tn__linear_workspace(const tn_kernel_setup *setup);

#endif

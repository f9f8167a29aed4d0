// SPDX-License-Identifier: Apache-2.0
#include <gpu/topk.inl>

SOFTFOLD_GPU_TOPK(float);

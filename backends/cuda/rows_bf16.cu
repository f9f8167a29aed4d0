// SPDX-License-Identifier: Apache-2.0
#include <gpu/rows.inl>

SOFTFOLD_GPU_ROWS(bfloat16);

// SPDX-License-Identifier: Apache-2.0
#include "unsupported.hpp"

#include <gpu/rows.inl>

SOFTFOLD_GPU_ROWS(bfloat16);

// SPDX-License-Identifier: Apache-2.0
#include "cluster_rows.hpp"

#include <gpu/rows.inl>

SOFTFOLD_GPU_ROWS(bfloat16);

// SPDX-License-Identifier: Apache-2.0
#include "together.hpp"

#include <gpu/rows.inl>

SOFTFOLD_GPU_ROWS(float);

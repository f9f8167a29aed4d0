// SPDX-License-Identifier: Apache-2.0
#include "cluster.hpp"
#include "ring.hpp"
#include "together.hpp"

#include <gpu/rows.inl>

SOFTFOLD_GPU_ROWS(half);

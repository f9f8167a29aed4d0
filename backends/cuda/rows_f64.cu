// SPDX-License-Identifier: Apache-2.0
#include "clustered.hpp"
#include "streamed.hpp"
#include "together.hpp"

#include <gpu/rows.inl>

SOFTFOLD_GPU_ROWS(double);

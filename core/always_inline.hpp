// SPDX-License-Identifier: Apache-2.0
#pragma once

/// For what the kernels of an instruction set call, too: code for it must not be shared.
#define SOFTFOLD_INLINE inline __attribute__((always_inline))

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The kernel tables that this processor can run. The sets avx512_bf16 and amx have those of avx512
/// but for attention, which has its own tests.
#pragma once

#include <backends/host/machine.hpp>

#include <softfold/error.hpp>

#include <vector>

inline std::vector<const softfold::host::kernel_table*> each_isa() {
  std::vector<const softfold::host::kernel_table*> tables;
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    try {
      tables.push_back(&softfold::host::choose_kernels(isa));
    } catch (const softfold::error&) {  // not on this processor
    }
  }
  return tables;
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the processor is and which kernels it can run.
#pragma once

#include <backends/host/kernels/table.hpp>

#include <cstddef>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

struct machine {
  std::string processor;
  std::size_t l1_bytes;
  std::size_t l2_bytes;
  std::size_t l3_bytes;  ///< 0 if there is none
};

/// Read from the system; usual sizes where it does not say.
machine read_machine();

/// The widest kernels that the processor can run, or those that `forced` names if it is
/// neither null nor empty. Throws error(invalid_argument) for a name that is unknown or cannot run
/// here.
const kernel_table& choose_kernels(const char* forced);

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

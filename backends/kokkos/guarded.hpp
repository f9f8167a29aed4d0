// SPDX-License-Identifier: Apache-2.0
/// \file
/// Faults of Kokkos as the library's errors.
#pragma once

#include <softfold/error.hpp>

#include <exception>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// Calls body; what is thrown there and not the library's own becomes error(backend_failure).
template <class Body>
void guarded(const char* what, Body&& body) {
  try {
    body();
  } catch (const error&) {
    throw;
  } catch (const std::exception& e) {
    throw error(errc::backend_failure, std::string(what) + ": " + e.what());
  }
}

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

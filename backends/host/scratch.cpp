// SPDX-License-Identifier: Apache-2.0
#include <backends/host/scratch.hpp>

#include <core/allocation.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

void scratch::release::operator()(std::byte* p) const noexcept { core::release_lines(p); }

std::byte* scratch::at_least(std::size_t bytes) {
  if (bytes > size_) {
    memory_.reset();
    size_ = 0;
    memory_.reset(core::allocate_lines("queue's scratch memory", bytes));
    size_ = bytes;
  }
  return memory_.get();
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

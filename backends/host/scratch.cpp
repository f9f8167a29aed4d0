// SPDX-License-Identifier: Apache-2.0
#include "scratch.hpp"

#include <softfold/error.hpp>

#include <new>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

constexpr std::align_val_t line{64};

}  // namespace

void scratch::release::operator()(std::byte* p) const noexcept { ::operator delete(p, line); }

std::byte* scratch::at_least(std::size_t bytes) {
  if (bytes > size_) {
    memory_.reset();
    size_ = 0;
    auto* grown = static_cast<std::byte*>(::operator new(bytes, line, std::nothrow));
    if (grown == nullptr) {
      throw error(errc::out_of_memory,
                  "queue: no memory for " + std::to_string(bytes) + " bytes of scratch");
    }
    memory_.reset(grown);
    size_ = bytes;
  }
  return memory_.get();
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

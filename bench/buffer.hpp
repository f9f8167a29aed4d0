// SPDX-License-Identifier: Apache-2.0
/// \file
/// Memory that contenders read and write, kept from case to case.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace softfold::bench {

/// Zeroed. Throws std::bad_alloc.
[[nodiscard]] void* allocate_memory(std::size_t bytes);
void release_memory(void* memory) noexcept;
/// Puts what `write` writes into host memory of that size there.
void write_memory(void* to, std::size_t bytes, const std::function<void(std::byte*)>& write);
/// Copies to the host's memory, after all calls so far.
void read_memory(const void* from, std::size_t bytes, void* to);
/// Overwrites with bytes of all ones: NaN in every float type.
void spoil_memory(void* to, std::size_t bytes);

class buffer {
 public:
  /// At least `bytes` bytes. What it held is lost if it has to grow.
  void resize(std::size_t bytes) {
    if (bytes > size_) {
      size_ = 0;
      memory_.reset();
      memory_.reset(allocate_memory(bytes));
      size_ = bytes;
    }
  }

  [[nodiscard]] void* data() const noexcept { return memory_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// write(std::byte*) puts the contents into host memory.
  void fill(std::size_t bytes, const std::function<void(std::byte*)>& write) {
    resize(bytes);
    write_memory(memory_.get(), bytes, write);
  }

 private:
  struct release {
    void operator()(void* p) const noexcept { release_memory(p); }
  };
  std::unique_ptr<void, release> memory_;
  std::size_t size_ = 0;
};

}  // namespace softfold::bench

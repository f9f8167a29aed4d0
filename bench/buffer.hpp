// SPDX-License-Identifier: Apache-2.0
/// \file
/// Memory that contenders read and write. The memory of another backend goes here: data() is
/// then a device pointer, fill() copies what the host wrote, and so on.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace softfold::bench {

class buffer {
 public:
  /// At least `bytes` bytes. What it held is lost if it has to grow.
  void resize(std::size_t bytes) {
    if (bytes <= size_) {
      return;
    }
    memory_.reset();
    size_ = 0;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
    if (!memory_) {
      throw std::bad_alloc();
    }
    std::memset(memory_.get(), 0, rounded);  // map the pages now, not in the first timing
    size_ = rounded;
  }

  [[nodiscard]] void* data() const noexcept { return memory_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// write(std::byte*) puts the contents into host memory.
  template <class Write>
  void fill(std::size_t bytes, Write&& write) {
    resize(bytes);
    std::forward<Write>(write)(memory_.get());
  }

 private:
  // A cache line, and so the alignment of the widest vectors.
  static constexpr std::size_t alignment = 64;
  struct release {
    void operator()(std::byte* p) const noexcept { std::free(p); }
  };
  std::unique_ptr<std::byte, release> memory_;
  std::size_t size_ = 0;
};

/// Copies from a contender's memory to the host's.
inline void read_memory(const void* from, std::size_t bytes, void* to) {
  std::memcpy(to, from, bytes);
}

/// Overwrites a contender's memory with bytes of all ones: NaN in every float type.
inline void spoil_memory(void* to, std::size_t bytes) { std::memset(to, 0xff, bytes); }

}  // namespace softfold::bench

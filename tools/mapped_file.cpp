// SPDX-License-Identifier: Apache-2.0
#include "mapped_file.hpp"

#include "cleanup.hpp"
#include "failure.hpp"
#include "input_file.hpp"
#include "printable.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace softfold::tool {
namespace {

std::size_t page_floor(std::size_t offset) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return offset / page * page;
}

// madvise takes a pointer to non-const, but no advice given here changes the content.
void advise(const std::byte* data, std::size_t begin, std::size_t end, int advice) {
  if (begin < end) {
    madvise(const_cast<std::byte*>(data) + begin, end - begin, advice);
  }
}

}  // namespace

mapped_file::mapped_file(const std::string& path) : path_(path), shown_path_(printable(path)) {
  const input_file file(path);
  size_ = static_cast<std::size_t>(file.status().st_size);
  if (size_ == 0) {
    return;  // mmap refuses an empty range
  }
  void* const map = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.number(), 0);
  if (map == MAP_FAILED) {
    throw system_failure(path, "cannot map");
  }
  data_ = static_cast<const std::byte*>(map);
  advise(data_, 0, size_, MADV_SEQUENTIAL);
  set_mapped_path(shown_path_.c_str());
}

mapped_file::~mapped_file() {
  if (data_ != nullptr) {
    set_mapped_path(nullptr);
    munmap(const_cast<std::byte*>(data_), size_);
  }
}

void mapped_file::prefetch(std::size_t offset, std::size_t size) const noexcept {
  const std::size_t begin = std::min(offset, size_);
  advise(data_, page_floor(begin), begin + std::min(size, size_ - begin), MADV_WILLNEED);
}

void mapped_file::release(std::size_t begin, std::size_t end) const noexcept {
  advise(data_, page_floor(begin), page_floor(end), MADV_DONTNEED);
}

}  // namespace softfold::tool

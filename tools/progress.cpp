// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace softfold::tool {

progress::progress(const char* label, std::int64_t total)
    : label_(label == nullptr ? "" : label),
      total_(total),
      enabled_(label != nullptr && isatty(STDERR_FILENO) == 1) {}

progress::~progress() {
  if (drawn_) {
    std::fputs("\r\033[K", stderr);
  }
}

void progress::advance(std::int64_t amount) {
  done_ += amount;
  if (!enabled_) {
    return;
  }
  const clock::time_point now = clock::now();
  if (now >= next_ && done_ < total_) {
    draw(now);
    drawn_ = true;
    next_ = now + std::chrono::milliseconds(100);
  }
}

void progress::draw(clock::time_point now) const {
  constexpr int width = 30;
  const double done = static_cast<double>(done_) / static_cast<double>(total_);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto filled = static_cast<std::size_t>(done * width);
  std::string bar(width, '.');
  std::fill_n(bar.begin(), filled, '#');
  std::fprintf(stderr, "\r%s [%s] %3.0f %%, %.0f s left\033[K", label_.c_str(), bar.c_str(),
               100 * done, seconds / done - seconds);
}

}  // namespace softfold::tool

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Threads for the contenders that have none of their own.
#pragma once

#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace softfold::bench {

/// Splits [0, n) into one range for each thread. One thread is the caller, without a scheduler.
class team {
 public:
  explicit team(int threads)
      : threads_(threads),
        arena_(threads > 1 ? std::make_shared<tbb::task_arena>(threads) : nullptr) {}

  /// body(begin, end) for the parts; all begins are multiples of `multiple`.
  template <class Body>
  void split(std::int64_t n, std::int64_t multiple, const Body& body) const {
    if (!arena_) {
      body(std::int64_t{0}, n);
      return;
    }
    const std::int64_t each = (n + threads_ - 1) / threads_;
    const std::int64_t part = (each + multiple - 1) / multiple * multiple;
    arena_->execute([&] {
      tbb::parallel_for(
          0, threads_,
          [&](int thread) {
            const std::int64_t begin = std::min(n, thread * part);
            const std::int64_t end = std::min(n, begin + part);
            if (begin < end) {
              body(begin, end);
            }
          },
          tbb::simple_partitioner{});
    });
  }

 private:
  int threads_;
  std::shared_ptr<tbb::task_arena> arena_;
};

}  // namespace softfold::bench

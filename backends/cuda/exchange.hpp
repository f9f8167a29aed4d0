// SPDX-License-Identifier: Apache-2.0
/// \file
/// How blocks that run at once tell each other the states of a row's chunks: through words of
/// global memory that are 0 until their state is there. Nothing else is ordered by it, so that it
/// costs one store and one load, and stores under way need not end first.
#pragma once

#include <gpu/reduce.hpp>

#include <cuda/atomic>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class V>
using device_atomic = ::cuda::atomic_ref<V, ::cuda::thread_scope_device>;

template <class T>
class state_exchange {
 public:
  /// `words`: one for each of the launch's chunks, for f64 two; `readers`: one for each of its
  /// rows. All 0 before the launch, and after it.
  __device__ state_exchange(std::uint64_t* words, unsigned* readers)
      : words_(words), readers_(readers) {}

  /// Chunk `number` of all rows'. By one thread.
  __device__ void publish(std::int64_t number, const state<T>& s) const {
    if constexpr (sizeof(T) == 4) {
      // Never 0: where the maximum is 0, the sum is not.
      store(number, __float_as_uint(s.max) | std::uint64_t{__float_as_uint(s.sum)} << 32);
    } else {
      store(2 * number, not_zero(s.max));
      store(2 * number + 1, not_zero(s.sum));
    }
  }

  /// States that each lane of wait_for_row keeps, at most.
  template <int lanes>
  static constexpr int most_kept = most_chunks_read_by_all / lanes;

  /// The combination of all `count` <= most_chunks_read_by_all states of a row, when they are
  /// there, the same bits as by combine_states. By all lanes of a warp; every lane gets it. `kept`:
  /// kept(j) is where the lane keeps state j < most_kept meanwhile.
  template <int lanes, class Kept>
  __device__ state<T> wait_for_row(std::int64_t row, int count, T scale, const Kept& kept) const {
    constexpr int most = most_kept<lanes>;
    const int first = first_combined<lanes>(count);
    const int step = count <= few_states ? few_states : lanes;
    const auto has = [&](int j) { return first + j * step < count && (j == 0 || step == lanes); };
    bool complete;
    do {
      complete = true;
#pragma unroll
      for (int j = 0; j < most; ++j) {
        if (has(j)) {
          complete = load(row * count + first + j * step, kept(j)) && complete;
        }
      }
    } while (ballot(!complete) != 0);
    return combine_each<lanes>(count, scale, [&](const auto& f) {
#pragma unroll
      for (int j = 0; j < most; ++j) {
        if (has(j)) {
          f(kept(j));
        }
      }
    });
  }

  /// To be called once for each of a row's `count` chunks after wait_for_row, by all lanes of a
  /// warp. The last of them clears the words.
  template <int lanes>
  __device__ void leave(std::int64_t row, int count) const {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    bool last = false;
    if (lane == 0) {
      device_atomic<unsigned> readers(readers_[row]);
      last = readers.fetch_add(1, ::cuda::memory_order_relaxed) == static_cast<unsigned>(count) - 1;
      if (last) {
        readers.store(0, ::cuda::memory_order_relaxed);
      }
    }
    if (ballot(last) != 0) {
      constexpr int each = sizeof(T) / 4;
      for (int i = lane; i < count * each; i += lanes) {
        store(row * count * each + i, 0);
      }
    }
  }

 private:
  __device__ void store(std::int64_t word, std::uint64_t value) const {
    device_atomic<std::uint64_t>(words_[word]).store(value, ::cuda::memory_order_relaxed);
  }
  [[nodiscard]] __device__ std::uint64_t load(std::int64_t word) const {
    return device_atomic<std::uint64_t>(words_[word]).load(::cuda::memory_order_relaxed);
  }
  [[nodiscard]] __device__ bool load(std::int64_t number, state<T>& s) const {
    if constexpr (sizeof(T) == 4) {
      const std::uint64_t both = load(number);
      s = {__uint_as_float(static_cast<unsigned>(both)),
           __uint_as_float(static_cast<unsigned>(both >> 32))};
      return both != 0;
    } else {
      const std::uint64_t max = load(2 * number);
      const std::uint64_t sum = load(2 * number + 1);
      s = {__longlong_as_double(static_cast<long long>(max)),
           __longlong_as_double(static_cast<long long>(sum))};
      return max != 0 && sum != 0;
    }
  }
  /// The bits of x, or of -0, which equals it, for 0: words of 0 are not there yet.
  __device__ static std::uint64_t not_zero(double x) {
    return static_cast<std::uint64_t>(__double_as_longlong(x == 0 ? -0.0 : x));
  }

  std::uint64_t* words_;
  unsigned* readers_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// SPDX-License-Identifier: Apache-2.0
/// \file
/// How blocks that run at once tell each other the states of a row's chunks: through words of
/// global memory that are 0 until their state is there. Nothing else is ordered by it, so that it
/// costs one store and one load, and stores under way need not end first.
#pragma once

#include "atomic.hpp"

#include <gpu/group/combine.hpp>
#include <gpu/state/softmax_state.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// A state as words that are not 0, so that words of 0 are not there yet. As a rule each 4 bytes of
/// it in a word of their own, with a bit beside them.
template <class State>
struct exchanged {
  static constexpr int words = static_cast<int>(sizeof(State) / 4);

  __device__ static void pack(const State& s, std::uint64_t (&to)[words]) {
    std::uint32_t parts[words];
    memcpy(parts, &s, sizeof s);
#pragma unroll
    for (int i = 0; i < words; ++i) {
      to[i] = parts[i] | std::uint64_t{1} << 32;
    }
  }
  __device__ static State unpack(const std::uint64_t (&from)[words]) {
    std::uint32_t parts[words];
#pragma unroll
    for (int i = 0; i < words; ++i) {
      parts[i] = static_cast<std::uint32_t>(from[i]);
    }
    State s;
    memcpy(&s, parts, sizeof s);
    return s;
  }
};

/// In one word: where the maximum is 0, the sum is not.
template <>
struct exchanged<softmax_state<float>> {
  static constexpr int words = 1;

  __device__ static void pack(const softmax_state<float>& s, std::uint64_t (&to)[words]) {
    to[0] = __float_as_uint(s.max) | std::uint64_t{__float_as_uint(s.sum)} << 32;
  }
  __device__ static softmax_state<float> unpack(const std::uint64_t (&from)[words]) {
    return {__uint_as_float(static_cast<unsigned>(from[0])),
            __uint_as_float(static_cast<unsigned>(from[0] >> 32))};
  }
};

template <>
struct exchanged<softmax_state<double>> {
  static constexpr int words = 2;

  __device__ static void pack(const softmax_state<double>& s, std::uint64_t (&to)[words]) {
    to[0] = not_zero(s.max);
    to[1] = not_zero(s.sum);
  }
  __device__ static softmax_state<double> unpack(const std::uint64_t (&from)[words]) {
    return {__longlong_as_double(static_cast<long long>(from[0])),
            __longlong_as_double(static_cast<long long>(from[1]))};
  }

 private:
  /// The bits of x, or of -0, which equals it, for 0.
  __device__ static std::uint64_t not_zero(double x) {
    return static_cast<std::uint64_t>(__double_as_longlong(x == 0 ? -0.0 : x));
  }
};

template <class Monoid>
class state_exchange {
  using state = typename Monoid::value_type;
  using form = exchanged<state>;
  static_assert(form::words <= exchange_words);

 public:
  /// `words`: exchange_words for each of the launch's chunks; `readers`: one for each of its rows.
  /// All 0 before the launch, and after it.
  __device__ state_exchange(std::uint64_t* words, unsigned* readers)
      : words_(words), readers_(readers) {}

  /// Chunk `number` of all rows'. By one thread.
  __device__ void publish(std::int64_t number, const state& s) const {
    std::uint64_t words[form::words];
    form::pack(s, words);
#pragma unroll
    for (int i = 0; i < form::words; ++i) {
      store(form::words * number + i, words[i]);
    }
  }

  /// States that each lane of wait_for_row keeps, at most.
  template <int lanes>
  static constexpr int most_kept = most_chunks_read_by_all / lanes;

  /// The combination of all `count` <= most_chunks_read_by_all states of a row, when they are
  /// there, the same bits as by combine_states. By all lanes of a warp; every lane gets it. `kept`:
  /// kept(j) is where the lane keeps state j < most_kept meanwhile.
  template <int lanes, class Kept>
  __device__ state wait_for_row(std::int64_t row, int count, const Monoid& monoid,
                                const Kept& kept) const {
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
    return combine_each<lanes>(count, monoid, [&](const auto& f) {
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
      constexpr int each = form::words;
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
  [[nodiscard]] __device__ bool load(std::int64_t number, state& s) const {
    std::uint64_t words[form::words];
    bool complete = true;
#pragma unroll
    for (int i = 0; i < form::words; ++i) {
      words[i] = load(form::words * number + i);
    }
#pragma unroll
    for (int i = 0; i < form::words; ++i) {
      complete = complete && words[i] != 0;
    }
    s = form::unpack(words);
    return complete;
  }

  std::uint64_t* words_;
  unsigned* readers_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

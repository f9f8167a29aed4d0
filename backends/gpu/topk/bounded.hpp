// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k of rows of one chunk by a warp each, in one read and without barriers. Of every piece of
/// the row it keeps the vectors with an element above a bound that k elements are known to exceed:
/// at first the k-th largest of a piece's maxima of lanes or vectors, then the k-th best of what
/// was kept. A few vectors of each piece have one, and ever fewer.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/group/combine.hpp>
#include <gpu/group/select.hpp>
#include <gpu/topk/candidates.hpp>
#include <gpu/topk/results.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Vectors that a warp keeps before it looks at their elements, at most.
inline constexpr int kept_vectors = 160;

/// Where the parts of a warp's shared memory lie: vectors, their numbers, how many they are, the
/// states of pieces, entries.
template <int lanes, class In>
struct bounded_layout {
  static constexpr int most_pieces = chunk_threads / lanes;
  static constexpr std::size_t numbers = kept_vectors * sizeof(block16);
  static constexpr std::size_t count = numbers + kept_vectors * sizeof(int);
  static constexpr std::size_t states = count + 16;
  static constexpr std::size_t entries =
      states + most_pieces * sizeof(softmax_state<arithmetic_t<In>>);

  /// There is room for k entries, and the elements of a vector of each lane.
  static std::size_t bytes(std::int64_t k) {
    return entries + (static_cast<std::size_t>(k) + lanes * vector_width<In>)*sizeof(packed_entry);
  }
};

/// What a warp kept of a row. Vectors with an element above the bound are kept as they are, which
/// takes the same few instructions for one as for many; their elements are looked at when there is
/// no more room.
template <int lanes, class In>
class bounded_row {
 public:
  using T = arithmetic_t<In>;
  static constexpr int width = vector_width<In>;
  using layout = bounded_layout<lanes, In>;

  __device__ bounded_row(int k, const vector_range<In>& range, unsigned char* shared)
      : range_(range), shared_(shared), k_(k) {
    if (threadIdx.x % lanes == 0) {
      *count() = 0;
    }
    synchronize_warp();
  }

  [[nodiscard]] __device__ int found() const { return found_; }
  [[nodiscard]] __device__ packed_entry* entries() const {
    return reinterpret_cast<packed_entry*>(shared_ + layout::entries);
  }

  /// Keeps those of a piece's vectors that are `wanted`, a bit for each, and have elements above
  /// the bound. `first`: the piece's first vector. Returns those for which there was no room.
  template <int V>
  __device__ unsigned keep(const tile<In, V>& own, T largest, int first, unsigned wanted) {
    const lane_mask above = ballot(!(largest < least_from(first)));
    if (above == 0) {
      return 0;
    }
    if (bound_ == 0 || gpu::count(above) == lanes) {
      raise(own, largest);
    }
    unsigned rest = own.reaching(least_from(first)) & wanted;
    if (is_most<lanes>(count_bits(rest) > 1)) {
      rest = without_late_ties(own, rest);
      many_ = true;
    }
    int at = rest != 0 ? atomicAdd(count(), count_bits(rest)) : 0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if ((rest >> j & 1U) != 0) {
        if (at < kept_vectors) {
          vectors()[at] = own.vector(j);
          numbers()[at] = own.number(j);
          rest ^= 1U << j;
        }
        ++at;
      }
    }
    return rest;
  }

  /// Whether it is time to look at what was kept: for small k it pays to raise the bound soon, and
  /// where many elements reach it at once.
  [[nodiscard]] __device__ bool is_due() const {
    return many_ || *static_cast<const volatile int*>(count()) >=
                        (2 * k_ <= lanes ? lanes : kept_vectors - lanes);
  }

  /// Takes the candidates out of the vectors that were kept.
  __device__ void look() {
    many_ = false;
    synchronize_warp();
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const int n = *count() < kept_vectors ? *count() : kept_vectors;
#pragma unroll 1
    for (int base = 0; base < n; base += lanes) {
      if (found_ > k_) {
        keep_best();
      }
      const bool exists = base + lane < n;
      const block16 elements = exists ? vectors()[base + lane] : no_elements<In>();
      const int at = exists ? numbers()[base + lane] * width : 0;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const packed_entry e = entry_of<packed_entry>::make(order_key(element_of<In>(elements, i)),
                                                            at + i - range_.head);
        const bool keeps = exists && e > bound_ && range_.has(at + i);
        const lane_mask all = ballot(keeps);
        if (keeps) {
          entries()[found_ + gpu::count(all & lanes_below())] = e;
        }
        found_ += gpu::count(all);
      }
    }
    synchronize_warp();
    if (lane == 0) {
      *count() = 0;
    }
    synchronize_warp();
  }

  /// Leaves the k best, and raises the bound to them.
  __device__ void keep_best() {
    if (found_ > k_) {
      found_ = gpu::keep_best<lanes>(entries(), found_, k_, bound_);
    }
  }

 private:
  /// A value that no candidate from vector `first` on is below. Of equal elements the first columns
  /// are the best.
  [[nodiscard]] __device__ T least_from(int first) const {
    const std::uint32_t key = entry_of<packed_entry>::key(bound_);
    const auto column = ~static_cast<std::uint32_t>(bound_);
    const bool ties = column >= static_cast<std::uint32_t>(first * width) || key == ~0U;
    return core::value_of_key<T>(key + (ties ? 0 : 1));
  }

  /// Of many vectors `rest` those above the bound, and the first k of those equal to it.
  template <int V>
  [[nodiscard]] __device__ unsigned without_late_ties(const tile<In, V>& own, unsigned rest) const {
    const T value = core::value_of_key<T>(entry_of<packed_entry>::key(bound_));
    const unsigned ties = rest & ~own.exceeding(value);
    unsigned result = rest & ~ties;
    int seen = 0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const bool tie = (ties >> j & 1U) != 0;
      const lane_mask all = ballot(tie);
      result |= tie && seen + gpu::count(all & lanes_below()) < k_ ? 1U << j : 0U;
      seen += gpu::count(all);
    }
    return result;
  }

  /// Raises the bound by a piece's own maxima.
  template <int V>
  __device__ void raise(const tile<In, V>& own, T largest) {
    std::uint32_t bound;
    if (2 * k_ <= lanes) {
      bound = kth_of_lanes<lanes>(own.number(0) < range_.size() ? order_key(largest) : 0, k_);
    } else {
      std::uint32_t keys[V];
#pragma unroll
      for (int j = 0; j < V; ++j) {
        keys[j] = own.number(j) < range_.size() ? order_key(own.max(j)) : 0;
      }
      bound = bound_of_maxima<lanes, (1U << spare_key_bits<In>)>(keys, k_);
    }
    const packed_entry raised = packed_entry{bound} << 32;
    bound_ = raised > bound_ ? raised : bound_;
  }

  [[nodiscard]] __device__ block16* vectors() const { return reinterpret_cast<block16*>(shared_); }
  [[nodiscard]] __device__ int* numbers() const {
    return reinterpret_cast<int*>(shared_ + layout::numbers);
  }
  [[nodiscard]] __device__ int* count() const {
    return reinterpret_cast<int*>(shared_ + layout::count);
  }

  const vector_range<In>& range_;
  unsigned char* shared_;
  int k_;
  int found_ = 0;
  bool many_ = false;
  packed_entry bound_ = 0;  ///< k elements at least exceed it
};

/// A row of one chunk by a block, which is a warp. A piece is what a warp has of the chunk in
/// blocks that fold it.
template <int lanes, class In>
__global__ void __launch_bounds__(lanes, least_resident(28))
    topk_bounded(const topk_arguments<In> call, int pieces) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  using layout = bounded_layout<lanes, In>;
  const int lane = static_cast<int>(threadIdx.x);
  const int k = static_cast<int>(call.k);
  const std::int64_t row = blockIdx.x;
  const In* const x = call.x + row * call.x_stride;
  unsigned char* const shared = dynamic_shared_memory();
  auto* const states = reinterpret_cast<softmax_state<T>*>(shared + layout::states);
  const vector_range<In> range(x, static_cast<int>(call.cols), call.memory);
  bounded_row<lanes, In> best(k, range, shared);
  for (int piece = 0; piece < pieces; ++piece) {
    softmax_state<T> folded;
    unsigned wanted = piece * lanes < range.size() ? ~0U : 0U;
    while (wanted != 0) {
      // Or the vectors' places, and what masks the row's ends, would be kept from piece to piece.
      int first = piece * lanes + lane;
      int step = pieces * lanes;
      vector_range<In> own_range = range;
      forget_origin(first);
      forget_origin(step);
      forget_origin(own_range.head);
      tile<In, chunk_vectors_each> own(own_range, first, step);
      own.template load_long<true>();
      T largest = own.max();
      own.next_pass();
      wanted = best.keep(own, largest, piece * lanes, wanted);
      own.next_pass();
      const bool done = ballot(wanted != 0) == 0;
      if (done && call.folds) {
        if (call.map != element_map::none) {
          own.apply(call.map);
          largest = own.max();
        }
        folded = fold_tile<lanes, precision::fast, false>(own, call.scale, lanes, largest);
      }
      // Now that the tile takes no registers; if there was not enough room, it is read again.
      synchronize_warp();
      if (!done || best.is_due()) {
        best.look();
        best.keep_best();
      }
      if (done) {
        break;
      }
      wanted |= 1U << chunk_vectors_each;  // all lanes go on
    }
    if (lane == 0) {
      states[piece] = folded;
    }
  }
  best.look();
  if (best.found() > lanes) {
    best.keep_best();
  }
  const softmax_state<T> whole =
      call.folds ? combine_states<lanes>(states, pieces, call.states()) : softmax_state<T>{};
  static_assert(kept_vectors * sizeof(block16) >= most_listed * sizeof(packed_entry));
  auto* const ranked = reinterpret_cast<packed_entry*>(shared);  // the vectors are not needed now
  rank_entries<lanes>(best.entries(), best.found(), k, 1, ranked);
  synchronize_warp();
  write_row(call, x, row, ranked, whole);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

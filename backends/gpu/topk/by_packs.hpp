// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k of short rows, which a warp copies to shared memory: a lane, or a few, take a row's
/// elements by packs of as many as it keeps, sort each pack and keep the best of both. A pack of
/// more than a lane sorts quickly is several neighbouring lanes'.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/group/lane_sort.hpp>
#include <gpu/state/softmax_state.hpp>
#include <gpu/topk/results.hpp>
#include <gpu/topk/warp_rows.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// A warp's rows, what their probabilities are made with, and for each its list and, of f32, the
/// largest number that the list has no room for.
template <int lanes, int most, class In>
class rows_by_packs : warp_rows<lanes, In> {
  using base = warp_rows<lanes, In>;

 public:
  using T = arithmetic_t<In>;
  static constexpr int width = base::width;
  static constexpr int each = pack_of_lane(most);  ///< of a pack's entries
  static constexpr int list_lanes = most / each;
  static constexpr int lane_vectors = each / width;
  static constexpr bool exact = sizeof(In) == 2;  ///< numbers are in the order of elements
  static constexpr int list_pitch = pack_list_words(most);

  /// A row's share_of_row for many results: by a product. 16 bytes that are loaded at once.
  struct alignas(vector_bytes) share {
    frame<T> whole;
    T factor;

    __device__ T operator()(T x, element_map map) const {
      return canonical(ranked_exponential(whole, x, map) * factor);
    }
  };
  static_assert(sizeof(share) == 4 * pack_share_words);

  __device__ rows_by_packs(const topk_arguments<In>& call, const pack_layout& of, int lane,
                           std::int64_t first, unsigned char* memory)
      : base(call, of, lane, first, memory),
        k_(call.k < call.cols ? static_cast<int>(call.k) : cols_),
        shares_(reinterpret_cast<share*>(copies_ + none_ + 1)),
        found_(reinterpret_cast<std::uint32_t*>(shares_ + of.rows)) {}

  using base::copy;

  /// The k best of each row to its list, in order.
  __device__ void search() const {
    const int row_lanes = 1 << of_.row_shift;
    const int part = lane_ & (row_lanes - 1);
    const int r = row_of_lane();
    const int own = row_begin(r);
    const int size = size_of(r);
    std::uint32_t best[each];
    std::uint32_t lost = 0;
    const auto tell = [&](std::uint32_t left_out) {
      if constexpr (!exact) {
        lost = lost < left_out ? left_out : lost;
      }
    };
    // An element's position without the lane's part, which comes later: the same for all lanes.
    const auto add_part = [&](std::uint32_t(&numbers)[each]) {
#pragma unroll
      for (int i = 0; i < each; ++i) {
        numbers[i] -= static_cast<std::uint32_t>(part * width);
      }
    };
#pragma unroll 1
    for (int first = 0; first < of_.vectors; first += lane_vectors << of_.row_shift) {
      std::uint32_t some[each];
#pragma unroll
      for (int j = 0; j < lane_vectors; ++j) {
        const int v0 = first + (j << of_.row_shift);
        const int v = v0 + part;
        const block16 loaded = copies_[v < size ? own + v : none_];
        const auto reversed = ~static_cast<std::uint32_t>(v0 * width) & of_.positions;
        make_numbers(some, j * width, loaded, reversed);
      }
      if constexpr (list_lanes > 1) {
        add_part(some);
      }
      sort_over_lanes(some, part, list_lanes);
      if (first == 0) {
#pragma unroll
        for (int i = 0; i < each; ++i) {
          best[i] = some[i];
        }
      } else {
        merge_best(best, some, part, list_lanes, tell);
      }
    }
    if constexpr (list_lanes == 1) {
      add_part(best);
    }
    best_over_lanes(best, part, list_lanes, row_lanes, tell);
    std::uint32_t* const list = found_ + r * list_pitch;
    if (part < list_lanes) {
#pragma unroll
      for (int i = 0; i < each; ++i) {
        list[part * each + i] = best[i];
      }
    }
    if constexpr (!exact) {
#pragma unroll 1
      for (int mask = 1; mask < row_lanes; mask *= 2) {
        tell(shuffle_xor(lost, mask));
      }
      if (part == 0) {
        list[most] = lost;
      }
    }
    synchronize_warp();
    const bool exists = lane_ >> of_.row_shift < rows_ && k_ > 0;
    const std::uint32_t last = exists ? list[k_ - 1] : ~std::uint32_t{0};
    const bool ends_lowest = last <= (key_of(stored_infinity()) | of_.positions);
    for_each_row(part == 0 && ends_lowest, [&](int row) { settle_lowest(row); });
    if constexpr (!exact) {
      const bool may_be_tied = exists && !ends_lowest && close(last, list[k_]);
      if (ballot(may_be_tied) != 0) {
        const bool tied = are_different(own, size, part, last);
        for_each_row(part == 0 && may_be_tied && tied, [&](int row) { settle_tied(row); });
      }
      bool are_close = false;
#pragma unroll 1
      for (int i = part + 1; i < k_; i += row_lanes) {
        are_close = are_close || close(list[i - 1], list[i]);
      }
      const lane_mask of_row = ((lane_mask{2} << (row_lanes - 1)) - 1) << (lane_ - part);
      const lane_mask all_close = ballot(are_close && exists);
      if (part == 0 && (all_close & of_row) != 0) {
        put_in_order(r);
      }
      synchronize_warp();
    }
  }

  /// The rows' states, with the same bits as by fold_tile of row_plan's lanes and vectors: a lane
  /// has what several of those would have, and adds their sums in the same order.
  __device__ void fold() const {
    const int row_shift = of_.row_shift < of_.fold_shift ? of_.row_shift : of_.fold_shift;
    const int row_lanes = 1 << row_shift;  // if more search, several fold the same
    const int part = lane_ & (row_lanes - 1);
    const int r = row_of_lane();
    const int size = size_of(r);
    const auto each = [&](int first, int step, const auto& use) {
      for (int v = first; v < size; v += step) {
        use(mapped_vector(r, v));
      }
    };
    T largest = k_ > 0 ? value(r, found_[r * list_pitch]) : -infinity<T>;
    if (call_.map != element_map::none || k_ == 0) {
      largest = -infinity<T>;
      each(part, row_lanes, [&](const block16& v) {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          largest = max_or_nan(largest, element_of<In>(v, i));
        }
      });
      largest = max_over_lanes(largest, row_lanes);
    }
    const auto f = frame<T>::of(largest, call_.scale);
    const int members = 1 << (of_.fold_shift - row_shift);
    T total = 0;
    with_exponential<precision::fast>(f, [&](const auto& exponential) {
      T before[3] = {0, 0, 0};
#pragma unroll 1
      for (int i = 0; i < members; ++i) {
        const int member = reversed_bits(i, of_.fold_shift - row_shift);
        T sums[2] = {0, 0};
        each(part + (member << row_shift), 1 << of_.fold_shift, [&](const block16& v) {
#pragma unroll
          for (int e = 0; e < width; ++e) {
            sums[e % 2] += exponential(element_of<In>(v, e));
          }
        });
        total = (sums[0] + sums[1]) * exponential.factor;
        // Like a binary counter: a sum of as many members waits for another of as many.
        if ((i & 1) == 0) {
          before[0] = total;
        } else {
          total += before[0];
          if ((i & 2) == 0) {
            before[1] = total;
          } else {
            total += before[1];
            if ((i & 4) == 0) {
              before[2] = total;
            } else {
              total += before[2];
            }
          }
        }
      }
    });
    total = sum_over_lanes(total, row_lanes);
    if ((lane_ & ((1 << of_.row_shift) - 1)) == 0 && lane_ >> of_.row_shift < rows_) {
      const softmax_state<T> whole{largest, total};
      write_state(call_, first_ + r, whole);
      const auto of_row = share_of_row<T>::of(call_, whole);
      shares_[r] = {of_row.whole, 1 / of_row.sum};
    }
    synchronize_warp();
  }

  /// One output after the other, so that each asks for its type once.
  __device__ void write() const {
    if (call_.indices.type == dtype::i64) {
      write_columns<std::int64_t>();
    } else {
      write_columns<std::int32_t>();
    }
    if (call_.values.data != nullptr) {
      write_reals(call_.values, [](int, In x) { return x; });
    }
    if (call_.probabilities.data != nullptr) {
      write_reals(call_.probabilities, [&](int r, In x) {
        const share own = shares_[r];
        return own(widen(x), call_.map);
      });
    }
  }

 private:
  /// To each result of an output value(row, element, its position in the row), where it exists.
  /// Else the element is outside.
  template <class Out, class Value>
  __device__ void write_ranked(const ranked_output& to, const Value& value) const {
    [[maybe_unused]] constexpr int at_once =
        std::is_same_v<Out, double> || std::is_same_v<Out, half> ? 1 : 4;
    const int first = lane_ >> of_.list_shift;
    const int rows_apart = lanes >> of_.list_shift;
    const int rows = (rows_ - first + rows_apart - 1) / rows_apart;
#pragma unroll 1
    for (int rank = lane_ & ((1 << of_.list_shift) - 1); rank < static_cast<int>(call_.k);
         rank += 1 << of_.list_shift) {
      const bool exists = rank < k_;
      const std::uint32_t positions = exists ? of_.positions : 0;
      const block16* own = copies_ + (exists ? row_begin(first) : none_);
      const int own_apart = exists ? row_begin(rows_apart) : 0;
      const std::uint32_t* number = found_ + first * list_pitch + rank;
      Out* at = static_cast<Out*>(to.data) + (first_ + first) * to.stride + rank;
#pragma unroll at_once
      for (int i = 0; i < rows; ++i) {
        const auto position = static_cast<int>(~*number & positions);
        *at = value(first + i * rows_apart, reinterpret_cast<const In*>(own)[position],
                    exists ? position : -1);
        own += own_apart;
        number += rows_apart * list_pitch;
        at += rows_apart * to.stride;
      }
    }
  }
  template <class Out>
  __device__ void write_columns() const {
    const std::int64_t offset = call_.column_offset;
    write_ranked<Out>(call_.indices, [&](int r, In, int position) {
      return position < 0 ? Out{-1}
                          : static_cast<Out>(position - (of_.whole ? 0 : head_of(r)) + offset);
    });
  }
  /// What value(row, element) gives, in the output's type.
  template <class Value>
  __device__ void write_reals(const ranked_output& to, const Value& value) const {
    switch (to.type) {
      case dtype::f64:
        return write_reals_as<double>(to, value);
      case dtype::f16:
        return write_reals_as<half>(to, value);
      case dtype::bf16:
        return write_reals_as<bfloat16>(to, value);
      default:
        return write_reals_as<float>(to, value);
    }
  }
  template <class Out, class Value>
  __device__ void write_reals_as(const ranked_output& to, const Value& value) const {
    write_ranked<Out>(to, [&](int r, In x, int) {
      const auto result = value(r, x);
      if constexpr (std::is_same_v<decltype(result), const Out>) {
        return result;  // an element itself: its bits, if it is a NaN
      } else {
        return Out(static_cast<arithmetic_t<Out>>(widen(result)));
      }
    });
  }

  /// The row that a lane searches and folds; of one with no row the last.
  [[nodiscard]] __device__ int row_of_lane() const {
    const int r = lane_ >> of_.row_shift;
    return r < rows_ ? r : rows_ - 1;
  }
  /// An element as a number that is larger the earlier it ranks: its key, the last bits of which
  /// give way to its position in the row. Of 16-bit elements all numbers are in the order of the
  /// elements; of f32 those that are close to each other are in the order of positions.
  [[nodiscard]] __device__ std::uint32_t number(std::uint32_t key, std::uint32_t reversed) const {
    return (key & ~of_.positions) | reversed;
  }
  [[nodiscard]] __device__ int position(std::uint32_t number) const {
    return static_cast<int>(~number & of_.positions);
  }
  [[nodiscard]] __device__ bool close(std::uint32_t a, std::uint32_t b) const {
    return ((a ^ b) & ~of_.positions) == 0;
  }
  [[nodiscard]] __device__ T value(int r, std::uint32_t number) const {
    return element(r, position(number));
  }

  /// A key whose last bits may give way to a position.
  [[nodiscard]] __device__ static std::uint32_t key_of(In x) {
    if constexpr (exact) {
      return order_keys_of_pair<In>(x.bits) << 16;
    } else {
      return order_key(x);
    }
  }
  /// The numbers of a vector's elements, whose first position is `reversed`.
  __device__ void make_numbers(std::uint32_t (&some)[each], int to, const block16& v,
                               std::uint32_t reversed) const {
    if constexpr (exact) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const std::uint32_t keys = order_keys_of_pair<In>(v.words[w]);
        some[to + 2 * w] = keys * 0x10000U + (reversed - static_cast<std::uint32_t>(2 * w));
        some[to + 2 * w + 1] =
            (keys & 0xffff0000U) | (reversed - static_cast<std::uint32_t>(2 * w + 1));
      }
    } else {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        some[to + i] =
            number(order_key(element_of<In>(v, i)), reversed - static_cast<std::uint32_t>(i));
      }
    }
  }

  /// Vector v of a row as it is folded: mapped, but for what is outside.
  [[nodiscard]] __device__ block16 mapped_vector(int r, int v) const {
    block16 loaded = copies_[row_begin(r) + v];
    if (call_.map != element_map::none) {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const T x = mapped(element_of<In>(loaded, i), call_.map);
        if constexpr (sizeof(In) == 2) {
          set_element(loaded, i, In(x));
        } else {
          set_element(loaded, i, x);
        }
      }
      const vector_range<In> range = range_of(r);
      mask_head(loaded, range, v);
      mask_tail(loaded, range, v);
    }
    return loaded;
  }
  [[nodiscard]] __device__ static int reversed_bits(int i, int bits) {
    static_assert(most_folds_each == 8);
    return ((i & 1) << 2 | (i & 2) | i >> 2) >> (3 - bits);
  }

  /// By the warp, use(row) for the rows of the lanes that ask for it.
  template <class Use>
  __device__ void for_each_row(bool asks, const Use& use) const {
    for (lane_mask rows = ballot(asks); rows != 0; rows &= rows - 1) {
      use((count(rows ^ (rows - 1)) - 1) >> of_.row_shift);
      synchronize_warp();
    }
  }

  /// For a row with -infinity in its list, where positions outside the row may be, too.
  __device__ void settle_lowest(int r) const {
    const std::uint32_t key = key_of(stored_infinity());
    std::uint32_t* const list = found_ + r * list_pitch;
    const int head = head_of(r);
    int found = 0;
#pragma unroll 1
    for (int i = 0; i < k_; i += lanes) {
      found += count(ballot(i + lane_ < k_ && list[i + lane_] > (key | of_.positions)));
    }
    synchronize_warp();
#pragma unroll 1
    for (int c = 0; c < cols_ && found < k_; c += lanes) {
      const bool is = c + lane_ < cols_ && element(r, head + c + lane_) == -infinity<T>;
      const lane_mask all = ballot(is);
      const int to = found + count(all & lanes_below());
      if (is && to < k_) {
        list[to] = number(key, ~static_cast<std::uint32_t>(head + c + lane_) & of_.positions);
      }
      found += count(all);
    }
  }

  /// Whether the elements that are close to `last` have several keys; of each lane's row.
  [[nodiscard]] __device__ bool are_different(int own, int size, int part,
                                              std::uint32_t last) const {
    std::uint32_t least = ~std::uint32_t{0};
    std::uint32_t largest = 0;
#pragma unroll 1
    for (int v = part; v < size; v += 1 << of_.row_shift) {
      const block16 loaded = copies_[own + v];
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const std::uint32_t key = order_key(element_of<In>(loaded, i));
        if (close(key, last)) {
          least = key < least ? key : least;
          largest = key > largest ? key : largest;
        }
      }
    }
#pragma unroll 1
    for (int mask = 1; mask < 1 << of_.row_shift; mask *= 2) {
      const std::uint32_t l = shuffle_xor(least, mask);
      const std::uint32_t m = shuffle_xor(largest, mask);
      least = l < least ? l : least;
      largest = m > largest ? m : largest;
    }
    return least < largest;
  }

  /// For a row some of whose elements that are close to the list's last were left out: the list
  /// gets the first of all such.
  __device__ void settle_tied(int r) const {
    std::uint32_t* const list = found_ + r * list_pitch;
    const std::uint32_t last = list[k_ - 1];
    const int head = head_of(r);
    int first = k_ - 1;
    while (first > 0 && close(list[first - 1], last)) {
      --first;
    }
    synchronize_warp();
    packed_entry before = ~packed_entry{0};
#pragma unroll 1
    for (int i = first; i < k_; ++i) {
      packed_entry next = 0;
#pragma unroll 1
      for (int p = head + lane_; p < head + cols_; p += lanes) {
        const std::uint32_t key = order_key(element(r, p));
        const packed_entry e = entry_of<packed_entry>::make(key, p);
        next = close(key, last) && e < before && e > next ? e : next;
      }
      before = max_over_warp<lanes>(next);
      if (lane_ == 0) {
        list[i] = number(last, ~static_cast<std::uint32_t>(entry_of<packed_entry>::column(before)) &
                                   of_.positions);
      }
    }
  }

  /// Puts those of a row's list that are close to each other in order.
  __device__ void put_in_order(int r) const {
    std::uint32_t* const list = found_ + r * list_pitch;
#pragma unroll 1
    for (int i = 1; i < k_; ++i) {
      const std::uint32_t own = list[i];
      if (!close(list[i - 1], own)) {
        continue;
      }
      const std::uint32_t key = order_key(value(r, own));
      int to = i;
      while (to > 0 && close(list[to - 1], own) && order_key(value(r, list[to - 1])) < key) {
        list[to] = list[to - 1];
        --to;
      }
      list[to] = own;
    }
  }

  using base::call_;
  using base::cols_;
  using base::copies_;
  using base::element;
  using base::first_;
  using base::head_of;
  using base::lane_;
  using base::none_;
  using base::of_;
  using base::range_of;
  using base::row_begin;
  using base::rows_;
  using base::size_of;
  using base::stored_infinity;

  int k_;
  share* shares_;
  std::uint32_t* found_;
};

template <int lanes, int most, class In>
__global__ void __launch_bounds__(128)
    topk_rows_by_packs(const topk_arguments<In> call, const pack_layout of) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using rows_type = rows_by_packs<lanes, most, In>;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int warps = static_cast<int>(blockDim.x) / lanes;
  const std::int64_t first = (std::int64_t{blockIdx.x} * warps + warp) * of.rows;
  if (first >= call.rows) {
    return;
  }
  const rows_type rows(call, of, static_cast<int>(threadIdx.x) % lanes, first,
                       dynamic_shared_memory() + warp * of.bytes);
  rows.copy();
  rows.search();
  if (call.folds) {
    rows.fold();
  }
  rows.write();
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Short rows in a warp's shared memory.
#pragma once

#include <gpu/plan/plan.hpp>
#include <gpu/row/vector_range.hpp>
#include <gpu/topk/results.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// How a warp's rows lie in its shared memory, and who has which part of one.
struct pack_layout {
  int rows;                 ///< of a warp
  int row_shift;            ///< 1 << row_shift lanes search a row
  int copy_shift;           ///< so many copy it
  int list_shift;           ///< so many write its results
  int vectors;              ///< of a row, at most
  int pitch;                ///< from one row's first vector to the next one's
  int bytes;                ///< of a warp
  bool whole;               ///< all rows are whole vectors
  std::uint32_t positions;  ///< bits that tell the elements of a row apart
  int fold_shift;           ///< lanes that fold a row by row_plan, no fewer than search it
};

/// `k`: of the call.
inline pack_layout layout_of_packs(const row_shape& shape, std::int64_t k, const topk_plan& plan,
                                   int lanes) {
  const int width = vector_bytes / shape.element_bytes;
  const auto shift_to = [](std::int64_t n) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n > 0 ? n - 1 : 0)));
  };
  pack_layout of;
  of.rows = plan.warp_rows;
  of.row_shift = shift_to(plan.searching);
  of.vectors = static_cast<int>(vectors_of(shape));
  of.whole = shape.alignment >= vector_bytes && shape.cols % width == 0;
  of.pitch = pack_pitch(of.vectors, plan.searching);
  of.bytes = bytes_of_packs(of.rows, of.vectors, plan.searching, plan.pack);
  // Of a row of 33 vectors 8 lanes copy 40, 32 lanes 64.
  const auto rounds = [&](int shift) {
    return (((of.vectors - 1) >> shift) + 1) * ((of.rows - 1) / (lanes >> shift) + 1);
  };
  of.copy_shift = std::min(shift_to(of.vectors), shift_to(lanes));
  for (int shift = of.copy_shift - 1; shift >= 3; --shift) {
    of.copy_shift = rounds(shift) < rounds(of.copy_shift) ? shift : of.copy_shift;
  }
  of.list_shift = std::min(shift_to(k), shift_to(lanes));
  of.positions = (std::uint32_t{1} << shift_to(shape.cols + (of.whole ? 0 : width - 1))) - 1;
  of.fold_shift = shift_to(plan.row.lanes);
  return of;
}

/// Some rows of a warp: their vectors, in which what is outside a row is -infinity, then one such
/// vector.
template <int lanes, class In>
class warp_rows {
 public:
  using T = arithmetic_t<In>;
  static constexpr int width = vector_width<In>;

  __device__ warp_rows(const topk_arguments<In>& call, const pack_layout& of, int lane,
                       std::int64_t first, unsigned char* memory)
      : call_(call),
        of_(of),
        lane_(lane),
        first_(first),
        x_(call.x + first * call.x_stride),
        rows_(call.rows - first < of.rows ? static_cast<int>(call.rows - first) : of.rows),
        cols_(static_cast<int>(call.cols)),
        copies_(reinterpret_cast<block16*>(memory)),
        none_(of.rows * of.pitch) {}

  __device__ void copy() const {
    const int first = lane_ & ((1 << of_.copy_shift) - 1);
    const In* const last = x_ + (rows_ - 1) * call_.x_stride;
    const bool inside =
        aligned(x_) >= call_.memory.begin && aligned(last + cols_ - 1) + width <= call_.memory.end;
    const int r0 = lane_ >> of_.copy_shift;
    const int step = lanes >> of_.copy_shift;
#pragma unroll 1
    for (int v = first; v < of_.vectors; v += 1 << of_.copy_shift) {
      const In* row = x_ + r0 * call_.x_stride;
      block16* to = copies_ + r0 * of_.pitch + v;
      if (of_.whole) {
        row += v * width;
#pragma unroll 4
        for (int r = r0; r < rows_; r += step) {
          copy_ahead(to, reinterpret_cast<const block16*>(row));
          row += step * call_.x_stride;
          to += step * of_.pitch;
        }
      } else if (inside) {
#pragma unroll 4
        for (int r = r0; r < rows_; r += step) {
          const In* const from = aligned(row) + v * width;
          if (from < row + cols_) {
            copy_ahead(to, reinterpret_cast<const block16*>(from));
          }
          row += step * call_.x_stride;
          to += step * of_.pitch;
        }
      } else {
#pragma unroll 1
        for (int r = r0; r < rows_; r += step) {
          const vector_range<In> range(row, cols_, call_.memory);
          if (v < range.size()) {
            *to = load_vector(range, v);
          }
          row += step * call_.x_stride;
          to += step * of_.pitch;
        }
      }
    }
    if (lane_ == 0) {
      copies_[none_] = outside_elements<In, outside::minus_infinity>();
    }
    wait_for_copies();
    synchronize_warp();
    if (!of_.whole && cols_ > 0) {
#pragma unroll 1
      for (int i = lane_; i < rows_; i += lanes) {
        const vector_range<In> range = range_of(i);
        block16* const own = copies_ + row_begin(i);
        mask_head(own[0], range, 0);
        mask_tail(own[range.size() - 1], range, range.size() - 1);
      }
      synchronize_warp();
    }
  }

 protected:
  [[nodiscard]] __device__ static const In* aligned(const In* p) {
    return reinterpret_cast<const In*>(reinterpret_cast<std::uintptr_t>(p) &
                                       ~std::uintptr_t{vector_bytes - 1});
  }
  [[nodiscard]] __device__ static In stored_infinity() {
    return stored_element<In>(outside_elements<In, outside::minus_infinity>(), 0);
  }
  [[nodiscard]] __device__ int row_begin(int r) const { return r * of_.pitch; }
  [[nodiscard]] __device__ vector_range<In> range_of(int r) const {
    return vector_range<In>(x_ + r * call_.x_stride, cols_, call_.memory);
  }
  [[nodiscard]] __device__ int head_of(int r) const { return range_of(r).head; }
  [[nodiscard]] __device__ int size_of(int r) const {
    return of_.whole ? of_.vectors : range_of(r).size();
  }

  /// The element at a position of a row.
  [[nodiscard]] __device__ T element(int r, int position) const {
    return widen(reinterpret_cast<const In*>(copies_ + row_begin(r))[position]);
  }

  const topk_arguments<In>& call_;
  const pack_layout& of_;
  int lane_;
  std::int64_t first_;  ///< row
  const In* x_;
  int rows_;
  int cols_;
  block16* copies_;
  int none_;  ///< the vector that is outside
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

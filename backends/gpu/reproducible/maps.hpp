// SPDX-License-Identifier: Apache-2.0
/// \file
/// Results of elements, given their rows' totals: the arithmetic of core/reproducible.hpp's
/// row_total, in fewer instructions for rows of f32 arithmetic that are near 0.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/reproducible/packets.hpp>
#include <gpu/row/row_reader.hpp>
#include <gpu/row/tile.hpp>

#include <core/reproducible.hpp>
#include <core/typed_memory.hpp>

#include <softfold/matrix_view.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The function of an ordinary row's elements in f32 arithmetic, where the row is near 0 and its
/// scale is not 0. `scaled`: by another than 1.
template <bool log, bool scaled>
class near_function {
  using total = core::reproducible::row_total<float>;
  using format = core::reproducible::format<float>;

 public:
  __device__ explicit near_function(const total& of)
      : total_(of),
        magic_(format::magic + (total::spare_power - of.n)),
        lowest_((of.n - 170) * format::ln2) {}

  __device__ float operator()(float x) const {
    const float scale = total_.exponents.scale;
    const float z = scaled ? core::reproducible::product(x, scale) : x;
    const float lost = scaled && z > (log ? -infinity<float> : lowest_) ? fmaf(x, scale, -z) : 0.0F;
    if constexpr (log) {
      return (z - total_.log_high) + (lost - total_.log_low);
    }
    const float w = shifted_term<scaled>(fmaxf(z, lowest_), lost, magic_);
    return fmaf(w, total_.high, core::reproducible::product(w, total_.low));
  }

 private:
  const total& total_;
  float magic_;
  float lowest_;  ///< below, results are 0
};

/// Writes value(element) of all elements of V vectors of a range, number first + j * step, which
/// are read again, for this is for functions that take much code an element; `to` corresponds to
/// the range's base.
template <int V, class In, class Out, class Value>
__device__ inline void map_plainly(const vector_range<In>& range, int first, int step, Out* to,
                                   const Value& value) {
  constexpr int each = vector_width<Out>;
#pragma unroll 1
  for (int v = first; v < range.size() && v < first + V * step; v += step) {
    const block16 vector = load_vector(range, v);
#pragma unroll
    for (int part = 0; part < vector_width<In> / each; ++part) {
      const int at = v * vector_width<In> + part * each;
      store_singly(to + at, packed<Out>([&](int i) {
                     return value(element_of<In>(vector, part * each + i));
                   }),
                   range.head - at, range.end - at);
    }
  }
}

/// What elements of a row become that is not ordinary.
template <bool log, class Out, class A>
__device__ inline Out result_of_row(const core::reproducible::row_total<A>& total,
                                    bool empty_is_zero) {
  return total.kind == core::reproducible::row_kind::empty && empty_is_zero
             ? (log ? minus_infinity<Out>() : Out(A{0}))
             : canonical_nan<Out>();
}

/// Where results go.
template <class Out>
struct result_rows {
  Out* y;
  std::int64_t stride;
  bool empty_is_zero;
};

/// The results of elements that have been read, vectors `step` apart of `range`; `at` corresponds
/// to its base.
template <bool log, class In, int V, class Out>
__device__ inline void map_tile(const tile<In, V>& own, const vector_range<In>& range, int step,
                                Out* at, bool empty_is_zero,
                                const core::reproducible::row_total<arithmetic_t<In>>& total) {
  if (total.kind != core::reproducible::row_kind::ordinary) {
    const block16 same = repeated(result_of_row<log, Out>(total, empty_is_zero));
    own.template store<true, true>(at, [&](int, int) { return same; });
    return;
  }
  const auto plain = [&](arithmetic_t<In> x) {
    return log ? total.log_softmax(x) : total.softmax(x);
  };
  if constexpr (std::is_same_v<In, double>) {
    own.template store<true, true>(
        at, [&](int j, int part) { return own.template values<false, Out>(j, part, plain); });
  } else {
    const float scale = total.exponents.scale;
    if (!total.exponents.is_far && scale != 0) {
      const near_function<log, false> of(total);
      const near_function<log, true> of_scaled(total);
      own.template store<true, true>(at, [&](int j, int part) {
        return scale != 1 ? own.template values<false, Out>(j, part, of_scaled)
                          : own.template values<false, Out>(j, part, of);
      });
    } else {
      map_plainly<V>(range, own.number(0), step, at, plain);
    }
  }
}

/// Vectors of a thread of map_chunks_by_total.
constexpr int map_vectors = 4;

/// Chunks of long rows.
template <class In, class Out, bool log>
__global__ void __launch_bounds__(reader_threads, least_resident(5))
    map_chunks_by_total(const row_source<In> source, const result_rows<Out> to, int chunks,
                        const core::reproducible::row_total<arithmetic_t<In>>* totals) {
  const auto row = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(chunks));
  const auto chunk = static_cast<std::int64_t>(blockIdx.x % static_cast<unsigned>(chunks));
  constexpr int vectors = reader_threads * map_vectors;
  const auto range = source.range(row, chunk * vectors, vectors);
  tile<In, map_vectors> own(range, static_cast<int>(threadIdx.x), reader_threads);
  own.load_long();
  wait_for_launch_before();
  map_tile<log>(own, range, reader_threads, to.y + row * to.stride + (range.base - source.row(row)),
                to.empty_is_zero, totals[row]);
}

/// Short rows, a vector for each thread. Not told how many blocks are enough, ptxas would have some
/// registers in memory.
template <class In, class Out, bool log>
__global__ void __launch_bounds__(reader_threads, least_resident(5))
    map_rows_by_total(const row_source<In> source, const result_rows<Out> to,
                      unsigned vectors_of_row,
                      const core::reproducible::row_total<arithmetic_t<In>>* totals) {
  const std::uint64_t number = std::uint64_t{blockIdx.x} * reader_threads + threadIdx.x;
  const auto row = static_cast<std::int64_t>(
      number >> 32 == 0 ? static_cast<unsigned>(number) / vectors_of_row : number / vectors_of_row);
  const bool exists = row < source.rows;
  const auto range = source.range(row, exists, vector_bytes);
  tile<In, 1> own(range, static_cast<int>(number - row * vectors_of_row), 1);
  own.load();
  wait_for_launch_before();
  if (exists) {
    map_tile<log>(own, range, 1, to.y + row * to.stride - range.head, to.empty_is_zero,
                  totals[row]);
  }
}

/// softmax of the elements that lists name; of those that are not there 0. A thread for each.
template <class In>
__global__ void __launch_bounds__(reader_threads)
    map_list_by_total(const row_source<In> source, const matrix_ref indices,
                      const matrix_ref probabilities, bool empty_is_zero,
                      const core::reproducible::row_total<arithmetic_t<In>>* totals) {
  using A = arithmetic_t<In>;
  wait_for_launch_before();
  const std::int64_t number = std::int64_t{blockIdx.x} * reader_threads + threadIdx.x;
  const std::int64_t row = number / indices.cols;
  if (row >= source.rows) {
    return;
  }
  const std::int64_t i = number % indices.cols;
  const core::reproducible::row_total<A> total = totals[row];
  const std::int64_t column =
      core::integer_at(indices.data, indices.type, row * indices.stride + i);
  const A result = total.kind != core::reproducible::row_kind::ordinary
                       ? result_of_row<false, A>(total, empty_is_zero)
                   : column >= 0 ? total.softmax(widen(source.row(row)[column]))
                                 : A{0};
  core::write_real(probabilities.data, probabilities.type, row * probabilities.stride + i, result);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// SPDX-License-Identifier: Apache-2.0
#include "partial_sort.hpp"

#include "contenders.hpp"
#include "team.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <type_traits>
#include <vector>

namespace softfold::bench {
namespace {

template <class T>
void sort_row(const T* x, std::vector<std::int32_t>& order, T* values, std::int64_t* indices,
              std::int64_t k) {
  // double holds the elements of every type exactly; comparing in float is quicker where it does.
  using key = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [x](std::int32_t a, std::int32_t b) {
                      const auto left = static_cast<key>(x[a]);
                      const auto right = static_cast<key>(x[b]);
                      return left > right || (left == right && a < b);
                    });
  for (std::int64_t i = 0; i < k; ++i) {
    indices[i] = order[static_cast<std::size_t>(i)];
    values[i] = x[indices[i]];
  }
}

template <class T>
work rows_of(const_matrix_ref x, matrix_ref values, matrix_ref indices, int thread_count) {
  return [=, threads = team(thread_count)] {
    threads.split(x.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t k = values.cols;
      std::vector<std::int32_t> order(static_cast<std::size_t>(x.cols));
      for (std::int64_t r = begin; r < end; ++r) {
        sort_row(static_cast<const T*>(x.data) + r * x.stride, order,
                 static_cast<T*>(values.data) + r * k,
                 static_cast<std::int64_t*>(indices.data) + r * k, k);
      }
    });
  };
}

work prepare(const workload& w) {
  if (w.spec.op != operation::topk) {
    return {};
  }
  return partial_sort_rows(w.x, w.values, w.indices, w.spec.threads);
}

}  // namespace

work partial_sort_rows(const_matrix_ref x, matrix_ref values, matrix_ref indices, int threads) {
  switch (x.type) {
    case dtype::f32:
      return rows_of<float>(x, values, indices, threads);
    case dtype::f64:
      return rows_of<double>(x, values, indices, threads);
    case dtype::f16:
      return rows_of<half>(x, values, indices, threads);
    case dtype::bf16:
      return rows_of<bfloat16>(x, values, indices, threads);
    default:
      return {};
  }
}

contender partial_sort_contender() { return {.name = "partial_sort", .prepare = prepare}; }

}  // namespace softfold::bench

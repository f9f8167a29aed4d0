// SPDX-License-Identifier: Apache-2.0
// The plain loops that the library grew from (core/seeds.hpp), rows split over the threads.
#include "contenders.hpp"
#include "team.hpp"

#include <core/seeds.hpp>

#include <cmath>
#include <cstddef>
#include <span>

namespace softfold::bench {
namespace {

namespace seeds = core::seeds;

// Elements sink through the sorted list one place at a time; a long one would take minutes.
constexpr std::int64_t longest_list = 64;

// body(x, r) for each row.
template <class T, class Body>
work each_row(const workload& w, Body body) {
  return [x = w.x, body, threads = team(w.spec.threads)] {
    threads.split(x.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        body(std::span(static_cast<const T*>(x.data) + r * x.stride,
                       static_cast<std::size_t>(x.cols)),
             r);
      }
    });
  };
}

template <class T>
std::span<T> row_of(matrix_ref m, std::int64_t r) {
  return {static_cast<T*>(m.data) + r * m.stride, static_cast<std::size_t>(m.cols)};
}

template <class T>
work safe(const workload& w) {
  if (w.spec.op != operation::softmax) {
    return {};
  }
  return each_row<T>(w, [y = w.y](std::span<const T> x, std::int64_t r) {
    seeds::softmax_safe(x, row_of<T>(y, r));
  });
}

template <class T>
work online(const workload& w) {
  switch (w.spec.op) {
    case operation::softmax:
      return each_row<T>(w, [y = w.y](std::span<const T> x, std::int64_t r) {
        seeds::softmax_online(x, row_of<T>(y, r));
      });
    case operation::logsumexp:
      return each_row<T>(w, [lse = w.lse](std::span<const T> x, std::int64_t r) {
        seeds::online_normalizer<T> normalizer;
        for (const T value : x) {
          normalizer.add(value);
        }
        static_cast<T*>(lse.data)[r] = normalizer.max + std::log(normalizer.total);
      });
    case operation::softmax_topk:
      if (w.spec.k > longest_list) {
        return {};
      }
      return each_row<T>(w, [p = w.values, i = w.indices](std::span<const T> x, std::int64_t r) {
        seeds::softmax_topk_online(x, row_of<T>(p, r), row_of<std::int64_t>(i, r));
      });
    default:
      return {};
  }
}

work prepare_safe(const workload& w) {
  return w.spec.type == dtype::f32   ? safe<float>(w)
         : w.spec.type == dtype::f64 ? safe<double>(w)
                                     : work{};
}

work prepare_online(const workload& w) {
  return w.spec.type == dtype::f32   ? online<float>(w)
         : w.spec.type == dtype::f64 ? online<double>(w)
                                     : work{};
}

}  // namespace

contender seed_safe_contender() { return {.name = "seed_safe", .prepare = prepare_safe}; }
contender seed_online_contender() { return {.name = "seed_online", .prepare = prepare_online}; }

}  // namespace softfold::bench

// SPDX-License-Identifier: Apache-2.0
/// \file
/// combine and normalize of attention's states, a row at a time.
#include <backends/host/parallel.hpp>
#include <backends/host/run.hpp>

#include <core/attention.hpp>
#include <core/real_types.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// body(row, its place in the first tensor, and in the second), for the rows of two tensors of one
/// shape, shared by the threads.
template <class Body>
void over_tensor_rows(executor& on, const const_tensor_ref& a, const const_tensor_ref& b,
                      const Body& body) {
  const std::int64_t rows = a.batches * a.heads * a.tokens;
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      body(r, core::offset_of(a, r), core::offset_of(b, r));
    }
  };
  constexpr std::int64_t task_elements = 65536;
  const std::int64_t each =
      std::max<std::int64_t>(1, task_elements / std::max<std::int64_t>(1, a.dim));
  const std::int64_t tasks = (rows + each - 1) / each;
  if (on.threads == 1 || tasks <= 1) {
    some(0, rows);
    return;
  }
  dispenser parts(tasks, on.threads);
  on_all_threads(on, [&](int slot) {
    parts.take_all(slot, [&](std::int64_t i) { some(i * each, std::min(rows, (i + 1) * each)); });
  });
}

template <class A>
void run_combine(executor& on, const core::combine_attention_problem& p) {
  const auto* const more = static_cast<const max_sum<A>*>(p.more.data);
  auto* const states = static_cast<max_sum<A>*>(p.states.data);
  over_tensor_rows(on, p.more_weighted, p.weighted,
                   [&](std::int64_t r, std::int64_t from, std::int64_t to) {
                     const auto both = core::attention_combination<A>::of(states[r], more[r]);
                     const A* const b = static_cast<const A*>(p.more_weighted.data) + from;
                     A* const a = static_cast<A*>(p.weighted.data) + to;
                     for (std::int64_t i = 0; i < p.weighted.dim; ++i) {
                       a[i] = both.sum(a[i], b[i]);
                     }
                     states[r] = both.whole;
                   });
}

template <class A>
void run_normalize(executor& on, const core::normalize_attention_problem& p) {
  const auto* const states = static_cast<const max_sum<A>*>(p.states.data);
  core::with_real(p.out.type, [&]<class Out>(Out) {
    if constexpr (std::is_same_v<core::arithmetic_t<Out>, A>) {
      over_tensor_rows(on, p.weighted, p.out,
                       [&](std::int64_t r, std::int64_t from, std::int64_t to) {
                         const auto result = core::attention_result<A>::of(states[r], p.policy);
                         const A* const o = static_cast<const A*>(p.weighted.data) + from;
                         Out* const out = static_cast<Out*>(p.out.data) + to;
                         for (std::int64_t i = 0; i < p.out.dim; ++i) {
                           out[i] = static_cast<Out>(result.of_weighted(o[i]));
                         }
                       });
    }
  });
}

}  // namespace

void run(executor& on, const core::combine_attention_problem& p) {
  p.more.type == dtype::f64 ? run_combine<double>(on, p) : run_combine<float>(on, p);
}

void run(executor& on, const core::normalize_attention_problem& p) {
  p.states.type == dtype::f64 ? run_normalize<double>(on, p) : run_normalize<float>(on, p);
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

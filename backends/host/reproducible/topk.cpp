// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible softmax_topk: rows' totals, the selection as it always is, and its elements'
/// probabilities.
#include <backends/host/parallel.hpp>
#include <backends/host/reproducible/batches.hpp>
#include <backends/host/reproducible/row.hpp>

#include <core/typed_memory.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class In>
using total_of = core::reproducible::row_total<core::arithmetic_t<In>>;

/// Folds rows to totals, of short rows without their logarithms.
template <class In, class Finish>
struct totals_job : reproducible_job<In, Finish> {
  using totals = reproducible_job<In, Finish>;
  total_of<In>* to;
  bool with_logarithms;

  [[nodiscard]] shape description() const {
    shape s = totals::description();
    s.short_columns = short_reproducible_columns;
    return s;
  }
  [[nodiscard]] auto kernel() const { return this->from.kernels.input.reproducible_short_totals; }
  [[nodiscard]] bool takes_short_rows() const {
    return !with_logarithms && reproducible_scale(this->from.scale) && kernel() != nullptr;
  }
  void short_rows(const plan&, std::int64_t begin, std::int64_t end) const {
    run_short_rows(kernel(), this->from, {to}, 1, sizeof *to, begin, end,
                   [&](std::int64_t r) { this->one_row(r); });
  }
};

template <class In>
void find_totals(executor& on, const core::topk_problem& p, total_of<In>* to) {
  if (p.x.cols == 0) {
    std::fill(to, to + p.x.rows, plain_total<In>(nullptr, 0, p.scale));
    return;
  }
  const auto finish = [&](std::int64_t r, const auto& fold) { to[r] = fold.total(); };
  run_job(on, totals_job<In, decltype(finish)>{
                  {{on.kernels, p.x, p.scale, p.x.type}, finish}, to, p.lse.data != nullptr});
}

/// Probabilities of the elements of row r that were selected.
template <class In>
void write_probabilities(const typed_kernels& kernels, const core::topk_problem& p, std::int64_t r,
                         const total_of<In>& total) {
  const In* const x = static_cast<const In*>(p.x.data) + r * p.x.stride;
  const reproducible_row known = numbers_of(total);
  constexpr std::int64_t at_once = 64;
  In elements[at_once];
  for (std::int64_t first = 0; first < p.probabilities.cols; first += at_once) {
    const std::int64_t count = std::min(p.probabilities.cols - first, at_once);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t column =
          core::integer_at(p.indices.data, p.indices.type, r * p.indices.stride + first + i);
      elements[i] = x[column];
    }
    void* const to = kernels.result_at(p.probabilities.data, r * p.probabilities.stride + first);
    if (suits_kernels(total)) {
      kernels.output.reproducible_softmax(elements, count, &known, {to, false});
      continue;
    }
    core::with_output<In>(p.probabilities.type, [&](auto out) {
      plain_map(total, elements, count, false, p.policy, static_cast<decltype(out)*>(to));
    });
  }
}

template <class In>
void run_with_totals(executor& on, const core::topk_problem& p) {
  const typed_kernels kernels = kernels_for(on.kernels, p.x.type, p.probabilities.type);
  const auto most = static_cast<std::size_t>(rows_of_batch(on, p));
  auto* const totals =
      reinterpret_cast<total_of<In>*>(on.totals.at_least(most * sizeof(total_of<In>)));
  std::uninitialized_default_construct_n(totals, most);
  select_in_batches(
      on, p, [&](const core::topk_problem& rows) { find_totals<In>(on, rows, totals); },
      [&](std::int64_t first, const core::topk_problem& rows) {
        over_each(on, rows.x.rows, 4 * (p.k() + 1), [&](std::int64_t r) {
          if (p.lse.data != nullptr) {
            core::write_real(p.lse.data, p.lse.type, first + r, totals[r].lse);
          }
          if (p.probabilities.data != nullptr) {
            write_probabilities<In>(kernels, p, first + r, totals[r]);
          }
        });
      });
}

}  // namespace

void run_reproducible_topk(executor& on, const core::topk_problem& p) {
  if (p.empty()) {
    return;
  }
  core::with_real(p.x.type, [&](auto in) { run_with_totals<decltype(in)>(on, p); });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

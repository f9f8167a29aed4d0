// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible softmax, log_softmax and logsumexp as jobs.
#include <backends/host/reproducible/row.hpp>
#include <backends/host/run.hpp>

#include <core/typed_memory.hpp>

#include <optional>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class In>
struct softmax_job {
  source from;
  matrix_ref y;
  empty_row policy;
  bool log;

  static constexpr std::size_t segment_bytes = sizeof(reproducible_part);
  /// Terms.
  [[nodiscard]] std::size_t kept_bytes(const plan& plan) const {
    const bool keeps =
        plan.second == second_pass::scale_scratch || plan.second == second_pass::scale_behind;
    return keeps ? static_cast<std::size_t>(from.x.cols) * size_of(from.kernels.computed) : 0;
  }
  [[nodiscard]] shape description() const {
    shape s = from.shape_to(static_cast<std::int64_t>(size_of(y.type)));
    s.in_place = from.x.data == y.data;
    s.keeps = !log;
    if (from.x.type == dtype::f32 && y.type == dtype::f32) {
      s.short_columns = short_reproducible_columns;
    } else {
      s.short_vectors =
          log ? short_reproducible_log_softmax_vectors : short_reproducible_softmax_vectors;
    }
    return s;
  }

  [[nodiscard]] auto short_kernel() const {
    const output_kernels& kernels = from.kernels.output;
    return log ? kernels.reproducible_short_log_softmax : kernels.reproducible_short_softmax;
  }
  [[nodiscard]] bool takes_short_rows() const {
    return reproducible_scale(from.scale) && short_kernel() != nullptr;
  }
  void short_rows(const plan& plan, std::int64_t begin, std::int64_t end) const;

  class row;
};

template <class In>
class softmax_job<In>::row {
  using A = core::arithmetic_t<In>;

 public:
  row(const softmax_job& job, const plan& plan, std::int64_t r, const row_memory& memory)
      : job_(job),
        y_(job.from.kernels.result_at(job.y.data, r * job.y.stride)),
        stream_(plan.stream),
        fold_(job.from, r, memory,
              {plan.second == second_pass::recompute      ? nullptr
               : plan.second == second_pass::scale_output ? y_
                                                          : memory.kept,
               plan.ahead_to_l2}) {}

  void fold(std::int64_t segment) { fold_.fold(segment); }
  void between() {
    total_ = fold_.total();
    known_ = numbers_of(total_);
  }
  void write(std::int64_t segment) const {
    const typed_kernels& kernels = job_.from.kernels;
    const auto [begin, count] = columns_of(segment, job_.from.x.cols);
    const In* const x = fold_.x() + begin;
    const destination to{kernels.result_at(y_, begin), stream_};
    if (!suits_kernels(total_)) {
      core::with_output<In>(job_.y.type, [&, count = count](auto out) {
        plain_map(total_, x, count, job_.log, job_.policy, static_cast<decltype(out)*>(to.data));
      });
      return;
    }
    reproducible_scaling scaling;
    if (job_.log) {
      kernels.output.reproducible_log_softmax(x, count, &known_, to);
    } else if (const A* const terms = fold_.kept(segment, total_, scaling)) {
      kernels.output.reproducible_scaled(terms, count, &scaling, to);
    } else {
      kernels.output.reproducible_softmax(x, count, &known_, to);
    }
  }

  /// Kept terms that all become probabilities in one way.
  struct left_behind {
    const typed_kernels* kernels;
    std::int64_t cols;
    const A* terms;
    reproducible_scaling scaling;
    void* y;

    void store() const { kernels->output.reproducible_scaled(terms, cols, &scaling, {y, true}); }
  };

  [[nodiscard]] std::optional<left_behind> leave() const {
    reproducible_scaling first;
    const A* const terms = fold_.kept(0, total_, first);
    if (terms == nullptr || first.power != 1) {
      return {};
    }
    for (std::int64_t i = 1; i < segments_of(job_.from.x.cols); ++i) {
      reproducible_scaling other;
      if (fold_.kept(i, total_, other) == nullptr || other.power != 1 || other.high != first.high) {
        return {};
      }
    }
    return left_behind{&job_.from.kernels, job_.from.x.cols, terms, first, y_};
  }

  void fold_behind(std::int64_t segment, const left_behind& before) {
    const std::int64_t column = columns_of(segment, before.cols).begin;
    fold_.fold_and_stream(segment, before.terms + column, before.scaling,
                          before.kernels->result_at(before.y, column));
  }

 private:
  const softmax_job& job_;
  void* y_;
  bool stream_;
  reproducible_fold_of_row<In> fold_;
  core::reproducible::row_total<A> total_;
  reproducible_row known_;
};

template <class In>
void softmax_job<In>::short_rows(const plan& plan, std::int64_t begin, std::int64_t end) const {
  host::plan by_itself = plan;
  by_itself.second = second_pass::recompute;
  const destination to{y.data, plan.stream};
  run_short_rows(short_kernel(), from, to, y.stride, size_of(y.type), begin, end,
                 [&](std::int64_t r) {
                   reproducible_part part;
                   row one(*this, by_itself, r, {&part, nullptr});
                   one.fold(0);
                   one.between();
                   one.write(0);
                 });
}

template <class In, class Finish>
struct logsumexp_job : reproducible_job<In, Finish> {
  using totals = reproducible_job<In, Finish>;
  matrix_ref lse;  ///< one column

  [[nodiscard]] shape description() const {
    shape s = totals::description();
    s.short_columns = short_reproducible_columns;
    return s;
  }
  [[nodiscard]] bool takes_short_rows() const {
    return reproducible_scale(this->from.scale) && lse.type == this->from.kernels.computed &&
           this->from.kernels.output.reproducible_short_logsumexp != nullptr;
  }
  void short_rows(const plan&, std::int64_t begin, std::int64_t end) const {
    run_short_rows(this->from.kernels.output.reproducible_short_logsumexp, this->from, {lse.data},
                   lse.stride, size_of(lse.type), begin, end,
                   [&](std::int64_t r) { this->one_row(r); });
  }
};

/// Of a list of some of the row's elements.
template <class In>
void write_list(const core::row_problem& p, std::int64_t r,
                const core::reproducible::row_total<core::arithmetic_t<In>>& total) {
  core::with_output<In>(p.y.type, [&](auto out) {
    plain_map(total, static_cast<const In*>(p.x.data) + r * p.x.stride, p.x.cols,
              p.what == core::operation::log_softmax, p.policy,
              static_cast<decltype(out)*>(p.y.data) + r * p.y.stride);
  });
}

}  // namespace

void run_reproducible_softmax(executor& on, const core::row_problem& p) {
  if (p.x.rows == 0 || p.x.cols == 0) {
    return;
  }
  core::with_real(p.x.type, [&](auto in) {
    using T = decltype(in);
    if (p.whole.data != nullptr) {
      for_each_total<T>(on, p.whole, p.scale,
                        [&](std::int64_t r, const auto& total) { write_list<T>(p, r, total); });
      return;
    }
    run_job(on, softmax_job<T>{{on.kernels, p.x, p.scale, p.y.type},
                               p.y,
                               p.policy,
                               p.what == core::operation::log_softmax});
  });
}

void run_reproducible_logsumexp(executor& on, const core::row_problem& p) {
  core::with_real(p.x.type, [&](auto in) {
    using T = decltype(in);
    const auto write_total = [&](std::int64_t r, const auto& total) {
      core::write_real(p.y.data, p.y.type, r * p.y.stride, total.lse);
    };
    if (p.x.rows == 0 || p.x.cols == 0) {
      for_each_total<T>(on, p.x, p.scale, write_total);
      return;
    }
    const auto write = [&](std::int64_t r, const auto& fold) { write_total(r, fold.total()); };
    run_job(on,
            logsumexp_job<T, decltype(write)>{{{on.kernels, p.x, p.scale, p.y.type}, write}, p.y});
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

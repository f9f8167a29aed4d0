// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log_softmax as a job.
#include <backends/host/map/probabilities.hpp>
#include <backends/host/row/fold.hpp>
#include <backends/host/row/job.hpp>
#include <backends/host/run.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

struct softmax_job {
  source from;
  probabilities to;

  static constexpr std::size_t segment_bytes = sizeof(segment_state);

  [[nodiscard]] shape description() const {
    shape s = from.shape_to(static_cast<std::int64_t>(size_of(to.y.type)));
    s.in_place = from.x.data == to.y.data;
    s.keeps = !to.log;
    return s;
  }

  /// Exponentials.
  [[nodiscard]] std::size_t kept_bytes(const plan& plan) const {
    const bool keeps =
        plan.second == second_pass::scale_scratch || plan.second == second_pass::scale_behind;
    return keeps ? static_cast<std::size_t>(from.x.cols) * size_of(from.kernels.computed) : 0;
  }

  [[nodiscard]] bool takes_short_rows() const { return ordinary_scale(from.scale); }
  void short_rows(const plan&, std::int64_t begin, std::int64_t end) const {
    const host::short_rows rows = {
        .x = from.row(begin),
        .y = from.kernels.result_at(to.y.data, begin * to.y.stride),
        .x_stride = from.x.stride,
        .y_stride = to.y.stride,
        .rows = end - begin,
        .cols = from.x.cols,
        .scale = from.scale,
        .empty_value = fill_value(row_state::kind::empty, to.policy, to.log)};
    to.log ? from.kernels.output.short_log_softmax(&rows)
           : from.kernels.output.short_softmax(&rows);
  }

  class row;
};

class softmax_job::row {
 public:
  row(const softmax_job& job, const plan& plan, std::int64_t r, const row_memory& memory)
      : job_(job),
        to_(job.from, job.to, r, plan.stream),
        kept_(plan.second == second_pass::recompute      ? nullptr
              : plan.second == second_pass::scale_output ? to_.y()
                                                         : memory.kept),
        fold_(job.from.kernels, job.from.row(r), job.from.x.cols, job.from.scale,
              static_cast<segment_state*>(memory.segments), {kept_, plan.ahead_to_l2}) {}

  void fold(std::int64_t segment) { fold_.fold(segment); }
  void between() {
    to_.set([&] { return fold_.state(); });
  }
  void write(std::int64_t segment) const { to_.write(segment, fold_.kept(segment, to_.state())); }

  /// Kept exponentials that are all to be multiplied by one factor.
  struct left_behind {
    const typed_kernels* kernels;
    std::int64_t cols;
    void* e;
    double factor;
    void* y;

    void store() const { kernels->output.scaled(e, cols, factor, {y, true}); }
  };

  [[nodiscard]] std::optional<left_behind> leave() const {
    if (to_.state().what != row_state::kind::ordinary) {
      return {};
    }
    for (std::int64_t i = 0; i < segments_of(job_.from.x.cols); ++i) {
      if (fold_.kept(i, to_.state()) == nullptr) {
        return {};
      }
    }
    return left_behind{&job_.from.kernels, job_.from.x.cols, kept_, to_.factor(), to_.y()};
  }

  void fold_behind(std::int64_t segment, const left_behind& before) {
    const std::int64_t column = columns_of(segment, before.cols).begin;
    fold_.fold_and_stream(segment, before.kernels->computed_at(before.e, column), before.factor,
                          before.kernels->result_at(before.y, column));
  }

 private:
  const softmax_job& job_;
  row_probabilities to_;
  void* kept_;
  row_fold fold_;
};

static_assert(may_stand_behind<softmax_job::row>);

}  // namespace

void run_softmax(executor& on, const core::row_problem& p) {
  if (p.x.rows > 0 && p.x.cols > 0) {
    run_job(on, softmax_job{{on.kernels, p.x, p.scale, p.y.type},
                            {p.y, p.policy, p.what == core::operation::log_softmax}});
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// logsumexp and fold as jobs: the state of a row, or a number of it, is the result.
#include <backends/host/row/fold.hpp>
#include <backends/host/row/job.hpp>
#include <backends/host/row/source.hpp>
#include <backends/host/run.hpp>

#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// A row whose state the job finishes.
template <class Job>
class folded_row {
 public:
  folded_row(const Job& job, const plan&, std::int64_t r, const row_memory& memory)
      : job_(job),
        r_(r),
        fold_(job.from.kernels, job.from.row(r), job.from.x.cols, job.from.scale,
              static_cast<segment_state*>(memory.segments), {}) {}

  void fold(std::int64_t segment) { fold_.fold(segment); }
  void between() { job_.finish(r_, fold_.state()); }

 private:
  const Job& job_;
  std::int64_t r_;
  row_fold fold_;
};

struct logsumexp_job {
  source from;
  matrix_ref lse;  ///< one column

  using row = folded_row<logsumexp_job>;
  static constexpr std::size_t segment_bytes = sizeof(segment_state);
  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }
  [[nodiscard]] shape description() const { return from.shape_to(0); }

  void finish(std::int64_t r, const row_state& state) const {
    core::write_real(lse.data, lse.type, r * lse.stride,
                     logsumexp_of(state, from.kernels.computed));
  }

  [[nodiscard]] bool takes_short_rows() const {
    return ordinary_scale(from.scale) && lse.type == from.kernels.computed;
  }
  void short_rows(const plan&, std::int64_t begin, std::int64_t end) const {
    const host::short_rows rows = {.x = from.row(begin),
                                   .y = from.kernels.result_at(lse.data, begin * lse.stride),
                                   .x_stride = from.x.stride,
                                   .y_stride = lse.stride,
                                   .rows = end - begin,
                                   .cols = from.x.cols,
                                   .scale = from.scale,
                                   .empty_value = -std::numeric_limits<double>::infinity()};
    from.kernels.output.short_logsumexp(&rows);
  }
};

struct fold_job {
  source from;
  partials_ref partials;

  using row = folded_row<fold_job>;
  static constexpr std::size_t segment_bytes = sizeof(segment_state);
  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }
  [[nodiscard]] shape description() const { return from.shape_to(0); }

  void finish(std::int64_t r, const row_state& state) const {
    write_partial(partials.data, partials.type, r, partial_of(state, from.kernels.computed));
  }
};

}  // namespace

void run_logsumexp(executor& on, const core::row_problem& p) {
  if (p.x.rows == 0) {
    return;
  }
  const logsumexp_job job{{on.kernels, p.x, p.scale, p.y.type}, p.y};
  if (p.x.cols == 0) {
    for (std::int64_t r = 0; r < p.x.rows; ++r) {
      job.finish(r, {});
    }
    return;
  }
  run_job(on, job);
}

void run(executor& on, const core::fold_problem& p) {
  if (p.partials.sum == sum_kind::exact) {
    return run_exact(on, p);
  }
  if (p.x.rows > 0) {
    run_job(on, fold_job{{on.kernels, p.x, p.scale, p.partials.type}, p.partials});
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax_backward and log_softmax_backward as a job: two matrices are read, a row's state is a
/// sum.
#include <backends/host/row/gradient_source.hpp>
#include <backends/host/row/job.hpp>
#include <backends/host/run.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

struct gradient_job : gradient_source {
  using gradient_source::gradient_source;

  static constexpr std::size_t segment_bytes = sizeof(compensated_sum);

  [[nodiscard]] static bool takes_short_rows() { return true; }
  void short_rows(const plan&, std::int64_t begin, std::int64_t end) const {
    const gradient_rows rows = rows_of(begin, end);
    functions.short_rows(&rows);
  }

  class row {
   public:
    row(const gradient_job& job, const plan& plan, std::int64_t r, const row_memory& memory)
        : job_(job),
          r_(r),
          segments_(static_cast<compensated_sum*>(memory.segments)),
          stream_(plan.stream) {}

    void fold(std::int64_t segment) {
      const auto [begin, count] = columns_of(segment, job_.y.x.cols);
      const elements part = job_.at(r_, begin);
      job_.functions.sum(part.y, part.dy, count, &segments_[segment]);
    }
    void between() {
      compensated_sum total;
      for (std::int64_t i = 0; i < segments_of(job_.y.x.cols); ++i) {
        total = core::compensated_monoid::combine(total, segments_[i]);
      }
      sum_ = total.total();
    }
    void write(std::int64_t segment) const {
      const auto [begin, count] = columns_of(segment, job_.y.x.cols);
      const elements part = job_.at(r_, begin);
      job_.functions.map(part.y, part.dy, count, sum_, job_.y.scale, {part.dx, stream_});
    }

   private:
    const gradient_job& job_;
    std::int64_t r_;
    compensated_sum* segments_;
    bool stream_;
    double sum_ = 0;
  };
};

}  // namespace

void run_backward(executor& on, const core::backward_problem& p) {
  if (p.y.rows > 0 && p.y.cols > 0) {
    run_job(on, gradient_job(on, p));
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

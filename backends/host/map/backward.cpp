// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax_backward and log_softmax_backward as a job: two matrices are read, a row's state is a
/// sum.
#include <backends/host/row/job.hpp>
#include <backends/host/row/source.hpp>
#include <backends/host/run.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

struct gradient_job {
  source y;
  const_matrix_ref dy;
  matrix_ref dx;
  const gradient_functions& functions;

  gradient_job(const executor& on, const core::backward_problem& p)
      : y(on.kernels, p.y, p.scale, p.dx.type),
        dy(p.dy),
        dx(p.dx),
        functions(p.log ? y.kernels.output.log_softmax_gradient
                        : y.kernels.output.softmax_gradient) {}

  static constexpr std::size_t segment_bytes = sizeof(sum_monoid::value_type);
  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }

  [[nodiscard]] shape description() const {
    shape s = y.shape_to(static_cast<std::int64_t>(size_of(dx.type)));
    s.input_bytes *= 2;
    s.in_place = dx.data == y.x.data || dx.data == dy.data;
    return s;
  }

  [[nodiscard]] static bool takes_short_rows() { return true; }
  void short_rows(std::int64_t begin, std::int64_t end) const {
    const gradient_rows rows = {.y = y.row(begin),
                                .dy = y.kernels.at(dy.data, begin * dy.stride),
                                .dx = y.kernels.result_at(dx.data, begin * dx.stride),
                                .y_stride = y.x.stride,
                                .dy_stride = dy.stride,
                                .dx_stride = dx.stride,
                                .rows = end - begin,
                                .cols = y.x.cols,
                                .scale = y.scale};
    functions.short_rows(&rows);
  }

  class row {
   public:
    row(const gradient_job& job, const plan& plan, std::int64_t r, const row_memory& memory)
        : job_(job),
          y_(job.y.row(r)),
          dy_(job.y.kernels.at(job.dy.data, r * job.dy.stride)),
          dx_(job.y.kernels.result_at(job.dx.data, r * job.dx.stride)),
          segments_(static_cast<sum_monoid::value_type*>(memory.segments)),
          stream_(plan.stream) {}

    void fold(std::int64_t segment) {
      const auto [begin, count] = columns_of(segment, job_.y.x.cols);
      job_.functions.sum(job_.y.kernels.at(y_, begin), job_.y.kernels.at(dy_, begin), count,
                         &segments_[segment]);
    }
    void between() {
      auto total = sum_monoid::identity();
      for (std::int64_t i = 0; i < segments_of(job_.y.x.cols); ++i) {
        total = sum_monoid::combine(total, segments_[i]);
      }
      sum_ = total.value + total.lost;
    }
    void write(std::int64_t segment) const {
      const auto [begin, count] = columns_of(segment, job_.y.x.cols);
      job_.functions.map(job_.y.kernels.at(y_, begin), job_.y.kernels.at(dy_, begin), count, sum_,
                         job_.y.scale, {job_.y.kernels.result_at(dx_, begin), stream_});
    }

   private:
    const gradient_job& job_;
    const void* y_;
    const void* dy_;
    void* dx_;
    sum_monoid::value_type* segments_;
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

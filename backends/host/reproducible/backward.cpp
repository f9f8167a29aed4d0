// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible gradients as a job: sums of tiles, then a map.
#include <backends/host/row/job.hpp>
#include <backends/host/row/source.hpp>
#include <backends/host/run.hpp>

#include <core/reproducible.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

constexpr std::int64_t segment_tiles = segment_columns / core::reproducible::tile_columns;
static_assert(segment_columns % core::reproducible::tile_columns == 0);

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

  static constexpr std::size_t segment_bytes = segment_tiles * sizeof(double);
  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }
  [[nodiscard]] shape description() const {
    shape s = y.shape_to(static_cast<std::int64_t>(size_of(dx.type)));
    s.input_bytes *= 2;
    s.in_place = dx.data == y.x.data || dx.data == dy.data;
    return s;
  }

  class row {
   public:
    row(const gradient_job& job, const plan& plan, std::int64_t r, const row_memory& memory)
        : job_(job),
          y_(job.y.row(r)),
          dy_(job.y.kernels.at(job.dy.data, r * job.dy.stride)),
          dx_(job.y.kernels.result_at(job.dx.data, r * job.dx.stride)),
          tiles_(static_cast<double*>(memory.segments)),
          stream_(plan.stream) {}

    void fold(std::int64_t segment) {
      const auto [begin, count] = columns_of(segment, job_.y.x.cols);
      job_.functions.tiles(job_.y.kernels.at(y_, begin), job_.y.kernels.at(dy_, begin), count,
                           tiles_ + segment * segment_tiles);
    }
    void between() {
      constexpr std::int64_t columns = core::reproducible::tile_columns;
      core::reproducible::tile_sum sum;
      for (std::int64_t i = 0; i < (job_.y.x.cols + columns - 1) / columns; ++i) {
        sum.add(tiles_[i]);
      }
      if (job_.y.kernels.computed == dtype::f64) {
        known_ = numbers_of<double>(sum);
      } else {
        known_ = numbers_of<float>(sum);
      }
    }
    void write(std::int64_t segment) const {
      const auto [begin, count] = columns_of(segment, job_.y.x.cols);
      job_.functions.reproducible_map(job_.y.kernels.at(y_, begin), job_.y.kernels.at(dy_, begin),
                                      count, &known_,
                                      {job_.y.kernels.result_at(dx_, begin), stream_});
    }

   private:
    template <class A>
    [[nodiscard]] reproducible_gradient_row numbers_of(
        const core::reproducible::tile_sum& sum) const {
      const auto found = core::reproducible::row_gradient<A>::of(static_cast<A>(job_.y.scale), sum);
      return {.scale = static_cast<double>(found.scale),
              .high = static_cast<double>(found.high),
              .low = static_cast<double>(found.low)};
    }

    const gradient_job& job_;
    const void* y_;
    const void* dy_;
    void* dx_;
    double* tiles_;
    bool stream_;
    reproducible_gradient_row known_;
  };
};

}  // namespace

void run_reproducible_backward(executor& on, const core::backward_problem& p) {
  if (p.y.rows > 0 && p.y.cols > 0) {
    run_job(on, gradient_job(on, p));
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

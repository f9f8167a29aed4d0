// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible gradients as a job: sums of tiles, then a map.
#include <backends/host/row/gradient_source.hpp>
#include <backends/host/row/job.hpp>
#include <backends/host/run.hpp>

#include <core/reproducible.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

constexpr std::int64_t segment_tiles = segment_columns / core::reproducible::tile_columns;
static_assert(segment_columns % core::reproducible::tile_columns == 0);

struct gradient_job : gradient_source {
  using gradient_source::gradient_source;

  static constexpr std::size_t segment_bytes = segment_tiles * sizeof(double);

  [[nodiscard]] static bool takes_short_rows() { return true; }
  void short_rows(const plan&, std::int64_t begin, std::int64_t end) const {
    const gradient_rows rows = rows_of(begin, end);
    functions.reproducible_short_rows(&rows);
  }

  class row {
   public:
    row(const gradient_job& job, const plan& plan, std::int64_t r, const row_memory& memory)
        : job_(job), r_(r), tiles_(static_cast<double*>(memory.segments)), stream_(plan.stream) {}

    void fold(std::int64_t segment) {
      const auto [begin, count] = columns_of(segment, job_.y.x.cols);
      const elements part = job_.at(r_, begin);
      job_.functions.tiles(part.y, part.dy, count, tiles_ + segment * segment_tiles);
    }
    void between() {
      constexpr std::int64_t columns = core::reproducible::tile_columns;
      core::compensated_sum sum;
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
      const elements part = job_.at(r_, begin);
      job_.functions.reproducible_map(part.y, part.dy, count, &known_, {part.dx, stream_});
    }

   private:
    template <class A>
    [[nodiscard]] reproducible_gradient_row numbers_of(const core::compensated_sum& sum) const {
      const auto found = core::reproducible::row_gradient<A>::of(static_cast<A>(job_.y.scale), sum);
      return {.scale = static_cast<double>(found.scale),
              .high = static_cast<double>(found.high),
              .low = static_cast<double>(found.low)};
    }

    const gradient_job& job_;
    std::int64_t r_;
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

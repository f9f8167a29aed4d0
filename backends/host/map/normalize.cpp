// SPDX-License-Identifier: Apache-2.0
/// \file
/// normalize and log_normalize as a job: the second look of softmax, the states given.
#include <backends/host/map/probabilities.hpp>
#include <backends/host/row/job.hpp>
#include <backends/host/run.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

struct normalize_job {
  source from;
  const_partials_ref partials;
  probabilities to;

  static constexpr std::size_t segment_bytes = 0;
  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }

  [[nodiscard]] shape description() const {
    return from.shape_to(static_cast<std::int64_t>(size_of(to.y.type)));
  }

  class row {
   public:
    row(const normalize_job& job, const plan& plan, std::int64_t r, const row_memory&)
        : job_(job), r_(r), to_(job.from, job.to, r, plan.stream) {}

    void between() {
      to_.set([&] {
        return state_of(read_partial(job_.partials.data, job_.partials.type, r_), job_.from.scale,
                        job_.from.kernels.computed);
      });
    }
    void write(std::int64_t segment) const { to_.write(segment); }

   private:
    const normalize_job& job_;
    std::int64_t r_;
    row_probabilities to_;
  };
};

}  // namespace

void run(executor& on, const core::normalize_problem& p) {
  if (p.partials.sum == sum_kind::exact) {
    return run_exact(on, p);
  }
  if (p.x.rows > 0 && p.x.cols > 0) {
    run_job(on, normalize_job{
                    {on.kernels, p.x, p.scale, p.y.type}, p.partials, {p.y, p.policy, p.log}});
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

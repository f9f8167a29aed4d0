// SPDX-License-Identifier: Apache-2.0
/// \file
/// Everything that is done with states that have exact sums.
#include <backends/host/parallel.hpp>
#include <backends/host/reproducible/batches.hpp>
#include <backends/host/reproducible/row.hpp>

#include <core/exact_state.hpp>
#include <core/typed_memory.hpp>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Calls body with a value of the states' type.
template <class Body>
void with_state(dtype type, const Body& body) {
  type == dtype::f64 ? body(double{}) : body(float{});
}

/// Of elements whose arithmetic is in A.
template <class A>
struct exact_normalize_job {
  source from;
  const exact_max_sum<A>* states;
  matrix_ref y;
  empty_row policy;
  bool log;

  static constexpr std::size_t segment_bytes = 0;
  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }
  [[nodiscard]] shape description() const {
    return from.shape_to(static_cast<std::int64_t>(size_of(y.type)));
  }

  class row {
   public:
    row(const exact_normalize_job& job, const plan& plan, std::int64_t r, const row_memory&)
        : job_(job), r_(r), stream_(plan.stream) {}

    void between() {
      const exact_max_sum<A>& state = job_.states[r_];
      total_ = core::reproducible::total_of(static_cast<A>(job_.from.scale), state);
      known_ = numbers_of(total_);
      by_kernels_ = suits_kernels(total_) && core::reproducible::far_from<A> > std::fabs(state.max);
    }
    void write(std::int64_t segment) const {
      const typed_kernels& kernels = job_.from.kernels;
      const auto [begin, count] = columns_of(segment, job_.from.x.cols);
      const void* const x = kernels.at(job_.from.row(r_), begin);
      const destination to{kernels.result_at(job_.y.data, r_ * job_.y.stride + begin), stream_};
      if (by_kernels_) {
        (job_.log ? kernels.output.reproducible_log_softmax : kernels.output.reproducible_softmax)(
            x, count, &known_, to);
        return;
      }
      core::with_real(job_.from.x.type, [&, count = count](auto in) {
        using T = decltype(in);
        if constexpr (std::is_same_v<core::arithmetic_t<T>, A>) {
          core::with_output<T>(job_.y.type, [&](auto out) {
            plain_map(total_, static_cast<const T*>(x), count, job_.log, job_.policy,
                      static_cast<decltype(out)*>(to.data));
          });
        }
      });
    }

   private:
    const exact_normalize_job& job_;
    std::int64_t r_;
    bool stream_;
    bool by_kernels_ = false;
    core::reproducible::row_total<A> total_;
    reproducible_row known_;
  };
};

}  // namespace

void run_exact(executor& on, const core::fold_problem& p) {
  core::with_real(p.x.type, [&](auto in) {
    using T = decltype(in);
    using A = core::arithmetic_t<T>;
    auto* const states = static_cast<exact_max_sum<A>*>(p.partials.data);
    if (p.x.rows == 0 || p.x.cols == 0) {
      std::fill_n(states, p.x.rows, exact_max_sum<A>{});
      return;
    }
    const auto write = [&](std::int64_t r, const auto& fold) { states[r] = fold.state(); };
    run_job(on, reproducible_job<T, decltype(write)>{{on.kernels, p.x, p.scale, p.x.type}, write});
  });
}

void run_exact(executor& on, const core::topk_problem& p) {
  if (p.empty()) {
    return;
  }
  select_in_batches(
      on, p,
      [&](const core::topk_problem& rows) {
        run_exact(on, core::fold_problem{rows.x, rows.partials, rows.scale});
      },
      [](std::int64_t, const core::topk_problem&) {});
}

void run_exact(executor& on, const core::combine_problem& p) {
  with_state(p.more.type, [&](auto type) {
    using A = decltype(type);
    const auto* const more = static_cast<const exact_max_sum<A>*>(p.more.data);
    auto* const partials = static_cast<exact_max_sum<A>*>(p.partials.data);
    over_each(on, p.more.size, 64, [&](std::int64_t r) {
      partials[r] = core::reproducible::exact_max_sum_monoid<A>::combine(partials[r], more[r]);
    });
  });
}

void run_exact(executor& on, const core::state_problem& p) {
  with_state(p.partials.type, [&](auto type) {
    using A = decltype(type);
    const auto* const states = static_cast<const exact_max_sum<A>*>(p.partials.data);
    over_each(on, p.partials.size, 64, [&](std::int64_t r) {
      core::write_real(p.lse.data, p.lse.type, r,
                       core::reproducible::total_of(A{1}, states[r]).lse);
    });
  });
}

void run_exact(executor& on, const core::normalize_problem& p) {
  if (p.x.rows == 0 || p.x.cols == 0) {
    return;
  }
  with_state(p.partials.type, [&](auto type) {
    using A = decltype(type);
    run_job(on, exact_normalize_job<A>{{on.kernels, p.x, p.scale, p.y.type},
                                       static_cast<const exact_max_sum<A>*>(p.partials.data),
                                       p.y,
                                       p.policy,
                                       p.log});
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

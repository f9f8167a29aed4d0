// SPDX-License-Identifier: Apache-2.0
/// \file
/// scan as a job: segments are folded, what comes before each is combined, and they are scanned
/// from there, in any order and on any thread.
#include <backends/host/row/job.hpp>
#include <backends/host/row/source.hpp>
#include <backends/host/run.hpp>

#include <core/scan_state.hpp>

#include <cmath>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// A segment as between() needs it.
template <class State>
struct scanned_segment {
  segment_state power;  ///< if it is ordinary
  bool ordinary;
  State own;
  State before;
};

template <class T, class Out>
struct scan_job {
  using A = core::arithmetic_t<T>;
  /// Wider than the arithmetic: the number of segments, one after the other, does not show.
  using W = std::conditional_t<std::is_same_v<A, double>, long double, double>;
  using monoid = core::scan_monoid<A, W>;
  using state = core::scan_state<A, W>;
  using segment = scanned_segment<state>;

  source from;
  const core::scan_problem& p;

  static constexpr std::size_t segment_bytes = sizeof(segment);
  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }
  [[nodiscard]] shape description() const {
    shape s = from.shape_to(sizeof(Out));
    s.in_place = p.x.data == p.lse.data;
    return s;
  }

  class row {
   public:
    row(const scan_job& job, const plan&, std::int64_t r, const row_memory& memory)
        : job_(job),
          r_(r),
          x_(static_cast<const T*>(job.p.x.data) + r * job.p.x.stride),
          y_(static_cast<Out*>(job.p.lse.data) + r * job.p.lse.stride),
          segments_(static_cast<segment*>(memory.segments)) {}

    void fold(std::int64_t i) {
      const auto [begin, count] = columns_of(i, job_.p.x.cols);
      segment& s = segments_[i];
      s.ordinary =
          ordinary_scale(job_.p.scale) &&
          job_.from.kernels.input.fold(x_ + begin, count, job_.p.scale, {}, nullptr, &s.power);
      if (s.ordinary) {
        const dtype computed = job_.from.kernels.computed;
        const max_sum<double> own =
            partial_of(combine_segments(&s.power, 1, job_.p.scale, computed), computed);
        s.own = own.sum == 0 ? state{} : state{own.max, 0, own.sum, 0};
        return;
      }
      s.own = {};
      for (std::int64_t c = begin; c < begin + count; ++c) {
        s.own = monoid::combine(s.own, element(c));
      }
    }

    void between() {
      const std::int64_t n = segments_of(job_.p.x.cols);
      state before;
      if (const void* const given = job_.p.carry_in.data; given != nullptr) {
        before = state::of(static_cast<const max_sum<A>*>(given)[r_]);
      }
      for (std::int64_t k = 0; k < n; ++k) {
        segment& s = segments_[job_.p.reverse ? n - 1 - k : k];
        s.before = before;
        before = monoid::combine(before, s.own);
      }
      if (void* const to = job_.p.carry_out.data; to != nullptr) {
        static_cast<max_sum<A>*>(to)[r_] = before.partial();
      }
    }

    void write(std::int64_t i) const {
      const auto [begin, count] = columns_of(i, job_.p.x.cols);
      const segment& s = segments_[i];
      if (!s.ordinary || !by_vectors(s, begin, count)) {
        one_by_one(s, begin, count);
      }
    }

   private:
    [[nodiscard]] state element(std::int64_t c) const {
      return state::of(static_cast<A>(x_[c]), static_cast<A>(job_.p.scale));
    }

    /// A state as the kernels have it.
    [[nodiscard]] row_state row_of(const state& s) const {
      const auto max = static_cast<double>(s.max);
      const auto sum = static_cast<double>(s.sum_relative_to(static_cast<W>(max)));
      return state_of(max_sum<double>{max, sum}, job_.p.scale, job_.from.kernels.computed);
    }

    /// Where what comes before and the segment are both in the power form's range.
    [[nodiscard]] bool by_vectors(const segment& s, std::int64_t begin, std::int64_t count) const {
      if (!s.own.is_ordinary() || (!s.before.is_ordinary() && !s.before.is_empty())) {
        return false;
      }
      const state all = monoid::combine(s.before, s.own);
      const row_state whole = row_of(all);
      scan_segment given;
      if (!s.before.is_empty()) {
        const row_state before = row_of(s.before);
        if (before.e.how != form::power) {
          return false;
        }
        given.before = std::ldexp(before.sum, static_cast<int>(before.e.origin - whole.e.origin));
      }
      if (whole.e.how != form::power) {
        return false;
      }
      given.scale = job_.p.scale;
      given.origin = whole.e.origin;
      given.first = static_cast<double>(s.before.logsumexp());
      given.last = static_cast<double>(all.logsumexp());
      given.exclusive = job_.p.exclusive;
      given.reverse = job_.p.reverse;
      return job_.from.kernels.output.scan(x_ + begin, count, &given, y_ + begin);
    }

    void one_by_one(const segment& s, std::int64_t begin, std::int64_t count) const {
      state before = s.before;
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t c = job_.p.reverse ? begin + count - 1 - k : begin + k;
        const state with = monoid::combine(before, element(c));
        y_[c] = static_cast<Out>((job_.p.exclusive ? before : with).logsumexp());
        before = with;
      }
    }

    const scan_job& job_;
    std::int64_t r_;
    const T* x_;
    Out* y_;
    segment* segments_;
  };
};

}  // namespace

void run(executor& on, const core::scan_problem& p) {
  if (p.x.rows == 0) {
    return;
  }
  core::with_real(p.x.type, [&]<class T>(T) {
    core::with_output<T>(p.lse.type, [&]<class Out>(Out) {
      run_job(on, scan_job<T, Out>{{on.kernels, p.x, p.scale, p.lse.type}, p});
    });
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

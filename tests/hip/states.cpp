// SPDX-License-Identifier: Apache-2.0
// The laws on what GPU kernels fold rows into: device code, on the processor.
#include <gpu/state/results.hpp>
#include <gpu/state/scaling.hpp>
#include <gpu/state/sum_state.hpp>

#include <tests/support/laws.hpp>

namespace gpu = softfold::gpu;
using softfold::test::check_laws;
using softfold::test::columns;

namespace {

/// The largest element first, then the exponentials in its frame, as lanes do.
template <class T>
struct softmax_kind {
  using real = T;
  using state = gpu::softmax_state<T>;
  double scale;
  gpu::softmax_monoid<T> monoid{static_cast<T>(gpu::scaling::of(scale).factor)};

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    const auto each = [&](const auto& f) {
      for (const std::int64_t column : part) {
        f(gpu::mapped(row[static_cast<std::size_t>(column)], gpu::scaling::of(scale).map));
      }
    };
    state s = monoid.identity();
    each([&](T x) { s.max = gpu::max_or_nan(s.max, x); });
    const auto frame = gpu::frame<T>::of(s.max, monoid.scale);
    double sum = 0;
    each([&](T x) {
      sum += static_cast<double>(gpu::exponential<gpu::precision::exact>(frame.exponent(x)));
    });
    s.sum = static_cast<T>(sum);
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int combines) const {
    const double bound = 16 + std::log2(static_cast<double>(row.size()) + 1) + 8 * combines;
    return softfold::test::wrong_max_sum(gpu::to_public(s, monoid.scale), row, scale, bound);
  }
};

template <class T>
struct sums_kind {
  using real = T;
  using state = T;
  gpu::sum_monoid<T> monoid;

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    double sum = 0;
    for (const std::int64_t column : part) {
      sum += static_cast<double>(row[static_cast<std::size_t>(column)]);
    }
    return static_cast<T>(sum);
  }
  [[nodiscard]] std::string wrong(state s, const std::vector<T>& row, int) const {
    return softfold::test::wrong_sum(static_cast<double>(s), row, 16);
  }
};

}  // namespace

TEST_SUITE_BEGIN("states");

TEST_CASE_TEMPLATE("the laws: the softmax's state", T, float, double) {
  for (const double scale : {1.0, 0.7, -2.0, 0.0}) {
    check_laws(softmax_kind<T>{static_cast<double>(static_cast<T>(scale))}, 41);
  }
}

TEST_CASE_TEMPLATE("the laws: sums", T, float, double) { check_laws(sums_kind<T>{}, 42); }

TEST_SUITE_END();

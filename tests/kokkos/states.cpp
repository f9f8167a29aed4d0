// SPDX-License-Identifier: Apache-2.0
// The laws on what the kernels by teams fold gradients into. Other rows' states are core's.
#include <backends/kokkos/team/gradient.hpp>

#include <tests/support/laws.hpp>

namespace kb = softfold::kokkos_backend;
using softfold::test::check_laws;
using softfold::test::columns;

namespace {

struct sum_kind {
  using real = double;
  using state = kb::term_sum;
  kb::sum_monoid monoid;

  [[nodiscard]] std::optional<state> fold(const std::vector<double>& row,
                                          const columns& part) const {
    state s = monoid.identity();
    for (const auto column : part) {
      s.add(row[static_cast<std::size_t>(column)]);
    }
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<double>& row, int) const {
    return softfold::test::wrong_sum(s.sum + s.lost, row, 16);
  }
};

}  // namespace

TEST_SUITE_BEGIN("states");

TEST_CASE("the laws: sums") { check_laws(sum_kind{}, 32); }

TEST_SUITE_END();

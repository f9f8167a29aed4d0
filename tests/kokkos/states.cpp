// SPDX-License-Identifier: Apache-2.0
// The laws on what the kernels by teams fold rows into.
#include <backends/kokkos/team/gradient.hpp>

#include <tests/support/laws.hpp>

namespace kb = softfold::kokkos_backend;
using softfold::test::check_laws;
using softfold::test::columns;

namespace {

/// Tile by tile, as a lane does.
template <class T, class Add>
void for_each_tile(const std::vector<T>& row, const columns& part, const Add& add) {
  for (std::size_t begin = 0; begin < part.size(); begin += kb::tile_elements) {
    T tile[kb::tile_elements];
    const auto used =
        static_cast<int>(std::min<std::size_t>(kb::tile_elements, part.size() - begin));
    for (int j = 0; j < kb::tile_elements; ++j) {
      tile[j] = j < used ? row[static_cast<std::size_t>(part[begin + static_cast<std::size_t>(j)])]
                         : T{0};
    }
    add(tile, used);
  }
}

template <class T>
struct fold_kind {
  using real = T;
  using state = kb::row_fold<T>;
  double scale;
  kb::fold_monoid<T> monoid{kb::scaling<T>(scale)};

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    state s = monoid.identity();
    for_each_tile(row, part, [&](T(&tile)[kb::tile_elements], int used) {
      for (T& x : tile) {
        x = monoid.scale.element(x);
      }
      monoid.add_tile(s, tile, used);
    });
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int combines) const {
    const double bound = 16 + std::log2(static_cast<double>(row.size()) + 1) + 2 * combines;
    return softfold::test::wrong_max_sum(
        kb::partial_finish<T>::partial_of(monoid.scale, monoid.finished(s)), row, scale, bound);
  }
};

template <class T>
struct sum_kind {
  using real = T;
  using state = kb::term_sum<T>;
  kb::sum_monoid<T> monoid;

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    state s = monoid.identity();
    for_each_tile(row, part, [&](T(&tile)[kb::tile_elements], int used) {
      for (int j = 0; j < used; ++j) {
        s.add(tile[j]);
      }
    });
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int) const {
    return softfold::test::wrong_sum(static_cast<double>(s.sum + s.lost), row, 16);
  }
};

}  // namespace

TEST_SUITE_BEGIN("states");

TEST_CASE_TEMPLATE("the laws: folds", T, float, double) {
  for (const double scale : {1.0, 0.7, -2.0, 0.0}) {
    check_laws(fold_kind<T>{static_cast<double>(static_cast<T>(scale))}, 31);
  }
}

TEST_CASE_TEMPLATE("the laws: sums", T, float, double) { check_laws(sum_kind<T>{}, 32); }

TEST_SUITE_END();

// SPDX-License-Identifier: Apache-2.0
// Complete states, fold_topk and what is made of them: rows split anywhere and put together in any
// order or tree have the top-k of the whole row exactly, and its logsumexp and probabilities within
// the bounds of a whole row plus 2 u for each combine that they went through (see partials.cpp).
#include "problem.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace softfold::test {

namespace {

constexpr std::int64_t absent = -1;

/// Columns [begin, end) of the device's matrix.
template <class T>
const_matrix_ref part_of(const matrix<T>& x, std::int64_t begin, std::int64_t end) {
  const auto whole = x.view();
  return matrix_view<const T>(whole.data + begin, whole.rows, end - begin, whole.stride);
}

/// The state of a part of every row: max_sum and list, on the device.
template <class In, class Out, class Index>
struct complete_state {
  using arithmetic = reference::arithmetic_t<In>;
  states<arithmetic> partials;
  matrix<Out> values;
  matrix<Index> indices;

  complete_state(std::int64_t rows, std::int64_t k)
      : partials(rows),
        values({rows, k, 3, 1}, role::output),
        indices({rows, k, 1, 0}, role::output) {}

  void combine_with(queue& q, const complete_state& more) {
    combine(q, more.partials.ref(), partials.ref());
    combine_topk(q, more.values.view(), more.indices.view(), values.view(), indices.view());
    ++combines;
  }

  int combines = 0;
};

template <class Out, class Index, class In>
complete_state<In, Out, Index> folded(queue& q, const problem<In>& p, std::int64_t k,
                                      std::int64_t begin, std::int64_t end) {
  complete_state<In, Out, Index> state(p.x.rows(), k);
  fold_topk(q, part_of(p.x, begin, end), state.partials.ref(), state.values.view(),
            state.indices.view(), {.scale = p.spec.scale, .column_offset = begin});
  return state;
}

/// Checks a whole row's state: the list exactly, then the logsumexp and the probabilities of the
/// list within the bounds.
template <class Out, class Index, class In>
void check_state(queue& q, problem<In>& p, complete_state<In, Out, Index>& state, int combines,
                 const std::vector<std::vector<std::int64_t>>& expected,
                 empty_row policy = empty_row::nan) {
  using arithmetic = reference::arithmetic_t<In>;
  const std::int64_t k = state.values.cols();
  const std::int64_t present = std::min(k, p.x.cols());
  matrix<arithmetic> lse({p.x.rows(), 1, 0, 0}, role::output);
  matrix<Out> probabilities({p.x.rows(), k, 2, 0}, role::output);
  logsumexp(q, state.partials.ref(), lse.vector());
  normalize(q, state.values.view(), state.partials.ref(), probabilities.view(),
            {.scale = p.spec.scale, .empty_row = policy});
  q.wait();
  state.values.download();
  state.indices.download();
  lse.download();
  probabilities.download();
  check_guards(p, state.values, state.indices, lse, probabilities);
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    auto& oracle = p.rows[static_cast<std::size_t>(r)];
    const auto& columns = expected[static_cast<std::size_t>(r)];
    const auto n = static_cast<std::size_t>(present);
    expect(check_columns(std::span<const Index>(state.indices.row(r)).first(n), columns), r,
           p.spec);
    expect(check_values(std::span<const Out>(state.values.row(r)).first(n),
                        std::span<const In>(p.x.row(r)), columns),
           r, p.spec);
    oracle.set_combines(combines);
    expect(oracle.check_logsumexp(lse(r, 0)), r, p.spec);
    for (std::int64_t i = 0; i < present; ++i) {
      const auto column = static_cast<std::size_t>(columns[static_cast<std::size_t>(i)]);
      expect(oracle.check_probability(probabilities(r, i), column, policy), r, p.spec);
    }
    oracle.set_combines(0);
    for (std::int64_t i = present; i < k; ++i) {
      CHECK(state.indices(r, i) == absent);
      CHECK(reference::widen(state.values(r, i)) ==
            -std::numeric_limits<reference::wide_t<In>>::infinity());
      if (oracle.state().kind == reference::row_kind::finite && p.spec.scale >= 0) {
        CHECK(reference::widen(probabilities(r, i)) == 0);
      }
    }
  }
}

/// The ends of the parts of a row: `parts` ranges of random length, some of them empty.
std::vector<std::int64_t> random_borders(std::int64_t cols, std::size_t parts, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<std::int64_t> anywhere(0, cols);
  std::vector<std::int64_t> borders{0, cols};
  while (borders.size() < parts + 1) {
    borders.push_back(anywhere(generator));
  }
  std::sort(borders.begin(), borders.end());
  return borders;
}

/// Folds the parts, then combines random pairs until one is left.
template <class Out, class Index, class In>
void check_random_tree(queue& q, problem<In>& p, std::int64_t k,
                       const std::vector<std::int64_t>& borders, std::uint64_t seed,
                       const std::vector<std::vector<std::int64_t>>& expected) {
  std::vector<complete_state<In, Out, Index>> parts;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    parts.push_back(folded<Out, Index>(q, p, k, borders[i], borders[i + 1]));
  }
  const int combines = static_cast<int>(parts.size()) - 1;
  std::mt19937_64 generator(seed);
  while (parts.size() > 1) {
    std::shuffle(parts.begin(), parts.end(), generator);
    parts[0].combine_with(q, parts.back());
    q.wait();
    parts.pop_back();
  }
  check_state(q, p, parts[0], combines, expected);
}

template <class Out>
struct list_entry {
  Out value;
  std::int64_t index;
};

template <class Out>
using list = std::vector<list_entry<Out>>;

/// Combines one row's lists.
template <class Out, class Index>
list<Out> combined(queue& q, const list<Out>& more, const list<Out>& to) {
  const auto k = static_cast<std::int64_t>(to.size());
  matrix<Out> values[2] = {{{1, k, 0, 0}, role::output}, {{1, k, 0, 0}, role::output}};
  matrix<Index> indices[2] = {{{1, k, 0, 0}, role::output}, {{1, k, 0, 0}, role::output}};
  for (int side = 0; side < 2; ++side) {
    for (std::int64_t i = 0; i < k; ++i) {
      const auto& entry = (side == 0 ? more : to)[static_cast<std::size_t>(i)];
      values[side](0, i) = entry.value;
      indices[side](0, i) = static_cast<Index>(entry.index);
    }
    values[side].upload();
    indices[side].upload();
  }
  combine_topk(q, values[0].view(), indices[0].view(), values[1].view(), indices[1].view());
  q.wait();
  for (int side = 0; side < 2; ++side) {
    values[side].download();
    indices[side].download();
    CHECK(values[side].stray_writes() == "");
    CHECK(indices[side].stray_writes() == "");
  }
  CHECK(values[0].untouched() == "");
  CHECK(indices[0].untouched() == "");
  list<Out> result;
  for (std::int64_t i = 0; i < k; ++i) {
    result.push_back({values[1](0, i), static_cast<std::int64_t>(indices[1](0, i))});
  }
  return result;
}

template <class Out>
std::vector<std::int64_t> indices_of(const list<Out>& l) {
  std::vector<std::int64_t> indices;
  for (const auto& entry : l) {
    indices.push_back(entry.index);
  }
  return indices;
}

}  // namespace

TEST_SUITE_BEGIN("states");

TEST_CASE_TEMPLATE("an unsplit row: the list, its probabilities and the logsumexp", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using Out = typename Io::output;
  queue q;
  std::uint64_t seed = 71000;
  for (const distribution kind : all_distributions) {
    for (const std::int64_t cols : {1, 6, 100, 2500, 20011}) {
      problem<typename Io::input> p({2, cols, kind, 1, 3, 1, ++seed});
      const auto expected = expected_columns(p, cols);
      for (const std::int64_t k : {1, 5, 64, 1024}) {
        auto state = folded<Out, std::int32_t>(q, p, k, 0, cols);
        check_state(q, p, state, 0, expected);
      }
    }
  }
}

TEST_CASE_TEMPLATE("split anywhere, combined in any order and tree", Io, SOFTFOLD_TEST_IO_TYPES) {
  using Out = typename Io::output;
  queue q;
  std::uint64_t seed = 72000;
  for (const distribution kind :
       {distribution::normal, distribution::wide_normal, distribution::ascending,
        distribution::all_equal, distribution::few_values, distribution::masked,
        distribution::leading_mask, distribution::signed_zeros, distribution::offset_1e4,
        distribution::huge}) {
    for (const std::int64_t cols : {10, 3001, 24000}) {
      problem<typename Io::input> p({2, cols, kind, 1, 3, 1, ++seed});
      const auto expected = expected_columns(p, cols);
      for (const std::int64_t k : {1, 5, 300}) {
        const auto borders = random_borders(cols, 9, seed);
        check_random_tree<Out, std::int64_t>(q, p, k, borders, seed, expected);
        check_random_tree<Out, std::int32_t>(q, p, k, borders, seed + 1, expected);
      }
    }
  }
}

TEST_CASE_TEMPLATE("a split row under a scale", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 73000;
  for (const double scale : {0.7, 2.5, 0.0, -1.3, 1e-30}) {
    problem<typename Io::input> p({2, 3001, distribution::normal, scale, 0, 0, ++seed});
    const auto expected = expected_columns(p, 3001);
    check_random_tree<typename Io::output, std::int64_t>(q, p, 20, random_borders(3001, 5, seed),
                                                         seed, expected);
  }
}

TEST_CASE_TEMPLATE("rows of special values, split", Io, SOFTFOLD_TEST_IO_TYPES) {
  using T = typename Io::input;
  queue q;
  problem<T> p({7, 300, distribution::normal, 1, 0, 0, 74000});
  p.x(0, 250) = nans<T>()[1];
  p.x(1, 5) = T(infinity<T>);
  std::fill(p.x.row(2).begin(), p.x.row(2).end(), T(-infinity<T>));
  std::fill(p.x.row(3).begin() + 2, p.x.row(3).end(), T(-infinity<T>));
  std::fill(p.x.row(4).begin(), p.x.row(4).end(), nans<T>()[2]);
  std::fill(p.x.row(5).begin(), p.x.row(5).end(), T(infinity<T>));
  p.x(6, 10) = nans<T>()[3];
  p.x(6, 20) = T(infinity<T>);
  p.x(6, 30) = T(-infinity<T>);
  p.commit();
  const auto expected = expected_columns(p, 300);
  for (const std::int64_t k : {1, 4, 300, 310}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      check_random_tree<typename Io::output, std::int64_t>(q, p, k, random_borders(300, 6, seed),
                                                           seed, expected);
    }
    for (const empty_row policy : {empty_row::nan, empty_row::zero}) {
      auto state = folded<typename Io::output, std::int64_t>(q, p, k, 0, 300);
      check_state(q, p, state, 0, expected, policy);
    }
  }
}

// To the bit, with rows whose largest elements are zeros of both signs, NaN and -infinity; and with
// so many that a few lanes add what more of them add of fewer rows.
TEST_CASE_TEMPLATE("the state does not depend on the list, nor the list on the state", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  using A = reference::arithmetic_t<T>;
  using state = complete_state<T, A, std::int32_t>;
  queue q;
  for (const auto& size :
       {std::array<std::int64_t, 2>{6, 30}, {6, 131}, {6, 256}, {6, 700}, {6, 5003}, {2500, 510}}) {
    const std::int64_t rows = size[0];
    const std::int64_t cols = size[1];
    CAPTURE(rows);
    CAPTURE(cols);
    problem<T> p({rows, cols, distribution::wide_normal, 0.7, 1, 1, 75000});
    for (std::int64_t c = 0; c < cols; ++c) {
      const double below = -std::fabs(static_cast<double>(reference::widen(p.x(3, c))));
      p.x(3, c) = make<T>(c == 7 ? -0.0 : c == 20 ? 0.0 : below - 1);
      p.x(5, c) = T(-infinity<T>);
    }
    p.x(4, 9) = nans<T>()[1];
    p.commit();
    states<A> alone(rows);
    fold(q, p.x.view(), alone.ref(), {.scale = 0.7});
    for (const std::int64_t k : {0, 1, 9, 40, 200}) {
      if (rows > 6 && k != 40) {
        continue;
      }
      CAPTURE(k);
      state with(rows, k);
      state without(rows, k);
      const fold_topk_options options{.scale = 0.7};
      fold_topk(q, p.x.view(), with.partials.ref(), with.values.view(), with.indices.view(),
                options);
      fold_topk(q, p.x.view(), {}, without.values.view(), without.indices.view(), options);
      q.wait();
      const std::vector<max_sum<A>> both[] = {with.partials.values(), alone.values()};
      CHECK(std::memcmp(both[0].data(), both[1].data(), both[0].size() * sizeof(max_sum<A>)) == 0);
      for (state* s : {&with, &without}) {
        s->values.download();
        s->indices.download();
        check_guards(p, s->values, s->indices);
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        CHECK(std::equal(with.indices.row(r).begin(), with.indices.row(r).end(),
                         without.indices.row(r).begin()));
      }
    }
  }
}

TEST_CASE_TEMPLATE("column offsets, up to the last that the indices can hold", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  problem<T> p({2, 700, distribution::normal, 1, 0, 0, 76000});
  const auto columns = expected_columns(p, 700);
  const auto check = [&]<class Index>(Index, std::int64_t offset) {
    CAPTURE(offset);
    complete_state<T, T, Index> state(2, 7);
    fold_topk(q, p.x.view(), state.partials.ref(), state.values.view(), state.indices.view(),
              {.column_offset = offset});
    q.wait();
    state.indices.download();
    for (std::int64_t r = 0; r < 2; ++r) {
      for (std::int64_t i = 0; i < 7; ++i) {
        CHECK(static_cast<std::int64_t>(state.indices(r, i)) ==
              columns[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] + offset);
      }
    }
  };
  check(std::int32_t{}, 1000);
  check(std::int32_t{}, std::numeric_limits<std::int32_t>::max() - 700);
  check(std::int64_t{}, std::int64_t{1} << 31);
  check(std::int64_t{}, std::numeric_limits<std::int64_t>::max() - 700);
}

TEST_CASE_TEMPLATE("an empty part is the identity of both", T, SOFTFOLD_TEST_INPUT_TYPES) {
  using arithmetic = reference::arithmetic_t<T>;
  queue q;
  problem<T> p({2, 40, distribution::normal, 1, 0, 0, 77000});
  const auto expected = expected_columns(p, 40);
  for (const std::int64_t k : {5, 100}) {
    for (const bool empty_first : {false, true}) {
      auto empty = folded<T, std::int64_t>(q, p, k, 13, 13);
      CHECK(empty.partials.values() == std::vector<max_sum<arithmetic>>(2));
      auto full = folded<T, std::int64_t>(q, p, k, 0, 40);
      (empty_first ? empty : full).combine_with(q, empty_first ? full : empty);
      check_state(q, p, empty_first ? empty : full, 0, expected);
    }
  }
}

TEST_CASE_TEMPLATE("combine_topk by hand", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  const auto v = [](double x) { return make<T>(x); };
  const T nan = nans<T>()[0];
  const T inf = T(infinity<T>);
  const T least = T(-infinity<T>);
  const auto both = [&](const list<T>& a, const list<T>& b,
                        const std::vector<std::int64_t>& expected) {
    CHECK(indices_of(combined<T, std::int64_t>(q, a, b)) == expected);
    CHECK(indices_of(combined<T, std::int64_t>(q, b, a)) == expected);
    CHECK(indices_of(combined<T, std::int32_t>(q, a, b)) == expected);
  };
  both({{v(3), 7}, {v(1), 2}}, {{v(4), 9}, {v(2), 1}}, {9, 7});
  both({{v(3), 7}, {v(1), 2}}, {{v(0), 9}, {v(0), 10}}, {7, 2});
  both({{v(3), 7}, {v(3), 8}}, {{v(3), 2}, {v(3), 9}}, {2, 7});        // ties by index
  both({{v(0), 7}, {v(-0.0), 8}}, {{v(-0.0), 2}, {v(0), 9}}, {2, 7});  // zeros are equal
  both({{nan, 7}, {inf, 8}}, {{nan, 2}, {v(9), 1}}, {2, 7});
  both({{inf, 7}, {v(3), 8}}, {{nan, 9}, {inf, 2}}, {9, 2});
  both({{least, 7}, {least, absent}}, {{least, absent}, {least, absent}}, {7, absent});
  both({{v(1), 7}, {least, absent}}, {{least, 3}, {least, 4}}, {7, 3});
  // A negative index is absent, whatever stands beside it, and comes out as the absent entry.
  const auto found = combined<T, std::int64_t>(q, {{nan, -5}, {v(1), -1}}, {{v(2), 4}, {inf, -9}});
  CHECK(indices_of(found) == std::vector<std::int64_t>{4, absent});
  CHECK(reference::widen(found[1].value) == reference::widen(least));
  // Values keep their sign of zero and their bits.
  CHECK(std::signbit(
      reference::widen(combined<T, std::int64_t>(q, {{v(-0.0), 1}}, {{v(0), 2}})[0].value)));
}

TEST_CASE_TEMPLATE("lists that are not in order give some of their entries", T, float, double) {
  queue q;
  const list<T> a{{1, 10}, {9, 11}, {5, 12}, {-3, absent}, {7, 14}};
  const list<T> b{{2, 20}, {2, absent}, {8, 22}, {1, 23}, {6, 24}};
  for (const auto& entry : combined<T, std::int64_t>(q, a, b)) {
    CHECK((entry.index == absent || (entry.index >= 10 && entry.index <= 24)));
  }
}

TEST_CASE_TEMPLATE("nothing to fold or combine", T, SOFTFOLD_TEST_INPUT_TYPES) {
  using arithmetic = reference::arithmetic_t<T>;
  queue q;
  for (const std::int64_t rows : {0, 3}) {
    problem<T> p({rows, 5, distribution::normal, 1, 0, 0, 1});
    matrix<T> values({rows, 0, 4, 0}, role::output);
    matrix<std::int64_t> indices({rows, 0, 4, 0}, role::output);
    matrix<T> more_values({rows, 0, 4, 0}, role::output);
    matrix<std::int64_t> more_indices({rows, 0, 4, 0}, role::output);
    fold_topk(q, p.x.view(), {}, values.view(), indices.view());
    combine_topk(q, more_values.view(), more_indices.view(), values.view(), indices.view());
    q.wait();
    values.download();
    indices.download();
    CHECK(values.untouched() == "");
    CHECK(indices.untouched() == "");
  }
  logsumexp(q, const_partials_ref(nullptr, dtype_of<arithmetic>, 0),
            vector_ref(nullptr, dtype_of<arithmetic>, 0));
  // Columns of nothing at no address: the identity and absent entries.
  states<arithmetic> identity(2);
  matrix<T> values({2, 3, 0, 0}, role::output);
  matrix<std::int32_t> indices({2, 3, 0, 0}, role::output);
  fold_topk(q, matrix_view<const T>(nullptr, 2, 0, 8), identity.ref(), values.view(),
            indices.view());
  q.wait();
  values.download();
  indices.download();
  CHECK(identity.values() == std::vector<max_sum<arithmetic>>(2));
  for (std::int64_t i = 0; i < 6; ++i) {
    CHECK(indices(i / 3, i % 3) == absent);
    CHECK(reference::widen(values(i / 3, i % 3)) == -infinity<T>);
  }
}

TEST_CASE_TEMPLATE("many rows and long lists", T, float, half) {
  queue q;
  problem<T> p({500, 700, distribution::few_values, 1, 5, 0, 78000});
  const auto expected = expected_columns(p, 700);
  for (const std::int64_t k : {3, 700}) {
    check_random_tree<T, std::int32_t>(q, p, k, {0, 64, 65, 500, 700}, 78001, expected);
  }
}

TEST_CASE_TEMPLATE("log_normalize, part by part", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  using Out = typename Io::output;
  queue q;
  std::uint64_t seed = 79000;
  for (const distribution kind :
       {distribution::normal, distribution::wide_normal, distribution::masked,
        distribution::offset_1e4, distribution::offset_1e7, distribution::huge}) {
    for (const double scale : {1.0, 0.7, 0.0, -1.3}) {
      if (scale != 1 && kind != distribution::normal) {
        continue;
      }
      problem<In> p({4, 3001, kind, scale, 3, 1, ++seed});
      p.x(1, 2000) = nans<In>()[0];
      p.x(2, 100) = In(scale < 0 ? -infinity<In> : infinity<In>);
      std::fill(p.x.row(3).begin(), p.x.row(3).end(), In(scale < 0 ? infinity<In> : -infinity<In>));
      p.commit();
      const std::vector<std::int64_t> borders{0, 1000, 1017, 3001};
      states<reference::arithmetic_t<In>> whole(4);
      for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
        states<reference::arithmetic_t<In>> part(4);
        fold(q, part_of(p.x, borders[i], borders[i + 1]), part.ref(), {.scale = scale});
        combine(q, part.ref(), whole.ref());
        q.wait();
      }
      for (const empty_row policy : {empty_row::nan, empty_row::zero}) {
        matrix<Out> y(p.output_layout(3001), role::output);
        const auto to = y.view();
        for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
          log_normalize(
              q, part_of(p.x, borders[i], borders[i + 1]), whole.ref(),
              matrix_view<Out>(to.data + borders[i], 4, borders[i + 1] - borders[i], to.stride),
              {.scale = scale, .empty_row = policy});
        }
        q.wait();
        y.download();
        check_guards(p, y);
        for (std::int64_t r = 0; r < 4; ++r) {
          auto& oracle = p.rows[static_cast<std::size_t>(r)];
          oracle.set_combines(2);
          expect(oracle.check_log_softmax(std::span<const Out>(y.row(r)), policy), r, p.spec);
          oracle.set_combines(0);
        }
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

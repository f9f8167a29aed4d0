// SPDX-License-Identifier: Apache-2.0
// top-k: the one right answer, for every type, k and kind of tie.
#include "problem.hpp"

#include <random>
#include <type_traits>

namespace softfold::test {

namespace {

/// The values of k to test on a row: the ends, the documented fast range and beyond.
std::vector<std::int64_t> choices_of_k(std::int64_t cols) {
  std::vector<std::int64_t> all{0, 1, 2, 5, 50, 64, 128, 129, 1000, 1024, 1025, cols};
  std::erase_if(all, [&](std::int64_t k) { return k > cols; });
  return all;
}

template <class In, class Out, class Index>
void check_every_k(queue& q, problem<In>& p) {
  const auto columns = expected_columns(p, p.x.cols());
  for (const std::int64_t k : choices_of_k(p.x.cols())) {
    check_topk<Out, Index>(q, p, k, columns);
  }
}

/// Rows that, next to each other, differ in how many elements exceed those before.
template <class T>
problem<T> rows_of_many_kinds(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  constexpr distribution kinds[] = {distribution::normal,     distribution::ascending,
                                    distribution::descending, distribution::all_equal,
                                    distribution::two_values, distribution::few_values,
                                    distribution::masked};
  problem<T> p({rows, cols, distribution::all_equal, 1, 1, 1, seed});
  for (std::int64_t r = 0; r < rows; ++r) {
    fill(kinds[static_cast<std::size_t>(r) % std::size(kinds)], p.x.row(r),
         seed + 500 + static_cast<std::uint64_t>(r));
    if (r % 11 == 10) {
      for (std::int64_t c = r % 40; c < cols; c += 40) {
        p.x(r, c) = nans<T>()[static_cast<std::size_t>(c) % 4];
      }
    }
  }
  p.commit();
  return p;
}

}  // namespace

TEST_SUITE_BEGIN("topk");

TEST_CASE_TEMPLATE("every distribution and k", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 31000;
  for (const distribution kind : all_distributions) {
    for (const std::int64_t cols : {1, 6, 100, 2500}) {
      problem<typename Io::input> p({2, cols, kind, 1, 3, 1, ++seed});
      check_every_k<typename Io::input, typename Io::output, std::int32_t>(q, p);
    }
  }
}

// Kernels may rank elements by a part of their bits first.
TEST_CASE_TEMPLATE("short rows whose elements differ in their last bits", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::mt19937_64 random(31500);
  constexpr double last = std::is_same_v<T, double>     ? 0x1p-52
                          : std::is_same_v<T, float>    ? 0x1p-23
                          : std::is_same_v<T, bfloat16> ? 0x1p-7
                                                        : 0x1p-10;  // from 1 on
  for (const std::int64_t cols : {3, 20, 33, 64, 100, 128, 256, 300, 700, 1024}) {
    // So many of one length that a GPU's warp has several.
    const std::int64_t rows = cols == 100 ? rows_for_gpus(3000) : 41;
    problem<T> p({rows, cols, distribution::normal, 1, cols == 300 ? 3 : 0, 1, 31500});
    for (std::int64_t r = 0; r < p.x.rows(); ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto any = static_cast<std::int64_t>(random() >> 32);
        const std::int64_t kinds[] = {any % 100, c, cols - c, any % 2, any % 100 == 0 ? 1 : 0};
        const double bits = static_cast<double>(kinds[r % 5]) * last;
        const bool together = r % 4 < 2 || any % 8 == 0;  // else other elements are between
        const double x = together ? 1 + bits : static_cast<double>(reference::widen(p.x(r, c)));
        p.x(r, c) = make<T>(r % 2 == 0 ? x : -x);
      }
    }
    p.commit();
    const auto columns = expected_columns(p, cols);
    for (const std::int64_t k : {1, 2, 8, 9, 16, 20, 32, 33, 64, 65}) {
      if (k <= cols) {
        check_topk<T, std::int32_t>(q, p, k, columns);
      }
    }
  }
}

TEST_CASE_TEMPLATE("long rows", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 32000;
  for (const distribution kind :
       {distribution::normal, distribution::ascending, distribution::descending,
        distribution::all_equal, distribution::two_values, distribution::few_values,
        distribution::leading_mask, distribution::masked}) {
    problem<T> p({1, 50257, kind, 1, 0, 0, ++seed});
    const auto columns = expected_columns(p, 50257);
    for (const std::int64_t k : {1, 5, 64, 1024, 4000}) {
      check_topk<T, std::int64_t>(q, p, k, columns);
    }
    if (kind == distribution::normal || kind == distribution::few_values) {
      check_topk<T, std::int32_t>(q, p, 50257, columns);
    }
  }
}

// Backends look for large k in the maxima of groups of elements, whose size grows with the row, and
// divide a row among more threads if there are few.
TEST_CASE_TEMPLATE("large k: some long rows, and many shorter ones", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  const bool narrow = sizeof(T) == 2;
  std::uint64_t seed = 32250;
  for (const distribution kind : {distribution::normal, distribution::few_values}) {
    for (const std::int64_t cols : {40000, narrow ? 600011 : 300007}) {
      problem<T> p({1, cols, kind, 1, 0, 0, ++seed});
      const auto columns = expected_columns(p, 1024);
      for (const std::int64_t k : {129, 1024}) {
        check_topk<T, std::int32_t>(q, p, k, columns);
      }
    }
    problem<T> p({rows_for_gpus(280), narrow ? 17001 : 9001, kind, 1, 3, 1, ++seed});
    const auto columns = expected_columns(p, 2000);
    for (const std::int64_t k : {200, 2000}) {
      check_topk<T, std::int32_t>(q, p, k, columns);
    }
  }
}

// So large that no group of elements can be left out.
TEST_CASE_TEMPLATE("large k of many rows, each of another kind", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {1900, 5001}) {
    auto p = rows_of_many_kinds<T>(rows_for_gpus(280), cols, 32400);
    const auto columns = expected_columns(p, 1500);
    for (const std::int64_t k : {400, 1500}) {
      check_topk<T, std::int32_t>(q, p, k, columns);
    }
  }
}

// Of the groups with the largest maxima, far more elements than are chosen exceed the least of
// those where large ones stand together, and all of them do where they are equal.
TEST_CASE_TEMPLATE("large k where large elements stand together", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  const std::int64_t cols = std::int64_t{80000} / static_cast<std::int64_t>(sizeof(T)) + 7;
  problem<T> p({rows_for_gpus(280), cols, distribution::normal, 1, 1, 1, 32450});
  std::vector<float> levels(static_cast<std::size_t>(cols));
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    const std::int64_t together = std::int64_t{4} << r % 10;
    fill(r % 11 == 10 ? distribution::all_equal : distribution::normal, std::span<float>(levels),
         static_cast<std::uint64_t>(32480 + r));
    for (std::int64_t c = 0; c < cols; ++c) {
      const double noise = r % 11 == 10 ? 0.0 : static_cast<double>(reference::widen(p.x(r, c)));
      const float level = levels[static_cast<std::size_t>(c / together)];
      p.x(r, c) = make<T>(noise + 4.0 * static_cast<double>(level));
    }
  }
  p.commit();
  const auto columns = expected_columns(p, 2000);
  for (const std::int64_t k : {200, 500, 1024, 2000}) {
    check_topk<T, std::int32_t>(q, p, k, columns);
  }
}

// What bounds the k best of a part of a row may leave hardly any element out, and the parts' lists
// may hardly differ.
TEST_CASE_TEMPLATE("some large elements among many equal ones, in all parts of a row but one", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {300, 9000, 90001}) {
    for (const std::int64_t large : {0, 1, 3, 127}) {
      problem<T> p({1, cols, distribution::all_equal, 1, 0, 0, 32500});
      constexpr std::int64_t part = 8192;
      for (std::int64_t c = 0; c < cols; ++c) {
        const bool is_large = c / part != 1 && c % part % 61 == 60 && c % part / 61 < large;
        p.x(0, c) = static_cast<T>(is_large ? 2.0F : 1.0F);
      }
      p.commit();
      const auto columns = expected_columns(p, 129);
      for (const std::int64_t k : {1, 5, 8, 16, 64, 128, 129}) {
        check_topk<T, std::int32_t>(q, p, k, columns);
      }
    }
  }
}

TEST_CASE_TEMPLATE("equal elements of which a later part of a long row leaves the first", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  constexpr std::int64_t cols = 600'003;
  for (const std::int64_t equal : {150, 190, 191, 3000}) {
    problem<T> p({1, cols, distribution::all_equal, 1, 0, 0, 32600});
    for (std::int64_t c = 0; c < cols; ++c) {
      const bool is_equal = c < equal * 61 && c % 61 == 60;
      p.x(0, c) = static_cast<T>(c % 997 == 500 && c > cols - 100'000 ? 2.0F : is_equal ? 1 : 0);
    }
    p.commit();
    const auto columns = expected_columns(p, 2900);
    for (const std::int64_t k : {140, 190, 1000, 2900}) {
      check_topk<T, std::int64_t>(q, p, k, columns);
    }
  }
}

TEST_CASE_TEMPLATE("thousands of equal elements of a 16-bit type", T, half, bfloat16) {
  queue q;
  for (const std::int64_t cols : {8192, 128256}) {
    problem<T> p({2, cols, distribution::normal, 1, 0, 0, 33000});
    const auto columns = expected_columns(p, 3000);
    for (const std::int64_t k : {1, 50, 1024, 3000}) {
      check_topk<T, std::int32_t>(q, p, k, columns);
      check_topk<float, std::int64_t>(q, p, k, columns);
    }
  }
}

TEST_CASE_TEMPLATE("NaNs of every sign and payload stand first, in order of column", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  const auto bad = nans<T>();
  for (const std::int64_t cols : {1, 9, 64, 1500, 20011}) {
    for (const std::int64_t every : {1, 2, 7, 1000}) {
      problem<T> p({2, cols, distribution::wide_normal, 1, 0, 0, 34000});
      for (std::int64_t c = 0; c < cols; ++c) {
        if (c % every == every - 1) {
          p.x(0, c) = bad[static_cast<std::size_t>(c / every) % bad.size()];
        }
        if (c % 3 == 1) {
          p.x(1, c) = T(c % 2 == 0 ? infinity<T> : -infinity<T>);
        }
      }
      p.commit();
      check_every_k<T, T, std::int64_t>(q, p);
    }
  }
}

// The few groups with NaNs have as many infinities as are still wanted, but not the first ones.
TEST_CASE_TEMPLATE("NaNs among the last infinities", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  constexpr std::int64_t cols = 19840;
  problem<T> p({1, cols, distribution::all_equal, 1, 0, 0, 33750});
  for (std::int64_t c = 0; c < 3000; ++c) {
    p.x(0, c) = T(infinity<T>);
  }
  for (std::int64_t c = cols - 1024; c < cols; c += 64) {
    p.x(0, c) = nans<T>()[0];
    for (std::int64_t i = 1; i < 16; ++i) {
      p.x(0, c + i) = T(infinity<T>);
    }
  }
  p.commit();
  const auto columns = expected_columns(p, 500);
  for (const std::int64_t k : {16, 129, 200, 500}) {
    check_topk<T, std::int32_t>(q, p, k, columns);
  }
}

TEST_CASE_TEMPLATE("one NaN, first, in the middle or last", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {2, 33, 1000, 30000}) {
    for (const std::int64_t at : {std::int64_t{0}, cols / 2, cols - 1}) {
      for (const T bad : nans<T>()) {
        problem<T> p({1, cols, distribution::normal, 1, 0, 0, 35000});
        p.x(0, at) = bad;
        p.commit();
        check_topk<T, std::int32_t>(q, p, 2, expected_columns(p, 2));
      }
    }
  }
}

TEST_CASE_TEMPLATE("rows of one special value", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const T value : {T(-infinity<T>), T(infinity<T>), nans<T>()[3], type_limits<T>::lowest(),
                        type_limits<T>::max(), make<T>(-0.0)}) {
    for (const std::int64_t cols : {1, 31, 2049}) {
      problem<T> p({2, cols, distribution::normal, 1, 0, 0, 36000});
      std::fill(p.x.row(0).begin(), p.x.row(0).end(), value);
      p.commit();
      check_every_k<T, T, std::int32_t>(q, p);
    }
  }
}

// Backends read whole vectors: what lies before a row, or after it, is no element of it.
TEST_CASE_TEMPLATE("rows of -infinity, with few numbers or none, wherever they begin", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {31, 700, 2049, 9000, 20011}) {
    for (const std::int64_t offset : {1, 3, 7}) {
      for (const std::int64_t numbers : {0, 2, 5}) {
        problem<T> p({2, cols, distribution::normal, 1, 3, offset, 36500});
        for (std::int64_t c = 0; c < cols; ++c) {
          if (c % (cols / 6) != 1 || c / (cols / 6) >= numbers) {
            p.x(0, c) = T(-infinity<T>);
          }
        }
        p.commit();
        check_every_k<T, T, std::int32_t>(q, p);
      }
    }
  }
}

// A part of a row with fewer elements than are chosen bounds nothing.
TEST_CASE_TEMPLATE("rows whose last part has fewer elements than k, or hardly more", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  const std::int64_t width = 16 / static_cast<std::int64_t>(sizeof(T));
  for (const std::int64_t parts : {1, 3}) {
    for (const std::int64_t vectors : {1, 20, 40, 64}) {
      const std::int64_t cols = parts * 2048 * width + vectors * width - 1;
      for (const distribution kind : {distribution::normal, distribution::few_values}) {
        problem<T> p({1, cols, kind, 1, 0, 1, 36750});
        const auto columns = expected_columns(p, 128);
        for (const std::int64_t k : {5, 64, 128}) {
          check_topk<T, std::int32_t>(q, p, k, columns);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("neighbours in the order are told apart", T, SOFTFOLD_TEST_INPUT_TYPES) {
  // Every column next to the other in value, around 1, around 0 and at both ends.
  queue q;
  problem<T> p({4, 600, distribution::normal, 1, 0, 0, 37000});
  const auto step = [](std::int64_t i) {
    if constexpr (is_16_bit<T>) {
      return T::from_bits(static_cast<std::uint16_t>(i));
    } else if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(i));
    } else {
      return std::bit_cast<double>(static_cast<std::uint64_t>(i));
    }
  };
  const auto bits = [](T value) {
    if constexpr (is_16_bit<T>) {
      return static_cast<std::int64_t>(value.bits);
    } else if constexpr (std::is_same_v<T, float>) {
      return static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(value));
    } else {
      return std::bit_cast<std::int64_t>(value);
    }
  };
  for (std::int64_t c = 0; c < 600; ++c) {
    const std::int64_t shuffled = c * 7 % 600;
    p.x(0, c) = step(bits(make<T>(1.0)) - 300 + shuffled);
    p.x(1, c) = step(c % 2 == 0 ? shuffled : bits(make<T>(-0.0)) + shuffled);
    p.x(2, c) = step(bits(T(infinity<T>)) - shuffled);
    p.x(3, c) = step(bits(T(-infinity<T>)) - shuffled);
  }
  p.commit();
  check_every_k<T, T, std::int64_t>(q, p);
}

TEST_CASE_TEMPLATE("short rows of every number of vectors a lane", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 38000;
  for (const distribution kind : all_distributions) {
    for (const std::int64_t cols : {4, 16, 31, 40, 64, 90, 128, 250}) {
      problem<T> p({3, cols, kind, 1, 0, 0, ++seed});
      if (cols > 30) {
        p.x(1, 17) = make<T>(-0.0);
        p.x(1, 3) = make<T>(0.0);
        p.x(2, 29) = nans<T>()[1];
        p.x(2, 0) = T(-infinity<T>);
        p.commit();
      }
      const auto columns = expected_columns(p, cols);
      for (const std::int64_t k : {2, 4, 8, 9, 17, 33, 100}) {
        if (k <= cols) {
          check_topk<T, std::int32_t>(q, p, k, columns);
        }
      }
    }
  }
}

// GPUs give several to a warp.
TEST_CASE_TEMPLATE("short rows, each of another kind", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 38500;
  for (const std::int64_t cols : {37, 80, 111, 190, 224, 500, 1000, 1999}) {
    auto p = rows_of_many_kinds<T>(66, cols, ++seed);
    const auto columns = expected_columns(p, 32);
    for (const std::int64_t k : {1, 2, 8, 9, 16, 17, 32}) {
      check_topk<T, std::int32_t>(q, p, k, columns);
    }
  }
}

// So many rows that GPUs give one to a warp.
TEST_CASE_TEMPLATE("many rows, each of another kind", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  auto p = rows_of_many_kinds<T>(rows_for_gpus(2150), static_cast<std::int64_t>(4200 / sizeof(T)),
                                 39000);
  const auto columns = expected_columns(p, 17);
  for (const std::int64_t k : {1, 5, 16, 17}) {
    check_topk<T, std::int32_t>(q, p, k, columns);
  }
}

// So many that GPUs give one to a block, which works on it part by part.
TEST_CASE_TEMPLATE("many long rows, each of another kind, with a short last part", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  const std::int64_t width = 16 / static_cast<std::int64_t>(sizeof(T));
  for (const std::int64_t vectors : {40, 2048 + 500}) {
    auto p = rows_of_many_kinds<T>(rows_for_gpus(800), (2048 + vectors) * width - 1, 39250);
    const auto columns = expected_columns(p, 64);
    for (const std::int64_t k : {1, 16, 64}) {
      check_topk<T, std::int32_t>(q, p, k, columns);
    }
  }
}

// What the first parts of a row tell bounds its best from below; all of these come after them.
TEST_CASE_TEMPLATE("the best of each row far apart among its last elements", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  const std::int64_t cols = (2 * 2048 + 300) * 16 / static_cast<std::int64_t>(sizeof(T)) - 1;
  constexpr std::int64_t best_of_row[] = {1, 5, 16, 64, 100};
  for (const std::int64_t rows : {std::int64_t{30}, rows_for_gpus(810)}) {
    problem<T> p({rows, cols, distribution::all_equal, 1, 0, 0, 39500});
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t best = best_of_row[r % 5];
      const double others[] = {1, -1, -1, 1, -1, -infinity<double>};
      const auto row = p.x.row(r);
      std::fill(row.begin(), row.end(), make<T>(others[r % 6]));
      for (std::int64_t i = 0; i < best; ++i) {
        const T values[] = {make<T>(2 + static_cast<double>(i)),
                            make<T>(i % 2 == 0 ? 0.0 : -0.0),
                            make<T>(-0.5),
                            T(infinity<T>),
                            nans<T>()[0],
                            make<T>(-3)};
        p.x(r, cols - 1 - i * (256 / best)) = values[r % 6];
      }
    }
    p.commit();
    const auto columns = expected_columns(p, 100);
    for (const std::int64_t k : best_of_row) {
      check_topk<T, std::int32_t>(q, p, k, columns);
    }
  }
}

TEST_CASE_TEMPLATE("nothing chosen, nothing written", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t rows : {0, 3}) {
    for (const std::int64_t cols : {0, 5}) {
      problem<T> p({rows, cols, distribution::normal, 1, 0, 0, 1});
      matrix<T> values({rows, 0, 4, 0}, role::output);
      matrix<std::int32_t> indices({rows, 0, 4, 0}, role::output);
      topk(q, p.x.view(), values.view(), indices.view());
      q.wait();
      values.download();
      indices.download();
      CHECK(values.untouched() == "");
      CHECK(indices.untouched() == "");
    }
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

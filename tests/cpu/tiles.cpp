// SPDX-License-Identifier: Apache-2.0
// Attention's kernel for AMX with emulated tiles, on any processor, against the baseline's kernel,
// which has f32 products; and, where there are tiles, the emulation against them.
#include "pairs_portable.hpp"
#include "tiles_emulated.hpp"

#include <backends/host/kernels/attention_amx.hpp>
#include <backends/host/machine.hpp>
#if defined(SOFTFOLD_HAS_AMX)
#include <backends/host/kernels/tiles_amx.hpp>
#endif

#include <softfold/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::host;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr double unit = 0x1p-24;

bf16_bits rounded(float x) {
  bf16_bits y;
  vec<float>::narrow(x, &y);
  return y;
}

struct states {
  std::vector<float> max, weighted;
  std::vector<double> sum;
};

/// Rows of one head over a chunk of keys.
struct problem {
  int rows, keys, dim, v_dim;
  double scale = 0.3;
  double softcap = 0;
  std::vector<bf16_bits> q, k, v;
  std::vector<std::int64_t> offsets, first, last, position;
  std::vector<double> slope;  ///< empty without ALiBi
  std::vector<float> bias_values;
  std::vector<const void*> bias;  ///< empty without

  problem(int rows_, int keys_, int dim_, int v_dim_, unsigned seed)
      : rows(rows_), keys(keys_), dim(dim_), v_dim(v_dim_), random_(seed) {
    fill(q, rows * dim);
    fill(k, keys * dim);
    fill(v, keys * v_dim);
    for (int r = 0; r < rows; ++r) {
      offsets.push_back(std::int64_t{r} * dim);
      first.push_back(0);
      last.push_back(keys);
      position.push_back(r);
    }
  }
  /// Each row has some keys, and some rows none.
  void add_ranges() {
    for (int r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      first[row] = below(keys);
      last[row] = std::min<std::int64_t>(keys, first[row] + below(keys / 2 + 1));
    }
  }
  void add_bias() {
    std::normal_distribution<float> normal;
    for (int i = 0; i < rows * keys; ++i) {
      bias_values.push_back(below(5) == 0 ? -inf : normal(random_));
    }
    for (int r = 0; r < rows; ++r) {
      bias.push_back(bias_values.data() + static_cast<std::ptrdiff_t>(r) * keys);
    }
  }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_()) % n; }

  /// States by a kernel that takes `at_once` rows, of v or of its magnitudes.
  template <class Kernel>
  states fold(const Kernel& kernel, int at_once, int key_block, bool magnitudes = false) const {
    const std::int64_t stride = attention_padded(v_dim);
    std::vector<bf16_bits> values = v;
    for (bf16_bits& x : values) {
      x.bits = static_cast<std::uint16_t>(magnitudes ? x.bits & 0x7fffU : x.bits);
    }
    const int room = (rows + attention_row_block - 1) / attention_row_block * attention_row_block;
    states s{std::vector<float>(static_cast<std::size_t>(room)),
             std::vector<float>(static_cast<std::size_t>(room * stride)),
             std::vector<double>(static_cast<std::size_t>(room))};
    std::vector<float> scratch(
        static_cast<std::size_t>(attention_scratch_elements(room, key_block, dim, v_dim) + 16));
    auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
    for (int r = 0; r < rows; r += at_once) {
      const attention_rows some{.q = q.data(),
                                .q_offsets = offsets.data() + r,
                                .k = k.data(),
                                .v = values.data(),
                                .k_stride = dim,
                                .v_stride = v_dim,
                                .rows = std::min(at_once, rows - r),
                                .dim = dim,
                                .v_dim = v_dim,
                                .begin = 0,
                                .end = keys,
                                .first = first.data() + r,
                                .last = last.data() + r,
                                .position = position.data() + r,
                                .slope = slope.empty() ? nullptr : slope.data() + r,
                                .bias = bias.empty() ? nullptr : bias.data() + r,
                                .bias_type = input_f32,
                                .scale = scale,
                                .softcap = softcap,
                                .max = s.max.data() + r,
                                .sum = s.sum.data() + r,
                                .weighted = s.weighted.data() + r * stride,
                                .weighted_stride = stride,
                                .scratch = reinterpret_cast<void*>((address + 63) / 64 * 64)};
      kernel(&some);
    }
    return s;
  }

  /// Of a score of a row, as docs/attention.md has it, and a bias' or ALiBi's part.
  [[nodiscard]] double score_error(int r) const {
    double most = 0;
    for (std::int64_t j = first[static_cast<std::size_t>(r)]; j < last[static_cast<std::size_t>(r)];
         ++j) {
      double products = 0;
      for (int i = 0; i < dim; ++i) {
        products += std::fabs(
            static_cast<double>(widened(q[static_cast<std::size_t>(std::int64_t{r} * dim + i)])) *
            static_cast<double>(widened(k[static_cast<std::size_t>(j * dim + i)])));
      }
      double added = slope.empty() ? 0
                                   : slope[static_cast<std::size_t>(r)] *
                                         static_cast<double>(std::llabs(r - j));
      if (!bias.empty()) {
        const float b = bias_values[static_cast<std::size_t>(r * keys + j)];
        added += b == -inf ? 0 : std::fabs(static_cast<double>(b));
      }
      const double score = std::fabs(scale) * products;
      most = std::max(most, (dim + 2) * score + (added > 0 ? 2 * added + score : 0));
    }
    return most * unit;
  }

  void check() const {
    const auto baseline = baseline_kernels.attention[input_bf16];
    const states expected = fold(baseline, attention_row_block, attention_key_block);
    const states spread = fold(baseline, attention_row_block, attention_key_block, true);
    const states found =
        fold([](const attention_rows* some) { amx_fold<emulated_tiles>(*some).run(); },
             attention_row_block * attention_most_row_blocks, attention_most_key_block);
    const std::int64_t stride = attention_padded(v_dim);
    const double few = 16 + std::log2(keys + 1.0);
    int wrong = 0;
    for (int r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      const double g = score_error(r);
      const auto lse = [&](const states& s) {
        return static_cast<double>(s.max[row]) + std::log(s.sum[row]);
      };
      const double a = lse(found);
      const double b = lse(expected);
      const bool same_kind = std::isnan(b) ? std::isnan(a) : std::isinf(b) && a == b;
      if (!same_kind && !(std::fabs(a - b) <= 2 * ((std::fabs(b) + few) * unit + g))) {
        ++wrong;
        MESSAGE("row ", r, ": logsumexp ", a, ", expected ", b);
      }
      for (std::int64_t c = 0; c < v_dim && std::isfinite(b); ++c) {
        const auto at = static_cast<std::size_t>(r * stride + c);
        const double x = static_cast<double>(found.weighted[at]) / found.sum[row];
        const double y = static_cast<double>(expected.weighted[at]) / expected.sum[row];
        const double magnitude = static_cast<double>(spread.weighted[at]) / spread.sum[row];
        if (std::isfinite(y)
                ? !(std::fabs(x - y) <= (0x1p-8 + 4 * g + 2 * few * unit) * magnitude + 0x1p-126)
                : std::isfinite(x)) {
          ++wrong;
          MESSAGE("row ", r, ", column ", c, ": ", x, ", expected ", y);
          break;
        }
      }
    }
    CHECK(wrong == 0);
  }

 private:
  void fill(std::vector<bf16_bits>& x, int n) {
    std::normal_distribution<float> normal;
    for (int i = 0; i < n; ++i) {
      x.push_back(rounded(normal(random_)));
    }
  }
  std::mt19937 random_;
};

}  // namespace

TEST_SUITE_BEGIN("tiles");

TEST_CASE("rows, keys and dimensions that fill no tile") {
  const struct {
    int rows, keys, dim, v_dim;
  } shapes[] = {{1, 1, 1, 1},     {9, 31, 2, 17},  {32, 32, 32, 32}, {33, 65, 33, 16},
                {17, 600, 40, 8}, {97, 40, 64, 1}, {50, 512, 7, 49}, {31, 1024, 16, 16}};
  for (const auto& s : shapes) {
    CAPTURE(s.rows);
    CAPTURE(s.keys);
    CAPTURE(s.dim);
    CAPTURE(s.v_dim);
    problem p(s.rows, s.keys, s.dim, s.v_dim, 1);
    p.check();
    p.add_ranges();
    p.check();
  }
}

TEST_CASE("what else becomes of a score") {
  for (const double scale : {0.3, -0.7, 0.0, 0x1p50}) {
    CAPTURE(scale);
    problem p(40, 70, 24, 20, 2);
    p.scale = scale;
    p.check();
    p.add_ranges();
    p.softcap = 5;
    p.check();
  }
  problem biased(40, 70, 24, 20, 3);
  biased.add_bias();
  biased.check();
  problem far(40, 70, 24, 20, 4);
  far.slope.assign(40, 0.25);
  far.check();
}

TEST_CASE("elements that tiles lose, and such as are not numbers") {
  problem p(40, 600, 24, 20, 5);
  p.add_ranges();
  for (const int special : {0x0001, 0x8003, 0x7f80, 0xff80, 0x7fc0, 0x1f00, 0x0080}) {
    const auto bits = static_cast<std::uint16_t>(special);
    CAPTURE(bits);
    problem of_value = p;
    problem of_key = p;
    problem of_query = p;
    for (std::int64_t i = 0; i < 6; ++i) {
      of_value.v[static_cast<std::size_t>(i * 100 * 20 + i)] = {bits};
      of_key.k[static_cast<std::size_t>(i * 100 * 24 + i)] = {bits};
      of_query.q[static_cast<std::size_t>(i * 6 * 24 + i)] = {bits};
    }
    of_value.check();
    of_key.check();
    of_query.check();
  }
  problem tiny = p;  // all of them apart
  for (bf16_bits& x : tiny.v) {
    x.bits = static_cast<std::uint16_t>((x.bits & 0x807fU) | 0x0080U);
  }
  tiny.check();
  problem small_keys = p;  // products of subnormal elements are all that there is
  small_keys.scale = 0x1p60;
  for (bf16_bits& x : small_keys.k) {
    x.bits = static_cast<std::uint16_t>((x.bits & 0x803fU) | 0x0040U);
  }
  for (bf16_bits& x : small_keys.q) {
    x.bits = static_cast<std::uint16_t>((x.bits & 0x807fU) | 0x5f80U);
  }
  small_keys.check();
}

#if defined(SOFTFOLD_HAS_AMX)
TEST_CASE("the emulation has the processor's bits") {
  try {
    choose_kernels("amx");
  } catch (const error&) {
    MESSAGE("not on this processor");
    return;
  }
  struct alignas(64) tile {
    std::uint32_t of[256];
  };
  const auto dot = [](auto&& tiles, const tile& a, const tile& b, const tile& before) {
    tile sums;
    tiles.configure();
    tiles.template load<0>(&before, 16);
    tiles.template load<1>(&a, 16);
    tiles.template load<2>(&b, 16);
    tiles.template dot<0, 1, 2>();
    tiles.template store<0>(&sums, 16);
    tiles.release();
    return sums;
  };
  std::mt19937 random(6);
  for (int round = 0; round < 40; ++round) {
    // Exponents near 0, or any whose products are in range, and subnormal elements among them.
    const auto element = [&] {
      const auto any = static_cast<std::uint32_t>(random());
      const std::uint32_t exponent =
          round % 2 == 0 ? 120 + (any >> 16) % 16 : 64 + (any >> 16) % 126;
      return any % 9 == 0 ? any & 0x807fU : (any & 0x807fU) | exponent << 7;
    };
    tile a;
    tile b;
    tile sums;
    for (int i = 0; i < 256; ++i) {
      a.of[i] = element() | element() << 16;
      b.of[i] = element() | element() << 16;
      const float before = static_cast<float>(static_cast<std::int32_t>(random())) *
                           (i % 5 == 0 ? 0x1p-149F : 0x1p-20F);
      sums.of[i] = __builtin_bit_cast(std::uint32_t, before);
    }
    const tile expected = dot(amx_tiles(), a, b, sums);
    const tile found = dot(emulated_tiles(), a, b, sums);
    CHECK(std::memcmp(&expected, &found, sizeof found) == 0);
  }
}
#endif

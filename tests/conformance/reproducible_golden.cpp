// SPDX-License-Identifier: Apache-2.0
// The bits of docs/numerics.md, version 1, as they are: a hash of each function's results over 200
// shapes, for each pair of types. They hold the definition in core/ and every backend to what was
// released; another hash is another version.
#include "data.hpp"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::test;

namespace {

constexpr int shapes = 200;

enum function { of_softmax, of_log_softmax, of_logsumexp, of_topk, of_backward, of_log_backward };
constexpr const char* function_names[] = {"softmax",          "log_softmax",
                                          "logsumexp",        "softmax_topk",
                                          "softmax_backward", "log_softmax_backward"};

// For f32, f64, f16, f16 to f32, bf16, bf16 to f32.
constexpr std::uint64_t golden[6][6] = {
    {0x71dee26945091845U, 0xc2b35774f572102fU, 0x7a2e38f5d1e56021U, 0xa486b484a980dfd5U,
     0x7b0f0a24d1dbdf36U, 0x66bae8816371099eU},
    {0xf61a202695a2ac52U, 0xd2ca9a183dcd63eaU, 0x41b4eafd8d4a3f6fU, 0x5d204aa6b2402df4U,
     0x9f7563b36ae3469dU, 0x7c50f4bf511fe37dU},
    {0x925749d5f8d56f62U, 0x455278ee4e94c424U, 0x4e4b318b1cfc7e45U, 0x6b88a57c14ddbec8U,
     0xeb16e0f72e362272U, 0xc6c3305663ae87dbU},
    {0x423d0a2af4814950U, 0x82dd4713fa4209f8U, 0xef8895efca1e03a8U, 0x68bb25b06124faecU,
     0x1eb30b2928d416d9U, 0xc184d474d9fcc797U},
    {0x5e63dbe4c0821f6aU, 0x197adb18d15d70b4U, 0x628bb6589bd0df66U, 0xf5e92df1f49072cfU,
     0x7b5930f7211a1166U, 0xe517d2679ea7a4e9U},
    {0x9c8a9de9fbc7b66bU, 0x2078ad7c955bf64bU, 0x3b3281ec5041a755U, 0x98d371555b93c85cU,
     0x592fb08e286503f4U, 0x186ed2b918c6992aU},
};

template <class Io>
constexpr std::size_t column_of() {
  constexpr dtype in = dtype_of<typename Io::input>;
  constexpr bool widens = !std::is_same_v<typename Io::input, typename Io::output>;
  return in == dtype::f32 ? 0U : in == dtype::f64 ? 1U : (in == dtype::f16 ? 2U : 4U) + widens;
}

/// Numbers of integers alone: the same on every machine.
class integers {
 public:
  explicit integers(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}
  /// From 0 to below `end`.
  std::int64_t below(std::int64_t end) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int64_t>((state_ >> 33) % static_cast<std::uint64_t>(end));
  }

 private:
  std::uint64_t state_;
};

struct shape {
  std::int64_t rows, cols, padding, offset;
  double scale;
};

shape shape_of(int i) {
  constexpr double scales[] = {1, 1, 0.5, 0.37, -2, 1, 0, 1e-30, 1e30, 3};
  const std::int64_t cols = i % 40 == 39 ? 16000 + 1000 * (i / 40) + i
                            : i < 40     ? i + 1
                                         : (i * i * 7 + i * 13) % 3100 + 1;
  return {1 + i % 3, cols, i % 4, i % 5, scales[i % 10]};
}

template <class T>
void fill_x(int i, matrix<T>& x) {
  integers random(static_cast<std::uint64_t>(i));
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t c = 0; c < x.cols(); ++c) {
      const auto number = static_cast<double>(random.below(4096) - 2048);
      double value = number / 256;
      switch (i % 8) {
        case 3:
          value = number / 16;
          break;
        case 4:
          value = random.below(3) == 0 ? -inf : value;
          break;
        case 5:
          value = 1e5 + number;
          break;
        case 6:
          value = number / 4 - 300;
          break;
        default:
          break;
      }
      x(r, c) = make<T>(value);
    }
  }
  if (i == 77 || i == 117) {
    x(0, x.cols() / 2) = make<T>(i == 77 ? std::numeric_limits<double>::quiet_NaN() : inf);
  }
  x.upload();
}

class hash {
 public:
  template <class T>
  void add(matrix<T>& m) {
    m.download();
    for (std::int64_t r = 0; r < m.rows(); ++r) {
      for (const std::byte b : std::as_bytes(m.row(r))) {
        value_ = (value_ ^ static_cast<std::uint64_t>(b)) * 0x100000001b3U;
      }
      elements_ += m.cols();
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }
  [[nodiscard]] std::int64_t elements() const { return elements_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
  std::int64_t elements_ = 0;
};

template <class Io>
void add_rows(queue& q, int i, hash (&of)[6]) {
  using In = typename Io::input;
  using Out = typename Io::output;
  const shape s = shape_of(i);
  const std::int64_t k = std::min<std::int64_t>(s.cols, 1 + i % 9);
  matrix<In> x({s.rows, s.cols, s.padding, s.offset}, role::input);
  fill_x(i, x);
  matrix<Out> y({s.rows, s.cols, 0, s.offset}, role::output);
  matrix<Out> logarithms({s.rows, s.cols, 0, s.offset}, role::output);
  matrix<Out> lse({s.rows, 1, 0, 0}, role::output);
  matrix<Out> lse_of_list({s.rows, 1, 0, 0}, role::output);
  matrix<Out> list({s.rows, k, 0, 0}, role::output);
  matrix<std::int32_t> indices({s.rows, k, 0, 0}, role::output);
  softmax(q, x.view(), y.view(), {.scale = s.scale});
  log_softmax(q, x.view(), logarithms.view(), {.scale = s.scale});
  logsumexp(q, x.view(), lse.vector(), {.scale = s.scale});
  softmax_topk(q, x.view(), list.view(), indices.view(),
               {.scale = s.scale, .lse = lse_of_list.vector()});
  q.wait();
  of[of_softmax].add(y);
  of[of_log_softmax].add(logarithms);
  of[of_logsumexp].add(lse);
  of[of_topk].add(list);
  of[of_topk].add(lse_of_list);
}

template <class Io>
void add_gradients(queue& q, int i, hash (&of)[6]) {
  using In = typename Io::input;
  using Out = typename Io::output;
  const shape s = shape_of(i);
  integers random(static_cast<std::uint64_t>(1000 + i));
  matrix<In> y({s.rows, s.cols, s.padding, s.offset}, role::input);
  matrix<In> logarithms({s.rows, s.cols, s.padding, s.offset}, role::input);
  matrix<In> dy({s.rows, s.cols, 0, s.offset}, role::input);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      y(r, c) = make<In>(static_cast<double>(random.below(4097)) / 65536);
      logarithms(r, c) =
          make<In>(-static_cast<double>(random.below(4096)) / (i % 7 == 6 ? 32 : 256));
      dy(r, c) = make<In>(static_cast<double>(random.below(4096) - 2048) / 512);
    }
  }
  y.upload();
  logarithms.upload();
  dy.upload();
  matrix<Out> dx({s.rows, s.cols, 0, 0}, role::output);
  matrix<Out> log_dx({s.rows, s.cols, 0, 0}, role::output);
  softmax_backward(q, y.view(), dy.view(), dx.view(), {.scale = s.scale});
  log_softmax_backward(q, logarithms.view(), dy.view(), log_dx.view(), {.scale = s.scale});
  q.wait();
  of[of_backward].add(dx);
  of[of_log_backward].add(log_dx);
}

}  // namespace

TEST_SUITE_BEGIN("reproducible");

TEST_CASE_TEMPLATE("results are those of version 1", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q(queue_options{.numerics = numerics::reproducible});
  hash of[6];
  for (int i = 0; i < shapes; ++i) {
    add_rows<Io>(q, i, of);
    add_gradients<Io>(q, i, of);
  }
  for (std::size_t f = 0; f < 6; ++f) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "0x%016" PRIx64 "U", of[f].value());
    INFO(std::string(function_names[f]) << ": " << std::string(text.data()));
    CHECK(of[f].value() == golden[f][column_of<Io>()]);
    CHECK(of[f].elements() > (f == of_logsumexp ? 300 : 1000));
  }
}

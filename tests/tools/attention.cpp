// SPDX-License-Identifier: Apache-2.0
// softfold attention: files against the definition in double.
#include "support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// An array's shape with all four axes.
std::vector<std::int64_t> four_axes(std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  return shape;
}

double element_of(const array& a, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d) {
  const std::vector<std::int64_t> n = four_axes(a.shape);
  const std::int64_t at[] = {b, h, t, d};
  std::int64_t index = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    index = index * n[i] + std::min(at[i], n[i] - 1);  // an axis of 1 is that of all
  }
  return a.values[static_cast<std::size_t>(index)];
}

struct result {
  std::vector<double> out;
  std::vector<double> lse;
};

/// `score(product, b, h, query, key)` is -infinity where there is no key.
template <class Score>
result expected(const array& q, const array& k, const array& v, const Score& score) {
  const std::vector<std::int64_t> n = four_axes(q.shape);
  const std::vector<std::int64_t> keys = four_axes(k.shape);
  const std::int64_t group = n[1] / keys[1];
  result all;
  for (std::int64_t b = 0; b < n[0]; ++b) {
    for (std::int64_t h = 0; h < n[1]; ++h) {
      for (std::int64_t i = 0; i < n[2]; ++i) {
        double sum = 0;
        std::vector<double> o(static_cast<std::size_t>(v.cols()));
        for (std::int64_t j = 0; j < keys[2]; ++j) {
          double product = 0;
          for (std::int64_t d = 0; d < q.cols(); ++d) {
            product += element_of(q, b, h, i, d) * element_of(k, b, h / group, j, d);
          }
          const double weight = std::exp(score(product, b, h, i, j));
          sum += weight;
          for (std::int64_t d = 0; d < v.cols(); ++d) {
            o[static_cast<std::size_t>(d)] += weight * element_of(v, b, h / group, j, d);
          }
        }
        for (const double each : o) {
          all.out.push_back(sum > 0 ? each / sum : 0);
        }
        all.lse.push_back(std::log(sum));
      }
    }
  }
  return all;
}

void check_close(const array& found, const std::vector<double>& right, double relative) {
  REQUIRE(found.values.size() == right.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    CAPTURE(i);
    CHECK((found.values[i] == right[i] ||
           std::abs(found.values[i] - right[i]) <= relative * (1 + std::abs(right[i]))));
  }
}

struct files : work_directory {
  array q, k, v;
  files(array q_, array k_, array v_) : q(std::move(q_)), k(std::move(k_)), v(std::move(v_)) {
    write_file(path("q.npy"), npy_bytes(q));
    write_file(path("k.npy"), npy_bytes(k));
    write_file(path("v.npy"), npy_bytes(v));
  }
  [[nodiscard]] outcome attend(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  void attends(const std::vector<std::string>& more) const {
    const outcome result = attend(more);
    CHECK(result.err == "");
    REQUIRE(result.exit_code == 0);
  }
  void refuses(const std::vector<std::string>& more, const std::string& text) const {
    const outcome result = attend(more);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find(text) != std::string::npos);
    CHECK(!names().contains("o.npy"));
  }
};

}  // namespace

TEST_SUITE_BEGIN("attention");

TEST_CASE("two to four axes, every type") {
  const std::vector<std::vector<std::int64_t>> leading = {{}, {4}, {3, 4}};
  const std::vector<std::vector<std::int64_t>> of_keys = {{}, {2}, {3, 2}};
  for (const dtype type : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16}) {
    for (std::size_t i = 0; i < leading.size(); ++i) {
      const auto shape = [](std::vector<std::int64_t> first, std::int64_t tokens,
                            std::int64_t dim) {
        first.insert(first.end(), {tokens, dim});
        return first;
      };
      const files f(random_array(type, shape(leading[i], 5, 9), 1),
                    random_array(type, shape(of_keys[i], 7, 9), 2),
                    random_array(type, shape(of_keys[i], 7, 3), 3));
      f.attends(type == dtype::bf16 ? std::vector<std::string>{"--bf16", "--lse", "l.npy"}
                                    : std::vector<std::string>{"--lse", "l.npy"});
      const result right =
          expected(f.q, f.k, f.v, [](double product, auto...) { return product / 3; });
      const array o = read_npy(f.path("o.npy"));
      const array lse = read_npy(f.path("l.npy"));
      CHECK(o.type == type);
      CHECK(o.shape == shape(leading[i], 5, 3));
      CHECK(lse.type == (type == dtype::f64 ? dtype::f64 : dtype::f32));
      CHECK(lse.shape == std::vector<std::int64_t>(o.shape.begin(), o.shape.end() - 1));
      check_close(o, right.out,
                  type == dtype::f64   ? 1e-14
                  : type == dtype::f32 ? 1e-5
                  : type == dtype::f16 ? 1e-3
                                       : 8e-3);
      check_close(lse, right.lse, type == dtype::f64 ? 1e-14 : 1e-5);
    }
  }
}

TEST_CASE("every option") {
  const files f(random_array(dtype::f32, {2, 4, 6, 8}, 4),
                random_array(dtype::f32, {2, 2, 9, 8}, 5),
                random_array(dtype::f32, {2, 2, 9, 8}, 6));
  array bias = random_array(dtype::f32, {4, 1, 9}, 7);
  bias.values[3] = -infinity;
  write_file(f.path("b.npy"), npy_bytes(bias));
  f.attends({"--scale", "0.25", "--softcap", "2", "--bias", "b.npy", "--causal", "bottom-right",
             "--window-left", "4", "--out-dtype", "f32", "--threads", "2"});
  const auto score = [&](double product, std::int64_t b, std::int64_t h, std::int64_t i,
                         std::int64_t j) {
    const std::int64_t place = i + 3;
    return j > place || j < place - 4 ? -infinity
                                      : 2 * std::tanh(product / 8) + element_of(bias, b, h, i, j);
  };
  check_close(read_npy(f.path("o.npy")), expected(f.q, f.k, f.v, score).out, 1e-5);
  f.attends({"--causal", "top-left", "--window-right", "0"});
  check_close(read_npy(f.path("o.npy")),
              expected(f.q, f.k, f.v,
                       [](double product, auto, auto, std::int64_t i, std::int64_t j) {
                         return j > i ? -infinity : product / std::sqrt(8.0);
                       })
                  .out,
              1e-5);
}

TEST_CASE("places in a whole, and sinks") {
  const files f(random_array(dtype::f32, {2, 4, 6, 8}, 4),
                random_array(dtype::f32, {2, 2, 9, 8}, 5),
                random_array(dtype::f32, {2, 2, 9, 8}, 6));
  const auto gives = [&](const std::vector<std::string>& options) {
    f.attends(options);
    return read_npy(f.path("o.npy")).values;
  };
  const std::vector<double> right = gives({"--causal", "bottom-right"});
  CHECK(gives({"--causal", "top-left"}) != right);
  CHECK(gives({"--causal", "top-left", "--query-offset", "3"}) == right);
  CHECK(gives({"--causal", "top-left", "--query-offset", "8", "--key-offset", "5"}) == right);
  CHECK(gives({"--causal", "bottom-right", "--keys", "11", "--query-offset", "-2"}) == right);

  const array sinks{dtype::f64, {4}, {1, -infinity, 8, -2}};
  write_file(f.path("s.npy"), npy_bytes(sinks));
  f.attends({"--sinks", "s.npy", "--lse", "l.npy"});
  result with =
      expected(f.q, f.k, f.v, [](double product, auto...) { return product / std::sqrt(8.0); });
  for (std::size_t row = 0; row < with.lse.size(); ++row) {
    const double sum = std::exp(with.lse[row]);
    const double whole = sum + std::exp(sinks.values[row / 6 % 4]);
    with.lse[row] = std::log(whole);
    for (std::size_t d = 0; d < 8; ++d) {
      with.out[row * 8 + d] *= sum / whole;
    }
  }
  check_close(read_npy(f.path("o.npy")), with.out, 1e-5);
  check_close(read_npy(f.path("l.npy")), with.lse, 1e-5);
}

TEST_CASE("ALiBi, and lengths of each batch") {
  const files f(random_array(dtype::f32, {2, 4, 6, 8}, 4),
                random_array(dtype::f32, {2, 2, 9, 8}, 5),
                random_array(dtype::f32, {2, 2, 9, 8}, 6));
  const array slopes{dtype::f32, {4}, {0.5, 0.0625, -0.25, 0}};
  write_file(f.path("a.npy"), npy_bytes(slopes));
  for (const bool wide : {true, false}) {
    const std::vector<std::int64_t> lengths = {wide ? 40 : 9, 3};
    if (wide) {
      write_file(f.path("l.npy"), integer_npy("<i8", {2}, lengths));
    } else {
      write_file(f.path("l.npy"), integer_npy<std::int32_t>("<i4", {2}, {9, 3}));
    }
    // What is beyond a length is not looked at.
    for (const auto& [name, part] : {std::pair{"k.npy", &f.k}, std::pair{"v.npy", &f.v}}) {
      array spoiled = *part;
      for (std::size_t i = 0; i < spoiled.values.size(); ++i) {
        if (i >= 2 * 9 * 8 && i / 8 % 9 >= 3) {
          spoiled.values[i] = std::numeric_limits<double>::quiet_NaN();
        }
      }
      write_file(f.path(name), npy_bytes(spoiled));
    }
    for (const bool last : {false, true}) {
      f.attends({"--alibi", "a.npy", "--lengths", "l.npy", "--lse", "lse.npy", "--causal",
                 last ? "bottom-right" : "top-left"});
      const result right = expected(
          f.q, f.k, f.v,
          [&](double product, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
            const std::int64_t length = lengths[static_cast<std::size_t>(b)];
            const std::int64_t place = last ? i + length - 6 : i;
            return j >= length || j > place
                       ? -infinity
                       : product / std::sqrt(8.0) - slopes.values[static_cast<std::size_t>(h)] *
                                                        static_cast<double>(place - j);
          });
      check_close(read_npy(f.path("o.npy")), right.out, 1e-5);
      check_close(read_npy(f.path("lse.npy")), right.lse, 1e-5);
    }
  }
  // Keys on both sides of a query, and a batch without keys.
  write_file(f.path("l.npy"), integer_npy<std::int64_t>("<i8", {2}, {9, -1}));
  f.attends({"--alibi", "a.npy", "--lengths", "l.npy"});
  check_close(
      read_npy(f.path("o.npy")),
      expected(f.q, f.k, f.v,
               [&](double product, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
                 return b == 1 ? -infinity
                               : product / std::sqrt(8.0) -
                                     slopes.values[static_cast<std::size_t>(h)] *
                                         static_cast<double>(std::abs(i - j));
               })
          .out,
      1e-5);
}

TEST_CASE("queries without keys") {
  const files f(random_array(dtype::f32, {2, 4}, 8), array{dtype::f32, {0, 4}, {}},
                array{dtype::f32, {0, 5}, {}});
  f.attends({"--lse", "l.npy"});
  CHECK(read_npy(f.path("o.npy")).values == std::vector<double>(10));
  CHECK(read_npy(f.path("l.npy")).values == std::vector<double>(2, -infinity));
  f.attends({"--empty-row", "nan"});
  for (const double value : read_npy(f.path("o.npy")).values) {
    CHECK(std::isnan(value));
  }
}

TEST_CASE("a dim of 0 and no batches take no memory") {
  constexpr std::int64_t many = std::int64_t{1} << 40;
  const files f({dtype::f32, {2, 4, many, 0}, {}}, {dtype::f32, {2, 4, 3, 0}, {}},
                random_array(dtype::f32, {2, 4, 3, 8}, 13));
  f.refuses({}, "softfold: q.npy: dim is 0; expected 1 to 512\n");
  f.refuses({"--lse", "l.npy"}, "softfold: q.npy: dim is 0; expected 1 to 512\n");
  write_file(f.path("q.npy"), npy_bytes(random_array(dtype::f32, {2, 4, 3, 8}, 14)));
  f.refuses({}, "softfold: k.npy: dim is 0; expected 1 to 512\n");
  write_file(f.path("k.npy"), npy_bytes(random_array(dtype::f32, {2, 4, 3, 8}, 15)));
  write_file(f.path("v.npy"), npy_bytes({dtype::f32, {2, 4, 3, 0}, {}}));
  f.refuses({}, "softfold: v.npy: dim is 0; expected 1 to 512\n");
  write_file(f.path("v.npy"), npy_bytes(random_array(dtype::f32, {2, 4, 3, 513}, 16)));
  f.refuses({}, "value.dim is 513");
  for (const char* file : {"q.npy", "k.npy", "v.npy"}) {
    write_file(f.path(file), npy_bytes({dtype::f32, {0, 4, many, 8}, {}}));
  }
  f.attends({"--lse", "l.npy"});
  CHECK(read_npy(f.path("o.npy")).shape == std::vector<std::int64_t>{0, 4, many, 8});
}

TEST_CASE("what does not fit is refused, and nothing is written") {
  const files f(random_array(dtype::f32, {2, 4, 6, 8}, 9),
                random_array(dtype::f32, {2, 2, 9, 8}, 10),
                random_array(dtype::f32, {2, 2, 9, 8}, 11));
  f.refuses({"--scale", "nan"}, "--scale: nan is not a finite number");
  f.refuses({"--softcap", "-1"}, "softcap is -1");
  f.refuses({"--causal", "maybe"}, "maybe is not no|top-left|bottom-right");
  write_file(f.path("b.npy"), npy_bytes(random_array(dtype::f32, {3, 4, 6, 9}, 12)));
  f.refuses({"--bias", "b.npy"}, "b.npy: has 3 batches; expected 1 or 2");
  write_file(f.path("b.npy"), npy_bytes(random_array(dtype::f32, {6, 8}, 12)));
  f.refuses({"--bias", "b.npy"}, "bias.dim is 8");
  write_file(f.path("v.npy"), npy_bytes(random_array(dtype::f32, {1, 2, 9, 8}, 12)));
  f.refuses({}, "v.npy: has 1 batches; expected 2");
  write_file(f.path("v.npy"), npy_bytes(random_array(dtype::f32, {2, 2, 8, 8}, 12)));
  f.refuses({}, "value.tokens is 8");
  write_file(f.path("v.npy"), npy_bytes(random_array(dtype::f64, {2, 2, 9, 8}, 12)));
  f.refuses({}, "value.type is f64");
  write_file(f.path("v.npy"), npy_bytes(random_array(dtype::f32, {9}, 12)));
  f.refuses({}, "v.npy: has 1 axes; expected 2 to 4");
  CHECK(f.names() == std::set<std::string>{"q.npy", "k.npy", "v.npy", "b.npy"});
}

TEST_CASE("numbers of heads and batches that do not fit are refused, by file and value") {
  const files f(random_array(dtype::f32, {2, 4, 6, 8}, 9),
                random_array(dtype::f32, {2, 2, 9, 8}, 10),
                random_array(dtype::f32, {2, 2, 9, 8}, 11));
  for (const std::string option : {"--alibi", "--sinks"}) {
    const auto refuses = [&](const array& numbers, const std::string& cause) {
      write_file(f.path("n.npy"), npy_bytes(numbers));
      f.refuses({option, "n.npy"}, "softfold: n.npy: " + cause + "\n");
    };
    refuses({dtype::f32, {3}, {1, 2, 3}},
            "has shape (3,); expected (4,), a number for each of Q's 4 heads");
    refuses({dtype::f64, {2, 2}, {1, 2, 3, 4}},
            "has shape (2, 2); expected (4,), a number for each of Q's 4 heads");
    refuses({dtype::f16, {4}, {1, 2, 3, 4}}, "elements are '<f2'; expected float32 or float64");
  }
  write_file(f.path("n.npy"), npy_bytes({dtype::f64, {4}, {1, 2, -infinity, 4}}));
  f.refuses({"--alibi", "n.npy"},
            "softfold: n.npy: the slope of head 2 is -inf; expected a finite number\n");
  write_file(f.path("n.npy"), integer_npy<std::int64_t>("<i8", {4}, {1, 2, 3, 4}));
  f.refuses({"--alibi", "n.npy"}, "n.npy: elements are '<i8'; expected float32 or float64\n");
  f.refuses({"--alibi", "none.npy"}, "softfold: none.npy: ");

  const auto refuses_lengths = [&](const std::string& bytes, const std::string& cause) {
    write_file(f.path("l.npy"), bytes);
    f.refuses({"--lengths", "l.npy"}, "softfold: l.npy: " + cause + "\n");
  };
  refuses_lengths(integer_npy<std::int64_t>("<i8", {3}, {1, 2, 3}),
                  "has shape (3,); expected (2,), a number for each of Q's 2 batches");
  refuses_lengths(integer_npy<std::int64_t>("<i8", {1, 2}, {1, 2}),
                  "has shape (1, 2); expected (2,), a number for each of Q's 2 batches");
  refuses_lengths(integer_npy<std::uint8_t>("|u1", {2}, {1, 2}),
                  "elements are '|u1'; expected int32 or int64");
  refuses_lengths(integer_npy<std::uint32_t>("<u4", {2}, {1, 2}),
                  "elements are '<u4'; expected int32 or int64");
  refuses_lengths(integer_npy<std::int64_t>(">i8", {2}, {1, 2}),
                  "big-endian elements ('>i8') are not supported");
  refuses_lengths(npy_bytes({dtype::f32, {2}, {1, 2}}),
                  "elements are '<f4'; expected int32 or int64");
  f.refuses({"--lengths", "l.npy", "--keys", "9"}, "--keys excludes --lengths");
}

TEST_SUITE_END();

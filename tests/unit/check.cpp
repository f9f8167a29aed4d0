// SPDX-License-Identifier: Apache-2.0
// Argument checks: which arguments pass, and that an error names function, argument, value and
// expectation.
#include <core/check_lists.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

namespace core = softfold::core;
using namespace softfold;  // NOLINT: names of the public types

namespace {

constexpr std::int64_t big = std::int64_t{1} << 40;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Calls f and tells whether it threw softfold::error of the code whose text has every part.
template <class F>
void fails(errc code, std::initializer_list<const char*> parts, F&& f) {
  try {
    f();
  } catch (const error& e) {
    CHECK(e.code() == code);
    const std::string text = e.what();
    for (const char* part : parts) {
      INFO("message: " << text << ", without: " << part);
      CHECK(text.find(part) != std::string::npos);
    }
    return;
  }
  FAIL_CHECK("no softfold::error");
}

float memory_block[64];
constexpr core::argument x_of_f{"f", "x"};

const_matrix_ref f32_matrix(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                            const void* data = memory_block) {
  return {data, dtype::f32, rows, cols, stride};
}

/// rows x cols floats from element `begin` of the memory_block.
const_matrix_ref at(std::ptrdiff_t begin, std::int64_t rows, std::int64_t cols,
                    std::int64_t stride) {
  return f32_matrix(rows, cols, stride, memory_block + begin);
}

}  // namespace

TEST_SUITE_BEGIN("check");

TEST_CASE("a matrix: sizes, stride, pointer") {
  CHECK(core::check_matrix(x_of_f, f32_matrix(3, 4, 5)) == (2 * 5 + 4) * 4);
  CHECK(core::check_matrix(x_of_f, f32_matrix(0, 4, 4, nullptr)) == 0);
  CHECK(core::check_matrix(x_of_f, f32_matrix(4, 0, 0, nullptr)) == 0);
  const auto bad = errc::invalid_argument;
  fails(bad, {"f: x.rows", "-1", "expected 0 or more"},
        [] { core::check_matrix(x_of_f, f32_matrix(-1, 4, 4)); });
  fails(bad, {"f: x.cols", "-7", "expected 0 or more"},
        [] { core::check_matrix(x_of_f, f32_matrix(1, -7, 4)); });
  fails(bad, {"f: x.stride", "is 3", "cols = 4"},
        [] { core::check_matrix(x_of_f, f32_matrix(2, 4, 3)); });
  fails(bad, {"f: x.stride", "is -4"}, [] { core::check_matrix(x_of_f, f32_matrix(2, 4, -4)); });
  fails(bad, {"f: x.data", "null"},
        [] { core::check_matrix(x_of_f, f32_matrix(2, 4, 4, nullptr)); });
  const void* odd = reinterpret_cast<const char*>(memory_block) + 1;
  fails(bad, {"f: x.data", "multiple of the element size 4"},
        [&] { core::check_matrix(x_of_f, f32_matrix(2, 4, 4, odd)); });
}

TEST_CASE("a matrix: sizes whose product overflows") {
  const auto bad = errc::invalid_argument;
  fails(bad, {"f: x", "2^63"}, [] { core::check_matrix(x_of_f, f32_matrix(big, big, big)); });
  fails(bad, {"f: x", "2^63"}, [] {
    core::check_matrix(x_of_f, f32_matrix(2, 1, std::numeric_limits<std::int64_t>::max()));
  });
  // Fits as elements but not as bytes.
  fails(bad, {"f: x", "2^63"}, [] {
    core::check_matrix(x_of_f, f32_matrix(std::int64_t{1} << 31, 1, std::int64_t{1} << 31));
  });
  // More than 2^31 elements are no error.
  CHECK(core::check_matrix(x_of_f, f32_matrix(1 << 20, 1 << 20, 1 << 20)) == big * 4);
}

TEST_CASE("inputs and outputs: types and shapes") {
  for (const dtype type : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16}) {
    CHECK(core::check_input(x_of_f, {memory_block, type, 1, 1, 1}) ==
          static_cast<std::int64_t>(size_of(type)));
  }
  const auto type_error = errc::unsupported_type;
  fails(type_error, {"f: x.type", "i32", "f32, f64, f16 or bf16"}, [] {
    core::check_input(x_of_f, {memory_block, dtype::i32, 1, 1, 1});
  });
  fails(type_error, {"f: x.type", "i64"}, [] {
    core::check_input(x_of_f, {memory_block, dtype::i64, 1, 1, 1});
  });
  fails(type_error, {"f: x.type", "unknown"}, [] {
    core::check_input(x_of_f, {memory_block, static_cast<dtype>(99), 1, 1, 1});
  });

  struct pair {
    dtype input, output;
    bool accepted;
  };
  for (const pair p : {pair{dtype::f32, dtype::f32, true}, pair{dtype::f32, dtype::f16, false},
                       pair{dtype::f32, dtype::f64, false}, pair{dtype::f16, dtype::f16, true},
                       pair{dtype::f16, dtype::f32, true}, pair{dtype::f16, dtype::bf16, false},
                       pair{dtype::bf16, dtype::bf16, true}, pair{dtype::bf16, dtype::f32, true},
                       pair{dtype::bf16, dtype::f64, false}, pair{dtype::f64, dtype::f64, true},
                       pair{dtype::f64, dtype::f32, false}, pair{dtype::f32, dtype::i32, false}}) {
    CAPTURE(name_of(p.input));
    CAPTURE(name_of(p.output));
    const auto check = [&] {
      core::check_output({"f", "y"}, {memory_block, p.output, 2, 3, 3}, 2, 3, p.input);
    };
    if (p.accepted) {
      CHECK_NOTHROW(check());
    } else {
      fails(type_error, {"f: y.type", name_of(p.output), name_of(p.input)}, check);
    }
  }
  fails(errc::invalid_argument, {"f: y.rows", "is 3", "expected 2"}, [] {
    core::check_output({"f", "y"}, {memory_block, dtype::f32, 3, 3, 3}, 2, 3, dtype::f32);
  });
  fails(errc::invalid_argument, {"f: y.cols", "is 4", "expected 3"}, [] {
    core::check_output({"f", "y"}, {memory_block, dtype::f32, 2, 4, 4}, 2, 3, dtype::f32);
  });
}

TEST_CASE("vectors and row states") {
  CHECK_NOTHROW(core::check_vector({"f", "lse"}, memory_block, dtype::f32, 5, 5));
  CHECK_NOTHROW(core::check_vector({"f", "lse"}, nullptr, dtype::f32, 0, 0));
  fails(errc::invalid_argument, {"f: lse.size", "is 4", "expected 5"}, [] {
    core::check_vector({"f", "lse"}, memory_block, dtype::f32, 4, 5);
  });
  fails(errc::invalid_argument, {"f: lse.data", "null"}, [] {
    core::check_vector({"f", "lse"}, nullptr, dtype::f32, 5, 5);
  });

  CHECK_NOTHROW(
      core::check_partials({"f", "partials"}, {memory_block, dtype::f32, 3}, 3, dtype::f32));
  fails(errc::invalid_argument, {"f: partials.size", "is 2", "expected 3"}, [] {
    core::check_partials({"f", "partials"}, {memory_block, dtype::f32, 2}, 3, dtype::f32);
  });
  fails(errc::unsupported_type, {"f: partials.type", "f32", "f64"}, [] {
    core::check_partials({"f", "partials"}, {memory_block, dtype::f32, 3}, 3, dtype::f64);
  });
  fails(errc::invalid_argument, {"f: partials.data", "null"}, [] {
    core::check_partials({"f", "partials"}, {nullptr, dtype::f32, 3}, 3, dtype::f32);
  });
}

TEST_CASE("scale is finite in the type of the arithmetic") {
  CHECK(core::check_scale("f", 0.7, dtype::f64) == 0.7);
  for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16}) {
    CHECK(core::check_scale("f", 0.7, type) == static_cast<double>(0.7F));
    CHECK(core::check_scale("f", 0.0, type) == 0);
    CHECK(core::check_scale("f", -2.0, type) == -2);
    CHECK(core::check_scale("f", 1e-60, type) == 0);
    fails(errc::invalid_argument, {"f: scale", "finite as f32"},
          [&] { core::check_scale("f", 1e39, type); });
  }
  CHECK(core::check_scale("f", 1e39, dtype::f64) == 1e39);
  for (const double scale : {infinity, -infinity, not_a_number}) {
    for (const dtype type : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16}) {
      fails(errc::invalid_argument, {"f: scale", std::to_string(scale).c_str()},
            [&] { core::check_scale("f", scale, type); });
    }
  }
}

TEST_CASE("policy of empty rows") {
  CHECK_NOTHROW(core::check_empty_row("f", empty_row::nan));
  CHECK_NOTHROW(core::check_empty_row("f", empty_row::zero));
  fails(errc::invalid_argument, {"f: empty_row", "is 7"},
        [] { core::check_empty_row("f", static_cast<empty_row>(7)); });
}

TEST_CASE("indices: type, shape, k") {
  const const_matrix_ref x{memory_block, dtype::f32, 2, 8, 8};
  const core::argument name{"f", "indices"};
  for (const std::int64_t k : {0, 1, 8}) {
    CHECK_NOTHROW(core::check_indices(name, {memory_block, dtype::i32, 2, k, k}, x));
    CHECK_NOTHROW(core::check_indices(name, {memory_block, dtype::i64, 2, k, k}, x));
  }
  fails(errc::invalid_argument, {"f: indices.cols", "is 9", "8"}, [&] {
    core::check_indices(name, {memory_block, dtype::i32, 2, 9, 9}, x);
  });
  fails(errc::invalid_argument, {"f: indices.cols", "is -1"}, [&] {
    core::check_indices(name, {memory_block, dtype::i32, 2, -1, 0}, x);
  });
  fails(errc::invalid_argument, {"f: indices.rows", "is 3", "expected 2"}, [&] {
    core::check_indices(name, {memory_block, dtype::i32, 3, 1, 1}, x);
  });
  fails(errc::unsupported_type, {"f: indices.type", "f32", "i32 or i64"}, [&] {
    core::check_indices(name, {memory_block, dtype::f32, 2, 1, 1}, x);
  });
  fails(errc::invalid_argument, {"f: indices.data", "null"}, [&] {
    core::check_indices(name, {nullptr, dtype::i32, 2, 1, 1}, x);
  });

  const std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  CHECK_NOTHROW(
      core::check_indices(name, {memory_block, dtype::i32, 1, 1, 1}, f32_matrix(1, limit, limit)));
  CHECK_NOTHROW(core::check_indices(name, {memory_block, dtype::i64, 1, 1, 1},
                                    f32_matrix(1, limit + 1, limit + 1)));
  fails(errc::unsupported_type, {"f: indices.type", "i32", "2147483648"}, [&] {
    core::check_indices(name, {memory_block, dtype::i32, 1, 1, 1},
                        f32_matrix(1, limit + 1, limit + 1));
  });
}

TEST_CASE("overlap: which matrices share a byte") {
  const auto both = [](const const_matrix_ref& a, const const_matrix_ref& b) {
    CHECK(core::overlaps(a, b) == core::overlaps(b, a));
    return core::overlaps(a, b);
  };
  CHECK(both(at(0, 2, 4, 4), at(0, 2, 4, 4)));
  CHECK(both(at(0, 2, 4, 4), at(7, 2, 4, 4)));
  CHECK_FALSE(both(at(0, 2, 4, 4), at(8, 2, 4, 4)));
  // Two column ranges of one matrix do not meet, unless one is a column too wide.
  CHECK_FALSE(both(at(0, 3, 4, 8), at(4, 3, 4, 8)));
  CHECK(both(at(0, 3, 5, 8), at(4, 3, 4, 8)));
  CHECK(both(at(0, 3, 4, 8), at(4, 3, 5, 9)));
  CHECK(both(at(0, 3, 4, 8), at(5, 3, 4, 8)));  // its last column is the next row's first
  CHECK_FALSE(both(at(0, 3, 4, 8), at(12, 2, 4, 8)));
  CHECK(both(at(0, 3, 4, 8), at(13, 2, 4, 8)));
  // Nothing shares nothing.
  CHECK_FALSE(both(at(0, 0, 4, 4), at(0, 2, 4, 4)));
  CHECK_FALSE(both(at(0, 2, 0, 4), at(0, 2, 4, 4)));
  // The same bytes as another type.
  const const_matrix_ref halves{memory_block, dtype::f16, 1, 8, 8};
  CHECK(both(halves, at(3, 1, 4, 4)));
  CHECK_FALSE(both(halves, at(4, 1, 4, 4)));
}

TEST_CASE("overlap: in place is the only one allowed, and only where it is meant") {
  const core::operand x{"x", at(0, 2, 4, 6)};
  const auto check = [&](const const_matrix_ref& y, bool in_place) {
    core::check_overlap("f", x, {{"y", y}}, in_place);
  };
  CHECK_NOTHROW(check(at(0, 2, 4, 6), true));
  CHECK_NOTHROW(check(at(20, 2, 4, 6), true));
  const auto bad = errc::invalid_argument;
  fails(bad, {"f: y overlaps x"}, [&] { check(at(0, 2, 4, 6), false); });
  fails(bad, {"f: y overlaps x"}, [&] { check(at(0, 2, 4, 5), true); });
  fails(bad, {"f: y overlaps x"}, [&] { check(at(1, 2, 4, 6), true); });
  fails(bad, {"f: y overlaps x"}, [&] {  // another element size
    check({memory_block, dtype::f16, 2, 4, 12}, true);
  });
  // The stride of a single row does not matter.
  CHECK_NOTHROW(core::check_overlap("f", {"x", at(0, 1, 4, 6)}, {{"y", at(0, 1, 4, 4)}}, true));
  fails(bad, {"indices overlaps values"}, [&] {
    core::check_overlap("f", x, {{"values", at(20, 2, 4, 4)}, {"indices", at(24, 2, 4, 4)}}, true);
  });
  fails(bad, {"lse overlaps x"}, [&] {
    core::check_overlap("f", x, {{"values", at(20, 2, 4, 4)}, {"lse", at(0, 2, 1, 1)}}, true);
  });
}

TEST_CASE("fold_topk: column offsets that the indices can hold") {
  const std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  const std::int64_t wide_limit = std::numeric_limits<std::int64_t>::max();
  const const_matrix_ref x = at(0, 2, 4, 4);
  std::int64_t index_block[16];
  const auto check = [&](dtype type, std::int64_t offset, std::int64_t k = 3) {
    core::check_fold_topk("f", x, {}, {memory_block + 20, dtype::f32, 2, k, k},
                          {index_block, type, 2, k, k}, {.column_offset = offset});
  };
  CHECK_NOTHROW(check(dtype::i32, 0));
  CHECK_NOTHROW(check(dtype::i32, 0, 8));  // more than the part has
  CHECK_NOTHROW(check(dtype::i32, limit - 4));
  CHECK_NOTHROW(check(dtype::i64, limit));
  CHECK_NOTHROW(check(dtype::i64, wide_limit - 4));
  const auto bad = errc::invalid_argument;
  fails(errc::unsupported_type, {"f: indices.type", "i32", "i64", "2147483648"},
        [&] { check(dtype::i32, limit - 3); });
  fails(bad, {"f: column_offset", "is -1", "0 or more"}, [&] { check(dtype::i64, -1); });
  fails(bad, {"f: column_offset", "9223372036854775804", "9223372036854775803"},
        [&] { check(dtype::i64, wide_limit - 3); });
  fails(bad, {"f: indices.cols", "is -2"}, [&] { check(dtype::i64, 0, -2); });
}

TEST_CASE("fold_topk: the states are optional, but not half of them") {
  const const_matrix_ref x = at(0, 2, 4, 4);
  std::int32_t index_block[2];
  const auto check = [&](const partials_ref& partials) {
    core::check_fold_topk("f", x, partials, {memory_block + 20, dtype::f32, 2, 1, 1},
                          {index_block, dtype::i32, 2, 1, 1}, {});
  };
  CHECK_NOTHROW(check({}));
  CHECK_NOTHROW(check({memory_block + 30, dtype::f32, 2}));
  fails(errc::invalid_argument, {"f: partials.data", "null"}, [&] {
    check({nullptr, dtype::f32, 2});
  });
  fails(errc::invalid_argument, {"f: partials.size", "is 3", "expected 2"}, [&] {
    check({memory_block + 30, dtype::f32, 3});
  });
  fails(errc::invalid_argument, {"f: values overlaps partials"}, [&] {
    check({memory_block + 19, dtype::f32, 2});
  });
}

TEST_CASE("combine_topk: one shape, one type each, separate memory") {
  std::int32_t a[6];
  std::int32_t b[6];
  matrix_ref more_values{memory_block, dtype::f32, 2, 3, 3};
  matrix_ref more_indices{a, dtype::i32, 2, 3, 3};
  matrix_ref values{memory_block + 10, dtype::f32, 2, 3, 3};
  matrix_ref indices{b, dtype::i32, 2, 3, 3};
  const auto check = [&] {
    core::check_combine_topk("f", more_values, more_indices, values, indices);
  };
  CHECK_NOTHROW(check());
  const auto with = [&](auto& field, auto value, errc code,
                        std::initializer_list<const char*> parts) {
    const auto kept = field;
    field = value;
    fails(code, parts, check);
    field = kept;
  };
  const auto bad = errc::invalid_argument;
  with(values.cols, 2, bad, {"f: values.cols", "is 2", "expected 3"});
  with(indices.rows, 1, bad, {"f: indices.rows", "is 1", "expected 2"});
  with(more_indices.cols, 4, bad, {"f: more_indices.cols", "is 4", "expected 3"});
  with(values.type, dtype::bf16, errc::unsupported_type, {"f: values.type", "bf16", "f32"});
  with(values.type, dtype::i32, errc::unsupported_type, {"f: values.type", "i32", "bf16"});
  with(indices.type, dtype::f32, errc::unsupported_type, {"f: indices.type", "f32", "i32 or i64"});
  with(values.data, more_values.data, bad, {"f: values overlaps more_values"});
  with(indices.data, more_indices.data, bad, {"f: indices overlaps more_indices"});
  with(indices.data, values.data, bad, {"f: indices overlaps values"});
  CHECK_NOTHROW(check());
}

TEST_CASE("logsumexp of states: the states' type") {
  const auto check = [&](dtype states, dtype lse, std::int64_t size, const void* where) {
    core::check_logsumexp("f", {memory_block, states, 4}, {const_cast<void*>(where), lse, size});
  };
  CHECK_NOTHROW(check(dtype::f32, dtype::f32, 4, memory_block + 8));
  CHECK_NOTHROW(check(dtype::f64, dtype::f64, 4, memory_block + 16));
  fails(errc::unsupported_type, {"f: partials.type", "f16", "f32 or f64"},
        [&] { check(dtype::f16, dtype::f16, 4, memory_block + 8); });
  fails(errc::unsupported_type, {"f: lse.type", "is f16", "expected f32"},
        [&] { check(dtype::f32, dtype::f16, 4, memory_block + 8); });
  fails(errc::invalid_argument, {"f: lse.size", "is 5", "expected 4"},
        [&] { check(dtype::f32, dtype::f32, 5, memory_block + 8); });
  fails(errc::invalid_argument, {"f: lse overlaps partials"},
        [&] { check(dtype::f32, dtype::f32, 4, memory_block + 7); });
}

TEST_SUITE_END();

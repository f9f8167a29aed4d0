// SPDX-License-Identifier: Apache-2.0
// What converts to a view, with which shape and type, and what does not.
#include <softfold/matrix_view.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

using namespace softfold;  // NOLINT: the test reads like user code

namespace {

/// Answers as std::mdspan does, with a padded layout.
template <class T, std::size_t Rank = 2>
struct mdspan_like {
  T* base;
  std::array<int, Rank> extents;
  int row_stride;

  static constexpr std::size_t rank() { return Rank; }
  T* data_handle() const { return base; }
  int extent(std::size_t i) const { return extents[i]; }
  int stride(std::size_t i) const { return i == 0 ? row_stride : 1; }
};

template <class From, class To>
constexpr bool converts = std::is_convertible_v<From, To>;

}  // namespace

TEST_SUITE_BEGIN("matrix_view");

TEST_CASE("from pointer and shape") {
  float data[12] = {};
  const matrix_view<float> dense(data, 3, 4);
  CHECK(dense.data == data);
  CHECK(dense.rows == 3);
  CHECK(dense.cols == 4);
  CHECK(dense.stride == 4);
  const matrix_view<const float> padded(data, 2, 4, 6);
  CHECK(padded.stride == 6);
  const matrix_view<float> nothing;
  CHECK(nothing.data == nullptr);
  CHECK(nothing.rows == 0);
  CHECK(nothing.cols == 0);
  CHECK(nothing.stride == 0);
}

TEST_CASE("from an mdspan-like object") {
  double data[20] = {};
  const mdspan_like<double> span{data, {4, 3}, 5};
  const matrix_view<double> view = span;
  CHECK(view.data == data);
  CHECK(view.rows == 4);
  CHECK(view.cols == 3);
  CHECK(view.stride == 5);
  const matrix_view<const double> read_only = span;
  CHECK(read_only.stride == 5);

  static_assert(!converts<mdspan_like<double, 1>, matrix_view<double>>, "one dimension");
  static_assert(!converts<mdspan_like<double, 3>, matrix_view<double>>, "three dimensions");
  static_assert(!converts<mdspan_like<const double>, matrix_view<double>>, "drops const");
  static_assert(!converts<mdspan_like<float>, matrix_view<double>>, "another type");
  static_assert(!converts<std::vector<double>, matrix_view<double>>, "has no shape");
}

TEST_CASE_TEMPLATE("a view's type becomes a value", T, float, double, half, bfloat16, std::int32_t,
                   std::int64_t) {
  T data[8] = {};
  const matrix_view<T> view(data, 2, 3, 4);
  const matrix_ref writable = view;
  CHECK(writable.data == data);
  CHECK(writable.type == dtype_of<T>);
  CHECK(writable.rows == 2);
  CHECK(writable.cols == 3);
  CHECK(writable.stride == 4);
  const const_matrix_ref from_writable = writable;
  const const_matrix_ref from_view = view;
  const const_matrix_ref from_const = matrix_view<const T>(data, 2, 3, 4);
  for (const auto& m : {from_writable, from_view, from_const}) {
    CHECK(m.data == data);
    CHECK(m.type == dtype_of<T>);
    CHECK(m.rows == 2);
    CHECK(m.cols == 3);
    CHECK(m.stride == 4);
  }
  static_assert(!converts<matrix_view<const T>, matrix_ref>, "drops const");
  static_assert(!converts<const_matrix_ref, matrix_ref>, "drops const");
}

TEST_CASE("a vector of results from contiguous ranges") {
  std::vector<float> vector(5);
  const vector_ref from_vector = vector;
  CHECK(from_vector.data == vector.data());
  CHECK(from_vector.type == dtype::f32);
  CHECK(from_vector.size == 5);

  const std::span<double> span;
  const vector_ref from_span = span;
  CHECK(from_span.type == dtype::f64);
  CHECK(from_span.size == 0);

  std::array<half, 3> array{};
  const vector_ref from_array = array;
  CHECK(from_array.type == dtype::f16);
  CHECK(from_array.size == 3);

  bfloat16 plain[2] = {};
  const vector_ref from_plain = plain;
  CHECK(from_plain.data == plain);
  CHECK(from_plain.type == dtype::bf16);
  CHECK(from_plain.size == 2);

  static_assert(!converts<const std::vector<float>&, vector_ref>, "drops const");
  static_assert(!converts<std::span<const float>, vector_ref>, "drops const");
  static_assert(!converts<std::string&, vector_ref>, "not an element type");
  static_assert(!converts<std::vector<bool>&, vector_ref>, "not contiguous");
}

TEST_CASE("row states from contiguous ranges") {
  std::vector<max_sum<float>> states(4);
  const partials_ref writable = states;
  CHECK(writable.data == states.data());
  CHECK(writable.type == dtype::f32);
  CHECK(writable.size == 4);
  const const_partials_ref from_writable = writable;
  CHECK(from_writable.data == states.data());
  CHECK(from_writable.size == 4);

  const std::vector<max_sum<double>> constant(2);
  const const_partials_ref read_only = constant;
  CHECK(read_only.data == constant.data());
  CHECK(read_only.type == dtype::f64);
  CHECK(read_only.size == 2);

  static_assert(!converts<const std::vector<max_sum<float>>&, partials_ref>, "drops const");
  static_assert(!converts<std::vector<float>&, partials_ref>, "no states");
  static_assert(!converts<std::vector<max_sum<float>>&, vector_ref>, "states are not elements");
}

TEST_SUITE_END();

// SPDX-License-Identifier: Apache-2.0
#include "call.hpp"

namespace softfold::python {

std::int32_t empty_row_of(const char* function, nb::handle policy) {
  if (PyUnicode_Check(policy.ptr())) {
    if (PyUnicode_CompareWithASCIIString(policy.ptr(), "nan") == 0) {
      return SOFTFOLD_EMPTY_ROW_NAN;
    }
    if (PyUnicode_CompareWithASCIIString(policy.ptr(), "zero") == 0) {
      return SOFTFOLD_EMPTY_ROW_ZERO;
    }
  }
  throw nb::value_error(is_not({function, "empty_row"}, nb::cast<std::string>(nb::repr(policy)),
                               "\"nan\" or \"zero\"")
                            .c_str());
}

std::int32_t corner_of(const char* function, nb::handle corner) {
  if (corner.is_none()) {
    return SOFTFOLD_CAUSAL_NONE;
  }
  if (PyUnicode_Check(corner.ptr())) {
    if (PyUnicode_CompareWithASCIIString(corner.ptr(), "top_left") == 0) {
      return SOFTFOLD_CAUSAL_TOP_LEFT;
    }
    if (PyUnicode_CompareWithASCIIString(corner.ptr(), "bottom_right") == 0) {
      return SOFTFOLD_CAUSAL_BOTTOM_RIGHT;
    }
  }
  throw nb::value_error(is_not({function, "causal"}, nb::cast<std::string>(nb::repr(corner)),
                               "None, \"top_left\" or \"bottom_right\"")
                            .c_str());
}

softfold_vector pairs(const softfold_vector& numbers) {
  return {numbers.data, numbers.size / 2, numbers.type, 0};
}

void* stream_of(argument arg, nb::handle given, const array& x) {
  if (x.where.on_host()) {
    if (!given.is_none()) {
      throw nb::value_error(is_not(arg, nb::cast<std::string>(nb::repr(given)),
                                   "None for an array in the processor's memory")
                                .c_str());
    }
    return nullptr;
  }
  if (given.is_none()) {
    return x.stream();
  }
  nb::object number = nb::borrow(given);
  if (nb::hasattr(given, "cuda_stream")) {  // torch
    number = given.attr("cuda_stream");
  } else if (nb::hasattr(given, "ptr")) {  // CuPy
    number = given.attr("ptr");
  } else if (nb::hasattr(given, "__cuda_stream__")) {
    number = given.attr("__cuda_stream__")()[1];
  }
  std::uintptr_t handle = 0;
  if (!nb::try_cast(number, handle)) {
    throw nb::type_error(
        is_not(arg, nb::cast<std::string>(nb::repr(given)), "a CUDA stream or its address")
            .c_str());
  }
  return reinterpret_cast<void*>(handle);
}

result::result(argument arg, nb::handle out, const array& like, extents shape, softfold_dtype type)
    : shape_(shape.begin(), shape.end()), type_(type), out_(out) {
  if (out.is_none()) {
    made_.emplace(like, shape_, type);
    return;
  }
  given_.emplace(arg, out, role::output);
  type_ = given_->type;
  if (!std::equal(shape.begin(), shape.end(), given_->shape.begin(), given_->shape.end())) {
    throw nb::value_error(
        is_not(arg, "of shape " + text_of(given_->shape), text_of(shape)).c_str());
  }
  if (!(given_->where == like.where)) {
    throw nb::value_error(is_not(arg, "in the memory of " + given_->where.text(),
                                 like.where.text() + ", where " + like.name() + " is")
                              .c_str());
  }
}

const softfold_matrix* result::matrix() {
  if (given_) {
    matrix_ = given_->matrix();
  } else {
    const std::int64_t cols = shape_.back();
    matrix_ = {made_->data, 1, cols, cols, type_, 0};
    for (std::size_t i = 0; i + 1 < shape_.size(); ++i) {
      matrix_.rows *= shape_[i];
    }
  }
  return &matrix_;
}

const softfold_vector* result::vector() {
  if (given_) {
    vector_ = given_->vector();
  } else {
    vector_ = {made_->data, 1, type_, 0};
    for (const std::int64_t extent : shape_) {
      vector_.size *= extent;
    }
  }
  return &vector_;
}

softfold_tensor result::tensor() const {
  return given_ ? given_->tensor() : dense_tensor(made_->data, shape_, type_);
}

nb::object result::take() { return made_ ? made_->take() : nb::borrow(out_); }

call::call(const char* function, const char* name, nb::handle x, std::int64_t axis,
           nb::handle stream, bool copy)
    : function_(function), name_(name) {
  const argument arg{function, name};
  if (copy) {
    copied_ = nb::module_::import_("softfold._copy").attr("with_last_axis")(function, x, axis);
    x = copied_;
    if (axis != -1) {
      moved_axis_ = axis;
    }
    axis = -1;
  }
  x_.emplace(arg, x, role::input);
  const auto axes = static_cast<std::int64_t>(x_->shape.size());
  if (axis != -1 && axis != axes - 1) {
    throw nb::value_error((is_not({function, "axis"}, std::to_string(axis),
                                  "-1 or " + std::to_string(axes - 1) + ", the last one") +
                           " (copy=True lets x be copied)")
                              .c_str());
  }
  matrix_ = x_->matrix();
  small_ = matrix_.rows * matrix_.cols < 4096;
  stream_ = stream_of({function, "stream"}, stream, *x_);
}

call::call(const char* function, const char* name, nb::handle x, nb::handle stream)
    : function_(function), name_(name) {
  x_.emplace(argument{function, name}, x, role::input);
  stream_ = stream_of({function, "stream"}, stream, *x_);
}

void call::check_place(const char* name, const array& more) const {
  if (!(more.where == x_->where)) {
    throw nb::value_error(is_not({function_, name}, "in the memory of " + more.where.text(),
                                 x_->where.text() + ", where " + name_ + " is")
                              .c_str());
  }
}

void call::check_rows(const char* name, const array& more) const {
  const extents leading = x_->shape.first(x_->shape.size() - 1);
  if (!std::equal(more.shape.begin(), more.shape.end(), leading.begin(), leading.end())) {
    throw nb::value_error(is_not({function_, name}, "of shape " + text_of(more.shape),
                                 text_of(leading) + ", one for each row of " + name_)
                              .c_str());
  }
  check_place(name, more);
}

softfold_vector call::list(const char* name, const array& more) const {
  if (more.shape.size() != 1) {
    throw nb::value_error(
        is_not({function_, name}, "of shape " + text_of(more.shape), "one axis").c_str());
  }
  check_place(name, more);
  return more.vector();
}

softfold_vector call::states(const char* name, const array& more) const {
  std::vector<std::int64_t> expected(x_->shape.begin(), x_->shape.end());
  expected.back() = 2;
  if (!std::equal(more.shape.begin(), more.shape.end(), expected.begin(), expected.end())) {
    throw nb::value_error(is_not({function_, name}, "of shape " + text_of(more.shape),
                                 text_of(expected) + ", a maximum and a sum for each row")
                              .c_str());
  }
  check_place(name, more);
  return pairs(more.vector());
}

softfold_matrix call::another(const char* name, nb::handle object) const {
  const array more({function_, name}, object, role::input);
  if (!std::equal(more.shape.begin(), more.shape.end(), x_->shape.begin(), x_->shape.end())) {
    throw nb::value_error(is_not({function_, name}, "of shape " + text_of(more.shape),
                                 text_of(x_->shape) + ", that of " + name_)
                              .c_str());
  }
  check_place(name, more);
  return more.matrix();
}

result call::like_x(const char* name, nb::handle out, softfold_dtype type) const {
  return {{function_, name}, out, *x_, x_->shape, type};
}

result call::with_columns(const char* name, nb::handle out, std::int64_t k,
                          softfold_dtype type) const {
  std::vector<std::int64_t> shape(x_->shape.begin(), x_->shape.end());
  shape.back() = k;
  return {{function_, name}, out, *x_, shape, type};
}

result call::without_columns(const char* name, nb::handle out, softfold_dtype type) const {
  return {{function_, name}, out, *x_, x_->shape.first(x_->shape.size() - 1), type};
}

softfold_dtype call::type_or(const char* name, nb::handle dtype, softfold_dtype otherwise) const {
  return dtype.is_none() ? otherwise : type_of({function_, name}, dtype);
}

void call::check_k(std::int64_t k) const {
  if (k < 0 || k > matrix_.cols) {
    throw nb::value_error(
        is_not({function_, "k"}, std::to_string(k),
               "0 to " + std::to_string(matrix_.cols) + ", the columns of " + name_)
            .c_str());
  }
}

nb::object call::returned(result& y) const {
  nb::object made = y.take();
  return moved_axis_ == -1
             ? made
             : nb::module_::import_("softfold._copy").attr("with_axis")(made, moved_axis_);
}

}  // namespace softfold::python

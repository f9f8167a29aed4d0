// SPDX-License-Identifier: Apache-2.0
/// \file
/// Arrays of any kind as the matrices of the C interface, without copies, and results of the same
/// kind. The last axis is a row; those before it count rows.
#pragma once

#include "exchange.hpp"
#include "library.hpp"

#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

namespace softfold::python {

/// A named argument of a named function, for the texts of errors.
struct argument {
  const char* function;
  const char* name;
};

/// "FUNCTION: NAME is WHAT, expected EXPECTED", as the library's own texts.
std::string is_not(argument arg, const std::string& what, const std::string& expected);

using extents = std::span<const std::int64_t>;
/// "(2, 3)"
std::string text_of(extents shape);

/// What an array is given for, which says what types it may have.
enum class role : std::uint8_t {
  input,
  output,
  mask,     ///< bytes or bits; one of bools counts as bytes
  integers  ///< lengths, columns, counts, seeds
};

/// An array that a caller gave: where its elements are. Lives within one call and holds the object.
class array {
 public:
  enum class kind : std::uint8_t {
    numpy,
    exchange,  ///< has DLPack's C interface: torch
    dlpack     ///< has __dlpack__ only
  };

  array(argument arg, nb::handle object, role given_as);
  array(const array&) = delete;
  array& operator=(const array&) = delete;

  nb::handle object;
  kind of = kind::numpy;
  const exchange_api* api = nullptr;
  void* data = nullptr;
  softfold_dtype type = SOFTFOLD_F32;
  place where;
  extents shape;

  /// The array as rows; raises ValueError where no matrix of the C interface has its strides.
  [[nodiscard]] softfold_matrix matrix() const;
  /// The same as contiguous elements.
  [[nodiscard]] softfold_vector vector() const;
  /// The array as [batches, heads, tokens, dim], of which the first may be missing, with any
  /// strides but the last; raises ValueError where it has more axes or other strides.
  [[nodiscard]] softfold_tensor tensor() const;
  /// The argument's.
  [[nodiscard]] const char* name() const { return arg_.name; }
  /// The stream that the array's framework works on now, for an array in a GPU's memory.
  [[nodiscard]] void* stream() const;

 private:
  void read_numpy();
  void read_exchange();
  void read_dlpack();
  void read_tensor(const dl_tensor& tensor);
  void set_type(nb::dlpack::dtype found);
  [[noreturn]] void refuse_type(const std::string& found) const;
  [[noreturn]] void refuse_strides(const char* expected) const;
  [[nodiscard]] bool has_elements() const;

  argument arg_;
  role role_;
  std::int64_t item_ = 1;                  ///< what a unit of strides_ has to be divided by
  const std::int64_t* strides_ = nullptr;  ///< bytes for NumPy's, elements otherwise
  nb::ndarray<nb::ro> held_;               ///< keeps what DLPack gave
};

/// A new array of the kind of `like`, in its place, with memory to write to.
class new_array {
 public:
  new_array(const array& like, extents shape, softfold_dtype type);
  ~new_array();
  new_array(const new_array&) = delete;
  new_array& operator=(const new_array&) = delete;

  void* data = nullptr;
  /// The array, once it has been written. Called once.
  nb::object take();

 private:
  const exchange_api* api_ = nullptr;
  managed_tensor* tensor_ = nullptr;
  nb::object object_;
};

/// Contiguous elements as [batches, heads, tokens, dim], of which the first may be missing.
softfold_tensor dense_tensor(void* data, extents shape, softfold_dtype type);
/// The same of a number for each query.
softfold_tensor dense_numbers(void* data, const softfold_tensor& query, softfold_dtype type);

/// A new NumPy array.
nb::object new_numpy(extents shape, softfold_dtype type, void*& data);

/// Bytes of an element.
std::int64_t size_of(softfold_dtype type);
/// NumPy's name: "float32", ...
const char* name_of(softfold_dtype type);
/// The element type that a caller names: by its name, or by a type of NumPy, torch, JAX, ml_dtypes.
softfold_dtype type_of(argument arg, nb::handle given);

}  // namespace softfold::python

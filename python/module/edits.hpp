// SPDX-License-Identifier: Apache-2.0
/// \file
/// The arguments that edit rows, the same for every function that reads rows: row_edits of the C
/// interface as keywords.
#pragma once

#include "call.hpp"

#include <cstdint>
#include <optional>

namespace softfold::python {

/// As a caller gives them.
struct edit_arguments {
  nb::handle bias = nb::none();
  nb::handle mask = nb::none();
  nb::handle lengths = nb::none();
  nb::handle causal = nb::none();
  std::int64_t window = 0;
  double softcap = 0;
  nb::handle penalties = nb::none();
  nb::handle repetition = nb::none();
  nb::handle frequency = nb::none();
  nb::handle presence = nb::none();

  [[nodiscard]] bool any() const {
    return !bias.is_none() || !mask.is_none() || !lengths.is_none() || !causal.is_none() ||
           window != 0 || softcap != 0 || !penalties.is_none() || !repetition.is_none() ||
           !frequency.is_none() || !presence.is_none();
  }
};

/// The edits that a call was given. Lives within the call and holds its arrays.
class given_edits {
 public:
  /// Raises what is wrong with an argument's type, shape or place.
  given_edits(const call& of, const edit_arguments& given);
  given_edits(const given_edits&) = delete;
  given_edits& operator=(const given_edits&) = delete;

  [[nodiscard]] const softfold_row_edits* get() const { return &edits_; }

 private:
  struct given_matrix {
    std::optional<array> held;
    softfold_matrix matrix{};
  };
  struct given_vector {
    std::optional<array> held;
    softfold_vector vector{};
  };
  const softfold_matrix* rows_or_one(given_matrix& to, const char* name, nb::handle object,
                                     role given_as);
  const softfold_vector* one_each(given_vector& to, const char* name, nb::handle object);
  const softfold_vector* one_each_or_one(given_vector& to, const char* name, nb::handle object);
  const softfold_vector* list(given_vector& to, const char* name, nb::handle object);
  void set_causal(nb::handle corner);
  void set_penalties(const edit_arguments& given);

  const call& of_;
  softfold_row_edits edits_ = SOFTFOLD_ROW_EDITS_INIT;
  given_matrix bias_, mask_;
  given_vector lengths_, penalty_rows_, penalty_columns_, penalty_counts_, repetition_, frequency_,
      presence_;
};

/// The edits of a call, which as a rule has none: to look costs a few nanoseconds.
class edits {
 public:
  edits(const call& of, const edit_arguments& given) {
    if (given.any()) {
      given_.emplace(of, given);
    }
  }
  /// Null where nothing was given.
  [[nodiscard]] const softfold_row_edits* get() const { return given_ ? given_->get() : nullptr; }

 private:
  std::optional<given_edits> given_;
};

/// Defines a function that takes edits first as one that takes their keywords last.
template <auto Function>
struct with_edits;
template <class... Arguments, nb::object (*Function)(const edit_arguments&, Arguments...)>
struct with_edits<Function> {
  static nb::object function(Arguments... arguments, nb::handle bias, nb::handle mask,
                             nb::handle lengths, nb::handle causal, std::int64_t window,
                             double softcap, nb::handle penalties, nb::handle repetition,
                             nb::handle frequency, nb::handle presence) {
    return Function(
        {bias, mask, lengths, causal, window, softcap, penalties, repetition, frequency, presence},
        arguments...);
  }

  /// In a module or a class.
  template <class Scope, class... Extra>
  static void define(Scope& scope, const char* name, const char* text, Extra... extra) {
    using namespace nb::literals;
    const nb::none none;
    scope.def(name, &function, extra..., "bias"_a = none, "mask"_a = none, "lengths"_a = none,
              "causal"_a = none, "window"_a = 0, "softcap"_a = 0.0, "penalties"_a = none,
              "repetition"_a = none, "frequency"_a = none, "presence"_a = none, text);
  }
};

/// The same for a gradient, which needs only what removes elements.
template <auto Function>
struct with_removals;
template <class... Arguments, nb::object (*Function)(const edit_arguments&, Arguments...)>
struct with_removals<Function> {
  static nb::object function(Arguments... arguments, nb::handle bias, nb::handle mask,
                             nb::handle lengths, nb::handle causal, std::int64_t window) {
    return Function({bias, mask, lengths, causal, window}, arguments...);
  }

  template <class... Extra>
  static void define(nb::module_& m, const char* name, const char* text, Extra... extra) {
    using namespace nb::literals;
    const nb::none none;
    m.def(name, &function, extra..., "bias"_a = none, "mask"_a = none, "lengths"_a = none,
          "causal"_a = none, "window"_a = 0, text);
  }
};

}  // namespace softfold::python

// SPDX-License-Identifier: Apache-2.0
#include "edits.hpp"

#include <algorithm>

namespace softfold::python {

given_edits::given_edits(const call& of, const edit_arguments& given) : of_(of) {
  edits_.bias = rows_or_one(bias_, "bias", given.bias, role::input);
  edits_.mask = rows_or_one(mask_, "mask", given.mask, role::mask);
  edits_.lengths = one_each(lengths_, "lengths", given.lengths);
  edits_.softcap = given.softcap;
  edits_.window = given.window;
  set_causal(given.causal);
  set_penalties(given);
}

/// An array of x's shape, or one row for all; of bits, with a word for 32 columns.
const softfold_matrix* given_edits::rows_or_one(given_matrix& to, const char* name,
                                                nb::handle object, role given_as) {
  if (object.is_none()) {
    return nullptr;
  }
  const argument arg{of_.function(), name};
  const array& given = to.held.emplace(arg, object, given_as);
  std::vector<std::int64_t> expected(of_.x().shape.begin(), of_.x().shape.end());
  if (given.type == SOFTFOLD_I32 && given_as == role::mask) {
    expected.back() = expected.back() / 32 + (expected.back() % 32 > 0 ? 1 : 0);
  }
  const extents row{&expected.back(), 1};
  const auto is = [&given](extents shape) {
    return std::equal(given.shape.begin(), given.shape.end(), shape.begin(), shape.end());
  };
  if (!is(expected) && !is(row)) {
    throw nb::value_error(is_not(arg, "of shape " + text_of(given.shape),
                                 text_of(expected) + ", rows as those of " + of_.name_of_x() +
                                     ", or " + text_of(row) + ", one for all")
                              .c_str());
  }
  of_.check_place(name, given);
  to.matrix = given.matrix();
  return &to.matrix;
}

const softfold_vector* given_edits::one_each(given_vector& to, const char* name,
                                             nb::handle object) {
  if (object.is_none()) {
    return nullptr;
  }
  const array& given = to.held.emplace(argument{of_.function(), name}, object, role::integers);
  of_.check_rows(name, given);
  to.vector = given.vector();
  return &to.vector;
}

const softfold_vector* given_edits::one_each_or_one(given_vector& to, const char* name,
                                                    nb::handle object) {
  if (object.is_none()) {
    return nullptr;
  }
  const array& given = to.held.emplace(argument{of_.function(), name}, object, role::input);
  if (given.shape.size() == 1 && given.shape[0] == 1) {
    of_.check_place(name, given);
  } else {
    of_.check_rows(name, given);
  }
  to.vector = given.vector();
  return &to.vector;
}

const softfold_vector* given_edits::list(given_vector& to, const char* name, nb::handle object) {
  to.vector =
      of_.list(name, to.held.emplace(argument{of_.function(), name}, object, role::integers));
  return &to.vector;
}

void given_edits::set_causal(nb::handle corner) {
  if (corner.is_none()) {
    return;
  }
  edits_.corner = corner_of(of_.function(), corner);
  const extents shape = of_.x().shape;
  if (shape.size() < 2) {
    throw nb::value_error(is_not({of_.function(), "causal"},
                                 nb::cast<std::string>(nb::repr(corner)),
                                 std::string("None where ") + of_.name_of_x() + " is of shape " +
                                     text_of(shape) + ", without an axis of queries")
                              .c_str());
  }
  // No rows have any number of queries.
  edits_.queries = std::max<std::int64_t>(shape[shape.size() - 2], 1);
}

void given_edits::set_penalties(const edit_arguments& given) {
  edits_.repetition = one_each_or_one(repetition_, "repetition", given.repetition);
  edits_.frequency = one_each_or_one(frequency_, "frequency", given.frequency);
  edits_.presence = one_each_or_one(presence_, "presence", given.presence);
  const bool numbers =
      edits_.repetition != nullptr || edits_.frequency != nullptr || edits_.presence != nullptr;
  const argument arg{of_.function(), "penalties"};
  if (given.penalties.is_none()) {
    if (numbers) {
      throw nb::value_error(
          is_not(arg, "None", "a tuple of rows, columns and counts, to be penalised").c_str());
    }
    return;
  }
  if (!nb::isinstance<nb::tuple>(given.penalties) || nb::len(given.penalties) != 3) {
    throw nb::type_error(is_not(arg, nb::cast<std::string>(nb::repr(given.penalties.type())),
                                "a tuple of three arrays: rows, columns and counts")
                             .c_str());
  }
  const nb::object rows = given.penalties[0];
  const nb::object columns = given.penalties[1];
  const nb::object counts = given.penalties[2];
  edits_.penalty_rows = list(penalty_rows_, "penalties[0]", rows);
  edits_.penalty_columns = list(penalty_columns_, "penalties[1]", columns);
  edits_.penalty_counts = list(penalty_counts_, "penalties[2]", counts);
}

}  // namespace softfold::python

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Problems with edits, the same for every backend: rows are edited into the queue's memory, some
/// at a time, so that they are still in a cache when the problem without edits is run on them.
///
/// Elements that only stay or go keep their type; others have the arithmetic's. A removed element
/// becomes what the scale makes -infinity of, so that it folds to nothing and is selected last.
#pragma once

#include <core/edits.hpp>
#include <core/problem.hpp>
#include <core/real_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace softfold::core {

/// Lists of the edited rows `x`, in which removed elements count as -infinity: `settle` puts those
/// of them that an element of -infinity was chosen after behind it, by column, or makes them
/// absent.
struct settled_lists {
  const_matrix_ref x;
  core::edits edits;
  matrix_ref indices;
  std::int64_t column_offset = 0;
  bool absent = false;
  /// If it has data: the lists' elements, of x's type, removed ones +infinity.
  matrix_ref gathered = {};
};

/// The same of row r by one thread.
template <class In, class Index>
SOFTFOLD_HD inline void settle_list(const settled_lists& lists, std::int64_t r) {
  using A = arithmetic_t<In>;
  constexpr A none = -std::numeric_limits<A>::infinity();
  const edited_row<A> row(lists.edits, r, lists.x.cols);
  const In* const x = static_cast<const In*>(lists.x.data) + r * lists.x.stride;
  Index* const list = static_cast<Index*>(lists.indices.data) + r * lists.indices.stride;
  const auto is_none = [x](std::int64_t column) { return static_cast<A>(x[column]) == none; };
  std::int64_t end = lists.indices.cols;
  while (end > 0 && list[end - 1] < 0) {  // a list longer than the row
    --end;
  }
  std::int64_t next = end;
  while (next > 0 && is_none(static_cast<std::int64_t>(list[next - 1]) - lists.column_offset)) {
    --next;
  }
  for (int turn = 0; turn < 2; ++turn) {
    const bool kept = turn == 0;
    for (std::int64_t c = 0; next < end && c < lists.x.cols; ++c) {
      if (is_none(c) && row.keeps(c) == kept) {
        list[next] =
            lists.absent && !kept ? Index{-1} : static_cast<Index>(c + lists.column_offset);
        ++next;
      }
    }
  }
  if (lists.gathered.data != nullptr) {
    In* const to = static_cast<In*>(lists.gathered.data) + r * lists.gathered.stride;
    for (std::int64_t i = 0; i < lists.indices.cols; ++i) {
      const std::int64_t column = static_cast<std::int64_t>(list[i]) - lists.column_offset;
      to[i] = list[i] < 0 || !row.keeps(column) ? In(-none) : x[column];
    }
  }
}

/// What a backend does for edits. Work is in the order of the calls.
///
///   memory(bytes)           scratch memory that the run() of a problem does not use
///   batch_bytes()           of edited rows that a cache holds
///   edit(x, edits, to, removed)   rows of x, edited, to x's or the arithmetic's type
///   narrow(from, to)        f32 to a 16-bit type
///   settle(lists)
///   reproducible()          whether its numerics are; if there are others
///   run(problem)            without edits
template <class Backend>
class edited_run {
 public:
  explicit edited_run(Backend& on) : on_(on) {}

  void operator()(const row_problem& p) {
    if (p.what != operation::logsumexp) {
      return run_map(p, &row_problem::y, [](row_problem&, const part&) {});
    }
    const dtype within = type_of_rows(p.edits, p.x.type);
    const bool narrows = is_narrower(p.y, within);
    in_batches(p.x, {.rows = within, .column = narrows}, [&](const part& rows) {
      row_problem inner = p;
      inner.edits = {};
      inner.x = edited(p.x, p.edits, rows, removed_by(p.scale));
      inner.y = narrows ? rows.column(within) : rows.of(p.y);
      on_.run(inner);
      if (narrows) {
        on_.narrow(inner.y, rows.of(p.y));
      }
    });
  }

  void operator()(const normalize_problem& p) {
    run_map(p, &normalize_problem::y, [&](normalize_problem& inner, const part& rows) {
      inner.partials = rows.of(p.partials);
    });
  }

  void operator()(const scan_problem& p) {
    run_map(p, &scan_problem::lse, [&](scan_problem& inner, const part& rows) {
      inner.carry_in = rows.of(p.carry_in);
      inner.carry_out = rows.of(p.carry_out);
    });
  }

  void operator()(const fold_problem& p) {
    in_batches(p.x, {.rows = type_of_rows(p.edits, p.x.type)}, [&](const part& rows) {
      on_.run(fold_problem{edited(p.x, p.edits, rows, removed_by(p.scale)), rows.of(p.partials),
                           p.scale});
    });
  }

  /// Removed elements have no part in the sums: their y is that of -infinity, their dy 0.
  void operator()(const backward_problem& p) {
    in_batches(p.y, {.rows = p.y.type, .matrices = 2}, [&](const part& rows) {
      const core::edits only = p.edits.from(rows.first).removals();
      const matrix_ref y = rows.matrix(p.y.cols, p.y.type);
      const matrix_ref dy = rows.matrix(p.y.cols, p.y.type, 1);
      on_.edit(rows.of(p.y), only, y, p.log ? -std::numeric_limits<double>::infinity() : 0);
      on_.edit(rows.of(p.dy), only, dy, 0);
      on_.run(backward_problem{p.log, y, dy, rows.of(p.dx), p.scale});
    });
  }

  void operator()(const topk_problem& p) {
    if (p.empty()) {
      return;
    }
    const dtype within = type_of_rows(p.edits, p.x.type);
    const std::int64_t k = p.indices.cols;
    const bool folds_apart = p.folds() && p.scale < 0 && p.edits.removes();
    const bool narrow_values = is_narrower(p.values, within);
    const bool narrow_probabilities = is_narrower(p.probabilities, within);
    const bool narrow_lse = is_narrower(p.lse, within);
    const needs memory{.rows = within,
                       .column = narrow_lse || folds_apart,
                       .lists = narrow_values || narrow_probabilities || folds_apart ? 3 : 0,
                       .k = k};
    in_batches(p.x, memory, [&](const part& rows) {
      topk_problem inner = p;
      inner.edits = {};
      inner.x = edited(p.x, p.edits, rows, -std::numeric_limits<double>::infinity());
      inner.indices = rows.of(p.indices);
      inner.partials = rows.of(p.partials);
      const matrix_ref values = rows.of(p.values);
      const matrix_ref probabilities = rows.of(p.probabilities);
      const matrix_ref lse = rows.of(column_of(p.lse, p.x.rows));
      inner.values = narrow_values ? rows.list(0, within) : values;
      inner.probabilities = narrow_probabilities ? rows.list(1, within) : probabilities;
      const matrix_ref inner_lse = narrow_lse ? rows.column(within) : lse;
      inner.lse = {inner_lse.data, inner_lse.type, rows.count};
      topk_problem lists = inner;
      if (folds_apart) {
        lists.probabilities = {};
        lists.lse = {};
        lists.partials = {};
        lists.scale = 1;
      }
      if (folds_apart && lists.values.data == nullptr) {
        lists.values = rows.list(0, within);
      }
      if (!lists.empty()) {
        on_.run(lists);
      }
      if (k > 0 && p.edits.removes()) {
        on_.settle({.x = inner.x,
                    .edits = p.edits.from(rows.first),
                    .indices = inner.indices,
                    .column_offset = p.column_offset,
                    .absent = p.makes_parts,
                    .gathered = folds_apart ? rows.list(2, within) : matrix_ref{}});
      }
      if (folds_apart) {
        fold_apart(p, rows, inner);
      }
      if (narrow_values) {
        on_.narrow(inner.values, values);
      }
      if (narrow_probabilities) {
        on_.narrow(inner.probabilities, probabilities);
      }
      if (narrow_lse) {
        on_.narrow(inner_lse, lse);
      }
    });
  }

  /// No scale is negative here, so that removed elements are -infinity, which do not exist.
  void operator()(const sample_problem& p) {
    const dtype within = type_of_rows(p.edits, p.x.type);
    const matrix_ref& wanted = p.options.top_log_probabilities;
    const bool lists = wanted.data != nullptr && wanted.cols > 0;
    const bool narrows = lists && is_narrower(wanted, within);
    in_batches(
        p.x, {.rows = within, .lists = 1, .k = narrows ? wanted.cols : 0}, [&](const part& rows) {
          sample_problem inner = p;
          inner.edits = {};
          inner.x = edited(p.x, p.edits, rows, -std::numeric_limits<double>::infinity());
          inner.tokens = rows.of(p.tokens);
          sample_options& o = inner.options;
          for (const_vector_ref* v :
               {&o.temperatures, &o.top_ks, &o.top_ps, &o.min_ps, &o.seeds, &o.offsets}) {
            *v = rows.of(*v);
          }
          for (vector_ref* v : {&o.lse, &o.kept, &o.kept_mass}) {
            *v = rows.of(*v);
          }
          for (matrix_ref* m : {&o.log_probability, &o.raw_log_probability, &o.top_indices,
                                &o.top_log_probabilities}) {
            *m = rows.of(*m);
          }
          const matrix_ref top = o.top_log_probabilities;
          if (narrows) {
            o.top_log_probabilities = rows.list(0, within);
          }
          on_.run(inner);
          if (lists && p.edits.removes()) {
            on_.settle({.x = inner.x, .edits = p.edits.from(rows.first), .indices = o.top_indices});
          }
          if (narrows) {
            on_.narrow(o.top_log_probabilities, top);
          }
        });
  }

  /// Removed elements are absent from the lists, as in those of fold_topk.
  void operator()(const fold_sample_problem& p) {
    in_batches(p.x, {.rows = type_of_rows(p.edits, p.x.type)}, [&](const part& rows) {
      fold_sample_problem inner = p;
      inner.edits = {};
      inner.x = edited(p.x, p.edits, rows, -std::numeric_limits<double>::infinity());
      inner.states = {p.states.data + rows.first, rows.count};
      inner.values = rows.of(p.values);
      inner.indices = rows.of(p.indices);
      fold_sample_options& o = inner.options;
      for (const_vector_ref* v :
           {&o.temperatures, &o.top_ks, &o.top_ps, &o.min_ps, &o.seeds, &o.offsets}) {
        *v = rows.of(*v);
      }
      on_.run(inner);
      if (p.indices.cols > 0 && p.edits.removes()) {
        on_.settle({.x = inner.x,
                    .edits = p.edits.from(rows.first),
                    .indices = inner.indices,
                    .column_offset = o.column_offset,
                    .absent = true,
                    .gathered = {}});
      }
    });
  }

 private:
  /// What a part needs memory for, beside its edited rows.
  struct needs {
    dtype rows;           ///< the edited rows' type
    int matrices = 1;     ///< of edited rows
    bool column = false;  ///< a number for each row
    int lists = 0;        ///< of k numbers for each row
    std::int64_t k = 0;
  };

  /// Rows [first, first + count), and the memory for them.
  struct part {
    std::int64_t first;
    std::int64_t count;
    std::int64_t stride;  ///< of edited rows
    std::int64_t k;
    std::byte* edited;
    std::byte* state;
    std::byte* numbers;
    std::byte* listed;
    std::size_t matrix_bytes, list_bytes;

    [[nodiscard]] const_matrix_ref of(const const_matrix_ref& m) const {
      return {at(m.data, m.stride, size_of(m.type)), m.type, count, m.cols, m.stride};
    }
    [[nodiscard]] matrix_ref of(const matrix_ref& m) const {
      return {at(m.data, m.stride, size_of(m.type)), m.type, count, m.cols, m.stride};
    }
    [[nodiscard]] vector_ref of(const vector_ref& v) const {
      return {at(v.data, 1, size_of(v.type)), v.type, v.data == nullptr ? 0 : count};
    }
    [[nodiscard]] const_vector_ref of(const const_vector_ref& v) const {
      return {at(v.data, 1, size_of(v.type)), v.type, v.data == nullptr ? 0 : count};
    }
    [[nodiscard]] partials_ref of(const partials_ref& p) const {
      return {at(p.data, 1, size_of_state(p.type, p.sum)), p.type, p.data == nullptr ? 0 : count,
              p.sum};
    }
    [[nodiscard]] const_partials_ref of(const const_partials_ref& p) const {
      return {at(p.data, 1, size_of_state(p.type, p.sum)), p.type, p.data == nullptr ? 0 : count,
              p.sum};
    }
    [[nodiscard]] matrix_ref matrix(std::int64_t cols, dtype type, int number = 0) const {
      return {edited + static_cast<std::size_t>(number) * matrix_bytes, type, count, cols, stride};
    }
    [[nodiscard]] matrix_ref column(dtype within) const {
      return {numbers, arithmetic_type(within), count, 1, 1};
    }
    [[nodiscard]] partials_ref states(dtype within) const {
      return {state, arithmetic_type(within), count};
    }
    [[nodiscard]] matrix_ref list(int number, dtype within) const {
      return {listed + static_cast<std::size_t>(number) * list_bytes, within, count, k, k};
    }

   private:
    template <class Void>
    Void* at(Void* data, std::int64_t step, std::size_t size) const {
      return data == nullptr ? nullptr
                             : const_cast<std::byte*>(static_cast<const std::byte*>(data)) +
                                   first * step * static_cast<std::int64_t>(size);
    }
  };

  static dtype type_of_rows(const core::edits& e, dtype x) {
    return e.changes_values() ? arithmetic_type(x) : x;
  }
  /// Whether results of the edited rows' arithmetic have to be rounded to an output's type, which
  /// is none that a problem on those rows takes.
  template <class Output>
  static bool is_narrower(const Output& to, dtype within) {
    return to.data != nullptr && to.type != within && to.type != arithmetic_type(within);
  }
  static double removed_by(double scale) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return scale < 0 ? infinity : -infinity;
  }
  static matrix_ref column_of(const vector_ref& v, std::int64_t rows) {
    return {v.data, v.type, rows, 1, 1};
  }

  matrix_ref edited(const const_matrix_ref& x, const core::edits& e, const part& rows,
                    double removed) {
    const matrix_ref to = rows.matrix(x.cols, type_of_rows(e, x.type));
    on_.edit(rows.of(x), e.from(rows.first), to, removed);
    return to;
  }

  /// A problem with a result for each element; prepare(inner, rows) is for what else it has of
  /// rows. Results that have to be narrowed take the place of the edited rows first.
  template <class Problem, class Prepare>
  void run_map(const Problem& p, matrix_ref Problem::*output, const Prepare& prepare) {
    const dtype within = type_of_rows(p.edits, p.x.type);
    const bool narrows = is_narrower(p.*output, within);
    in_batches(p.x, {.rows = within}, [&](const part& rows) {
      Problem inner = p;
      inner.edits = {};
      inner.x = edited(p.x, p.edits, rows, removed_by(p.scale));
      prepare(inner, rows);
      const matrix_ref y = rows.of(p.*output);
      inner.*output = narrows ? rows.matrix(p.x.cols, within) : y;
      on_.run(inner);
      if (narrows) {
        on_.narrow(inner.*output, y);
      }
    });
  }

  /// The states of rows whose scale is negative, for which removed elements become +infinity, and
  /// what is wanted of them.
  void fold_apart(const topk_problem& p, const part& rows, const topk_problem& inner) {
    const dtype within = type_of_rows(p.edits, p.x.type);
    const matrix_ref x = edited(p.x, p.edits, rows, removed_by(p.scale));
    if (inner.lse.data != nullptr) {
      on_.run(row_problem{operation::logsumexp,
                          x,
                          {inner.lse.data, inner.lse.type, rows.count, 1, 1},
                          p.scale,
                          empty_row::nan});
    }
    if (is_reproducible() && inner.partials.data == nullptr) {
      if (inner.probabilities.data != nullptr && rows.k > 0) {
        on_.run(row_problem{operation::softmax,
                            rows.list(2, within),
                            inner.probabilities,
                            p.scale,
                            p.policy,
                            {},
                            x});
      }
      return;
    }
    const partials_ref states =
        inner.partials.data != nullptr ? inner.partials : rows.states(within);
    on_.run(fold_problem{x, states, p.scale});
    if (inner.probabilities.data != nullptr && rows.k > 0) {
      on_.run(normalize_problem{rows.list(2, within), states, inner.probabilities, p.scale,
                                p.policy, false});
    }
  }

  /// body(part) for parts of x's rows.
  template <class Body>
  void in_batches(const const_matrix_ref& x, const needs& what, const Body& body) {
    if (x.rows == 0) {  // whose columns may be more than memory holds
      return;
    }
    constexpr std::int64_t line = 64;
    const auto whole = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    const auto size = static_cast<std::int64_t>(size_of(what.rows));
    const std::int64_t stride = (x.cols * size + line - 1) / line * line / size;
    const std::int64_t row_bytes = std::max<std::int64_t>(
        1, what.matrices * stride * size + what.lists * what.k * size + (what.column ? 32 : 0));
    const std::int64_t batch = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(on_.batch_bytes()) / row_bytes, 1, x.rows);
    const auto count = static_cast<std::size_t>(batch);
    const std::size_t matrix = whole(count * static_cast<std::size_t>(stride * size));
    const std::size_t list = whole(count * static_cast<std::size_t>(what.k * size));
    const std::size_t column = what.column ? whole(count * 8) : 0;
    const std::size_t states = what.column ? whole(count * 16) : 0;
    std::byte* const memory = on_.memory(static_cast<std::size_t>(what.matrices) * matrix + states +
                                         column + static_cast<std::size_t>(what.lists) * list);
    std::byte* const state = memory + static_cast<std::size_t>(what.matrices) * matrix;
    for (std::int64_t first = 0; first < x.rows; first += batch) {
      body(part{first, std::min(batch, x.rows - first), stride, what.k, memory, state,
                state + states, state + states + column, matrix, list});
    }
  }

  [[nodiscard]] bool is_reproducible() const {
    if constexpr (requires { on_.reproducible(); }) {
      return on_.reproducible();
    } else {
      return false;
    }
  }

  Backend& on_;
};

/// Whether a problem has edits.
template <class Problem>
bool is_edited(const Problem& p) {
  if constexpr (requires { p.edits; }) {
    return p.edits.any();
  } else {
    return false;
  }
}

/// Runs a problem, with edits or without.
template <class Backend, class Problem>
void run_with_edits(Backend& on, const Problem& p) {
  if constexpr (requires { p.edits; }) {
    if (p.edits.any()) {
      return edited_run<Backend>{on}(p);
    }
  }
  on.run(p);
}

}  // namespace softfold::core

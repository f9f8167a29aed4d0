// SPDX-License-Identifier: Apache-2.0
/// \file
/// From a problem's shape to the way its rows are worked on, as data. Needs no queue, so that
/// tests can ask about any machine.
///
/// The bits of a row depend on its length, its type and the instruction set only. A plan never
/// changes them: short or not is decided by the length, or gives the same bits as reproducible rows
/// do; so do all other choices.
#pragma once

#include <backends/host/machine.hpp>

#include <cstdint>
#include <iterator>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// Plans by name, each a part of one. What a problem cannot have is not forced: it has the table's.
enum class plan_name : std::uint8_t {
  any,             ///< the table's
  serial,          ///< spread::serial
  rows,            ///< spread::rows
  segments,        ///< spread::segments
  row_by_row,      ///< no kernel call works on many rows; short rows have other bits then
  recompute,       ///< second_pass::recompute
  recompute_past,  ///< the same, stored past the caches
  scale_output,    ///< second_pass::scale_output
  scale_scratch,   ///< second_pass::scale_scratch
  scale_behind,    ///< second_pass::scale_behind
};
inline constexpr const char* plan_names[] = {
    "",          "serial",         "rows",         "segments",      "row_by_row",
    "recompute", "recompute_past", "scale_output", "scale_scratch", "scale_behind"};

static_assert(std::size(plan_names) == static_cast<std::size_t>(plan_name::scale_behind) + 1);

/// How rows are spread over threads.
enum class spread : std::uint8_t {
  serial,    ///< too little work to share
  rows,      ///< tasks of whole rows
  segments,  ///< fewer rows than keep the threads busy: segments of each row
};

/// How the second pass gets the exponentials.
enum class second_pass : std::uint8_t {
  scale_output,   ///< the first pass left them in the output
  scale_scratch,  ///< the first pass left them in scratch memory
  scale_behind,   ///< the same, while the next row's first pass goes on
  recompute,      ///< from the input again
};

struct shape {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t input_bytes;   ///< of one element
  std::int64_t output_bytes;  ///< of one element; 0 if there is one result a row
  std::int64_t arithmetic_bytes;
  bool in_place;
  bool keeps = false;  ///< whether results are exponentials that the first pass can keep
  std::int64_t k = 0;  ///< elements to select of each row
  /// Rows of which a kernel call works on many: up to so many vectors, or columns.
  std::int64_t short_vectors = short_row_vectors;
  std::int64_t short_columns = 0;
};

struct plan {
  bool short_rows;  ///< a kernel call works on many rows
  bool topk_rows;   ///< the same for top-k
  spread over;
  std::int64_t rows_per_task;
  second_pass second;
  bool stream;  ///< store results past the caches
  /// Folds that keep what they compute ask for what they will read no nearer than the second-level
  /// cache: what waits for memory takes buffers of the first-level cache, which stores need, too.
  /// Only where rows come from memory, and what is kept of one is little.
  bool ahead_to_l2;
};

/// The plan for a shape on `threads` threads.
plan choose_plan(const shape& problem, const machine& caches, int threads,
                 const kernel_table& kernels, plan_name forced = plan_name::any);

/// In words: the names of its parts.
std::string to_text(const plan& plan);

/// Segments of a row of that many columns.
constexpr std::int64_t segments_of(std::int64_t cols) {
  return (cols + segment_columns - 1) / segment_columns;
}

/// The columns of a segment.
struct column_range {
  std::int64_t begin, count;
};
constexpr column_range columns_of(std::int64_t segment, std::int64_t cols) {
  const std::int64_t begin = segment * segment_columns;
  return {begin, cols - begin < segment_columns ? cols - begin : segment_columns};
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

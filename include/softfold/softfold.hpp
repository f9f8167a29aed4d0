// SPDX-License-Identifier: Apache-2.0
/// \file
/// softfold: parallel online softmax and fused softmax + top-k.
///
/// Conventions that hold for every function here:
///
/// - Matrices are [rows, cols]; each row is worked on by itself. The last dimension is
///   contiguous, the row stride is any number >= cols, the base has any alignment of its type.
/// - Inputs are f32, f64, f16 or bf16. An output named `values`, `y`, `lse`, `probabilities` or
///   `logits` has the input's type, or f32 (f64 for f64 input). All arithmetic on f16, bf16 and
///   f32 input is f32 or wider, on f64 input f64; an output is rounded once.
/// - `scale` multiplies every element before the softmax (1/temperature). It is first rounded to
///   the type of the arithmetic, must be finite there, and may be 0 (uniform over the elements
///   that are not -infinity) or negative.
/// - A row with a NaN gives NaN; a row with +infinity (after scaling) and no NaN gives
///   logsumexp = +infinity and NaN elsewhere; a row of -infinity only gives logsumexp =
///   -infinity and, elsewhere, what `empty_row` says. rows = 0, cols = 0 or k = 0 is a success;
///   nothing is launched then, and nothing is written but the logsumexp of cols = 0, -infinity.
/// - y may be the input itself (same pointer, stride and element size). Any other overlap
///   between an input and an output, or between two outputs, is an error.
/// - Options' `edits` change or remove elements before the scale: biases, penalties, a softcap,
///   masks. A removed element does not exist: row_edits.hpp.
/// - Errors throw softfold::error before anything is written.
/// - The same call on the same machine and configuration gives the same bits every time; a
///   row's bits depend neither on the other rows of the matrix nor on the number of threads.
/// - The calling thread's floating-point environment (rounding, flushing of subnormal numbers,
///   traps, flags) changes no result, and is left as it was.
/// - Work is proportional to rows * cols. Element counts and offsets are 64-bit.
///
/// docs/semantics.md has the accuracy bounds and every special case.
#pragma once

#include <softfold/buffer.hpp>
#include <softfold/config.hpp>
#include <softfold/dtype.hpp>
#include <softfold/error.hpp>
#include <softfold/matrix_view.hpp>
#include <softfold/max_sum.hpp>
#include <softfold/queue.hpp>
#include <softfold/row_edits.hpp>
#include <softfold/sample_state.hpp>
#include <softfold/version.hpp>

#include <cstdint>

namespace softfold {

/// What softmax and log-softmax write for a row that has no element above -infinity and no NaN.
enum class empty_row : std::uint8_t {
  nan,   ///< NaN
  zero,  ///< 0 for softmax, -infinity for log-softmax
};

struct softmax_options {
  double scale = 1;
  softfold::empty_row empty_row = softfold::empty_row::nan;
  row_edits edits = {};
};

struct logsumexp_options {
  double scale = 1;
  row_edits edits = {};
};

struct backward_options {
  double scale = 1;  ///< that of the forward function
  /// Those of the forward function: penalties and a softcap are an error, the rest as there.
  row_edits edits = {};
};

struct topk_options {
  row_edits edits = {};
};

struct scan_options {
  double scale = 1;
  bool exclusive = false;  ///< a column's result is that of the columns before it
  bool reverse = false;    ///< columns come from the last to the first
  /// If it has data: the state of what comes before each row, [rows], max_sum as fold gives it.
  const_partials_ref carry_in = {};
  /// If it has data: becomes the state of carry_in and the row, [rows]. May be carry_in itself.
  partials_ref carry_out = {};
  row_edits edits = {};
};

struct softmax_topk_options {
  double scale = 1;
  softfold::empty_row empty_row = softfold::empty_row::nan;
  /// If it has data: the k selected elements of x, edited but unscaled, [rows, k].
  matrix_ref logits = {};
  /// If it has data: the logsumexp of the scaled row, [rows].
  vector_ref lse = {};
  row_edits edits = {};
};

struct fold_topk_options {
  double scale = 1;
  /// The column of the whole row that column 0 of the part is; 0 or more.
  std::int64_t column_offset = 0;
  row_edits edits = {};
};

/// Which elements a filter of sample() counts.
enum class filter_order : std::uint8_t {
  top_k_first,  ///< top-p counts what min-p and top-k left
  joint,        ///< every filter counts the whole row
};

/// A vector with data has an entry for each row and wins over the number beside it. Vectors are
/// read where the work is done, in the order of the queue.
struct sample_options {
  /// Elements are divided by it, 0 or more; 0 takes the first in the order of topk.
  double temperature = 1;
  const_vector_ref temperatures = {};  ///< f32 or f64
  /// Keeps the k first in the order of topk, exactly k; 0, and cols or more, keeps all.
  std::int64_t top_k = 0;
  const_vector_ref top_ks = {};  ///< i32 or i64
  /// Keeps the fewest first elements whose probabilities add up to p, at least one; 1 keeps all.
  double top_p = 1;
  const_vector_ref top_ps = {};  ///< f32 or f64
  /// Keeps what is at least p times as probable as the most probable element.
  double min_p = 0;
  const_vector_ref min_ps = {};  ///< f32 or f64
  std::uint64_t seed = 0;
  const_vector_ref seeds = {};  ///< i64, all 64 bits used
  /// Where the row is in its seed's sequence, as a rule the token's position in its text.
  std::uint64_t offset = 0;
  const_vector_ref offsets = {};  ///< i64, all 64 bits used
  filter_order order = filter_order::top_k_first;

  // Results that are wanted if they have data, of x's type or the arithmetic's.
  /// Of the token, by the temperature and after the filters: [rows, draws].
  matrix_ref log_probability = {};
  /// Of the token in x as it is: [rows, draws].
  matrix_ref raw_log_probability = {};
  vector_ref lse = {};        ///< logsumexp of x as it is: [rows]
  vector_ref kept = {};       ///< how many elements the filters keep: [rows], i32 or i64
  vector_ref kept_mass = {};  ///< and their share of the distribution before the filters: [rows]
  /// The n first elements of x in the order of topk and their log-probabilities in x as it is:
  /// [rows, n], n <= cols. Both or neither.
  matrix_ref top_indices = {};
  matrix_ref top_log_probabilities = {};

  /// Of x before anything else: what "x as it is" above is.
  row_edits edits = {};
};

/// Those of sample(), for a part of a row's columns. Equal in all parts.
struct fold_sample_options {
  double temperature = 1;
  const_vector_ref temperatures = {};  ///< f32 or f64
  /// 0: no filters. Else a row's lists must have at least so many entries.
  std::int64_t top_k = 0;
  const_vector_ref top_ks = {};  ///< i32 or i64
  /// Other than 1 only with a top_k, whose elements it counts.
  double top_p = 1;
  const_vector_ref top_ps = {};  ///< f32 or f64
  /// Other than 0 only with a top_k.
  double min_p = 0;
  const_vector_ref min_ps = {};  ///< f32 or f64
  std::uint64_t seed = 0;
  const_vector_ref seeds = {};  ///< i64, all 64 bits used
  std::uint64_t offset = 0;
  const_vector_ref offsets = {};  ///< i64, all 64 bits used
  /// Which of the offset's draws; 0 to 2^21 - 1.
  std::int64_t draw = 0;
  /// The column of the whole row that column 0 of the part is; 0 or more.
  std::int64_t column_offset = 0;
  row_edits edits = {};  ///< those of x_part
};

/// Results of finish_sample() that are wanted if they have data: [rows], f32 or f64. What they are
/// is said at sample_options.
struct finish_sample_options {
  vector_ref log_probability = {};
  vector_ref raw_log_probability = {};
  vector_ref lse = {};
  vector_ref kept = {};  ///< i32 or i64
  vector_ref kept_mass = {};
};

inline namespace SOFTFOLD_BACKEND {

/// y[r, i] = exp(s x[r, i] - lse(r)), where lse(r) = log(sum over i of exp(s x[r, i])).
///
/// x and y are [rows, cols]. One or two reads of x and one write of y: the online normaliser of
/// Milakov and Gimelshein (arXiv 1805.02867), folded per block and combined.
SOFTFOLD_API void softmax(queue& q, const_matrix_ref x, matrix_ref y,
                          const softmax_options& options = {});

/// y[r, i] = (s x[r, i] - m) - log d, where (m, d) is the row's state. Accurate also where the
/// elements are large, which x - logsumexp is not. Shapes, cost and source as softmax.
SOFTFOLD_API void log_softmax(queue& q, const_matrix_ref x, matrix_ref y,
                              const softmax_options& options = {});

/// lse[r] = log(sum over i of exp(s x[r, i])). x is [rows, cols], lse is [rows]. One read of x.
SOFTFOLD_API void logsumexp(queue& q, const_matrix_ref x, vector_ref lse,
                            const logsumexp_options& options = {});

/// The logarithm of the cumulative sum of exponentials, the scan of the states' monoid:
/// lse[r, i] = log(exp(c(r)) + sum over j <= i of exp(s x[r, j])), where c(r) is the logsumexp of
/// carry_in, or absent; with `exclusive` over j < i, with `reverse` over j >= i (j > i). The last
/// column of an inclusive scan is the row's logsumexp, and an exclusive scan has the same numbers
/// one column later.
///
/// x and lse are [rows, cols]; lse may be x itself. One write, and one read of x where rows are
/// many enough for a GPU to give a block to each, else two, of which the host's caches serve the
/// second.
SOFTFOLD_API void scan(queue& q, const_matrix_ref x, matrix_ref lse,
                       const scan_options& options = {});

/// dx[r, i] = s y[r, i] (dy[r, i] - sum over j of y[r, j] dy[r, j]): the gradient of softmax.
///
/// y is what softmax gave for x and the same scale s, dy the gradient of y, dx becomes that of x.
/// All three are [rows, cols]; y and dy have one real type, dx has that or f32 (f64 for f64). dx
/// may be y or dy itself. A sum that is not finite makes its row NaN. One read of y and dy while
/// registers or caches hold a row, else two; one write of dx.
SOFTFOLD_API void softmax_backward(queue& q, const_matrix_ref y, const_matrix_ref dy, matrix_ref dx,
                                   const backward_options& options = {});

/// dx[r, i] = s (dy[r, i] - exp(y[r, i]) sum over j of dy[r, j]): the gradient of log_softmax, of
/// which y is the result. Otherwise as softmax_backward.
SOFTFOLD_API void log_softmax_backward(queue& q, const_matrix_ref y, const_matrix_ref dy,
                                       matrix_ref dx, const backward_options& options = {});

/// The k = indices.cols largest elements of each row, in order, with their column indices.
///
/// x is [rows, cols]; values and indices are [rows, k] with 0 <= k <= cols; indices are i32 or
/// i64 (i32 only while cols <= 2^31 - 1). The order is total: NaN before +infinity before finite
/// values from large to small (+0 equal to -0) before -infinity; equal elements by lower index.
/// The answer is therefore unique; elements that edits removed come last, by index, with the value
/// -infinity. One read of x while k is small beside cols.
SOFTFOLD_API void topk(queue& q, const_matrix_ref x, matrix_ref values, matrix_ref indices,
                       const topk_options& options = {});

/// topk, with the softmax probability over the whole row of each selected element. The elements
/// of x are ranked, not their rounded probabilities, whatever the scale. One read of x.
///
/// x is [rows, cols]; probabilities and indices are [rows, k]; types and k as topk.
SOFTFOLD_API void softmax_topk(queue& q, const_matrix_ref x, matrix_ref probabilities,
                               matrix_ref indices, const softmax_topk_options& options = {});

/// partials[r] = the state of row r of x_part, a range of columns of a larger matrix.
///
/// x_part is [rows, any number of columns]; partials is [rows], max_sum<float>, or
/// max_sum<double> for f64 input. One read of x_part. Or exact_max_sum<float>,
/// exact_max_sum<double>, whatever the queue's numerics are: the same bits on every backend, and
/// the whole row's by combine() if every part begins at a multiple of 8 columns of it. These may
/// take a second read.
SOFTFOLD_API void fold(queue& q, const_matrix_ref x_part, partials_ref partials,
                       const logsumexp_options& options = {});

/// partials[r] = partials[r] + more[r]: (m1, d1) + (m2, d2) = (M, d1 exp(m1 - M) +
/// d2 exp(m2 - M)) with M = max(m1, m2). Associative and commutative up to rounding; exact sums
/// exactly, unless a maximum is 2^16 or more from 0. The default max_sum, or exact_max_sum, is the
/// identity. Both are [rows], of one type and one kind of sum; they may be the same memory.
SOFTFOLD_API void combine(queue& q, const_partials_ref more, partials_ref partials);

/// The softmax of a part of each row, given the states of the whole rows: y[r, i] =
/// exp(s x_part[r, i] - max(r)) / sum(r). The scale must be the one the states were folded with.
/// Applied to the values of a list of fold_topk, it gives their probabilities over the whole row.
/// By exact sums the results are those of softmax on a queue of numerics::reproducible, to the bit.
///
/// x_part and y are [rows, cols of the part], partials is [rows]. One read and one write.
SOFTFOLD_API void normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials,
                            matrix_ref y, const softmax_options& options = {});

/// The log-softmax of a part of each row, given the states of the whole rows: y[r, i] =
/// (s x_part[r, i] - max(r)) - log(sum(r)). Otherwise as normalize.
SOFTFOLD_API void log_normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials,
                                matrix_ref y, const softmax_options& options = {});

/// lse[r] = max(r) + log(sum(r)): the logsumexp of rows given their states; of exact sums to the
/// bit as normalize.
///
/// partials and lse are [rows], lse of the states' type; separate memory.
SOFTFOLD_API void logsumexp(queue& q, const_partials_ref partials, vector_ref lse);

/// The complete state of a part of each row: fold, and the k = indices.cols best elements of the
/// part in the order of topk, in one read, or two with exact sums. indices[r, i] is
/// options.column_offset plus the column within the part. k may exceed the part's columns: absent
/// entries follow the present ones, with index -1 and value -infinity; so do elements that edits
/// removed.
///
/// x_part is [rows, any number of columns]; values and indices are [rows, k]; partials is [rows],
/// or without data (null and size 0), and then only the lists are made. The elements are ranked
/// and listed unscaled; options.scale is that of the partials. Types as topk and fold; indices may
/// be i32 only while column_offset + columns <= 2^31 - 1.
SOFTFOLD_API void fold_topk(queue& q, const_matrix_ref x_part, partials_ref partials,
                            matrix_ref values, matrix_ref indices,
                            const fold_topk_options& options = {});

/// The lists of two disjoint parts of each row become that of their union, in values and indices:
/// the k best of the 2 k entries, in the order of topk, absent entries last. Exact, so lists may be
/// combined in any order and grouping, and give the list of the whole row.
///
/// All four are [rows, k]; values and more_values have one real type, indices and more_indices are
/// both i32 or both i64. Every entry of negative index is absent, whatever its value. The lists
/// must be in order, as fold_topk and combine_topk leave them; of others the result is some k of
/// the entries. None of the matrices may overlap. Work is proportional to rows * k.
SOFTFOLD_API void combine_topk(queue& q, const_matrix_ref more_values,
                               const_matrix_ref more_indices, matrix_ref values,
                               matrix_ref indices);

/// tokens[r, j] = a column of x drawn from softmax(x[r] / temperature), filtered by min-p, top-k
/// and top-p in this order. One token, whatever the backend, its number of threads, the other rows
/// and where the row lies: docs/sampling.md defines it to the bit.
///
/// x is [rows, cols]; tokens is [rows, draws], i32 (while cols <= 2^31 - 1) or i64: draws that are
/// independent of each other, of other offsets and of other seeds. A row with a NaN, or whose
/// parameters in a vector are out of range, gets token -1 and log-probability NaN; a row without
/// elements above -infinity -1 and -infinity; a row with +infinity the first +infinity and NaN.
///
/// By Gumbel's maximum, with Philox4x32 as the source of noise: the largest of z - log E wins, E an
/// exponential random number of the column. One read of x without filters and results that count
/// masses; else a few.
SOFTFOLD_API void sample(queue& q, const_matrix_ref x, matrix_ref tokens,
                         const sample_options& options = {});

/// Verifies chains of drafted tokens: what a target model draws in their places. Each chain's
/// tokens are those of its drafts that are accepted, then one of the target's own, then -1.
///
/// draft_tokens is [chains, n] and tokens [chains, n + 1], i32 or i64; accepted is [chains], the
/// number of drafts accepted, i32 or i64. target has the logits of n + 1 places of each chain:
/// [chains * (n + 1), cols]; place i is after the first i drafts. Parameters in vectors have an
/// entry for each of its rows; each place has an offset of its own.
///
/// - Without a draft (a view without data, no rows and no columns): coupled. The target's tokens
/// are
///   those of sample() with the same options, and drafts are accepted as far as they are equal. So
///   the output is that of sample() alone, whatever the drafts; a drafter that draws with the same
///   seeds and offsets is right with a probability of at least (1 - d) / (1 + d), d the total
///   variation distance of the two distributions (arXiv 2408.07978). tokens must have stride
///   n + 1; options may have edits and results, one for each of target's rows.
/// - With the draft's logits, [chains * n, cols] of target's type, from which sample() drew with
/// the
///   same parameters: by ratio (Leviathan, Kalman and Matias, arXiv 2211.17192). A draft is
///   accepted with probability min(1, p / q) of its probabilities after temperature and filters,
///   else the place's token is drawn from max(p - q, 0), normalised: of the target's distribution
///   in either case. Draws 1 and 2 of the place's offset decide, so that a draft drawn with draw 0
///   of the same seed and offset has other noise. options may have neither edits nor results.
///
/// A target's row of which sample() draws -1 ends its chain with -1. Draft tokens outside [0, cols)
/// are not accepted; a draft's row without a token counts as probability 0 everywhere. Where rows
/// have a token with certainty (temperature 0, +infinity), that is its distribution.
///
/// docs/sampling.md defines the tokens to the bit. Work is that of sample() of the rows, by ratio
/// only of the places up to the first draft that is not accepted, and a read of both rows there.
SOFTFOLD_API void verify(queue& q, const_matrix_ref target, const_matrix_ref draft,
                         const_matrix_ref draft_tokens, matrix_ref tokens, vector_ref accepted,
                         const sample_options& options = {});

/// What a part of each row's columns has to say about the row's token: a vocabulary that is spread
/// over several places needs to gather these states, no logits.
///
/// x_part is [rows, any number of columns], columns column_offset and following of rows of at most
/// 2^31 - 1. states is [rows]. With a top_k, values and indices are [rows, k], k >= top_k: the
/// part's k first elements, as fold_topk writes them. Without, the lists may be views without data.
/// The parts of a row have the same parameters, and values of one type.
///
/// A state keeps what temperature alone, or top_k with min_p and top_p among its elements, need;
/// min_p or top_p without a top_k, and filter_order::joint, would need every element. In a call's
/// numbers such filters are an error, in vectors the row is one whose parameters are out of range.
/// One read of x_part, another for the lists.
SOFTFOLD_API void fold_sample(queue& q, const_matrix_ref x_part, sample_states_ref states,
                              matrix_ref values = {}, matrix_ref indices = {},
                              const fold_sample_options& options = {});

/// The states, and lists if there are any, of two disjoint parts of each row become those of their
/// union, in states, values and indices. Exact: whatever the order and the grouping, the bits are
/// those of one fold_sample of all columns. States of different seeds, offsets or parameters give a
/// row that finishes with token -1 and NaN.
///
/// more and states are [rows], the lists [rows, k] as in combine_topk. No argument may overlap
/// another.
SOFTFOLD_API void combine_sample(queue& q, const_sample_states_ref more,
                                 const_matrix_ref more_values, const_matrix_ref more_indices,
                                 sample_states_ref states, matrix_ref values, matrix_ref indices);
/// The same without lists.
SOFTFOLD_API void combine_sample(queue& q, const_sample_states_ref more, sample_states_ref states);

/// tokens[r] = what sample() draws from the whole row with the same parameters, given the state of
/// all its columns: equal on every backend and for every way to cut the row. So are kept and, with
/// a top_k, log_probability. The others are sums of exponentials, whose last bits are not those of
/// sample(): before they are rounded they are within (cols + 16) 2^-52 of the exact value,
/// absolute, kept_mass relative. They have the same bits for every way to cut the row, too.
///
/// states and tokens are [rows], tokens i32 or i64; values and indices [rows, k] as fold_sample
/// wrote them, or views without data. Work is proportional to rows * k.
SOFTFOLD_API void finish_sample(queue& q, const_sample_states_ref states, const_matrix_ref values,
                                const_matrix_ref indices, vector_ref tokens,
                                const finish_sample_options& options = {});
/// The same without lists.
SOFTFOLD_API void finish_sample(queue& q, const_sample_states_ref states, vector_ref tokens,
                                const finish_sample_options& options = {});

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

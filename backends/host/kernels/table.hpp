// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the kernels of one instruction set offer to the rest of the backend: plain structs and
/// a table of functions. Includes nothing with inline functions, because the translation units
/// that are compiled for a wide instruction set must not emit code that others may link to.
#pragma once

#include <core/compensated_sum.hpp>

#include <softfold/config.hpp>
#include <softfold/sample_state.hpp>

#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// How e(x), the exponential of a row's element relative to the row's origin, is computed. The
/// softmax is e(x) / sum of e.
enum class form : std::uint8_t {
  power,    ///< exp(s x) 2^-origin: no subtraction rounds; for |s max| below 310 (f64: 2839)
  careful,  ///< exp(g (s (a x - b) - c)) 2^-origin: for rows far from zero and any scale
  uniform,  ///< s = 0: 1, or 0 for -infinity
};

///
/// origin is an integer, at least 25 below the exponent of the row's largest element, so that
/// every probability that is a normal number comes from an e(x) far from underflow.
struct frame {
  form how = form::power;
  double scale = 1;
  double origin = 0;
  /// careful: centred on the row's maximum m, (a, b, c, g) = (1/2, m/2, 0, 2), where halving
  /// keeps x - m finite; relative to a scaled maximum M, (1, 0, M, 1).
  double a = 1, b = 0, c = 0, g = 1;
  /// careful: whether the rounding error of the product by s is carried into the exponent.
  bool exact = true;
};

/// The origin of careful frames, whose largest element has e near 2^64.
inline constexpr double careful_origin = -64;

/// How far the largest element's exponent is above the origin at least.
inline constexpr double origin_margin = 25.5;

/// Where the power form holds, for arithmetic in A.
template <class A>
struct power_limits;
template <>
struct power_limits<float> {
  /// Origins are multiples of this, so that the segments of a row mostly share one.
  static constexpr double quantum = 64;
  /// Of |origin|: keeps n * ln2_high exact without a fused multiply-add.
  static constexpr double far = 448;
};
template <>
struct power_limits<double> {
  static constexpr double quantum = 512;
  static constexpr double far = 4096;
};

using core::compensated_sum;

/// A number as a part that is exact and a small rest.
struct split_number {
  double high, low;
};

/// The power fold of up to segment_columns consecutive elements of a row. Segments always
/// start at multiples of segment_columns, so that a row's result does not depend on which
/// threads fold which segments.
struct segment_state {
  double max = 0;          ///< of x, unscaled; -infinity if no element is above it
  double origin = 0;       ///< the power form's; meaningless while max = -infinity
  double sum = 0;          ///< of e(x), relative to origin
  bool one_origin = true;  ///< kept exponentials are all relative to `origin`
};

inline constexpr std::int64_t segment_columns = 8192;

/// Rows of at most this many vectors are short: one kernel call works on many.
inline constexpr int short_row_vectors = 16;
/// The same of reproducible rows, of which more is computed once a row: logsumexp's, and of softmax
/// and log-softmax those of f32, by columns; of 16-bit softmax and log-softmax.
inline constexpr int short_reproducible_columns = 4096;
inline constexpr int short_reproducible_softmax_vectors = 256;
inline constexpr int short_reproducible_log_softmax_vectors = 64;

/// A group is `group_vectors` consecutive vectors; its maxima, one per lane, are what top-k
/// keeps of it in the first pass.
inline constexpr int group_vectors = 8;

/// What a careful look at a row finds.
struct row_extremes {
  double max = 0;  ///< ignoring NaN; -infinity if there is none
  double min = 0;  ///< ignoring NaN; +infinity if there is none
  bool has_nan = false;
};

/// A part of a row, folded as core/reproducible.hpp has it: sums of lower and upper halves of the
/// words of the anchor's place and those below it.
struct reproducible_part {
  double largest = 0;  ///< of the elements; -infinity if none is above it, and no words are set
  std::int32_t anchor = 0;
  /// Kept terms are all relative to it, and 0 only where a probability is.
  bool has_kept_all = true;
  std::uint64_t low[5] = {};
  std::uint64_t high[5] = {};
};

/// What core::reproducible::row_total knows of an ordinary row that is not far.
struct reproducible_row {
  double scale = 1;
  double n = 0;
  double high = 0;
  double low = 0;
  double log_high = 0;
  double log_low = 0;
};

/// What kept terms become probabilities by.
struct reproducible_scaling {
  /// Of two: from the anchor to the row's. 1 if `high` and `low` are with it, as they are unless
  /// that makes one of them subnormal.
  double power = 0;
  double high = 0;
  double low = 0;
};

/// What core::reproducible::row_gradient knows of a row.
struct reproducible_gradient_row {
  double scale = 1;
  double high = 0;
  double low = 0;
};

/// A destination of a row's results.
struct destination {
  void* data = nullptr;
  bool stream = false;  ///< store past the caches
};

/// Elements that top-k still considers: values as f32 or f64, columns.
struct candidates {
  void* values = nullptr;
  std::int64_t* columns = nullptr;
  std::int64_t count = 0;       ///< elements above the threshold, then those equal to it
  std::int64_t equal_left = 0;  ///< how many more elements equal to the threshold to take
};

/// Rows short enough for one kernel call to work on many.
struct short_rows {
  const void* x = nullptr;
  void* y = nullptr;  ///< softmax and log-softmax: [rows, cols]; logsumexp: one f32 or f64 a row
  std::int64_t x_stride = 0;
  std::int64_t y_stride = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double scale = 1;
  double empty_value = 0;  ///< for each element of a row with nothing above -infinity
  bool stream = false;     ///< store results past the caches: of reproducible rows
};

inline constexpr std::int64_t most_reproducible_rows = 64;

/// A segment of a row whose prefixes are wanted: what came before it, and what is known of its
/// ends.
struct scan_segment {
  double scale = 1;
  double origin = 0;  ///< the power form's
  double before = 0;  ///< the sum of e of all elements before it, relative to the origin
  double first = 0;   ///< their logsumexp
  double last = 0;    ///< that of these and the segment
  bool exclusive = false;
  bool reverse = false;
};

/// Rows of the gradients' results y, gradient dy and result dx, short enough for one kernel call to
/// work on many.
struct gradient_rows {
  const void* y = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  std::int64_t y_stride = 0;
  std::int64_t dy_stride = 0;
  std::int64_t dx_stride = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double scale = 1;
};

/// Rows of one segment and their k best elements, for one kernel call to work on many.
struct topk_rows {
  const void* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;  ///< at most segment_columns
  std::int64_t k = 0;     ///< at most most_listed, and cols
  double scale = 1;
  bool fold = false;                ///< whether rows are folded; else no states, no probabilities
  segment_state* states = nullptr;  ///< one a row, or null
  void* probabilities = nullptr;    ///< [rows, k], or null
  std::int64_t probabilities_stride = 0;
  bool probabilities_as_input = false;  ///< of the input's type, else of the arithmetic's
  void* values = nullptr;               ///< [rows, k], or null
  std::int64_t values_stride = 0;
  bool values_as_input = false;
  void* indices = nullptr;  ///< [rows, k]
  std::int64_t indices_stride = 0;
  bool wide_indices = false;  ///< 64 bits, else 32
  std::int64_t column_offset = 0;
};

/// The race for a row's largest key; see core/sampling.hpp.
struct race_state {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::uint32_t draw = 0;
  double scale = 1;  ///< z = scale x; at most most_race_scale

  /// Only elements that the filters keep run: not below `lowest`, and of those equal to it the ones
  /// up to a column.
  double lowest = 0;
  std::int64_t last_column = 0;

  double key = 0;            ///< the largest so far; -infinity if none ran
  std::int64_t column = -1;  ///< and its column, the lowest
  bool ordinary = true;      ///< false once a NaN was met, or an x or z that is infinite
};

/// Of arithmetic in A.
template <class A>
inline constexpr double most_race_scale = sizeof(A) == 4 ? 0x1p100 : 0x1p990;

/// A look at what elements weigh; see core/sampling.hpp. `weighs`: else each one counts 1.
struct mass_range {
  double scale = 1;    ///< z = scale x
  double largest = 0;  ///< z
  double lowest = 0;   ///< a finite x; what is below does not count
  /// Elements in [low, high] are listed, with their numbers from 0 on, while there is room.
  double low = 0;
  double high = 0;
  bool weighs = true;
  void* values = nullptr;  ///< of the arithmetic's type
  std::int32_t* columns = nullptr;
  std::int64_t room = 0;  ///< a vector less is used
};
struct mass_sums {
  std::uint64_t whole = 0;
  std::uint64_t above = 0;  ///< of elements above `high`
  std::int64_t count_above = 0;
  std::int64_t listed = 0;  ///< -1 if there was no room
};

/// The most rows of a call, and the largest k.
inline constexpr std::int64_t most_topk_rows = 64;
inline constexpr std::int64_t most_listed = 64;

/// The edits of a row that vectors of elements take (core/edits.hpp has their meaning).
struct row_edit {
  std::int64_t first = 0;  ///< columns [first, last) may be kept
  std::int64_t last = 0;
  const std::uint32_t* words = nullptr;  ///< a bit for each column, or null
  const std::uint8_t* bytes = nullptr;   ///< a byte for each column, or null
  const void* bias = nullptr;            ///< a number for each column, or null
  int bias_type = 0;                     ///< an input_type
  double softcap = 0;
  double removed = 0;  ///< what an element that is not kept becomes
};

/// Where a fold writes what it keeps of a row's elements, each as A; or null.
struct kept_row {
  void* to = nullptr;
  /// Whether what will be read is asked for no nearer than the second-level cache; see plan.
  bool ahead_to_l2 = false;
};

/// Kernels that read one input type. A is float, or double for f64 input.
struct input_kernels {
  /// Power fold of x[0, n), n <= segment_columns. False if the row needs the careful way: NaN,
  /// +infinity, or a maximum too far from zero. `kept` receives e(x).
  /// `groups`, if not null, receives the group maxima as A: group_vectors vectors a group, the
  /// last one padded with -infinity.
  bool (*fold)(const void* x, std::int64_t n, double scale, kept_row kept, void* groups,
               segment_state* state);
  /// max, min and NaN of x[0, n).
  void (*extremes)(const void* x, std::int64_t n, row_extremes* result);
  /// Group maxima alone. False if there is a NaN.
  bool (*group_maxima)(const void* x, std::int64_t n, void* groups);
  /// sum of e(x[i]).
  double (*sum)(const void* x, std::int64_t n, const frame* frame);
  /// e(x[i]) as A.
  void (*exponentials)(const void* x, std::int64_t n, const frame* frame, void* e);
  /// Folds group maxima into fewer: n values, a multiple of the lanes, into about `target` or
  /// less, each the maximum of several. Returns how many.
  std::int64_t (*fold_groups)(const void* groups, std::int64_t n, std::int64_t target,
                              void* folded);
  /// Copies those of n values, n a multiple of the lanes, that are above the threshold, fills up
  /// with -infinity to a multiple of the lanes, and returns how many they are.
  std::int64_t (*keep_above)(const void* values, std::int64_t n, double threshold, void* kept);
  /// A value that at least k and, unless there are ties, at most k + slack of n values without
  /// NaN reach, by bisection; exactly the k-th largest with slack = 0. At least k values, n a
  /// multiple of the lanes, reach `at_least`.
  double (*nearly_kth)(const void* values, std::int64_t n, std::int64_t k, std::int64_t slack,
                       double at_least);
  /// Appends the elements of x[0, n) above the threshold, and the first ones equal to it.
  /// `groups` are the maxima of the same elements; `column` is the column of x[0].
  void (*filter)(const void* x, std::int64_t n, const void* groups, double threshold,
                 std::int64_t column, candidates* found);
  /// to[i] = x[i] where column + i is kept, for 0 <= i < n; columns are multiples of 32. Bias and
  /// softcap do not count. Where 32 columns are removed, x is not read.
  void (*keep)(const void* x, std::int64_t n, std::int64_t column, const row_edit* row, void* to);
  /// to[i] = x[i] + bias as A, in the words of 32 columns that keep some.
  void (*add_bias)(const void* x, std::int64_t n, std::int64_t column, const row_edit* row,
                   void* to);
  /// x[i] = softcap tanh(x[i] / softcap) where column + i is kept, in place. Of A only.
  void (*cap_and_keep)(void* x, std::int64_t n, std::int64_t column, const row_edit* row);
  /// to[i] = from[i] of A, rounded to this type.
  void (*narrow)(const void* from, std::int64_t n, void* to);
  /// Top-k of at most most_topk_rows rows. Returns a bit for each row that it leaves undone, for
  /// the general way (NaN, far from zero, nothing above -infinity, too many equal elements).
  /// Null if there is no such kernel.
  std::uint64_t (*topk)(const topk_rows* rows);
  /// x[0, n), n <= segment_columns, runs; `column`, a multiple of segment_columns, is that of x[0].
  void (*race)(const void* x, std::int64_t n, std::int64_t column, race_state* state);
  /// The same of n values of the arithmetic and their columns.
  void (*race_of_list)(const void* values, const std::int64_t* columns, std::int64_t n,
                       race_state* state);
  /// Adds x[0, n), of which x[0] has that column, to the state of columns before it or of none.
  void (*fold_sample)(const void* x, std::int64_t n, std::int64_t column, sample_state* state);
  /// x[0, n) as A, -infinity for what is below `lowest`, and what each element weighs. Both have
  /// room for whole vectors, which the rest of is filled up with what weighs nothing.
  void (*weigh)(const void* x, std::int64_t n, double scale, double largest, double lowest,
                void* values, std::uint64_t* weights);
  /// Of x[0, n), n <= segment_columns.
  void (*measure)(const void* x, std::int64_t n, const mass_range* range, mass_sums* sums);
  /// The sum of e(x) over the elements above range->high, in the arithmetic's own type but for the
  /// last additions; and their list, as measure has it.
  double (*about_above)(const void* x, std::int64_t n, const frame* frame, const mass_range* range,
                        std::int64_t* listed);
  /// What the values above a threshold weigh, and how many they are; n <= segment_columns, in whole
  /// vectors as weigh leaves them.
  void (*sum_above)(const void* values, const std::uint64_t* weights, std::int64_t n,
                    double threshold, mass_sums* sums);
  /// Of x[0, n), n <= segment_columns, from a multiple of 8 columns on. False if the row needs the
  /// plain way: NaN, +infinity, far above zero. The scale is one that reproducible_scale takes.
  /// `kept`, if not null, receives the terms; of f32 arithmetic only, as the two functions that
  /// take them are.
  bool (*reproducible_fold)(const void* x, std::int64_t n, double scale, kept_row kept,
                            reproducible_part* part);
  /// A core::reproducible::row_total of parts, at least one; of no account for a far row.
  void (*reproducible_total)(const reproducible_part* parts, std::int64_t count, double scale,
                             void* total);
  /// As output_kernels::reproducible_short_softmax, but y is a core::reproducible::row_total for
  /// each row, whose logarithm is left out.
  std::uint64_t (*reproducible_short_totals)(const short_rows* rows);
  /// An exact_max_sum of parts, likewise.
  void (*reproducible_state)(const reproducible_part* parts, std::int64_t count, double scale,
                             void* state);
};

/// Scales whose elements' products the kernels of reproducible rows can take.
constexpr bool reproducible_scale(double scale) { return scale >= 0x1p-100 && scale <= 0x1p100; }

/// Kernels of a gradient that read one type and write another.
struct gradient_functions {
  /// The sum of y[i] dy[i] (log-softmax: of dy[i]) for n <= segment_columns; NaN if not finite.
  void (*sum)(const void* y, const void* dy, std::int64_t n, compensated_sum* result);
  /// dx[i] = y[i] (dy[i] - sum) scale (log-softmax: (dy[i] - exp(y[i]) sum) scale), given the
  /// row's sum; NaN if that is not finite. dx may be y or dy.
  void (*map)(const void* y, const void* dy, std::int64_t n, double sum, double scale,
              destination dx);
  void (*short_rows)(const gradient_rows* rows);
  /// The sums of tiles of core::reproducible::tile_columns.
  void (*tiles)(const void* y, const void* dy, std::int64_t n, double* sums);
  /// As core::reproducible::row_gradient has them. dx may be y or dy.
  void (*reproducible_map)(const void* y, const void* dy, std::int64_t n,
                           const reproducible_gradient_row* row, destination dx);
  void (*reproducible_short_rows)(const gradient_rows* rows);
};

/// Kernels that read one type and write another.
struct output_kernels {
  /// y[i] = e(x[i]) * factor
  void (*probabilities)(const void* x, std::int64_t n, const frame* frame, double factor,
                        destination y);
  /// y[i] = (log e(x[i]) - high) - low, or 0 if that is above
  void (*log_probabilities)(const void* x, std::int64_t n, const frame* frame, double high,
                            double low, destination y);
  /// y[i] = e[i] * factor for kept exponentials e
  void (*scaled)(const void* e, std::int64_t n, double factor, destination y);
  /// input_kernels::fold with `kept`; along the way y[i] = e[i] * factor for n kept exponentials
  /// of another row, stored past the caches, also where the fold refuses.
  bool (*fold_and_stream)(const void* x, std::int64_t n, double scale, kept_row kept,
                          segment_state* state, const void* e, double factor, void* y);
  /// y[i] = log of (before + the sum of e(x[j]) for j <= i) 2^origin, n <= segment_columns. False,
  /// and nothing is written, if the first of the sums is too small to be exact.
  bool (*scan)(const void* x, std::int64_t n, const scan_segment* segment, void* y);
  void (*short_softmax)(const short_rows* rows);
  void (*short_log_softmax)(const short_rows* rows);
  void (*short_logsumexp)(const short_rows* rows);  ///< f32 or f64 results only
  /// As core::reproducible::row_total has them. y may be x.
  void (*reproducible_softmax)(const void* x, std::int64_t n, const reproducible_row* row,
                               destination y);
  /// The softmax of kept terms.
  void (*reproducible_scaled)(const void* terms, std::int64_t n,
                              const reproducible_scaling* scaling, destination y);
  /// input_kernels::reproducible_fold with `kept`, and reproducible_scaled of another row along the
  /// way, whose power is 1, stored past the caches, also where the fold refuses.
  bool (*reproducible_fold_and_stream)(const void* x, std::int64_t n, double scale, kept_row kept,
                                       reproducible_part* part, const void* terms,
                                       const reproducible_scaling* scaling, void* y);
  void (*reproducible_log_softmax)(const void* x, std::int64_t n, const reproducible_row* row,
                                   destination y);
  /// Of at most most_reproducible_rows short rows. Returns a bit for each that is left undone, for
  /// the general way. Null if there is no such kernel.
  std::uint64_t (*reproducible_short_softmax)(const short_rows* rows);
  std::uint64_t (*reproducible_short_log_softmax)(const short_rows* rows);
  std::uint64_t (*reproducible_short_logsumexp)(const short_rows* rows);  ///< f32 results only
  /// y[i] = (o[i] + lost[i]) / sum: attention's result of a row. `lost` may be null.
  void (*attention_result)(const void* o, const void* lost, std::int64_t n, double sum, void* y);
  gradient_functions softmax_gradient;
  gradient_functions log_softmax_gradient;
};

/// Rows of attention, each a query of one of the heads that share keys and values, and a range of
/// keys to fold into their states.
struct attention_rows {
  const void* q;
  const std::int64_t* q_offsets;  ///< of each row's query, in elements
  const void* k;                  ///< of key 0
  const void* v;
  std::int64_t k_stride;
  std::int64_t v_stride;
  int rows;  ///< at most kernel_table::attention_at_once
  int dim;
  int v_dim;
  std::int64_t begin;  ///< keys; a multiple of attention_at_once.keys
  std::int64_t end;
  const std::int64_t* first;  ///< of each row: keys [first, last) exist
  const std::int64_t* last;
  const std::int64_t* position;  ///< of each row, for `slope`
  const double* slope;           ///< of each row, or null: -slope |position - key|
  const void* const* bias;       ///< of each row, of key 0, or null
  int bias_type;                 ///< an input_type
  double scale;
  double softcap;  ///< or 0
  /// The states: the arithmetic's numbers, but for sums.
  void* max;
  double* sum;
  void* weighted;                ///< [rows, weighted_stride]
  std::int64_t weighted_stride;  ///< v_dim, rounded up to a multiple of attention_padding
  void* scratch;  ///< attention_scratch_elements() of the arithmetic's, aligned to 64 bytes
};
/// A row's bits depend on its place among so many rows; kernels may take a multiple at once.
inline constexpr int attention_row_block = 96;
inline constexpr int attention_row_blocks = 4;  ///< as a rule
inline constexpr int attention_most_row_blocks = 8;
inline constexpr int attention_key_block = 128;
inline constexpr int attention_most_key_block = 512;
/// So few rows take keys and values as they lie.
inline constexpr int attention_few_rows = 8;
inline constexpr int attention_padding = 16;
constexpr std::int64_t attention_padded(std::int64_t n) {
  return (n + attention_padding - 1) / attention_padding * attention_padding;
}
/// Queries and two numbers of each row, a row block's scores, a block of keys and one of values.
constexpr std::int64_t attention_scratch_elements(std::int64_t rows, std::int64_t key_block,
                                                  std::int64_t dim, std::int64_t v_dim) {
  return rows * (attention_padded(dim) + 2) +
         key_block * (attention_row_block + attention_padded(dim) + attention_padded(v_dim));
}
/// What a kernel works on at once.
struct attention_blocks {
  int row_blocks;  ///< a power of 2, of attention_row_block
  int keys;
};

enum input_type : int { input_f32, input_f64, input_f16, input_bf16, input_types };
enum output_type : int { output_same, output_arithmetic, output_types };

struct kernel_table {
  const char* isa;
  int lanes_f32;
  /// Makes streamed stores visible to other threads; a task's last step after streaming.
  void (*end_of_stream)();
  /// The largest k of n different keys, larger first, without branches: by a sorting network, or
  /// by counting with n^2 comparisons. `sorted` has room for n rounded up to a multiple of
  /// most_listed.
  void (*rank)(const std::uint64_t* keys, std::int64_t n, std::int64_t k, std::uint64_t* sorted);
  input_kernels input[input_types];
  /// The states of the rows over the keys: from nothing, whatever the memory held.
  void (*attention[input_types])(const attention_rows* rows);
  attention_blocks attention_at_once[input_types];
  /// o[i] becomes o[i] own + more[i] other, and lost[i] what that and those before it rounded away.
  void (*attention_add[input_types])(void* o, void* lost, const void* more, std::int64_t n,
                                     double own, double other);
  output_kernels output[input_types][output_types];
};

/// Kernels that take the place of an instruction set's on processors that have more.
struct dot_product_kernels {
  void (*attention_bf16)(const attention_rows* rows);
};

// One for each translation unit in isa/.
extern const kernel_table baseline_kernels;
#if defined(__x86_64__)
extern const kernel_table avx2_kernels;
extern const kernel_table avx512_kernels;
extern const dot_product_kernels avx512_bf16_kernels;
extern const dot_product_kernels amx_kernels;
#endif

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

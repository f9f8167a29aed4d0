// SPDX-License-Identifier: Apache-2.0
/// \file
/// The byte format of row_states, as docs/state_format.md describes it.
#include <core/check_lists.hpp>
#include <core/column_ranges.hpp>
#include <core/exponential_sum.hpp>
#include <core/floating_point.hpp>
#include <core/sample_state.hpp>
#include <core/state_bytes.hpp>
#include <core/topk.hpp>

#include <softfold/row_states.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace {

using namespace core::state_bytes;

/// 1, or with sampling 2: what readers of version 1 know is written so that they can. 3 is
/// attention's.
constexpr std::uint32_t plain_version = 1;
constexpr std::uint32_t sampling_version = 2;
constexpr std::uint32_t exact_version = 4;
/// Of version 4 in the place of the type: that bit, and whether there is sampling.
constexpr std::uint32_t wide_flag = 1;
constexpr std::uint32_t sampling_flag = 2;
constexpr std::size_t header_bytes = 48;
constexpr std::size_t sampling_header_bytes = 40;
constexpr std::size_t sample_bytes = 128;  ///< of each row

[[noreturn]] void refuse(const std::string& cause) {
  throw error(errc::invalid_data, "row_states::from_bytes: " + cause);
}

struct header {
  dtype type;
  std::int64_t rows;
  std::int64_t k;
  double scale;
  std::uint64_t ranges;
  bool has_sampling;
  sum_kind sum;

  [[nodiscard]] std::size_t bytes() const {
    return header_bytes + (has_sampling ? sampling_header_bytes : 0);
  }
};

header read_header(std::span<const std::byte> bytes) {
  const std::size_t shown = std::min(bytes.size(), sizeof magic);
  if (shown == 0 || std::memcmp(bytes.data(), magic, shown) != 0) {
    refuse("these are no states: wrong magic");
  }
  if (bytes.size() < header_bytes + checksum_bytes) {
    refuse("truncated: " + std::to_string(bytes.size()) + " bytes, expected at least " +
           std::to_string(header_bytes + checksum_bytes));
  }
  const auto version = get<std::uint32_t>(&bytes[8]);
  const bool is_exact = version == exact_version;
  if (version != plain_version && version != sampling_version && !is_exact) {
    refuse("version is " + std::to_string(version) + ", expected 1, 2 or 4");
  }
  const auto type = get<std::uint32_t>(&bytes[12]);
  if (is_exact && type > (wide_flag | sampling_flag)) {
    refuse("flags are " + std::to_string(type) + ", expected 0 to 3");
  }
  if (!is_exact && type > 1) {
    refuse("type is " + std::to_string(type) + ", expected 0 (f32) or 1 (f64)");
  }
  const header h{(type & wide_flag) == 0 ? dtype::f32 : dtype::f64,
                 get<std::int64_t>(&bytes[16]),
                 get<std::int64_t>(&bytes[24]),
                 get<double>(&bytes[32]),
                 get<std::uint64_t>(&bytes[40]),
                 version == sampling_version || (type & sampling_flag) != 0,
                 is_exact ? sum_kind::exact : sum_kind::rounded};
  if (h.rows < 0 || h.k < 0) {
    refuse((h.rows < 0 ? "rows is " + std::to_string(h.rows) : "k is " + std::to_string(h.k)) +
           ", expected 0 or more");
  }
  return h;
}

/// Bytes of a whole file with that header; the largest number if that is more than can be counted.
std::uint64_t expected_bytes(const header& h) {
  constexpr auto too_many = std::numeric_limits<std::uint64_t>::max();
  const auto rows = static_cast<std::uint64_t>(h.rows);
  const auto k = static_cast<std::uint64_t>(h.k);
  const std::uint64_t element = size_of(h.type);
  std::uint64_t row = 0;
  std::uint64_t all_rows = 0;
  std::uint64_t ranges = 0;
  std::uint64_t total = h.bytes() + checksum_bytes;
  const std::uint64_t fixed = size_of_state(h.type, h.sum) + (h.has_sampling ? sample_bytes : 0);
  const bool overflows = __builtin_mul_overflow(k, element + 8, &row) ||
                         __builtin_add_overflow(row, fixed, &row) ||
                         __builtin_mul_overflow(rows, row, &all_rows) ||
                         __builtin_mul_overflow(h.ranges, std::uint64_t{16}, &ranges) ||
                         __builtin_add_overflow(total, all_rows, &total) ||
                         __builtin_add_overflow(total, ranges, &total);
  return overflows ? too_many : total;
}

template <class State>
const State& state_at(const row_states& states, std::int64_t r) {
  return static_cast<const State*>(states.partials().data)[r];
}

template <class T>
double max_of(const row_states& states, std::int64_t r) {
  return states.partials().sum == sum_kind::exact
             ? double{state_at<exact_max_sum<T>>(states, r).max}
             : double{state_at<max_sum<T>>(states, r).max};
}

template <class T>
void check_state(const row_states& states, std::int64_t r, std::int64_t columns) {
  const auto number_of_columns = static_cast<double>(columns);
  const auto refuse_row = [&](const std::string& sum) {
    refuse("row " + std::to_string(r) + " has max " + core::text_of(max_of<T>(states, r)) +
           " and " + sum + ", which no row of " + std::to_string(columns) + " columns has");
  };
  if (states.partials().sum == sum_kind::exact) {
    if (!can_be_state(state_at<exact_max_sum<T>>(states, r), number_of_columns)) {
      refuse_row("an exact sum");
    }
  } else if (const auto& s = state_at<max_sum<T>>(states, r); !can_be_state(s, number_of_columns)) {
    refuse_row("sum " + core::text_of(double{s.sum}));
  }
}

/// The least maximum, up to rounding, of a row that has the element `x`; NaN for a NaN.
template <class T>
double least_maximum(double x, double scale) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double largest{std::numeric_limits<T>::max()};
  if (!std::isfinite(x)) {
    return scale == 0 && x == infinity ? 0 : scale == 0 ? x : scale * x;
  }
  const double scaled = scale * x;
  // Products past the type's range may have become infinite, and small ones 0.
  const double in_range = scaled < -largest ? -infinity : std::min(scaled, largest);
  return in_range - (std::fabs(in_range) * 4 * double{std::numeric_limits<T>::epsilon()} +
                     double{std::numeric_limits<T>::min()});
}

/// That the maximum is not below the scaled elements of the list.
template <class T>
void check_maximum(const row_states& states, std::int64_t r) {
  const double max = max_of<T>(states, r);
  const double first{static_cast<const T*>(states.values().data)[r * states.k()]};
  const double least = least_maximum<T>(first, states.scale());
  if (std::isnan(least) ? !std::isnan(max) : max < least) {
    refuse("row " + std::to_string(r) + " has max " + core::text_of(max) +
           ", which is below the scaled first element of its list, " + core::text_of(first));
  }
}

/// Finds columns that are in a list twice.
class repeated_columns {
 public:
  /// One mark for each column where that takes no more memory than the bytes that are read.
  repeated_columns(const row_states& states, std::size_t bytes)
      : marks_(states.columns().empty() ||
                       static_cast<std::size_t>(states.columns().back().end) > bytes / 8
                   ? 0
                   : static_cast<std::size_t>(states.columns().back().end),
               -1) {}

  /// A column that is in the row's list twice, -1 if there is none. All are covered ones.
  std::int64_t in(std::span<const std::int64_t> list, std::int64_t row) {
    if (marks_.empty()) {
      sorted_.assign(list.begin(), list.end());
      std::sort(sorted_.begin(), sorted_.end());
      const auto twice = std::adjacent_find(sorted_.begin(), sorted_.end());
      return twice == sorted_.end() ? -1 : *twice;
    }
    for (const std::int64_t column : list) {
      if (std::exchange(marks_[static_cast<std::size_t>(column)], row) == row) {
        return column;
      }
    }
    return -1;
  }

 private:
  std::vector<std::int64_t> marks_;  // the last row whose list has the column
  std::vector<std::int64_t> sorted_;
};

/// A list of covered columns, in order, each once, no longer than they allow: edits may have
/// removed some. Whether it has any.
template <class T>
bool check_list(const row_states& states, std::int64_t r, std::int64_t columns,
                repeated_columns& repeated) {
  const std::int64_t k = states.k();
  const core::sorted_list<const T, const std::int64_t> list{
      static_cast<const T*>(states.values().data) + r * k,
      static_cast<const std::int64_t*>(states.indices().data) + r * k};
  const std::int64_t most = std::min(k, columns);
  std::int64_t present = 0;
  while (present < most && list.indices[present] != -1) {
    ++present;
  }
  for (std::int64_t i = 0; i < k; ++i) {
    const bool right = i < present ? core::contains(states.columns(), list.indices[i]) &&
                                         (i == 0 || core::ranks_before(list[i - 1], list[i]))
                                   : list.indices[i] == -1 &&
                                         list.values[i] == -std::numeric_limits<T>::infinity();
    if (!right) {
      refuse("row " + std::to_string(r) + ", entry " + std::to_string(i) + ": index " +
             std::to_string(list.indices[i]) + " is not of the columns folded, or out of order");
    }
  }
  const std::span<const std::int64_t> listed(list.indices, static_cast<std::size_t>(present));
  if (const std::int64_t twice = repeated.in(listed, r); twice >= 0) {
    refuse("row " + std::to_string(r) + ": index " + std::to_string(twice) +
           " is in the list twice");
  }
  return present > 0;
}

// ---- Exact sums.

template <class T>
void put_exact(std::byte*& to, const std::vector<std::byte>& states) {
  for (std::size_t at = 0; at < states.size(); at += sizeof(exact_max_sum<T>)) {
    const auto& s = *reinterpret_cast<const exact_max_sum<T>*>(&states[at]);
    const T numbers[] = {s.max, s.lost};
    put_all<T>(to, numbers, sizeof numbers);
    put_all<std::int64_t>(to, &s.top, sizeof s.top);
    put_all<std::uint64_t>(to, s.words, sizeof s.words);
  }
}

template <class T>
void get_exact(std::vector<std::byte>& states, const std::byte*& from) {
  for (std::size_t at = 0; at < states.size(); at += sizeof(exact_max_sum<T>)) {
    auto& s = *reinterpret_cast<exact_max_sum<T>*>(&states[at]);
    s.max = get<T>(from);
    s.lost = get<T>(from + sizeof(T));
    from += 2 * sizeof(T);
    s.top = get<std::int64_t>(from);
    from += sizeof s.top;
    for (auto& word : s.words) {
      for (std::uint64_t& half : word) {
        half = get<std::uint64_t>(from);
        from += sizeof half;
      }
    }
  }
}

// ---- Sampling.

void put_sample(std::byte*& to, const sample_state& s) {
  const std::int64_t integers[] = {static_cast<std::int64_t>(s.seed),
                                   static_cast<std::int64_t>(s.offset),
                                   std::bit_cast<std::int64_t>(s.largest),
                                   s.largest_column,
                                   std::bit_cast<std::int64_t>(s.key),
                                   std::bit_cast<std::int64_t>(s.value),
                                   s.column,
                                   s.count};
  put_all<std::int64_t>(to, integers, sizeof integers);
  for (const exponential_sum* sum : {&s.sum, &s.raw_sum}) {
    put_all<std::int64_t>(to, &sum->top, sizeof sum->top);
    put_all<std::int64_t>(to, sum->words, sizeof sum->words);
  }
}

/// All but what every row has in common.
void get_sample(const std::byte*& from, sample_state& s) {
  s.seed = get<std::uint64_t>(from);
  s.offset = get<std::uint64_t>(from + 8);
  s.largest = get<double>(from + 16);
  s.largest_column = get<std::int64_t>(from + 24);
  s.key = get<double>(from + 32);
  s.value = get<double>(from + 40);
  s.column = get<std::int64_t>(from + 48);
  s.count = get<std::int64_t>(from + 56);
  from += 64;
  for (exponential_sum* sum : {&s.sum, &s.raw_sum}) {
    sum->top = get<std::int64_t>(from);
    for (std::uint64_t& word : sum->words) {
      from += 8;
      word = get<std::uint64_t>(from);
    }
    from += 8;
  }
}

numerics numerics_of(const header& h) {
  return h.sum == sum_kind::exact ? numerics::reproducible : numerics::fast;
}

/// States of no columns with the header's parameters; `from` goes past them.
row_states with_sampling(const header& h, const std::byte*& from) {
  const row_sampling s = {.temperature = get<double>(from),
                          .top_k = get<std::int64_t>(from + 24),
                          .top_p = get<double>(from + 8),
                          .min_p = get<double>(from + 16),
                          .draw = get<std::int64_t>(from + 32)};
  from += sampling_header_bytes;
  try {
    return {h.type, h.rows, h.k, h.scale, s, numerics_of(h)};
  } catch (const error& e) {
    if (e.code() == errc::out_of_memory) {
      throw;
    }
    refuse(std::string("its parameters of sampling are none: ") + e.what());
  }
}

/// Whether so many terms of at most exp(largest), itself among them, have such a sum, each word of
/// which is a sum of digits.
bool can_be_sum(const exponential_sum& sum, bool has_terms, double largest, std::int64_t terms) {
  if (!has_terms) {
    return sum == exponential_sum{};
  }
  exponential_sum least;
  core::sampling::add_term(least, largest);
  const std::uint64_t more =
      0xffffffffU * static_cast<std::uint64_t>(terms - 1);  // below 2^31 terms
  const auto between = [&](int i) {
    return sum.words[i] >= least.words[i] && sum.words[i] - least.words[i] <= more;
  };
  return sum.top == least.top && between(0) && between(1) && between(2);
}

/// Whether some row of those columns has that state: its elements are among them, the key is that
/// of its element, the sums have the largest element's place.
template <class T>
bool can_be_sample(const row_states& states, std::int64_t r, std::int64_t columns) {
  namespace sampling = core::sampling;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const sample_state& s = states.samples().data[r];
  const auto is_number_of = [](double x) {
    return std::isnan(x) || static_cast<double>(static_cast<T>(x)) == x;
  };
  const bool is_empty = s.largest == -infinity;
  const double max = max_of<T>(states, r);
  if (!is_number_of(s.largest) || s.count < 0 || s.count > columns ||
      (is_empty ? s.largest_column != -1 : !core::contains(states.columns(), s.largest_column)) ||
      std::isnan(s.largest) != std::isnan(max)) {
    return false;
  }
  if (states.k() > 0 && columns > 0) {  // the list's first element, if that is above -infinity
    const double first{static_cast<const T*>(states.values().data)[r * states.k()]};
    const std::int64_t column =
        static_cast<const std::int64_t*>(states.indices().data)[r * states.k()];
    const bool same = std::isnan(first) ? std::isnan(s.largest) : first == s.largest;
    if (!same || (!is_empty && column != s.largest_column)) {
      return false;
    }
  }
  const bool is_ordinary = std::isfinite(s.largest);
  const bool has_scale = s.scale < infinity;
  const double z =
      has_scale && !std::isnan(s.largest) ? sampling::scaled(s.scale, s.largest) : -infinity;
  // NaN and +infinity are no terms, so that then the largest term is not known.
  if (is_ordinary || is_empty) {
    if (!can_be_sum(s.raw_sum, is_ordinary, s.largest, columns) ||
        (std::isfinite(z) && !can_be_sum(s.sum, true, z, s.count)) ||
        (has_scale && (s.count > 0) != (z > -infinity))) {
      return false;
    }
  }
  const bool races = sampling::has_race(s) && s.count > 0;
  if (!races) {
    return s.column == -1 && s.key == -infinity && s.value == -infinity;
  }
  return is_number_of(s.value) && core::contains(states.columns(), s.column) &&
         (std::isnan(s.largest) || s.value <= s.largest) &&
         s.key == sampling::key_of(sampling::scaled(s.scale, s.value),
                                   sampling::random_bits(sampling::noise_of(s), s.column));
}

template <class T>
void check_sample(const row_states& states, std::int64_t r, std::int64_t columns) {
  if (!can_be_sample<T>(states, r, columns)) {
    refuse("row " + std::to_string(r) + " has a state of sampling that no row of " +
           std::to_string(columns) + " columns has");
  }
}

template <class T>
void check_rows(const row_states& states, std::size_t bytes) {
  const std::int64_t columns = states.column_count();
  repeated_columns repeated(states, bytes);
  for (std::int64_t r = 0; r < states.rows(); ++r) {
    check_state<T>(states, r, columns);
    if (check_list<T>(states, r, columns, repeated)) {
      check_maximum<T>(states, r);
    }
    if (states.sampling()) {
      check_sample<T>(states, r, columns);
    }
  }
}

}  // namespace

std::size_t row_states::byte_count() const noexcept {
  return expected_bytes(
      {type_, rows_, k_, scale_, columns_.size(), sampling_.has_value(), partials().sum});
}

std::vector<std::byte> row_states::to_bytes() const {
  std::vector<std::byte> bytes(byte_count());
  std::memcpy(bytes.data(), magic, sizeof magic);
  const bool is_exact = partials().sum == sum_kind::exact;
  put(&bytes[8], is_exact ? exact_version : sampling_ ? sampling_version : plain_version);
  put(&bytes[12], (type_ == dtype::f64 ? wide_flag : std::uint32_t{0}) |
                      (is_exact && sampling_ ? sampling_flag : std::uint32_t{0}));
  put(&bytes[16], rows_);
  put(&bytes[24], k_);
  put(&bytes[32], scale_);
  put(&bytes[40], std::uint64_t{columns_.size()});
  std::byte* to = &bytes[header_bytes];
  if (sampling_) {
    put(to, sampling_->temperature);
    put(to + 8, sampling_->top_p);
    put(to + 16, sampling_->min_p);
    put(to + 24, sampling_->top_k);
    put(to + 32, sampling_->draw);
    to += sampling_header_bytes;
  }
  put_all<std::int64_t>(to, columns_.data(), columns_.size() * sizeof(column_range));
  const auto put_rows = [&]<class T>(T) {
    if (is_exact) {
      put_exact<T>(to, partials_);
    } else {
      put_all<T>(to, partials_.data(), partials_.size());
    }
    put_all<T>(to, values_.data(), values_.size());
  };
  type_ == dtype::f64 ? put_rows(double{}) : put_rows(float{});
  put_all<std::int64_t>(to, indices_.data(), indices_.size());
  for (const sample_state& s : samples_) {
    put_sample(to, s);
  }
  put(to, checksum({bytes.data(), bytes.size() - checksum_bytes}));
  return bytes;
}

row_states row_states::from_bytes(std::span<const std::byte> bytes) {
  const core::default_floating_point environment;  // elements are compared
  const header h = read_header(bytes);
  if (const std::uint64_t expected = expected_bytes(h); bytes.size() != expected) {
    refuse((bytes.size() < expected ? "truncated: " : "bytes after the states: ") +
           std::to_string(bytes.size()) + " bytes, the header says " + std::to_string(expected));
  }
  const std::size_t body = bytes.size() - checksum_bytes;
  if (get<std::uint32_t>(&bytes[body]) != checksum(bytes.first(body))) {
    refuse("altered: the checksum does not fit");
  }
  const double scale =
      h.type == dtype::f64 ? h.scale : static_cast<double>(static_cast<float>(h.scale));
  if (!std::isfinite(h.scale) || scale != h.scale) {
    refuse("scale is " + core::text_of(h.scale) + ", expected finite as " + name_of(h.type));
  }

  const std::byte* from = &bytes[header_bytes];
  row_states states = h.has_sampling ? with_sampling(h, from)
                                     : row_states(h.type, h.rows, h.k, h.scale, numerics_of(h));
  states.columns_.resize(h.ranges);
  for (column_range& r : states.columns_) {
    r = {get<std::int64_t>(from), get<std::int64_t>(from + 8)};
    from += 16;
  }
  if (const column_range* wrong = wrong_range(states.columns_)) {
    refuse("column range " + std::to_string(wrong->begin) + " to " + std::to_string(wrong->end) +
           " is empty, negative, or not after the one before");
  }
  const auto get_rows = [&]<class T>(T) {
    if (h.sum == sum_kind::exact) {
      get_exact<T>(states.partials_, from);
    } else {
      get_all<T>(states.partials_, from);
    }
    get_all<T>(states.values_, from);
    get_all<std::int64_t>(states.indices_, from);
    for (sample_state& s : states.samples_) {
      get_sample(from, s);
    }
    check_rows<T>(states, bytes.size());
  };
  h.type == dtype::f64 ? get_rows(double{}) : get_rows(float{});
  return states;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
#include <backends/host/sampling/entry_list.hpp>

#include <algorithm>
#include <cstring>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace sampling = core::sampling;

/// Entries past the last that kernels write and read.
constexpr std::int64_t spare = 64;

std::int64_t room_for(std::int64_t cols) { return std::min(cols, entry_list::most) + spare; }

template <class A>
std::optional<double> middle_of(double low, double high, int turn) {
  if (turn % 4 != 3) {
    const auto middle = static_cast<double>(static_cast<A>(low * 0.5 + high * 0.5));
    if (low < middle && middle < high) {
      return middle;
    }
  }
  const std::uint64_t from = core::order_key(static_cast<A>(low));
  const std::uint64_t to = core::order_key(static_cast<A>(high));
  const auto middle = static_cast<double>(core::value_of_key<A>(from + (to - from) / 2));
  // -0 has a key of its own, which no value has.
  return low < middle && middle < high ? std::optional(middle) : std::nullopt;
}

template <class A>
double neighbour(double x, std::uint64_t step) {
  return static_cast<double>(core::value_of_key<A>(core::order_key(static_cast<A>(x)) + step));
}

}  // namespace

std::optional<double> value_bracket::middle(bool is_double, int turn) const {
  return is_double ? middle_of<double>(low, high, turn) : middle_of<float>(low, high, turn);
}

double next_above(bool is_double, double x) {
  return is_double ? neighbour<double>(x, 1) : neighbour<float>(x, 1);
}

double next_below(bool is_double, double x) {
  constexpr auto down = ~std::uint64_t{0};
  return is_double ? neighbour<double>(x, down) : neighbour<float>(x, down);
}

std::size_t entry_list::bytes(std::int64_t cols, dtype computed) {
  return static_cast<std::size_t>(room_for(cols)) *
         (size_of(computed) + sizeof(std::uint64_t) + sizeof(std::int64_t));
}

entry_list::entry_list(const row_view& row, std::byte* memory, std::int64_t cols)
    : row_(row),
      values_(memory + static_cast<std::size_t>(room_for(cols)) *
                           (sizeof(std::uint64_t) + sizeof(std::int64_t))),
      weights_(reinterpret_cast<std::uint64_t*>(memory)),
      columns_(reinterpret_cast<std::int64_t*>(memory) + room_for(cols)) {}

void entry_list::weigh_at(const input_kernels& kernels, const void* x, std::int64_t at,
                          std::int64_t n, const mass_range& of) {
  kernels.weigh(x, n, of.weighs ? of.scale : 0, of.weighs ? of.largest : 0, of.lowest, value_at(at),
                weights_ + at);
  if (!of.weighs) {  // 2^50 each, or nothing
    for (std::int64_t i = at; i < at + n; ++i) {
      weights_[i] >>= sampling::weight_bits;
    }
  }
}

void entry_list::weigh(const mass_range& of, std::int64_t begin, std::int64_t n) {
  weigh_at(row_.kernels(), row_.at(begin), n_, n, of);
  n_ += n;
}

bool entry_list::append(const std::byte* values, const std::int32_t* columns, std::int64_t n,
                        std::int64_t begin) {
  if (n_ + n > most) {
    return false;
  }
  std::memcpy(value_at(n_), values,
              static_cast<std::size_t>(n) * size_of(row_.from.kernels.computed));
  for (std::int64_t i = 0; i < n; ++i) {
    columns_[n_ + i] = begin + columns[i];
  }
  n_ += n;
  appended_ = true;
  return true;
}

void entry_list::weigh_appended(const mass_range& of) {
  weigh_at(row_.from.kernels.arithmetic, values_, 0, n_, of);
}

entry_list::part entry_list::above(double threshold) const {
  part all;
  for (std::int64_t i = 0; i < n_; i += segment_columns) {
    mass_sums own;
    row_.kernels().sum_above(value_at(i), weights_ + i, std::min(segment_columns, n_ - i),
                             threshold, &own);
    all.count += own.count_above;
    all.weight.add(own.above);
  }
  return all;
}

std::pair<mass_cut, mass_cut> entry_list::ends_of(const sampling::mass& target,
                                                  const sampling::mass& second,
                                                  const sampling::mass& before,
                                                  const value_bracket& in) const {
  constexpr std::int64_t few = 16;
  constexpr std::int64_t chunk = 512;
  struct entry {
    double value;
    std::int64_t column;
    std::uint64_t weight;
  };
  entry entries[2 * few];
  std::int64_t n = 0;
  alignas(8) std::byte values[static_cast<std::size_t>(chunk + spare) * sizeof(double)];
  std::int32_t numbers[static_cast<std::size_t>(chunk + spare)];

  const value_bracket last = narrowed(in, few, [&](const part& own) {
    sampling::mass sum = before;
    sum.add(own.weight);
    return sum.reaches(target);
  });
  const bool is_double = row_.is_double();
  const bool alike = !last.middle(is_double, 3);  // one value: the entries stand in their order
  mass_cut cut = {{last.high, 0}, before};
  cut.weight.add(above(last.high).weight);
  mass_cut first = cut;
  // Whether both are reached.
  const auto reaches_with = [&](const entry& e) {
    if (!cut.weight.reaches(target)) {
      first = {{e.value, e.column}, cut.weight};
      first.weight.add(e.weight);
    }
    cut.kept = {e.value, e.column};
    cut.weight.add(e.weight);
    return cut.weight.reaches(second);
  };
  mass_range listing = {.lowest = next_above(is_double, last.low),
                        .low = next_above(is_double, last.low),
                        .high = last.high,
                        .weighs = false,
                        .values = values,
                        .columns = numbers,
                        .room = chunk + spare};
  for (std::int64_t begin = 0; begin < n_; begin += chunk) {
    mass_sums found;
    row_.from.kernels.arithmetic.measure(value_at(begin), std::min(chunk, n_ - begin), &listing,
                                         &found);
    for (std::int64_t i = 0; i < found.listed; ++i) {
      const std::int64_t at = begin + numbers[i];
      const entry own = {core::real_at<double>(values_, row_.from.kernels.computed, at), column(at),
                         weights_[at]};
      if (!alike) {
        entries[n++] = own;
      } else if (reaches_with(own)) {
        return {first, cut};
      }
    }
  }
  std::sort(entries, entries + n, [](const entry& a, const entry& b) {
    return a.value != b.value ? a.value > b.value : a.column < b.column;
  });
  for (std::int64_t i = 0; i < n; ++i) {
    if (reaches_with(entries[i])) {
      return {first, cut};
    }
  }
  if (!cut.weight.reaches(target)) {
    return {cut, cut};
  }
  return {first, end_of(second, before, in)};
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

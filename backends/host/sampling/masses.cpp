// SPDX-License-Identifier: Apache-2.0
#include <backends/host/sampling/masses.hpp>

#include <algorithm>
#include <cmath>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace sampling = core::sampling;

constexpr double inf = std::numeric_limits<double>::infinity();

/// Rows of at most so many elements are weighed whole, once.
constexpr std::int64_t short_columns = 2048;

/// What of a longer row is looked at first, in parts of some cache lines.
constexpr std::int64_t sample_part = 64;
std::int64_t sample_parts(std::int64_t cols) {
  return std::clamp<std::int64_t>(cols / (32 * sample_part), 8, 32);
}

std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The lowest x whose z exists and is at most the depth below the largest: z and the difference,
/// both rounded, go up and down with x.
template <class A>
double lowest_within(double scale, double largest, double depth) {
  std::uint64_t low = core::order_key(std::numeric_limits<A>::lowest());
  std::uint64_t high = core::order_key(std::numeric_limits<A>::max());
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const double z = sampling::scaled(scale, static_cast<double>(core::value_of_key<A>(middle)));
    if (z > -inf && largest - z <= depth) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return static_cast<double>(core::value_of_key<A>(high));
}

/// Of the largest element.
constexpr double weight_units = 0x1p50;

/// `count` times a mass of one.
sampling::mass times(std::uint64_t weight, std::uint64_t count) {
  return sampling::product_of(weight, count);
}

}  // namespace

std::size_t mass_memory::bytes(std::int64_t cols, dtype computed) {
  const auto segments = static_cast<std::size_t>(segments_of(cols));
  const auto listed = segments * static_cast<std::size_t>(segment_room);
  return whole_lines(segments * sizeof(mass_sums)) +
         whole_lines(segments * sizeof(reproducible_part)) +
         whole_lines(segments * sizeof(double)) + whole_lines(listed * size_of(computed)) +
         whole_lines(listed * sizeof(std::int32_t)) +
         whole_lines(entry_list::bytes(cols, computed));
}

mass_memory::mass_memory(std::byte* memory, std::int64_t cols, dtype computed) {
  const auto segments = static_cast<std::size_t>(segments_of(cols));
  const auto listed = segments * static_cast<std::size_t>(segment_room);
  const auto part = [&](std::size_t bytes) {
    std::byte* const start = memory;
    memory += whole_lines(bytes);
    return start;
  };
  sums = reinterpret_cast<mass_sums*>(part(segments * sizeof(mass_sums)));
  totals = reinterpret_cast<reproducible_part*>(part(segments * sizeof(reproducible_part)));
  above = reinterpret_cast<double*>(part(segments * sizeof(double)));
  values = part(listed * size_of(computed));
  columns = reinterpret_cast<std::int32_t*>(part(listed * sizeof(std::int32_t)));
  entries = memory;
}

row_masses::row_masses(executor& on, const plan& plan, const row_view& row, double scale,
                       double largest_x, const mass_memory& memory)
    : on_(on),
      plan_(plan),
      row_(row),
      scale_(scale),
      largest_x_(largest_x),
      largest_(sampling::scaled(scale, largest_x)),
      memory_(memory) {}

bool row_masses::is_short() const { return row_.cols() <= short_columns; }

first_part row_masses::within(double depth) const {
  if (row_.is_double()) {
    return depth < inf || scale_ > 1 ? first_part{lowest_within<double>(scale_, largest_, depth)}
                                     : first_part{};
  }
  return depth < inf ? first_part{lowest_within<float>(scale_, largest_, depth)} : first_part{};
}

std::uint64_t row_masses::weight(double x, bool weighs) const {
  return weighs ? sampling::weight_of(largest_ - sampling::scaled(scale_, x)) : 1;
}

mass_range row_masses::range_of(const first_part& part, bool weighs) const {
  const double lowest = row_.is_double()
                            ? std::numeric_limits<double>::lowest()
                            : static_cast<double>(std::numeric_limits<float>::lowest());
  return {.scale = scale_,
          .largest = largest_,
          .lowest = std::max(part.lowest, lowest),
          .low = inf,
          .high = inf,
          .weighs = weighs};
}

/// Where a cut may be.
value_bracket row_masses::bracket_of(const mass_range& range) const {
  double low = next_below(row_.is_double(), range.lowest);
  if (range.weighs && scale_ > 0 && std::abs(largest_) < 0x1p16) {
    // No filter cuts at what weighs nothing.
    const double nothing = std::max((largest_ - 37) / scale_, -0x1p120);
    low = std::max(low,
                   row_.is_double() ? nothing : static_cast<double>(static_cast<float>(nothing)));
  }
  return {low, largest_x_};
}

/// A segment's range, with where its list goes.
mass_range row_masses::listed_by(mass_range range, std::int64_t segment) const {
  const std::int64_t at = segment * mass_memory::segment_room;
  range.values = row_.from.kernels.computed_at(memory_.values, at);
  range.columns = memory_.columns + at;
  range.room = mass_memory::segment_room;
  return range;
}

row_masses::look row_masses::look_at(const mass_range& range, std::int64_t first_column) const {
  const std::int64_t cols = row_.cols() - first_column;
  over_segments(on_, plan_, cols, [&](std::int64_t i) {
    const auto [begin, count] = columns_of(i, cols);
    const mass_range own = listed_by(range, i);
    row_.kernels().measure(row_.at(first_column + begin), count, &own, memory_.sums + i);
  });
  look all;
  for (std::int64_t i = 0; i < segments_of(cols); ++i) {
    const mass_sums& own = memory_.sums[i];
    all.whole.add(own.whole);
    all.above.add(own.above);
  }
  return all;
}

/// What a range of all that is not below the part's lowest has beyond the part.
sampling::mass row_masses::excess(const first_part& part, bool weighs) const {
  if (part.last_column >= row_.cols() - 1) {
    return {};
  }
  mass_range equal = range_of(part, false);
  equal.low = equal.high = part.lowest;
  const look after = look_at(equal, part.last_column + 1);
  return times(weight(part.lowest, weighs), after.whole.low - after.above.low);
}

sampling::mass row_masses::sum_of(const first_part& part, bool weighs) const {
  const sampling::mass more = excess(part, weighs);
  sampling::mass sum = look_at(range_of(part, weighs)).whole;
  sum.subtract(more);
  return sum;
}

sampling::mass row_masses::weight_of(const first_part& part) const { return sum_of(part, true); }

std::int64_t row_masses::count_of(const first_part& part) const {
  return static_cast<std::int64_t>(sum_of(part, false).low);
}

bool row_masses::take_listed(entry_list& list) const {
  list.clear();
  for (std::int64_t i = 0; i < segments_of(row_.cols()); ++i) {
    const std::int64_t at = i * mass_memory::segment_room;
    if (memory_.sums[i].listed < 0 ||
        !list.append(row_.from.kernels.computed_at(memory_.values, at), memory_.columns + at,
                     memory_.sums[i].listed, columns_of(i, row_.cols()).begin)) {
      return false;
    }
  }
  return true;
}

template <class Above>
value_bracket row_masses::likely(entry_list& list, const mass_range& range, Above&& above) const {
  const std::int64_t parts = sample_parts(row_.cols());
  const std::int64_t few = parts / 2;
  for (std::int64_t i = 0; i < parts; ++i) {
    list.weigh(range, (row_.cols() - sample_part) * i / (parts - 1), sample_part);
  }
  // Some hundred elements below a cut tell their mass to a tenth, as a rule.
  const double slack = 1 + 1 / std::sqrt(static_cast<double>(parts));
  const double part = static_cast<double>(parts * sample_part) / static_cast<double>(row_.cols());
  const double whole = list.weight().count();
  const auto end = [&](const value_bracket& in, double times) {
    const double target = above(whole, part, times);
    return list.narrowed(in, few,
                         [&](const entry_list::part& own) { return own.weight.count() >= target; });
  };
  const value_bracket all = bracket_of(range);
  const double low = end(all, 1 / slack).low;
  return {low, end({low, all.high}, slack).high};
}

mass_cut row_masses::end_among(double x, mass_range range, const sampling::mass& target) const {
  range.low = range.high = x;
  mass_cut cut = {{x, 0}, look_at(range).above};
  const std::uint64_t each = weight(x, range.weighs);
  for (std::int64_t i = 0; i < row_.cols() && !cut.weight.reaches(target); ++i) {
    if (row_[i] == x) {
      cut.weight.add(each);
      cut.kept.last_column = i;
    }
  }
  return cut;
}

template <class TargetOf, class Above>
std::optional<mass_cut> row_masses::end_of(const first_part& part, bool weighs,
                                           TargetOf&& target_of, Above&& above) const {
  const sampling::mass more = excess(part, weighs);
  mass_range range = range_of(part, weighs);
  value_bracket in = bracket_of(range);
  entry_list list(row_, memory_.entries, row_.cols());
  if (is_short()) {
    list.weigh(range, 0, row_.cols());
    sampling::mass whole = list.weight();
    whole.subtract(more);
    const std::optional<sampling::mass> target = target_of(whole);
    return target ? std::optional(list.end_of(*target, {}, in)) : std::nullopt;
  }
  std::optional<sampling::mass> target;
  value_bracket probe = likely(list, range, above);
  for (int turn = 0;; ++turn) {
    range.low = next_above(row_.is_double(), probe.low);
    range.high = probe.high;
    const look found = look_at(range);
    if (!target) {
      sampling::mass whole = found.whole;
      whole.subtract(more);
      target = target_of(whole);
      if (!target) {
        return std::nullopt;
      }
    }
    double low = in.low;
    if (found.above.reaches(*target)) {
      low = in.low = probe.high;
    } else {
      in.high = probe.high;
      if (take_listed(list)) {
        list.weigh_appended(range);
        sampling::mass reached = found.above;
        reached.add(list.weight());
        if (reached.reaches(*target)) {
          return list.end_of(*target, found.above, probe);
        }
        in.high = probe.low;
      } else {  // too many: it is looked for among the upper ones of these
        low = std::max(low, probe.low);
      }
    }
    std::optional<double> middle = value_bracket{low, in.high}.middle(row_.is_double(), turn);
    if (!middle) {
      low = in.low;
      middle = in.middle(row_.is_double(), turn);
    }
    if (!middle) {
      return end_among(in.high, range, *target);
    }
    probe = {low, *middle};
  }
}

std::optional<mass_cut> row_masses::first_of(std::int64_t count, const first_part& part) const {
  const sampling::mass wanted = {static_cast<std::uint64_t>(count), 0};
  return end_of(
      part, false,
      [&](const sampling::mass& whole) {
        return whole.reaches(wanted) ? std::optional(wanted) : std::nullopt;
      },
      [&](double, double sampled, double slack) {
        return static_cast<double>(count) * sampled / slack;
      });
}

namespace {

/// What of a sample's mass is above a cut, or so many times as far from it: what is below is better
/// known than the few large elements above.
auto above_share(double p, const about_mass& about) {
  return [=](double whole, double sampled, double slack) {
    const double below = (1 - p) * (about.sum > 0 ? about.whole() * weight_units * sampled : whole);
    return whole - below * slack;
  };
}

/// An integer near x, which is not negative.
sampling::mass mass_near(double x) {
  const double high = std::floor(x * 0x1p-64);
  return {static_cast<std::uint64_t>(x - high * 0x1p64), static_cast<std::uint64_t>(high)};
}

}  // namespace

mass_cut row_masses::share_of(double p, const first_part& part, const about_mass& about) const {
  return end_of(
             part, true,
             [&](const sampling::mass& whole) {
               return std::optional(sampling::share_of(p, whole));
             },
             above_share(p, about))
      .value();
}

std::optional<cut_bounds> row_masses::bounds_of_share(double p, const about_mass& about) const {
  // Each mass is rounded to 2^-51 of the largest element's: of more columns that may show.
  constexpr std::int64_t most_columns = std::int64_t{1} << 32;
  if (is_short() || row_.cols() > most_columns || about.sum == 0) {
    return std::nullopt;
  }
  mass_range range = range_of({}, true);
  entry_list list(row_, memory_.entries, row_.cols());
  const value_bracket probe = likely(list, range, above_share(p, about));
  range.low = next_above(row_.is_double(), probe.low);
  range.high = probe.high;
  over_segments(on_, plan_, row_.cols(), [&](std::int64_t i) {
    const auto [begin, count] = columns_of(i, row_.cols());
    const mass_range own = listed_by(range, i);
    memory_.above[i] =
        row_.kernels().about_above(row_.at(begin), count, &about.e, &own, &memory_.sums[i].listed);
  });
  if (!take_listed(list)) {
    return std::nullopt;
  }
  list.weigh_appended(range);
  double above = 0;
  for (std::int64_t i = 0; i < segments_of(row_.cols()); ++i) {
    above += memory_.above[i];
  }
  constexpr double error = 0x1p-16;
  const double unit = about.unit * weight_units;
  const double least = (p * about.sum * (1 - error) - above * (1 + error)) * unit;
  const double most = (p * about.sum * (1 + error) - above * (1 - error)) * unit;
  // A cut at the first element is among what is listed, if that is.
  if (!(least > 0 || probe.high == largest_x_) || !list.weight().reaches(mass_near(most))) {
    return std::nullopt;
  }
  const auto [surely, maybe] =
      list.ends_of(mass_near(std::max(least, 1.0)), mass_near(std::max(most, 1.0)), {}, probe);
  return cut_bounds{surely.kept, maybe.kept};
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

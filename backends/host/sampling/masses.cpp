// SPDX-License-Identifier: Apache-2.0
#include <backends/host/sampling/masses.hpp>

#include <algorithm>
#include <bit>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace sampling = core::sampling;

/// Elements whose weights are in the first-level cache at once.
constexpr std::int64_t block = 1024;

std::uint64_t integer_of(double shifted) {
  return std::bit_cast<std::uint64_t>(shifted) & ((std::uint64_t{1} << 52) - 1);
}

int bin_of(double below) {
  return below < sampling::most_below
             ? static_cast<int>(integer_of(sampling::fused(below, bins_per_unit, 0x1p52)))
             : mass_bins - 1;
}

/// body(first column, how many, weights, bins) for the blocks of a segment.
template <class Body>
void each_block(const row_view& row, double scale, double largest, std::int64_t segment,
                Body&& body) {
  alignas(64) double weights[static_cast<std::size_t>(block)];
  alignas(64) double bins[static_cast<std::size_t>(block)];
  const auto [begin, count] = columns_of(segment, row.cols());
  for (std::int64_t i = 0; i < count; i += block) {
    const std::int64_t n = std::min(block, count - i);
    row.kernels().weights(row.at(begin + i), n, scale, largest, weights, bins);
    body(begin + i, n, weights, bins);
  }
}

/// Folds each slot's table into the first of them that was at work.
mass_table& table_of(executor& on, const plan& plan, mass_table* tables, int slot) {
  if (plan.over != spread::segments) {
    return tables[slot];
  }
  for (int i = 1; i < on.threads; ++i) {
    tables[0].add(tables[i]);
  }
  return tables[0];
}

template <class Body>
mass_table& counted(executor& on, const plan& plan, const row_view& row, mass_table* tables,
                    int slot, Body&& body) {
  if (plan.over == spread::segments) {
    for (int i = 0; i < on.threads; ++i) {
      tables[i].clear();
    }
  } else {
    tables[slot].clear();
  }
  over_segments(on, plan, row.cols(), slot,
                [&](std::int64_t segment, int own) { body(segment, tables[own]); });
  return table_of(on, plan, tables, slot);
}

}  // namespace

void mass_table::clear() {
  std::fill(std::begin(masses), std::end(masses), sampling::mass{});
  std::fill(std::begin(counts), std::end(counts), std::int64_t{0});
}

void mass_table::add(const mass_table& other) {
  for (int i = 0; i < mass_bins; ++i) {
    masses[i].add(other.masses[i]);
    counts[i] += other.counts[i];
  }
}

row_masses::row_masses(executor& on, const plan& plan, const row_view& row, double scale,
                       double largest, mass_table* tables, int slot, mass_entry* entries)
    : row_(row),
      scale_(scale),
      largest_(largest),
      table_(counted(on, plan, row, tables, slot,
                     [&](std::int64_t segment, mass_table& table) {
                       each_block(row, scale, largest, segment,
                                  [&](std::int64_t, std::int64_t n, const double* weights,
                                      const double* bins) {
                                    for (std::int64_t i = 0; i < n; ++i) {
                                      const auto bin =
                                          static_cast<std::size_t>(integer_of(bins[i]));
                                      table.masses[bin].add(integer_of(weights[i]));
                                      ++table.counts[bin];
                                    }
                                  });
                     })),
      entries_(entries) {}

template <class Body>
void row_masses::each_of(int bin, Body&& body) const {
  for (std::int64_t segment = 0; segment < segments_of(row_.cols()); ++segment) {
    each_block(row_, scale_, largest_, segment,
               [&](std::int64_t begin, std::int64_t n, const double* weights, const double* bins) {
                 for (std::int64_t i = 0; i < n; ++i) {
                   if (integer_of(bins[i]) != static_cast<std::uint64_t>(bin)) {
                     continue;
                   }
                   const double x = row_[begin + i];
                   const double z = sampling::scaled(scale_, x);
                   if (z > -std::numeric_limits<double>::infinity()) {
                     body(row_.place_of(x, begin + i), z, integer_of(weights[i]));
                   }
                 }
               });
  }
}

std::optional<std::int64_t> row_masses::list(int bin) const {
  if (table_.counts[bin] > most_entries) {
    return std::nullopt;
  }
  std::int64_t n = 0;
  each_of(bin, [&](const sampling::place& at, double, std::uint64_t weight) {
    entries_[n] = {at, weight};
    ++n;
  });
  std::sort(entries_, entries_ + n,
            [](const mass_entry& a, const mass_entry& b) { return a.at.stands_before(b.at); });
  return n;
}

sampling::mass row_masses::whole() const {
  sampling::mass sum;
  for (const sampling::mass& m : table_.masses) {
    sum.add(m);
  }
  return sum;
}

row_masses::measure row_masses::of(const sampling::kept_elements& kept, bool counts) const {
  // Nearer bins than that of the first limit are kept whole.
  int bin = bin_of(kept.depth);
  if (kept.last.key != 0) {
    const double x = row_[kept.last.column];
    bin = std::min(bin, bin_of(largest_ - sampling::scaled(scale_, x)));
  }
  measure all;
  if (bin == mass_bins - 1 && !counts) {  // all that has a mass
    all.weight = whole();
    return all;
  }
  for (int i = 0; i < bin; ++i) {
    all.count += table_.counts[i];
    all.weight.add(table_.masses[i]);
  }
  each_of(bin, [&](const sampling::place& at, double z, std::uint64_t weight) {
    if (kept.has(z, at)) {
      ++all.count;
      all.weight.add(weight);
    }
  });
  return all;
}

std::optional<sampling::place> row_masses::end_of_count(std::int64_t count) const {
  int bin = 0;
  for (; bin < mass_bins - 1 && table_.counts[bin] < count; ++bin) {
    count -= table_.counts[bin];
  }
  const std::optional<std::int64_t> n = list(bin);
  if (!n) {
    return std::nullopt;
  }
  return count <= *n ? entries_[count - 1].at : sampling::last_place;
}

std::optional<sampling::place> row_masses::end_of_mass(const sampling::mass& target) const {
  sampling::mass left = target;
  int bin = 0;
  for (; bin < mass_bins - 1 && !table_.masses[bin].reaches(left); ++bin) {
    left.subtract(table_.masses[bin]);
  }
  const std::optional<std::int64_t> n = list(bin);
  if (!n) {
    return std::nullopt;
  }
  sampling::mass sum;
  for (std::int64_t i = 0; i < *n; ++i) {
    sum.add(entries_[i].weight);
    if (sum.reaches(left)) {
      return entries_[i].at;
    }
  }
  return sampling::last_place;
}

sampling::mass mass_of_row(executor& on, const plan& plan, const row_view& row, double scale,
                           double largest, mass_table* tables, int slot) {
  const mass_table& table =
      counted(on, plan, row, tables, slot, [&](std::int64_t segment, mass_table& sums) {
        sampling::mass& sum = sums.masses[0];
        each_block(row, scale, largest, segment,
                   [&](std::int64_t, std::int64_t n, const double* weights, const double*) {
                     std::uint64_t part = 0;  // 2^10 weights of at most 2^50
                     for (std::int64_t i = 0; i < n; ++i) {
                       part += integer_of(weights[i]);
                     }
                     sum.add(part);
                   });
      });
  return table.masses[0];
}

double raw_log_of_row(executor& on, const plan& plan, const row_view& row, float largest,
                      mass_table* tables, int slot) {
  const float base = sampling::raw_base(largest);
  sampling::raw_sum sum;
  sum.top = sampling::raw_top(largest - base);
  const mass_table& table =
      counted(on, plan, row, tables, slot, [&](std::int64_t segment, mass_table& sums) {
        const auto [begin, count] = columns_of(segment, row.cols());
        raw_halves halves;
        row.kernels().raw_sum(row.at(begin), count, base, sum.top, &halves);
        for (int i = 0; i < 3; ++i) {
          sums.masses[i].add(halves.low[i]);
          sums.masses[i].add({halves.high[i] << 32, halves.high[i] >> 32});
        }
      });
  std::copy_n(table.masses, 3, sum.words);
  return sum.log_over(largest - base);
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

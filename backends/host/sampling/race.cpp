// SPDX-License-Identifier: Apache-2.0
#include <backends/host/sampling/race.hpp>

#include <algorithm>
#include <atomic>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace sampling = core::sampling;

constexpr double inf = std::numeric_limits<double>::infinity();

/// The lowest finite x whose z is at most the depth below the largest: z and the difference, both
/// rounded, go up and down with x.
template <class A>
double lowest_within(double scale, const sampling::kept_elements& kept) {
  std::uint64_t low = core::order_key(std::numeric_limits<A>::lowest());
  std::uint64_t high = core::order_key(std::numeric_limits<A>::max());
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto x = static_cast<double>(core::value_of_key<A>(middle));
    if (kept.largest - sampling::scaled(scale, x) <= kept.depth) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return static_cast<double>(core::value_of_key<A>(high));
}

void raise(std::atomic<double>& to, double value) {
  double now = to.load(std::memory_order_relaxed);
  while (value > now && !to.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

row_race::row_race(const row_view& row, double scale, const sampling::kept_elements& kept)
    : row_(row) {
  start_.scale = scale;
  start_.lowest = -inf;
  start_.last_column = std::numeric_limits<std::int64_t>::max();
  start_.key = -inf;
  start_.column = std::numeric_limits<std::int64_t>::max();
  if (kept.last.key != 0) {
    start_.lowest = row[kept.last.column];
    start_.last_column = kept.last.column;
  }
  if (kept.depth < inf) {
    const double lowest = row.is_double() ? lowest_within<double>(scale, kept)
                                          : lowest_within<float>(scale, kept);
    if (lowest > start_.lowest) {
      start_.lowest = lowest;
      start_.last_column = std::numeric_limits<std::int64_t>::max();
    }
  }
}

std::optional<sampling::runner> row_race::winner(executor& on, const plan& plan,
                                                 const sampling::noise& noise,
                                                 sampling::runner* parts) const {
  std::atomic<double> key{-inf};
  std::atomic<bool> ordinary{true};
  over_segments(on, plan, row_.cols(), [&](std::int64_t i) {
    const auto [begin, count] = columns_of(i, row_.cols());
    race_state race = start_;
    race.seed = noise.seed;
    race.offset = noise.offset;
    race.draw = noise.draw;
    race.key = key.load(std::memory_order_relaxed);
    row_.kernels().race(row_.at(begin), count, begin, &race);
    parts[i] = {race.key, race.column};
    raise(key, race.key);
    if (!race.ordinary) {
      ordinary.store(false, std::memory_order_relaxed);
    }
  });
  if (!ordinary.load(std::memory_order_relaxed)) {
    return std::nullopt;
  }
  sampling::runner best;
  for (std::int64_t i = 0; i < segments_of(row_.cols()); ++i) {
    best = parts[i].beats(best) ? parts[i] : best;
  }
  return best;
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

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

}  // namespace

row_race::row_race(const row_view& row, double scale, const sampling::noise& noise,
                   const sampling::kept_elements& kept)
    : row_(row) {
  race_.seed = noise.seed;
  race_.offset = noise.offset;
  race_.draw = noise.draw;
  race_.scale = scale;
  race_.key = -inf;
  race_.column = std::numeric_limits<std::int64_t>::max();
  race_.tightens = std::abs(kept.largest) < 0x1p30;
  race_.filters = kept.depth < inf || kept.last.key != 0;
  if (race_.filters) {
    race_.largest = kept.largest;
    race_.depth = kept.depth;
    race_.last = kept.last.key != 0 ? row[kept.last.column] : -inf;
    race_.last_column = kept.last.column;
  }
}

/// The race at its start: the bound a little above what the threshold is, for rounding of e(x), of
/// keys and here.
race_state row_race::start(double threshold, double log_unit) const {
  race_state race = race_;
  const double slack = 0x1p-9 + std::abs(log_unit) * 0x1p-50 +
                       (std::abs(threshold) < inf ? std::abs(threshold) * 0x1p-50 : 0);
  race.bound = std::min(0x1p16 * std::exp(log_unit - threshold + slack), 0x1p1000);
  return race;
}

part_result row_race::run(std::int64_t segment, const race_frame& frame, double threshold) const {
  const auto [begin, count] = columns_of(segment, row_.cols());
  race_state race = start(threshold, frame.log_unit);
  row_.kernels().race(row_.at(begin), count, &frame.e, begin, &race);
  return {{race.key, race.column}, threshold};
}

bool row_race::fold_and_run(std::int64_t segment, double threshold, segment_state& state,
                            part_result& result) const {
  const auto [begin, count] = columns_of(segment, row_.cols());
  // The origin is not known yet: exp(z) is 2^origin e(x).
  constexpr double ln2 = 0.6931471805599453;
  const double exponent = std::floor(-threshold / ln2);
  race_state race = start(threshold + exponent * ln2, 0);
  race.bound_exponent = exponent;
  const bool ordinary =
      row_.kernels().fold_and_race(row_.at(begin), count, race.scale, begin, &state, &race);
  result = {{race.key, race.column}, threshold};
  return ordinary;
}

sampling::runner winner_of(executor& on, const plan& plan, const row_view& row,
                           const row_race& race, const race_frame& frame, double guess,
                           part_result* parts) {
  constexpr double step = 3;
  const std::int64_t n = segments_of(row.cols());
  sampling::runner best;
  for (int look = 0;; ++look) {
    const double floor = look < 4 ? guess - step * look : -inf;
    std::atomic<double> key{best.key > floor ? best.key : floor};
    over_segments(on, plan, row.cols(), [&](std::int64_t i) {
      parts[i] = race.run(i, frame, key.load(std::memory_order_relaxed));
      raise(key, parts[i].best.key);
    });
    for (std::int64_t i = 0; i < n; ++i) {
      best = parts[i].best.beats(best) ? parts[i].best : best;
    }
    // A threshold that was raised by a key is below the best.
    if (best.key >= floor) {
      return best;
    }
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

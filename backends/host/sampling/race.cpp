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

void raise(std::atomic<double>& to, double value) {
  double now = to.load(std::memory_order_relaxed);
  while (value > now && !to.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

row_race::row_race(const row_view& row, double scale, const first_part& kept) : row_(row) {
  start_.scale = scale;
  start_.lowest = kept.lowest;
  start_.last_column = kept.last_column;
  start_.key = -inf;
  start_.column = std::numeric_limits<std::int64_t>::max();
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

// SPDX-License-Identifier: Apache-2.0
#include <backends/host/sampling/list.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

namespace sampling = core::sampling;

kept_list::kept_list(executor& on, const plan& plan, const row_view& row, double scale,
                     std::int64_t k, std::byte* memory)
    : row_(row),
      scale_(scale),
      best_(row.from.kernels, row.is_double() ? on.kernels.lanes_f32 / 2 : on.kernels.lanes_f32,
            row.cols(), k, memory + weights_bytes(k)),
      size_(k),
      weights_(reinterpret_cast<std::uint64_t*>(memory)) {
  const typed_kernels& kernels = row.from.kernels;
  for (std::int64_t chunk = 0; chunk < row.cols(); chunk += chunk_columns) {
    const std::int64_t columns = std::min(chunk_columns, row.cols() - chunk);
    over_segments(on, plan, columns, [&](std::int64_t i) {
      const auto [begin, count] = columns_of(i, columns);
      kernels.input.group_maxima(
          row.at(chunk + begin), count,
          kernels.computed_at(best_.groups(), i * best_.groups_per_segment()));
    });
    best_.take_chunk(row.at(chunk), columns, chunk);
  }
  best_.finish(row.x);
  largest_ = z(0);
}

double kept_list::x(std::int64_t i) const {
  return row_.is_double() ? static_cast<const double*>(best_.values())[i]
                          : static_cast<double>(static_cast<const float*>(best_.values())[i]);
}

void kept_list::cut_below(double depth) {
  while (size_ > 1 && (z(size_ - 1) == -std::numeric_limits<double>::infinity() ||
                       !(largest_ - z(size_ - 1) <= depth))) {
    --size_;
  }
}

/// Of the elements that cut_below left: it comes first.
void kept_list::weigh() {
  if (!weighed_) {
    row_.from.kernels.arithmetic.weigh(
        best_.values(), size_, scale_, largest_, -std::numeric_limits<double>::infinity(),
        weights_ + weights_bytes(size_) / 2 / sizeof(std::uint64_t), weights_);
    weighed_ = true;
  }
}

void kept_list::cut_at(const sampling::mass& target) {
  weigh();
  sampling::mass sum;
  for (std::int64_t i = 0; i < size_; ++i) {
    sum.add(weights_[i]);
    if (sum.reaches(target)) {
      size_ = i + 1;
      return;
    }
  }
}

sampling::mass kept_list::weight() {
  weigh();
  sampling::mass sum;
  for (std::int64_t i = 0; i < size_; ++i) {
    sum.add(weights_[i]);
  }
  return sum;
}

sampling::runner kept_list::winner(const sampling::noise& noise) const {
  race_state race;
  race.seed = noise.seed;
  race.offset = noise.offset;
  race.draw = noise.draw;
  race.scale = scale_;
  race.lowest = -std::numeric_limits<double>::infinity();
  race.key = -std::numeric_limits<double>::infinity();
  race.column = std::numeric_limits<std::int64_t>::max();
  row_.kernels().race_of_list(best_.values(), best_.columns(), size_, &race);
  return {race.key, race.column};
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

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
            row.cols(), k, memory),
      size_(k) {
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

void kept_list::cut_at(const sampling::mass& target) {
  sampling::mass sum;
  for (std::int64_t i = 0; i < size_; ++i) {
    sum.add(weight(i));
    if (sum.reaches(target)) {
      size_ = i + 1;
      return;
    }
  }
}

sampling::mass kept_list::weight() const {
  sampling::mass sum;
  for (std::int64_t i = 0; i < size_; ++i) {
    sum.add(weight(i));
  }
  return sum;
}

/// As in the race over a row, an element runs only if its first 16 bits say that it may win.
sampling::runner kept_list::winner(const sampling::noise& noise) const {
  sampling::runner best;
  double bound = std::numeric_limits<double>::infinity();  // of b / exp(z - largest)
  for (std::int64_t i = 0; i < size_; ++i) {
    const std::int64_t at = column(i);
    const auto t = static_cast<std::uint64_t>(at);
    const std::uint32_t bits =
        sampling::first_bits(sampling::first_words(noise, t / sampling::block_tokens),
                             static_cast<int>(t % sampling::block_tokens));
    const double own_z = z(i);
    const double e = std::exp(own_z - largest_);
    if (static_cast<double>(bits) > bound * e) {
      continue;
    }
    const sampling::runner own = {sampling::key_of(own_z, sampling::all_bits(noise, at, bits)), at};
    if (own.beats(best)) {
      best = own;
      const double slack = 0x1p-10 + std::abs(best.key) * 0x1p-50;
      bound = 0x1p16 * std::exp(largest_ - best.key + slack);
    }
  }
  return best;
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The first look at a reproducible row: parts by kernels, and their sum.
#pragma once

#include <backends/host/reproducible/plain.hpp>
#include <backends/host/row/job.hpp>
#include <backends/host/row/source.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// Whether a row's second look is the kernels'.
template <class A>
bool suits_kernels(const core::reproducible::row_total<A>& total) {
  return total.kind == core::reproducible::row_kind::ordinary && !total.exponents.is_far &&
         reproducible_scale(static_cast<double>(total.exponents.scale));
}

template <class A>
reproducible_row numbers_of(const core::reproducible::row_total<A>& total) {
  return {.scale = static_cast<double>(total.exponents.scale),
          .n = static_cast<double>(total.n),
          .high = static_cast<double>(total.high),
          .low = static_cast<double>(total.low),
          .log_high = static_cast<double>(total.log_high),
          .log_low = static_cast<double>(total.log_low)};
}

/// Of a row by the parts of its segments; the plain way where they are no use.
template <class In>
core::reproducible::row_total<core::arithmetic_t<In>> total_of_parts(
    const input_kernels& kernels, const In* x, std::int64_t cols, double scale,
    const reproducible_part* parts) {
  core::reproducible::row_total<core::arithmetic_t<In>> total;
  kernels.reproducible_total(parts, segments_of(cols), scale, &total);
  return total.exponents.is_far ? plain_total(x, cols, scale) : total;
}

/// The state of a part of a row, by the parts of its segments; the plain way where they are no use.
template <class In>
exact_max_sum<core::arithmetic_t<In>> state_of_parts(const input_kernels& kernels, const In* x,
                                                     std::int64_t cols, double scale,
                                                     const reproducible_part* parts) {
  using A = core::arithmetic_t<In>;
  exact_max_sum<A> state;
  kernels.reproducible_state(parts, segments_of(cols), scale, &state);
  const bool is_near = core::reproducible::far_from<A> > std::fabs(state.max);
  return is_near || state == exact_max_sum<A>{} ? state : plain_state(x, cols, scale);
}

/// One row, whose segments any thread may fold.
template <class In>
class reproducible_fold_of_row {
 public:
  using A = core::arithmetic_t<In>;

  /// `kept` is where the terms of the whole row go, if anywhere.
  reproducible_fold_of_row(const source& from, std::int64_t r, const row_memory& memory,
                           kept_row kept)
      : from_(from),
        x_(static_cast<const In*>(from.row(r))),
        parts_(static_cast<reproducible_part*>(memory.segments)),
        kept_(static_cast<A*>(kept.to)),
        ahead_to_l2_(kept.ahead_to_l2),
        by_kernels_(reproducible_scale(from.scale)) {}

  [[nodiscard]] const In* x() const { return x_; }

  void fold(std::int64_t segment) {
    if (!by_kernels_.load(std::memory_order_relaxed)) {
      return;
    }
    const auto [begin, count] = columns_of(segment, from_.x.cols);
    if (!from_.kernels.input.reproducible_fold(x_ + begin, count, from_.scale, kept_from(begin),
                                               &parts_[segment])) {
      by_kernels_.store(false, std::memory_order_relaxed);
    }
  }

  /// Folds a segment while the same one of another row is streamed to y.
  void fold_and_stream(std::int64_t segment, const A* terms, const reproducible_scaling& scaling,
                       void* y) {
    const auto [begin, count] = columns_of(segment, from_.x.cols);
    if (!by_kernels_.load(std::memory_order_relaxed)) {
      from_.kernels.output.reproducible_scaled(terms, count, &scaling, {y, true});
      return;
    }
    if (!from_.kernels.output.reproducible_fold_and_stream(x_ + begin, count, from_.scale,
                                                           kept_from(begin), &parts_[segment],
                                                           terms, &scaling, y)) {
      by_kernels_.store(false, std::memory_order_relaxed);
    }
  }

  /// A segment's kept terms if they can become probabilities of an ordinary row, else null; and by
  /// what.
  [[nodiscard]] const A* kept(std::int64_t segment, const core::reproducible::row_total<A>& total,
                              reproducible_scaling& scaling) const {
    const reproducible_part& part = parts_[segment];
    if (kept_ == nullptr || !by_kernels_ || !suits_kernels(total) || !part.has_kept_all) {
      return nullptr;
    }
    constexpr int spare = core::reproducible::row_total<A>::spare_power;
    const double power = 32.0 * part.anchor - core::reproducible::format<A>::raised + spare -
                         static_cast<double>(total.n);
    // Without elements above -infinity there is no anchor; whatever is near does.
    const bool nothing = part.largest == -std::numeric_limits<double>::infinity();
    if (!nothing && power < core::reproducible::format<A>::smallest) {
      return nullptr;
    }
    const A of_terms = nothing ? A{0} : std::ldexp(A{1}, static_cast<int>(power));
    const A high = total.high * of_terms;
    const A low = total.low * of_terms;
    const bool are_exact =
        nothing || (high / of_terms == total.high && low / of_terms == total.low);
    scaling =
        are_exact
            ? reproducible_scaling{1, static_cast<double>(high), static_cast<double>(low)}
            : reproducible_scaling{static_cast<double>(of_terms), static_cast<double>(total.high),
                                   static_cast<double>(total.low)};
    return kept_ + columns_of(segment, from_.x.cols).begin;
  }

  [[nodiscard]] core::reproducible::row_total<A> total() const {
    return by_kernels_ ? total_of_parts(from_.kernels.input, x_, from_.x.cols, from_.scale, parts_)
                       : plain_total(x_, from_.x.cols, from_.scale);
  }
  [[nodiscard]] exact_max_sum<A> state() const {
    return by_kernels_ ? state_of_parts(from_.kernels.input, x_, from_.x.cols, from_.scale, parts_)
                       : plain_state(x_, from_.x.cols, from_.scale);
  }

 private:
  [[nodiscard]] kept_row kept_from(std::int64_t column) const {
    return kept_ == nullptr ? kept_row{} : kept_row{kept_ + column, ahead_to_l2_};
  }

  const source& from_;
  const In* x_;
  reproducible_part* parts_;
  A* kept_;
  bool ahead_to_l2_;
  std::atomic<bool> by_kernels_;
};

/// Short rows [begin, end) by a kernel, to y, whose elements have so many bytes; those that it
/// leaves by general(r).
template <class General>
void run_short_rows(std::uint64_t (*kernel)(const short_rows*), const source& from,
                    const destination& y, std::int64_t y_stride, std::size_t element_bytes,
                    std::int64_t begin, std::int64_t end, const General& general) {
  for (std::int64_t first = begin; first < end; first += most_reproducible_rows) {
    const short_rows rows = {.x = from.row(first),
                             .y = static_cast<std::byte*>(y.data) +
                                  first * y_stride * static_cast<std::int64_t>(element_bytes),
                             .x_stride = from.x.stride,
                             .y_stride = y_stride,
                             .rows = std::min(end - first, most_reproducible_rows),
                             .cols = from.x.cols,
                             .scale = from.scale,
                             .stream = y.stream};
    for (std::uint64_t left = kernel(&rows); left != 0; left &= left - 1) {
      general(first + std::countr_zero(left));
    }
  }
}

/// A reduction: finish(r, fold of row r).
template <class In, class Finish>
struct reproducible_job {
  source from;
  const Finish& finish;

  static constexpr std::size_t segment_bytes = sizeof(reproducible_part);
  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }
  [[nodiscard]] shape description() const { return from.shape_to(0); }

  /// A row of one segment, which a kernel for short ones left.
  void one_row(std::int64_t r) const {
    reproducible_part part;
    row one(*this, {}, r, {&part, nullptr});
    one.fold(0);
    one.between();
  }

  class row {
   public:
    row(const reproducible_job& job, const plan&, std::int64_t r, const row_memory& memory)
        : job_(job), r_(r), fold_(job.from, r, memory, {}) {}
    void fold(std::int64_t segment) { fold_.fold(segment); }
    void between() { job_.finish(r_, fold_); }

   private:
    const reproducible_job& job_;
    std::int64_t r_;
    reproducible_fold_of_row<In> fold_;
  };
};

template <class In, class Finish>
void for_each_total(executor& on, const const_matrix_ref& x, double scale, const Finish& finish) {
  if (x.rows == 0) {
    return;
  }
  if (x.cols == 0) {
    for (std::int64_t r = 0; r < x.rows; ++r) {
      finish(r, plain_total<In>(nullptr, 0, scale));
    }
    return;
  }
  const auto finish_total = [&](std::int64_t r, const auto& fold) { finish(r, fold.total()); };
  run_job(on, reproducible_job<In, decltype(finish_total)>{{on.kernels, x, scale, x.type},
                                                           finish_total});
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

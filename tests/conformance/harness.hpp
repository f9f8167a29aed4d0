// SPDX-License-Identifier: Apache-2.0
// What every conformance test stands on: memory of the backend under test, matrices with guard
// zones, and the pairs of types.
#pragma once

#include <softfold/softfold.hpp>

#include <tests/support/result_hash.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define SOFTFOLD_TEST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SOFTFOLD_TEST_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef SOFTFOLD_TEST_ADDRESS_SANITIZER
#define SOFTFOLD_TEST_ADDRESS_SANITIZER 0
#endif

namespace softfold::test {

/// Whether this run leaves out the largest cases; main() says so.
#ifdef SOFTFOLD_TEST_REDUCED
inline constexpr bool reduced = true;
#else
inline constexpr bool reduced = false;
#endif

/// Memory of the backend under test. Copies are complete on return.
template <class T>
class device_buffer {
 public:
  explicit device_buffer(std::size_t size) : memory_(copies(), size * sizeof(T)) {}

  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(memory_.data()); }
  void upload(std::span<const T> from) {
    memory_.upload(copies(), from.data(), from.size_bytes());
    copies().wait();
  }
  void download(std::span<T> to) const {
    memory_.download(copies(), to.data(), to.size_bytes());
    copies().wait();
    add_to_result_hash(std::as_bytes(to));
  }

 private:
  static queue& copies() {
    thread_local queue q(queue_options{.threads = 1});
    return q;
  }

  buffer memory_;
};

/// Where a matrix lies: `padding` elements between rows, its base `offset` elements past an
/// aligned address.
struct layout {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t padding = 0;
  std::int64_t offset = 0;
};

enum class role { input, output };

/// A matrix with a host copy and a device copy. Everything that is no element, before, between
/// and after the rows, is a guard. An input's guards are NaN, so that reading one spoils a
/// result; under AddressSanitizer an input ends where its last row ends. An output's guards are
/// a byte pattern that must still be there afterwards.
template <class T>
class matrix {
 public:
  matrix(const layout& where, role r)
      : where_(where),
        front_(r == role::output ? 64 : 0),
        host_(static_cast<std::size_t>(front_ + where.offset + extent() + back(r))),
        device_(host_.size()) {
    if (!host_.empty()) {
      std::memset(static_cast<void*>(host_.data()), r == role::output ? 0xA5 : 0xFF,
                  host_.size() * sizeof(T));
    }
    upload();
  }

  [[nodiscard]] std::int64_t rows() const noexcept { return where_.rows; }
  [[nodiscard]] std::int64_t cols() const noexcept { return where_.cols; }
  [[nodiscard]] std::int64_t stride() const noexcept { return where_.cols + where_.padding; }
  [[nodiscard]] const layout& where() const noexcept { return where_; }

  [[nodiscard]] std::span<T> row(std::int64_t r) {
    return std::span<T>(host_).subspan(begin(r), static_cast<std::size_t>(cols()));
  }
  [[nodiscard]] std::span<const T> row(std::int64_t r) const {
    return std::span<const T>(host_).subspan(begin(r), static_cast<std::size_t>(cols()));
  }
  T& operator()(std::int64_t r, std::int64_t c) { return row(r)[static_cast<std::size_t>(c)]; }

  [[nodiscard]] matrix_view<T> view() const {
    return {device_.data() + begin(0), rows(), cols(), stride()};
  }
  /// The device copy of a one-column matrix without padding.
  [[nodiscard]] vector_ref vector() const {
    return {device_.data() + begin(0), dtype_of<T>, rows()};
  }

  /// Copies to the device; what is there now is what stray_writes() and untouched() compare with.
  void upload() {
    device_.upload(host_);
    before_ = host_;
  }
  void download() { device_.download(host_); }

  /// Empty, or where a byte that belongs to no element has changed.
  [[nodiscard]] std::string stray_writes() const {
    std::size_t from = 0;
    for (std::int64_t r = 0; r < rows() && cols() > 0; ++r) {
      if (const auto text = compare(from, begin(r)); !text.empty()) {
        return text;
      }
      from = begin(r) + static_cast<std::size_t>(cols());
    }
    return compare(from, host_.size());
  }
  /// Empty, or where anything at all has changed.
  [[nodiscard]] std::string untouched() const { return compare(0, host_.size()); }

 private:
  [[nodiscard]] std::int64_t extent() const {
    return where_.rows == 0 ? 0 : (where_.rows - 1) * stride() + where_.cols;
  }
  static std::int64_t back(role r) {
    return r == role::input && SOFTFOLD_TEST_ADDRESS_SANITIZER != 0 ? 0 : 64;
  }
  [[nodiscard]] std::size_t begin(std::int64_t r) const {
    return static_cast<std::size_t>(front_ + where_.offset + r * stride());
  }
  [[nodiscard]] std::string compare(std::size_t from, std::size_t to) const {
    if (from < to && std::memcmp(static_cast<const void*>(&host_[from]), &before_[from],
                                 (to - from) * sizeof(T)) != 0) {
      std::size_t at = from;
      while (std::memcmp(static_cast<const void*>(&host_[at]), &before_[at], sizeof(T)) == 0) {
        ++at;
      }
      std::ostringstream text;
      text << "a write " << static_cast<std::int64_t>(at) - static_cast<std::int64_t>(begin(0))
           << " elements from the base of " << rows() << " x " << cols() << ", stride " << stride();
      return text.str();
    }
    return {};
  }

  layout where_;
  std::int64_t front_;
  std::vector<T> host_;
  std::vector<T> before_;
  device_buffer<T> device_;
};

/// Row states on the device.
template <class T, class State = max_sum<T>>
class states {
 public:
  explicit states(std::span<const State> values)
      : host_(values.begin(), values.end()), device_(values.size()) {
    device_.upload(host_);
  }
  explicit states(std::int64_t rows) : states(std::vector<State>(static_cast<std::size_t>(rows))) {}

  [[nodiscard]] partials_ref ref() const {
    return {device_.data(), dtype_of<T>, static_cast<std::int64_t>(host_.size()),
            std::is_same_v<State, max_sum<T>> ? sum_kind::rounded : sum_kind::exact};
  }
  /// The values on the device now.
  [[nodiscard]] const std::vector<State>& values() {
    device_.download(host_);
    return host_;
  }

 private:
  std::vector<State> host_;
  device_buffer<State> device_;
};
template <class T>
using exact_states = states<T, exact_max_sum<T>>;

/// An input type with an output type that the library takes for it.
template <class In, class Out>
struct io {
  using input = In;
  using output = Out;
};

using f32_f32 = io<float, float>;
using f64_f64 = io<double, double>;
using f16_f16 = io<half, half>;
using f16_f32 = io<half, float>;
using bf16_bf16 = io<bfloat16, bfloat16>;
using bf16_f32 = io<bfloat16, float>;

}  // namespace softfold::test

#define SOFTFOLD_TEST_IO_TYPES                                               \
  softfold::test::f32_f32, softfold::test::f64_f64, softfold::test::f16_f16, \
      softfold::test::f16_f32, softfold::test::bf16_bf16, softfold::test::bf16_f32
#define SOFTFOLD_TEST_INPUT_TYPES float, double, softfold::half, softfold::bfloat16

TYPE_TO_STRING(softfold::test::f32_f32);
TYPE_TO_STRING(softfold::test::f64_f64);
TYPE_TO_STRING(softfold::test::f16_f16);
TYPE_TO_STRING(softfold::test::f16_f32);
TYPE_TO_STRING(softfold::test::bf16_bf16);
TYPE_TO_STRING(softfold::test::bf16_f32);
TYPE_TO_STRING(softfold::half);
TYPE_TO_STRING(softfold::bfloat16);

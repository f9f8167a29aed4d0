// SPDX-License-Identifier: Apache-2.0
/// \file
/// The floating-point environment that the library's arithmetic on the host runs in.
#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace softfold::core {

/// While one lives, its thread computes in the default environment: to nearest, subnormal numbers
/// as they are, no exception trapped, x87 in full precision. Its end brings back the environment
/// that it found, the exceptions' flags among it: a call leaves no trace.
///
/// The registers are written only where they differ, since reading them is much cheaper. What is
/// computed from arguments in registers might be moved out of its life, as no compiler here knows
/// of the environment; what is read from memory is not.
class default_floating_point {
 public:
  default_floating_point(const default_floating_point&) = delete;
  default_floating_point& operator=(const default_floating_point&) = delete;

#if defined(__x86_64__)
  default_floating_point() noexcept {
    asm volatile("stmxcsr %0\n\tfnstcw %1\n\tfnstsw %2"
                 : "=m"(mxcsr_), "=m"(x87_control_), "=m"(x87_status_)
                 :
                 : "memory");
    if ((mxcsr_ & ~flags) != default_mxcsr) {
      asm volatile("ldmxcsr %0" : : "m"(default_mxcsr) : "memory");
    }
    if ((x87_control_ & x87_control_bits) != (default_x87_control & x87_control_bits)) {
      asm volatile("fldcw %0" : : "m"(default_x87_control) : "memory");
    }
  }
  ~default_floating_point() {
    std::uint16_t status;
    asm volatile("ldmxcsr %1\n\tfnstsw %0" : "=m"(status) : "m"(mxcsr_) : "memory");
    if (((status ^ x87_status_) & flags) != 0) {  // long double sums; the flags have no own write
      x87_environment now;
      asm volatile("fnstenv %0" : "=m"(now) : : "memory");
      now.control = x87_control_;
      now.status = static_cast<std::uint16_t>((now.status & ~flags) | (x87_status_ & flags));
      asm volatile("fldenv %0" : : "m"(now) : "memory");
    } else if ((x87_control_ & x87_control_bits) != (default_x87_control & x87_control_bits)) {
      asm volatile("fldcw %0" : : "m"(x87_control_) : "memory");
    }
  }

 private:
  struct x87_environment {
    std::uint16_t control, reserved_0, status, reserved_1;
    std::uint32_t others[5];
  };
  static constexpr std::uint32_t flags = 0x3f;
  static constexpr std::uint32_t default_mxcsr = 0x1f80;
  static constexpr std::uint16_t default_x87_control = 0x037f;
  static constexpr std::uint16_t x87_control_bits = 0x0f3f;  ///< rounding, precision, masks

  std::uint32_t mxcsr_;
  std::uint16_t x87_control_;
  std::uint16_t x87_status_;

#elif defined(__aarch64__)
  default_floating_point() noexcept {
    asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control_), "=r"(status_) : : "memory");
    if (control_ != 0) {
      asm volatile("msr fpcr, xzr" : : : "memory");
    }
  }
  ~default_floating_point() {
    asm volatile("msr fpsr, %0" : : "r"(status_) : "memory");
    if (control_ != 0) {
      asm volatile("msr fpcr, %0" : : "r"(control_) : "memory");
    }
  }

 private:
  std::uint64_t control_;
  std::uint64_t status_;

#else
  default_floating_point() noexcept {
    std::fegetenv(&found_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~default_floating_point() { std::fesetenv(&found_); }

 private:
  std::fenv_t found_;
#endif
};

}  // namespace softfold::core

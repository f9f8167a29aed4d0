// SPDX-License-Identifier: Apache-2.0
/// \file
/// The backends' libraries as tables of the C interface's functions, and the queues that calls run
/// on. The cpu backend's library is part of this module; the cuda backend's is loaded when the
/// first array in a GPU's memory comes.
#pragma once

#include "functions.hpp"

#include <nanobind/nanobind.h>

#include <softfold/softfold.h>

#include <cstdint>
#include <string>

namespace softfold::python {

namespace nb = nanobind;

struct library {
#define SOFTFOLD_MEMBER(name) decltype(&softfold_##name) name;
  SOFTFOLD_PYTHON_FUNCTIONS(SOFTFOLD_MEMBER)
#undef SOFTFOLD_MEMBER
};

/// Where memory is, in DLPack's numbers.
struct place {
  /// As a device: that of the stream that goes with the place.
  static constexpr std::int32_t of_stream = -1;

  std::int32_t type = 1;
  std::int32_t device = 0;

  friend bool operator==(const place& a, const place& b) {
    return (a.type == b.type && a.device == b.device) || (a.on_host() && b.on_host());
  }
  [[nodiscard]] bool on_host() const { return type == 1 || type == 3; }   // 3: pinned
  [[nodiscard]] bool on_cuda() const { return type == 2 || type == 13; }  // 13: managed
  /// "cpu", "cuda:0", ...
  [[nodiscard]] std::string text() const;
};

const library& cpu_library();
/// Raises RuntimeError, one sentence, where the library cannot be had. Needs the GIL.
const library& cuda_library();
const library& library_of(const place& where);

/// A queue for one call: taken from those that are free, given back at the end. Needs no GIL.
/// A child that was forked after its parent's first call has queues of one thread, since none of
/// the parent's threads live in it.
class lease {
 public:
  lease(const library& from, const place& where, void* stream);
  ~lease();
  lease(const lease&) = delete;
  lease& operator=(const lease&) = delete;

  [[nodiscard]] softfold_queue* get() const { return queue_; }
  /// What making the queue came to. Where it failed there is none.
  [[nodiscard]] softfold_status status() const { return status_; }

 private:
  const library& from_;
  std::uint64_t key_ = 0;
  std::int32_t generation_ = 0;
  softfold_status status_ = SOFTFOLD_SUCCESS;
  softfold_queue* queue_ = nullptr;
};

/// Gives up the GIL while it lives. A daemon thread that wants it back while Python ends is unwound
/// by Python before 3.14, which no C++ frame above survives: it waits for the process' end instead,
/// as in 3.14.
class without_gil {
 public:
  without_gil() : state_(PyEval_SaveThread()) {}
  ~without_gil();
  without_gil(const without_gil&) = delete;
  without_gil& operator=(const without_gil&) = delete;

 private:
  PyThreadState* state_;
};

/// How many threads the cpu backend's calls use from now on; 0: all that the process may run on.
void set_threads(std::int32_t threads);
/// "fast" and "reproducible" and what they are in C; another name is a ValueError of the function.
std::int32_t numerics_named(const char* function, const std::string& name);
const char* name_of_numerics(std::int32_t known);
/// By name, for calls from now on.
void set_numerics(const std::string& name);

/// Raises the exception for a status that is no success, with the library's text. `renamed` is
/// pairs of an argument's name in C and in Python, ended by nullptr; "scan:" is the function's.
void check(const library& from, softfold_status status, const char* const* renamed = nullptr);

}  // namespace softfold::python

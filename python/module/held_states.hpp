// SPDX-License-Identifier: Apache-2.0
/// \file
/// States of the C interface, of rows or of attention, as Python objects that can be sent as bytes.
#pragma once

#include "call.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace softfold::python {

/// The states live in the host's memory as objects of the cpu backend's library. What is in a GPU's
/// memory is folded by the cuda backend's, which the states go to and come from as bytes. `Kind`
/// says which functions of a library are theirs.
template <class Kind>
class held_states {
 public:
  struct destroy {
    const library* from;
    void operator()(typename Kind::object* states) const { (from->*Kind::destroy)(states); }
  };
  using owned = std::unique_ptr<typename Kind::object, destroy>;

  explicit held_states(owned from) : held_(std::move(from)) {}

  void combine(const held_states& more) {
    softfold_status status = SOFTFOLD_SUCCESS;
    {
      const without_gil released;
      std::unique_lock<std::mutex> mine(mutex_, std::defer_lock);
      std::unique_lock<std::mutex> theirs(more.mutex_, std::defer_lock);
      if (&more == this) {
        mine.lock();
      } else {
        std::lock(mine, theirs);
      }
      const library& l = cpu_library();
      const lease queue(l, place{}, nullptr);
      status = queue.status() != SOFTFOLD_SUCCESS
                   ? queue.status()
                   : (l.*Kind::combine)(queue.get(), held_.get(), more.held_.get());
    }
    check(cpu_library(), status);
  }

  [[nodiscard]] nb::bytes to_bytes() const {
    const std::string bytes = plain_bytes();
    return nb::bytes(bytes.data(), bytes.size());
  }

  static owned from_bytes(const std::string& bytes) {
    typename Kind::object* read = nullptr;
    const library& l = cpu_library();
    check(l, (l.*Kind::from_bytes)(bytes.data(), bytes.size(), &read));
    return {read, {&l}};
  }

  /// Sizes and pointers; these are to memory that the states own until they change.
  [[nodiscard]] typename Kind::view view() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return view_unlocked();
  }

  /// What was folded so far: pairs of begin and end, in order.
  [[nodiscard]] nb::object ranges() const {
    std::vector<softfold_column_range> found;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      found = Kind::ranges(view_unlocked());
    }
    nb::list all;
    for (const softfold_column_range& range : found) {
      all.append(nb::make_tuple(range.begin, range.end));
    }
    return nb::tuple(all);
  }

  /// A NumPy array of what `address(view)` points to: the kind's rows, and `last(view)` numbers of
  /// each.
  template <class Last, class Address>
  [[nodiscard]] nb::object copy(Last&& last, Address&& address,
                                std::optional<softfold_dtype> type = {}) const {
    const typename Kind::view before = view();
    auto shape = Kind::rows(before);
    shape.back() = last(before);
    const softfold_dtype element = type.value_or(before.type);
    void* data = nullptr;
    nb::object made = new_numpy(shape, element, data);
    std::int64_t bytes = size_of(element);
    for (const std::int64_t size : shape) {
      bytes *= size;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    const typename Kind::view now = view_unlocked();
    if (Kind::rows(now) != Kind::rows(before)) {
      throw nb::value_error("States: rows were appended meanwhile");
    }
    if (bytes > 0) {
      std::memcpy(data, address(now), static_cast<std::size_t>(bytes));
    }
    return made;
  }

 protected:
  /// `fold_into(library, queue, states)` where the arrays of `c` are.
  template <class FoldInto>
  void fold_by(const call& c, FoldInto&& fold_into, const char* const* renamed) {
    c.run(
        [&](const library& l, softfold_queue* q) {
          const std::lock_guard<std::mutex> lock(mutex_);
          if (c.x().where.on_host()) {
            return fold_into(l, q, held_.get());
          }
          owned theirs{nullptr, {&l}};
          softfold_status status = send(held_, theirs);
          if (status == SOFTFOLD_SUCCESS) {
            status = fold_into(l, q, theirs.get());
          }
          return status == SOFTFOLD_SUCCESS ? send(theirs, held_) : status;
        },
        renamed);
  }

  /// `work(queue, states)` of the states as they are.
  template <class Work>
  void run_on_host(Work&& work, const char* const* renamed = nullptr) const {
    softfold_status status = SOFTFOLD_SUCCESS;
    {
      const without_gil released;
      const std::lock_guard<std::mutex> lock(mutex_);
      const lease queue(cpu_library(), place{}, nullptr);
      status = queue.status() == SOFTFOLD_SUCCESS ? work(queue.get(), held_.get()) : queue.status();
    }
    check(cpu_library(), status, renamed);
  }

  [[nodiscard]] std::string plain_bytes() const {
    std::string bytes;
    softfold_status status = SOFTFOLD_SUCCESS;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      status = write(held_, bytes);
    }
    check(cpu_library(), status);
    return bytes;
  }

  [[nodiscard]] typename Kind::view view_unlocked() const {
    typename Kind::view v{};
    v.struct_size = sizeof v;
    const library& l = cpu_library();
    check(l, (l.*Kind::get)(held_.get(), &v));
    return v;
  }

  owned held_;
  /// Held within C calls only, and never while waiting for the GIL.
  mutable std::mutex mutex_;

 private:
  static softfold_status write(const owned& from, std::string& bytes) {
    const library& theirs = *from.get_deleter().from;
    std::size_t size = 0;
    const softfold_status status = (theirs.*Kind::to_bytes)(from.get(), nullptr, 0, &size);
    bytes.resize(size);
    return status == SOFTFOLD_SUCCESS
               ? (theirs.*Kind::to_bytes)(from.get(), bytes.data(), size, &size)
               : status;
  }

  /// Makes `to` what `from` is, an object of its own library's.
  static softfold_status send(const owned& from, owned& to) {
    std::string bytes;
    typename Kind::object* read = nullptr;
    softfold_status status = write(from, bytes);
    if (status == SOFTFOLD_SUCCESS) {
      const library& theirs = *to.get_deleter().from;
      status = (theirs.*Kind::from_bytes)(bytes.data(), bytes.size(), &read);
    }
    if (status == SOFTFOLD_SUCCESS) {
      to.reset(read);
    }
    return status;
  }
};

/// What every kind of states can do: to be combined, written, read and pickled.
template <class States>
void bind_sending(nb::class_<States>& type, const char* others) {
  using namespace nb::literals;
  type.def(
          "combine", [](States& self, const States& more) { self.combine(more); }, "more"_a, others)
      .def("to_bytes", &States::to_bytes, "The states in the byte format of docs/state_format.md.")
      .def_static(
          "from_bytes",
          [](nb::bytes bytes) {
            return new States(States::from_bytes({bytes.c_str(), bytes.size()}));
          },
          "bytes"_a,
          "The states that to_bytes wrote, here or elsewhere. Bytes that are not such states, "
          "whole "
          "and unaltered, are a ValueError.")
      .def("__getstate__", &States::to_bytes)
      .def("__setstate__", [](States* self, const nb::bytes& bytes) {
        new (self) States(States::from_bytes({bytes.c_str(), bytes.size()}));
      });
}

}  // namespace softfold::python

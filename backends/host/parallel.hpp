// SPDX-License-Identifier: Apache-2.0
/// \file
/// Spreads a call over an executor's threads. Tasks are cut by the plan, never by a scheduler, and
/// each writes its own results: what they compute does not depend on who runs them. The tasks
/// are claimed one by one from a counter, which costs less than a task of a scheduler and lets a
/// thread that comes late join wherever the others are.
#pragma once

#include <backends/host/executor.hpp>
#include <backends/host/plan/plan.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// work(slot) on every thread of the executor that has time for it; returns when all are done.
template <class Work>
void on_all_threads(executor& on, Work&& work) {
  on.execute([](void* argument,
                int slot) { (*static_cast<std::remove_reference_t<Work>*>(argument))(slot); },
             &work);
}

/// Numbers 0, ..., n - 1, each given out once. Every slot has a range of its own and takes from
/// the others' when that is used up: work that comes back finds its data where it left them, first
/// what is still in a cache if each range is given out from its end.
class dispenser {
 public:
  dispenser(std::int64_t n, int slots, bool from_end = false)
      : n_(n),
        slots_(slots),
        from_end_(from_end),
        taken_(new counter[static_cast<std::size_t>(slots)]) {}

  /// body(i) for each number that this slot gets.
  template <class Body>
  void take_all(int slot, Body&& body) {
    for (int turn = 0; turn < slots_; ++turn) {
      const int owner = (slot + turn) % slots_;
      const std::int64_t begin = n_ * owner / slots_;
      const std::int64_t count = n_ * (owner + 1) / slots_ - begin;
      std::atomic<std::int64_t>& taken = taken_[static_cast<std::size_t>(owner)].value;
      for (std::int64_t i; (i = taken.fetch_add(1, std::memory_order_relaxed)) < count;) {
        body(begin + (from_end_ ? count - 1 - i : i));
      }
    }
  }

 private:
  struct alignas(64) counter {
    std::atomic<std::int64_t> value{0};
  };
  std::int64_t n_;
  int slots_;
  bool from_end_;
  std::unique_ptr<counter[]> taken_;
};

/// Waits for something that another running thread is about to do.
template <class Condition>
void spin_until(Condition&& condition) {
  for (int tries = 0; !condition(); ++tries) {
    if (tries > 1000) {
      std::this_thread::yield();
    }
  }
}

/// first(i) for all 0 <= i < n, then between() once, then second(i) for all i, on all threads in
/// one go: no thread waits for one that has not started.
template <class First, class Between, class Second>
void in_two_phases(executor& on, std::int64_t n, First&& first, Between&& between,
                   Second&& second) {
  dispenser phase_one(n, on.threads);
  dispenser phase_two(n, on.threads, true);
  std::atomic<std::int64_t> left{n};
  std::atomic<bool> ready{false};
  on_all_threads(on, [&](int slot) {
    phase_one.take_all(slot, [&](std::int64_t i) {
      first(i);
      if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        between();
        ready.store(true, std::memory_order_release);
      }
    });
    spin_until([&] { return ready.load(std::memory_order_acquire); });
    phase_two.take_all(slot, second);
  });
}

/// The plan of a call's rows.
inline plan plan_for(executor& on, const shape& problem) {
  on.last = choose_plan(problem, on.machine, on.threads, on.kernels, on.forced);
  return *on.last;
}

/// body(begin, end, slot) for tasks of whole rows; slot < on.threads tells concurrent
/// tasks apart. With spread::segments: one call for all rows, whose body spreads each row itself.
template <class Body>
void over_rows(executor& on, const plan& plan, std::int64_t rows, Body&& body) {
  const auto task = [&](std::int64_t begin, std::int64_t end, int slot) {
    body(begin, end, slot);
    if (plan.stream) {
      on.kernels.end_of_stream();
    }
  };
  switch (plan.over) {
    case spread::serial:
      task(0, rows, 0);
      return;
    case spread::segments:
      body(std::int64_t{0}, rows, 0);
      return;
    case spread::rows:
      break;
  }
  const std::int64_t per_task = plan.rows_per_task;
  dispenser tasks((rows + per_task - 1) / per_task, on.threads);
  on_all_threads(on, [&](int slot) {
    tasks.take_all(slot, [&](std::int64_t i) {
      task(i * per_task, std::min(rows, (i + 1) * per_task), slot);
    });
  });
}

/// body(i) for 0 <= i < count, each about as much work as so many elements of a row.
template <class Body>
void over_each(executor& on, std::int64_t count, std::int64_t elements, Body&& body) {
  if (count == 0) {  // then `elements` may be any number, and no plan is made of it
    return;
  }
  const plan plan = choose_plan({.rows = count,
                                 .cols = elements,
                                 .input_bytes = 4,
                                 .output_bytes = 4,
                                 .arithmetic_bytes = 4,
                                 .in_place = true},
                                on.machine, on.threads, on.kernels);
  over_rows(on, plan, count, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      body(i);
    }
  });
}

/// body(segment, slot) for each segment of a row; `slot` is the calling task's, whose thread may do
/// all of them.
template <class Body>
void over_segments(executor& on, const plan& plan, std::int64_t cols, int slot, Body&& body) {
  const std::int64_t n = segments_of(cols);
  if (plan.over == spread::segments) {
    dispenser segments(n, on.threads);
    on_all_threads(on, [&](int own) {
      segments.take_all(own, [&](std::int64_t segment) { body(segment, own); });
    });
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    body(i, slot);
  }
}

/// body(segment), where it does not matter whose memory a segment is worked on with.
template <class Body>
void over_segments(executor& on, const plan& plan, std::int64_t cols, Body&& body) {
  over_segments(on, plan, cols, 0, [&](std::int64_t segment, int) { body(segment); });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

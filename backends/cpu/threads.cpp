// SPDX-License-Identifier: Apache-2.0
#include "threads.hpp"

#include <tbb/global_control.h>

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <vector>

namespace softfold {
inline namespace cpu {
namespace {

std::atomic<bool> forked{false};

/// Where threads wait for the last of them.
struct gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
};

struct waiting_thread {
  gate* at;
  pthread_t handle;
  long id;  ///< the kernel's
};

void* wait_at_gate(void* argument) {
  auto* const self = static_cast<waiting_thread*>(argument);
#if defined(__linux__)
  self->id = syscall(SYS_gettid);
#endif
  std::unique_lock<std::mutex> lock(self->at->mutex);
  self->at->opened.wait(lock, [&] { return self->at->open; });
  return nullptr;
}

/// Until the kernel no longer counts a thread that has ended, which takes it a little longer.
void wait_for_exit([[maybe_unused]] const waiting_thread& ended) {
#if defined(__linux__)
  for (int tries = 0; tries < 100000 && syscall(SYS_tgkill, getpid(), ended.id, 0) == 0; ++tries) {
    sched_yield();
  }
#endif
}

/// Starts up to `wanted` threads that are there at once, with the stacks of oneTBB's, and ends
/// them. Returns how many they were.
int try_to_start(int wanted) {
  gate at;
  std::vector<waiting_thread> threads(static_cast<std::size_t>(wanted), {&at, {}, 0});
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(
      &attributes, tbb::global_control::active_value(tbb::global_control::thread_stack_size));
  std::size_t started = 0;
  while (started < threads.size() && pthread_create(&threads[started].handle, &attributes,
                                                    wait_at_gate, &threads[started]) == 0) {
    ++started;
  }
  pthread_attr_destroy(&attributes);
  {
    const std::lock_guard<std::mutex> lock(at.mutex);
    at.open = true;
  }
  at.opened.notify_all();
  threads.resize(started);
  for (const waiting_thread& thread : threads) {
    pthread_join(thread.handle, nullptr);
  }
  for (const waiting_thread& thread : threads) {
    wait_for_exit(thread);
  }
  return static_cast<int>(started);
}

}  // namespace

int startable_threads(int wanted) {
  static std::atomic<int> known{0};
  if (wanted <= known.load(std::memory_order_relaxed)) {
    return wanted;
  }
  const int started = try_to_start(wanted);
  if (started < wanted) {
    return started / 2;
  }
  known.store(wanted, std::memory_order_relaxed);
  return wanted;
}

void threads_are_used() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
}

bool threads_are_gone() noexcept { return forked.load(std::memory_order_relaxed); }

}  // namespace cpu
}  // namespace softfold

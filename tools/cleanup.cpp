// SPDX-License-Identifier: Apache-2.0
#include "cleanup.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>

namespace softfold::tool {
namespace {

// Fixed storage: a signal handler may not allocate or lock.
struct slot {
  std::atomic<bool> used = false;
  std::array<char, PATH_MAX> path = {};
};
std::array<slot, 8> slots;
std::atomic<const char*> mapped_path = nullptr;
std::atomic<bool> reports_error = false;
std::atomic<bool> ending = false;  // a handler runs
std::atomic<bool> held = false;    // an `uninterrupted` exists

// The thread that holds has its signals blocked, so this one is another.
void remove_files() noexcept {
  ending.store(true);
  while (held.load()) {
    poll(nullptr, 0, 1);
  }
  for (const slot& s : slots) {
    if (s.used.load()) {
      unlink(s.path.data());
    }
  }
}

void print(const char* text) noexcept {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

extern "C" void end_by_signal(int number) {
  remove_files();
  signal(number, SIG_DFL);
  raise(number);
}

extern "C" void end_by_bus_error(int number) {
  const char* path = mapped_path.load();
  if (path == nullptr) {
    end_by_signal(number);
    return;
  }
  static_assert(decltype(reports_error)::is_always_lock_free);
  while (reports_error.exchange(true)) {
    pause();  // another thread has met the file's new end, too, and ends the process
  }
  remove_files();
  print("softfold: ");
  print(path);
  print(": cannot read: the file shrank or its device failed\n");
  _exit(2);
}

void handle(int number, void (*handler)(int)) noexcept {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  const auto disposition = [](int number) {
    struct sigaction now = {};
    sigaction(number, nullptr, &now);
    return now.sa_handler;
  };
  const auto end_by = [&](int number) {
    if (disposition(number) == SIG_DFL) {  // not ignored, and no sanitizer's
      handle(number, end_by_signal);
    }
  };
  for (const int number : {SIGHUP,  SIGINT,    SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGFPE,
                           SIGUSR1, SIGSEGV,   SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT,
                           SIGXCPU, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGSYS}) {
    end_by(number);
  }
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) {
    end_by(number);
  }
  if (disposition(SIGBUS) != SIG_IGN) {
    handle(SIGBUS, end_by_bus_error);
  }
  signal(SIGXFSZ, SIG_IGN);  // a write over the limit then fails with EFBIG
}

uninterrupted::uninterrupted() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before_);
  held.store(true);
  if (ending.load()) {  // in another thread
    held.store(false);
    for (;;) {
      pause();
    }
  }
}

uninterrupted::~uninterrupted() {
  held.store(false);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int remove_on_signal(const char* path) {
  const std::size_t size = std::strlen(path) + 1;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].used.load() && size <= slots[i].path.size()) {
      std::memcpy(slots[i].path.data(), path, size);
      slots[i].used.store(true);
      return static_cast<int>(i);
    }
  }
  return -1;
}

void forget_slot(int slot) noexcept {
  if (slot >= 0) {
    slots[static_cast<std::size_t>(slot)].used.store(false);
  }
}

void set_mapped_path(const char* path) noexcept { mapped_path.store(path); }

}  // namespace softfold::tool

// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE  // its longjmp takes a jump to another stack for an error

#include "simt.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

constinit thread_local dimension threadIdx{};
constinit thread_local dimension blockIdx{};
constinit thread_local dimension blockDim{};
constinit thread_local dimension gridDim{};

namespace simt {
namespace {

/// Bytes behind a launch's shared memory that no kernel may write.
constexpr std::size_t guard_bytes = 4096;
constexpr unsigned char guard = 0xa5;
alignas(16) constinit thread_local unsigned char shared[shared_bytes + guard_bytes]{};

constexpr int most_lanes = 64;
constexpr int most_threads = 1024;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "softfold: block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
  std::abort();
}

/// Where lanes of a wavefront wait for each other.
enum class meeting { exchange, block, end };

/// A stack and a place in the code. Made by makecontext, switched by setjmp, which makes no system
/// calls.
class fiber {
 public:
  fiber() = default;
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() {
    if (stack_ != nullptr) {
      munmap(stack_, stack_bytes);
    }
  }

  /// Prepares it to run entry(), which never returns.
  void start(void (*entry)()) {
    stack_ = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) {
      stack_ = nullptr;
      fail("no memory for a lane's stack");
    }
    ucontext_t own{};
    ucontext_t caller{};
    getcontext(&own);
    own.uc_stack.ss_sp = stack_;
    own.uc_stack.ss_size = stack_bytes;
    own.uc_link = nullptr;
    starting = {this, entry, &caller};
    makecontext(&own, &fiber::run, 0);
    swapcontext(&caller, &own);
  }

  /// Leaves this one and goes on with another.
  void switch_to(fiber& other) {
    if (_setjmp(place_) == 0) {
      _longjmp(other.place_, 1);
    }
  }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;

  struct start_arguments {
    fiber* self;
    void (*entry)();
    ucontext_t* caller;
  };
  static thread_local start_arguments starting;

  static void run() {
    const start_arguments arguments = starting;
    if (_setjmp(arguments.self->place_) == 0) {
      setcontext(arguments.caller);
    }
    arguments.entry();
  }

  std::jmp_buf place_{};
  void* stack_ = nullptr;
};

thread_local fiber::start_arguments fiber::starting{};

struct wavefront {
  int arrived = 0;
  meeting where = meeting::end;
  bool ended = false;
  alignas(16) std::byte places[2][most_lanes * place_bytes];
};

/// A thread's lanes. They outlive blocks: their fibers are made once.
class block_runner {
 public:
  block_runner() : fibers_(std::make_unique<fiber[]>(most_threads)), waves_(most_threads) {}

  void run(int threads, const std::function<void()>& body) {
    const int width = lanes();
    if (threads % width != 0 || threads > most_threads) {
      fail("a block must be of whole wavefronts and of at most 1024 threads");
    }
    body_ = &body;
    for (; started_ < threads; ++started_) {
      fibers_[static_cast<std::size_t>(started_)].start([] { runner().serve(); });
    }
    const int waves = threads / width;
    for (int w = 0; w < waves; ++w) {
      waves_[static_cast<std::size_t>(w)].ended = false;
    }
    // From barrier to barrier, in turns from both ends: a missing barrier shows in one of them.
    bool forward = true;
    for (int running = waves; running > 0; forward = !forward) {
      for (int i = 0; i < waves; ++i) {
        const int w = forward ? i : waves - 1 - i;
        wavefront& wave = waves_[static_cast<std::size_t>(w)];
        if (!wave.ended) {
          go_to(scheduler_, w * width);
          wave.ended = wave.where == meeting::end;
          running -= wave.ended ? 1 : 0;
        }
      }
    }
  }

  /// Waits for the other lanes of the wavefront; and, but at an exchange, for the block's others.
  void meet(meeting where) {
    const int width = lanes();
    const int thread = static_cast<int>(threadIdx.x);
    wavefront& wave = own_wave();
    if (wave.arrived == 0) {
      wave.where = where;
    } else if (wave.where != where) {
      fail("lanes of a wavefront meet at different places");
    }
    ++wave.arrived;
    fiber& own = fibers_[static_cast<std::size_t>(thread)];
    if (wave.arrived < width) {
      go_to(own, thread + 1);
    } else {
      wave.arrived = 0;
      if (where == meeting::exchange) {
        go_to(own, thread + 1 - width);
      } else {
        own.switch_to(scheduler_);
      }
    }
    threadIdx.x = static_cast<unsigned>(thread);
  }

  const std::byte* exchange(const void* value, std::size_t size) {
    // Two sets of places take turns: lanes may be one exchange ahead.
    const std::size_t thread = threadIdx.x;
    const int set = sets_[thread] ^= 1;
    std::byte* const places = own_wave().places[set];
    if (size > 0) {
      std::memcpy(places + thread % static_cast<std::size_t>(lanes()) * place_bytes, value, size);
    }
    meet(meeting::exchange);
    return places;
  }

  bool any_of_block(bool predicate) {
    meet(meeting::block);
    if (threadIdx.x == 0) {
      any_ = false;
    }
    meet(meeting::block);
    any_ = any_ || predicate;
    meet(meeting::block);
    return any_;
  }

  static block_runner& runner() {
    thread_local block_runner own;
    return own;
  }

 private:
  /// What each lane's fiber does.
  [[noreturn]] void serve() {
    while (true) {
      (*body_)();
      meet(meeting::end);
    }
  }

  wavefront& own_wave() { return waves_[threadIdx.x / static_cast<unsigned>(lanes())]; }

  void go_to(fiber& from, int thread) {
    threadIdx.x = static_cast<unsigned>(thread);
    from.switch_to(fibers_[static_cast<std::size_t>(thread)]);
  }

  std::unique_ptr<fiber[]> fibers_;
  std::vector<wavefront> waves_;
  fiber scheduler_;
  const std::function<void()>* body_ = nullptr;
  int started_ = 0;
  int sets_[most_threads] = {};
  bool any_ = false;
};

int lanes_of_environment() {
  const char* const text = std::getenv("SOFTFOLD_HIP_HOST_LANES");
  if (text == nullptr || std::string_view(text) == "64") {
    return 64;
  }
  if (std::string_view(text) != "32") {
    std::fprintf(stderr, "softfold: SOFTFOLD_HIP_HOST_LANES is %s; expected 32 or 64\n", text);
    std::abort();
  }
  return 32;
}

}  // namespace

int lanes() {
  static const int value = lanes_of_environment();
  return value;
}

void run_block(std::int64_t block, std::int64_t blocks, int threads, std::size_t bytes,
               const std::function<void()>& body) {
  blockIdx.x = static_cast<unsigned>(block);
  gridDim.x = static_cast<unsigned>(blocks);
  blockDim.x = static_cast<unsigned>(threads);
  std::memset(shared, 0xff, bytes);  // NaN: nothing may depend on what the last block left
  unsigned char* const end = shared + bytes;
  std::memset(end, guard, guard_bytes);
  block_runner::runner().run(threads, body);
  if (std::any_of(end, end + guard_bytes, [](unsigned char byte) { return byte != guard; })) {
    fail("something was written beyond the block's shared memory");
  }
}

unsigned char* shared_memory() { return shared; }
const std::byte* exchange(const void* value, std::size_t size) {
  return block_runner::runner().exchange(value, size);
}
void synchronize_block() { block_runner::runner().meet(meeting::block); }
bool any_of_block(bool predicate) { return block_runner::runner().any_of_block(predicate); }

}  // namespace simt
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// SPDX-License-Identifier: Apache-2.0
#include "simt.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include <sys/mman.h>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

constinit thread_local dimension threadIdx{};
constinit thread_local dimension blockIdx{};
constinit thread_local dimension blockDim{};
constinit thread_local dimension gridDim{};

namespace simt {
namespace {

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

const int width = lanes_of_environment();

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

#if defined(__x86_64__)
/// Pushes what a function must keep, leaves the stack's end in *from and goes on where `to` was
/// left. By a return: lanes run the same code, so that the processor foretells to where.
extern "C" void softfold_simt_switch(void** from, void* to);
asm(R"(
  .text
  .p2align 4
  .type softfold_simt_switch, @function
softfold_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size softfold_simt_switch, . - softfold_simt_switch
)");
constexpr std::size_t pushed_registers = 6;
#else
#error "kernels on the processor are for x86-64: a fiber's switch is written in its assembly"
#endif

/// A stack and a place in the code.
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

  /// Prepares it to run entry(), which never returns. Stacks are a power of two apart: each begins
  /// some cache lines further down than the last, or all lanes' frames would be in the same sets.
  void start(void (*entry)(), int thread) {
    stack_ = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) {
      stack_ = nullptr;
      fail("no memory for a lane's stack");
    }
    constexpr std::size_t step = 13 * 64;
    const std::size_t end = stack_bytes - static_cast<std::size_t>(thread % most_lanes) * step;
    // As if entry() had called the switch, and had been called from nowhere.
    auto** const top = reinterpret_cast<void**>(static_cast<std::byte*>(stack_) + end) - 2;
    *top = reinterpret_cast<void*>(entry);
    place_ = top - pushed_registers;
  }

  /// Leaves this one and goes on with another.
  void switch_to(fiber& other) { softfold_simt_switch(&place_, other.place_); }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;

  void* place_ = nullptr;  ///< the end of what it pushed
  void* stack_ = nullptr;
};

struct wavefront {
  int arrived = 0;
  meeting where = meeting::end;
  bool ended = false;
  std::uint64_t ballots[2] = {};
  alignas(16) std::byte places[2][most_lanes * place_bytes];
};

const int width_bits = width == 64 ? 6 : 5;

class block_runner;
/// The thread's, where it has run a block.
constinit thread_local block_runner* running = nullptr;

/// A thread's lanes. They outlive blocks: their fibers are made once.
class block_runner {
 public:
  block_runner() : fibers_(std::make_unique<fiber[]>(most_threads)), waves_(most_threads) {}

  void run(int threads, const std::function<void()>& body) {
    if (threads % width != 0 || threads > most_threads) {
      fail("a block must be of whole wavefronts and of at most 1024 threads");
    }
    body_ = &body;
    for (; started_ < threads; ++started_) {
      fibers_[static_cast<std::size_t>(started_)].start([] { running->serve(); }, started_);
    }
    const int waves = threads / width;
    for (int w = 0; w < waves; ++w) {
      waves_[static_cast<std::size_t>(w)].ended = false;
    }
    // From barrier to barrier, in turns from both ends: a missing barrier shows in one of them.
    bool forward = true;
    for (int unfinished = waves; unfinished > 0; forward = !forward) {
      for (int i = 0; i < waves; ++i) {
        const int w = forward ? i : waves - 1 - i;
        wavefront& wave = waves_[static_cast<std::size_t>(w)];
        if (!wave.ended) {
          go_to(scheduler_, w * width);
          wave.ended = wave.where == meeting::end;
          unfinished -= wave.ended ? 1 : 0;
        }
      }
    }
  }

  /// Waits for the other lanes of the wavefront; and, but at an exchange, for the block's others.
  void meet(meeting where) {
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
    std::byte* const places = own_wave().places[next_set()];
    if (size > 0) {
      std::memcpy(places + static_cast<std::size_t>(lane() * place_bytes), value, size);
    }
    meet(meeting::exchange);
    return places;
  }

  std::uint64_t ballot(bool predicate) {
    wavefront& wave = own_wave();
    const unsigned set = next_set();
    std::uint64_t& votes = wave.ballots[set];
    votes = (wave.arrived == 0 ? 0 : votes) | std::uint64_t{predicate} << lane();
    meet(meeting::exchange);
    return votes;
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

 private:
  /// What each lane's fiber does.
  [[noreturn]] void serve() {
    while (true) {
      (*body_)();
      meet(meeting::end);
    }
  }

  wavefront& own_wave() { return waves_[threadIdx.x >> width_bits]; }
  /// Two sets of places take turns: lanes may be one exchange ahead.
  unsigned next_set() { return sets_[threadIdx.x] ^= 1; }

  void go_to(fiber& from, int thread) {
    threadIdx.x = static_cast<unsigned>(thread);
    from.switch_to(fibers_[static_cast<std::size_t>(thread)]);
  }

  std::unique_ptr<fiber[]> fibers_;
  std::vector<wavefront> waves_;
  fiber scheduler_;
  const std::function<void()>* body_ = nullptr;
  int started_ = 0;
  unsigned sets_[most_threads] = {};
  bool any_ = false;
};

}  // namespace

void run_block(std::int64_t block, std::int64_t blocks, int threads, std::size_t bytes,
               const std::function<void()>& body) {
  blockIdx.x = static_cast<unsigned>(block);
  gridDim.x = static_cast<unsigned>(blocks);
  blockDim.x = static_cast<unsigned>(threads);
  std::memset(shared, 0xff, bytes);  // NaN: nothing may depend on what the last block left
  unsigned char* const end = shared + bytes;
  std::memset(end, guard, guard_bytes);
  thread_local block_runner own;
  running = &own;
  own.run(threads, body);
  if (std::any_of(end, end + guard_bytes, [](unsigned char byte) { return byte != guard; })) {
    fail("something was written beyond the block's shared memory");
  }
}

unsigned char* shared_memory() { return shared; }
const std::byte* exchange(const void* value, std::size_t size) {
  return running->exchange(value, size);
}
std::uint64_t ballot(bool predicate) { return running->ballot(predicate); }
void synchronize_block() { running->meet(meeting::block); }
bool any_of_block(bool predicate) { return running->any_of_block(predicate); }

}  // namespace simt
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

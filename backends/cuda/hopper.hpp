// SPDX-License-Identifier: Apache-2.0
/// \file
/// What devices of compute capability 9.0 and newer add: thread block clusters, which exchange
/// values through each other's shared memory, and bulk copies into shared memory. PTX ISA, sections
/// "mbarrier", "cp.async.bulk", "st.async" and "barrier.cluster".
#pragma once

#include <gpu/contract.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define SOFTFOLD_GPU_HOPPER 0
#else
#define SOFTFOLD_GPU_HOPPER 1
#endif

#if SOFTFOLD_GPU_HOPPER

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

namespace cluster {

/// The number of the cluster in its grid, of one dimension.
__device__ inline int number() {
  unsigned n;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(n));
  return static_cast<int>(n);
}

__device__ inline int rank() {
  unsigned r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return static_cast<int>(r);
}

/// Says that this thread is here. All threads of the cluster do, and wait after it.
__device__ inline void arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
/// Waits for all threads' arrival: their blocks run, and their barriers are initialised.
__device__ inline void wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

}  // namespace cluster

/// Orders what this thread wrote to shared memory before the copies in bulk that follow it.
__device__ inline void fence_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// A barrier in shared memory that counts arrivals and bytes. Each of its phases ends when
/// `arrivals` threads have arrived and all bytes announced have come.
class transfer_barrier {
 public:
  __device__ void initialise(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&word_)),
                 "r"(arrivals)
                 : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __device__ void arrive() {
    asm volatile(
        "mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(&word_))
        : "memory");
  }
  /// Arrives, and announces that `bytes` will come.
  __device__ void arrive_and_expect(unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(&word_)),
                 "r"(bytes)
                 : "memory");
  }
  /// Arrives, and starts the copy of `bytes`, a multiple of 16, from `from` to the shared `to`,
  /// both aligned to 16 bytes.
  __device__ void copy(void* to, const void* from, unsigned bytes) {
    arrive_and_expect(bytes);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(&word_))
        : "memory");
  }
  /// Counts the copies that this thread has started by copy_ahead, until they have come. Whoever
  /// waits needs another arrival after it.
  __device__ void count_copies() {
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(shared_address(&word_))
                 : "memory");
  }
  /// Sends a value of 4, 8 or a multiple of 16 bytes to the same shared variable of block `rank` of
  /// the cluster, and counts its bytes at that block's copy of this barrier. Nothing else is
  /// ordered by it.
  template <class T>
  __device__ void send(T* shared, const T& value, int rank) {
    std::uint32_t to;
    std::uint32_t barrier;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(shared)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(barrier)
        : "r"(shared_address(&word_)), "r"(rank));
    if constexpr (sizeof(T) == 4) {
      std::uint32_t word;
      memcpy(&word, &value, sizeof(T));
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
          "r"(word), "r"(barrier)
          : "memory");
    } else if constexpr (sizeof(T) == 8) {
      std::uint64_t word;
      memcpy(&word, &value, sizeof(T));
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to),
          "l"(word), "r"(barrier)
          : "memory");
    } else {
      static_assert(sizeof(T) % 16 == 0);
      std::uint64_t words[sizeof(T) / 8];
      memcpy(words, &value, sizeof(T));
#pragma unroll
      for (unsigned i = 0; i < sizeof(T) / 8; i += 2) {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, [%3];" ::
                "r"(to + 8 * i),
            "l"(words[i]), "l"(words[i + 1]), "r"(barrier)
            : "memory");
      }
    }
  }
  /// Waits for the end of a phase; phases are numbered modulo 2. What came by copies and from the
  /// block's own threads is seen after it.
  __device__ void wait(int phase) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}" ::"r"(shared_address(&word_)),
        "r"(phase)
        : "memory");
  }
  /// The same for what other blocks of the cluster sent.
  __device__ void wait_for_cluster(int phase) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}" ::"r"(shared_address(&word_)),
        "r"(phase)
        : "memory");
  }

 private:
  std::uint64_t word_ = 0;  // a shared variable may have a constant initialiser, if without effect
};

/// A way round a ring: the slot's number, and how often it has been passed, modulo 2.
struct ring_position {
  int slot = 0;
  int phase = 0;

  __device__ void advance(int slots, int steps = 1) {
    slot += steps;
    if (slot >= slots) {
      slot -= slots;
      phase ^= 1;
    }
  }
};

#endif

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

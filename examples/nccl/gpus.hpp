// SPDX-License-Identifier: Apache-2.0
// What the examples of several GPUs share: errors, streams, one exchange of states, the program.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

inline void check(cudaError_t status) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
  }
}
inline void check(ncclResult_t status) {
  if (status != ncclSuccess) {
    throw std::runtime_error(std::string("NCCL: ") + ncclGetErrorString(status));
  }
}

inline cudaStream_t new_stream(int device) {
  cudaStream_t stream = nullptr;
  check(cudaSetDevice(device));
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

/// NCCL's communicators of the first GPUs, one each.
class communicators {
 public:
  explicit communicators(int gpus) : all_(static_cast<std::size_t>(gpus)) {
    check(ncclCommInitAll(all_.data(), gpus, nullptr));
  }
  ~communicators() {
    for (const ncclComm_t one : all_) {
      static_cast<void>(ncclCommDestroy(one));
    }
  }
  communicators(const communicators&) = delete;
  communicators& operator=(const communicators&) = delete;

  /// Every GPU's `mine`, `bytes` long, into every GPU's `gathered`, in order, on their streams.
  template <class Gpu>
  void all_gather(std::vector<Gpu>& gpus, std::size_t bytes) const {
    check(ncclGroupStart());
    for (Gpu& g : gpus) {
      check(ncclAllGather(g.mine.data(), g.gathered.data(), bytes, ncclUint8,
                          all_[static_cast<std::size_t>(g.device)], g.stream));
    }
    check(ncclGroupEnd());
  }

 private:
  std::vector<ncclComm_t> all_;
};

/// main() of an example: run(GPUs) gives the number of `what` that are not those of one call.
inline int run_on_gpus(int argc, char** argv, int (*run)(int gpus), const char* what) {
  try {
    int gpus = 0;
    check(cudaGetDeviceCount(&gpus));
    if (argc > 1) {
      gpus = std::clamp(std::atoi(argv[1]), 1, gpus);
    }
    const int failures = run(gpus);
    std::printf("%d GPUs: %d %s\n", gpus, failures, what);
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

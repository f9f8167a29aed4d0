// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"

namespace softfold::bench {

std::vector<contender> all_contenders() {
  return {
      softfold_contender(),
      memcpy_contender(),
      copy_kernel_contender(),
      one_read_contender(),
#ifdef SOFTFOLD_BENCH_CUDNN
      cudnn_contender(),
#else
      {.name = "cudnn", .absent = "cuDNN 9 (-DSOFTFOLD_CUDNN_ROOT=DIRECTORY says where it is)"},
#endif
      cub_contender(),
      paper_naive_contender(),
      paper_safe_contender(),
      paper_online_contender(),
      paper_safe_unfused_contender(),
      paper_safe_fused_contender(),
      paper_online_fused_contender(),
  };
}

std::string standard_peer(const bench_case& c) {
  switch (c.op) {
    case operation::logsumexp:
      return "cub";
    case operation::softmax_topk:
      return "paper_safe_unfused";
    default:
      return "cudnn";
  }
}

// A copy of half of the input moves as many bytes as one read of all of it.
std::vector<std::string> ceilings(const bench_case& /*c*/) { return {"memcpy", "copy_kernel"}; }

}  // namespace softfold::bench

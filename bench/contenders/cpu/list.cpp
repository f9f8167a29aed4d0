// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"

namespace softfold::bench {

std::vector<contender> all_contenders() {
  return {
      softfold_contender(),         memcpy_contender(),
      copy_nontemporal_contender(), one_read_contender(),
#ifdef SOFTFOLD_BENCH_ONEDNN
      onednn_contender(),           onednn_partial_sort_contender(),
#else
      {.name = "onednn", .absent = "libdnnl-dev"},
      {.name = "onednn_partial_sort", .absent = "libdnnl-dev"},
#endif
#ifdef SOFTFOLD_BENCH_XNNPACK
      xnnpack_contender(),
#else
      {.name = "xnnpack", .absent = "libxnnpack-dev libpthreadpool-dev"},
#endif
      partial_sort_contender(),     seed_safe_contender(),
      seed_online_contender(),
  };
}

std::string standard_peer(const bench_case& c) {
  return c.op == operation::softmax_topk ? "onednn_partial_sort" : "onednn";
}

std::vector<std::string> ceilings(const bench_case& c) {
  return {c.writes_matrix() ? "memcpy" : "one_read"};
}

}  // namespace softfold::bench

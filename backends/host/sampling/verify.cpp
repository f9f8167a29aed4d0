// SPDX-License-Identifier: Apache-2.0
/// \file
/// verify: chains by the definition's own steps, which need no memory; a thread for each.
#include <backends/host/parallel.hpp>
#include <backends/host/run.hpp>

#include <core/real_types.hpp>
#include <core/verify_row.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

namespace sampling = core::sampling;

void run(executor& on, const core::coupled_problem& p) {
  over_each(on, p.draft_tokens.rows, p.tokens.cols,
            [&](std::int64_t chain) { sampling::verify_coupled(p, chain); });
}

void run(executor& on, const core::ratio_problem& p) {
  core::with_real(p.draft.type, [&]<class T>(T) {
    const auto targets = sampling::rows_in<T>(p.sampling.x);
    const auto drafts = sampling::rows_in<T>(p.draft);
    over_each(on, p.draft_tokens.rows, p.draft.cols, [&](std::int64_t chain) {
      sampling::row_memory memory;
      const sampling::one_lane lane;
      sampling::ratio_chain<core::arithmetic_t<T>, sampling::one_lane, sampling::rows_of<T>>(
          lane, memory, targets, drafts, p, chain)
          .run();
    });
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// A row's results on their way out: the chunk's state where there are several, else the output.
#pragma once

#include <gpu/attention/block.hpp>
#include <gpu/contract.hpp>

#include <core/attention.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
struct row_results {
  using A = arithmetic_t<In>;

  std::int64_t to;  ///< where the row's column 0 is: of the chunk's weighted sums, or of the output
  attention_output<A> output;

  /// Of a row of the block's key head; one of its threads writes what the row has one of.
  __device__ static row_results of(const core::attention_problem& p,
                                   const attention_parts<A>& parts, const attention_block& block,
                                   std::int64_t row, A max, double sum, bool writes_state) {
    const auto at = head_and_token::of(p, block.key_head, row);
    const std::int64_t token = block.in.first_query + at.token;
    const std::int64_t place = block.place(p, row);
    const auto finish =
        core::attention_finish<A>::of(p, at.head, core::public_state(max, static_cast<A>(sum)));
    const bool is_part = parts.chunks > 1;
    if (writes_state && is_part) {
      parts.states[place] = {static_cast<double>(max), sum};
    } else if (writes_state) {
      core::write_attention_state(p, block.in.batch, at.head, token, finish.both.whole);
    }
    return {is_part ? place * p.v.dim : core::offset_of(p.out, block.in.batch, at.head, token),
            attention_output<A>::of(p, finish)};
  }
  /// A column's weighted sum.
  __device__ void write(const core::attention_problem& p, const attention_parts<A>& parts,
                        int column, A sum) const {
    if (parts.chunks > 1) {
      parts.weighted[to + column] = sum;
    } else {
      store_value<In>(p.out, to + column, output(sum));
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

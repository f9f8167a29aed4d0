// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is wanted of rows as they are: logsumexps, and log-probabilities of the tokens and of the
/// first elements, after everything else of a call.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/reproducible/totals.hpp>
#include <gpu/uninitialised.hpp>

#include <core/reproducible.hpp>
#include <core/sample_problem.hpp>
#include <core/typed_memory.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline bool wants_raws(const sample_options& o) {
  return o.lse.data != nullptr || o.raw_log_probability.data != nullptr ||
         o.top_indices.data != nullptr;
}

/// A block for each row. Its total is found, or of its parts.
template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(4))
    raw_of_rows(const row_source<In> source, const core::sample_problem problem,
                const row_chunks chunks, const part_total<float>* parts,
                const core::reproducible::row_total<float>* totals) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  __shared__ uninitialised<total_memory<float>> shared;
  __shared__ uninitialised<core::reproducible::row_total<float>> shared_total;
  wait_for_launch_before();
  const std::int64_t row = blockIdx.x;
  core::reproducible::row_total<float>& total = shared_total.get();
  if (totals == nullptr) {
    const auto found = total_of_row<lanes>(source, row, chunks, 1.0F, parts, shared.get(), {});
    if (threadIdx.x == 0) {
      total = core::reproducible::row_total<float>::of(1, found.largest, found.sum);
    }
  } else if (threadIdx.x == 0) {
    total = totals[row];
  }
  __syncthreads();
  const auto log_of = [&](float x) {
    return total.kind == sampling::row_kind::ordinary ? static_cast<double>(total.log_softmax(x))
                                                      : sampling::log_probability_of(total.kind);
  };
  const sample_options& o = problem.options;
  if (threadIdx.x == 0 && o.lse.data != nullptr) {
    sampling::write_result(o.lse.data, o.lse.type, row, static_cast<double>(total.lse));
  }
  // In the place of the elements.
  const matrix_ref& first = o.top_log_probabilities;
  for (std::int64_t i = threadIdx.x; first.data != nullptr && i < first.cols; i += blockDim.x) {
    const std::int64_t at = row * first.stride + i;
    sampling::write_result(first.data, first.type, at,
                           log_of(core::real_at<float>(first.data, first.type, at)));
  }
  const matrix_ref& of_tokens = o.raw_log_probability;
  for (std::int64_t draw = threadIdx.x; of_tokens.data != nullptr && draw < of_tokens.cols;
       draw += blockDim.x) {
    const std::int64_t token = core::integer_at(problem.tokens.data, problem.tokens.type,
                                                row * problem.tokens.stride + draw);
    const bool is_valid = sampling::are_valid<float>(sampling::parameters_of(o, row));
    const sampling::row_kind none = is_valid ? total.kind : sampling::row_kind::invalid;
    sampling::write_result(of_tokens.data, of_tokens.type, row * of_tokens.stride + draw,
                           token >= 0 ? log_of(static_cast<float>(widen(source.row(row)[token])))
                                      : sampling::log_probability_of(none));
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

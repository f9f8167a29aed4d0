// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fills a kernel_table. A translation unit of isa/ includes its vector type and then this.
#pragma once

#include <backends/host/kernels/attention.hpp>
#include <backends/host/kernels/attention_states.hpp>
#include <backends/host/kernels/edit.hpp>
#include <backends/host/kernels/fold.hpp>
#include <backends/host/kernels/gradient.hpp>
#include <backends/host/kernels/masses.hpp>
#include <backends/host/kernels/output.hpp>
#include <backends/host/kernels/race.hpp>
#include <backends/host/kernels/reproducible.hpp>
#include <backends/host/kernels/reproducible_gradient.hpp>
#include <backends/host/kernels/reproducible_short.hpp>
#include <backends/host/kernels/sampling.hpp>
#include <backends/host/kernels/scan.hpp>
#include <backends/host/kernels/select.hpp>
#include <backends/host/kernels/short_rows.hpp>
#include <backends/host/kernels/topk_rows.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
constexpr input_kernels input_kernels_of() {
  return {
      .fold = fold_kernels<T>::fold,
      .extremes = fold_kernels<T>::extremes,
      .group_maxima = select_kernels<T>::group_maxima,
      .sum = fold_kernels<T>::sum,
      .exponentials = exponentials_kernel<T>,
      .fold_groups = select_kernels<T>::fold_groups,
      .keep_above = select_kernels<T>::keep_above,
      .nearly_kth = select_kernels<T>::nearly_kth,
      .filter = select_kernels<T>::filter,
      .keep = edit_kernels<T>::keep,
      .add_bias = edit_kernels<T>::add_bias,
      .cap_and_keep = edit_kernels<arithmetic_t<T>>::cap_and_keep,
      .narrow = edit_kernels<T>::narrow,
      .topk = topk_rows_kernel<T>(),
      .race = race_kernels<T>::race,
      .race_of_list = race_kernels<T>::race_of_list,
      .fold_sample = sampling_kernels<T>::fold_sample,
      .weigh = mass_kernels<T>::weigh,
      .measure = mass_kernels<T>::measure,
      .about_above = mass_kernels<T>::about_above,
      .sum_above = mass_kernels<T>::sum_above,
      .reproducible_fold = reproducible_fold_kernel<T>,
      .reproducible_total = reproducible_total<arithmetic_t<T>>,
      .reproducible_short_totals =
          reproducible_short_kernel<T, arithmetic_t<T>, short_result::totals>(),
      .reproducible_state = reproducible_state<arithmetic_t<T>>,
  };
}

template <class Kernels, class Reproducible>
constexpr gradient_functions gradient_functions_of() {
  return {.sum = Kernels::sum,
          .map = Kernels::map,
          .short_rows = Kernels::short_rows,
          .tiles = Reproducible::tiles,
          .reproducible_map = Reproducible::map,
          .reproducible_short_rows = Reproducible::short_rows};
}

template <class T, class Out>
constexpr output_kernels output_kernels_of() {
  using A = arithmetic_t<T>;
  return {
      .probabilities = row_output<T, Out>::probabilities,
      .log_probabilities = row_output<T, Out>::log_probabilities,
      .scaled = row_output<T, Out>::scaled,
      .fold_and_stream = row_output<T, Out>::fold_and_stream,
      .scan = scan_kernel<T, Out>,
      .short_softmax = short_rows_kernel<T, Out, short_result::softmax>,
      .short_log_softmax = short_rows_kernel<T, Out, short_result::log_softmax>,
      .short_logsumexp = short_rows_kernel<T, A, short_result::logsumexp>,
      .reproducible_softmax = reproducible_output<T, Out>::softmax,
      .reproducible_scaled = reproducible_output<T, Out>::scaled,
      .reproducible_fold_and_stream = reproducible_output<T, Out>::fold_and_stream,
      .reproducible_log_softmax = reproducible_output<T, Out>::log_softmax,
      .reproducible_short_softmax = reproducible_short_kernel<T, Out, short_result::softmax>(),
      .reproducible_short_log_softmax =
          reproducible_short_kernel<T, Out, short_result::log_softmax>(),
      .reproducible_short_logsumexp = reproducible_short_kernel<T, A, short_result::logsumexp>(),
      .attention_result = attention_states<T>::template result<Out>,
      .softmax_gradient = gradient_functions_of<gradient_kernels<T, Out, softmax_gradient>,
                                                reproducible_gradient<T, Out, false>>(),
      .log_softmax_gradient = gradient_functions_of<gradient_kernels<T, Out, log_softmax_gradient>,
                                                    reproducible_gradient<T, Out, true>>(),
  };
}

constexpr kernel_table kernels_of(const char* isa) {
  return {
      .isa = isa,
      .lanes_f32 = vec<float>::lanes,
      .end_of_stream = [] { end_of_stream(); },
      .rank = select_kernels<float>::rank,
      .input = {input_kernels_of<float>(), input_kernels_of<double>(), input_kernels_of<f16_bits>(),
                input_kernels_of<bf16_bits>()},
      .attention = {attention_kernel<float>, attention_kernel<double>, attention_kernel<f16_bits>,
                    attention_kernel<bf16_bits>},
      .attention_at_once = {{attention_row_blocks, attention_key_block},
                            {attention_row_blocks, attention_key_block},
                            {attention_row_blocks, attention_key_block},
                            {attention_row_blocks, attention_key_block}},
      .attention_add = {attention_states<float>::add, attention_states<double>::add,
                        attention_states<f16_bits>::add, attention_states<bf16_bits>::add},
      .output = {{output_kernels_of<float, float>(), output_kernels_of<float, float>()},
                 {output_kernels_of<double, double>(), output_kernels_of<double, double>()},
                 {output_kernels_of<f16_bits, f16_bits>(), output_kernels_of<f16_bits, float>()},
                 {output_kernels_of<bf16_bits, bf16_bits>(),
                  output_kernels_of<bf16_bits, float>()}},
  };
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

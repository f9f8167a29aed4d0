// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the package uses of the C interface. A new function is a line here and its binding in
/// module.cpp.
#pragma once

// clang-format off
#define SOFTFOLD_PYTHON_FUNCTIONS(X) \
  X(last_error) \
  X(version) \
  X(queue_create) \
  X(queue_create_on_with_options) \
  X(queue_destroy) \
  X(queue_info) \
  X(queue_wait) \
  X(softmax) \
  X(log_softmax) \
  X(logsumexp) \
  X(softmax_backward) \
  X(log_softmax_backward) \
  X(scan) \
  X(topk_with_options) \
  X(softmax_topk) \
  X(sample) \
  X(verify) \
  X(attention) \
  X(fold_attention) \
  X(combine_attention) \
  X(normalize_attention) \
  X(row_states_create) \
  X(row_states_create_sampling) \
  X(row_states_destroy) \
  X(row_states_get) \
  X(row_states_fold_with_options) \
  X(row_states_combine) \
  X(row_states_append_rows) \
  X(row_states_finish) \
  X(row_states_finish_sample) \
  X(row_states_to_bytes) \
  X(row_states_from_bytes) \
  X(attention_states_create) \
  X(attention_states_destroy) \
  X(attention_states_get) \
  X(attention_states_fold) \
  X(attention_states_combine) \
  X(attention_states_to_bytes) \
  X(attention_states_from_bytes)
// clang-format on

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The states of attention as a value in the host's memory: what is written to files, sent to other
/// processes, and combined there, whatever backend made it.
#pragma once

#include <softfold/attention.hpp>
#include <softfold/row_states.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

/// For each query the state (m, d, o) of the keys folded so far, as fold_attention makes it, and
/// which keys these are, so that none is counted twice.
///
/// Arithmetic runs on the queue that a function is given; functions wait for it. A function that
/// throws leaves the states as they were. Errors name the argument, its value and what was
/// expected. Memory: batches x heads x tokens x (dim + 2) numbers.
class SOFTFOLD_API attention_states {
 public:
  /// The states of no keys for queries [batches, heads, tokens] and values of `dim`, 1 to 512,
  /// elements. `type`, f32 or f64, is the arithmetic's.
  attention_states(dtype type, std::int64_t batches, std::int64_t heads, std::int64_t tokens,
                   std::int64_t dim);

  [[nodiscard]] dtype type() const noexcept { return type_; }
  [[nodiscard]] std::int64_t batches() const noexcept { return batches_; }
  [[nodiscard]] std::int64_t heads() const noexcept { return heads_; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t dim() const noexcept { return dim_; }
  /// The keys folded so far: ranges in order that neither meet nor overlap.
  [[nodiscard]] std::span<const column_range> keys() const noexcept { return keys_; }
  /// Whether the heads' sinks are among the scores.
  [[nodiscard]] bool has_sinks() const noexcept { return has_sinks_; }

  /// (m, d), [batches heads tokens], and o, [batches, heads, tokens, dim], in the host's memory.
  /// Valid until the states change.
  [[nodiscard]] const_partials_ref states() const noexcept;
  [[nodiscard]] const_tensor_ref weighted() const noexcept;

  /// Adds keys options.key_offset, ..., options.key_offset + key.tokens - 1 of every batch. All
  /// memory is the queue's device's; q is [batches, heads, tokens, any], of type f64 where type()
  /// is f64, of f32, f16 or bf16 where it is f32. Throws error(invalid_argument) if one of the keys
  /// was folded before, for sinks a second time, and for packed tokens, whose sequences have keys
  /// of their own.
  void fold(queue& q, const_tensor_ref query, const_tensor_ref key, const_tensor_ref value,
            const attention_options& options = {});

  /// Adds the states of other keys of the same queries: of the same type and shape. Throws
  /// error(invalid_argument) if one of the keys, or the sinks, are in both.
  void combine(queue& q, const attention_states& more);

  /// out = o / d, [batches, heads, tokens, dim] in the host's memory, f32, f16 or bf16, of f64
  /// states f64; and the logsumexp of the scores, [batches heads tokens], of type(), if it has
  /// data.
  void finish(queue& q, tensor_ref out, vector_ref lse = {},
              softfold::empty_row empty_row = softfold::empty_row::zero) const;

  /// The states in the byte format of docs/state_format.md, which is the same on every machine.
  [[nodiscard]] std::vector<std::byte> to_bytes() const;
  /// How many bytes these are.
  [[nodiscard]] std::size_t byte_count() const noexcept;

  /// The states that to_bytes() wrote, here or elsewhere. As row_states::from_bytes reads no more
  /// than `bytes` and throws error(invalid_data).
  [[nodiscard]] static attention_states from_bytes(std::span<const std::byte> bytes);

 private:
  dtype type_;
  std::int64_t batches_;
  std::int64_t heads_;
  std::int64_t tokens_;
  std::int64_t dim_;
  bool has_sinks_ = false;
  std::vector<column_range> keys_;
  std::vector<std::byte> states_;
  std::vector<std::byte> weighted_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
